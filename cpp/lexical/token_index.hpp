// BM25 over documents that come as token ids: a Bm25Index whose terms are the caller's u32 ids.
// Threads as in TextIndex.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/fair_mutex.hpp"
#include "base/u32_map.hpp"
#include "lexical/bm25_index.hpp"

namespace spector {

// A list of token lists: list i is ids[ends[i], ends[i + 1]); ends[0] = 0, ascending.
struct TokenLists {
  std::span<const std::int64_t> ends;
  std::span<const std::uint32_t> ids;

  [[nodiscard]] std::size_t size() const noexcept { return ends.size() - 1; }
  [[nodiscard]] std::span<const std::uint32_t> operator[](std::size_t i) const noexcept {
    return ids.subspan(static_cast<std::size_t>(ends[i]),
                       static_cast<std::size_t>(ends[i + 1] - ends[i]));
  }
};

class TokenIndex {
 public:
  TokenIndex(double k1, double b) : index_(k1, b) {}

  void put(std::span<const std::uint32_t> slots, const TokenLists& documents);
  std::size_t erase(std::span<const std::uint32_t> slots);

  [[nodiscard]] std::vector<Hit> search(std::span<const std::uint32_t> query, std::size_t k) const;
  [[nodiscard]] std::vector<std::vector<Hit>> search_many(const TokenLists& queries, std::size_t k,
                                                          std::size_t threads) const;

  void compact();
  [[nodiscard]] bool contains(std::uint32_t slot) const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] Bm25Stats stats() const;

 private:
  [[nodiscard]] std::vector<QueryTerm> resolve(std::span<const std::uint32_t> query) const;
  void compact_unlocked();
  void compact_if_wasteful() noexcept;

  FairMutex mutex_;
  U32Map terms_;  // token id -> term number
  std::uint32_t n_numbers_ = 0;
  Bm25Index index_;
};

}  // namespace spector
