// Folded names (GEN-6): NFKC, full casefold, NFKC again, white space at the ends removed and inside
// made one space. Two names are the same thing if their folded forms are equal. No locale is
// involved; underscores and other punctuation stay.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace spector {

// The folded form of a name, on the stack where it is short and ASCII. Ill-formed UTF-8 is read as
// U+FFFD.
class FoldedName {
 public:
  explicit FoldedName(std::string_view name);
  FoldedName(const FoldedName&) = delete;
  FoldedName& operator=(const FoldedName&) = delete;
  FoldedName(FoldedName&&) = delete;
  FoldedName& operator=(FoldedName&&) = delete;
  ~FoldedName() = default;

  // Empty for a name that is blank. Valid as long as this object.
  [[nodiscard]] std::string_view view() const noexcept { return view_; }

 private:
  std::array<char, 128> short_;
  std::string long_;
  std::string_view view_;
};

}  // namespace spector
