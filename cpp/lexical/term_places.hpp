// Which terms a segment has: they are numbered by the whole index and have places in the segment,
// in the same order. A bit for each number, and how many bits lie before each word of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spector {

class TermPlaces {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  TermPlaces() = default;
  // `numbers` ascend.
  explicit TermPlaces(std::span<const std::uint32_t> numbers) {
    words_.resize(numbers.empty() ? 0 : numbers.back() / kBits + std::size_t{1});
    for (const std::uint32_t number : numbers) {
      words_[number / kBits].bits |= std::uint32_t{1} << (number % kBits);
    }
    std::uint32_t before = 0;
    for (Word& word : words_) {
      word.before = before;
      before += static_cast<std::uint32_t>(std::popcount(word.bits));
    }
  }

  [[nodiscard]] std::uint32_t place(std::uint32_t number) const noexcept {
    if (number / kBits >= words_.size()) return kNone;
    const Word& word = words_[number / kBits];
    const std::uint32_t bit = std::uint32_t{1} << (number % kBits);
    if ((word.bits & bit) == 0) return kNone;
    return word.before + static_cast<std::uint32_t>(std::popcount(word.bits & (bit - 1)));
  }
  void prefetch(std::uint32_t number) const noexcept {
    if (number / kBits < words_.size()) __builtin_prefetch(&words_[number / kBits]);
  }
  // The number of a place that a term has.
  [[nodiscard]] std::uint32_t number(std::uint32_t place) const noexcept {
    const auto after =
        std::upper_bound(words_.begin(), words_.end(), place,
                         [](std::uint32_t at, const Word& word) { return at < word.before; });
    const Word& word = *(after - 1);
    std::uint32_t bits = word.bits;
    for (std::uint32_t i = word.before; i < place; ++i) bits &= bits - 1;
    return static_cast<std::uint32_t>((after - 1 - words_.begin()) * kBits) +
           static_cast<std::uint32_t>(std::countr_zero(bits));
  }
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return words_.capacity() * sizeof(Word);
  }

 private:
  static constexpr std::uint32_t kBits = 32;
  struct Word {
    std::uint32_t bits = 0;
    std::uint32_t before = 0;
  };
  std::vector<Word> words_;
};

}  // namespace spector
