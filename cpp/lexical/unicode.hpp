// Unicode as the analyzer needs it: tolerant UTF-8 decoding, NFKC, full casefold, character
// classes. No locale is involved anywhere. Everything here is a pure function over constant tables,
// so calls may run together; every function is linear in its input, also for a text that is one run
// of millions of combining marks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spector {

// Also asserted by tools/make_unicode_tables.py, which writes the tables.
inline constexpr char kUnicodeVersion[] = "15.1.0";

enum class CharClass : std::uint8_t {
  Other,   // separators, symbols, controls, unassigned
  Mark,    // M*
  Digit,   // N*
  Upper,   // Lu, Lt
  Lower,   // Ll
  Letter,  // the other letters
  // Letters of scripts that are written without spaces.
  Cjk,  // Han, Hiragana and Katakana with their iteration and length marks
  Hangul,
  Thai,
};

struct CharProperties {
  CharClass char_class;
  std::uint8_t combining_class;
  std::uint8_t flags;
};

// Bits of CharProperties::flags.
inline constexpr std::uint8_t kStable = 1;        // NFKC keeps it and begins anew at it
inline constexpr std::uint8_t kComposesBack = 2;  // may merge with what stands before it
inline constexpr std::uint8_t kAccentBase = 4;    // Latin, Greek, Cyrillic letter or ASCII digit
inline constexpr std::uint8_t kWhiteSpace = 8;
inline constexpr std::uint8_t kIgnorable = 16;  // invisible inside a word: soft hyphen, ZWJ, ...
inline constexpr std::uint8_t kMapped = 32;     // has a decomposition or a casefold

[[nodiscard]] CharProperties char_properties(char32_t code) noexcept;

inline constexpr char32_t kReplacement = 0xFFFD;

struct Decoded {
  char32_t code;
  std::uint32_t size;  // bytes consumed, at least 1
};

// Reads one code point from [p, end), which must not be empty. An ill-formed sequence gives one
// U+FFFD per maximal subpart (Unicode, table 3-8); an encoded surrogate gives three.
[[nodiscard]] Decoded decode_utf8(const char* p, const char* end) noexcept;
void append_utf8(std::string& out, char32_t code);

// One code point with the bytes of the source that it came from.
struct SourcedChar {
  char32_t code;
  std::uint32_t begin;
  std::uint32_t end;
  CharProperties properties;
};

// Incremental NFKC. Feed code points in order; every character that no later one can change is
// appended to `done`, which the caller may consume and clear between calls.
class Normalizer {
 public:
  std::vector<SourcedChar> done;

  void put(char32_t code, std::uint32_t begin, std::uint32_t end);
  void finish();

 private:
  void flush();

  SourcedChar starter_{};  // a stable character still undecomposed, if have_starter_
  bool have_starter_ = false;
  std::vector<SourcedChar> segment_;  // decomposed: one starter at most at its begin, then the rest
  std::vector<SourcedChar> scratch_;
};

// Folds a cluster (a base character with its marks, NFKC) for matching: full casefold, canonical
// decomposition, optionally removal of the marks that follow a Latin, Greek or Cyrillic base or an
// ASCII digit (so the letters that Cyrillic writes with a mark, й and ё, lose it as well),
// composition. Appends UTF-8.
class Folder {
 public:
  void fold(const SourcedChar* first, const SourcedChar* last, bool strip_accents,
            std::string& out);

 private:
  std::vector<SourcedChar> chars_;
  std::vector<SourcedChar> scratch_;
};

// Whole strings; ill-formed input is read as U+FFFD.
[[nodiscard]] std::string nfkc(std::string_view utf8);
[[nodiscard]] std::string casefold(std::string_view utf8);

}  // namespace spector
