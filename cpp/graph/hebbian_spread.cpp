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
// their bits ascend as they do, and at most 1.
constexpr auto kStrongest = std::bit_cast<std::uint32_t>(1.0F);
std::uint64_t key_of(std::uint32_t slot, float strength) noexcept {
  return static_cast<std::uint64_t>(kStrongest - std::bit_cast<std::uint32_t>(strength)) << 32 |
         slot;
}
Activation activation(std::uint64_t key) noexcept {
  return {static_cast<std::uint32_t>(key),
          std::bit_cast<float>(kStrongest - static_cast<std::uint32_t>(key >> 32))};
}

// Ends of paths with their strengths, gathered until they are so many that one look at each of the
// tables they go into is worth it.
class Ends {
 public:
  void clear() {
    slots_.resize(kFull + HebbianGraph::kMaxDegree);
    values_.resize(kFull + HebbianGraph::kMaxDegree);
    size_ = 0;
  }
  [[nodiscard]] bool full() const noexcept { return size_ >= kFull; }

  // The ends of paths from `seed` which go on from one with `strength`. Not if full().
  void append(const HebbianRow& row, std::uint32_t seed, float strength, float min_strength) {
    std::uint32_t* const slots = slots_.data();
    float* const values = values_.data();
    std::size_t n = size_;
    for (std::size_t j = 0; j < row.size(); ++j) {
      const std::uint32_t slot = row.neighbour(j);
      const float product = strength * row.weight(j);
      slots[n] = slot;
      values[n] = product;
      n += static_cast<std::size_t>(product >= min_strength) &
           static_cast<std::size_t>(slot != seed);
    }
    size_ = n;
  }
  [[nodiscard]] std::span<const std::uint32_t> slots() const noexcept {
    return {slots_.data(), size_};
  }
  [[nodiscard]] std::span<const float> values() const noexcept { return {values_.data(), size_}; }

 private:
  static constexpr std::size_t kFull = 512;
  std::vector<std::uint32_t> slots_;
  std::vector<float> values_;
  std::size_t size_ = 0;
};

// The greatest strength of each slot that was reached.
class Strengths {
 public:
  void clear() { slots_.clear(); }
  // That many slots will be reached in all, or fewer.
  void reserve(std::size_t expected) { slots_.reserve(2 * expected); }
  void raise(std::span<const std::uint32_t> slots, std::span<const float> strengths) {
    if (values_.size() < slots_.size() + slots.size()) {
      values_.resize(2 * (slots_.size() + slots.size()));
    }
    float* const values = values_.data();
    slots_.insert(slots, [=](std::size_t i, VisitedSet::Place place) {
      float& value = values[place.index];
      value = place.is_new ? strengths[i] : std::max(value, strengths[i]);
    });
  }
  [[nodiscard]] std::span<const std::uint32_t> slots() const noexcept { return slots_.keys(); }
  [[nodiscard]] std::span<const float> values() const noexcept {
    return {values_.data(), slots_.size()};
  }
  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }

 private:
  VisitedSet slots_;
  std::vector<float> values_;  // of those in slots_, and room for more
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
  Ends ends;           // not yet in one of these
  std::vector<Step> steps;
  std::vector<Step> next;
  std::vector<HebbianRow> rows;
  std::vector<std::uint64_t> keys;
  std::vector<std::uint64_t> sorted;
};

// Not inlined: in a shared library each use of a thread's own variable is a call, loops included.
[[gnu::noinline]] Scratch& own_scratch() {
  thread_local Scratch mine;
  return mine;
}
// What one large call has left is given back after it.
constexpr std::size_t kKeptResults = std::size_t{1} << 18;

// Two passes by counting put the keys in the order of the first 18 bits that strengths of at least
// `min_strength` may differ in, in which few agree; what is left to do is done by insertion. Where
// many agree (equal strengths) that would take long, so it gives up after some moves.
void sort_keys(Scratch& scratch, float min_strength) {
  std::vector<std::uint64_t>& keys = scratch.keys;
  constexpr std::size_t kFew = 200;
  if (keys.size() <= kFew) {
    std::sort(keys.begin(), keys.end());
    return;
  }
  constexpr std::size_t kDigit = 9;
  constexpr std::size_t kBuckets = std::size_t{1} << kDigit;
  const auto bits = static_cast<std::size_t>(std::bit_width(key_of(0, min_strength)));
  const std::size_t shift = std::max<std::size_t>(bits, 32 + 2 * kDigit) - 2 * kDigit;
  const auto digit = [shift](std::uint64_t key, std::size_t which) {
    return key >> (shift + which * kDigit) & (kBuckets - 1);
  };
  std::array<std::array<std::uint32_t, kBuckets>, 2> places{};
  for (const std::uint64_t key : keys) {
    ++places[0][digit(key, 0)];
    ++places[1][digit(key, 1)];
  }
  std::array<std::uint32_t, 2> place{};
  for (std::size_t i = 0; i < kBuckets; ++i) {
    place[0] += std::exchange(places[0][i], place[0]);
    place[1] += std::exchange(places[1][i], place[1]);
  }
  scratch.sorted.resize(keys.size());
  for (std::size_t which = 0; which < 2; ++which) {
    std::uint64_t* const to = scratch.sorted.data();
    std::uint32_t* const next = places[which].data();
    for (const std::uint64_t key : keys) to[next[digit(key, which)]++] = key;
    keys.swap(scratch.sorted);
  }
  std::size_t moves = 8 * keys.size();
  for (std::size_t i = 1; i < keys.size(); ++i) {
    const std::uint64_t key = keys[i];
    std::size_t at = i;
    for (; at > 0 && keys[at - 1] > key; --at) keys[at] = keys[at - 1];
    if (at == i) continue;
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

  Scratch& scratch = own_scratch();
  Strengths& reached = scratch.reached;
  Ends& ends = scratch.ends;
  std::vector<Step>& steps = scratch.steps;
  reached.clear();
  steps.clear();
  for (const std::uint32_t seed : seeds) steps.push_back({seed, seed, 1.0F});

  for (std::size_t level = 1; level <= depth && !steps.empty(); ++level) {
    constexpr std::size_t kAhead = 24;
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
    reached.reserve(std::min(slots_, reached.size() + entries));

    scratch.next.clear();
    ends.clear();
    for (std::size_t i = 0; i < std::min(kAhead, steps.size()); ++i) scratch.rows[i].prefetch();
    for (std::size_t i = 0; i < steps.size();) {
      // The steps of one seed lie side by side. In the first level that is one, whose ends differ.
      const std::uint32_t seed = steps[i].seed;
      const bool merges = !last && level > 1;
      Strengths& into = merges ? scratch.of_level : reached;
      if (merges) into.clear();
      for (; i < steps.size() && steps[i].seed == seed; ++i) {
        if (i + kAhead < steps.size()) scratch.rows[i + kAhead].prefetch();
        const std::size_t before = ends.slots().size();
        ends.append(scratch.rows[i], seed, steps[i].strength, min_strength);
        if (!last && !merges) {
          for (std::size_t j = before; j < ends.slots().size(); ++j) {
            scratch.next.push_back({ends.slots()[j], seed, ends.values()[j]});
          }
        }
        if (ends.full()) {
          into.raise(ends.slots(), ends.values());
          ends.clear();
        }
      }
      if (!merges) continue;
      into.raise(ends.slots(), ends.values());
      ends.clear();
      for (std::size_t j = 0; j < into.size(); ++j) {
        scratch.next.push_back({into.slots()[j], seed, into.values()[j]});
      }
      reached.raise(into.slots(), into.values());
    }
    reached.raise(ends.slots(), ends.values());
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
  sort_keys(scratch, min_strength);
  std::vector<Activation> found(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) found[i] = activation(keys[i]);
  if (reached.size() > kKeptResults) scratch = {};
  return found;
}

}  // namespace spector
