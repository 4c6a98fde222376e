#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "records/header_check.hpp"
#include "records/record_store.hpp"

namespace spector {
namespace {

enum Section : std::size_t { kSettings, kSlots, kHeaders, kWithVector, kScales, kVectors };

constexpr std::array<std::string_view, 6> kSectionNames{
    "settings", "slots", "headers", "records with a vector", "scales", "vectors",
};

constexpr FileKind kKind{
    .magic = {'S', 'R', 'E', 'C'},
    .version = 1,
    .shape = 0,
    .stride = sizeof(RecordHeader),
    .sections = kSectionNames,
    .remedy = "rebuild the records from the journal and save them again",
};

struct Settings {
  std::uint32_t dimensions;
  std::uint8_t similarity;
  std::uint8_t storage;
  std::uint16_t reserved;
};
static_assert(sizeof(Settings) == 8);

// Calls f(place among `slots`, bits) for each slot of each tag; false if a slot is not there.
template <class F>
bool for_each_tagged(std::span<const std::uint32_t> slots, const TagLists& tags, const F& f) {
  for (std::size_t t = 0; t < tags.tags.size(); ++t) {
    const std::uint64_t bits = tag_filter(tags.tags[t]);
    auto at = slots.begin();
    for (std::int64_t i = tags.ends[t]; i < tags.ends[t + 1]; ++i) {
      const std::uint32_t slot = tags.slots[static_cast<std::size_t>(i)];
      at = std::lower_bound(at != slots.end() && *at <= slot ? at : slots.begin(), slots.end(),
                            slot);
      if (at == slots.end() || *at != slot) return false;
      f(static_cast<std::size_t>(at - slots.begin()), bits);
    }
  }
  return true;
}

void check_lists(const TagLists& tags) {
  const auto refuse = [](const std::string& what) {
    throw std::invalid_argument("tags: the ends must " + what);
  };
  if (tags.ends.size() != tags.tags.size() + 1) refuse("be one more than the tags");
  if (tags.ends.front() != 0 || !std::is_sorted(tags.ends.begin(), tags.ends.end()) ||
      static_cast<std::size_t>(tags.ends.back()) != tags.slots.size()) {
    refuse("ascend from 0 to the number of slots");
  }
}

}  // namespace

void save_records(const RecordStore::View& view, const std::string& path, const TagLists& tags) {
  check_lists(tags);
  const VectorSettings& settings = view.settings;
  const Settings stored{settings.dimensions, static_cast<std::uint8_t>(settings.similarity),
                        static_cast<std::uint8_t>(settings.storage), 0};
  std::vector<std::uint32_t> slots;
  std::vector<RecordHeader> headers;
  std::vector<std::uint32_t> with_vector;
  std::vector<float> scales;
  std::vector<std::byte> vectors;
  slots.reserve(view.n_records);
  headers.reserve(view.n_records);
  with_vector.reserve(view.n_vectors);
  vectors.reserve(view.n_vectors * view.row_bytes);
  for (std::size_t i = 0; i < view.slots(); ++i) {
    const auto slot = static_cast<std::uint32_t>(i);
    if (!view.contains(slot)) continue;
    const RecordStore::Place place = view.places[slot];
    if (place.row_after != 0) {
      with_vector.push_back(static_cast<std::uint32_t>(slots.size()));
      if (settings.storage == VectorStorage::kI8) scales.push_back(place.scale);
      const std::size_t first = vectors.size();
      vectors.resize(first + view.row_bytes);
      view.stored(place.row_after - 1, std::span(vectors).subspan(first));
    }
    slots.push_back(slot);
    headers.push_back(view.header(slot));
  }
  const bool all_there = for_each_tagged(
      slots, tags, [&](std::size_t at, std::uint64_t bits) { headers[at].tag_filter |= bits; });
  if (!all_there) throw std::invalid_argument("tags: a slot without a record");
  const std::array<std::span<const std::byte>, kSectionNames.size()> sections{
      std::as_bytes(std::span(&stored, 1)), std::as_bytes(std::span(slots)),
      std::as_bytes(std::span(headers)),    std::as_bytes(std::span(with_vector)),
      std::as_bytes(std::span(scales)),     std::span<const std::byte>(vectors)};
  write_file(path, kKind, slots.size(), sections);
}

RecordFile::RecordFile(const std::string& path)
    : file_(path, kKind, false),
      slots_(file_.array<std::uint32_t>(kSlots)),
      headers_(file_.array<RecordHeader>(kHeaders)),
      with_vector_(file_.array<std::uint32_t>(kWithVector)),
      scales_(file_.array<float>(kScales)),
      rows_(file_.array<std::byte>(kVectors)) {
  const SharedSpan<Settings> section = file_.array<Settings>(kSettings);
  if (section.values.size() != 1) file_.fail(kSettings, "there must be one");
  const Settings settings = section.values[0];
  if (settings.dimensions > VectorSettings::kMaxDimensions ||
      settings.similarity > static_cast<std::uint8_t>(Similarity::kEuclidean) ||
      settings.storage > static_cast<std::uint8_t>(VectorStorage::kI8) || settings.reserved != 0) {
    file_.fail(kSettings, "a value that there is not");
  }
  settings_ = {settings.dimensions, static_cast<Similarity>(settings.similarity),
               static_cast<VectorStorage>(settings.storage)};
  check();
}

void RecordFile::check() const {
  const auto ascend = [](std::span<const std::uint32_t> values) {
    return std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
  };
  const std::size_t n = slots().size();
  if (n != file_.count()) file_.fail(kSlots, "not as many as the header says");
  if (!ascend(slots())) file_.fail(kSlots, "they do not ascend");
  if (n > 0 && slots().back() == 0xffffffffU) file_.fail(kSlots, "a slot that there is not");
  if (headers().size() != n) file_.fail(kHeaders, "not one for each slot");
  for (const RecordHeader& header : headers()) {
    if (const auto fault = header_fault(header)) file_.fail(kHeaders, *fault);
    if (!(header.norm >= 0 && header.norm <= 1e18F)) {
      file_.fail(kHeaders, "norm must be in [0, 1e18]");
    }
  }
  const std::size_t n_vectors = with_vector().size();
  if (!ascend(with_vector())) file_.fail(kWithVector, "they do not ascend");
  if (n_vectors > 0 && (with_vector().back() >= n || settings_.dimensions == 0)) {
    file_.fail(kWithVector, "a record that there is not");
  }
  const bool codes = settings_.storage == VectorStorage::kI8;
  if (scales().size() != (codes ? n_vectors : 0)) file_.fail(kScales, "not one for each vector");
  const std::size_t row_bytes = settings_.row_bytes();
  if (rows().size() != n_vectors * row_bytes) file_.fail(kVectors, "not one for each record");
  const std::size_t used = settings_.dimensions * (codes ? 1 : sizeof(float));
  for (std::size_t i = 0; i < n_vectors; ++i) {
    const std::span<const std::byte> row = rows().subspan(i * row_bytes, row_bytes);
    const std::span<const std::byte> rest = row.subspan(used);
    if (std::any_of(rest.begin(), rest.end(), [](std::byte b) { return b != std::byte{0}; })) {
      file_.fail(kVectors, "bytes that are not used must be 0");
    }
    constexpr std::byte kNoCode{0x80};  // -128
    if (codes && std::find(row.begin(), row.end(), kNoCode) != row.end()) {
      file_.fail(kVectors, "a code below -127");
    }
    const float scale = codes ? scales()[i] : 0;
    // Of a scale or value that is not finite the square is not below it either.
    if (!(scale >= 0 && stored_square(settings_, row.data(), scale) <= 1.1e36F)) {
      file_.fail(codes ? kScales : kVectors, "a vector that is not finite or too long");
    }
  }
}

void RecordFile::check_tags(const TagLists& tags) const {
  check_lists(tags);
  std::vector<std::uint64_t> words(slots().size());
  const bool all_there = for_each_tagged(
      slots(), tags, [&](std::size_t at, std::uint64_t bits) { words[at] |= bits; });
  if (!all_there) file_.fail(kHeaders, "a tag has a slot without a record");
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] != headers()[i].tag_filter) {
      file_.fail(kHeaders, "the tags of slot " + std::to_string(slots()[i]) + " are others");
    }
  }
}

}  // namespace spector
