#include "lexical/unicode.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "lexical/unicode_tables.hpp"

namespace spector {
namespace {

namespace tables = unicode_tables;

constexpr char32_t kHangulFirst = 0xAC00;
constexpr char32_t kHangulCount = 11172;
constexpr char32_t kLeadFirst = 0x1100;
constexpr char32_t kVowelFirst = 0x1161;
constexpr char32_t kTailBase = 0x11A7;  // one before the first trailing consonant
constexpr char32_t kLeadCount = 19;
constexpr char32_t kVowelCount = 21;
constexpr char32_t kTailCount = 28;

template <class Stage1, class Stage2>
auto lookup(const Stage1& stage1, const Stage2& stage2, char32_t code) noexcept {
  return stage2[(static_cast<std::size_t>(stage1[code >> 6]) << 6) | (code & 63)];
}

std::span<const std::uint32_t> pooled(std::uint16_t position) noexcept {
  return {&tables::kPool[position] + 1, tables::kPool[position]};
}

// Calls emit(code) for each code point of the full compatibility decomposition. On NFKC text this
// is the canonical decomposition (the generator asserts it).
template <class Emit>
void decompose(char32_t code, Emit emit) {
  if (code - kHangulFirst < kHangulCount) {
    const char32_t index = code - kHangulFirst;
    emit(kLeadFirst + index / (kVowelCount * kTailCount));
    emit(kVowelFirst + index / kTailCount % kVowelCount);
    if (index % kTailCount != 0) emit(kTailBase + index % kTailCount);
    return;
  }
  const std::uint16_t position =
      lookup(tables::kDecompositionStage1, tables::kDecompositionStage2, code);
  if (position == 0) {
    emit(code);
    return;
  }
  for (const char32_t part : pooled(position)) emit(part);
}

template <class Emit>
void casefold_char(char32_t code, Emit emit) {
  const std::uint16_t position = lookup(tables::kFoldingStage1, tables::kFoldingStage2, code);
  if (position == 0) {
    emit(code);
    return;
  }
  for (const char32_t part : pooled(position)) emit(part);
}

// 0 if the pair does not compose.
char32_t composed(char32_t first, char32_t second) noexcept {
  if (first - kLeadFirst < kLeadCount && second - kVowelFirst < kVowelCount) {
    return kHangulFirst +
           ((first - kLeadFirst) * kVowelCount + (second - kVowelFirst)) * kTailCount;
  }
  if (first - kHangulFirst < kHangulCount && (first - kHangulFirst) % kTailCount == 0 &&
      second > kTailBase && second < kTailBase + kTailCount) {
    return first + (second - kTailBase);
  }
  const std::uint64_t key = static_cast<std::uint64_t>(first) << 32 | second;
  const std::uint64_t* last = tables::kComposeKey + tables::kCompositions;
  const std::uint64_t* found = std::lower_bound(tables::kComposeKey, last, key);
  if (found == last || *found != key) return 0;
  return tables::kComposeResult[found - tables::kComposeKey];
}

// Stable order by combining class of each run of non-starters. Short runs by insertion, long ones
// by counting: a text may be one run of millions of marks.
void order_marks(std::vector<SourcedChar>& chars, std::vector<SourcedChar>& scratch) {
  constexpr std::size_t kShort = 16;
  const auto rank = [](const SourcedChar& c) { return c.properties.combining_class; };
  for (std::size_t begin = 0; begin < chars.size();) {
    if (rank(chars[begin]) == 0) {
      ++begin;
      continue;
    }
    std::size_t end = begin + 1;
    while (end < chars.size() && rank(chars[end]) != 0) ++end;
    if (end - begin <= kShort) {
      for (std::size_t i = begin + 1; i < end; ++i) {
        const SourcedChar moved = chars[i];
        std::size_t j = i;
        for (; j > begin && rank(chars[j - 1]) > rank(moved); --j) chars[j] = chars[j - 1];
        chars[j] = moved;
      }
    } else {
      std::array<std::size_t, 257> starts{};
      for (std::size_t i = begin; i < end; ++i) ++starts[rank(chars[i]) + 1U];
      for (std::size_t r = 1; r < starts.size(); ++r) starts[r] += starts[r - 1];
      scratch.assign(chars.begin() + static_cast<std::ptrdiff_t>(begin),
                     chars.begin() + static_cast<std::ptrdiff_t>(end));
      for (const SourcedChar& c : scratch) chars[begin + starts[rank(c)]++] = c;
    }
    begin = end;
  }
}

// Canonical composition of ordered characters, in place.
void compose(std::vector<SourcedChar>& chars) {
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::size_t starter = kNone;
  std::size_t kept = 0;
  std::uint8_t last_class = 0;  // of the last character kept after the starter
  for (const SourcedChar c : chars) {
    const std::uint8_t rank = c.properties.combining_class;
    if (starter != kNone && (c.properties.flags & kComposesBack) != 0) {
      const bool adjacent = starter + 1 == kept;
      if (adjacent || (last_class != 0 && last_class < rank)) {
        SourcedChar& base = chars[starter];
        if (const char32_t merged = composed(base.code, c.code); merged != 0) {
          base = {merged, std::min(base.begin, c.begin), std::max(base.end, c.end),
                  char_properties(merged)};
          continue;
        }
      }
    }
    if (rank == 0) starter = kept;
    last_class = rank;
    chars[kept++] = c;
  }
  chars.resize(kept);
}

template <class Put>
void for_each_char(std::string_view utf8, Put put) {
  const char* const first = utf8.data();
  const char* const last = first + utf8.size();
  for (const char* p = first; p != last;) {
    const Decoded decoded = decode_utf8(p, last);
    put(decoded.code);
    p += decoded.size;
  }
}

}  // namespace

CharProperties char_properties(char32_t code) noexcept {
  return tables::kRecords[lookup(tables::kPropertyStage1, tables::kPropertyStage2, code)];
}

Decoded decode_utf8(const char* p, const char* end) noexcept {
  const auto byte = [p](std::ptrdiff_t i) { return static_cast<unsigned char>(p[i]); };
  const std::ptrdiff_t left = end - p;
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const auto continues = [&](std::ptrdiff_t i, unsigned low, unsigned high) {
    return i < left && byte(i) >= low && byte(i) <= high;
  };
  if (lead >= 0xC2 && lead <= 0xDF) {
    if (!continues(1, 0x80, 0xBF)) return {kReplacement, 1};
    return {(lead & 0x1FU) << 6 | (byte(1) & 0x3FU), 2};
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!continues(1, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF)) {
      return {kReplacement, 1};
    }
    if (!continues(2, 0x80, 0xBF)) return {kReplacement, 2};
    return {(lead & 0xFU) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU), 3};
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!continues(1, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF)) {
      return {kReplacement, 1};
    }
    if (!continues(2, 0x80, 0xBF)) return {kReplacement, 2};
    if (!continues(3, 0x80, 0xBF)) return {kReplacement, 3};
    return {
        (lead & 7U) << 18 | (byte(1) & 0x3FU) << 12 | (byte(2) & 0x3FU) << 6 | (byte(3) & 0x3FU),
        4};
  }
  return {kReplacement, 1};
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

void Normalizer::put(char32_t code, std::uint32_t begin, std::uint32_t end) {
  const CharProperties properties = char_properties(code);
  if ((properties.flags & kStable) != 0) {
    flush();
    starter_ = {code, begin, end, properties};
    have_starter_ = true;
    return;
  }
  decompose(code, [&](char32_t part) {
    const CharProperties p = char_properties(part);
    if ((p.flags & kStable) != 0) {
      flush();
      starter_ = {part, begin, end, p};
      have_starter_ = true;
      return;
    }
    if (have_starter_) {
      have_starter_ = false;
      decompose(starter_.code, [&](char32_t base) {
        segment_.push_back({base, starter_.begin, starter_.end, char_properties(base)});
      });
    }
    segment_.push_back({part, begin, end, p});
  });
}

void Normalizer::finish() { flush(); }

void Normalizer::flush() {
  if (have_starter_) {
    done.push_back(starter_);
    have_starter_ = false;
  } else if (!segment_.empty()) {
    order_marks(segment_, scratch_);
    compose(segment_);
    done.insert(done.end(), segment_.begin(), segment_.end());
    segment_.clear();
  }
}

void Folder::fold(const SourcedChar* first, const SourcedChar* last, bool strip_accents,
                  std::string& out) {
  if (last - first == 1 && (first->properties.flags & kMapped) == 0) {
    append_utf8(out, first->code);
    return;
  }
  chars_.clear();
  bool accent_base = false;
  for (const SourcedChar* c = first; c != last; ++c) {
    casefold_char(c->code, [&](char32_t folded) {
      decompose(folded, [&](char32_t part) {
        const CharProperties p = char_properties(part);
        if (p.char_class != CharClass::Mark) {
          accent_base = strip_accents && (p.flags & kAccentBase) != 0;
        } else if (accent_base) {
          return;
        }
        chars_.push_back({part, 0, 0, p});
      });
    });
  }
  if (chars_.size() > 1) {
    order_marks(chars_, scratch_);
    compose(chars_);
  }
  for (const SourcedChar& c : chars_) append_utf8(out, c.code);
}

std::string nfkc(std::string_view utf8) {
  std::string out;
  out.reserve(utf8.size());
  Normalizer normalizer;
  const auto drain = [&] {
    for (const SourcedChar& c : normalizer.done) append_utf8(out, c.code);
    normalizer.done.clear();
  };
  for_each_char(utf8, [&](char32_t code) {
    normalizer.put(code, 0, 0);
    drain();
  });
  normalizer.finish();
  drain();
  return out;
}

std::string casefold(std::string_view utf8) {
  std::string out;
  out.reserve(utf8.size());
  for_each_char(utf8, [&](char32_t code) {
    casefold_char(code, [&](char32_t folded) { append_utf8(out, folded); });
  });
  return out;
}

}  // namespace spector
