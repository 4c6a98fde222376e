#include "lexical/index_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "lexical/packed_numbers.hpp"
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

// Version 2 had plain arrays where there are packed ones now.
constexpr std::uint32_t kPackedVersion = 3;

constexpr FileKind kKind{
    .magic = {'B', 'I', 'D', 'X'},
    .version = kPackedVersion,
    .shape = 0,
    .stride = 0,
    .sections = kSectionNames,
    .remedy = kRebuildIndex,
    .oldest = 2,
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

std::size_t n_threads() noexcept {
  return std::min(4U, std::max(1U, std::thread::hardware_concurrency()));
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
  parallel_for(packed.size(), n_threads(), [&](std::size_t part) {
    Segment::Unpacked list;
    for (std::uint32_t place = parts[part]; place < parts[part + 1]; ++place) {
      segment.read(place, list);
      pack_postings(list.rows, list.frequencies, segment.n_rows(), packed[part]);
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

// What ascends is stored as the steps between its numbers.
template <class T>
std::vector<std::uint8_t> pack_steps(std::span<const T> ends) {
  std::vector<std::uint32_t> steps(ends.size());
  T before = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] - before > 0xffffffffU) throw Capacity("a posting list has over 4 GiB");
    steps[i] = static_cast<std::uint32_t>(ends[i] - before);
    before = ends[i];
  }
  return pack_numbers(steps);
}

// A hash table of n entries has a bit for each bucket that is in use, and then what is in those.
std::size_t n_buckets(std::size_t n) noexcept { return n == 0 ? 0 : std::bit_ceil(2 * n); }
std::size_t used_bytes(std::size_t n) noexcept { return (n_buckets(n) + 7) / 8; }

std::vector<std::uint8_t> pack_buckets(std::span<const std::uint32_t> buckets) {
  std::vector<std::uint8_t> packed((buckets.size() + 7) / 8);
  std::vector<std::uint32_t> entries;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i] == 0) continue;
    packed[i / 8] = static_cast<std::uint8_t>(packed[i / 8] | 1U << (i % 8));
    entries.push_back(buckets[i] - 1);
  }
  const std::vector<std::uint8_t> numbers = pack_numbers(entries);
  packed.insert(packed.end(), numbers.begin(), numbers.end());
  return packed;
}

template <class T>
SharedSpan<T> shared(std::vector<T> values) {
  const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  return {*owner, owner};
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
  std::array<std::vector<std::uint8_t>, kSections> packed;
  sections.resize(kSections);
  const auto put = [&](std::size_t section, std::vector<std::uint8_t> bytes) {
    packed[section] = std::move(bytes);
    sections[section] = std::as_bytes(std::span(packed[section]));
  };
  const auto put_strings = [&](std::size_t section, const FrozenStrings::Arrays& strings) {
    put(section, pack_steps(strings.ends));
    sections[section + 1] = std::as_bytes(strings.chars);
    put(section + 2, pack_buckets(strings.buckets));
  };
  put_strings(kIds, contents.ids);
  put_strings(kTerms, contents.terms);
  put_strings(kWords, contents.words);
  put(kWordTerms, pack_numbers(contents.word_terms));
  put(kTokenIds, pack_numbers(contents.token_ids));
  put(kTokenBuckets, pack_buckets(contents.token_buckets));
  if (segment != nullptr) {
    Lists lists = pack(*segment);
    put(kSlots, pack_steps(segment->slots()));
    put(kLengths, pack_numbers(segment->lengths()));
    put(kCounts, pack_numbers(segment->counts()));
    put(kListEnds, pack_steps(std::span<const std::uint64_t>(lists.ends)));
    put(kLists, std::move(lists.bytes));
  }
  write_file(path, kKind, contents.slots().size(), sections);
}

IndexFile::IndexFile(const std::string& path, bool mapped)
    : path_(path), mapped_(mapped), file_(path, kKind, mapped) {
  read_settings();
  read_arrays();
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

SharedSpan<std::uint32_t> IndexFile::numbers(std::size_t section) const {
  if (file_.version() < kPackedVersion) return file_.array<std::uint32_t>(section);
  const std::span<const std::uint8_t> packed = file_.array<std::uint8_t>(section).values;
  std::vector<std::uint32_t> numbers(packed_size(packed));
  if (!unpack_numbers(
          packed, [to = numbers.data()](std::size_t i, std::uint32_t number) { to[i] = number; })) {
    file_.fail(section, "it is no packed array");
  }
  return shared(std::move(numbers));
}

template <class T>
SharedSpan<T> IndexFile::ends(std::size_t section) const {
  if (file_.version() < kPackedVersion) return file_.array<T>(section);
  const std::span<const std::uint8_t> packed = file_.array<std::uint8_t>(section).values;
  std::vector<T> ends(packed_size(packed));
  std::uint64_t end = 0;  // of up to 2^32 steps of up to 2^32
  if (!unpack_numbers(packed, [&, to = ends.data()](std::size_t i, std::uint32_t step) {
        to[i] = static_cast<T>(end += step);
      })) {
    file_.fail(section, "it is no packed array");
  }
  if (end > std::numeric_limits<T>::max()) file_.fail(section, "they are too large");
  return shared(std::move(ends));
}

SharedSpan<std::uint32_t> IndexFile::buckets(std::size_t section, std::size_t n) const {
  if (file_.version() < kPackedVersion) return file_.array<std::uint32_t>(section);
  const std::span<const std::uint8_t> packed = file_.array<std::uint8_t>(section).values;
  const std::size_t n_bytes = used_bytes(n);
  if (packed.size() < n_bytes || packed_size(packed.subspan(n_bytes)) != n) {
    file_.fail(section, "not one for each entry");
  }
  std::vector<std::uint32_t> buckets(n_buckets(n));
  std::size_t byte = 0;
  std::uint32_t used = n == 0 ? 0 : packed[0];  // buckets of the byte that are still to be filled
  bool enough = true;
  const auto take = [&, to = buckets.data()](std::size_t /*i*/, std::uint32_t number) {
    while (used == 0 && byte + 1 < n_bytes) used = packed[++byte];
    const std::size_t bucket = byte * 8 + static_cast<std::size_t>(std::countr_zero(used | 0x100U));
    enough &= used != 0 && bucket < buckets.size();
    if (!enough) return;
    to[bucket] = number + 1;
    used &= used - 1;
  };
  const bool unpacked = unpack_numbers(packed.subspan(n_bytes), take);
  while (used == 0 && byte + 1 < n_bytes) used = packed[++byte];
  if (!unpacked || !enough || used != 0) file_.fail(section, "not a bucket for each entry");
  return shared(std::move(buckets));
}

IndexFile::Strings IndexFile::read_strings(std::size_t first_section) const {
  Strings strings;
  strings.ends = ends<std::uint32_t>(first_section);
  strings.chars = file_.array<char>(first_section + 1);
  strings.buckets = buckets(first_section + 2, strings.ends.values.size());
  if (const char* fault = FrozenStrings::fault(arrays(strings)); fault != nullptr) {
    file_.fail(first_section, fault);
  }
  return strings;
}

FrozenStrings::Arrays IndexFile::arrays(const Strings& strings) const noexcept {
  return {strings.ends.values, strings.chars.values, strings.buckets.values, seed_};
}

FrozenStrings IndexFile::frozen(const Strings& strings) const {
  return {arrays(strings), {strings.ends.owner, strings.chars.owner, strings.buckets.owner}};
}

void IndexFile::read_arrays() {
  // Each of these is some of the arrays; for a large file by several threads.
  const std::function<void()> parts[] = {
      [this] { ids_ = read_strings(kIds); },
      [this] {
        terms_ = read_strings(kTerms);
        words_ = read_strings(kWords);
        word_terms_ = numbers(kWordTerms);
      },
      [this] {
        token_ids_ = numbers(kTokenIds);
        token_buckets_ = buckets(kTokenBuckets, token_ids_.values.size());
      },
      [this] {
        slots_ = ends<std::uint32_t>(kSlots);
        lengths_ = numbers(kLengths);
        counts_ = numbers(kCounts);
        list_ends_ = ends<std::uint64_t>(kListEnds);
      },
  };
  constexpr std::uint64_t kLarge = 1U << 16;  // documents
  const std::size_t threads = n_documents() < kLarge ? 1 : n_threads();
  parallel_for(std::size(parts), threads, [&](std::size_t i) { parts[i](); });
}

void IndexFile::check() const {
  const std::size_t n_rows = slots_.values.size();
  const std::size_t n_terms = counts_.values.size();
  const FrozenStrings::Arrays ids = arrays(ids_);
  if (ids.ends.size() != n_rows) file_.fail(kIds, "not one for each document");
  if (!is_utf8(ids)) file_.fail(kIds, "an id is not UTF-8");

  const bool texts = kind_ == IndexKind::kTexts;
  const std::span<const std::uint32_t> word_terms = word_terms_.values;
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
  const std::span<const std::uint32_t> slots = slots_.values;
  if (slots.size() != n_documents()) file_.fail(kSlots, "not as many as the header says");
  bool ascend = true;  // without branches: these loops are vectorised
  for (std::size_t i = 1; i < slots.size(); ++i) ascend &= slots[i - 1] < slots[i];
  if (slots.size() >= kMax || !ascend) file_.fail(kSlots, "they do not ascend");
  if (!slots.empty() && slots.back() >= next_row_) {
    file_.fail(kSlots, "a document has a row that is not taken yet");
  }
  const std::span<const std::uint32_t> lengths = lengths_.values;
  if (lengths.size() != slots.size()) file_.fail(kLengths, "not one for each document");
  std::uint32_t bits = 0;
  for (const std::uint32_t length : lengths) bits |= length;
  if (bits > kMax / 2) file_.fail(kLengths, "a document of more than 2^31-1 tokens");

  const std::span<const std::uint32_t> counts = counts_.values;
  const std::span<const std::uint64_t> ends = list_ends_.values;
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
  stored.slots = slots_.values;
  stored.lengths = lengths_.values;
  stored.counts = counts_.values;
  stored.ends = list_ends_.values;
  const auto lists = file_.array<std::uint8_t>(kLists);
  stored.lists = lists.values;
  stored.all_blocks = file_.version() < kPackedVersion;
  stored.bound_average = bound_average_;
  stored.best_average = best_average_;
  stored.path = path_;
  stored.owners = {slots_.owner, lengths_.owner, counts_.owner};
  // Copied lists are unpacked now and let go.
  if (mapped_) {
    stored.owners.push_back(list_ends_.owner);
    stored.owners.push_back(lists.owner);
  }
  return std::make_unique<Segment>(std::move(stored), settings_.k1, settings_.b, !mapped_);
}

FrozenKeys IndexFile::token_ids() const {
  return {token_ids_.values, token_buckets_.values, {token_ids_.owner, token_buckets_.owner}};
}

}  // namespace spector
