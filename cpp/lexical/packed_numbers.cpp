#include "lexical/packed_numbers.hpp"

#include <algorithm>
#include <bit>

namespace spector {

void pack_bits(std::span<const std::uint32_t> numbers, unsigned width,
               std::vector<std::uint8_t>& packed) {
  std::uint64_t bits = 0;
  unsigned n_bits = 0;
  for (const std::uint32_t number : numbers) {
    bits |= std::uint64_t{number} << n_bits;
    for (n_bits += width; n_bits >= 8; n_bits -= 8, bits >>= 8) {
      packed.push_back(static_cast<std::uint8_t>(bits));
    }
  }
  if (n_bits > 0) packed.push_back(static_cast<std::uint8_t>(bits));
}

std::vector<std::uint8_t> pack_numbers(std::span<const std::uint32_t> numbers) {
  std::vector<std::uint8_t> packed;
  if (numbers.empty()) return packed;
  const std::uint32_t size[] = {static_cast<std::uint32_t>(numbers.size())};
  pack_bits(size, 32, packed);
  for (std::size_t first = 0; first < numbers.size(); first += kPackedBlock) {
    const auto block = numbers.subspan(first, std::min(kPackedBlock, numbers.size() - first));
    std::uint32_t all = 0;
    for (const std::uint32_t number : block) all |= number;
    const auto width = static_cast<unsigned>(std::bit_width(all));
    packed.push_back(static_cast<std::uint8_t>(width));
    pack_bits(block, width, packed);
  }
  packed.insert(packed.end(), kPackedSlack, 0);
  return packed;
}

std::uint32_t packed_size(std::span<const std::uint8_t> packed) noexcept {
  std::uint32_t size = 0;
  if (packed.size() <= sizeof size + kPackedSlack) return 0;
  std::memcpy(&size, packed.data(), sizeof size);
  // A block has a byte at least.
  const std::size_t most = kPackedBlock * (packed.size() - sizeof size - kPackedSlack);
  return size <= most ? size : 0;
}

}  // namespace spector
