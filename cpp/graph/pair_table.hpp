// Pairs of numbered things with a value each, by open addressing, in a copy-on-write array: at most
// `capacity` of them, in a table of a fixed size. Beside the table, each thing has the list of its
// partners, so that all pairs of one thing are found without a look at the table.
//
// Pairs are removed by moving later ones of the same chain back, never by leaving a hole that a
// look-up would stop at.
//
// Part of a store with a CowHeap (base/cow.hpp), whose rules hold.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/cow.hpp"

namespace spector {

// As it is stored in files, too.
template <class Value>
struct Pair {
  std::uint32_t first;
  std::uint32_t second;
  std::uint64_t last_use;  // 0: a free bucket
  Value value;
  std::uint32_t reserved;
};

// `kSymmetric`: pairs have no order; `first` is the lower number, and both list each other.
// Otherwise only `first` lists `second`.
template <class Value, bool kSymmetric>
class PairTable {
 public:
  using Entry = Pair<Value>;
  static_assert(sizeof(Entry) == 24 && offsetof(Entry, second) == 4 &&
                offsetof(Entry, last_use) == 8 && offsetof(Entry, value) == 16 &&
                offsetof(Entry, reserved) == 20);

  class View {
   public:
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    // The pair, or null.
    [[nodiscard]] const Entry* find(std::uint32_t first, std::uint32_t second) const noexcept {
      if (kSymmetric && first > second) std::swap(first, second);
      const Entry& entry = entries_[locate(entries_, first, second)];
      return entry.last_use == 0 ? nullptr : &entry;
    }
    // Asks for the memory where the pair is, or would be.
    void prefetch(std::uint32_t first, std::uint32_t second) const noexcept {
      order(first, second);
      entries_.prefetch(home(first, second) & (entries_.size() - 1));
    }
    [[nodiscard]] std::span<const std::uint32_t> partners(std::uint32_t thing) const noexcept {
      if (thing >= partners_.size()) return {};
      return partners_[thing];
    }
    // In the order of the table.
    [[nodiscard]] std::vector<Entry> entries() const {
      std::vector<Entry> found;
      found.reserve(size_);
      for (std::size_t i = 0; i < entries_.size();) {
        const std::span<const Entry> run = entries_.run(i);
        for (const Entry& entry : run) {
          if (entry.last_use != 0) found.push_back(entry);
        }
        i += run.size();
      }
      return found;
    }

   private:
    friend class PairTable;
    typename CowArray<Entry>::View entries_;
    CowLists<std::uint32_t>::View partners_;
    std::size_t size_ = 0;
  };

  PairTable(CowHeap& heap, std::size_t capacity)
      : capacity_(capacity), entries_(heap), partners_(heap) {
    entries_.resize(std::bit_ceil(capacity + capacity / 3 + 1));  // a quarter is free, or more
  }

  [[nodiscard]] View view() const noexcept {
    View view;
    view.entries_ = entries_.view();
    view.partners_ = partners_.view();
    view.size_ = size_;
    return view;
  }
  [[nodiscard]] bool full() const noexcept { return size_ == capacity_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  // Things are below it.
  void resize(std::size_t n_things) { partners_.resize(n_things); }

  // The pair, to be written, or null.
  [[nodiscard]] Entry* edit(std::uint32_t first, std::uint32_t second) {
    order(first, second);
    const std::size_t at = locate(entries_, first, second);
    return entries_[at].last_use == 0 ? nullptr : &entries_.edit(at);
  }

  // A pair that is not there, in a table that is not full.
  void insert(std::uint32_t first, std::uint32_t second, Value value, std::uint64_t last_use) {
    order(first, second);
    entries_.edit(locate(entries_, first, second)) = {first, second, last_use, value, 0};
    partners_.push_back(first, second);
    if (kSymmetric) partners_.push_back(second, first);
    ++size_;
  }

  // A pair that is there.
  void erase(std::uint32_t first, std::uint32_t second) {
    order(first, second);
    const std::size_t mask = entries_.size() - 1;
    std::size_t hole = locate(entries_, first, second);
    for (std::size_t at = (hole + 1) & mask; entries_[at].last_use != 0; at = (at + 1) & mask) {
      // It may move into the hole unless that lies before its chain begins.
      const std::size_t begin = home(entries_[at].first, entries_[at].second) & mask;
      if (((at - begin) & mask) < ((at - hole) & mask)) continue;
      entries_.edit(hole) = entries_[at];
      hole = at;
    }
    entries_.edit(hole) = {};
    unlist(first, second);
    if (kSymmetric) unlist(second, first);
    --size_;
  }

  void published() noexcept {
    entries_.published();
    partners_.published();
    published_size_ = size_;
  }
  void rollback() noexcept {
    entries_.rollback();
    partners_.rollback();
    size_ = published_size_;
  }

 private:
  static void order(std::uint32_t& first, std::uint32_t& second) noexcept {
    if (kSymmetric && first > second) std::swap(first, second);
  }
  static std::size_t home(std::uint32_t first, std::uint32_t second) noexcept {
    const std::uint64_t key = std::uint64_t{first} << 32 | second;
    return static_cast<std::size_t>((key ^ key >> 29) * 0x9e3779b97f4a7c15ULL >> 32);
  }
  // The bucket of the pair, or the free one where it belongs.
  template <class Entries>
  static std::size_t locate(const Entries& entries, std::uint32_t first,
                            std::uint32_t second) noexcept {
    const std::size_t mask = entries.size() - 1;
    std::size_t at = home(first, second) & mask;
    while (true) {
      const Entry& entry = entries[at];
      if (entry.last_use == 0 || (entry.first == first && entry.second == second)) return at;
      at = (at + 1) & mask;
    }
  }
  // Partners have no order of their own.
  void unlist(std::uint32_t thing, std::uint32_t partner) {
    const std::span<std::uint32_t> list = partners_.edit(thing);
    for (std::uint32_t& listed : list) {
      if (listed == partner) {
        listed = list.back();
        break;
      }
    }
    partners_.truncate(thing, list.size() - 1);
  }

  std::size_t capacity_;
  CowArray<Entry> entries_;
  CowLists<std::uint32_t> partners_;
  std::size_t size_ = 0;
  std::size_t published_size_ = 0;
};

}  // namespace spector
