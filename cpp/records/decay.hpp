// How a memory fades (specification, end of section C.2): pure functions of its header and a time.
#pragma once

#include <array>
#include <cstdint>

namespace spector {

inline constexpr std::size_t kBuckets = 12;

// The first age in milliseconds that is too old for bucket i; the last bucket has none.
inline constexpr std::array<std::int64_t, kBuckets - 1> kBucketEnds = [] {
  constexpr std::int64_t kHour = 3'600'000;
  constexpr std::int64_t kDay = 24 * kHour;
  return std::array<std::int64_t, kBuckets - 1>{kHour,      6 * kHour,  24 * kHour, 3 * kDay,
                                                7 * kDay,   28 * kDay,  90 * kDay,  180 * kDay,
                                                365 * kDay, 730 * kDay, 1825 * kDay};
}();

// The bucket of an age in milliseconds; a timestamp in the future has age 0 (negative here).
[[nodiscard]] unsigned decay_bucket(std::int64_t age_ms) noexcept;

// SCO-10: what recalls make of a bucket.
[[nodiscard]] constexpr unsigned reconsolidated(unsigned bucket, std::uint32_t explicit_recalls,
                                                std::uint32_t passive_recalls) noexcept {
  const unsigned shifted = bucket >> (explicit_recalls < 5 ? explicit_recalls : 5);
  const unsigned passive = passive_recalls / 3 < 2 ? passive_recalls / 3 : 2;
  return shifted > passive ? shifted - passive : 0;
}

// SCO-11.
[[nodiscard]] constexpr float arousal_factor(std::uint8_t arousal) noexcept {
  constexpr std::array<float, 4> kFactors{1.0F, 1.15F, 1.35F, 1.65F};
  return kFactors[arousal / 64];
}

// SCO-9: an exponent in [0.05, 1] and a floor in [0, 0.5].
struct DecayTable {
  double exponent = 0.15;
  double floor = 0.10;

  // max(floor, (mid-point / 0.5 h)^-exponent) of each bucket. Throws std::invalid_argument for an
  // exponent or floor out of range.
  [[nodiscard]] std::array<float, kBuckets> multipliers() const;
};

// SCO-13: what a reinforcement adds to the storage strength; the sum is capped at 5.
[[nodiscard]] constexpr float strength_increment(float multiplier) noexcept {
  return 0.1F * (1.0F - multiplier);
}

// s of SCO-6: strength^0.3.
[[nodiscard]] float strength_factor(float strength) noexcept;

}  // namespace spector
