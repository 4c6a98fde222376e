// Sets as ascending arrays without repetition. Kernels trust their input and allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spector::kernels {

// Writes what is in both arrays, ascending; returns how many. `out` has room for the smaller one
// and may be `a`. Fastest where a is the shorter one.
struct Intersect {
  template <class Arch>
  std::size_t operator()(Arch, const std::uint32_t* a, std::size_t n_a, const std::uint32_t* b,
                         std::size_t n_b, std::uint32_t* out) const noexcept;
};

}  // namespace spector::kernels
