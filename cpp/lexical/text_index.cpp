#include "lexical/text_index.hpp"

#include <algorithm>
#include <array>
#include <new>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "base/sort_numbers.hpp"

namespace spector {

namespace {

// True if token i of the compound is the exact form of a letters-only identifier: the same text
// follows as a word (analyzer.hpp). Such forms are terms of their own, or the name `ServerApi`
// would be the stem of `ServerApy` (TOK-12).
bool is_name(const TokenStream& stream, const Compound& compound, std::uint32_t i) noexcept {
  if (i + 1 >= compound.n_tokens) return false;
  const Token& exact = stream.tokens[compound.first_token + i];
  const Token& next = stream.tokens[compound.first_token + i + 1];
  return !exact.word && next.word && exact.begin == next.begin && exact.size == next.size;
}

// No token begins with the mark.
constexpr char kNameMark = '=';

// So many tokens ahead a table is asked for its part about one.
constexpr std::size_t kAhead = 16;

std::string name_key(std::string_view name) { return kNameMark + std::string(name); }

}  // namespace

void AnalysedBatch::begin_document() { document_begins_.push_back(tokens_.size()); }

void AnalysedBatch::add(const TokenStream& stream) {
  std::array<std::uint32_t, kAhead> hashes{};  // of the next tokens
  const auto ask_for = [&](std::size_t at) {
    const Token& token = stream.tokens[at];
    const std::uint32_t hash = StringTable::hash(stream.text(token));
    hashes[at % kAhead] = hash;
    (token.word ? words_ : exact_).prefetch(hash);
  };
  const auto ask_for_string = [&](std::size_t at) {
    (stream.tokens[at].word ? words_ : exact_).prefetch_string(hashes[at % kAhead]);
  };
  for (std::size_t at = 0; at < std::min(kAhead, stream.tokens.size()); ++at) ask_for(at);
  for (const Compound& compound : stream.compounds) {
    std::uint32_t mark = kFirst;
    for (std::uint32_t i = 0; i < compound.n_tokens; ++i) {
      const std::uint64_t at = compound.first_token + i;
      const Token& token = stream.tokens[at];
      const std::uint32_t hash = hashes[at % kAhead];
      if (at + kAhead / 2 < stream.tokens.size()) ask_for_string(at + kAhead / 2);
      if (at + kAhead < stream.tokens.size()) ask_for(at + kAhead);
      std::uint32_t number = 0;
      if (token.word) {
        number = words_.intern(stream.text(token), hash);
      } else if (is_name(stream, compound, i)) {
        number = exact_.intern(name_key(stream.text(token)));
      } else {
        number = exact_.intern(stream.text(token), hash);
      }
      if (number >= kFirst / 2) throw Capacity("more than 2^30 distinct tokens in one batch");
      tokens_.push_back((number * 2 + (token.word ? 1 : 0)) | mark);
      mark = 0;
    }
  }
}

TextIndex::TextIndex(double k1, double b, bool stemming, bool stop_words, const MergePolicy& policy)
    : stop_words_(stop_words),
      vocabulary_(std::make_unique<Vocabulary>(stemming, epochs_)),
      index_(k1, b, epochs_, policy),
      view_(std::make_unique<const View>(View{vocabulary_.get(), index_.state()})),
      merges_(index_, writer_, [this] { publish(); }) {}

OrNeedStems<std::size_t> TextIndex::put(std::span<const std::uint32_t> slots,
                                        std::span<const AnalysedBatch> batches,
                                        const Stems& stems) {
  const std::scoped_lock lock(writer_);
  StringTable unknown;
  std::vector<BatchTerms> terms;
  for (const AnalysedBatch& batch : batches) {
    terms.push_back(
        {vocabulary_->find_all(batch.words_, true), vocabulary_->find_all(batch.exact_, false)});
    if (!vocabulary_->stemming()) continue;
    for (std::uint32_t word = 0; word < batch.words_.size(); ++word) {
      if (terms.back().words[word] != Vocabulary::kNone) continue;
      const std::string_view text = batch.words_[word];
      if (!stems.contains(std::string(text))) unknown.intern(text);
    }
  }
  if (unknown.size() > 0) {
    NeedStems need;
    need.words.reserve(unknown.size());
    for (std::uint32_t i = 0; i < unknown.size(); ++i) need.words.emplace_back(unknown[i]);
    return need;
  }
  std::size_t n = 0;
  try {
    for (std::size_t i = 0; i < batches.size(); ++i) {
      put_batch(slots.subspan(n, batches[i].size()), batches[i], terms[i], stems);
      n += batches[i].size();
    }
    put_documents();
  } catch (...) {
    documents_.clear();
    publish();  // the documents before
    throw;
  }
  publish();
  drop_unused_terms();
  merges_.changed();
  return n;
}

void TextIndex::put_batch(std::span<const std::uint32_t> slots, const AnalysedBatch& batch,
                          BatchTerms& terms, const Stems& stems) {
  const auto add_new = [&](const StringTable& texts, std::vector<std::uint32_t>& numbers,
                           bool word) {
    for (std::uint32_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] == Vocabulary::kNone) numbers[i] = vocabulary_->intern(texts[i], word, stems);
    }
  };
  add_new(batch.words_, terms.words, true);
  add_new(batch.exact_, terms.exact, false);
  for (std::size_t document = 0; document < batch.size(); ++document) {
    const std::uint64_t begin = batch.document_begins_[document];
    const std::uint64_t end =
        document + 1 < batch.size() ? batch.document_begins_[document + 1] : batch.tokens_.size();
    put_document(slots[document], std::span(batch.tokens_).subspan(begin, end - begin), terms);
  }
}

void TextIndex::put_document(std::uint32_t slot, std::span<const std::uint32_t> tokens,
                             const BatchTerms& terms) {
  occurrences_.clear();
  std::uint32_t length = 0;
  std::size_t compound = 0;  // where the terms of the present compound begin
  const auto close_compound = [&] {
    // A position counts a term once, whatever number of its parts have that stem (TOK-9).
    const auto first = occurrences_.begin() + static_cast<std::ptrdiff_t>(compound);
    if (occurrences_.end() - first < 2) return;
    std::sort(first, occurrences_.end());
    occurrences_.erase(std::unique(first, occurrences_.end()), occurrences_.end());
  };
  for (const std::uint32_t token : tokens) {
    if ((token & AnalysedBatch::kFirst) != 0) {
      close_compound();
      compound = occurrences_.size();
      ++length;
    }
    const std::uint32_t number = (token & ~AnalysedBatch::kFirst) >> 1;
    occurrences_.push_back((token & 1) != 0 ? terms.words[number] : terms.exact[number]);
  }
  close_compound();
  sort_numbers(occurrences_, sorting_);
  counts_.clear();
  for (const std::uint32_t term : occurrences_) {
    if (!counts_.empty() && counts_.back().term == term) {
      ++counts_.back().count;
    } else {
      counts_.push_back({term, 1});
    }
  }
  documents_.add(slot, length, counts_);
  if (documents_.size() == Bm25Index::kMaxBatch) put_documents();
}

void TextIndex::put_documents() {
  index_.put(documents_);
  documents_.clear();
}

std::size_t TextIndex::erase(std::span<const std::uint32_t> slots) {
  const std::scoped_lock lock(writer_);
  std::size_t erased = 0;
  for (const std::uint32_t slot : slots) erased += index_.erase(slot) ? 1 : 0;
  if (erased > 0) {
    publish();
    drop_unused_terms();
    merges_.changed();
  }
  return erased;
}

void TextIndex::compact() {
  const std::scoped_lock lock(writer_);
  compact_unpublished();
  publish();
}

void TextIndex::save(const std::string& path, IndexSettings settings, const RowTable& rows) {
  const std::scoped_lock lock(writer_);
  if (!index_.sealed() || vocabulary_->size() != index_.n_terms()) {
    compact_unpublished();
    publish();
  }
  IndexContents contents{};
  contents.kind = IndexKind::kTexts;
  contents.settings = std::move(settings);
  contents.settings.k1 = index_.k1();
  contents.settings.b = index_.b();
  contents.segment = index_.sealed().value_or(nullptr);
  const std::uint64_t seed = random_seed();
  StringFreezer ids;
  StringFreezer terms;
  StringFreezer words;
  contents.next_row = rows.freeze(contents.slots(), ids);
  for (std::uint32_t i = 0; i < vocabulary_->size(); ++i) terms.add(vocabulary_->term(i));
  for (std::uint32_t i = 0; i < vocabulary_->words().size(); ++i)
    words.add(vocabulary_->words()[i]);
  contents.ids = ids.finish(seed);
  contents.terms = terms.finish(seed);
  contents.words = words.finish(seed);
  contents.word_terms = vocabulary_->word_terms();
  save_index(path, contents);
}

void TextIndex::load(const IndexFile& file) {
  const std::scoped_lock lock(writer_);
  auto vocabulary = std::make_unique<Vocabulary>(vocabulary_->stemming(), epochs_, file.terms(),
                                                 file.words(), file.word_terms().values);
  index_.adopt(file.segment());
  vocabulary_.swap(vocabulary);
  old_vocabulary_ = std::move(vocabulary);
  publish();
}

void TextIndex::compact_unpublished() {
  const std::vector<std::uint32_t> numbers = index_.compact_numbers();
  std::unique_ptr<Vocabulary> vocabulary = vocabulary_->renumbered(numbers, Bm25Index::kDropped);
  index_.compact(numbers);
  vocabulary_.swap(vocabulary);
  old_vocabulary_ = std::move(vocabulary);
}

void TextIndex::drop_unused_terms() {
  if (!index_.wastes_terms(vocabulary_->size())) return;
  try {
    compact_unpublished();
    publish();
  } catch (const std::bad_alloc&) {
    // The index is whole as it is; a later change tries again.
    return;
  }
}

void TextIndex::publish() {
  epochs_.reserve(1);
  view_.publish(std::make_unique<const View>(View{vocabulary_.get(), index_.state()}), epochs_);
  index_.published();
  if (old_vocabulary_) {
    const std::size_t bytes = old_vocabulary_->memory_bytes();
    epochs_.retire(std::move(old_vocabulary_), bytes);
  }
}

std::vector<std::string> TextIndex::missing(const Vocabulary& vocabulary, const TokenStream& stream,
                                            const Stems& stems) {
  std::vector<std::string> words;
  for (const Token& token : stream.tokens) {
    const std::string_view text = stream.text(token);
    if (vocabulary.needs_stem(text, token.word) && !stems.contains(std::string(text))) {
      words.emplace_back(text);
    }
  }
  return words;
}

std::vector<QueryTerm> TextIndex::resolve(const View& view, const EpochDomain::Pin& pin,
                                          const TokenStream& query, const Stems& stems) const {
  constexpr double kPartWeight = 0.25;
  // Other spellings of a name come after every text that has it as it was asked for: even one a
  // thousand times as long as the average scores higher.
  constexpr double kSpellingWeight = 0.001;
  std::vector<QueryTerm> terms;
  std::size_t compound_begin = 0;
  // Each term once per compound, at its first weight.
  const auto add = [&](std::uint32_t term, double weight) {
    if (term == Vocabulary::kNone) return;
    const auto first = terms.begin() + static_cast<std::ptrdiff_t>(compound_begin);
    const bool known = terms.end() - first <= 64 &&
                       std::any_of(first, terms.end(),
                                   [term](const QueryTerm& other) { return other.term == term; });
    if (!known) terms.push_back({term, weight});
  };
  const auto find_name = [&](const Token& token) {
    return view.vocabulary->find(name_key(query.text(token)), false, stems, pin);
  };
  const auto find = [&](const Token& token) {
    return view.vocabulary->find(query.text(token), token.word, stems, pin);
  };

  const auto ignored = [&](const Token& token) { return token.stop && stop_words_; };
  const bool only_stop_words = std::all_of(
      query.compounds.begin(), query.compounds.end(),
      [&](const Compound& compound) { return ignored(query.tokens[compound.first_token]); });
  const bool single = query.compounds.size() == 1;
  for (const Compound& compound : query.compounds) {
    compound_begin = terms.size();
    const std::span<const Token> tokens =
        std::span(query.tokens).subspan(compound.first_token, compound.n_tokens);
    const Token& whole = tokens[0];
    if (ignored(whole) && !only_stop_words) continue;
    const auto add_parts = [&](double weight) {
      for (std::uint32_t i = 1; i < compound.n_tokens; ++i) {
        if (!tokens[i].part || ignored(tokens[i])) continue;
        add(is_name(query, compound, i) ? find_name(tokens[i]) : find(tokens[i]), weight);
      }
    };
    if (!compound.identifier && !compound.whole_only) {
      add(find(whole), 1.0);
      add_parts(1.0);
      continue;
    }
    const std::uint32_t exact = is_name(query, compound, 0) ? find_name(whole) : find(whole);
    const bool known = exact != Vocabulary::kNone && document_frequency(view.bm25, pin, exact) > 0;
    if (compound.whole_only) {
      add(exact, 1.0);
      continue;
    }
    // A letters-only identifier has its stem as a second whole form.
    const bool has_stem = tokens.size() > 1 && !tokens[1].part;
    if (known && single) {
      add(exact, 1.0);
      if (has_stem) add(find(tokens[1]), kSpellingWeight);
    } else if (known) {
      add(has_stem ? find(tokens[1]) : exact, 1.0);
      add_parts(kPartWeight);
    } else {
      if (has_stem) add(find(tokens[1]), 1.0);
      add_parts(1.0);
    }
  }
  return terms;
}

OrNeedStems<std::vector<Hit>> TextIndex::search(const TokenStream& query, const Stems& stems,
                                                std::size_t k, const SlotSet* allow) const {
  const EpochDomain::Pin pin = epochs_.pin();
  const View& view = view_.get(pin);
  if (auto words = missing(*view.vocabulary, query, stems); !words.empty()) {
    return NeedStems{std::move(words)};
  }
  return spector::search(view.bm25, pin, resolve(view, pin, query, stems), k, allow);
}

OrNeedStems<std::vector<std::vector<Hit>>> TextIndex::search_many(
    std::span<const TokenStream> queries, const Stems& stems, std::size_t k, std::size_t threads,
    const SlotSet* allow) const {
  const EpochDomain::Pin pin = epochs_.pin();
  const View& view = view_.get(pin);
  NeedStems need;
  for (const TokenStream& query : queries) {
    for (std::string& word : missing(*view.vocabulary, query, stems)) {
      need.words.push_back(std::move(word));
    }
  }
  if (!need.words.empty()) return need;
  std::vector<std::vector<Hit>> hits(queries.size());
  parallel_for(queries.size(), threads, [&](std::size_t i) {
    hits[i] = spector::search(view.bm25, pin, resolve(view, pin, queries[i], stems), k, allow);
  });
  return hits;
}

OrNeedStems<std::vector<TextTermScore>> TextIndex::explain(const TokenStream& query,
                                                           const Stems& stems,
                                                           std::uint32_t slot) const {
  const EpochDomain::Pin pin = epochs_.pin();
  const View& view = view_.get(pin);
  if (auto words = missing(*view.vocabulary, query, stems); !words.empty()) {
    return NeedStems{std::move(words)};
  }
  std::vector<TextTermScore> scores;
  for (const TermScore& score :
       spector::explain(view.bm25, pin, resolve(view, pin, query, stems), slot)) {
    std::string_view term = view.vocabulary->term(score.term);
    if (term.starts_with(kNameMark)) term.remove_prefix(1);
    scores.push_back({std::string(term), score});
  }
  return scores;
}

bool TextIndex::contains(std::uint32_t slot) const {
  const EpochDomain::Pin pin = epochs_.pin();
  return spector::contains(view_.get(pin).bm25, pin, slot);
}

std::size_t TextIndex::size() const {
  const EpochDomain::Pin pin = epochs_.pin();
  return view_.get(pin).bm25.n_documents;
}

TextIndexStats TextIndex::stats() {
  const std::scoped_lock lock(writer_);
  return {index_.stats(), vocabulary_->memory_bytes()};
}

}  // namespace spector
