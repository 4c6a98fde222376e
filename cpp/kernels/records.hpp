// Distances and header gates of the record store. Kernels trust their input, allocate nothing and
// give the same bits on every instruction set: integers, or only + - * / sqrt in one written order
// over sixteen lanes.
//
// Vectors are padded with zeros to whole blocks of 64 bytes, which adds nothing to any sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace spector::kernels {

// Sums of floats go over this many lanes, element i in lane i % kSumLanes; the lanes are then
// folded in halves: lane j += lane j + 8, + 4, + 2, + 1.
inline constexpr std::size_t kSumLanes = 16;

// dots[r] = sum of query[i] * rows[r][i] for i < size, a multiple of 64; all of them are in
// [-127, 127] and size <= 65,536, so that it fits. Meanwhile the rows `next` are asked for.
struct DotI8 {
  template <class Arch>
  void operator()(Arch, const std::int8_t* query, std::span<const std::int8_t* const> rows,
                  std::span<const std::int8_t* const> next, std::size_t size,
                  std::int32_t* dots) const noexcept;
};

// A row of codes as two rows of their halves: a code plus 128 is 16 * high + low. Block b of 64 has
// in byte j of its 32 the halves of code 64 b + j, below, and 64 b + j + 32, above.
inline constexpr std::size_t kHalvesBlock = 64;

// dots[r] = sum of query[i] * the half of code i in rows[r], for i < size, a multiple of 64.
struct DotHalves {
  template <class Arch>
  void operator()(Arch, const std::int8_t* query, std::span<const std::uint8_t* const> rows,
                  std::span<const std::uint8_t* const> next, std::size_t size,
                  std::int32_t* dots) const noexcept;
};

// The same of 16 * high + low, where low halves are `to_low` bytes behind the high ones.
struct DotSplit {
  template <class Arch>
  void operator()(Arch, const std::int8_t* query, std::span<const std::uint8_t* const> rows,
                  std::span<const std::uint8_t* const> next, std::size_t to_low, std::size_t size,
                  std::int32_t* dots) const noexcept;
};

// The same as DotI8 for floats; size is a multiple of 16.
struct DotF32 {
  template <class Arch>
  void operator()(Arch, const float* query, std::span<const float* const> rows,
                  std::span<const float* const> next, std::size_t size, float* dots) const noexcept;
};

// Sum of (a[i] - b[i])^2; size is a multiple of 16.
struct SquaredL2 {
  template <class Arch>
  float operator()(Arch, const float* a, const float* b, std::size_t size) const noexcept;
};

// The same where b[i] = codes[i] * scale.
struct SquaredL2I8 {
  template <class Arch>
  float operator()(Arch, const float* a, const std::int8_t* codes, float scale,
                   std::size_t size) const noexcept;
};

// dots[i] = products[i] * (factor * scales[i]) + reach * rests[i]; n is a multiple of 16.
struct ScaleDots {
  template <class Arch>
  void operator()(Arch, const std::int32_t* products, const float* scales, float factor,
                  const float* rests, float reach, std::size_t n, float* dots) const noexcept;
};

// How far a dot product may be from the one that counts: by `margin` times the length of the row,
// and by `slack` times the sum of both squares, which is for rounding.
struct DistanceBounds {
  float query_square;
  float margin;
  float slack;
  bool dot;  // the distance is that of a dot product, else L2
};

// bounds[i] = the least distance that a row may have. L2: sqrt(max(0, s - slack * s - 2 * d)) with
// s = query_square + squares[i] and d = dots[i] + margin * sqrt(squares[i]). Dot: with d + slack *
// s as d, 1 / (1 + d) for d >= 0 and 1 - d below. n is a multiple of 16. Bit i % 64 of
// within[i / 64]: bounds[i] <= limit; bits from n on are 0.
struct LeastDistances {
  template <class Arch>
  void operator()(Arch, const DistanceBounds& limits, const float* dots, const float* squares,
                  std::size_t n, float limit, float* bounds, std::uint64_t* within) const noexcept;
};

inline constexpr std::size_t kGateBlock = 256;  // slots looked at in one call

// A byte of each slot that has what most queries ask of a record.
inline constexpr std::uint8_t kMarkPresent = 1 << 0;
inline constexpr unsigned kMarkTypeShift = 1;  // two bits
inline constexpr std::uint8_t kMarkContradicted = 1 << 3;
inline constexpr std::uint8_t kMarkPinned = 1 << 4;
inline constexpr std::uint8_t kMarkResolved = 1 << 5;
inline constexpr std::uint8_t kMarkSlight = 1 << 6;  // its importance is below 1

// What phases 1, 3 and 4 let pass (SCO-1, SCO-3, SCO-4).
struct GateLimits {
  std::int64_t min_timestamp;
  std::int64_t max_timestamp;
  std::int64_t stale_timestamp;  // up to it a slight record that is resolved may be stale
  float min_importance;
  std::int8_t min_valence;
  std::int8_t max_valence;
  std::uint8_t types;     // bit t: type t is allowed
  std::uint8_t excluded;  // marks that keep a record out
};

// kGateBlock values each. Null: no limit.
struct GateColumns {
  const std::uint8_t* marks;
  const std::int64_t* timestamps;  // also without limits
  const std::int8_t* valences;
  const float* importances;
  bool stale;  // asked for
};

// Bit i of word w is slot 64 w + i.
struct GateMasks {
  static constexpr std::size_t kWords = kGateBlock / 64;
  std::uint64_t present[kWords];
  std::uint64_t in_time[kWords];  // and not excluded
  std::uint64_t in_valence[kWords];
  std::uint64_t important[kWords];  // and of an allowed type
  std::uint64_t maybe_stale[kWords];
};

struct Gate {
  template <class Arch>
  void operator()(Arch, const GateLimits& limits, const GateColumns& columns,
                  GateMasks& masks) const noexcept;
};

}  // namespace spector::kernels
