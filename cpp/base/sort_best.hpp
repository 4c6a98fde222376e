// Sorting by score, the best first.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spector {

// Sorts entries that have a finite `score` as `better` says, for which a greater score comes first
// whatever else it looks at. Many go to shares of the range of scores first: no branch depends on
// them, whose outcome no processor could guess.
template <class Entry, class Better>
void sort_best(std::vector<Entry>& entries, const Better& better) {
  constexpr std::size_t kMany = 48;
  constexpr unsigned kShareBits = 9;
  constexpr std::size_t kShares = std::size_t{1} << kShareBits;
  if (entries.size() < kMany) {
    std::sort(entries.begin(), entries.end(), better);
    return;
  }
  // Ascends as scores do.
  const auto key_of = [](const Entry& entry) {
    const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(entry.score) + 0.0);
    constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  };
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t most = 0;
  for (const Entry& entry : entries) {
    const std::uint64_t key = key_of(entry);
    least = std::min(least, key);
    most = std::max(most, key);
  }
  const auto width = static_cast<unsigned>(std::bit_width(most - least));
  const unsigned shift = width > kShareBits ? width - kShareBits : 0;
  std::array<std::uint32_t, kShares + 1> ends{};  // of the shares before, then of each
  for (const Entry& entry : entries) ++ends[((most - key_of(entry)) >> shift) + 1];
  for (std::size_t share = 1; share < kShares; ++share) ends[share] += ends[share - 1];
  std::vector<Entry> sorted(entries.size());
  for (const Entry& entry : entries) sorted[ends[(most - key_of(entry)) >> shift]++] = entry;
  std::uint32_t begin = 0;
  for (std::size_t share = 0; share < kShares; ++share) {
    if (ends[share] - begin > 1) {
      std::sort(sorted.begin() + begin, sorted.begin() + ends[share], better);
    }
    begin = ends[share];
  }
  entries.swap(sorted);
}

}  // namespace spector
