// Arrays of u32 as files hold them: cpp/FORMATS.md has the bits.
//
// An array is blocks of 128 numbers, the last one shorter: the width of its numbers (a byte), then
// the numbers, each of that many bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace spector {

inline constexpr std::size_t kPackedBlock = 128;
// Packed numbers must be followed by so many bytes, whatever they are: numbers are read by the
// word.
inline constexpr std::size_t kPackedSlack = 8;

constexpr std::size_t packed_bytes(std::size_t n, unsigned width) noexcept {
  return (n * width + 7) / 8;
}

// Appends the numbers, each of `width` bits.
void pack_bits(std::span<const std::uint32_t> numbers, unsigned width,
               std::vector<std::uint8_t>& packed);

// Calls take(i, number i). Reads up to kPackedSlack bytes more than the numbers have. width <= 32.
template <class Take>
void unpack_bits(const std::uint8_t* from, std::size_t n, unsigned width,
                 const Take& take) noexcept {
  const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  for (std::size_t i = 0, bit = 0; i < n; ++i, bit += width) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + bit / 8, sizeof word);
    take(i, static_cast<std::uint32_t>(word >> (bit % 8) & mask));
  }
}

// An array on its own: how many numbers, the blocks, the slack; nothing if it is empty.
[[nodiscard]] std::vector<std::uint8_t> pack_numbers(std::span<const std::uint32_t> numbers);

// How many numbers such an array says it has, which is in proportion to its bytes; 0, too, for what
// cannot be one.
[[nodiscard]] std::uint32_t packed_size(std::span<const std::uint8_t> packed) noexcept;

// Calls take(i, number i) for packed_size numbers; false, after any of them, unless `packed` is an
// array.
template <class Take>
[[nodiscard]] bool unpack_numbers(std::span<const std::uint8_t> packed, const Take& take) noexcept {
  const std::size_t size = packed_size(packed);
  if (size == 0) return packed.empty();
  std::size_t at = sizeof(std::uint32_t);
  const std::size_t end = packed.size() - kPackedSlack;
  for (std::size_t first = 0; first < size; first += kPackedBlock) {
    const std::size_t n = std::min(kPackedBlock, size - first);
    if (at == end || packed[at] > 32) return false;
    const unsigned width = packed[at++];
    if (packed_bytes(n, width) > end - at) return false;
    unpack_bits(packed.data() + at, n, width,
                [&](std::size_t i, std::uint32_t number) { take(first + i, number); });
    at += packed_bytes(n, width);
  }
  return at == end;
}

}  // namespace spector
