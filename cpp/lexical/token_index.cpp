#include "lexical/token_index.hpp"

#include <algorithm>
#include <exception>

#include "base/parallel.hpp"

namespace spector {

void TokenIndex::put(std::span<const std::uint32_t> slots, const TokenLists& documents) {
  const auto lock = mutex_.write();
  std::vector<std::uint32_t> tokens;
  std::vector<TermCount> counts;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    tokens.assign(documents[i].begin(), documents[i].end());
    std::sort(tokens.begin(), tokens.end());
    counts.clear();
    for (std::size_t at = 0; at < tokens.size();) {
      const std::size_t begin = at;
      while (at < tokens.size() && tokens[at] == tokens[begin]) ++at;
      const std::uint32_t term = terms_.insert(tokens[begin], n_numbers_);
      n_numbers_ += term == n_numbers_ ? 1 : 0;
      counts.push_back({term, static_cast<std::uint32_t>(at - begin)});
    }
    index_.put(slots[i], counts, static_cast<std::uint32_t>(tokens.size()));
  }
  compact_if_wasteful();
}

std::size_t TokenIndex::erase(std::span<const std::uint32_t> slots) {
  const auto lock = mutex_.write();
  std::size_t erased = 0;
  for (const std::uint32_t slot : slots) erased += index_.erase(slot) ? 1 : 0;
  compact_if_wasteful();
  return erased;
}

void TokenIndex::compact() {
  const auto lock = mutex_.write();
  compact_unlocked();
}

void TokenIndex::compact_unlocked() {
  const std::vector<std::uint32_t> numbers = index_.compact_numbers();
  U32Map terms;
  std::uint32_t n_numbers = 0;
  terms_.for_each([&](std::uint32_t token, std::uint32_t term) {
    if (term >= numbers.size() || numbers[term] == Bm25Index::kDropped) return;
    terms.insert(token, numbers[term]);
    ++n_numbers;
  });
  index_.compact(numbers);
  terms_ = std::move(terms);
  n_numbers_ = n_numbers;
}

void TokenIndex::compact_if_wasteful() noexcept {
  if (!index_.wasteful()) return;
  try {
    compact_unlocked();
  } catch (const std::exception&) {
    // Out of memory: the index is whole as it is, and a later change tries again.
    return;
  }
}

std::vector<QueryTerm> TokenIndex::resolve(std::span<const std::uint32_t> query) const {
  std::vector<QueryTerm> terms;
  terms.reserve(query.size());
  for (const std::uint32_t token : query) {
    const std::uint32_t term = terms_.find(token);
    if (term != U32Map::kNone) terms.push_back({term, 1.0});
  }
  return terms;
}

std::vector<Hit> TokenIndex::search(std::span<const std::uint32_t> query, std::size_t k) const {
  const auto lock = mutex_.read();
  return index_.search(resolve(query), k);
}

std::vector<std::vector<Hit>> TokenIndex::search_many(const TokenLists& queries, std::size_t k,
                                                      std::size_t threads) const {
  const auto lock = mutex_.read();
  std::vector<std::vector<Hit>> hits(queries.size());
  parallel_for(queries.size(), threads,
               [&](std::size_t i) { hits[i] = index_.search(resolve(queries[i]), k); });
  return hits;
}

bool TokenIndex::contains(std::uint32_t slot) const {
  const auto lock = mutex_.read();
  return index_.contains(slot);
}

std::size_t TokenIndex::size() const {
  const auto lock = mutex_.read();
  return index_.size();
}

Bm25Stats TokenIndex::stats() const {
  const auto lock = mutex_.read();
  Bm25Stats stats = index_.stats();
  stats.bytes += terms_.memory_bytes();
  return stats;
}

}  // namespace spector
