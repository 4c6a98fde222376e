// Whether bytes are text: for what comes from a file and becomes a Python string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spector {

// Well-formed UTF-8: no overlong forms, no surrogates, nothing beyond U+10FFFF.
[[nodiscard]] constexpr bool is_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t at) {
      return at < text.size() ? static_cast<unsigned char>(text[at]) : std::uint32_t{0};
    };
    const std::uint32_t first = byte(i);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const std::size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (size == 0 || first > 0xf4) return false;
    std::uint32_t code = first & (0x7fU >> size);
    for (std::size_t k = 1; k < size; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
      code = code << 6 | (byte(i + k) & 0x3f);
    }
    if (size == 3 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) return false;
    if (size == 4 && (code < 0x10000 || code > 0x10ffff)) return false;
    i += size;
  }
  return true;
}

}  // namespace spector
