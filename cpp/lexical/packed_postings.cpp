#include "lexical/packed_postings.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace spector {
namespace {

constexpr std::size_t kBlock = kPackedBlock;
constexpr unsigned kWidestGap = 32;
constexpr unsigned kWidestFrequency = 31;

// The low bits of a gap that are stored as they are: about the average gap's.
unsigned low_bits(std::size_t n, std::uint32_t n_rows) noexcept {
  const auto average = static_cast<std::uint32_t>(n_rows / (n + 1));
  return static_cast<unsigned>(std::bit_width(average | 1U)) - 1;
}

// Bits, the lowest of a byte first.
class BitWriter {
 public:
  explicit BitWriter(std::vector<std::uint8_t>& bytes) : bytes_(bytes) {}
  void add(std::uint32_t number, unsigned width) {  // width <= 32
    bits_ |= std::uint64_t{number} << n_bits_;
    for (n_bits_ += width; n_bits_ >= 8; n_bits_ -= 8, bits_ >>= 8) {
      bytes_.push_back(static_cast<std::uint8_t>(bits_));
    }
  }
  // So many zeros and a one.
  void add_unary(std::uint32_t zeros) {
    for (; zeros > 31; zeros -= 32) add(0, 32);
    add(std::uint32_t{1} << zeros, zeros + 1);
  }
  void finish() {
    if (n_bits_ > 0) bytes_.push_back(static_cast<std::uint8_t>(bits_));
  }

 private:
  std::vector<std::uint8_t>& bytes_;
  std::uint64_t bits_ = 0;
  unsigned n_bits_ = 0;
};

// Past the end it reads the slack, and once beyond that `ended_well` is false.
class BitReader {
 public:
  explicit BitReader(std::span<const std::uint8_t> bytes) noexcept : bytes_(bytes) {}
  std::uint32_t take(unsigned width) noexcept {  // width <= 32
    const auto number = static_cast<std::uint32_t>(word() & ((std::uint64_t{1} << width) - 1));
    bit_ += width;
    return number;
  }
  std::uint64_t take_unary() noexcept {
    constexpr unsigned kSure = 57;  // bits of a word that are of the list
    std::uint64_t zeros = 0;
    while (in_reach()) {
      const auto more = static_cast<unsigned>(std::countr_zero(word()));
      if (more < kSure) {
        bit_ += more + 1;
        return zeros + more;
      }
      zeros += kSure;
      bit_ += kSure;
    }
    return 0;
  }
  [[nodiscard]] bool in_reach() const noexcept { return bit_ / 8 <= bytes_.size(); }
  [[nodiscard]] bool ended_well() const noexcept { return (bit_ + 7) / 8 == bytes_.size(); }

 private:
  [[nodiscard]] std::uint64_t word() const noexcept {
    std::uint64_t word = 0;
    if (in_reach()) std::memcpy(&word, bytes_.data() + bit_ / 8, sizeof word);
    return word >> (bit_ % 8);
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t bit_ = 0;
};

void pack_short(std::span<const std::uint32_t> rows, std::span<const std::uint32_t> frequencies,
                std::uint32_t n_rows, std::vector<std::uint8_t>& packed) {
  const unsigned low = low_bits(rows.size(), n_rows);
  BitWriter bits(packed);
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint32_t gap = rows[i] - next;
    next = rows[i] + 1;
    bits.add_unary(gap >> low);
    bits.add(gap & ((std::uint32_t{1} << low) - 1), low);
    const auto below = static_cast<unsigned>(std::bit_width(frequencies[i])) - 1;
    bits.add_unary(below);
    bits.add(frequencies[i] - (std::uint32_t{1} << below), below);
  }
  bits.finish();
}

bool unpack_short(std::span<const std::uint8_t> packed, std::uint32_t n_rows,
                  std::span<std::uint32_t> rows, std::span<std::uint32_t> frequencies) noexcept {
  const unsigned low = low_bits(rows.size(), n_rows);
  BitReader bits(packed);
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint64_t high = bits.take_unary();
    next += (high << low) + bits.take(low);
    const std::uint64_t below = bits.take_unary();
    if (next >= n_rows || below > kWidestFrequency || !bits.in_reach()) return false;
    rows[i] = static_cast<std::uint32_t>(next++);
    const auto width = static_cast<unsigned>(below);
    frequencies[i] = (std::uint32_t{1} << width) + bits.take(width);
    if (frequencies[i] > std::uint32_t{1} << kWidestFrequency) return false;
  }
  return bits.ended_well();
}

}  // namespace

void pack_postings(std::span<const std::uint32_t> rows, std::span<const std::uint32_t> frequencies,
                   std::uint32_t n_rows, std::vector<std::uint8_t>& packed) {
  if (rows.size() < kBlock) return pack_short(rows, frequencies, n_rows, packed);
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
    pack_bits(std::span(gaps, n), gap_width, packed);
    pack_bits(std::span(extras, n), width, packed);
  }
}

bool unpack_postings(std::span<const std::uint8_t> packed, std::uint32_t n_rows, bool all_blocks,
                     std::span<std::uint32_t> rows, std::span<std::uint32_t> frequencies) noexcept {
  if (rows.size() < kBlock && !all_blocks) return unpack_short(packed, n_rows, rows, frequencies);
  // Each row is above the one before; in 64 bits, so none of 2^32 steps of up to 2^32 is lost.
  std::uint64_t next = 0;
  for (std::size_t first = 0; first < rows.size(); first += kBlock) {
    const std::size_t n = std::min(kBlock, rows.size() - first);
    if (packed.size() < 2) return false;
    const unsigned gap_width = packed[0];
    const unsigned width = packed[1];
    if (gap_width > kWidestGap || width > kWidestFrequency) return false;
    const std::size_t gap_bytes = packed_bytes(n, gap_width);
    const std::size_t bytes = 2 + gap_bytes + packed_bytes(n, width);
    if (packed.size() < bytes) return false;
    unpack_bits(packed.data() + 2, n, gap_width, [&](std::size_t i, std::uint32_t gap) {
      next += gap;
      rows[first + i] = static_cast<std::uint32_t>(next++);
    });
    unpack_bits(packed.data() + 2 + gap_bytes, n, width,
                [&](std::size_t i, std::uint32_t extra) { frequencies[first + i] = extra + 1; });
    packed = packed.subspan(bytes);
  }
  return packed.empty() && next > 0 && next <= n_rows;
}

}  // namespace spector
