// Definitions of the kernels in bm25.hpp for one xsimd architecture.
#pragma once

#include <xsimd/xsimd.hpp>

#include "kernels/bm25.hpp"

namespace spector::kernels {

template <class Arch>
void Bm25Accumulate::operator()(Arch, const Bm25Postings& postings, const std::uint32_t* lengths,
                                std::uint32_t window, float* sums) const noexcept {
  using Float = xsimd::batch<float, Arch>;
  using Int = xsimd::batch<std::int32_t, Arch>;
  constexpr std::size_t kLanes = Float::size;
  const Float weight(postings.weight);
  const Float c0(postings.c0);
  const Float c1(postings.c1);
  const auto* documents = reinterpret_cast<const std::int32_t*>(postings.documents);
  const auto* frequencies = reinterpret_cast<const std::int32_t*>(postings.frequencies);
  const auto* window_lengths = reinterpret_cast<const std::int32_t*>(lengths + window);
  const Int first(static_cast<std::int32_t>(window));
  alignas(64) float contributions[kLanes];
  alignas(64) std::int32_t offsets[kLanes];

  std::size_t i = 0;
  for (; i + kLanes <= postings.count; i += kLanes) {
    const Int offset = Int::load_unaligned(documents + i) - first;
    const Float length = xsimd::to_float(Int::gather(window_lengths, offset));
    const Float f = xsimd::to_float(Int::load_unaligned(frequencies + i));
    const Float contribution = weight * f / (f + (c0 + c1 * length));
    contribution.store_aligned(contributions);
    offset.store_aligned(offsets);
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[offsets[lane]] += contributions[lane];
  }
  for (; i < postings.count; ++i) {
    const std::int32_t offset = documents[i] - static_cast<std::int32_t>(window);
    const auto length = static_cast<float>(window_lengths[offset]);
    const auto f = static_cast<float>(frequencies[i]);
    sums[offset] += postings.weight * f / (f + (postings.c0 + postings.c1 * length));
  }
}

template <class Arch>
void Bm25AccumulateWindow::operator()(Arch, const Bm25WindowPostings& postings,
                                      const std::uint32_t* window_lengths,
                                      float* sums) const noexcept {
  using Float = xsimd::batch<float, Arch>;
  using Int = xsimd::batch<std::int32_t, Arch>;
  constexpr std::size_t kLanes = Float::size;
  const Float weight(postings.weight);
  const Float c0(postings.c0);
  const Float c1(postings.c1);
  const auto* lengths = reinterpret_cast<const std::int32_t*>(window_lengths);
  alignas(64) std::int32_t offsets[kLanes];
  alignas(64) std::int32_t frequencies[kLanes];
  alignas(64) float contributions[kLanes];

  std::size_t i = 0;
  for (; i + kLanes <= postings.count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      offsets[lane] = postings.offsets[i + lane];
      frequencies[lane] = postings.frequencies[i + lane];
    }
    const Float length = xsimd::to_float(Int::gather(lengths, Int::load_aligned(offsets)));
    const Float f = xsimd::to_float(Int::load_aligned(frequencies));
    const Float contribution = weight * f / (f + (c0 + c1 * length));
    contribution.store_aligned(contributions);
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[offsets[lane]] += contributions[lane];
  }
  for (; i < postings.count; ++i) {
    const std::uint16_t offset = postings.offsets[i];
    const auto length = static_cast<float>(lengths[offset]);
    const auto f = static_cast<float>(postings.frequencies[i]);
    sums[offset] += postings.weight * f / (f + (postings.c0 + postings.c1 * length));
  }
}

template <class Arch>
std::size_t TakeAtLeast::operator()(Arch, std::uint16_t* sums, std::size_t count,
                                    std::uint16_t threshold,
                                    std::uint16_t* indices) const noexcept {
  using Batch = xsimd::batch<std::uint16_t, Arch>;
  constexpr std::size_t kLanes = Batch::size;
  const Batch bound(threshold);
  const Batch zero(std::uint16_t{0});
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += kLanes) {
    std::uint64_t mask = (Batch::load_unaligned(sums + i) >= bound).mask();
    zero.store_unaligned(sums + i);
    while (mask != 0) {
      indices[found++] =
          static_cast<std::uint16_t>(i + static_cast<std::size_t>(__builtin_ctzll(mask)));
      mask &= mask - 1;
    }
  }
  return found;
}

template <class Arch>
std::size_t CollectAtLeast::operator()(Arch, const float* sums, std::size_t count, float threshold,
                                       std::uint32_t* indices) const noexcept {
  using Float = xsimd::batch<float, Arch>;
  constexpr std::size_t kLanes = Float::size;
  const Float bound(threshold);
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += kLanes) {
    std::uint64_t mask = (Float::load_unaligned(sums + i) >= bound).mask();
    while (mask != 0) {
      indices[found++] =
          static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(__builtin_ctzll(mask));
      mask &= mask - 1;
    }
  }
  return found;
}

}  // namespace spector::kernels
