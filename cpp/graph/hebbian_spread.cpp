// HEB-11: spreading activation. All seeds advance together, one level of edges after the other, so
// that the memory of many rows is asked for before any of them is needed.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "graph/hebbian.hpp"
#include "graph/visited.hpp"

namespace spector {
namespace {

// Ascending keys are strengths descending, then slots ascending (GEN-4). Strengths are positive, so
// their bits ascend as they do.
std::uint64_t key_of(std::uint32_t slot, float strength) noexcept {
  return static_cast<std::uint64_t>(~std::bit_cast<std::uint32_t>(strength)) << 32 | slot;
}
Activation activation(std::uint64_t key) noexcept {
  return {static_cast<std::uint32_t>(key),
          std::bit_cast<float>(~static_cast<std::uint32_t>(key >> 32))};
}

// The greatest strength of each slot that was reached.
class Strengths {
 public:
  void clear() {
    slots_.clear();
    values_.clear();
  }
  void reserve(std::size_t expected) { slots_.reserve(expected); }
  void raise(std::uint32_t slot, float strength) {
    const VisitedSet::Place place = slots_.insert(slot);
    if (place.is_new) {
      values_.push_back(strength);
    } else if (strength > values_[place.index]) {
      values_[place.index] = strength;
    }
  }
  [[nodiscard]] std::span<const std::uint32_t> slots() const noexcept { return slots_.keys(); }
  [[nodiscard]] std::span<const float> values() const noexcept { return values_; }
  [[nodiscard]] std::size_t size() const noexcept { return values_.size(); }

 private:
  VisitedSet slots_;
  std::vector<float> values_;
};

struct Step {
  std::uint32_t slot;
  std::uint32_t seed;  // where the path began
  float strength;
};

// Kept by each thread for its next call.
struct Scratch {
  Strengths reached;   // by any seed
  Strengths of_level;  // by one seed in one level
  std::vector<Step> steps;
  std::vector<Step> next;
  std::vector<HebbianRow> rows;
  std::vector<std::uint64_t> keys;
  std::vector<std::uint64_t> sorted;
};
// What one large call has left is given back after it.
constexpr std::size_t kKeptResults = std::size_t{1} << 18;

// Two passes by counting put the keys in the order of their first 22 differing bits, in which few
// agree; what is left to do is done by insertion. Where many agree (equal strengths) that would
// take long, so it gives up after some moves.
void sort_keys(Scratch& scratch) {
  std::vector<std::uint64_t>& keys = scratch.keys;
  constexpr std::size_t kFew = 200;
  if (keys.size() <= kFew) {
    std::sort(keys.begin(), keys.end());
    return;
  }
  constexpr std::size_t kDigit = 11;
  constexpr std::size_t kBuckets = std::size_t{1} << kDigit;
  std::uint64_t least = keys[0];
  std::uint64_t greatest = keys[0];
  for (const std::uint64_t key : keys) {
    least = std::min(least, key);
    greatest = std::max(greatest, key);
  }
  const auto bits = static_cast<std::size_t>(std::bit_width(greatest - least));
  const std::size_t shift = bits - std::min(bits, 2 * kDigit);
  scratch.sorted.resize(keys.size());
  for (const std::size_t digit : {shift, shift + kDigit}) {
    std::array<std::uint32_t, kBuckets> places{};
    for (const std::uint64_t key : keys) ++places[(key - least) >> digit & (kBuckets - 1)];
    std::uint32_t place = 0;
    for (std::uint32_t& count : places) place += std::exchange(count, place);
    for (const std::uint64_t key : keys) {
      scratch.sorted[places[(key - least) >> digit & (kBuckets - 1)]++] = key;
    }
    keys.swap(scratch.sorted);
  }
  std::size_t moves = 8 * keys.size();
  for (std::size_t i = 1; i < keys.size(); ++i) {
    const std::uint64_t key = keys[i];
    std::size_t at = i;
    for (; at > 0 && keys[at - 1] > key; --at) keys[at] = keys[at - 1];
    keys[at] = key;
    if (i - at > moves) {
      std::sort(keys.begin(), keys.end());
      return;
    }
    moves -= i - at;
  }
}

}  // namespace

std::vector<Activation> HebbianGraph::View::spread(std::span<const std::uint32_t> seeds,
                                                   std::size_t depth, float min_strength,
                                                   std::size_t limit) const {
  if (!(min_strength > 0 && min_strength <= 1)) {
    throw std::invalid_argument("min_strength must be in (0, 1], not " +
                                std::to_string(min_strength));
  }
  for (const std::uint32_t seed : seeds) {
    if (seed >= slots_) {
      throw std::out_of_range("slot " + std::to_string(seed) + ": there are " +
                              std::to_string(slots_));
    }
  }
  if (limit == 0 || depth == 0) return {};

  thread_local Scratch scratch;
  Strengths& reached = scratch.reached;
  std::vector<Step>& steps = scratch.steps;
  reached.clear();
  steps.clear();
  for (const std::uint32_t seed : seeds) steps.push_back({seed, seed, 1.0F});

  for (std::size_t level = 1; level <= depth && !steps.empty(); ++level) {
    constexpr std::size_t kAhead = 12;
    scratch.rows.resize(steps.size());
    std::size_t entries = 0;
    const auto prefetch_place = [&](std::uint32_t slot) {
      if (slot < base_->slots) __builtin_prefetch(base_->offsets.get() + slot);
      if (changed_entries_ != 0) changed_.prefetch_place(slot);
    };
    for (std::size_t i = 0; i < std::min(2 * kAhead, steps.size()); ++i) {
      prefetch_place(steps[i].slot);
    }
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (i + 2 * kAhead < steps.size()) prefetch_place(steps[i + 2 * kAhead].slot);
      if (changed_entries_ != 0 && i + kAhead < steps.size()) {
        changed_.prefetch(steps[i + kAhead].slot);
      }
      scratch.rows[i] = row(steps[i].slot);
      entries += scratch.rows[i].size();
    }
    const bool last = level == depth;
    if (last) reached.reserve(reached.size() + entries);

    scratch.next.clear();
    for (std::size_t i = 0; i < std::min(kAhead, steps.size()); ++i) scratch.rows[i].prefetch();
    for (std::size_t i = 0; i < steps.size();) {
      // The steps of one seed lie side by side.
      const std::uint32_t seed = steps[i].seed;
      const bool first_level = level == 1;
      Strengths& into = last || first_level ? reached : scratch.of_level;
      if (!last && !first_level) into.clear();
      for (; i < steps.size() && steps[i].seed == seed; ++i) {
        if (i + kAhead < steps.size()) scratch.rows[i + kAhead].prefetch();
        const HebbianRow row = scratch.rows[i];
        const float strength = steps[i].strength;
        for (std::size_t j = 0; j < row.size(); ++j) {
          const float product = strength * row.weight(j);
          const std::uint32_t slot = row.neighbour(j);
          if (!(product >= min_strength) || slot == seed) continue;
          into.raise(slot, product);
          if (first_level && !last) scratch.next.push_back({slot, seed, product});
        }
      }
      if (last || first_level) continue;
      for (std::size_t j = 0; j < into.size(); ++j) {
        const std::uint32_t slot = into.slots()[j];
        const float strength = into.values()[j];
        reached.raise(slot, strength);
        scratch.next.push_back({slot, seed, strength});
      }
    }
    steps.swap(scratch.next);
  }

  std::vector<std::uint64_t>& keys = scratch.keys;
  keys.resize(reached.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = key_of(reached.slots()[i], reached.values()[i]);
  }
  if (limit < keys.size()) {
    std::nth_element(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(limit), keys.end());
    keys.resize(limit);
  }
  sort_keys(scratch);
  std::vector<Activation> found(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) found[i] = activation(keys[i]);
  if (reached.size() > kKeptResults) scratch = {};
  return found;
}

}  // namespace spector
