// The six phases (specification, section C.2) over one state of a RecordStore.
//
// Phases 1 to 4 look at header columns only, 256 slots at a time or at the slots that a filter
// leaves; phase 5 reads the vectors of the survivors. It bounds every distance by one dot product
// (of int8 codes where the store has them, in whole numbers) and measures exactly, with the query
// as it was given, only what may still enter the result: the best k are those of a plain scan of
// all survivors with exact distances. Phase 6 weighs by importance, age and strength.
//
// Pure functions of a View, an options value and a query: any thread, under a Pin. Arguments out of
// range are std::invalid_argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "records/decay.hpp"
#include "records/record_store.hpp"

namespace spector {

inline constexpr std::uint8_t kAllTypes = 15;

// Lists of slots ascend and hold each slot once.
struct ScoringOptions {
  using Slots = std::span<const std::uint32_t>;

  std::int64_t now = 0;  // milliseconds UTC
  // Phase 1.
  bool include_contradictions = false;
  std::int64_t min_timestamp = std::numeric_limits<std::int64_t>::min();
  std::int64_t max_timestamp = std::numeric_limits<std::int64_t>::max();
  std::optional<Slots> allow;
  // Phase 2: the records of each query tag (TAG-2).
  std::vector<Slots> tags;
  bool any_tag = false;
  std::optional<Slots> hyperfocus;  // SCO-14
  float boost = 1.5F;               // [1, 10]
  // Phase 3.
  std::int8_t min_valence = -128;
  std::int8_t max_valence = 127;
  // Phase 4.
  float min_importance = 0;
  std::uint8_t types = kAllTypes;  // bit t: MemoryType t
  bool staleness = true;
  // Phase 5.
  float strictness = 1;  // (0, 100]
  // Phase 6. The weights count by their share.
  float alpha = 0.6F;
  float beta = 0.4F;
  bool additive = false;
  DecayTable decay;
  std::optional<std::int8_t> query_valence;  // SCO-8
  std::optional<float> lateral_distance;     // SCO-15; none: off
};

struct Scored {
  std::uint32_t slot;
  float score;
  float similarity;  // SCO-5
  float distance;    // L2; of dot see `similar`
  float decay;       // d of SCO-6
};

// Records that were still there after each step.
struct PhaseCounts {
  std::uint64_t candidates = 0;  // records that `allow`, tags and hyperfocus leave (phase 2)
  std::uint64_t in_time = 0;     // phase 1
  std::uint64_t in_valence = 0;  // phase 3
  std::uint64_t important = 0;   // phase 4
  std::uint64_t vectors = 0;     // phase 5: their vectors were read (SCO-7)
  std::uint64_t exact = 0;       // of these, measured exactly
};

struct Answer {
  std::vector<Scored> hits;     // best first, equal scores by slot (GEN-4)
  std::vector<Scored> lateral;  // likewise
  PhaseCounts counts;
};

// The best k by phase 5 (AM-11): what passes phases 1 to 4, by similarity. Where the store's
// similarity is the dot product d, the distance is 1 / (1 + d), and 1 - d below 0.
[[nodiscard]] Answer similar(const RecordStore::View& view, std::span<const float> query,
                             const ScoringOptions& options, std::size_t k);

// The best k by all six phases.
[[nodiscard]] Answer search(const RecordStore::View& view, std::span<const float> query,
                            const ScoringOptions& options, std::size_t k);

struct Factor {
  float factor;  // alpha + beta * I * d * s (SCO-6)
  float decay;   // d
};

// Of records that any list has found. Throws std::out_of_range for a slot without a record.
[[nodiscard]] std::vector<Factor> factors(const RecordStore::View& view,
                                          std::span<const std::uint32_t> slots,
                                          const ScoringOptions& options);

struct Weighed {
  std::vector<std::int64_t> slots;
  std::vector<float> scores;
};

// Scores of records that any list has found, times their factors (AM-11), best first, then by slot.
// With the `share` of the match the scores are additive: its share of them, and what the factor has
// beside it. Throws std::out_of_range for a slot without a record.
[[nodiscard]] Weighed weigh(const RecordStore::View& view, std::span<const std::int64_t> slots,
                            std::span<const float> scores, const ScoringOptions& options,
                            std::optional<float> share);

// 1 for each slot whose record passes phases 1 to 4 except staleness, which is for the dense list
// alone (TSM-7).
[[nodiscard]] std::vector<std::uint8_t> passes(const RecordStore::View& view,
                                               std::span<const std::uint32_t> slots,
                                               const ScoringOptions& options);

struct Nearest {
  std::uint32_t slot;
  float distance;  // L2, whatever the store's similarity is
};

// The record of these types that is nearest to a vector; none if no record has one (IMP-1, IMP-3).
[[nodiscard]] std::optional<Nearest> nearest(const RecordStore::View& view,
                                             std::span<const float> vector, std::uint8_t types);

}  // namespace spector
