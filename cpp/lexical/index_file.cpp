#include "lexical/index_file.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "lexical/packed_postings.hpp"
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
  kSlots,
  kLengths,
  kCounts,
  kListEnds,
  kLists,
  kSections,
};

constexpr std::array<std::string_view, kSections> kSectionNames{
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
    "rows of the terms",
    "posting lists: ends",
    "posting lists",
};

constexpr FileKind kKind{
    .magic = {'B', 'I', 'D', 'X'},
    .version = 2,
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
};
static_assert(sizeof(Settings) == 48);

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

// The posting lists of a segment, packed.
struct Lists {
  std::vector<std::uint64_t> ends;
  std::vector<std::uint8_t> bytes;
};

Lists pack(const Segment& segment) {
  // Parts of about equal size, by several threads.
  constexpr std::size_t kPart = std::size_t{1} << 20;  // postings
  const std::span<const std::uint32_t> counts = segment.counts();
  std::vector<std::uint32_t> parts;  // first terms
  for (std::size_t i = 0, in_part = kPart; i < counts.size(); in_part += counts[i++]) {
    if (in_part < kPart) continue;
    parts.push_back(static_cast<std::uint32_t>(i));
    in_part = 0;
  }
  parts.push_back(static_cast<std::uint32_t>(counts.size()));
  std::vector<std::vector<std::uint8_t>> packed(parts.size() - 1);
  Lists lists;
  lists.ends.resize(counts.size());
  const std::size_t threads = std::min(4U, std::max(1U, std::thread::hardware_concurrency()));
  parallel_for(packed.size(), threads, [&](std::size_t part) {
    Segment::Unpacked list;
    for (std::uint32_t place = parts[part]; place < parts[part + 1]; ++place) {
      segment.read(place, list);
      pack_postings(list.rows, list.frequencies, packed[part]);
      lists.ends[place] = packed[part].size();
    }
  });
  std::size_t bytes = 0;
  for (std::size_t part = 0; part < packed.size(); ++part) {
    for (std::uint32_t place = parts[part]; place < parts[part + 1]; ++place) {
      lists.ends[place] += bytes;
    }
    bytes += packed[part].size();
  }
  lists.bytes.reserve(bytes + kPackedSlack);
  for (std::vector<std::uint8_t>& part : packed) {
    lists.bytes.insert(lists.bytes.end(), part.begin(), part.end());
    part = {};
  }
  lists.bytes.resize(bytes + kPackedSlack);
  return lists;
}

}  // namespace

void save_index(const std::string& path, const IndexContents& contents) {
  const Segment* segment = contents.segment;
  const Settings settings{contents.settings.k1,
                          contents.settings.b,
                          segment == nullptr ? 0 : segment->bound_average(),
                          segment == nullptr ? 0 : segment->best_average(),
                          contents.ids.seed,
                          static_cast<std::uint32_t>(contents.kind),
                          contents.next_row};
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
    sections.push_back(std::as_bytes(strings->ends));
    sections.push_back(std::as_bytes(strings->chars));
    sections.push_back(std::as_bytes(strings->buckets));
  }
  for (const auto& section : {contents.word_terms, contents.token_ids, contents.token_buckets}) {
    sections.push_back(std::as_bytes(section));
  }
  Lists lists;
  sections.resize(kSections);
  if (segment != nullptr) {
    lists = pack(*segment);
    sections[kSlots] = std::as_bytes(segment->slots());
    sections[kLengths] = std::as_bytes(segment->lengths());
    sections[kCounts] = std::as_bytes(segment->counts());
    sections[kListEnds] = std::as_bytes(std::span(lists.ends));
    sections[kLists] = std::as_bytes(std::span(lists.bytes));
  }
  write_file(path, kKind, contents.slots().size(), sections);
}

IndexFile::IndexFile(const std::string& path, bool mapped)
    : path_(path), mapped_(mapped), file_(path, kKind, mapped) {
  read_settings();
  check_segment();
  check();
}

void IndexFile::read_settings() {
  const SharedSpan<Settings> section = file_.array<Settings>(kSettings);
  if (section.values.size() != 1) file_.fail(kSettings, "there must be one");
  const Settings settings = section.values[0];
  if (!(settings.k1 >= 0 && settings.k1 <= 3)) file_.fail(kSettings, "k1 is not in [0, 3]");
  if (!(settings.b >= 0 && settings.b <= 1)) file_.fail(kSettings, "b is not in [0, 1]");
  // As the averages of lengths are, and a little around them.
  const auto is_average = [](double value) { return value > 1e-10 && value < 1e10; };
  if (n_documents() > 0 &&
      !(is_average(settings.bound_average) && is_average(settings.best_average))) {
    file_.fail(kSettings, "an average length is none");
  }
  if (settings.kind != static_cast<std::uint32_t>(IndexKind::kTexts) &&
      settings.kind != static_cast<std::uint32_t>(IndexKind::kTokens)) {
    file_.fail(kSettings, "it holds neither texts nor token ids");
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
  const std::size_t n_rows = file_.array<std::uint32_t>(kSlots).values.size();
  const std::size_t n_terms = file_.array<std::uint32_t>(kCounts).values.size();
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

void IndexFile::check_segment() const {
  constexpr std::uint32_t kMax = 0xffffffffU;
  const auto slots = file_.array<std::uint32_t>(kSlots).values;
  if (slots.size() != n_documents()) file_.fail(kSlots, "not as many as the header says");
  bool ascend = true;  // without branches: these loops are vectorised
  for (std::size_t i = 1; i < slots.size(); ++i) ascend &= slots[i - 1] < slots[i];
  if (slots.size() >= kMax || !ascend) file_.fail(kSlots, "they do not ascend");
  if (!slots.empty() && slots.back() >= next_row_) {
    file_.fail(kSlots, "a document has a row that is not taken yet");
  }
  const auto lengths = file_.array<std::uint32_t>(kLengths).values;
  if (lengths.size() != slots.size()) file_.fail(kLengths, "not one for each document");
  std::uint32_t bits = 0;
  for (const std::uint32_t length : lengths) bits |= length;
  if (bits > kMax / 2) file_.fail(kLengths, "a document of more than 2^31-1 tokens");

  const auto counts = file_.array<std::uint32_t>(kCounts).values;
  const auto ends = file_.array<std::uint64_t>(kListEnds).values;
  const auto lists = file_.array<std::uint8_t>(kLists).values;
  std::uint64_t postings = 0;
  std::uint32_t fewest = kMax;
  std::uint32_t most = 0;
  for (const std::uint32_t count : counts) {
    postings += count;
    fewest = std::min(fewest, count);
    most = std::max(most, count);
  }
  if (fewest == 0 || most > slots.size()) file_.fail(kCounts, "a term of no rows, or of too many");
  if (counts.size() >= kMax || postings >= kMax) file_.fail(kCounts, "too many");
  if (ends.size() != counts.size()) file_.fail(kListEnds, "not one for each term");
  bool sorted = true;
  for (std::size_t i = 1; i < ends.size(); ++i) sorted &= ends[i - 1] <= ends[i];
  if (!sorted) file_.fail(kListEnds, "a list ends before it begins");
  const std::uint64_t size = slots.empty() ? 0 : (ends.empty() ? 0 : ends.back()) + kPackedSlack;
  if (lists.size() != size) file_.fail(kLists, "they do not end with the last one");
}

std::unique_ptr<Segment> IndexFile::segment() const {
  if (n_documents() == 0) return nullptr;
  Segment::Stored stored;
  stored.slots = file_.array<std::uint32_t>(kSlots).values;
  stored.lengths = file_.array<std::uint32_t>(kLengths).values;
  stored.counts = file_.array<std::uint32_t>(kCounts).values;
  stored.ends = file_.array<std::uint64_t>(kListEnds).values;
  stored.lists = file_.array<std::uint8_t>(kLists).values;
  stored.bound_average = bound_average_;
  stored.best_average = best_average_;
  stored.path = path_;
  // Copied lists are unpacked now and let go.
  for (std::size_t section = kSlots; section < (mapped_ ? kSections : kListEnds); ++section) {
    stored.owners.push_back(file_.array<std::byte>(section).owner);
  }
  return std::make_unique<Segment>(std::move(stored), settings_.k1, settings_.b, !mapped_);
}

SharedSpan<std::uint32_t> IndexFile::slots() const { return file_.array<std::uint32_t>(kSlots); }
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

}  // namespace spector
