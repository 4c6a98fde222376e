// The k best of many scored slots, best first, equal scores by lower slot (GEN-4).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace spector {

struct ScoredSlot {
  float score;
  std::uint32_t slot;
};

// Keeps the best k of what is offered: a buffer that is cut to k when full, which also gives the
// score that later ones must reach. Scores are above 0, so that their bits compare as they do.
class TopK {
 public:
  explicit TopK(std::size_t k) : k_(k), limit_(k + std::max<std::size_t>(k, 16)) {
    keys_.reserve(std::min(limit_, kFew));
  }

  // What scores below this cannot enter; an equal score can, by its slot.
  [[nodiscard]] float threshold() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(lowest_ >> 32));
  }

  // The caller knows k slots that score at least this much.
  void raise(float threshold) noexcept {
    if (threshold > 0) lowest_ = std::max(lowest_, key_of(threshold, ~0U));
  }

  void offer(float score, std::uint32_t slot) {
    const std::uint64_t key = key_of(score, slot);
    if (key < lowest_) return;
    keys_.push_back(key);
    if (keys_.size() >= limit_) cut();
  }

  // Makes the threshold as high as what was offered allows.
  void cut() {
    if (keys_.size() < k_) return;
    if (keys_.size() <= kFew) {
      sort_few();
      lowest_ = std::max(lowest_, keys_[k_ - 1]);
      keys_.resize(k_);
      return;
    }
    const auto last = keys_.begin() + static_cast<std::ptrdiff_t>(k_ - 1);
    std::nth_element(keys_.begin(), last, keys_.end(), std::greater<>());
    lowest_ = std::max(lowest_, *last);
    keys_.resize(k_);
  }

  [[nodiscard]] std::vector<ScoredSlot> take() {
    cut();
    sort();
    std::vector<ScoredSlot> best;
    best.reserve(keys_.size());
    for (const std::uint64_t key : keys_) {
      best.push_back({std::bit_cast<float>(static_cast<std::uint32_t>(key >> 32)),
                      ~static_cast<std::uint32_t>(key)});
    }
    return best;
  }

 private:
  static std::uint64_t key_of(float score, std::uint32_t slot) noexcept {
    return std::uint64_t{std::bit_cast<std::uint32_t>(score)} << 32 | ~slot;
  }

  // Each key goes to the place that the number of greater ones gives it: no branch depends on them,
  // whose outcome no processor could guess. Scores are above 0, so keys are below 2^63 and the sign
  // of a difference tells which is greater.
  void sort_few() noexcept {
    std::array<std::uint64_t, kFew> sorted;
    const std::uint64_t* keys = keys_.data();
    const std::size_t n = keys_.size();
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t key = keys[i];
      std::uint64_t place = i;  // less those of the i keys before that are smaller
      for (std::size_t j = 0; j < i; ++j) place -= (keys[j] - key) >> 63;
      for (std::size_t j = i + 1; j < n; ++j) place += (key - keys[j]) >> 63;
      sorted[place] = key;
    }
    std::copy_n(sorted.begin(), n, keys_.begin());
  }

  // Descending. Many keys go to shares of their range first, whatever order these hold them in.
  void sort() {
    constexpr std::size_t kMany = 128;
    if (keys_.size() <= kFew) return sort_few();
    constexpr unsigned kShareBits = 10;
    constexpr std::size_t kShares = std::size_t{1} << kShareBits;
    if (keys_.size() < kMany) {
      std::sort(keys_.begin(), keys_.end(), std::greater<>());
      return;
    }
    const auto [lowest, highest] = std::minmax_element(keys_.begin(), keys_.end());
    const std::uint64_t top = *highest;
    const auto width = static_cast<unsigned>(std::bit_width(top - *lowest));
    const unsigned shift = width > kShareBits ? width - kShareBits : 0;
    std::array<std::uint32_t, kShares + 1> ends{};  // of the shares before, then of each
    for (const std::uint64_t key : keys_) ++ends[((top - key) >> shift) + 1];
    for (std::size_t share = 1; share < kShares; ++share) ends[share] += ends[share - 1];
    std::vector<std::uint64_t> sorted(keys_.size());
    for (const std::uint64_t key : keys_) sorted[ends[(top - key) >> shift]++] = key;
    std::uint32_t begin = 0;
    for (std::size_t share = 0; share < kShares; ++share) {
      std::sort(sorted.begin() + begin, sorted.begin() + ends[share], std::greater<>());
      begin = ends[share];
    }
    keys_.swap(sorted);
  }

  static constexpr std::size_t kFew = 32;

  std::size_t k_;
  std::size_t limit_;
  std::vector<std::uint64_t> keys_;
  std::uint64_t lowest_ = key_of(std::numeric_limits<float>::denorm_min(), ~0U);
};

}  // namespace spector
