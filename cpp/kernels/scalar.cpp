// The reference: each kernel as the plain loop that defines it.
#include <array>
#include <bit>
#include <cmath>

#include "kernels/dispatch.hpp"

namespace spector::kernels {
namespace {

void bm25_accumulate(const Bm25Postings& postings, const std::uint32_t* lengths,
                     std::uint32_t window, float* sums) noexcept {
  for (std::size_t i = 0; i < postings.count; ++i) {
    const std::uint32_t document = postings.documents[i];
    const auto length = static_cast<float>(static_cast<std::int32_t>(lengths[document]));
    const auto f = static_cast<float>(static_cast<std::int32_t>(postings.frequencies[i]));
    sums[document - window] += postings.weight * f / (f + (postings.c0 + postings.c1 * length));
  }
}

void bm25_accumulate_window(const Bm25WindowPostings& postings, const std::uint32_t* window_lengths,
                            float* sums) noexcept {
  for (std::size_t i = 0; i < postings.count; ++i) {
    const std::uint16_t offset = postings.offsets[i];
    const auto length = static_cast<float>(static_cast<std::int32_t>(window_lengths[offset]));
    const auto f = static_cast<float>(postings.frequencies[i]);
    sums[offset] += postings.weight * f / (f + (postings.c0 + postings.c1 * length));
  }
}

std::size_t take_at_least(std::uint16_t* sums, std::size_t count, std::uint16_t threshold,
                          std::uint16_t* indices, std::uint16_t* values) noexcept {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (sums[i] >= threshold) {
      indices[found] = static_cast<std::uint16_t>(i);
      values[found++] = sums[i];
    }
    sums[i] = 0;
  }
  return found;
}

std::size_t collect_bounds(const std::uint8_t* bounds, std::size_t count, std::uint8_t threshold,
                           std::uint16_t* indices) noexcept {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (bounds[i] >= threshold) indices[found++] = static_cast<std::uint16_t>(i);
  }
  return found;
}

std::size_t find_offsets(const Bm25Offsets& list, const std::uint16_t* wanted, std::size_t n_wanted,
                         std::uint16_t* in_wanted, std::uint16_t* in_offsets) noexcept {
  std::size_t found = 0;
  for (std::size_t i = 0; i < n_wanted; ++i) {
    const std::uint16_t* part = list.part_starts + (wanted[i] >> list.part_bits);
    std::size_t at = part[0];
    while (at < part[1] && list.offsets[at] < wanted[i]) ++at;
    if (at == part[1] || list.offsets[at] != wanted[i]) continue;
    in_wanted[found] = static_cast<std::uint16_t>(i);
    in_offsets[found++] = static_cast<std::uint16_t>(at);
  }
  return found;
}

std::size_t collect_at_least(const float* sums, std::size_t count, float threshold,
                             std::uint32_t* indices) noexcept {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (sums[i] >= threshold) indices[found++] = static_cast<std::uint32_t>(i);
  }
  return found;
}

DecayCounts decay_weights(const float* weights, const std::uint32_t* meta, std::size_t count,
                          const DecayRule& rule, float* out) noexcept {
  DecayCounts counts{0, 0};
  for (std::size_t i = 0; i < count; ++i) {
    const float before = weights[i] < 0 ? -weights[i] : weights[i];
    const float factor = rule.factors == nullptr ? rule.factor : rule.factors[i];
    const float after = before * factor;
    const std::uint32_t bridge = (meta[i] >> 16) & 0xff;
    const std::uint32_t age = (rule.cycle - meta[i]) & 0xffff;
    if (!(after < rule.floor)) {
      out[i] = after;
    } else if (before == 0) {
      out[i] = 0;
    } else if (bridge >= rule.bridge && age < rule.max_age) {
      out[i] = -rule.floor;
      ++counts.floored;
    } else {
      out[i] = 0;
      ++counts.removed;
    }
  }
  return counts;
}

std::size_t extend_paths(const std::uint32_t* neighbours, const float* weights, std::size_t count,
                         const PathRule& rule, std::uint64_t* keys) noexcept {
  std::size_t n = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float reached = rule.strength * (weights[i] < 0 ? -weights[i] : weights[i]);
    if (reached < rule.least || neighbours[i] == rule.seed) continue;
    const std::uint32_t high =
        std::bit_cast<std::uint32_t>(1.0F) - std::bit_cast<std::uint32_t>(reached);
    keys[n++] = std::uint64_t{high} << 32 | neighbours[i];
  }
  return n;
}

std::size_t intersect(const std::uint32_t* a, std::size_t n_a, const std::uint32_t* b,
                      std::size_t n_b, std::uint32_t* out) noexcept {
  std::size_t found = 0;
  for (std::size_t i = 0, j = 0; i < n_a && j < n_b;) {
    if (a[i] < b[j]) {
      ++i;
    } else if (b[j] < a[i]) {
      ++j;
    } else {
      out[found++] = a[i];
      ++i;
      ++j;
    }
  }
  return found;
}

void dot_i8(const std::int8_t* query, std::span<const std::int8_t* const> rows,
            std::span<const std::int8_t* const> /*next*/, std::size_t size,
            std::int32_t* dots) noexcept {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < size; ++i) sum += query[i] * rows[r][i];
    dots[r] = sum;
  }
}

void dot_halves(const std::int8_t* query, std::span<const std::uint8_t* const> rows,
                std::span<const std::uint8_t* const> /*next*/, std::size_t size,
                std::int32_t* dots) noexcept {
  constexpr std::size_t kBytes = kHalvesBlock / 2;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t place = i % kHalvesBlock;
      const unsigned halves = rows[r][i / kHalvesBlock * kBytes + place % kBytes];
      sum += query[i] * static_cast<int>(place < kBytes ? halves & 15 : halves >> 4);
    }
    dots[r] = sum;
  }
}

void dot_split(const std::int8_t* query, std::span<const std::uint8_t* const> rows,
               std::span<const std::uint8_t* const> /*next*/, std::size_t to_low, std::size_t size,
               std::int32_t* dots) noexcept {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::array<const std::uint8_t*, 2> halves{rows[r], rows[r] + to_low};
    std::array<std::int32_t, 2> sums{};
    dot_halves(query, halves, {}, size, sums.data());
    dots[r] = 16 * sums[0] + sums[1];
  }
}

float folded(std::array<float, kSumLanes>& lanes) noexcept {
  for (std::size_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

void dot_f32(const float* query, std::span<const float* const> rows,
             std::span<const float* const> /*next*/, std::size_t size, float* dots) noexcept {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::array<float, kSumLanes> lanes{};
    for (std::size_t i = 0; i < size; ++i) lanes[i % kSumLanes] += query[i] * rows[r][i];
    dots[r] = folded(lanes);
  }
}

float squared_l2(const float* a, const float* b, std::size_t size) noexcept {
  std::array<float, kSumLanes> lanes{};
  for (std::size_t i = 0; i < size; ++i) {
    const float difference = a[i] - b[i];
    lanes[i % kSumLanes] += difference * difference;
  }
  return folded(lanes);
}

float squared_l2_i8(const float* a, const std::int8_t* codes, float scale,
                    std::size_t size) noexcept {
  std::array<float, kSumLanes> lanes{};
  for (std::size_t i = 0; i < size; ++i) {
    const float difference = a[i] - static_cast<float>(codes[i]) * scale;
    lanes[i % kSumLanes] += difference * difference;
  }
  return folded(lanes);
}

void scale_dots(const std::int32_t* products, const float* scales, float factor, const float* rests,
                float reach, std::size_t n, float* dots) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    dots[i] = static_cast<float>(products[i]) * (factor * scales[i]) + reach * rests[i];
  }
}

void least_distances(const DistanceBounds& limits, const float* dots, const float* squares,
                     std::size_t n, float limit, float* bounds, std::uint64_t* within) noexcept {
  for (std::size_t i = 0; i < n; i += 64) within[i / 64] = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float sum = limits.query_square + squares[i];
    const float dot = dots[i] + limits.margin * std::sqrt(squares[i]);
    if (limits.dot) {
      const float most = dot + limits.slack * sum;
      bounds[i] = most >= 0 ? 1.0F / (1.0F + most) : 1.0F - most;
    } else {
      const float least = (sum - limits.slack * sum) - 2.0F * dot;
      bounds[i] = std::sqrt(least > 0 ? least : 0.0F);
    }
    if (bounds[i] <= limit) within[i / 64] |= std::uint64_t{1} << i % 64;
  }
}

void gate(const GateLimits& limits, const GateColumns& columns, GateMasks& masks) noexcept {
  masks = {};
  for (std::size_t i = 0; i < kGateBlock; ++i) {
    const std::size_t w = i / 64;
    const std::uint64_t bit = std::uint64_t{1} << i % 64;
    const std::uint8_t marks = columns.marks[i];
    if ((marks & kMarkPresent) == 0) continue;
    masks.present[w] |= bit;
    if ((marks & limits.excluded) == 0 && columns.timestamps[i] >= limits.min_timestamp &&
        columns.timestamps[i] <= limits.max_timestamp) {
      masks.in_time[w] |= bit;
    }
    if (columns.valences == nullptr ||
        (columns.valences[i] >= limits.min_valence && columns.valences[i] <= limits.max_valence)) {
      masks.in_valence[w] |= bit;
    }
    if ((limits.types >> (marks >> kMarkTypeShift & 3) & 1) != 0 &&
        (columns.importances == nullptr || columns.importances[i] >= limits.min_importance)) {
      masks.important[w] |= bit;
    }
    const bool slight =
        (marks & kMarkSlight) != 0 && (marks & kMarkPinned) == 0 && (marks & kMarkResolved) != 0;
    if (columns.stale && slight && columns.timestamps[i] <= limits.stale_timestamp) {
      masks.maybe_stale[w] |= bit;
    }
  }
}

}  // namespace

const Table kScalar{"scalar",
                    bm25_accumulate,
                    bm25_accumulate_window,
                    take_at_least,
                    collect_bounds,
                    find_offsets,
                    collect_at_least,
                    decay_weights,
                    extend_paths,
                    intersect,
                    dot_i8,
                    dot_halves,
                    dot_split,
                    dot_f32,
                    squared_l2,
                    squared_l2_i8,
                    scale_dots,
                    least_distances,
                    gate};

}  // namespace spector::kernels
