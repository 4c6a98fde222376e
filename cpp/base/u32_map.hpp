// u32 keys to u32 values by open addressing; entries are never removed.
//
// Without a domain: reads may run together, `insert` needs the map to itself. With one: reads run
// without locks beside one thread that inserts, and each reader holds a Pin of the domain.
// Destroying and moving a map need it to themselves in both cases.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/epoch.hpp"

namespace spector {

class U32Map {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;  // no value; not allowed as one

  U32Map() = default;
  explicit U32Map(EpochDomain& domain) noexcept : domain_(&domain) {}
  U32Map(U32Map&& other) noexcept { swap(other); }
  // Exchanges the two, domains included.
  U32Map& operator=(U32Map&& other) noexcept {
    swap(other);
    return *this;
  }
  U32Map(const U32Map&) = delete;
  U32Map& operator=(const U32Map&) = delete;
  ~U32Map() { delete current(); }

  [[nodiscard]] std::uint32_t find(std::uint32_t key) const noexcept {
    const Table* table = table_.load(std::memory_order_acquire);  // with what `grow` copied
    return table == nullptr ? kNone : value_of(locate(*table, key).entry);
  }

  // The value of `key`, set to `value` if it had none. On an exception (memory) nothing has
  // changed.
  std::uint32_t insert(std::uint32_t key, std::uint32_t value) {
    Table* table = current();
    if (table == nullptr) table = grow();
    Place place = locate(*table, key);
    if (place.entry != 0) return value_of(place.entry);
    const std::size_t size = size_.load(std::memory_order_relaxed);
    if (size == table->n_buckets / 4 * 3) {
      table = grow();
      place = locate(*table, key);
    }
    // Release: whatever the value stands for was there before.
    table->buckets[place.bucket].store(std::uint64_t{key} << 32 | (std::uint64_t{value} + 1),
                                       std::memory_order_release);
    size_.store(size + 1, std::memory_order_release);
    return value;
  }

  // Makes room for `n` keys, before the first of them. On an exception nothing has changed.
  void reserve(std::size_t n) {
    if (current() == nullptr)
      table_.store(new Table(std::bit_ceil(std::max<std::size_t>(64, n + n / 2))),
                   std::memory_order_release);
  }

  template <class Visit>
  void for_each(const Visit& visit) const {
    const Table* table = table_.load(std::memory_order_acquire);
    for (std::size_t i = 0; table != nullptr && i < table->n_buckets; ++i) {
      const std::uint64_t entry = table->buckets[i].load(std::memory_order_acquire);
      if (entry != 0) visit(static_cast<std::uint32_t>(entry >> 32), value_of(entry));
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    const Table* table = table_.load(std::memory_order_acquire);
    return table == nullptr ? 0 : table->bytes();
  }

 private:
  // Of a fixed capacity; a full one is replaced.
  struct Table {
    explicit Table(std::size_t n)
        : n_buckets(n), buckets(std::make_unique<std::atomic<std::uint64_t>[]>(n)) {}
    [[nodiscard]] std::size_t bytes() const noexcept {
      return sizeof(Table) + n_buckets * sizeof(buckets[0]);
    }

    std::size_t n_buckets;  // a power of two
    // key << 32 | value + 1, or 0: a reader sees both or none.
    std::unique_ptr<std::atomic<std::uint64_t>[]> buckets;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  static_assert(std::atomic<std::size_t>::is_always_lock_free);
  static_assert(std::atomic<Table*>::is_always_lock_free);

  struct Place {
    std::size_t bucket;
    std::uint64_t entry;  // what was in the bucket
  };

  // kNone for an empty bucket.
  static std::uint32_t value_of(std::uint64_t entry) noexcept {
    return static_cast<std::uint32_t>(entry) - 1;
  }

  // For the writer: only it stores the pointer.
  [[nodiscard]] Table* current() const noexcept { return table_.load(std::memory_order_relaxed); }

  void swap(U32Map& other) noexcept {
    Table* const table = current();
    table_.store(other.current(), std::memory_order_relaxed);
    other.table_.store(table, std::memory_order_relaxed);
    const std::size_t size = size_.load(std::memory_order_relaxed);
    size_.store(other.size_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    other.size_.store(size, std::memory_order_relaxed);
    std::swap(domain_, other.domain_);
  }

  // The bucket that holds `key`, or the empty one where it belongs.
  static Place locate(const Table& table, std::uint32_t key) noexcept {
    const std::size_t mask = table.n_buckets - 1;
    std::size_t bucket = (key * std::uint64_t{0x9e3779b97f4a7c15} >> 32) & mask;
    while (true) {
      const std::uint64_t entry = table.buckets[bucket].load(std::memory_order_acquire);
      if (entry == 0 || entry >> 32 == key) return {bucket, entry};
      bucket = (bucket + 1) & mask;
    }
  }

  Table* grow() {
    Table* old = current();
    auto grown = std::make_unique<Table>(old == nullptr ? 64 : old->n_buckets * 2);
    if (old != nullptr && domain_ != nullptr) domain_->reserve(1);
    for_each([&](std::uint32_t key, std::uint32_t value) {
      grown->buckets[locate(*grown, key).bucket].store(
          std::uint64_t{key} << 32 | (std::uint64_t{value} + 1), std::memory_order_relaxed);
    });
    Table* const table = grown.release();
    table_.store(table, std::memory_order_release);
    std::unique_ptr<Table> replaced(old);
    if (replaced != nullptr && domain_ != nullptr) {
      const std::size_t bytes = replaced->bytes();
      domain_->retire(std::move(replaced), bytes);
    }
    return table;
  }

  EpochDomain* domain_ = nullptr;
  std::atomic<Table*> table_{nullptr};
  std::atomic<std::size_t> size_{0};
};

}  // namespace spector
