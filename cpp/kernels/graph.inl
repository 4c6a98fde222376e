// Definitions of the kernels in graph.hpp for one xsimd architecture.
#pragma once

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

}  // namespace spector::kernels
