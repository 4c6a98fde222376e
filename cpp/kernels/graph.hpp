// Sweeps over the arrays of the graph. Kernels trust their input, allocate nothing and give the
// same bits on every instruction set, as those of bm25.hpp do.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spector::kernels {

// One decay of edges (HEB-8). A weight of 0 is an edge that is gone; the sign bit says that the
// last decay held the edge at the floor.
struct DecayRule {
  float factor;           // in (0, 1]
  const float* factors;   // one for each edge in place of `factor`, or null (HEB-9)
  float floor;            // below it an edge goes, unless it is held
  std::uint32_t bridge;   // the least score that holds an edge
  std::uint32_t max_age;  // cycles without strengthening from which on nothing holds it
  std::uint32_t cycle;    // the present one modulo 65536
};

struct DecayCounts {
  std::size_t removed;
  std::size_t floored;
};

// out[i] = the decayed weights[i]. meta[i] = last cycle | bridge score << 16 | flags << 24.
struct DecayWeights {
  template <class Arch>
  DecayCounts operator()(Arch, const float* weights, const std::uint32_t* meta, std::size_t count,
                         const DecayRule& rule, float* out) const noexcept;
};

// Paths that reach one node with `strength` and began at `seed` (HEB-11).
struct PathRule {
  float strength;
  float least;  // above 0
  std::uint32_t seed;
};

// Writes a key for each neighbour that the paths go on to: all but the seed and those that they
// would reach with less than `least`. The upper half is the bits of 1 less those of the strength,
// so that ascending keys are strengths descending; the lower half is the neighbour. Returns how
// many; `keys` has room for `count`. A weight's sign says nothing here.
struct ExtendPaths {
  template <class Arch>
  std::size_t operator()(Arch, const std::uint32_t* neighbours, const float* weights,
                         std::size_t count, const PathRule& rule,
                         std::uint64_t* keys) const noexcept;
};

}  // namespace spector::kernels
