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

// A lane of 16 bits as one bit of a mask where the processor has such masks, and as two, which its
// masks of bytes give, where it has not.
template <class Arch>
inline constexpr std::size_t kMaskBits = xsimd::batch<std::uint16_t, Arch>::size == 32 ? 1 : 2;

template <class Arch>
std::uint64_t mask_of(const xsimd::batch_bool<std::uint16_t, Arch>& lanes) noexcept {
  if constexpr (kMaskBits<Arch> == 1) {
    return lanes.mask();
  } else {
    using Words = xsimd::batch<std::uint16_t, Arch>;
    using Bytes = xsimd::batch<std::uint8_t, Arch>;
    const Words ones = xsimd::select(lanes, Words(std::uint16_t{0xffff}), Words(std::uint16_t{0}));
    return (xsimd::bitwise_cast<std::uint8_t>(ones) != Bytes(std::uint8_t{0})).mask();
  }
}

template <class Arch>
std::size_t TakeAtLeast::operator()(Arch, std::uint16_t* sums, std::size_t count,
                                    std::uint16_t threshold, std::uint16_t* indices,
                                    std::uint16_t* values) const noexcept {
  using Batch = xsimd::batch<std::uint16_t, Arch>;
  constexpr std::size_t kLanes = Batch::size;
  // Few of many rows reach the threshold, and a wrong guess of the processor about one costs as
  // much as a look at a hundred others: so the groups that have some are listed without a branch.
  constexpr std::size_t kGroup = 4 * kLanes;
  static_assert(kGroup <= 128);
  const Batch bound(threshold);
  const auto load = [&](std::size_t at) { return Batch::load_unaligned(sums + at); };
  std::uint16_t groups[kWindow / kGroup];
  std::size_t n_groups = 0;
  std::size_t i = 0;
  for (; i + kGroup <= count; i += kGroup) {
    const Batch low = xsimd::max(load(i), load(i + kLanes));
    const Batch high = xsimd::max(load(i + 2 * kLanes), load(i + 3 * kLanes));
    groups[n_groups] = static_cast<std::uint16_t>(i);
    n_groups += xsimd::any(xsimd::max(low, high) >= bound) ? 1 : 0;
  }
  std::size_t found = 0;
  const auto take = [&](std::size_t first, std::uint64_t mask) {
    while (mask != 0) {
      const auto bit = static_cast<std::size_t>(__builtin_ctzll(mask));
      const std::size_t index = first + bit / kMaskBits<Arch>;
      indices[found] = static_cast<std::uint16_t>(index);
      values[found++] = sums[index];
      mask &= mask - 1;
      if constexpr (kMaskBits<Arch> == 2) mask &= mask - 1;
    }
  };
  const auto mask = [&](std::size_t at) { return mask_of(load(at) >= bound); };
  // Two registers give a mask of 64 bits, or two of SSE2's one of 32.
  for (std::size_t group = 0; group < n_groups; ++group) {
    const std::size_t first = groups[group];
    take(first, mask(first) | mask(first + kLanes) << (kMaskBits<Arch> * kLanes));
    const std::size_t second = first + 2 * kLanes;
    take(second, mask(second) | mask(second + kLanes) << (kMaskBits<Arch> * kLanes));
  }
  for (; i < count; i += kLanes) take(i, mask(i));
  const Batch zero(std::uint16_t{0});
  for (i = 0; i < count; i += kLanes) zero.store_unaligned(sums + i);
  return found;
}

template <class Arch>
std::size_t CollectBounds::operator()(Arch, const std::uint8_t* bounds, std::size_t count,
                                      std::uint8_t threshold,
                                      std::uint16_t* indices) const noexcept {
  using Batch = xsimd::batch<std::uint8_t, Arch>;
  constexpr std::size_t kLanes = Batch::size;
  const Batch bound(threshold);
  std::size_t found = 0;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    std::uint64_t mask = (Batch::load_unaligned(bounds + i) >= bound).mask();
    while (mask != 0) {
      indices[found++] =
          static_cast<std::uint16_t>(i + static_cast<std::size_t>(__builtin_ctzll(mask)));
      mask &= mask - 1;
    }
  }
  for (; i < count; ++i) {
    if (bounds[i] >= threshold) indices[found++] = static_cast<std::uint16_t>(i);
  }
  return found;
}

template <class Arch>
std::size_t FindOffsets::operator()(Arch, const Bm25Offsets& list, const std::uint16_t* wanted,
                                    std::size_t n_wanted, std::uint16_t* in_wanted,
                                    std::uint16_t* in_offsets) const noexcept {
  using Batch = xsimd::batch<std::uint16_t, Arch>;
  constexpr std::size_t kLanes = Batch::size;
  static_assert(kLanes <= kReadBeyond);
  std::size_t found = 0;
  for (std::size_t i = 0; i < n_wanted; ++i) {
    const std::uint16_t offset = wanted[i];
    const std::uint16_t* const part = list.part_starts + (offset >> list.part_bits);
    std::size_t at = part[0];
    // Where the offset is, and whether at all, no processor can guess: no branch depends on it.
    std::size_t n = part[1] - at;
    while (n > kLanes) {
      const std::size_t half = n / 2;
      at += list.offsets[at + half] <= offset ? half : 0;
      n -= half;
    }
    const std::uint64_t mask =
        mask_of(Batch::load_unaligned(list.offsets + at) == Batch(offset)) | std::uint64_t{1} << 63;
    const auto lane = static_cast<std::size_t>(__builtin_ctzll(mask)) / kMaskBits<Arch>;
    in_wanted[found] = static_cast<std::uint16_t>(i);
    in_offsets[found] = static_cast<std::uint16_t>(at + lane);
    found += lane < n ? 1 : 0;
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
