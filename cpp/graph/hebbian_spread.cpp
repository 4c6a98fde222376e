// HEB-11: spreading activation. All seeds advance together, one level of edges after the other, so
// that the memory of many rows is asked for before any of them is needed. What is reached is
// gathered as it comes, each slot as often as paths end there; put in order, the first of each slot
// is its strongest.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/load_line.hpp"
#include "graph/hebbian.hpp"
#include "graph/visited.hpp"
#include "kernels/dispatch.hpp"

namespace spector {
namespace {

// Keys as kernels::ExtendPaths makes them: ascending keys are strengths descending, then slots
// ascending (GEN-4). Strengths are positive, so their bits ascend as they do, and at most 1.
constexpr auto kStrongest = std::bit_cast<std::uint32_t>(1.0F);
std::uint64_t key_of(std::uint32_t slot, float strength) noexcept {
  return static_cast<std::uint64_t>(kStrongest - std::bit_cast<std::uint32_t>(strength)) << 32 |
         slot;
}
std::uint32_t slot_of(std::uint64_t key) noexcept { return static_cast<std::uint32_t>(key); }
float strength_of(std::uint64_t key) noexcept {
  return std::bit_cast<float>(kStrongest - static_cast<std::uint32_t>(key >> 32));
}

constexpr std::size_t kDigit = 10;  // bits

// Puts keys in the order of one digit, those that agree in it in the order they have.
template <std::size_t kBits = kDigit>
class ByDigit {
 public:
  // The digit begins at this bit.
  explicit ByDigit(std::size_t shift) noexcept : shift_(shift) {}
  [[nodiscard]] std::size_t digit(std::uint64_t key) const noexcept {
    return key >> shift_ & (places_.size() - 1);
  }
  void count(std::uint64_t key) noexcept { ++places_[digit(key)]; }
  // The least digit such that `wanted` keys or more are not above it; so many have been counted.
  [[nodiscard]] std::size_t digit_of(std::size_t wanted) const noexcept {
    std::size_t at = 0;
    for (std::size_t n = places_[0]; n < wanted; n += places_[++at]) {
    }
    return at;
  }
  // All keys have been counted.
  void sort(std::span<const std::uint64_t> keys, std::uint64_t* to) noexcept {
    std::uint32_t place = 0;
    for (std::uint32_t& first : places_) place += std::exchange(first, place);
    for (const std::uint64_t key : keys) to[places_[digit(key)]++] = key;
  }

 private:
  std::size_t shift_;
  std::array<std::uint32_t, std::size_t{1} << kBits> places_{};
};

// Gives up after so many moves; then the keys are in some order.
bool sort_by_insertion(std::span<std::uint64_t> keys, std::size_t moves) noexcept {
  for (std::size_t i = 1; i < keys.size(); ++i) {
    const std::uint64_t key = keys[i];
    if (keys[i - 1] <= key) continue;
    std::size_t at = i;
    for (; at > 0 && keys[at - 1] > key; --at) keys[at] = keys[at - 1];
    keys[at] = key;
    if (i - at > moves) return false;
    moves -= i - at;
  }
  return true;
}

// Which slots have been seen: in a bit for each slot, or where there are few in a small table,
// which stays in the nearest cache.
class Seen {
 public:
  // Nothing has been seen. Slots are below `slots`.
  void clear(std::size_t slots, bool few) {
    few_ = few;
    if (few) {
      table_.clear();
    } else if (words_.size() < slots / 64 + 1) {
      words_.resize(slots / 64 + 1);
    }
  }
  // Brings the first key of each slot that was not seen before to the front, as many as there are
  // or are `wanted`, and returns them.
  std::span<std::uint64_t> take_new(std::span<std::uint64_t> keys, std::size_t wanted) {
    std::uint64_t* const words = words_.data();
    std::size_t n = 0;
    for (std::size_t i = 0; i < keys.size() && n < wanted; ++i) {
      const std::uint64_t key = keys[i];
      const std::uint32_t slot = slot_of(key);
      keys[n] = key;
      if (few_) {
        n += static_cast<std::size_t>(table_.insert(slot).is_new);
        continue;
      }
      const std::uint64_t before = words[slot / 64];
      words[slot / 64] = before | std::uint64_t{1} << (slot % 64);
      n += ~(before >> (slot % 64)) & 1;
    }
    return keys.first(n);
  }
  // To be called with all that was taken before the next use.
  void forget(std::span<const std::uint32_t> slots) noexcept {
    if (few_) return;
    for (const std::uint32_t slot : slots) words_[slot / 64] = 0;
  }

 private:
  bool few_ = false;
  VisitedSet table_;
  std::vector<std::uint64_t> words_;
};

// The ends of all paths, as keys.
class Ends {
 public:
  void clear(std::size_t slots, float min_strength) {
    size_ = 0;
    // Nothing above this bit differs.
    bits_ = static_cast<std::size_t>(std::bit_width(key_of(0, min_strength)));
    slots_ = slots;
  }

  // Room for kMaxDegree more. What is written there belongs to it after `added`.
  [[nodiscard]] std::uint64_t* room() {
    if (keys_.size() < size_ + HebbianGraph::kMaxDegree) grow();
    return keys_.data() + size_;
  }
  void added(std::size_t n) noexcept { size_ += n; }

  // The strongest `limit` slots in order, each once. Ends the use until `clear`.
  [[nodiscard]] Activations best(std::size_t limit) {
    const std::size_t most = std::min(limit, size_);
    Activations found{std::vector<std::uint32_t>(most), std::vector<float>(most)};
    seen_.clear(slots_, size_ <= kFew);
    std::size_t n = 0;
    for (std::size_t first = 0; first < size_ && n < most;) {
      const std::span<std::uint64_t> next = strongest(first, most - n);
      for (const std::uint64_t key : seen_.take_new(next, most - n)) {
        found.slots[n] = slot_of(key);
        found.strengths[n] = strength_of(key);
        ++n;
      }
      first += next.size();
    }
    found.slots.resize(n);
    found.strengths.resize(n);
    seen_.forget(found.slots);
    return found;
  }

  [[nodiscard]] std::size_t capacity() const noexcept { return keys_.size(); }

 private:
  static constexpr std::size_t kFew = 160;
  static constexpr std::size_t kMany = std::size_t{1} << 18;

  // Many ends are mostly of slots that were reached before, so that their number stays within twice
  // that of the slots.
  void grow() {
    if (size_ >= kMany) {
      const Activations found = best(size_);
      size_ = found.size();
      for (std::size_t i = 0; i < size_; ++i) {
        keys_[i] = key_of(found.slots[i], found.strengths[i]);
      }
    }
    if (keys_.size() < 2 * size_ + HebbianGraph::kMaxDegree) {
      keys_.resize(2 * size_ + kMany / 64);
    }
  }

  // Puts the strongest keys from `first` on first, in order: all if there are no more than `wanted`
  // or few, else as many or some more.
  std::span<std::uint64_t> strongest(std::size_t first, std::size_t wanted) {
    std::span<std::uint64_t> keys(keys_.data() + first, size_ - first);
    if (keys.size() > std::max(wanted, kFew)) {
      ByDigit upper(std::max(bits_, 32 + kDigit) - kDigit);
      for (const std::uint64_t key : keys) upper.count(key);
      const std::size_t last = upper.digit_of(wanted);
      const auto middle = std::partition(
          keys.begin(), keys.end(), [&](std::uint64_t key) { return upper.digit(key) <= last; });
      keys = keys.first(static_cast<std::size_t>(middle - keys.begin()));
    }
    if (keys.size() <= kFew) {
      sort_few(keys);
    } else {
      sort_many(keys);
    }
    return keys;
  }

  // One digit puts few keys nearly in order.
  void sort_few(std::span<std::uint64_t> keys) {
    constexpr std::size_t kSmallDigit = 8;
    ByDigit<kSmallDigit> by_digit(std::max(bits_, 32 + kSmallDigit) - kSmallDigit);
    for (const std::uint64_t key : keys) by_digit.count(key);
    by_digit.sort(keys, other(keys.size()).data());
    std::copy_n(other_.begin(), keys.size(), keys.begin());
    if (!sort_by_insertion(keys, 8 * keys.size())) std::sort(keys.begin(), keys.end());
  }

  // Two digits put the keys in the order of the first bits that strengths may differ in, in which
  // few agree; what is left to do is done by insertion. Where many agree (equal strengths), all
  // digits are gone through.
  void sort_many(std::span<std::uint64_t> keys) {
    const std::span<std::uint64_t> other = this->other(keys.size());
    const std::size_t shift = std::max(bits_, 32 + 2 * kDigit) - 2 * kDigit;
    ByDigit lower(shift);
    ByDigit upper(shift + kDigit);
    for (const std::uint64_t key : keys) {
      lower.count(key);
      upper.count(key);
    }
    lower.sort(keys, other.data());
    upper.sort(other, keys.data());
    if (sort_by_insertion(keys, 8 * keys.size())) return;
    std::span<std::uint64_t> from = keys;
    std::span<std::uint64_t> to = other;
    const auto sort_bits = [&](std::size_t low, std::size_t high) {
      for (; low < high; low += kDigit) {
        ByDigit by_digit(low);
        for (const std::uint64_t key : from) by_digit.count(key);
        by_digit.sort(from, to.data());
        std::swap(from, to);
      }
    };
    sort_bits(0, static_cast<std::size_t>(std::bit_width(slots_)));
    sort_bits(32, bits_);
    if (from.data() != keys.data()) std::copy(from.begin(), from.end(), keys.begin());
  }

  std::span<std::uint64_t> other(std::size_t n) {
    if (other_.size() < n) other_.resize(keys_.size());
    return {other_.data(), n};
  }

  std::vector<std::uint64_t> keys_;  // and room for more
  std::vector<std::uint64_t> other_;
  std::size_t size_ = 0;
  std::size_t bits_ = 0;
  std::size_t slots_ = 0;
  Seen seen_;
};

// The greatest strength of each slot that one seed reaches in one level.
class Strengths {
 public:
  void clear() {
    slots_.clear();
    values_.clear();
  }
  void raise(std::uint32_t slot, float strength) {
    const VisitedSet::Place place = slots_.insert(slot);
    if (place.is_new) {
      values_.push_back(strength);
    } else {
      values_[place.index] = std::max(values_[place.index], strength);
    }
  }
  [[nodiscard]] std::span<const std::uint32_t> slots() const noexcept { return slots_.keys(); }
  [[nodiscard]] std::span<const float> values() const noexcept { return values_; }

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
  Ends ends;
  Strengths of_seed;
  std::vector<Step> steps;
  std::vector<Step> next;
  std::vector<HebbianRow> rows;
};

// Not inlined: in a shared library each use of a thread's own variable is a call, loops included.
[[gnu::noinline]] Scratch& own_scratch() {
  thread_local Scratch mine;
  return mine;
}
// What one large call has left is given back after it.
constexpr std::size_t kKeptEnds = std::size_t{1} << 18;

}  // namespace

std::size_t HebbianRow::extend_paths(const kernels::PathRule& rule,
                                     std::uint64_t* keys) const noexcept {
  constexpr std::uint32_t kShort = 8;  // then the call would cost more than it saves
  if (stride_ == 1 && size_ >= kShort) {
    return kernels::active().extend_paths(neighbours_, weights_, size_, rule, keys);
  }
  std::size_t n = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    const std::uint32_t slot = neighbour(i);
    const float reached = rule.strength * weight(i);
    keys[n] = key_of(slot, reached);
    n += static_cast<std::size_t>(reached >= rule.least) &
         static_cast<std::size_t>(slot != rule.seed);
  }
  return n;
}

Activations HebbianGraph::View::spread(std::span<const std::uint32_t> seeds, std::size_t depth,
                                       float min_strength, std::size_t limit) const {
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
  Ends& ends = scratch.ends;
  std::vector<Step>& steps = scratch.steps;
  ends.clear(slots_, min_strength);
  steps.clear();
  for (const std::uint32_t seed : seeds) steps.push_back({seed, seed, 1.0F});

  for (std::size_t level = 1; level <= depth && !steps.empty(); ++level) {
    constexpr std::size_t kAhead = 32;     // places that are loaded side by side
    constexpr std::size_t kRowsAhead = 8;  // few, so that no prefetch of their lines is dropped
    scratch.rows.resize(steps.size());
    for (std::size_t first = 0; first < steps.size(); first += kAhead) {
      const std::size_t last = std::min(first + kAhead, steps.size());
      for (std::size_t i = first; i < last; ++i) {
        if (steps[i].slot < base_->slots) load_line(base_->offsets.get() + steps[i].slot);
        if (changed_entries_ != 0) changed_.prefetch_place(steps[i].slot);
      }
      for (std::size_t i = first; changed_entries_ != 0 && i < last; ++i) {
        changed_.prefetch(steps[i].slot);
      }
      for (std::size_t i = first; i < last; ++i) scratch.rows[i] = row(steps[i].slot);
    }

    scratch.next.clear();
    const std::span<const HebbianRow> rows(scratch.rows);
    for (const HebbianRow& row : rows.first(std::min(kRowsAhead, rows.size()))) row.prefetch();
    for (std::size_t i = 0; i < steps.size();) {
      // The steps of one seed lie side by side. In the first level that is one, whose ends differ.
      const std::uint32_t seed = steps[i].seed;
      const bool merges = level > 1 && level < depth;
      if (merges) scratch.of_seed.clear();
      for (; i < steps.size() && steps[i].seed == seed; ++i) {
        if (i + kRowsAhead < rows.size()) rows[i + kRowsAhead].prefetch();
        std::uint64_t* const keys = ends.room();
        const std::size_t n = rows[i].extend_paths({steps[i].strength, min_strength, seed}, keys);
        if (merges) {
          for (std::size_t j = 0; j < n; ++j) {
            scratch.of_seed.raise(slot_of(keys[j]), strength_of(keys[j]));
          }
          continue;
        }
        for (std::size_t j = 0; level < depth && j < n; ++j) {
          const std::uint32_t slot = slot_of(keys[j]);
          if (slot < base_->slots) prefetch_line(base_->offsets.get() + slot);
          scratch.next.push_back({slot, seed, strength_of(keys[j])});
        }
        ends.added(n);
      }
      if (!merges) continue;
      const Strengths& merged = scratch.of_seed;
      for (std::size_t j = 0; j < merged.slots().size(); ++j) {
        const std::uint32_t slot = merged.slots()[j];
        const float strength = merged.values()[j];
        scratch.next.push_back({slot, seed, strength});
        *ends.room() = key_of(slot, strength);
        ends.added(1);
      }
    }
    steps.swap(scratch.next);
  }

  Activations found = ends.best(limit);
  if (ends.capacity() > kKeptEnds) scratch = {};
  return found;
}

}  // namespace spector
