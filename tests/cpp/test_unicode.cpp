#include "lexical/unicode.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

using namespace spector;

namespace {

// Printed by `python3.13 tools/make_unicode_tables.py --digests` from Python's own `unicodedata`.
constexpr std::uint64_t kEveryNfkc = 0x856ecaf6bf012502;
constexpr std::uint64_t kEveryCasefold = 0x59f7f69a7b6d94dc;
constexpr std::uint64_t kRandomNfkc = 0xdee868a4f7f16194;
constexpr std::uint64_t kRandomCasefold = 0x78305bc46730279d;
constexpr char32_t kCodePoints = 0x110000;

bool is_surrogate(char32_t code) { return code >= 0xD800 && code <= 0xDFFF; }

std::string utf8(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

class Digest {
 public:
  void add(std::string_view text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
    add(std::uint64_t{0});
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  void add(std::uint64_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
  std::uint64_t value_ = 0xcbf29ce484222325;
};

// The strings of random_strings() in tools/make_unicode_tables.py.
template <class Visit>
void for_each_random_string(Visit visit) {
  std::array<std::vector<char32_t>, 2> pools;
  for (char32_t c = 0; c < kCodePoints; ++c) {
    if (is_surrogate(c)) continue;
    const CharProperties p = char_properties(c);
    if (p.combining_class != 0 || (c >= 0x1100 && c <= 0x11FF)) pools[0].push_back(c);
    const bool hangul = c >= 0xAC00 && c <= 0xD7A3;  // mapped by arithmetic
    if (hangul || (p.flags & kMapped) != 0) pools[1].push_back(c);
  }
  std::uint64_t state = 1;
  const auto below = [&state](std::size_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>(state >> 33) % n;
  };
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::size_t> chosen(1 + below(12));
    for (std::size_t& pool : chosen) pool = below(2);
    std::string text;
    for (const std::size_t pool : chosen) append_utf8(text, pools[pool][below(pools[pool].size())]);
    visit(text);
  }
}

std::vector<std::uint32_t> sizes_of(std::string_view bytes, std::u32string& codes) {
  std::vector<std::uint32_t> sizes;
  codes.clear();
  for (const char* p = bytes.data(); p != bytes.data() + bytes.size();) {
    const Decoded d = decode_utf8(p, bytes.data() + bytes.size());
    codes.push_back(d.code);
    sizes.push_back(d.size);
    p += d.size;
  }
  return sizes;
}

}  // namespace

TEST_CASE("every code point survives encoding and decoding") {
  for (char32_t c = 0; c < kCodePoints; ++c) {
    if (is_surrogate(c)) continue;
    const std::string bytes = utf8({&c, 1});
    const Decoded d = decode_utf8(bytes.data(), bytes.data() + bytes.size());
    if (d.code != c || d.size != bytes.size()) FAIL("U+" << std::uint32_t{c});
  }
}

TEST_CASE("ill-formed UTF-8 gives one U+FFFD per maximal subpart") {
  std::u32string codes;
  // The example of the Unicode standard, table 3-11.
  auto sizes = sizes_of("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64", codes);
  CHECK(codes == U"a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  CHECK(sizes == std::vector<std::uint32_t>{1, 3, 2, 1, 1, 1, 1, 1, 1, 1});
  // A surrogate, overlong forms, beyond the last code point, bytes that never occur.
  for (const std::string_view bytes :
       {"\xED\xA0\x80", "\xC0\xAF", "\xE0\x80\xAF", "\xF0\x80\x80\xAF", "\xF4\x90\x80\x80", "\xFE",
        "\xFF\xFF"}) {
    sizes = sizes_of(bytes, codes);
    CHECK(codes == std::u32string(bytes.size(), U'\uFFFD'));
  }
  // Cut short at the end of the text.
  for (const std::string_view bytes : {"\xC3", "\xE2\x82", "\xF0\x9F\x9A"}) {
    sizes = sizes_of(bytes, codes);
    CHECK(codes == U"\uFFFD");
    CHECK(sizes == std::vector<std::uint32_t>{static_cast<std::uint32_t>(bytes.size())});
  }
}

TEST_CASE("NFKC and casefold agree with Python on every code point") {
  Digest normalized;
  Digest folded;
  for (char32_t c = 0; c < kCodePoints; ++c) {
    if (is_surrogate(c)) continue;
    const std::string text = utf8({&c, 1});
    normalized.add(nfkc(text));
    folded.add(casefold(text));
  }
  CHECK(normalized.value() == kEveryNfkc);
  CHECK(folded.value() == kEveryCasefold);
}

TEST_CASE("NFKC and casefold agree with Python on random strings") {
  Digest normalized;
  Digest folded;
  for_each_random_string([&](const std::string& text) {
    normalized.add(nfkc(text));
    folded.add(casefold(text));
  });
  CHECK(normalized.value() == kRandomNfkc);
  CHECK(folded.value() == kRandomCasefold);
}

TEST_CASE("NFKC is idempotent") {
  for_each_random_string([](const std::string& text) {
    const std::string once = nfkc(text);
    if (nfkc(once) != once) FAIL("not stable: " << text);
  });
}

TEST_CASE("a long run of marks is ordered stably by combining class") {
  // The short and the long way of ordering must agree: same marks, once beyond the threshold.
  for (const std::size_t n : {2U, 15U, 16U, 17U, 40U, 1000U}) {
    std::u32string text = U"x";
    std::u32string below;
    std::u32string above;
    for (std::size_t i = 0; i < n; ++i) {
      const char32_t high = i % 3 == 0 ? U'\u0305' : U'\u0346';  // both 230, neither composes
      const char32_t low = i % 2 == 0 ? U'\u0332' : U'\u0333';   // both 220
      text += {high, low};
      above += high;
      below += low;
    }
    CHECK(nfkc(utf8(text)) == utf8(U"x" + below + above));
  }
}

TEST_CASE("classes") {
  const auto class_of = [](char32_t c) { return char_properties(c).char_class; };
  CHECK(class_of(U'a') == CharClass::Lower);
  CHECK(class_of(U'\u01C5') == CharClass::Upper);  // titlecase
  CHECK(class_of(U'\u0416') == CharClass::Upper);
  CHECK(class_of(U'\u05D0') == CharClass::Letter);
  CHECK(class_of(U'7') == CharClass::Digit);
  CHECK(class_of(U'\u0301') == CharClass::Mark);
  CHECK(class_of(U'\u6771') == CharClass::Cjk);
  CHECK(class_of(U'\u3042') == CharClass::Cjk);
  CHECK(class_of(U'\u30FC') == CharClass::Cjk);    // long vowel
  CHECK(class_of(U'\u3005') == CharClass::Cjk);    // iteration mark
  CHECK(class_of(U'\u3007') == CharClass::Cjk);    // zero
  CHECK(class_of(U'\u30FB') == CharClass::Other);  // middle dot
  CHECK(class_of(U'\uAC10') == CharClass::Hangul);
  CHECK(class_of(U'\u1100') == CharClass::Hangul);
  CHECK(class_of(U'\u0E17') == CharClass::Thai);
  CHECK(class_of(U'\u0E35') == CharClass::Mark);
  CHECK(class_of(U'\u0E51') == CharClass::Digit);
  CHECK(class_of(U'\U0001F680') == CharClass::Other);
  CHECK(class_of(U'\uFFFD') == CharClass::Other);
  CHECK(class_of(U'\U0010FFFF') == CharClass::Other);
}
