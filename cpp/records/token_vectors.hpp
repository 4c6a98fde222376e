// Vectors of the tokens of each memory, for late interaction: the score of a query is the sum over
// its tokens of the highest dot product with a token of the memory (RRK-1; Khattab and Zaharia,
// ColBERT, SIGIR 2020).
//
// Vectors are int8 codes with a scale each: at most half a step of their largest element off.
// TokenVectors is the writer's side, for Shared (base/shared.hpp); a View is one state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/cow.hpp"
#include "base/epoch.hpp"
#include "base/top_k.hpp"

namespace spector {

class TokenVectors {
 public:
  class View {
   public:
    // The k best of `among` (ascending; nothing for all) that have vectors, whatever their score.
    // `query` has the vectors of its tokens one after another; a query without tokens finds
    // nothing.
    [[nodiscard]] std::vector<ScoredSlot> search(
        std::span<const float> query, std::size_t k,
        std::optional<std::span<const std::uint32_t>> among) const;
    [[nodiscard]] bool contains(std::uint32_t slot) const noexcept {
      return slot < codes_.size() && !codes_[slot].empty();
    }
    [[nodiscard]] std::size_t size() const noexcept { return n_; }
    [[nodiscard]] std::size_t dimensions() const noexcept { return dimensions_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

   private:
    friend class TokenVectors;
    CowLists<std::int8_t>::View codes_;
    CowLists<float>::View scales_;
    std::size_t dimensions_ = 0;
    std::size_t n_ = 0;
    std::size_t bytes_ = 0;
  };

  // `dimensions` in [1, 65,536].
  TokenVectors(EpochDomain& epochs, std::size_t dimensions);

  // The vectors of slot i are rows [ends[i], ends[i + 1]) of `codes` and `scales`; they replace
  // those there were, and no rows leave none. Scales are finite and not negative.
  void put(std::span<const std::uint32_t> slots, std::span<const std::uint64_t> ends,
           std::span<const std::int8_t> codes, std::span<const float> scales);
  // How many had vectors.
  std::size_t erase(std::span<const std::uint32_t> slots);

  [[nodiscard]] View view() const;
  void reserve() { heap_.reserve(); }
  void published() noexcept;
  void rollback() noexcept;

 private:
  bool drop(std::uint32_t slot);

  std::size_t dimensions_;
  CowHeap heap_;
  CowLists<std::int8_t> codes_;  // rows padded with zeros to whole blocks of 64 bytes
  CowLists<float> scales_;
  std::size_t n_ = 0;
  std::size_t n_published_ = 0;
};

}  // namespace spector
