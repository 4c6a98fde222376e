#include "lexical/token_index.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/parallel.hpp"

namespace spector {

TokenIndex::TokenIndex(double k1, double b, const MergePolicy& policy)
    : terms_(std::make_unique<U32Map>(epochs_)),
      index_(k1, b, epochs_, policy),
      view_(std::make_unique<const View>(View{terms_.get(), index_.state()})),
      merges_(index_, writer_, [this] { publish(); }) {}

void TokenIndex::put(std::span<const std::uint32_t> slots, const TokenLists& documents) {
  const std::scoped_lock lock(writer_);
  try {
    for (std::size_t i = 0; i < documents.size(); ++i) put_document(slots[i], documents[i]);
    put_documents();
  } catch (...) {
    documents_.clear();
    publish();  // the documents before
    throw;
  }
  publish();
  drop_unused_terms();
  merges_.changed();
}

void TokenIndex::put_document(std::uint32_t slot, std::span<const std::uint32_t> tokens) {
  tokens_.clear();
  for (const std::uint32_t token : tokens) terms_->prefetch(token);
  for (const std::uint32_t token : tokens) {
    tokens_.push_back(terms_->insert(token, static_cast<std::uint32_t>(terms_->size())));
  }
  std::sort(tokens_.begin(), tokens_.end());
  counts_.clear();
  for (const std::uint32_t term : tokens_) {
    if (!counts_.empty() && counts_.back().term == term) {
      ++counts_.back().count;
    } else {
      counts_.push_back({term, 1});
    }
  }
  documents_.add(slot, static_cast<std::uint32_t>(tokens.size()), counts_);
  if (documents_.size() == Bm25Index::kMaxBatch) put_documents();
}

void TokenIndex::put_documents() {
  index_.put(documents_);
  documents_.clear();
}

std::size_t TokenIndex::erase(std::span<const std::uint32_t> slots) {
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

void TokenIndex::compact() {
  const std::scoped_lock lock(writer_);
  compact_unpublished();
  publish();
}

void TokenIndex::save(const std::string& path, IndexSettings settings, const RowTable& rows) {
  const std::scoped_lock lock(writer_);
  if (!index_.sealed() || terms_->size() != index_.n_terms()) {
    compact_unpublished();
    publish();
  }
  IndexContents contents{};
  contents.kind = IndexKind::kTokens;
  contents.settings = std::move(settings);
  contents.settings.k1 = index_.k1();
  contents.settings.b = index_.b();
  contents.segment = index_.sealed().value_or(nullptr);
  StringFreezer ids;
  contents.next_row = rows.freeze(contents.slots(), ids);
  contents.ids = ids.finish(random_seed());
  std::vector<std::uint32_t> token_ids(terms_->size());
  terms_->for_each([&](std::uint32_t token, std::uint32_t term) { token_ids[term] = token; });
  const std::vector<std::uint32_t> buckets = FrozenKeys::make_buckets(token_ids);
  contents.token_ids = token_ids;
  contents.token_buckets = buckets;
  save_index(path, contents);
}

void TokenIndex::load(const IndexFile& file) {
  const std::scoped_lock lock(writer_);
  auto terms = std::make_unique<U32Map>(epochs_, file.token_ids());
  index_.adopt(file.segment());
  terms_.swap(terms);
  old_terms_ = std::move(terms);
  publish();
}

void TokenIndex::compact_unpublished() {
  const std::vector<std::uint32_t> numbers = index_.compact_numbers();
  auto terms = std::make_unique<U32Map>(epochs_);
  terms_->for_each([&](std::uint32_t token, std::uint32_t term) {
    if (term < numbers.size() && numbers[term] != Bm25Index::kDropped) {
      terms->insert(token, numbers[term]);
    }
  });
  const auto n_dropped = std::count(numbers.begin(), numbers.end(), Bm25Index::kDropped);
  if (terms->size() + static_cast<std::size_t>(n_dropped) != numbers.size()) {
    throw Corruption("a token id occurs twice in the file that the index was loaded from; " +
                     std::string(kRebuildIndex));
  }
  index_.compact(numbers);
  terms_.swap(terms);
  old_terms_ = std::move(terms);
}

void TokenIndex::drop_unused_terms() {
  if (!index_.wastes_terms(terms_->size())) return;
  try {
    compact_unpublished();
    publish();
  } catch (const std::bad_alloc&) {
    // The index is whole as it is; a later change tries again.
    return;
  }
}

void TokenIndex::publish() {
  epochs_.reserve(1);
  view_.publish(std::make_unique<const View>(View{terms_.get(), index_.state()}), epochs_);
  index_.published();
  if (old_terms_) {
    const std::size_t bytes = old_terms_->memory_bytes();
    epochs_.retire(std::move(old_terms_), bytes);
  }
}

std::vector<QueryTerm> TokenIndex::resolve(const View& view, std::span<const std::uint32_t> query) {
  std::vector<QueryTerm> terms;
  terms.reserve(query.size());
  for (const std::uint32_t token : query) view.terms->prefetch(token);
  for (const std::uint32_t token : query) {
    const std::uint32_t term = view.terms->find(token);
    if (term != U32Map::kNone) terms.push_back({term, 1.0});
  }
  return terms;
}

std::vector<Hit> TokenIndex::search(std::span<const std::uint32_t> query, std::size_t k,
                                    const SlotSet* allow) const {
  const EpochDomain::Pin pin = epochs_.pin();
  const View& view = view_.get(pin);
  return spector::search(view.bm25, pin, resolve(view, query), k, allow);
}

std::vector<std::vector<Hit>> TokenIndex::search_many(const TokenLists& queries, std::size_t k,
                                                      std::size_t threads,
                                                      const SlotSet* allow) const {
  const EpochDomain::Pin pin = epochs_.pin();
  const View& view = view_.get(pin);
  std::vector<std::vector<Hit>> hits(queries.size());
  parallel_for(queries.size(), threads, [&](std::size_t i) {
    hits[i] = spector::search(view.bm25, pin, resolve(view, queries[i]), k, allow);
  });
  return hits;
}

bool TokenIndex::contains(std::uint32_t slot) const {
  const EpochDomain::Pin pin = epochs_.pin();
  return spector::contains(view_.get(pin).bm25, pin, slot);
}

std::size_t TokenIndex::size() const {
  const EpochDomain::Pin pin = epochs_.pin();
  return view_.get(pin).bm25.n_documents;
}

Bm25Stats TokenIndex::stats() {
  const std::scoped_lock lock(writer_);
  Bm25Stats stats = index_.stats();
  stats.bytes += terms_->memory_bytes();
  return stats;
}

}  // namespace spector
