#include "base/hash.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <random>

#include "kernels/crc32c.hpp"

namespace spector {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78U;  // bit 31 is x^0

using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

// Slicing-by-8: table[0] advances one byte, table[i] the same byte followed by i zero bytes.
constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0U);
    tables[0][byte] = crc;
  }
  for (std::size_t slice = 1; slice < 8; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr CrcTables kCrc = make_crc_tables();

std::uint64_t load64(const char* at) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

std::uint64_t hash64(std::string_view bytes) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  return hash == 0 ? 1 : hash;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed) noexcept {
#ifdef SPECTOR_X86
  static const bool has_instruction = kernels::has_crc32c();
  if (has_instruction) return ~kernels::crc32c_sse42(bytes.data(), bytes.size(), ~seed);
#endif
  return crc32c_portable(bytes, seed);
}

std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second,
                            std::uint64_t second_bytes) noexcept {
  // first * x ** (8 * second_bytes): a checksum is a remainder.
  const auto multiply = [](std::uint32_t a, std::uint32_t b) {
    std::uint32_t product = 0;
    for (std::uint32_t bit = 0x80000000U; bit != 0; bit >>= 1) {
      if ((a & bit) != 0) product ^= b;
      b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0U);
    }
    return product;
  };
  std::uint32_t power = 0x00800000U;  // x^8, squared step by step
  for (; second_bytes != 0; second_bytes >>= 1) {
    if ((second_bytes & 1) != 0) first = multiply(first, power);
    power = multiply(power, power);
  }
  return first ^ second;
}

std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t seed) noexcept {
  static_assert(std::endian::native == std::endian::little, "stored formats are little-endian");
  std::uint32_t crc = ~seed;
  const auto* at = reinterpret_cast<const char*>(bytes.data());
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    const std::uint64_t word = load64(at) ^ crc;
    crc = kCrc[7][word & 0xff] ^ kCrc[6][(word >> 8) & 0xff] ^ kCrc[5][(word >> 16) & 0xff] ^
          kCrc[4][(word >> 24) & 0xff] ^ kCrc[3][(word >> 32) & 0xff] ^
          kCrc[2][(word >> 40) & 0xff] ^ kCrc[1][(word >> 48) & 0xff] ^ kCrc[0][word >> 56];
  }
  for (; left > 0; --left, ++at) {
    crc = (crc >> 8) ^ kCrc[0][(crc ^ static_cast<unsigned char>(*at)) & 0xff];
  }
  return ~crc;
}

std::uint64_t table_hash(std::string_view bytes, std::uint64_t seed) noexcept {
  constexpr std::uint64_t kA = 0x9e3779b97f4a7c15ULL;
  constexpr std::uint64_t kB = 0xd6e8feb86659fd93ULL;
  std::uint64_t hash = seed ^ mix(bytes.size() ^ kB, kA);
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left > 8; left -= 8, at += 8) hash = mix(hash ^ load64(at), kA);
  std::uint64_t tail = 0;
  if (left > 0) std::memcpy(&tail, at, left);
  return mix(hash ^ tail, kB);
}

std::uint64_t process_seed() noexcept {
  static const std::uint64_t seed = random_seed();
  return seed;
}

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

}  // namespace spector
