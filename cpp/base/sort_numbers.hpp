// Sorting of a few tens to thousands of numbers, as the terms of a document: by some bits at a
// time, as comparing them would cost a wrong guess every other time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace spector {

// `scratch` is used again between calls.
inline void sort_numbers(std::vector<std::uint32_t>& numbers, std::vector<std::uint32_t>& scratch) {
  constexpr std::size_t kFew = 24;  // up to here comparing is faster
  if (numbers.size() <= kFew) return std::sort(numbers.begin(), numbers.end());
  std::uint32_t all = 0;
  for (const std::uint32_t number : numbers) all |= number;
  scratch.resize(numbers.size());
  constexpr unsigned kBits = 7;
  constexpr std::uint32_t kMask = (1U << kBits) - 1;
  for (unsigned shift = 0; shift < 32 && all >> shift != 0; shift += kBits) {
    std::array<std::uint32_t, kMask + 1> places{};
    for (const std::uint32_t number : numbers) ++places[number >> shift & kMask];
    std::uint32_t before = 0;
    for (std::uint32_t& place : places) before += std::exchange(place, before);
    for (const std::uint32_t number : numbers) scratch[places[number >> shift & kMask]++] = number;
    numbers.swap(scratch);
  }
}

}  // namespace spector
