#include "records/decay.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace spector {
namespace {

// Between two powers of two there is at most one end of a bucket, so the highest bit of an age
// names the bucket but for one comparison.
struct Octave {
  std::int64_t end;  // of the bucket `before`
  std::uint8_t before;
};

constexpr std::array<Octave, 65> kOctaves = [] {
  std::array<Octave, 65> octaves{};
  for (unsigned width = 0; width < octaves.size(); ++width) {
    // Ages that are `width` bits wide begin with this one.
    const std::uint64_t first = width == 0 ? 0 : std::uint64_t{1} << (width - 1);
    unsigned before = 0;
    while (before < kBucketEnds.size() && std::cmp_less_equal(kBucketEnds[before], first)) {
      ++before;
    }
    octaves[width] = {before < kBucketEnds.size() ? kBucketEnds[before] : INT64_MAX,
                      static_cast<std::uint8_t>(before)};
  }
  return octaves;
}();
static_assert([] {
  for (std::size_t i = 1; i < kBucketEnds.size(); ++i) {
    if (std::bit_width(static_cast<std::uint64_t>(kBucketEnds[i - 1])) ==
        std::bit_width(static_cast<std::uint64_t>(kBucketEnds[i]))) {
      return false;
    }
  }
  return true;
}());

}  // namespace

unsigned decay_bucket(std::int64_t age_ms) noexcept {
  const std::int64_t age = std::max<std::int64_t>(age_ms, 0);
  const Octave octave =
      kOctaves[static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(age)))];
  return octave.before + (age >= octave.end ? 1U : 0U);
}

std::array<float, kBuckets> DecayTable::multipliers() const {
  if (!(exponent >= 0.05 && exponent <= 1)) {
    throw std::invalid_argument("decay exponent must be in [0.05, 1], not " +
                                std::to_string(exponent));
  }
  if (!(floor >= 0 && floor <= 0.5)) {
    throw std::invalid_argument("decay floor must be in [0, 0.5], not " + std::to_string(floor));
  }
  constexpr std::array<double, kBuckets> kMiddles{0.5,  3.5,  15,   48,    120,   420,
                                                  1440, 3240, 6480, 13140, 30660, 61320};
  std::array<float, kBuckets> multipliers{};
  for (std::size_t i = 0; i < kBuckets; ++i) {
    multipliers[i] = static_cast<float>(std::max(floor, std::pow(kMiddles[i] / 0.5, -exponent)));
  }
  return multipliers;
}

float strength_factor(float strength) noexcept {
  // What most records have.
  if (strength == 1.0F) return 1.0F;
  return static_cast<float>(std::pow(static_cast<double>(strength), 0.3));
}

}  // namespace spector
