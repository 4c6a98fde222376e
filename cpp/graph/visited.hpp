// The set of numbers that one traversal has met, in the order in which it met them. It costs what
// the traversal touches, never what the graph holds, and is used again by the next one: a
// thread_local or the caller's own. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace spector {

class VisitedSet {
 public:
  struct Place {
    std::uint32_t index;  // in keys(): arrays beside the set hold what belongs to the key
    bool is_new;
  };

  // Empties the set, in constant time. `expected`: how many keys will come; a wrong guess costs
  // time only.
  void clear(std::size_t expected = 0) {
    first_ += static_cast<std::uint32_t>(keys_.size());
    keys_.clear();
    // The table is used as far as this traversal needs it: a small one stays in the cache however
    // large the one before was, but that must not be kept for ever.
    if (cells_.size() > kKept) cells_ = {};
    use(2 * expected);
  }

  // Room for that many keys in all; a guess as well.
  void reserve(std::size_t expected) {
    if (2 * expected > mask_ + 1) renew(2 * expected);
  }

  Place insert(std::uint32_t key) {
    if (2 * (keys_.size() + 1) > mask_ + 1) renew(4 * (mask_ + 1));
    for (std::size_t at = home(key);; at = (at + 1) & mask_) {
      Cell& cell = cells_[at];
      const std::uint32_t index = cell.place - first_;
      if (index >= keys_.size()) {  // of an earlier traversal, or never used
        cell = {key, first_ + static_cast<std::uint32_t>(keys_.size())};
        keys_.push_back(key);
        return {static_cast<std::uint32_t>(keys_.size() - 1), true};
      }
      if (cell.key == key) return {index, false};
    }
  }

  // The index of a key that is there, else kAbsent.
  [[nodiscard]] std::uint32_t find(std::uint32_t key) const noexcept {
    if (keys_.empty()) return kAbsent;
    for (std::size_t at = home(key);; at = (at + 1) & mask_) {
      const Cell& cell = cells_[at];
      const std::uint32_t index = cell.place - first_;
      if (index >= keys_.size()) return kAbsent;
      if (cell.key == key) return index;
    }
  }
  [[nodiscard]] bool contains(std::uint32_t key) const noexcept { return find(key) != kAbsent; }

  [[nodiscard]] std::size_t size() const noexcept { return keys_.size(); }
  [[nodiscard]] std::span<const std::uint32_t> keys() const noexcept { return keys_; }

  static constexpr std::uint32_t kAbsent = std::numeric_limits<std::uint32_t>::max();

 private:
  // A cell belongs to this traversal if its place is one of the places given since the last
  // `clear`, which are first_ and those after it.
  struct Cell {
    std::uint32_t key;
    std::uint32_t place;
  };
  static constexpr std::size_t kLeast = 256;
  static constexpr std::size_t kKept = std::size_t{1} << 18;  // cells: 2 MiB

  [[nodiscard]] static std::size_t mixed(std::uint32_t key) noexcept {
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15U) >> 32);
  }
  [[nodiscard]] std::size_t home(std::uint32_t key) const noexcept { return mixed(key) & mask_; }

  // Uses the least power of two of cells that is no less than `wanted`, all of them free.
  void use(std::size_t wanted) {
    std::size_t n = kLeast;
    while (n < wanted) n *= 2;
    // Places are never used twice with one table; kNever is none of them.
    if (first_ > kNever / 2) {
      first_ = 0;
      cells_.assign(cells_.size(), Cell{0, kNever});
    }
    if (n > cells_.size()) cells_.assign(n, Cell{0, kNever});
    mask_ = n - 1;
  }

  void renew(std::size_t cells) {
    first_ += static_cast<std::uint32_t>(keys_.size());
    use(cells);
    for (std::uint32_t i = 0; i < keys_.size(); ++i) {
      std::size_t at = home(keys_[i]);
      while (cells_[at].place - first_ < i) at = (at + 1) & mask_;
      cells_[at] = {keys_[i], first_ + i};
    }
  }

  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  std::vector<Cell> cells_;
  std::vector<std::uint32_t> keys_;
  std::uint32_t first_ = 0;
  std::size_t mask_ = 0;
};

}  // namespace spector
