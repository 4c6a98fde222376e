// BM25 over one window of documents (BM25-1, IDX-4). Kernels trust their input, allocate nothing
// and give the same bits on every instruction set: only + - * / in one written order.
//
// Each kernel exists per instruction set (bm25.inl, built by isa.cpp) and as a plain loop
// (scalar.cpp), which is the reference and the level "scalar".
#pragma once

#include <cstddef>
#include <cstdint>

namespace spector::kernels {

// Postings of one term and what its contributions need. The denominator of a document of length
// `len` is f + (c0 + c1 * len), all in float32.
struct Bm25Postings {
  const std::uint32_t* documents;  // ascending, each in [window, window + kWindow)
  const std::uint32_t* frequencies;
  std::size_t count;
  float weight;  // idf * (k1 + 1) * query weight
  float c0;      // k1 * (1 - b)
  float c1;      // k1 * b / average length
};

inline constexpr std::size_t kWindow = 8192;  // accumulators of one window stay in L1

// sums[d - window] += weight * f / (f + (c0 + c1 * lengths[d])) for each posting.
struct Bm25Accumulate {
  template <class Arch>
  void operator()(Arch, const Bm25Postings& postings, const std::uint32_t* lengths,
                  std::uint32_t window, float* sums) const noexcept;
};

// The same for postings of a sealed segment: offsets in the window and frequencies in a byte.
struct Bm25WindowPostings {
  const std::uint16_t* offsets;  // ascending, < kWindow
  const std::uint8_t* frequencies;
  std::size_t count;
  float weight;
  float c0;
  float c1;
};

// sums[o] += weight * f / (f + (c0 + c1 * window_lengths[o])) for each posting.
struct Bm25AccumulateWindow {
  template <class Arch>
  void operator()(Arch, const Bm25WindowPostings& postings, const std::uint32_t* window_lengths,
                  float* sums) const noexcept;
};

// Writes the indices i < count (a multiple of 32) with sums[i] >= threshold (> 0), ascending, with
// their sums, and sets all sums to 0; returns how many. Both outputs have room for `count`.
struct TakeAtLeast {
  template <class Arch>
  std::size_t operator()(Arch, std::uint16_t* sums, std::size_t count, std::uint16_t threshold,
                         std::uint16_t* indices, std::uint16_t* values) const noexcept;
};

// Writes the indices i < count with bounds[i] >= threshold, ascending; returns how many. `indices`
// has room for `count`, which is at most kWindow.
struct CollectBounds {
  template <class Arch>
  std::size_t operator()(Arch, const std::uint8_t* bounds, std::size_t count,
                         std::uint8_t threshold, std::uint16_t* indices) const noexcept;
};

// One term's rows of a window, with directions: those in part p, which begins at p << part_bits,
// are [part_starts[p], part_starts[p + 1]).
struct Bm25Offsets {
  const std::uint16_t* offsets;  // ascending; kReadBeyond more may be read, whatever they are
  const std::uint16_t* part_starts;
  unsigned part_bits;
};
inline constexpr std::size_t kReadBeyond = 32;

// Looks for each of `wanted` (distinct, < kWindow, in any order) among the offsets. For each that
// is there, in the order wanted, writes its index in `wanted` and its index in the offsets; returns
// how many. Both outputs have room for `n_wanted`.
struct FindOffsets {
  template <class Arch>
  std::size_t operator()(Arch, const Bm25Offsets& list, const std::uint16_t* wanted,
                         std::size_t n_wanted, std::uint16_t* in_wanted,
                         std::uint16_t* in_offsets) const noexcept;
};

// Writes the indices i < count (a multiple of 16) with sums[i] >= threshold, ascending; returns how
// many. `indices` has room for `count`.
struct CollectAtLeast {
  template <class Arch>
  std::size_t operator()(Arch, const float* sums, std::size_t count, float threshold,
                         std::uint32_t* indices) const noexcept;
};

}  // namespace spector::kernels
