#include "lexical/analyzer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <type_traits>

#include "base/hash.hpp"
#include "lexical/unicode.hpp"

namespace spector {
namespace {

// No token is longer: the postings never see a text-sized key. Of a longer form the head stays,
// followed by its hash (TOK-7).
constexpr std::size_t kMaxTokenBytes = 256;
constexpr std::size_t kHashBytes = 16;
// TOK-2: of more borders the last ones count (a path's file name wins).
constexpr std::size_t kMaxSuffixes = 8;
constexpr std::size_t kMaxPrefixes = 8;
// TOK-4: an alphanumeric run this long with this many letter/digit changes is a hash or a key.
constexpr std::size_t kHashLength = 16;
constexpr std::size_t kHashChanges = 4;
constexpr std::size_t kUuidSize = 36;
constexpr std::size_t kUuidHeadSize = 8;
constexpr std::size_t kDateSize = 10;
// Source offsets inside one normalised stretch are 32 bits wide; a longer one is read in pieces.
constexpr std::size_t kMaxStretchBytes = std::size_t{1} << 30;

// CharClass continued by the joiners of TOK-1, in the order of their levels.
enum class Class : std::uint8_t {
  Separator,
  Mark,
  Digit,
  Upper,
  Lower,
  Letter,
  Cjk,
  Hangul,
  Thai,
  Underscore,
  Hyphen,
  Plus,
  Apostrophe,
  Dot,
  Slash,
  Backslash,
  Colon,
  At,
  Hash,
  NonAscii,  // of bytes only
};
static_assert(static_cast<int>(CharClass::Thai) == static_cast<int>(Class::Thai));

constexpr bool is_letter(Class c) { return c >= Class::Upper && c <= Class::Letter; }
constexpr bool is_word(Class c) { return c >= Class::Digit && c <= Class::Letter; }
constexpr bool is_unspaced(Class c) { return c >= Class::Cjk && c <= Class::Thai; }
// Underscores are part of a segment; the others stand between two.
constexpr bool is_joiner(Class c) { return c >= Class::Hyphen && c <= Class::Hash; }
constexpr int level_of(Class c) {
  if (c >= Class::Slash && c <= Class::Hash) return 1;
  if (c == Class::Dot) return 2;
  return c >= Class::Underscore && c <= Class::Apostrophe ? 3 : 4;
}
constexpr std::uint32_t bit(Class c) { return 1U << static_cast<unsigned>(c); }

constexpr std::array<Class, 256> kByteClasses = [] {
  std::array<Class, 256> classes{};
  for (std::size_t b = '0'; b <= '9'; ++b) classes[b] = Class::Digit;
  for (std::size_t b = 'A'; b <= 'Z'; ++b) classes[b] = Class::Upper;
  for (std::size_t b = 'a'; b <= 'z'; ++b) classes[b] = Class::Lower;
  for (std::size_t b = 128; b < 256; ++b) classes[b] = Class::NonAscii;
  classes['/'] = Class::Slash;
  classes['\\'] = Class::Backslash;
  classes[':'] = Class::Colon;
  classes['@'] = Class::At;
  classes['_'] = Class::Underscore;
  classes['-'] = Class::Hyphen;
  classes['+'] = Class::Plus;
  classes['\''] = Class::Apostrophe;
  classes['.'] = Class::Dot;
  classes['#'] = Class::Hash;
  return classes;
}();
constexpr Class byte_class(char c) { return kByteClasses[static_cast<unsigned char>(c)]; }

// A fixed set of short words. At most half full, so that a probe sequence ends soon.
template <std::size_t Slots>
class WordSet {
 public:
  consteval WordSet(std::initializer_list<std::string_view> words) {
    for (const std::string_view word : words) {
      longest_ = std::max(longest_, word.size());
      std::size_t slot = hash(word) % Slots;
      while (!slots_[slot].empty()) slot = (slot + 1) % Slots;
      slots_[slot] = word;
    }
  }
  [[nodiscard]] constexpr bool contains(std::string_view word) const {
    if (word.size() > longest_ || word.empty()) return false;
    for (std::size_t slot = hash(word) % Slots; !slots_[slot].empty(); slot = (slot + 1) % Slots) {
      if (slots_[slot] == word) return true;
    }
    return false;
  }

 private:
  static constexpr std::size_t hash(std::string_view word) {
    const auto at = [word](std::size_t i) {
      return static_cast<std::size_t>(static_cast<unsigned char>(word[i]));
    };
    const std::size_t last = word.size() - 1;
    return at(0) * 31 + at(last / 2) * 17 + at(last) * 7 + word.size() * 131;
  }
  std::array<std::string_view, Slots> slots_{};
  std::size_t longest_ = 0;
};

// TOK-8, AM-2: function words only. They are indexed (`not`, `in`, `if` and `for` are code too).
// Words that say nothing of what a question is about (TOK-8, AM-2). Those of place, time, number
// and degree do (during, before, over, both, other, only), and "may" is a month: kept, they find
// more.
constexpr WordSet<256> kStopWords = {
    // articles, pronouns
    "a", "an", "the", "i", "me", "my", "myself", "we", "us", "our", "ours", "ourselves", "you",
    "your", "yours", "yourself", "yourselves", "he", "him", "his", "himself", "she", "her", "hers",
    "herself", "it", "its", "itself", "they", "them", "their", "theirs", "themselves", "this",
    "that", "these", "those", "there", "here", "such",
    // prepositions, conjunctions, particles
    "about", "as", "at", "by", "for", "from", "in", "into", "of", "on", "to", "with", "and", "but",
    "or", "if", "then", "not", "no",
    // questions
    "what", "when", "who", "whom", "whose", "which", "where", "why", "how",
    // auxiliaries
    "am", "is", "are", "was", "were", "be", "been", "being", "do", "does", "did", "doing", "have",
    "has", "had", "having", "can", "cannot", "could", "will", "would", "shall", "should"};

constexpr WordSet<256> kContractions = {
    "aren't",  "can't",   "couldn't", "didn't",  "doesn't", "don't",   "hadn't",    "hasn't",
    "haven't", "isn't",   "mightn't", "mustn't", "needn't", "shan't",  "shouldn't", "wasn't",
    "weren't", "won't",   "wouldn't", "ain't",   "i'm",     "you're",  "we're",     "they're",
    "who're",  "i've",    "you've",   "we've",   "they've", "i'd",     "you'd",     "he'd",
    "she'd",   "it'd",    "we'd",     "they'd",  "who'd",   "i'll",    "you'll",    "he'll",
    "she'll",  "it'll",   "we'll",    "they'll", "who'll",  "he's",    "she's",     "it's",
    "that's",  "there's", "here's",   "what's",  "when's",  "where's", "who's",     "why's",
    "how's",   "that'll", "that'd",   "what're", "let's"};

// What a contraction or a possessive leaves behind its apostrophe.
constexpr WordSet<16> kRemnants = {"s", "t", "ll", "re", "ve", "d", "m"};

// The list of the reference system.
constexpr WordSet<128> kStandardStopWords = {
    "a",   "an",    "and",  "are",   "as",    "at",   "be",   "but", "by",  "for",  "if",
    "in",  "into",  "is",   "it",    "no",    "not",  "of",   "on",  "or",  "such", "that",
    "the", "their", "then", "there", "these", "they", "this", "to",  "was", "will", "with"};

struct Form {
  std::size_t begin;  // in TokenStream::chars
  std::size_t size;
};

// TOK-7: a form of more than 256 bytes becomes its first 240, cut at a code point, and 16 digits of
// its hash, written behind `chars`.
Form short_form(std::string& chars, std::size_t begin, std::size_t end) {
  if (end - begin <= kMaxTokenBytes) return {begin, end - begin};
  const std::uint64_t hash = hash64(std::string_view(chars).substr(begin, end - begin));
  std::size_t kept = kMaxTokenBytes - kHashBytes;
  while (kept > 0 && (static_cast<unsigned char>(chars[begin + kept]) & 0xC0U) == 0x80U) --kept;
  const std::size_t at = chars.size();
  chars.resize(at + kept + kHashBytes);
  std::copy_n(chars.begin() + static_cast<std::ptrdiff_t>(begin), kept,
              chars.begin() + static_cast<std::ptrdiff_t>(at));
  for (std::size_t i = 0; i < kHashBytes; ++i) {
    chars[at + kept + i] = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
  }
  return {at, kept + kHashBytes};
}

void lower_ascii(std::string& text) {
  for (char& c : text) c = static_cast<char>(c + ((c >= 'A' && c <= 'Z') ? 'a' - 'A' : 0));
}

// A stretch of ASCII. The stream's characters begin with the whole text in lower case, so a folded
// slice is already there.
class AsciiView {
 public:
  AsciiView(std::string_view text, std::size_t begin, std::size_t end)
      : text_(text.substr(begin, end - begin)), begin_(begin) {}

  [[nodiscard]] std::size_t size() const { return text_.size(); }
  [[nodiscard]] Class at(std::size_t i) const { return byte_class(text_[i]); }
  [[nodiscard]] char32_t code(std::size_t i) const { return static_cast<unsigned char>(text_[i]); }
  void fold(std::size_t /*begin*/, std::size_t /*end*/, std::string& /*chars*/) {}
  [[nodiscard]] std::size_t folded(std::size_t i) const { return begin_ + i; }
  [[nodiscard]] std::size_t source_begin(std::size_t i) const { return begin_ + i; }
  [[nodiscard]] std::size_t source_end(std::size_t /*first*/, std::size_t last) const {
    return begin_ + last;
  }

 private:
  std::string_view text_;
  std::size_t begin_;
};

// TOK-5: Latin letters that are other ones with a stroke, or two, but do not decompose.
void replace_latin(std::string& chars, std::size_t offset) {
  struct Letter {
    std::string_view letter;
    std::string_view plain;
  };
  static constexpr std::array<Letter, 10> kLetters = {{{"\u00E6", "ae"},
                                                       {"\u00F0", "d"},
                                                       {"\u00F8", "o"},
                                                       {"\u00FE", "th"},
                                                       {"\u0111", "d"},
                                                       {"\u0127", "h"},
                                                       {"\u0131", "i"},
                                                       {"\u0142", "l"},
                                                       {"\u0153", "oe"},
                                                       {"\u0167", "t"}}};
  const auto lead = static_cast<unsigned char>(chars[offset]);
  if (lead < 0xC3 || lead > 0xC5) return;
  const std::string_view folded = std::string_view(chars).substr(offset, 2);
  for (const Letter& l : kLetters) {
    if (l.letter == folded) {
      chars.replace(offset, folded.size(), l.plain);
      return;
    }
  }
}

// A stretch of NFKC characters that remember where they came from.
class UnicodeView {
 public:
  UnicodeView(std::span<const SourcedChar> chars, std::size_t source, Folder& folder,
              std::vector<std::size_t>& offsets)
      : chars_(chars), source_(source), folder_(folder), offsets_(offsets) {}

  [[nodiscard]] std::size_t size() const { return chars_.size(); }
  [[nodiscard]] const SourcedChar& operator[](std::size_t i) const { return chars_[i]; }

  [[nodiscard]] Class at(std::size_t i) const { return class_of(chars_[i]); }
  [[nodiscard]] char32_t code(std::size_t i) const { return chars_[i].code; }

  static Class class_of(const SourcedChar& c) {
    if (c.properties.char_class != CharClass::Other) {
      return static_cast<Class>(c.properties.char_class);
    }
    if (c.code < 0x80) return kByteClasses[c.code];
    if (c.code == 0x2019) return Class::Apostrophe;
    if (c.code == 0x2010) return Class::Hyphen;  // NFKC of the non-breaking hyphen
    return Class::Separator;
  }

  // Appends the folded form of [begin, end) and notes where each character's begins.
  void fold(std::size_t begin, std::size_t end, std::string& chars) {
    first_ = begin;
    offsets_.assign(end - begin + 1, 0);
    for (std::size_t i = begin; i < end;) {
      const std::size_t offset = chars.size();
      std::size_t next = i + 1;
      while (next < end && chars_[next].properties.char_class == CharClass::Mark) ++next;
      std::fill(offsets_.begin() + static_cast<std::ptrdiff_t>(i - begin),
                offsets_.begin() + static_cast<std::ptrdiff_t>(next - begin), offset);
      const Class c = at(i);
      if (c == Class::Apostrophe) {
        chars.push_back('\'');
      } else if (c == Class::Hyphen) {
        chars.push_back('-');
      } else {
        folder_.fold(&chars_[i], chars_.data() + next, true, chars);
        if (chars.size() - offset >= 2) replace_latin(chars, offset);
      }
      i = next;
    }
    offsets_[end - begin] = chars.size();
  }
  [[nodiscard]] std::size_t folded(std::size_t i) const { return offsets_[i - first_]; }

  [[nodiscard]] std::size_t source_begin(std::size_t i) const { return source_ + chars_[i].begin; }
  // Marks may have been reordered: the furthest end counts.
  [[nodiscard]] std::size_t source_end(std::size_t first, std::size_t last) const {
    std::uint32_t end = 0;
    for (std::size_t i = first; i < last; ++i) end = std::max(end, chars_[i].end);
    return source_ + end;
  }

 private:
  std::span<const SourcedChar> chars_;
  std::size_t source_;
  Folder& folder_;
  std::vector<std::size_t>& offsets_;
  std::size_t first_ = 0;
};

// The tokens of one compound, each text once per value of `word`.
class TokenSink {
 public:
  explicit TokenSink(TokenStream& out) : out_(out) {}

  void begin_compound() {
    first_ = out_.tokens.size();
    hashed_ = false;
  }

  void add(std::size_t begin, std::size_t end, bool part, bool word, bool stop) {
    if (begin == end) return;
    const std::size_t before = out_.chars.size();
    const Form form = short_form(out_.chars, begin, end);
    if (!is_new(std::string_view(out_.chars).substr(form.begin, form.size), word)) {
      out_.chars.resize(before);
      return;
    }
    out_.tokens.push_back({.begin = form.begin,
                           .size = static_cast<std::uint32_t>(form.size),
                           .part = part,
                           .word = word,
                           .stop = stop});
    if (hashed_) insert(out_.tokens.size() - 1);
  }

  [[nodiscard]] std::uint32_t count() const {
    return static_cast<std::uint32_t>(out_.tokens.size() - first_);
  }

 private:
  static constexpr std::size_t kLinear = 16;  // up to here comparing is faster than hashing

  bool is_new(std::string_view text, bool word) {
    const std::size_t n = out_.tokens.size() - first_;
    if (n < kLinear) {
      for (std::size_t i = first_; i < out_.tokens.size(); ++i) {
        if (same(out_.tokens[i], text, word)) return false;
      }
      return true;
    }
    if (!hashed_ || 2 * n >= slots_.size()) rehash(n);
    for (std::size_t slot = hash(text, word) & (slots_.size() - 1); slots_[slot] != 0;
         slot = (slot + 1) & (slots_.size() - 1)) {
      if (same(out_.tokens[first_ + slots_[slot] - 1], text, word)) return false;
    }
    return true;
  }

  [[nodiscard]] bool same(const Token& token, std::string_view text, bool word) const {
    return token.word == word && out_.text(token) == text;
  }

  static std::size_t hash(std::string_view text, bool word) {
    const std::size_t h = std::hash<std::string_view>{}(text);
    return word ? ~h : h;
  }

  void rehash(std::size_t n) {
    std::size_t size = 64;
    while (size < 4 * n) size *= 2;
    slots_.assign(size, 0);
    hashed_ = true;
    for (std::size_t i = first_; i < out_.tokens.size(); ++i) insert(i);
  }

  void insert(std::size_t token) {
    const Token& t = out_.tokens[token];
    std::size_t slot = hash(out_.text(t), t.word) & (slots_.size() - 1);
    while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = static_cast<std::uint32_t>(token - first_ + 1);
  }

  TokenStream& out_;
  std::size_t first_ = 0;
  bool hashed_ = false;
  std::vector<std::uint32_t> slots_;  // 1 + number of the token in the compound; 0 is free
};

constexpr char32_t lower(char32_t c) { return c + (c >= 'A' && c <= 'Z' ? 'a' - 'A' : 0); }
constexpr bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
constexpr bool is_hex(char32_t c) { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f'); }

// Whether a UUID begins here, at a border, and ends at one.
template <class View>
bool starts_uuid(const View& view, std::size_t begin, std::size_t end) {
  if (end - begin < kUuidSize || view.at(begin + kUuidHeadSize) != Class::Hyphen) return false;
  for (std::size_t i = 0; i < kUuidSize; ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? view.at(begin + i) != Class::Hyphen : !is_hex(view.code(begin + i))) return false;
  }
  return end - begin == kUuidSize || level_of(view.at(begin + kUuidSize)) <= 3;
}

// Whether a date (`2031-01-05`) begins here, at a border, and ends at one or before a time.
template <class View>
bool starts_date(const View& view, std::size_t begin, std::size_t end) {
  if (end - begin < kDateSize || view.at(begin + 4) != Class::Hyphen) return false;
  for (std::size_t i = 0; i < kDateSize; ++i) {
    const bool dash = i == 4 || i == 7;
    if (dash ? view.at(begin + i) != Class::Hyphen : !is_digit(view.code(begin + i))) return false;
  }
  const std::size_t next = begin + kDateSize;
  if (next == end || level_of(view.at(next)) <= 3) return true;
  return lower(view.code(next)) == 't' && next + 1 < end && is_digit(view.code(next + 1));
}

template <class View>
bool starts_with(const View& view, std::size_t begin, std::size_t end, std::string_view text) {
  if (end - begin < text.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (lower(view.code(begin + i)) != static_cast<unsigned char>(text[i])) return false;
  }
  return true;
}

bool is_hex_literal(std::string_view folded) {
  return folded.size() > 2 && folded.starts_with("0x") &&
         std::all_of(folded.begin() + 2, folded.end(),
                     [](char c) { return is_hex(static_cast<unsigned char>(c)); });
}

// Calls emit(begin, end) for the pieces of [begin, end), which holds no joiner (TOK-3).
template <class View, class Emit>
void for_each_piece(const View& view, std::size_t begin, std::size_t end, Emit emit) {
  Class before = Class::Separator;  // the base before `last`
  Class last = Class::Separator;    // the last base; marks belong to theirs
  std::size_t last_at = begin;
  std::size_t start = begin;
  for (std::size_t i = begin; i < end; ++i) {
    const Class c = view.at(i);
    if (c == Class::Mark) continue;
    if (i != begin) {
      if ((c == Class::Digit) != (last == Class::Digit) ||
          (c == Class::Upper && last == Class::Lower)) {
        emit(start, i);
        start = i;
      } else if (c == Class::Lower && last == Class::Upper && before == Class::Upper) {
        emit(start, last_at);
        start = last_at;
      }
    }
    before = last;
    last = c;
    last_at = i;
  }
  emit(start, end);
}

// Calls emit(begin, end) for the stretches of [begin, end) between joiners of at most `level`.
template <class View, class Emit>
void for_each_segment(const View& view, std::size_t begin, std::size_t end, int level, Emit emit) {
  std::size_t start = begin;
  for (std::size_t i = begin; i < end; ++i) {
    if (level_of(view.at(i)) > level) continue;
    if (i > start) emit(start, i);
    start = i + 1;
  }
  if (end > start) emit(start, end);
}

// Calls emit(begin, end) for the stretches of [begin, end) between joiners of any level. A UUID is
// one of them.
template <class View, class Emit>
void for_each_leaf(const View& view, std::size_t begin, std::size_t end, Emit emit) {
  std::size_t start = begin;
  for (std::size_t i = begin; i < end;) {
    if (i == start && starts_uuid(view, i, end)) {
      i += kUuidSize;
    } else if (level_of(view.at(i)) > 3) {
      ++i;
      continue;
    }
    if (i > start) emit(start, i);
    start = ++i;
  }
  if (end > start) emit(start, end);
}

// What one pass over a stretch tells.
struct Shape {
  std::uint32_t joiners = 0;  // bits of the joiner classes in it, underscore included
  std::size_t bases = 0;      // letters and digits
  std::size_t changes = 0;    // from letter to digit or back, side by side
  bool digit = false;
  bool camel = false;  // lower->Upper or Upper->Upper+lower

  [[nodiscard]] bool has(std::uint32_t classes) const { return (joiners & classes) != 0; }
  [[nodiscard]] bool letters_only() const { return joiners == 0 && !digit; }
  [[nodiscard]] bool pieces() const { return camel || changes != 0; }
};

template <class View>
Shape shape_of(const View& view, std::size_t begin, std::size_t end) {
  Shape shape;
  Class before = Class::Separator;
  Class last = Class::Separator;
  for (std::size_t i = begin; i < end; ++i) {
    const Class c = view.at(i);
    if (c == Class::Mark) continue;
    if (is_word(c)) {
      ++shape.bases;
      shape.digit |= c == Class::Digit;
      if (is_word(last)) {
        shape.changes += (c == Class::Digit) != (last == Class::Digit);
        shape.camel |= (c == Class::Upper && last == Class::Lower) ||
                       (c == Class::Lower && last == Class::Upper && before == Class::Upper);
      }
    } else {
      shape.joiners |= bit(c);
    }
    before = last;
    last = c;
  }
  return shape;
}

constexpr std::uint32_t kLevel1 = bit(Class::Slash) | bit(Class::Backslash) | bit(Class::Colon) |
                                  bit(Class::At) | bit(Class::Hash);
constexpr std::uint32_t kLevel2 = bit(Class::Dot);
constexpr std::uint32_t kLevel3 =
    bit(Class::Underscore) | bit(Class::Hyphen) | bit(Class::Plus) | bit(Class::Apostrophe);

// Kind Code.
class CodeAnalyzer {
 public:
  CodeAnalyzer(std::string_view text, TokenStream& out) : text_(text), out_(out), sink_(out) {}

  void run() {
    out_.chars.assign(text_);
    lower_ascii(out_.chars);
    const char* const data = text_.data();
    const std::size_t n = text_.size();
    for (std::size_t i = 0; i < n;) {
      const Class c = byte_class(data[i]);
      if (c == Class::Separator || is_joiner(c)) {
        ++i;
        continue;
      }
      if (is_letter(c)) {
        if (const std::size_t end = plain_word_end(i); end != 0) {
          add_plain_word(i, end);
          i = end;
          continue;
        }
      }
      // Up to the next separator that is ASCII: those neither change nor attract anything in NFKC
      // but marks, which then have no base and separate as well.
      bool ascii = true;
      std::size_t end = i;
      for (; end < n; ++end) {
        const Class e = byte_class(data[end]);
        if (e == Class::Separator) break;
        ascii &= e != Class::NonAscii;
      }
      if (ascii) {
        AsciiView view(text_, i, end);
        split(view);
      } else {
        for (; i < end; i += kMaxStretchBytes) {
          split_unicode(i, std::min(end, i + kMaxStretchBytes));
        }
      }
      i = end;
    }
  }

 private:
  // The end of a word of ASCII letters without camel border that is a compound by itself, or 0.
  [[nodiscard]] std::size_t plain_word_end(std::size_t begin) const {
    const char* const data = text_.data();
    const std::size_t n = text_.size();
    std::size_t end = begin;
    std::size_t uppers = 0;
    for (; end < n; ++end) {
      const Class c = byte_class(data[end]);
      if (!is_letter(c)) break;
      uppers += c == Class::Upper;
    }
    if (uppers > 1 && uppers != end - begin) return 0;
    if (uppers == 1 && byte_class(data[begin]) != Class::Upper) return 0;
    if (end == n) return end;
    const Class next = byte_class(data[end]);
    if (next == Class::Separator) return end;
    if (!is_joiner(next) || next == Class::Hash) return 0;
    return end + 1 == n || byte_class(data[end + 1]) == Class::Separator ? end : 0;
  }

  void add_plain_word(std::size_t begin, std::size_t end) {
    const bool stop = kStopWords.contains(std::string_view(out_.chars).substr(begin, end - begin));
    const Form form = short_form(out_.chars, begin, end);
    out_.compounds.push_back({.first_token = out_.tokens.size(),
                              .n_tokens = 1,
                              .identifier = false,
                              .whole_only = false,
                              .source_begin = begin,
                              .source_end = end});
    out_.tokens.push_back({.begin = form.begin,
                           .size = static_cast<std::uint32_t>(form.size),
                           .part = false,
                           .word = true,
                           .stop = stop});
  }

  void split_unicode(std::size_t begin, std::size_t end) {
    const char* const data = text_.data();
    const auto drain = [&] {
      UnicodeView view(normalizer_.done, begin, folder_, offsets_);
      split(view);
      normalizer_.done.clear();
    };
    for (std::size_t i = begin; i < end;) {
      const Decoded d = decode_utf8(data + i, data + end);
      const std::size_t next = i + d.size;
      // Soft hyphens, zero-width (non-)joiners and variation selectors vanish inside a word.
      if (d.code < 0x80 || (char_properties(d.code).flags & kIgnorable) == 0) {
        normalizer_.put(d.code, static_cast<std::uint32_t>(i - begin),
                        static_cast<std::uint32_t>(next - begin));
        if (!normalizer_.done.empty() &&
            UnicodeView::class_of(normalizer_.done.back()) == Class::Separator) {
          drain();
        }
      }
      i = next;
    }
    normalizer_.finish();
    drain();
  }

  // Reads [begin, size) as a segment: letters, digits, their marks and underscores with at least
  // one letter or digit. `end` is where it stops in any case.
  template <class View>
  static bool segment(const View& view, std::size_t begin, std::size_t& end) {
    bool found = false;
    Class last = Class::Separator;
    for (end = begin; end < view.size(); ++end) {
      const Class c = view.at(end);
      if (is_word(c)) {
        found = true;
      } else if (c == Class::Mark) {
        if (last == Class::Separator || last == Class::Underscore) break;  // no base
      } else if (c != Class::Underscore) {
        break;
      }
      last = c;
    }
    return found;
  }

  // The length of what joins two segments at `i`, or 0: one joiner, or one of the pairs and runs
  // that names are written with (`::`, `:\\`, `://`).
  template <class View>
  static std::size_t joiner_size(const View& view, std::size_t i) {
    if (i >= view.size() || !is_joiner(view.at(i))) return 0;
    const auto at = [&](std::size_t k) {
      return i + k < view.size() ? view.at(i + k) : Class::Separator;
    };
    if (at(0) == Class::Backslash) return at(1) == Class::Backslash ? 2 : 1;
    if (at(0) != Class::Colon) return 1;
    if (at(1) == Class::Colon) return 2;
    std::size_t size = 1;
    while (size < 4 && (at(size) == Class::Slash || at(size) == Class::Backslash)) ++size;
    return size;
  }

  // Reads the joiner and the segment behind `end`; where that segment ends, or 0.
  template <class View>
  static std::size_t next_segment(const View& view, std::size_t end) {
    const std::size_t joiner = joiner_size(view, end);
    std::size_t next = 0;
    return joiner != 0 && segment(view, end + joiner, next) ? next : 0;
  }

  template <class View>
  void split(View& view) {
    const std::size_t n = view.size();
    for (std::size_t i = 0; i < n;) {
      const Class c = view.at(i);
      if (is_unspaced(c)) {
        std::size_t end = i + 1;
        while (end < n && (view.at(end) == c || view.at(end) == Class::Mark)) ++end;
        if constexpr (std::is_same_v<View, UnicodeView>) add_bigrams(view, i, end);
        i = end;
      } else if (is_word(c) || c == Class::Underscore) {
        std::size_t end = 0;
        if (!segment(view, i, end)) {
          i = end;
          continue;
        }
        while (const std::size_t next = next_segment(view, end)) end = next;
        i = add_compound(view, i, end);
      } else {
        ++i;
      }
    }
  }

  // TOK-6. A character is a base with its marks; each bigram is a compound of its own.
  void add_bigrams(const UnicodeView& view, std::size_t begin, std::size_t end) {
    std::size_t previous = begin;  // the character before the current one
    std::size_t previous_offset = out_.chars.size();
    const auto add = [&](std::size_t from, std::size_t offset, std::size_t to) {
      const Form form = short_form(out_.chars, offset, out_.chars.size());
      out_.compounds.push_back({.first_token = out_.tokens.size(),
                                .n_tokens = 1,
                                .identifier = false,
                                .whole_only = false,
                                .source_begin = view.source_begin(from),
                                .source_end = view.source_end(from, to)});
      out_.tokens.push_back({.begin = form.begin,
                             .size = static_cast<std::uint32_t>(form.size),
                             .part = false,
                             .word = false,
                             .stop = false});
    };
    const auto append = [&](std::size_t from) {
      std::size_t to = from;
      do {
        append_utf8(out_.chars, view[to].code);  // these scripts have no case and keep their marks
        ++to;
      } while (to < end && view.at(to) == Class::Mark);
      return to;
    };
    std::size_t i = append(begin);
    if (i == end) {
      add(begin, previous_offset, end);
      return;
    }
    while (i < end) {
      const std::size_t offset = out_.chars.size();
      const std::size_t next = append(i);
      const std::size_t size = out_.chars.size() - offset;
      add(previous, previous_offset, next);
      previous = i;
      previous_offset = offset;
      if (out_.chars.size() != offset + size) {  // no longer the last: the next goes behind it
        previous_offset = out_.chars.size();
        out_.chars.append(out_.chars, offset, size);
      }
      i = next;
    }
  }

  // Adds the compound whose segments are [begin, segments_end) and returns where reading goes on:
  // behind a trailing `++` or `#` and behind the remnants that are not part of it.
  template <class View>
  std::size_t add_compound(View& view, std::size_t begin, std::size_t segments_end) {
    const std::size_t core = without_remnants(view, begin, segments_end);
    std::size_t end = core == segments_end ? core + tail(view, core) : core;
    view.fold(begin, end, out_.chars);
    if (end != core && ends_opaque(view, begin, core)) end = core;
    const bool tailed = end != core;
    const Shape shape = shape_of(view, begin, core);
    const std::string_view folded = slice(view, begin, end);

    Compound compound{.first_token = out_.tokens.size(),
                      .n_tokens = 0,
                      .identifier = tailed || shape.pieces() ||
                                    shape.has(kLevel1 | kLevel2 | bit(Class::Underscore)) ||
                                    (shape.has(bit(Class::Hyphen)) && shape.digit),
                      .whole_only = false,
                      .source_begin = view.source_begin(begin),
                      .source_end = view.source_end(begin, end)};
    sink_.begin_compound();
    constexpr std::string_view kUrn = "urn:uuid:";
    const std::size_t urn = starts_with(view, begin, core, kUrn) ? kUrn.size() : 0;
    if (core - begin - urn == kUuidSize && starts_uuid(view, begin + urn, core)) {
      compound.identifier = true;
      compound.whole_only = true;
      const std::size_t at = view.folded(begin + urn);
      sink_.add(at, at + kUuidSize, false, false, false);
      add_uuid_parts(at);
    } else if (!tailed && is_atomic(shape, folded)) {
      compound.whole_only = true;
      sink_.add(view.folded(begin), view.folded(end), false, false, false);
    } else {
      // All of a contraction is a function word, `don` of `don't` too.
      contraction_ = shape.has(bit(Class::Apostrophe)) && kContractions.contains(folded);
      if (tailed) {
        sink_.add(view.folded(begin), view.folded(end), false, false, false);
      } else {
        add_form(view, begin, end, shape, false, false);
      }
      if (tailed || shape.joiners != 0) add_parts(view, begin, core, end, shape);
      if (shape.pieces()) add_pieces(view, begin, core);
    }
    compound.n_tokens = sink_.count();
    out_.compounds.push_back(compound);
    if (!tailed) return segments_end;
    // `c++'s`
    if (end == view.size() || view.at(end) != Class::Apostrophe) return end;
    std::size_t next = 0;
    if (!segment(view, end + 1, next) || !is_remnant(view, end + 1, next)) return end;
    return next_segment(view, next) == 0 ? next : end;
  }

  template <class View>
  static bool is_remnant(const View& view, std::size_t begin, std::size_t end) {
    std::array<char, 2> text{};
    if (end - begin > text.size()) return false;
    for (std::size_t i = begin; i < end; ++i) {
      const char32_t c = lower(view.code(i));
      if (c < 'a' || c > 'z') return false;
      text[i - begin] = static_cast<char>(c);
    }
    return kRemnants.contains({text.data(), end - begin});
  }

  // TOK-1: where the segments [begin, end) end without trailing `'s` and the like, which belong to
  // plain words only.
  template <class View>
  static std::size_t without_remnants(const View& view, std::size_t begin, std::size_t end) {
    std::size_t plain = 0;  // up to where it is a plain word, once known
    for (;;) {
      std::size_t rest = 0;
      for (std::size_t size = 1; size <= 2 && end - begin > size + 1; ++size) {
        if (view.at(end - size - 1) == Class::Apostrophe && is_remnant(view, end - size, end)) {
          rest = end - size - 1;
        }
      }
      if (rest == 0) return end;
      if (plain == 0) plain = plain_end(view, begin, end);
      if (plain >= rest) return end;
      end = rest;
    }
  }

  template <class View>
  static std::size_t plain_end(const View& view, std::size_t begin, std::size_t end) {
    Class before = Class::Separator;
    Class last = Class::Separator;
    for (std::size_t i = begin; i < end; ++i) {
      const Class c = view.at(i);
      if (c == Class::Mark) continue;
      if (!is_letter(c) || (c == Class::Upper && last == Class::Lower) ||
          (c == Class::Lower && last == Class::Upper && before == Class::Upper)) {
        return i;
      }
      before = last;
      last = c;
    }
    return end;
  }

  // Whether the last segment is a UUID, a hash or the like, to which `#` and `++` do not belong.
  template <class View>
  [[nodiscard]] bool ends_opaque(const View& view, std::size_t begin, std::size_t core) const {
    if (core - begin >= kUuidSize && starts_uuid(view, core - kUuidSize, core) &&
        (core - begin == kUuidSize || level_of(view.at(core - kUuidSize - 1)) <= 3)) {
      return true;
    }
    std::size_t from = core;
    while (from > begin && level_of(view.at(from - 1)) > 3) --from;
    return is_atomic(shape_of(view, from, core), slice(view, from, core));
  }

  // Length of a trailing `++` or `#` after a letter.
  template <class View>
  static std::size_t tail(const View& view, std::size_t core) {
    std::size_t base = core - 1;
    while (view.at(base) == Class::Mark) --base;
    if (!is_letter(view.at(base)) || core >= view.size()) return 0;
    if (view.at(core) == Class::Hash) return 1;
    const bool plus = view.at(core) == Class::Plus;
    return plus && core + 1 < view.size() && view.at(core + 1) == Class::Plus ? 2 : 0;
  }

  // Suffixes, then the segments level by level (TOK-2).
  template <class View>
  void add_parts(const View& view, std::size_t begin, std::size_t core, std::size_t end,
                 const Shape& shape) {
    add_suffixes(view, begin, core, end);
    if (shape.digit && shape.has(kLevel2 | bit(Class::Hyphen))) add_numbers(view, begin, core);
    // The last segment of level 1 and 2 carries the tail; a deeper segment is new only if it
    // differs from the one it lies in.
    const auto whole_end = [core, end](std::size_t to) { return to == core ? end : to; };
    const auto add = [&](std::size_t from, std::size_t to) {
      const bool remnant = from != begin && view.at(from - 1) == Class::Apostrophe;
      add_form(view, from, to, shape_of(view, from, to), true, remnant);
    };
    if (shape.has(kLevel1)) {
      for_each_segment(view, begin, core, 1,
                       [&](std::size_t from, std::size_t to) { add(from, whole_end(to)); });
    }
    if (shape.has(kLevel2)) {
      for_each_segment(view, begin, core, 1, [&](std::size_t from, std::size_t to) {
        for_each_segment(view, from, to, 2, [&](std::size_t from2, std::size_t to2) {
          if (from2 != from || to2 != to) add(from2, whole_end(to2));
        });
      });
    }
    if (shape.has(kLevel3) || end != core) {
      for_each_segment(view, begin, core, 2, [&](std::size_t from, std::size_t to) {
        for_each_leaf(view, from, to, [&](std::size_t from3, std::size_t to3) {
          if (from3 != from || whole_end(to3) != to) add(from3, to3);
        });
      });
    }
    if (shape.joiners == kLevel2 && !shape.digit && end == core) {
      add_acronym(view, begin, core, shape);
    }
  }

  // `U.S.A.` is also the word `usa`.
  template <class View>
  void add_acronym(const View& view, std::size_t begin, std::size_t core, const Shape& shape) {
    std::size_t letters = 1;
    for (std::size_t i = begin; i < core; ++i) letters += view.at(i) == Class::Dot;
    if (letters != shape.bases) return;
    const std::size_t joined = out_.chars.size();
    for (std::size_t i = view.folded(begin); i < view.folded(core); ++i) {
      if (const char c = out_.chars[i]; c != '.') out_.chars.push_back(c);
    }
    const std::size_t end = out_.chars.size();
    sink_.add(joined, end, true, true,
              kStopWords.contains(std::string_view(out_.chars).substr(joined)));
  }

  // Splits every segment of level 3 at its inner borders (TOK-3) unless it is a hash or the like.
  template <class View>
  void add_pieces(const View& view, std::size_t begin, std::size_t core) {
    for_each_leaf(view, begin, core, [&](std::size_t from, std::size_t to) {
      const Shape shape = shape_of(view, from, to);
      // A UUID has joiners.
      if (shape.joiners != 0 || !shape.pieces() || is_atomic(shape, slice(view, from, to))) return;
      for_each_piece(view, from, to, [&](std::size_t a, std::size_t b) {
        add_token(view, a, b, true, view.at(a) != Class::Digit, false);
      });
    });
  }

  // The suffixes that begin behind a border of level 1 or 2 and are no segments themselves; longest
  // first.
  template <class View>
  void add_suffixes(const View& view, std::size_t begin, std::size_t core, std::size_t end) {
    std::array<std::size_t, kMaxSuffixes> starts{};
    std::size_t n = 0;
    int segment_level = 3;  // down to which the segments at the end have been seen
    std::size_t borders = 0;
    for (std::size_t i = core; i-- > begin && borders < kMaxSuffixes;) {
      const int level = level_of(view.at(i));
      if (level > 2 || (i + 1 < core && is_joiner(view.at(i + 1)))) continue;  // `::` is one border
      ++borders;
      if (level < segment_level) {
        segment_level = level;
      } else {
        starts[n++] = i + 1;
      }
    }
    while (n-- > 0) sink_.add(view.folded(starts[n]), view.folded(end), true, false, false);
  }

  // Additions to TOK-2: a dotted number or version between borders is found by its leading numbers
  // and without its `v` (`2026.4`, `1.2.3` of `v1.2.3-rc.1`), a date without its time.
  template <class View>
  void add_numbers(const View& view, std::size_t begin, std::size_t core) {
    std::size_t left = kMaxPrefixes;
    std::size_t first = begin;  // of the current run of numbers
    std::size_t last = begin;   // where it ends
    std::size_t numbers = 0;    // in it
    bool named = false;         // `v` before the first
    const auto close = [&] {
      if (named && numbers > 1) {
        sink_.add(view.folded(first + 1), view.folded(last), true, false, false);
      }
      numbers = 0;
    };
    for_each_leaf(view, begin, core, [&](std::size_t from, std::size_t to) {
      if (starts_date(view, from, core)) {
        sink_.add(view.folded(from), view.folded(from + kDateSize), true, false, false);
      }
      const bool v = lower(view.code(from)) == 'v' && to - from > 1;
      bool number = view.at(from + v) == Class::Digit;
      for (std::size_t i = from + v; i < to && number; ++i) {
        number = view.at(i) == Class::Digit || view.at(i) == Class::Mark;
      }
      const bool dotted = from > begin && view.at(from - 1) == Class::Dot;
      const bool linked = dotted && !v && numbers != 0 && from == last + 1;
      if (!number || !linked) close();
      if (!number || (dotted && !linked)) return;
      if (numbers++ == 0) {
        first = from;
        named = v;
      }
      last = to;
      if (numbers > 1 && left > 0) {
        sink_.add(view.folded(first), view.folded(to), true, false, false);
        --left;
      }
    });
    close();
  }

  void add_uuid_parts(std::size_t begin) {
    sink_.add(begin, begin + kUuidHeadSize, true, false, false);
    const std::size_t undashed = out_.chars.size();
    for (std::size_t i = begin; i < begin + kUuidSize; ++i) {
      if (const char c = out_.chars[i]; c != '-') out_.chars.push_back(c);
    }
    sink_.add(undashed, out_.chars.size(), true, false, false);
  }

  // The whole compound or a segment.
  template <class View>
  void add_form(const View& view, std::size_t begin, std::size_t end, const Shape& shape, bool part,
                bool remnant) {
    const bool letters = shape.letters_only();
    if (!letters || shape.camel) add_token(view, begin, end, part, false, remnant);
    // `YouTube` is also the word `youtube`.
    if (letters) add_token(view, begin, end, part, true, remnant);
    if (part && end - begin == kUuidSize && starts_uuid(view, begin, end)) {
      add_uuid_parts(view.folded(begin));
    }
  }

  template <class View>
  void add_token(const View& view, std::size_t begin, std::size_t end, bool part, bool word,
                 bool remnant) {
    const std::string_view text = slice(view, begin, end);
    const bool stop =
        contraction_ || kStopWords.contains(text) || (remnant && kRemnants.contains(text));
    sink_.add(view.folded(begin), view.folded(end), part, word, stop);
  }

  template <class View>
  [[nodiscard]] std::string_view slice(const View& view, std::size_t begin, std::size_t end) const {
    const std::size_t from = view.folded(begin);
    return std::string_view(out_.chars).substr(from, view.folded(end) - from);
  }

  // TOK-4: a hash, a key or a hexadecimal literal is not taken apart.
  static bool is_atomic(const Shape& shape, std::string_view folded) {
    if (shape.joiners != 0 || !shape.digit) return false;
    return (shape.bases >= kHashLength && shape.changes >= kHashChanges) || is_hex_literal(folded);
  }

  std::string_view text_;
  TokenStream& out_;
  TokenSink sink_;
  bool contraction_ = false;
  Normalizer normalizer_;
  Folder folder_;
  std::vector<std::size_t> offsets_;
};

// Kinds Standard and Whitespace: runs of characters, folded but with their accents.
class PlainAnalyzer {
 public:
  PlainAnalyzer(AnalyzerKind kind, std::string_view text, TokenStream& out)
      : standard_(kind == AnalyzerKind::Standard), text_(text), out_(out) {}

  void run() {
    out_.chars.assign(text_);
    lower_ascii(out_.chars);
    const std::size_t n = text_.size();
    for (std::size_t i = 0; i < n;) {
      std::size_t end = i;
      bool ascii = true;
      for (; end < n; ++end) {
        const auto byte = static_cast<unsigned char>(text_[end]);
        if (byte >= 0x80) {
          ascii = false;
        } else if (!inside_ascii(text_[end])) {
          break;
        }
      }
      if (ascii) {
        add(i, end, i, end);
      } else {
        for (; i < end; i += kMaxStretchBytes) {
          split_unicode(i, std::min(end, i + kMaxStretchBytes));
        }
      }
      i = end + 1;
    }
  }

 private:
  [[nodiscard]] bool inside_ascii(char c) const {
    if (standard_) return is_word(byte_class(c));
    return inside(char_properties(static_cast<unsigned char>(c)));
  }
  [[nodiscard]] bool inside(CharProperties properties) const {
    if (!standard_) return (properties.flags & kWhiteSpace) == 0;
    return properties.char_class != CharClass::Other && properties.char_class != CharClass::Mark;
  }

  void split_unicode(std::size_t begin, std::size_t end) {
    const char* const data = text_.data();
    for (std::size_t i = begin; i < end;) {
      const Decoded d = decode_utf8(data + i, data + end);
      normalizer_.put(d.code, static_cast<std::uint32_t>(i - begin),
                      static_cast<std::uint32_t>(i + d.size - begin));
      i += d.size;
      if (!normalizer_.done.empty()) {
        const SourcedChar& last = normalizer_.done.back();
        if (!inside(last.properties)) drain(begin);
      }
    }
    normalizer_.finish();
    drain(begin);
  }

  void drain(std::size_t source) {
    const std::vector<SourcedChar>& chars = normalizer_.done;
    for (std::size_t i = 0; i < chars.size(); ++i) {
      if (!inside(chars[i].properties)) continue;
      const std::size_t offset = out_.chars.size();
      const std::size_t first = i;
      std::uint32_t source_end = 0;
      while (i < chars.size() && inside(chars[i].properties)) {
        std::size_t next = i + 1;
        while (next < chars.size() && chars[next].properties.char_class == CharClass::Mark &&
               inside(chars[next].properties)) {
          ++next;
        }
        folder_.fold(chars.data() + i, chars.data() + next, false, out_.chars);
        for (; i < next; ++i) source_end = std::max(source_end, chars[i].end);
      }
      add(offset, out_.chars.size(), source + chars[first].begin, source + source_end);
    }
    normalizer_.done.clear();
  }

  void add(std::size_t begin, std::size_t end, std::size_t source_begin, std::size_t source_end) {
    const std::string_view folded = std::string_view(out_.chars).substr(begin, end - begin);
    if (folded.empty()) return;
    if (standard_) {
      const char* const last = folded.data() + folded.size();
      if (decode_utf8(folded.data(), last).size == folded.size()) return;  // one character
      if (kStandardStopWords.contains(folded)) return;
    }
    out_.compounds.push_back({.first_token = out_.tokens.size(),
                              .n_tokens = 1,
                              .identifier = false,
                              .whole_only = false,
                              .source_begin = source_begin,
                              .source_end = source_end});
    const Form form = short_form(out_.chars, begin, end);
    out_.tokens.push_back({.begin = form.begin,
                           .size = static_cast<std::uint32_t>(form.size),
                           .part = false,
                           .word = false,
                           .stop = false});
  }

  bool standard_;
  std::string_view text_;
  TokenStream& out_;
  Normalizer normalizer_;
  Folder folder_;
};

}  // namespace

void TokenStream::clear() {
  chars.clear();
  tokens.clear();
  compounds.clear();
}

void analyze(AnalyzerKind kind, std::string_view utf8, TokenStream& out) {
  out.clear();
  if (kind == AnalyzerKind::Code) {
    CodeAnalyzer(utf8, out).run();
  } else {
    PlainAnalyzer(kind, utf8, out).run();
  }
}

}  // namespace spector
