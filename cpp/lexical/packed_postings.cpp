#include "lexical/packed_postings.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace spector {
namespace {

constexpr std::size_t kBlock = 128;
constexpr unsigned kWidestGap = 32;
constexpr unsigned kWidestFrequency = 31;

constexpr std::size_t bytes_of(std::size_t n, unsigned width) noexcept {
  return (n * width + 7) / 8;
}

void pack(std::span<const std::uint32_t> values, unsigned width, std::vector<std::uint8_t>& out) {
  std::uint64_t bits = 0;
  unsigned n_bits = 0;
  for (const std::uint32_t value : values) {
    bits |= std::uint64_t{value} << n_bits;
    for (n_bits += width; n_bits >= 8; n_bits -= 8, bits >>= 8) {
      out.push_back(static_cast<std::uint8_t>(bits));
    }
  }
  if (n_bits > 0) out.push_back(static_cast<std::uint8_t>(bits));
}

// Reads up to 7 bytes more than the numbers have. width <= 32.
template <class Take>
void unpack(const std::uint8_t* from, std::size_t n, unsigned width, const Take& take) noexcept {
  const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  for (std::size_t i = 0, bit = 0; i < n; ++i, bit += width) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + bit / 8, sizeof word);
    take(i, static_cast<std::uint32_t>(word >> (bit % 8) & mask));
  }
}

}  // namespace

void pack_postings(std::span<const std::uint32_t> rows, std::span<const std::uint32_t> frequencies,
                   std::vector<std::uint8_t>& packed) {
  std::uint32_t gaps[kBlock];
  std::uint32_t extras[kBlock];
  std::uint32_t next = 0;
  for (std::size_t first = 0; first < rows.size(); first += kBlock) {
    const std::size_t n = std::min(kBlock, rows.size() - first);
    std::uint32_t all_gaps = 0;
    std::uint32_t all_extras = 0;
    for (std::size_t i = 0; i < n; ++i) {
      gaps[i] = rows[first + i] - next;
      next = rows[first + i] + 1;
      extras[i] = frequencies[first + i] - 1;
      all_gaps |= gaps[i];
      all_extras |= extras[i];
    }
    const auto gap_width = static_cast<unsigned>(std::bit_width(all_gaps));
    const auto width = static_cast<unsigned>(std::bit_width(all_extras));
    packed.push_back(static_cast<std::uint8_t>(gap_width));
    packed.push_back(static_cast<std::uint8_t>(width));
    pack(std::span(gaps, n), gap_width, packed);
    pack(std::span(extras, n), width, packed);
  }
}

bool unpack_postings(std::span<const std::uint8_t> packed, std::uint32_t n_rows,
                     std::span<std::uint32_t> rows, std::span<std::uint32_t> frequencies) noexcept {
  // Each row is above the one before; in 64 bits, so none of 2^32 steps of up to 2^32 is lost.
  std::uint64_t next = 0;
  for (std::size_t first = 0; first < rows.size(); first += kBlock) {
    const std::size_t n = std::min(kBlock, rows.size() - first);
    if (packed.size() < 2) return false;
    const unsigned gap_width = packed[0];
    const unsigned width = packed[1];
    if (gap_width > kWidestGap || width > kWidestFrequency) return false;
    const std::size_t gap_bytes = bytes_of(n, gap_width);
    const std::size_t bytes = 2 + gap_bytes + bytes_of(n, width);
    if (packed.size() < bytes) return false;
    unpack(packed.data() + 2, n, gap_width, [&](std::size_t i, std::uint32_t gap) {
      next += gap;
      rows[first + i] = static_cast<std::uint32_t>(next++);
    });
    unpack(packed.data() + 2 + gap_bytes, n, width,
           [&](std::size_t i, std::uint32_t extra) { frequencies[first + i] = extra + 1; });
    packed = packed.subspan(bytes);
  }
  return packed.empty() && next > 0 && next <= n_rows;
}

}  // namespace spector
