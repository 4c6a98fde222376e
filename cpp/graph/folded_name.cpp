#include "graph/folded_name.hpp"

#include "lexical/unicode.hpp"

namespace spector {
namespace {

// White space is that of Python's str.split: White_Space and the four separators before the space.
constexpr bool is_separator(char32_t c) noexcept { return c >= 0x1c && c <= 0x1f; }

// A space for white space, lower case for letters, others themselves.
constexpr std::array<char, 128> make_ascii() noexcept {
  std::array<char, 128> folded{};
  for (char32_t c = 0; c < folded.size(); ++c) {
    const bool space = c == ' ' || (c >= '\t' && c <= '\r') || is_separator(c);
    const bool upper = c >= 'A' && c <= 'Z';
    folded[c] = space ? ' ' : static_cast<char>(upper ? c + ('a' - 'A') : c);
  }
  return folded;
}
constexpr std::array<char, 128> kAscii = make_ascii();

// The bytes written to `out`, which has room for all of `name`, or npos for a name beyond ASCII.
std::size_t fold_ascii(std::string_view name, char* out) noexcept {
  std::size_t n = 0;
  bool gap = false;  // white space came since the last other character
  for (const char c : name) {
    if (static_cast<unsigned char>(c) >= 0x80) return std::string_view::npos;
    const char folded = kAscii[static_cast<unsigned char>(c)];
    if (folded == ' ') {
      gap = n != 0;
      continue;
    }
    if (gap) out[n++] = ' ';
    gap = false;
    out[n++] = folded;
  }
  return n;
}

std::string fold_any(std::string_view name) {
  const std::string whole = nfkc(casefold(nfkc(name)));
  std::string out;
  out.reserve(whole.size());
  bool gap = false;
  const char* const end = whole.data() + whole.size();
  for (const char* at = whole.data(); at != end;) {
    const Decoded decoded = decode_utf8(at, end);
    if ((char_properties(decoded.code).flags & kWhiteSpace) != 0 || is_separator(decoded.code)) {
      gap = !out.empty();
    } else {
      if (gap) out.push_back(' ');
      gap = false;
      out.append(at, decoded.size);
    }
    at += decoded.size;
  }
  return out;
}

}  // namespace

FoldedName::FoldedName(std::string_view name) {
  if (name.size() <= short_.size()) {
    const std::size_t n = fold_ascii(name, short_.data());
    if (n != std::string_view::npos) {
      view_ = {short_.data(), n};
      return;
    }
  }
  long_ = fold_any(name);
  view_ = long_;
}

}  // namespace spector
