// Headers and vectors of memories (specification, sections B and C.1): what the scorer reads.
//
// A record is a header and, optionally, a vector. Header fields are columns by slot, so that a
// sweep reads only what it asks for; a field's bytes in a file are those of RecordHeader. Vectors
// are rows in chunks, each row written once: a new vector of a record is a new row, and the old one
// is dead until a compaction, which comes by itself when more than a quarter of the rows are.
//
// RecordStore is the writer's side and has no mutex; see Shared (base/shared.hpp). A View is one
// state, for readers under a Pin; records/scorer.hpp searches it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cow.hpp"
#include "base/envelope.hpp"
#include "base/epoch.hpp"

namespace spector {

enum class MemoryType : std::uint8_t { kWorking, kEpisodic, kSemantic, kProcedural };

// HDR-1.
inline constexpr std::uint8_t kTombstone = 1;
inline constexpr unsigned kTypeShift = 1;
inline constexpr std::uint8_t kTypeBits = 3 << kTypeShift;
inline constexpr std::uint8_t kConsolidated = 1 << 3;
inline constexpr std::uint8_t kPinned = 1 << 4;
inline constexpr std::uint8_t kResolved = 1 << 5;
inline constexpr unsigned kModalityShift = 6;
inline constexpr std::uint8_t kContradicted = 1;  // of the state

inline constexpr std::uint8_t kNoProfile = 255;

// A header as it is stored and exchanged (C.1). The store takes what is given, except `norm`, which
// is that of the vector, and `tag_filter`, which is made when a file is written.
struct RecordHeader {
  std::uint8_t version = 1;
  std::uint8_t flags = kResolved;
  std::int8_t valence = 0;
  std::uint8_t arousal = 0;
  float importance = 1;        // [0.05, 10]
  std::int64_t timestamp = 0;  // milliseconds UTC, years 1 to 9999
  std::uint32_t explicit_recalls = 0;
  float norm = 0;                // of the vector as it was given
  std::uint64_t tag_filter = 0;  // TAG-1
  std::uint16_t centroid = 0;    // not used
  std::uint8_t state = 0;
  std::uint8_t profile = kNoProfile;  // at encoding
  float strength = 1;                 // [0.01, 5]
  std::uint32_t passive_recalls = 0;
  std::uint8_t alpha = 0;  // at encoding, times 255
  std::uint8_t beta = 0;
  std::uint16_t reserved = 0;
  std::int64_t last_passive_ltp = 0;       // milliseconds UTC; 0 none
  float surprise = 0;                      // z at encoding, finite
  std::uint8_t last_profile = kNoProfile;  // of the last recall
  std::array<std::uint8_t, 3> reserved_end{};
};
static_assert(sizeof(RecordHeader) == 64);
static_assert(offsetof(RecordHeader, version) == 0 && offsetof(RecordHeader, flags) == 1);
static_assert(offsetof(RecordHeader, valence) == 2 && offsetof(RecordHeader, arousal) == 3);
static_assert(offsetof(RecordHeader, importance) == 4 && offsetof(RecordHeader, timestamp) == 8);
static_assert(offsetof(RecordHeader, explicit_recalls) == 16 && offsetof(RecordHeader, norm) == 20);
static_assert(offsetof(RecordHeader, tag_filter) == 24 && offsetof(RecordHeader, centroid) == 32);
static_assert(offsetof(RecordHeader, state) == 34 && offsetof(RecordHeader, profile) == 35);
static_assert(offsetof(RecordHeader, strength) == 36);
static_assert(offsetof(RecordHeader, passive_recalls) == 40);
static_assert(offsetof(RecordHeader, alpha) == 44 && offsetof(RecordHeader, beta) == 45);
static_assert(offsetof(RecordHeader, reserved) == 46);
static_assert(offsetof(RecordHeader, last_passive_ltp) == 48);
static_assert(offsetof(RecordHeader, surprise) == 56 && offsetof(RecordHeader, last_profile) == 60);
static_assert(offsetof(RecordHeader, reserved_end) == 61);

// Bits of a set of fields, for updates.
enum class Field : std::uint32_t {
  kFlags = 1U << 0,
  kValence = 1U << 1,
  kArousal = 1U << 2,
  kImportance = 1U << 3,
  kTimestamp = 1U << 4,
  kExplicitRecalls = 1U << 5,
  kState = 1U << 6,
  kProfile = 1U << 7,
  kStrength = 1U << 8,
  kPassiveRecalls = 1U << 9,
  kAlphaBeta = 1U << 10,
  kLastPassiveLtp = 1U << 11,
  kSurprise = 1U << 12,
  kLastProfile = 1U << 13,
};
using Fields = std::uint32_t;
inline constexpr Fields kAllFields = (1U << 14) - 1;
[[nodiscard]] constexpr bool has(Fields fields, Field field) noexcept {
  return (fields & static_cast<Fields>(field)) != 0;
}

// DEN-1.
enum class Similarity : std::uint8_t { kCosine, kDot, kEuclidean };

// DEN-4. kI8: value = code * scale, with a scale of its own for each vector.
enum class VectorStorage : std::uint8_t { kF32, kI8 };

struct VectorSettings {
  static constexpr std::uint32_t kMaxDimensions = 65'536;

  std::uint32_t dimensions = 0;  // 0: no vectors
  Similarity similarity = Similarity::kCosine;
  VectorStorage storage = VectorStorage::kI8;

  // Elements of a row: whole blocks of 64 bytes, zeros at the end.
  [[nodiscard]] std::size_t row_size() const noexcept {
    const std::size_t block = storage == VectorStorage::kI8 ? 64 : 16;
    return (dimensions + block - 1) / block * block;
  }
  [[nodiscard]] std::size_t row_bytes() const noexcept {
    return row_size() * (storage == VectorStorage::kI8 ? 1 : sizeof(float));
  }
  // Bytes of a row that lie together in memory: of codes half of them (RecordStore::View::row).
  [[nodiscard]] std::size_t part_bytes() const noexcept {
    return storage == VectorStorage::kI8 ? row_bytes() / 2 : row_bytes();
  }
};

// A vector to be compared: normalised for cosine. Throws std::invalid_argument naming `what` for a
// wrong size, a value that is not finite, a norm above 1e18, or a zero vector where it has no
// direction. Returns the norm.
float prepare_vector(const VectorSettings& settings, std::span<const float> vector,
                     std::span<float> out, const std::string& what);

// Codes in [-127, 127] of a vector and the scale that gives values back; at most half a step off.
float quantise(std::span<const float> vector, std::span<std::int8_t> codes) noexcept;

// The halves of whole blocks of codes (kernels/records.hpp), and the codes again.
void split_codes(std::span<const std::int8_t> codes, std::byte* high, std::byte* low) noexcept;
void join_codes(const std::byte* high, const std::byte* low, std::span<std::int8_t> codes) noexcept;

// TAG-1: the bits of a tag by its H64.
[[nodiscard]] std::uint64_t tag_filter(std::uint64_t tag_hash) noexcept;

// Tags as inverted lists: the slots of tags[i] are slots[ends[i] .. ends[i + 1]).
struct TagLists {
  std::span<const std::uint64_t> tags;  // H64 of each
  std::span<const std::int64_t> ends;   // one more than tags
  std::span<const std::uint32_t> slots;
};

class RecordFile;

class RecordStore {
 public:
  // Where a record's vector is.
  struct Place {
    std::uint32_t row_after = 0;  // the row + 1; 0: no vector
    float scale = 0;              // of int8 codes
    float square = 0;             // squared length of the vector as it is stored
    float rest = 0;               // length of what the high halves of its codes leave open
  };
  // Fields that no sweep reads.
  struct Rare {
    std::int64_t last_passive_ltp = 0;
    float surprise = 0;
    float norm = 0;  // of the vector as it was given
    std::uint8_t flags = 0;
    std::uint8_t state = 0;
    std::uint8_t profile = 0;
    std::uint8_t alpha = 0;
    std::uint8_t beta = 0;
    std::uint8_t last_profile = 0;
  };

  class View {
   public:
    // Slots are below it.
    [[nodiscard]] std::size_t slots() const noexcept { return marks.size(); }
    [[nodiscard]] bool contains(std::uint32_t slot) const noexcept {
      return slot < marks.size() && marks[slot] != 0;
    }
    // The slot has a record.
    [[nodiscard]] RecordHeader header(std::uint32_t slot) const noexcept;
    // The vector as it is stored, into `out` of row_size() elements; the slot has one.
    void vector(std::uint32_t slot, std::span<float> out) const noexcept;
    [[nodiscard]] bool has_vector(std::uint32_t slot) const noexcept {
      return places[slot].row_after != 0;
    }
    // Its floats, or the high halves of its codes: a scan needs the low ones of few rows only, so
    // that a chunk has the high halves of all its rows, then the low ones.
    [[nodiscard]] const std::byte* row(std::uint32_t row) const noexcept {
      return chunks[row >> row_bits] + (row & ((1U << row_bits) - 1)) * part_bytes;
    }
    // From the high halves of a row to its low ones.
    [[nodiscard]] std::size_t to_low() const noexcept { return part_bytes << row_bits; }
    // All of a row, codes as they are: row_bytes.
    void stored(std::uint32_t row, std::span<std::byte> out) const noexcept;
    // The codes of a row.
    void codes(std::uint32_t row, std::span<std::int8_t> out) const noexcept {
      const std::byte* const high = this->row(row);
      join_codes(high, high + to_low(), out);
    }
    // Reads every vector, in the order of memory. Returns how many bytes that was.
    [[nodiscard]] std::size_t touch() const noexcept;
    // Of all columns and rows; dead rows, and pages that nobody ever wrote, count as well.
    [[nodiscard]] std::size_t memory_bytes() const noexcept;
    // Throws std::out_of_range naming the slot unless it has a record.
    void check(std::uint32_t slot) const;

    VectorSettings settings;
    std::size_t row_bytes = 0;
    std::size_t part_bytes = 0;
    unsigned row_bits = 0;  // of the number of a row in its chunk
    std::size_t n_records = 0;
    std::size_t n_vectors = 0;
    std::size_t n_rows = 0;     // dead ones included
    float most_importance = 0;  // that a record ever had
    float most_strength = 0;
    CowArray<std::uint8_t>::View marks;  // kernels/records.hpp; 0: no record
    CowArray<std::int8_t>::View valences;
    CowArray<std::uint8_t>::View arousals;
    CowArray<float>::View importances;
    CowArray<std::int64_t>::View timestamps;
    CowArray<std::uint32_t>::View explicit_recalls;
    CowArray<std::uint32_t>::View passive_recalls;
    CowArray<float>::View strengths;
    CowArray<Place>::View places;
    CowArray<Rare>::View rare;
    std::span<const std::byte* const> chunks;
  };

  // Throws std::invalid_argument for too many dimensions.
  RecordStore(EpochDomain& epochs, const VectorSettings& settings);
  // With what a file has; its checks are made when it is opened.
  RecordStore(EpochDomain& epochs, const RecordFile& file);
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;
  RecordStore(RecordStore&&) = delete;
  RecordStore& operator=(RecordStore&&) = delete;
  ~RecordStore();

  // Records, new or instead of those there are; of equal slots the last wins. `vectors` has all of
  // them one after another, or is empty: then none has one.
  void put(std::span<const std::uint32_t> slots, std::span<const RecordHeader> headers,
           std::span<const float> vectors);
  // The given fields of records that there are, of the flags only the bits of `flags`; vectors
  // stay.
  void update(std::span<const std::uint32_t> slots, std::span<const RecordHeader> headers,
              Fields fields, std::uint8_t flags);
  // How many of them there were.
  std::size_t remove(std::span<const std::uint32_t> slots);
  // Frees dead rows and puts the others in the order of slots.
  void compact();

  [[nodiscard]] View view() const noexcept;
  void reserve() { heap_.reserve(); }
  void published() noexcept;
  void rollback() noexcept;

  [[nodiscard]] const VectorSettings& settings() const noexcept { return settings_; }

 private:
  struct Slab;
  struct Counts {
    std::size_t records = 0;
    std::size_t vectors = 0;
    std::size_t rows = 0;
    float most_importance = 0;
    float most_strength = 0;
  };

  template <class F>
  void for_each_column(const F& f);

  void set_fields(std::uint32_t slot, const RecordHeader& header, Fields fields);
  // The place of a new row with this vector, which is prepared.
  Place append(std::span<const float> vector);
  // The same with codes, whole blocks of them.
  Place append(std::span<const std::int8_t> codes, float scale);
  std::byte* new_row();
  void add_slab();
  void drop_vector(std::uint32_t slot);
  void compact_if_due();

  VectorSettings settings_;
  std::size_t row_bytes_;
  std::size_t part_bytes_;
  unsigned row_bits_;
  std::vector<std::int8_t> codes_;  // of the vector that is stored
  Counts now_;
  Counts published_;
  CowHeap heap_;
  CowArray<std::uint8_t> marks_;
  CowArray<std::int8_t> valences_;
  CowArray<std::uint8_t> arousals_;
  CowArray<float> importances_;
  CowArray<std::int64_t> timestamps_;
  CowArray<std::uint32_t> explicit_recalls_;
  CowArray<std::uint32_t> passive_recalls_;
  CowArray<float> strengths_;
  CowArray<Place> places_;
  CowArray<Rare> rare_;
  CowLists<const std::byte*> chunks_;  // one list: the rows of each chunk
  CowLists<Slab*> slabs_;              // one list: what chunks are in, several of them in one
};

// Writes records.seg; `tags` gives the headers' tag words. Throws std::invalid_argument if a tag
// names a slot without a record.
void save_records(const RecordStore::View& view, const std::string& path, const TagLists& tags);

// A records.seg, checked. For messages: `path`.
class RecordFile {
 public:
  explicit RecordFile(const std::string& path);

  // Throws Corruption unless the headers' tag words are those of `tags`.
  void check_tags(const TagLists& tags) const;

  [[nodiscard]] const VectorSettings& settings() const noexcept { return settings_; }
  [[nodiscard]] std::span<const std::uint32_t> slots() const noexcept { return slots_.values; }
  [[nodiscard]] std::span<const RecordHeader> headers() const noexcept { return headers_.values; }
  // Places among the slots of those with a vector, ascending; scales of int8; rows.
  [[nodiscard]] std::span<const std::uint32_t> with_vector() const noexcept {
    return with_vector_.values;
  }
  [[nodiscard]] std::span<const float> scales() const noexcept { return scales_.values; }
  [[nodiscard]] std::span<const std::byte> rows() const noexcept { return rows_.values; }

 private:
  void check() const;

  StoredFile file_;
  VectorSettings settings_;
  SharedSpan<std::uint32_t> slots_;
  SharedSpan<RecordHeader> headers_;
  SharedSpan<std::uint32_t> with_vector_;
  SharedSpan<float> scales_;
  SharedSpan<std::byte> rows_;
};

}  // namespace spector
