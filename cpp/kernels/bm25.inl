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
    for (; mask != 0; mask &= mask - 1) {
      const std::size_t index = first + static_cast<std::size_t>(__builtin_ctzll(mask));
      indices[found] = static_cast<std::uint16_t>(index);
      values[found++] = sums[index];
    }
  };
  const auto mask = [&](std::size_t at) { return std::uint64_t{(load(at) >= bound).mask()}; };
  for (std::size_t group = 0; group < n_groups; ++group) {
    const std::size_t first = groups[group];
    if constexpr (kGroup <= 64) {
      take(first, mask(first) | mask(first + kLanes) << kLanes |
                      mask(first + 2 * kLanes) << (2 * kLanes) |
                      mask(first + 3 * kLanes) << (3 * kLanes));
    } else {
      std::uint64_t low = mask(first) | mask(first + kLanes) << kLanes;
      std::uint64_t high = mask(first + 2 * kLanes) | mask(first + 3 * kLanes) << kLanes;
      do {
        const bool in_low = low != 0;
        const std::uint64_t bits = in_low ? low : high;
        const std::size_t index =
            first + (in_low ? 0 : 2 * kLanes) + static_cast<std::size_t>(__builtin_ctzll(bits));
        indices[found] = static_cast<std::uint16_t>(index);
        values[found++] = sums[index];
        high = in_low ? high : bits & (bits - 1);
        low = in_low ? bits & (bits - 1) : 0;
      } while ((low | high) != 0);
    }
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
std::size_t FindOffsets::operator()(Arch, const std::uint16_t* offsets, std::size_t count,
                                    const std::uint16_t* wanted, std::size_t n_wanted,
                                    std::uint16_t* in_wanted,
                                    std::uint16_t* in_offsets) const noexcept {
  using Batch = xsimd::batch<std::uint16_t, Arch>;
  constexpr std::size_t kLanes = Batch::size;
  std::size_t found = 0;
  std::size_t at = 0;
  if (count < kLanes) {
    for (std::size_t i = 0; i < n_wanted; ++i) {
      while (at < count && offsets[at] < wanted[i]) ++at;
      if (at == count) break;
      in_wanted[found] = static_cast<std::uint16_t>(i);
      in_offsets[found] = static_cast<std::uint16_t>(at);
      found += offsets[at] == wanted[i] ? 1 : 0;
    }
    return found;
  }
  // Offsets are spread over the window: what is wanted is likely to be near its share of them.
  const std::size_t last = count - kLanes;
  for (std::size_t i = 0; i < n_wanted; ++i) {
    const std::uint16_t offset = wanted[i];
    const std::size_t share = offset * count / kWindow;
    const std::size_t low = at;
    at = share > low + kLanes / 2 ? share - kLanes / 2 : low;
    at = at < last ? at : last;
    while (at > low && offsets[at] > offset) at = at > low + kLanes ? at - kLanes : low;
    while (at < last && offsets[at + kLanes - 1] < offset) {
      at = at + kLanes < last ? at + kLanes : last;
    }
    const std::uint64_t mask = (Batch::load_unaligned(offsets + at) == Batch(offset)).mask();
    in_wanted[found] = static_cast<std::uint16_t>(i);
    in_offsets[found] = static_cast<std::uint16_t>(
        at + static_cast<std::size_t>(__builtin_ctzll(mask | std::uint64_t{1} << 63)));
    found += mask != 0 ? 1 : 0;
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
