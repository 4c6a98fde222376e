#include "lexical/index_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "kernels/bm25.hpp"
#include "lexical/unicode.hpp"

namespace spector {
namespace {

// Numbers of sections. Three in a row are one set of strings: ends, bytes, hash buckets.
enum Section : std::size_t {
  kSettings,
  kNames,
  kIds,
  kTerms = kIds + 3,
  kWords = kTerms + 3,
  kWordTerms = kWords + 3,
  kTokenIds,
  kTokenBuckets,
  kSegment,  // its parts in the order of Segment::Part
};
constexpr std::size_t kSegmentParts = 12;

constexpr std::array<std::string_view, kSegment + kSegmentParts> kSectionNames{
    "settings",
    "names",
    "ids: ends",
    "ids: bytes",
    "ids: buckets",
    "terms: ends",
    "terms: bytes",
    "terms: buckets",
    "words: ends",
    "words: bytes",
    "words: buckets",
    "terms of words",
    "token ids",
    "token ids: buckets",
    "slots",
    "lengths",
    "ends of the rows' terms",
    "terms of the rows",
    "posting lists",
    "offsets in windows",
    "rows",
    "bounds",
    "frequencies",
    "high frequencies",
    "beginnings of windows",
    "highest bounds of windows",
};

constexpr FileKind kKind{
    .magic = {'B', 'I', 'D', 'X'},
    .version = 1,
    .shape = 0,
    .stride = 0,
    .sections = kSectionNames,
    .remedy = kRebuildIndex,
};

struct Settings {
  double k1;
  double b;
  double bound_average;
  double best_average;
  std::uint64_t seed;
  std::uint32_t kind;
  std::uint32_t next_row;
  std::uint32_t window;
  std::uint32_t reserved;
};
static_assert(sizeof(Settings) == 56);
static_assert(sizeof(Segment::Term) == 16 && sizeof(Segment::Escape) == 8);

constexpr std::size_t part(Segment::Part which) noexcept {
  return kSegment + static_cast<std::size_t>(which);
}

template <class T>
std::span<const std::byte> bytes_of(std::span<const T> items) noexcept {
  return std::as_bytes(items);
}

// Each string is well-formed UTF-8: ids become Python strings.
bool is_utf8(const FrozenStrings::Arrays& strings) noexcept {
  const char* const first = strings.chars.data();
  const char* const last = first + strings.chars.size();
  unsigned char all = 0;
  for (const char* at = first; at < last; ++at) {
    all = static_cast<unsigned char>(all | static_cast<unsigned char>(*at));
  }
  if (all < 0x80) return true;
  constexpr std::string_view kSpelled = "\xef\xbf\xbd";  // U+FFFD itself
  for (const char* at = first; at < last;) {
    const Decoded decoded = decode_utf8(at, last);
    if (decoded.code == kReplacement && std::string_view(at, decoded.size) != kSpelled) {
      return false;
    }
    at += decoded.size;
  }
  // None begins within a character.
  return std::all_of(strings.ends.begin(), strings.ends.end(), [&](std::uint32_t end) {
    return first + end == last || (static_cast<unsigned char>(first[end]) & 0xc0) != 0x80;
  });
}

}  // namespace

void save_index(const std::string& path, const IndexContents& contents) {
  const Segment::Arrays& segment = contents.segment;
  const Settings settings{contents.settings.k1,
                          contents.settings.b,
                          segment.bound_average,
                          segment.best_average,
                          contents.ids.seed,
                          static_cast<std::uint32_t>(contents.kind),
                          contents.next_row,
                          static_cast<std::uint32_t>(kernels::kWindow),
                          0};
  std::string names;
  for (const std::string* name :
       {&contents.settings.analyzer, &contents.settings.language, &contents.settings.fingerprint}) {
    names.append(*name).push_back('\0');
  }
  std::vector<std::span<const std::byte>> sections{
      std::as_bytes(std::span(&settings, 1)),
      std::as_bytes(std::span(names)),
  };
  for (const FrozenStrings::Arrays* strings : {&contents.ids, &contents.terms, &contents.words}) {
    sections.push_back(bytes_of(strings->ends));
    sections.push_back(bytes_of(strings->chars));
    sections.push_back(bytes_of(strings->buckets));
  }
  for (const std::span<const std::byte> section :
       {bytes_of(contents.word_terms), bytes_of(contents.token_ids),
        bytes_of(contents.token_buckets), bytes_of(segment.slots), bytes_of(segment.lengths),
        bytes_of(segment.row_term_ends), bytes_of(segment.row_terms), bytes_of(segment.terms),
        bytes_of(segment.offsets), bytes_of(segment.sparse_rows), bytes_of(segment.bounds),
        bytes_of(segment.frequencies), bytes_of(segment.escapes), bytes_of(segment.window_starts),
        bytes_of(segment.window_maxima)}) {
    sections.push_back(section);
  }
  write_file(path, kKind, segment.slots.size(), sections);
}

IndexFile::IndexFile(const std::string& path, bool mapped) : file_(path, kKind, mapped) {
  read_settings();
  check();
}

void IndexFile::read_settings() {
  const SharedSpan<Settings> section = file_.array<Settings>(kSettings);
  if (section.values.size() != 1) file_.fail(kSettings, "there must be one");
  const Settings settings = section.values[0];
  if (!(settings.k1 >= 0 && settings.k1 <= 3)) file_.fail(kSettings, "k1 is not in [0, 3]");
  if (!(settings.b >= 0 && settings.b <= 1)) file_.fail(kSettings, "b is not in [0, 1]");
  const auto is_average = [&](double value) { return std::isfinite(value) && value > 0; };
  if (n_documents() > 0 &&
      !(is_average(settings.bound_average) && is_average(settings.best_average))) {
    file_.fail(kSettings, "an average length is not above 0");
  }
  if (settings.kind != static_cast<std::uint32_t>(IndexKind::kTexts) &&
      settings.kind != static_cast<std::uint32_t>(IndexKind::kTokens)) {
    file_.fail(kSettings, "it holds neither texts nor token ids");
  }
  if (settings.window != kernels::kWindow || settings.reserved != 0) {
    file_.refuse("its windows are of " + std::to_string(settings.window) +
                 " rows, those of this release of " + std::to_string(kernels::kWindow));
  }
  bound_average_ = settings.bound_average;
  best_average_ = settings.best_average;
  seed_ = settings.seed;
  kind_ = static_cast<IndexKind>(settings.kind);
  next_row_ = settings.next_row;

  const SharedSpan<char> names = file_.array<char>(kNames);
  std::vector<std::string> found;
  for (std::span<const char> rest = names.values; !rest.empty();) {
    const auto end = std::find(rest.begin(), rest.end(), '\0');
    if (end == rest.end()) file_.fail(kNames, "the last one does not end");
    found.emplace_back(rest.begin(), end);
    rest = rest.subspan(found.back().size() + 1);
  }
  if (found.size() != 3) file_.fail(kNames, "there must be three");
  for (const char c : names.values) {
    if (static_cast<unsigned char>(c) >= 0x80) file_.fail(kNames, "they must be ASCII");
  }
  settings_ = {settings.k1, settings.b, std::move(found[0]), std::move(found[1]),
               std::move(found[2])};
}

void IndexFile::check() const {
  for (const std::size_t first : {std::size_t{kIds}, std::size_t{kTerms}, std::size_t{kWords}}) {
    if (const char* fault = FrozenStrings::fault(string_arrays(first)); fault != nullptr) {
      file_.fail(first, fault);
    }
  }
  const Segment::Arrays segment = segment_arrays();
  if (const auto fault = Segment::fault(segment)) file_.fail(part(fault->part), fault->what);

  const std::size_t n_rows = segment.slots.size();
  const std::size_t n_terms = segment.terms.size();
  if (n_rows != n_documents()) {
    file_.fail(part(Segment::Part::kSlots), "not as many as the header says");
  }
  if (n_rows > 0 && segment.slots.back() >= next_row_) {
    file_.fail(part(Segment::Part::kSlots), "a document has a row that is not taken yet");
  }
  const FrozenStrings::Arrays ids = string_arrays(kIds);
  if (ids.ends.size() != n_rows) file_.fail(kIds, "not one for each document");
  if (!is_utf8(ids)) file_.fail(kIds, "an id is not UTF-8");

  const bool texts = kind_ == IndexKind::kTexts;
  const std::span<const std::uint32_t> word_terms = this->word_terms().values;
  if (terms().size() != (texts ? n_terms : 0)) file_.fail(kTerms, "not one for each posting list");
  if (words().size() != word_terms.size()) file_.fail(kWordTerms, "not one for each word");
  if (std::any_of(word_terms.begin(), word_terms.end(),
                  [n_terms](std::uint32_t term) { return term >= n_terms; })) {
    file_.fail(kWordTerms, "a term that is not there");
  }
  const FrozenKeys tokens = token_ids();
  if (tokens.keys.size() != (texts ? 0 : n_terms)) {
    file_.fail(kTokenIds, "not one for each posting list");
  }
  if (const char* fault = bucket_fault(tokens.buckets, tokens.keys.size()); fault != nullptr) {
    file_.fail(kTokenBuckets, fault);
  }
}

std::unique_ptr<Segment> IndexFile::segment() const {
  if (n_documents() == 0) return nullptr;
  std::vector<std::shared_ptr<const void>> owners;
  owners.reserve(3);
  for (std::size_t section = kSegment; section < kSectionNames.size(); ++section) {
    owners.push_back(file_.array<std::byte>(section).owner);
  }
  return std::make_unique<Segment>(segment_arrays(), std::move(owners));
}

SharedSpan<std::uint32_t> IndexFile::slots() const {
  return file_.array<std::uint32_t>(part(Segment::Part::kSlots));
}
FrozenStrings IndexFile::ids() const { return strings(kIds); }
FrozenStrings IndexFile::terms() const { return strings(kTerms); }
FrozenStrings IndexFile::words() const { return strings(kWords); }
SharedSpan<std::uint32_t> IndexFile::word_terms() const {
  return file_.array<std::uint32_t>(kWordTerms);
}
FrozenKeys IndexFile::token_ids() const {
  const auto keys = file_.array<std::uint32_t>(kTokenIds);
  const auto buckets = file_.array<std::uint32_t>(kTokenBuckets);
  return {keys.values, buckets.values, {keys.owner, buckets.owner}};
}

FrozenStrings::Arrays IndexFile::string_arrays(std::size_t first_section) const {
  return {file_.array<std::uint32_t>(first_section).values,
          file_.array<char>(first_section + 1).values,
          file_.array<std::uint32_t>(first_section + 2).values, seed_};
}

FrozenStrings IndexFile::strings(std::size_t first_section) const {
  std::vector<std::shared_ptr<const void>> owners;
  owners.reserve(3);
  for (std::size_t i = 0; i < 3; ++i) {
    owners.push_back(file_.array<std::byte>(first_section + i).owner);
  }
  return {string_arrays(first_section), std::move(owners)};
}

Segment::Arrays IndexFile::segment_arrays() const {
  using enum Segment::Part;
  Segment::Arrays arrays;
  arrays.slots = file_.array<std::uint32_t>(part(kSlots)).values;
  arrays.lengths = file_.array<std::uint32_t>(part(kLengths)).values;
  arrays.row_term_ends = file_.array<std::uint32_t>(part(kRowTermEnds)).values;
  arrays.row_terms = file_.array<std::uint8_t>(part(kRowTerms)).values;
  arrays.terms = file_.array<Segment::Term>(part(Segment::Part::kTerms)).values;
  arrays.offsets = file_.array<std::uint16_t>(part(kOffsets)).values;
  arrays.sparse_rows = file_.array<std::uint32_t>(part(kSparseRows)).values;
  arrays.bounds = file_.array<std::uint8_t>(part(kBounds)).values;
  arrays.frequencies = file_.array<std::uint8_t>(part(kFrequencies)).values;
  arrays.escapes = file_.array<Segment::Escape>(part(kEscapes)).values;
  arrays.window_starts = file_.array<std::uint32_t>(part(kWindowStarts)).values;
  arrays.window_maxima = file_.array<std::uint8_t>(part(kWindowMaxima)).values;
  arrays.bound_average = bound_average_;
  arrays.best_average = best_average_;
  return arrays;
}

}  // namespace spector
