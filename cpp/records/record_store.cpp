#include "records/record_store.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "kernels/records.hpp"
#include "records/header_check.hpp"

namespace spector {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;  // about
constexpr std::size_t kMaxSlabChunks = 32;
constexpr std::size_t kMinRowsToCompact = 64;
constexpr double kMaxNorm = 1e18;  // squares of it, and sums of two, are floats

unsigned row_bits(std::size_t row_bytes) noexcept {
  unsigned bits = 0;
  while (bits < 14 && (row_bytes << (bits + 1)) <= kChunkBytes) ++bits;
  return bits;
}

// A scan is a third faster, and a row here and there costs no walk through page tables.
void prefer_huge_pages(std::byte* from, std::size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
  constexpr std::uintptr_t kHuge = std::uintptr_t{2} << 20;
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  const std::uintptr_t first = (address + kHuge - 1) / kHuge * kHuge;
  const std::uintptr_t last = (address + bytes) / kHuge * kHuge;
  // A wish: if it is not heard nothing is lost.
  if (first < last) {
    static_cast<void>(::madvise(from + (first - address), last - first, MADV_HUGEPAGE));
  }
#else
  static_cast<void>(from);
  static_cast<void>(bytes);
#endif
}

std::uint8_t marks_of(const RecordStore::Rare& rare, float importance) noexcept {
  const unsigned type = (rare.flags & kTypeBits) >> kTypeShift;
  unsigned marks = kernels::kMarkPresent | type << kernels::kMarkTypeShift;
  if ((rare.state & kContradicted) != 0) marks |= kernels::kMarkContradicted;
  if ((rare.flags & kPinned) != 0) marks |= kernels::kMarkPinned;
  if ((rare.flags & kResolved) != 0) marks |= kernels::kMarkResolved;
  if (importance < 1) marks |= kernels::kMarkSlight;
  return static_cast<std::uint8_t>(marks);
}

// Sums in eight lanes, one order whatever the compiler makes of it.
template <class T>
double sum_of_squares(std::span<const T> values) noexcept {
  std::array<double, 8> lanes{};
  std::size_t i = 0;
  for (; i + 8 <= values.size(); i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (std::size_t lane = 0; i < values.size(); ++i, ++lane) {
    const double value = values[i];
    lanes[lane] += value * value;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

float prepare_vector(const VectorSettings& settings, std::span<const float> vector,
                     std::span<float> out, const std::string& what) {
  if (vector.size() != settings.dimensions) {
    throw std::invalid_argument(what + " must have " + std::to_string(settings.dimensions) +
                                " dimensions, not " + std::to_string(vector.size()));
  }
  const double norm = std::sqrt(sum_of_squares(vector));
  // Sums with an infinite or NaN value are not below it either.
  if (!(norm <= kMaxNorm)) {
    for (std::size_t i = 0; i < vector.size(); ++i) {
      if (!std::isfinite(vector[i])) {
        throw std::invalid_argument(what + " must be finite, but has " + std::to_string(vector[i]) +
                                    " in dimension " + std::to_string(i));
      }
    }
    throw std::invalid_argument(what + " must have a norm of at most 1e18, not " +
                                std::to_string(norm));
  }
  const bool normalised = settings.similarity == Similarity::kCosine;
  if (normalised && norm == 0) {
    throw std::invalid_argument(what + " must not be zero: cosine needs a direction");
  }
  for (std::size_t i = 0; i < vector.size(); ++i) {
    out[i] = normalised ? static_cast<float>(vector[i] / norm) : vector[i];
  }
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(vector.size()), out.end(), 0.0F);
  return static_cast<float>(norm);
}

float quantise(std::span<const float> vector, std::span<std::int8_t> codes) noexcept {
  float largest = 0;
  for (const float value : vector) largest = std::max(largest, std::abs(value));
  const float scale = largest / 127.0F;
  std::fill(codes.begin(), codes.end(), std::int8_t{0});
  if (scale == 0) return 0;              // of values too small to have a step
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: what is added to it becomes whole
  for (std::size_t i = 0; i < vector.size(); ++i) {
    const float whole = (vector[i] / scale + kRound) - kRound;
    codes[i] = static_cast<std::int8_t>(std::clamp(whole, -127.0F, 127.0F));
  }
  return scale;
}

void split_codes(std::span<const std::int8_t> codes, std::byte* high, std::byte* low) noexcept {
  constexpr std::size_t kBytes = kernels::kHalvesBlock / 2;
  for (std::size_t first = 0; first < codes.size(); first += kernels::kHalvesBlock) {
    const std::int8_t* const from = &codes[first];
    for (std::size_t j = 0; j < kBytes; ++j) {
      const unsigned a = static_cast<std::uint8_t>(from[j]) ^ 0x80U;
      const unsigned b = static_cast<std::uint8_t>(from[j + kBytes]) ^ 0x80U;
      high[first / 2 + j] = static_cast<std::byte>(a >> 4 | (b & 0xf0U));
      low[first / 2 + j] = static_cast<std::byte>((a & 15U) | b << 4);
    }
  }
}

void join_codes(const std::byte* high, const std::byte* low,
                std::span<std::int8_t> codes) noexcept {
  constexpr std::size_t kBytes = kernels::kHalvesBlock / 2;
  for (std::size_t first = 0; first < codes.size(); first += kernels::kHalvesBlock) {
    std::int8_t* const to = &codes[first];
    for (std::size_t j = 0; j < kBytes; ++j) {
      const auto h = static_cast<unsigned>(high[first / 2 + j]);
      const auto l = static_cast<unsigned>(low[first / 2 + j]);
      to[j] = static_cast<std::int8_t>(((h << 4 | (l & 15U)) & 0xffU) ^ 0x80U);
      to[j + kBytes] = static_cast<std::int8_t>(((h & 0xf0U) | l >> 4) ^ 0x80U);
    }
  }
}

std::uint64_t tag_filter(std::uint64_t tag_hash) noexcept {
  std::uint64_t h1 = tag_hash;
  h1 ^= h1 >> 33;
  h1 *= 0xff51afd7ed558ccdU;
  h1 ^= h1 >> 33;
  std::uint64_t h2 = h1 * 0x9e3779b97f4a7c15U;
  h2 ^= h2 >> 33;
  h2 *= 0xc4ceb9fe1a85ec53U;
  h2 ^= h2 >> 33;
  h2 |= 1;
  std::uint64_t word = 0;
  for (std::uint64_t i = 0; i < 3; ++i) word |= std::uint64_t{1} << (h1 + i * h2) % 64;
  return word;
}

RecordHeader RecordStore::View::header(std::uint32_t slot) const noexcept {
  const Rare& few = rare[slot];
  RecordHeader header;
  header.flags = few.flags;
  header.state = few.state;
  header.valence = valences[slot];
  header.arousal = arousals[slot];
  header.importance = importances[slot];
  header.timestamp = timestamps[slot];
  header.explicit_recalls = explicit_recalls[slot];
  header.passive_recalls = passive_recalls[slot];
  header.strength = strengths[slot];
  header.norm = few.norm;
  header.last_passive_ltp = few.last_passive_ltp;
  header.surprise = few.surprise;
  header.profile = few.profile;
  header.alpha = few.alpha;
  header.beta = few.beta;
  header.last_profile = few.last_profile;
  return header;
}

void RecordStore::View::vector(std::uint32_t slot, std::span<float> out) const noexcept {
  const Place place = places[slot];
  if (settings.storage == VectorStorage::kF32) {
    std::memcpy(out.data(), row(place.row_after - 1), out.size_bytes());
    return;
  }
  std::vector<std::int8_t> values(out.size());
  codes(place.row_after - 1, values);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(values[i]) * place.scale;
  }
}

void RecordStore::View::stored(std::uint32_t row, std::span<std::byte> out) const noexcept {
  if (settings.storage == VectorStorage::kF32) {
    std::memcpy(out.data(), this->row(row), out.size());
  } else {
    codes(row, std::span(reinterpret_cast<std::int8_t*>(out.data()), out.size()));
  }
}

std::size_t RecordStore::View::touch() const noexcept {
  const std::size_t rows_of_chunk = std::size_t{1} << row_bits;
  for (std::size_t first = 0; first < n_rows; first += rows_of_chunk) {
    const std::byte* const chunk = row(static_cast<std::uint32_t>(first));
    const std::size_t bytes = std::min(rows_of_chunk, n_rows - first) * part_bytes;
    for (std::size_t part = 0; part < row_bytes; part += part_bytes) {
      const std::byte* const from = part == 0 ? chunk : chunk + to_low();
      // A volatile read is made.
      for (std::size_t i = 0; i < bytes; i += 64) {
        static_cast<void>(*reinterpret_cast<const volatile std::uint64_t*>(from + i));
      }
    }
  }
  return n_rows * row_bytes;
}

std::size_t RecordStore::View::memory_bytes() const noexcept {
  constexpr std::size_t kColumns = sizeof marks[0] + sizeof valences[0] + sizeof arousals[0] +
                                   sizeof importances[0] + sizeof timestamps[0] +
                                   sizeof explicit_recalls[0] + sizeof passive_recalls[0] +
                                   sizeof strengths[0] + sizeof places[0] + sizeof rare[0];
  return slots() * kColumns + n_rows * row_bytes;
}

void RecordStore::View::check(std::uint32_t slot) const {
  if (!contains(slot)) throw std::out_of_range("no record in slot " + std::to_string(slot));
}

// Chunks follow.
struct alignas(CowHeap::kAlignment) RecordStore::Slab : CowBlock {
  [[nodiscard]] std::byte* chunks() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};

RecordStore::RecordStore(EpochDomain& epochs, const VectorSettings& settings)
    : settings_(settings),
      row_bytes_(settings.row_bytes()),
      part_bytes_(settings.part_bytes()),
      row_bits_(row_bits(std::max<std::size_t>(row_bytes_, 1))),
      heap_(epochs),
      marks_(heap_),
      valences_(heap_),
      arousals_(heap_),
      importances_(heap_),
      timestamps_(heap_),
      explicit_recalls_(heap_),
      passive_recalls_(heap_),
      strengths_(heap_),
      places_(heap_),
      rare_(heap_),
      chunks_(heap_),
      slabs_(heap_) {
  if (settings.dimensions > VectorSettings::kMaxDimensions) {
    throw std::invalid_argument("dimensions must be at most 65536, not " +
                                std::to_string(settings.dimensions));
  }
  chunks_.resize(1);
  slabs_.resize(1);
}

// Delegating: what is thrown below ends in the destructor.
RecordStore::RecordStore(EpochDomain& epochs, const RecordFile& file)
    : RecordStore(epochs, file.settings()) {
  const std::span<const std::uint32_t> slots = file.slots();
  if (slots.empty()) return;
  for_each_column([&](auto& column) { column.resize(std::size_t{slots.back()} + 1); });
  for (std::size_t i = 0; i < slots.size(); ++i) {
    set_fields(slots[i], file.headers()[i], kAllFields);
  }
  now_.records = slots.size();
  const std::size_t size = settings_.row_size();
  for (std::size_t i = 0; i < file.with_vector().size(); ++i) {
    const std::uint32_t at = file.with_vector()[i];
    const std::byte* const from = file.rows().data() + i * row_bytes_;
    places_.edit(slots[at]) =
        settings_.storage == VectorStorage::kI8
            ? append(std::span(reinterpret_cast<const std::int8_t*>(from), size), file.scales()[i])
            : append(std::span(reinterpret_cast<const float*>(from), size));
    rare_.edit(slots[at]).norm = file.headers()[at].norm;
  }
  now_.vectors = now_.rows;
}

RecordStore::~RecordStore() {
  for (Slab* slab : slabs_[0]) CowHeap::destroy(slab);
}

float stored_square(const VectorSettings& settings, const std::byte* row, float scale) noexcept {
  if (settings.storage == VectorStorage::kI8) {
    const auto* codes = reinterpret_cast<const std::int8_t*>(row);
    std::uint32_t sum = 0;  // 65,536 * 127^2 is below 2^32
    for (std::size_t i = 0; i < settings.row_size(); ++i) {
      sum += static_cast<std::uint32_t>(codes[i] * codes[i]);
    }
    return static_cast<float>(static_cast<double>(scale) * scale * sum);
  }
  const std::span values(reinterpret_cast<const float*>(row), settings.row_size());
  return static_cast<float>(sum_of_squares(values));
}

template <class F>
void RecordStore::for_each_column(const F& f) {
  f(marks_);
  f(valences_);
  f(arousals_);
  f(importances_);
  f(timestamps_);
  f(explicit_recalls_);
  f(passive_recalls_);
  f(strengths_);
  f(places_);
  f(rare_);
}

void RecordStore::set_fields(std::uint32_t slot, const RecordHeader& header, Fields fields) {
  if (has(fields, Field::kFlags)) rare_.edit(slot).flags = header.flags;
  if (has(fields, Field::kState)) rare_.edit(slot).state = header.state;
  if (has(fields, Field::kValence)) valences_.edit(slot) = header.valence;
  if (has(fields, Field::kArousal)) arousals_.edit(slot) = header.arousal;
  if (has(fields, Field::kImportance)) {
    importances_.edit(slot) = header.importance;
    now_.most_importance = std::max(now_.most_importance, header.importance);
  }
  if (has(fields, Field::kTimestamp)) timestamps_.edit(slot) = header.timestamp;
  if (has(fields, Field::kExplicitRecalls)) {
    explicit_recalls_.edit(slot) = header.explicit_recalls;
  }
  if (has(fields, Field::kPassiveRecalls)) passive_recalls_.edit(slot) = header.passive_recalls;
  if (has(fields, Field::kStrength)) {
    strengths_.edit(slot) = header.strength;
    now_.most_strength = std::max(now_.most_strength, header.strength);
  }
  if (has(fields, Field::kLastPassiveLtp)) {
    rare_.edit(slot).last_passive_ltp = header.last_passive_ltp;
  }
  if (has(fields, Field::kSurprise)) rare_.edit(slot).surprise = header.surprise;
  if (has(fields, Field::kProfile)) rare_.edit(slot).profile = header.profile;
  if (has(fields, Field::kLastProfile)) rare_.edit(slot).last_profile = header.last_profile;
  if (has(fields, Field::kAlphaBeta)) {
    rare_.edit(slot).alpha = header.alpha;
    rare_.edit(slot).beta = header.beta;
  }
  const std::uint8_t marks = marks_of(rare_[slot], importances_[slot]);
  if (marks_[slot] != marks) marks_.edit(slot) = marks;
}

std::byte* RecordStore::new_row() {
  constexpr std::size_t kMostRows = 0xfffffffe;
  if (now_.rows >= kMostRows) throw Capacity("more than 4,294,967,294 rows of vectors");
  const std::size_t chunk = now_.rows >> row_bits_;
  if (chunk == chunks_[0].size()) add_slab();
  const std::size_t place = now_.rows & ((std::size_t{1} << row_bits_) - 1);
  ++now_.rows;
  // Nobody reads rows that no published state has.
  return const_cast<std::byte*>(chunks_[0][chunk]) + place * part_bytes_;
}

// As many chunks as there are, so that a large store is in large pieces; memory that was never
// written costs nothing.
void RecordStore::add_slab() {
  const std::size_t n = std::clamp<std::size_t>(chunks_[0].size(), 1, kMaxSlabChunks);
  const std::size_t chunk_bytes = row_bytes_ << row_bits_;
  auto* const slab = heap_.allocate<Slab>(sizeof(Slab) + n * chunk_bytes);
  slabs_.push_back(0, slab);
  prefer_huge_pages(slab->chunks(), n * chunk_bytes);
  for (std::size_t i = 0; i < n; ++i) chunks_.push_back(0, slab->chunks() + i * chunk_bytes);
}

RecordStore::Place RecordStore::append(std::span<const float> vector) {
  if (settings_.storage == VectorStorage::kI8) {
    codes_.resize(settings_.row_size());
    const float scale = quantise(vector, codes_);
    return append(codes_, scale);
  }
  std::byte* const row = new_row();
  std::memcpy(row, vector.data(), vector.size_bytes());
  Place place;
  place.row_after = static_cast<std::uint32_t>(now_.rows);
  place.square = stored_square(settings_, row, 0);
  return place;
}

RecordStore::Place RecordStore::append(std::span<const std::int8_t> codes, float scale) {
  std::byte* const row = new_row();
  split_codes(codes, row, row + (part_bytes_ << row_bits_));
  Place place;
  place.row_after = static_cast<std::uint32_t>(now_.rows);
  place.scale = scale;
  place.square = stored_square(settings_, reinterpret_cast<const std::byte*>(codes.data()), scale);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < settings_.dimensions; ++i) {
    const int open = (codes[i] & 15) - 8;
    sum += static_cast<std::uint32_t>(open * open);
  }
  place.rest = static_cast<float>(scale * std::sqrt(static_cast<double>(sum)) * (1 + 1e-6));
  return place;
}

void RecordStore::drop_vector(std::uint32_t slot) {
  if (places_[slot].row_after == 0) return;
  places_.edit(slot) = {};
  rare_.edit(slot).norm = 0;
  --now_.vectors;
}

void RecordStore::put(std::span<const std::uint32_t> slots, std::span<const RecordHeader> headers,
                      std::span<const float> vectors) {
  if (headers.size() != slots.size()) {
    throw std::invalid_argument(std::to_string(headers.size()) + " headers for " +
                                std::to_string(slots.size()) + " slots");
  }
  const std::size_t dimensions = settings_.dimensions;
  if (!vectors.empty() && vectors.size() != slots.size() * dimensions) {
    throw std::invalid_argument("vectors must be " + std::to_string(slots.size()) + " of " +
                                std::to_string(dimensions) + " dimensions, not " +
                                std::to_string(vectors.size()) + " numbers");
  }
  std::uint32_t highest = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    check_slot(slots[i]);
    highest = std::max(highest, slots[i]);
    check_header(headers[i], slots[i]);
  }
  if (slots.empty()) return;
  for_each_column([&](auto& column) { column.resize(std::size_t{highest} + 1); });
  std::vector<float> prepared(settings_.row_size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::uint32_t slot = slots[i];
    if (marks_[slot] == 0) ++now_.records;
    set_fields(slot, headers[i], kAllFields);
    drop_vector(slot);
    if (vectors.empty()) continue;
    const float norm = prepare_vector(settings_, vectors.subspan(i * dimensions, dimensions),
                                      prepared, "vectors[" + std::to_string(i) + "]");
    places_.edit(slot) = append(prepared);
    rare_.edit(slot).norm = norm;
    ++now_.vectors;
  }
  compact_if_due();
}

void RecordStore::update(std::span<const std::uint32_t> slots,
                         std::span<const RecordHeader> headers, Fields fields, std::uint8_t flags) {
  if (headers.size() != slots.size()) {
    throw std::invalid_argument(std::to_string(headers.size()) + " headers for " +
                                std::to_string(slots.size()) + " slots");
  }
  const View view = this->view();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    view.check(slots[i]);
    check_header(headers[i], slots[i]);
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    RecordHeader header = headers[i];
    header.flags =
        static_cast<std::uint8_t>((rare_[slots[i]].flags & ~flags) | (header.flags & flags));
    set_fields(slots[i], header, fields);
  }
}

std::size_t RecordStore::remove(std::span<const std::uint32_t> slots) {
  std::size_t n = 0;
  for (const std::uint32_t slot : slots) {
    if (slot >= marks_.size() || marks_[slot] == 0) continue;
    drop_vector(slot);
    marks_.edit(slot) = 0;
    --now_.records;
    ++n;
  }
  compact_if_due();
  return n;
}

void RecordStore::compact_if_due() {
  if (now_.rows >= kMinRowsToCompact && (now_.rows - now_.vectors) * 4 > now_.rows) compact();
}

void RecordStore::compact() {
  if (now_.rows == now_.vectors) return;
  const View before = view();
  const std::vector<const std::byte*> old(before.chunks.begin(), before.chunks.end());
  const std::vector<Slab*> old_slabs(slabs_[0].begin(), slabs_[0].end());
  const auto row = [&](std::uint32_t i) {
    return old[i >> row_bits_] + (i & ((1U << row_bits_) - 1)) * part_bytes_;
  };
  chunks_.truncate(0, 0);
  slabs_.truncate(0, 0);
  now_.rows = 0;
  std::vector<std::pair<std::size_t, std::uint32_t>> there;  // slot, row_after
  there.reserve(now_.vectors);
  places_.for_each_page([&](std::size_t first, std::span<const Place> page) {
    for (std::size_t i = 0; i < page.size(); ++i) {
      if (page[i].row_after != 0) there.emplace_back(first + i, page[i].row_after);
    }
  });
  for (const auto& [slot, from] : there) {
    std::byte* const to = new_row();
    std::memcpy(to, row(from - 1), part_bytes_);
    if (part_bytes_ < row_bytes_) {
      const std::size_t to_low = part_bytes_ << row_bits_;
      std::memcpy(to + to_low, row(from - 1) + to_low, part_bytes_);
    }
    if (now_.rows != from) places_.edit(slot).row_after = static_cast<std::uint32_t>(now_.rows);
  }
  for (Slab* slab : old_slabs) heap_.release(slab);
}

RecordStore::View RecordStore::view() const noexcept {
  View view;
  view.settings = settings_;
  view.row_bytes = row_bytes_;
  view.part_bytes = part_bytes_;
  view.row_bits = row_bits_;
  view.n_records = now_.records;
  view.n_vectors = now_.vectors;
  view.n_rows = now_.rows;
  view.most_importance = now_.most_importance;
  view.most_strength = now_.most_strength;
  view.marks = marks_.view();
  view.valences = valences_.view();
  view.arousals = arousals_.view();
  view.importances = importances_.view();
  view.timestamps = timestamps_.view();
  view.explicit_recalls = explicit_recalls_.view();
  view.passive_recalls = passive_recalls_.view();
  view.strengths = strengths_.view();
  view.places = places_.view();
  view.rare = rare_.view();
  view.chunks = chunks_[0];
  return view;
}

void RecordStore::published() noexcept {
  published_ = now_;
  for_each_column([](auto& column) { column.published(); });
  chunks_.published();
  slabs_.published();
  heap_.published();
}

void RecordStore::rollback() noexcept {
  now_ = published_;
  for_each_column([](auto& column) { column.rollback(); });
  chunks_.rollback();
  slabs_.rollback();
  heap_.rollback();
}

}  // namespace spector
