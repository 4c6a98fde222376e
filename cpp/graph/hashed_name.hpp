// What stands for a folded name of which only the hash is known (graph/entity_directory.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spector {

// A blank, with which no folded name begins, and the hash in hexadecimal.
class HashedName {
 public:
  explicit HashedName(std::uint64_t hash) noexcept {
    text_[0] = ' ';
    for (std::size_t i = text_.size() - 1; i > 0; --i, hash >>= 4) {
      text_[i] = "0123456789abcdef"[hash & 15];
    }
  }
  // Valid as long as this object.
  [[nodiscard]] std::string_view view() const noexcept { return {text_.data(), text_.size()}; }

  // Of a name as it stands in a directory.
  [[nodiscard]] static bool is(std::string_view name) noexcept { return name.starts_with(' '); }

 private:
  std::array<char, 17> text_{};
};

}  // namespace spector
