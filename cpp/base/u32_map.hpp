// u32 keys to u32 values by open addressing; entries are never removed. A map may begin with keys
// of a stored file, whose values are their places there.
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
#include <span>
#include <utility>
#include <vector>

#include "base/epoch.hpp"

namespace spector {

// Keys that never change, with a hash table that needs no building. Any thread may read.
struct FrozenKeys {
  static constexpr std::uint32_t kNone = 0xffffffffU;

  std::span<const std::uint32_t> keys;
  // A key's place + 1 is in the first bucket that was free from hash(key) on; others hold 0. A
  // power of two, and some are free.
  std::span<const std::uint32_t> buckets;
  std::vector<std::shared_ptr<const void>> owners;

  static std::size_t hash(std::uint32_t key) noexcept {
    return key * std::uint64_t{0x9e3779b97f4a7c15} >> 32;
  }
  [[nodiscard]] std::uint32_t find(std::uint32_t key) const noexcept {
    for (std::size_t bucket = hash(key); !buckets.empty(); ++bucket) {
      const std::uint32_t entry = buckets[bucket & (buckets.size() - 1)];
      if (entry == 0) break;
      if (keys[entry - 1] == key) return entry - 1;
    }
    return kNone;
  }
  // Buckets for distinct keys, less than half of them used.
  [[nodiscard]] static std::vector<std::uint32_t> make_buckets(
      std::span<const std::uint32_t> keys) {
    std::vector<std::uint32_t> buckets(keys.empty() ? 0 : std::bit_ceil(keys.size() * 2));
    for (std::uint32_t i = 0; i < keys.size(); ++i) {
      std::size_t bucket = hash(keys[i]) & (buckets.size() - 1);
      while (buckets[bucket] != 0) bucket = (bucket + 1) & (buckets.size() - 1);
      buckets[bucket] = i + 1;
    }
    return buckets;
  }
};

class U32Map {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;  // no value; not allowed as one

  U32Map() = default;
  explicit U32Map(EpochDomain& domain) noexcept : domain_(&domain) {}
  U32Map(EpochDomain& domain, FrozenKeys first) noexcept
      : domain_(&domain), first_(std::move(first)), size_(first_.keys.size()) {}
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
    const std::uint32_t stored = first_.find(key);
    if (stored != kNone) return stored;
    const Table* table = table_.load(std::memory_order_acquire);  // with what `grow` copied
    return table == nullptr ? kNone : value_of(locate(*table, key).entry);
  }

  // Asks for what `find` and `insert` of an added key look at first.
  void prefetch(std::uint32_t key) const noexcept {
    const Table* table = table_.load(std::memory_order_acquire);
    if (table == nullptr) return;
    __builtin_prefetch(&table->buckets[FrozenKeys::hash(key) & (table->n_buckets - 1)]);
  }

  // The value of `key`, set to `value` if it had none. On an exception (memory) nothing has
  // changed.
  std::uint32_t insert(std::uint32_t key, std::uint32_t value) {
    const std::uint32_t stored = first_.find(key);
    if (stored != kNone) return stored;
    Table* table = current();
    if (table == nullptr) table = grow();
    Place place = locate(*table, key);
    if (place.entry != 0) return value_of(place.entry);
    const std::size_t size = size_.load(std::memory_order_relaxed);
    if (size - first_.keys.size() == table->n_buckets / 4 * 3) {
      table = grow();
      place = locate(*table, key);
    }
    // Release: whatever the value stands for was there before.
    table->buckets[place.bucket].store(std::uint64_t{key} << 32 | (std::uint64_t{value} + 1),
                                       std::memory_order_release);
    size_.store(size + 1, std::memory_order_release);
    return value;
  }

  template <class Visit>
  void for_each(const Visit& visit) const {
    for (std::uint32_t i = 0; i < first_.keys.size(); ++i) visit(first_.keys[i], i);
    for_each_added(visit);
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    const Table* table = table_.load(std::memory_order_acquire);
    return first_.keys.size_bytes() + first_.buckets.size_bytes() +
           (table == nullptr ? 0 : table->bytes());
  }

 private:
  template <class Visit>
  void for_each_added(const Visit& visit) const {
    const Table* table = table_.load(std::memory_order_acquire);
    for (std::size_t i = 0; table != nullptr && i < table->n_buckets; ++i) {
      const std::uint64_t entry = table->buckets[i].load(std::memory_order_acquire);
      if (entry != 0) visit(static_cast<std::uint32_t>(entry >> 32), value_of(entry));
    }
  }

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
    std::swap(first_, other.first_);
  }

  // The bucket that holds `key`, or the empty one where it belongs.
  static Place locate(const Table& table, std::uint32_t key) noexcept {
    const std::size_t mask = table.n_buckets - 1;
    std::size_t bucket = FrozenKeys::hash(key) & mask;
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
    for_each_added([&](std::uint32_t key, std::uint32_t value) {
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
  FrozenKeys first_;
  std::atomic<Table*> table_{nullptr};
  std::atomic<std::size_t> size_{0};
};

}  // namespace spector
