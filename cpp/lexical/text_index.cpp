#include "lexical/text_index.hpp"

#include <algorithm>
#include <exception>

#include "base/error.hpp"
#include "base/parallel.hpp"

namespace spector {

void AnalysedBatch::begin_document() { document_begins_.push_back(tokens_.size()); }

void AnalysedBatch::add(const TokenStream& stream) {
  for (const Compound& compound : stream.compounds) {
    std::uint32_t mark = kFirst;
    for (std::uint32_t i = 0; i < compound.n_tokens; ++i) {
      const Token& token = stream.tokens[compound.first_token + i];
      const std::uint32_t number =
          token.word ? words_.intern(stream.text(token)) : exact_.intern(stream.text(token));
      if (number >= kFirst / 2) throw Capacity("more than 2^30 distinct tokens in one batch");
      tokens_.push_back((number * 2 + (token.word ? 1 : 0)) | mark);
      mark = 0;
    }
  }
}

OrNeedStems<std::size_t> TextIndex::put(std::span<const std::uint32_t> slots,
                                        const AnalysedBatch& batch, const Stems& stems) {
  const auto lock = mutex_.write();
  NeedStems need;
  for (std::uint32_t word = 0; word < batch.words_.size(); ++word) {
    const std::string_view text = batch.words_[word];
    if (vocabulary_.needs_stem(text, true) && !stems.contains(std::string(text))) {
      need.words.emplace_back(text);
    }
  }
  if (!need.words.empty()) return need;

  std::vector<std::uint32_t> word_terms(batch.words_.size());
  std::vector<std::uint32_t> exact_terms(batch.exact_.size());
  for (std::uint32_t i = 0; i < word_terms.size(); ++i) {
    word_terms[i] = vocabulary_.intern(batch.words_[i], true, stems);
  }
  for (std::uint32_t i = 0; i < exact_terms.size(); ++i) {
    exact_terms[i] = vocabulary_.intern(batch.exact_[i], false, stems);
  }

  std::vector<std::uint32_t> occurrences;  // the document's terms, one entry per position
  std::vector<TermCount> counts;
  for (std::size_t document = 0; document < batch.size(); ++document) {
    const std::uint64_t begin = batch.document_begins_[document];
    const std::uint64_t end =
        document + 1 < batch.size() ? batch.document_begins_[document + 1] : batch.tokens_.size();
    occurrences.clear();
    std::uint32_t length = 0;
    std::size_t compound = 0;  // where the terms of the present compound begin
    const auto close_compound = [&] {
      // A position counts a term once, whatever number of its parts have that stem (TOK-9).
      const auto first = occurrences.begin() + static_cast<std::ptrdiff_t>(compound);
      if (occurrences.end() - first < 2) return;
      std::sort(first, occurrences.end());
      occurrences.erase(std::unique(first, occurrences.end()), occurrences.end());
    };
    for (std::uint64_t i = begin; i < end; ++i) {
      const std::uint32_t token = batch.tokens_[i];
      if ((token & AnalysedBatch::kFirst) != 0) {
        close_compound();
        compound = occurrences.size();
        ++length;
      }
      const std::uint32_t number = (token & ~AnalysedBatch::kFirst) >> 1;
      occurrences.push_back((token & 1) != 0 ? word_terms[number] : exact_terms[number]);
    }
    close_compound();
    std::sort(occurrences.begin(), occurrences.end());
    counts.clear();
    for (const std::uint32_t term : occurrences) {
      if (!counts.empty() && counts.back().term == term) {
        ++counts.back().count;
      } else {
        counts.push_back({term, 1});
      }
    }
    index_.put(slots[document], counts, length);
  }
  compact_if_wasteful();
  return batch.size();
}

std::size_t TextIndex::erase(std::span<const std::uint32_t> slots) {
  const auto lock = mutex_.write();
  std::size_t erased = 0;
  for (const std::uint32_t slot : slots) erased += index_.erase(slot) ? 1 : 0;
  compact_if_wasteful();
  return erased;
}

void TextIndex::compact() {
  const auto lock = mutex_.write();
  compact_unlocked();
}

void TextIndex::compact_unlocked() {
  const std::vector<std::uint32_t> numbers = index_.compact_numbers();
  Vocabulary vocabulary = vocabulary_.renumbered(numbers, Bm25Index::kDropped);
  index_.compact(numbers);
  vocabulary_ = std::move(vocabulary);
}

void TextIndex::compact_if_wasteful() noexcept {
  if (!index_.wasteful()) return;
  try {
    compact_unlocked();
  } catch (const std::exception&) {
    // Out of memory: the index is whole as it is, and a later change tries again.
    return;
  }
}

std::vector<std::string> TextIndex::missing(const TokenStream& stream, const Stems& stems) const {
  std::vector<std::string> words;
  for (const Token& token : stream.tokens) {
    const std::string_view text = stream.text(token);
    if (vocabulary_.needs_stem(text, token.word) && !stems.contains(std::string(text))) {
      words.emplace_back(text);
    }
  }
  return words;
}

std::vector<QueryTerm> TextIndex::resolve(const TokenStream& query, const Stems& stems) const {
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
  const auto find = [&](const Token& token) {
    return vocabulary_.find(query.text(token), token.word, stems);
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
      for (const Token& token : tokens.subspan(1)) {
        if (token.part && !ignored(token)) add(find(token), weight);
      }
    };
    if (!compound.identifier && !compound.whole_only) {
      add(find(whole), 1.0);
      add_parts(1.0);
      continue;
    }
    const std::uint32_t exact = find(whole);
    const bool known = exact != Vocabulary::kNone && index_.document_frequency(exact) > 0;
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
  const auto lock = mutex_.read();
  if (auto words = missing(query, stems); !words.empty()) return NeedStems{std::move(words)};
  return index_.search(resolve(query, stems), k, allow);
}

OrNeedStems<std::vector<std::vector<Hit>>> TextIndex::search_many(
    std::span<const TokenStream> queries, const Stems& stems, std::size_t k,
    std::size_t threads) const {
  const auto lock = mutex_.read();
  NeedStems need;
  for (const TokenStream& query : queries) {
    for (std::string& word : missing(query, stems)) need.words.push_back(std::move(word));
  }
  if (!need.words.empty()) return need;
  std::vector<std::vector<Hit>> hits(queries.size());
  parallel_for(queries.size(), threads,
               [&](std::size_t i) { hits[i] = index_.search(resolve(queries[i], stems), k); });
  return hits;
}

OrNeedStems<std::vector<TextTermScore>> TextIndex::explain(const TokenStream& query,
                                                           const Stems& stems,
                                                           std::uint32_t slot) const {
  const auto lock = mutex_.read();
  if (auto words = missing(query, stems); !words.empty()) return NeedStems{std::move(words)};
  std::vector<TextTermScore> scores;
  for (const TermScore& score : index_.explain(resolve(query, stems), slot)) {
    scores.push_back({std::string(vocabulary_.term(score.term)), score});
  }
  return scores;
}

bool TextIndex::contains(std::uint32_t slot) const {
  const auto lock = mutex_.read();
  return index_.contains(slot);
}

std::size_t TextIndex::size() const {
  const auto lock = mutex_.read();
  return index_.size();
}

TextIndexStats TextIndex::stats() const {
  const auto lock = mutex_.read();
  return {index_.stats(), vocabulary_.memory_bytes()};
}

}  // namespace spector
