// Compiled with -msse4.2 and so, like isa.cpp, without anything that other objects could share.
#include "kernels/crc32c.hpp"

namespace spector::kernels {
namespace {

using Word = unsigned long long;

// The instruction takes three cycles but one can start in each, so three stretches are summed side
// by side and then joined: the state of the first is moved past the second, and so on.
constexpr std::size_t kStretch = std::size_t{16} << 10;

constexpr std::uint32_t kPolynomial = 0x82f63b78U;  // bit 31 is x^0

// a * b modulo the polynomial.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x80000000U; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0U);
  }
  return product;
}

// x ** (8 * n) for n a power of two.
constexpr std::uint32_t power(std::size_t n) noexcept {
  std::uint32_t x = 0x00800000U;  // x^8
  for (; n > 1; n /= 2) x = multiply(x, x);
  return x;
}

constexpr std::uint32_t kPastStretch = power(kStretch);

Word load(const unsigned char* at) noexcept {
  Word word;
  __builtin_memcpy(&word, at, sizeof word);
  return word;
}

}  // namespace

bool has_crc32c() noexcept { return __builtin_cpu_supports("sse4.2") != 0; }

std::uint32_t crc32c_sse42(const void* bytes, std::size_t size, std::uint32_t state) noexcept {
  const auto* at = static_cast<const unsigned char*>(bytes);
  for (; size >= 3 * kStretch; size -= 3 * kStretch, at += 3 * kStretch) {
    Word a = state;
    Word b = 0;
    Word c = 0;
    for (std::size_t i = 0; i < kStretch; i += 8) {
      a = __builtin_ia32_crc32di(a, load(at + i));
      b = __builtin_ia32_crc32di(b, load(at + kStretch + i));
      c = __builtin_ia32_crc32di(c, load(at + 2 * kStretch + i));
    }
    state = multiply(static_cast<std::uint32_t>(a), kPastStretch) ^ static_cast<std::uint32_t>(b);
    state = multiply(state, kPastStretch) ^ static_cast<std::uint32_t>(c);
  }
  Word wide = state;
  for (; size >= 8; size -= 8, at += 8) wide = __builtin_ia32_crc32di(wide, load(at));
  state = static_cast<std::uint32_t>(wide);
  for (; size > 0; --size, ++at) state = __builtin_ia32_crc32qi(state, *at);
  return state;
}

}  // namespace spector::kernels
