// Definitions of the kernels in graph.hpp for one xsimd architecture.
#pragma once

#include <bit>
#include <xsimd/xsimd.hpp>

#include "kernels/graph.hpp"

namespace spector::kernels {

template <class Arch>
DecayCounts DecayWeights::operator()(Arch, const float* weights, const std::uint32_t* meta,
                                     std::size_t count, const DecayRule& rule,
                                     float* out) const noexcept {
  using Float = xsimd::batch<float, Arch>;
  using Int = xsimd::batch<std::int32_t, Arch>;
  constexpr std::size_t kLanes = Float::size;
  const Float uniform(rule.factor);
  const Float floor(rule.floor);
  const Float zero(0.0F);
  const Int cycle(static_cast<std::int32_t>(rule.cycle));
  const Int low16(0xffff);
  const Int low8(0xff);
  const Int least_bridge(static_cast<std::int32_t>(rule.bridge));
  const Int max_age(static_cast<std::int32_t>(rule.max_age));
  const auto* signed_meta = reinterpret_cast<const std::int32_t*>(meta);
  DecayCounts counts{0, 0};

  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Float before = xsimd::abs(Float::load_unaligned(weights + i));
    const Float factor =
        rule.factors == nullptr ? uniform : Float::load_unaligned(rule.factors + i);
    const Float after = before * factor;
    const auto below = after < floor;
    if (xsimd::none(below)) {
      after.store_unaligned(out + i);
      continue;
    }
    const Int bits = Int::load_unaligned(signed_meta + i);
    const auto held = ((bits >> 16) & low8) >= least_bridge && ((cycle - bits) & low16) < max_age;
    const auto alive = before > zero;
    const auto floored = below && alive && xsimd::batch_bool_cast<float>(held);
    const auto removed = below && alive && !floored;
    Float result = xsimd::select(below, zero, after);
    result = xsimd::select(floored, -floor, result);
    result.store_unaligned(out + i);
    counts.floored += static_cast<std::size_t>(__builtin_popcountll(floored.mask()));
    counts.removed += static_cast<std::size_t>(__builtin_popcountll(removed.mask()));
  }
  for (; i < count; ++i) {
    const float before = weights[i] < 0 ? -weights[i] : weights[i];
    float after = before * (rule.factors == nullptr ? rule.factor : rule.factors[i]);
    if (after < rule.floor) {
      const std::uint32_t age = (rule.cycle - meta[i]) & 0xffff;
      after = 0.0F;
      if (before > 0 && ((meta[i] >> 16) & 0xff) >= rule.bridge && age < rule.max_age) {
        after = -rule.floor;
        ++counts.floored;
      } else if (before > 0) {
        ++counts.removed;
      }
    }
    out[i] = after;
  }
  return counts;
}

template <class Arch>
std::size_t ExtendPaths::operator()(Arch, const std::uint32_t* neighbours, const float* weights,
                                    std::size_t count, const PathRule& rule,
                                    std::uint64_t* keys) const noexcept {
  using Float = xsimd::batch<float, Arch>;
  using Int = xsimd::batch<std::uint32_t, Arch>;
  constexpr std::size_t kLanes = Float::size;
  constexpr auto kOne = std::bit_cast<std::uint32_t>(1.0F);
  const Float strength(rule.strength);
  const Float least(rule.least);
  const Int seed(rule.seed);
  const Int one(kOne);
  alignas(64) std::uint32_t high[kLanes];
  std::size_t n = 0;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Float reached = strength * xsimd::abs(Float::load_unaligned(weights + i));
    const auto stays = Int::load_unaligned(neighbours + i) == seed;
    const auto kept = (reached >= least).mask() & ~stays.mask();
    const Int upper = one - xsimd::bitwise_cast<std::uint32_t>(reached);
    if (kept == (std::uint64_t{1} << kLanes) - 1) {
      const Int lower = Int::load_unaligned(neighbours + i);
      xsimd::bitwise_cast<std::uint64_t>(xsimd::zip_lo(lower, upper)).store_unaligned(keys + n);
      xsimd::bitwise_cast<std::uint64_t>(xsimd::zip_hi(lower, upper))
          .store_unaligned(keys + n + kLanes / 2);
      n += kLanes;
    } else {
      upper.store_aligned(high);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        keys[n] = std::uint64_t{high[lane]} << 32 | neighbours[i + lane];
        n += kept >> lane & 1;
      }
    }
  }
  for (; i < count; ++i) {
    const float reached = rule.strength * (weights[i] < 0 ? -weights[i] : weights[i]);
    keys[n] = std::uint64_t{kOne - std::bit_cast<std::uint32_t>(reached)} << 32 | neighbours[i];
    n += static_cast<std::size_t>(reached >= rule.least) &
         static_cast<std::size_t>(neighbours[i] != rule.seed);
  }
  return n;
}

}  // namespace spector::kernels
