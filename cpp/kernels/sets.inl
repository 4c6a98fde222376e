// Definitions of the kernels in sets.hpp for one xsimd architecture.
#pragma once

#include <xsimd/xsimd.hpp>

#include "kernels/sets.hpp"

namespace spector::kernels {

template <class Arch>
std::size_t Intersect::operator()(Arch, const std::uint32_t* a, std::size_t n_a,
                                  const std::uint32_t* b, std::size_t n_b,
                                  std::uint32_t* out) const noexcept {
  using Ids = xsimd::batch<std::uint32_t, Arch>;
  constexpr std::size_t kLanes = Ids::size;
  std::size_t found = 0;
  std::size_t i = 0;
  std::size_t j = 0;
  // Each of a against the lanes of b where it can be.
  while (i < n_a && j + kLanes <= n_b) {
    const std::uint32_t value = a[i];
    if (b[j + kLanes - 1] < value) {
      j += kLanes;
      continue;
    }
    const bool there = xsimd::any(Ids::load_unaligned(b + j) == Ids(value));
    out[found] = value;
    found += there ? 1 : 0;
    ++i;
  }
  while (i < n_a && j < n_b) {
    const std::uint32_t value = a[i];
    const std::uint32_t other = b[j];
    i += value <= other ? 1 : 0;
    j += other <= value ? 1 : 0;
    if (value == other) out[found++] = value;
  }
  return found;
}

}  // namespace spector::kernels
