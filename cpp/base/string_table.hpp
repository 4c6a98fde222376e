// Distinct byte strings numbered from 0 in order of arrival: terms, words, document ids.
//
// Strings lie in chunks and never move: a string_view from here is valid as long as the table.
// Before each stands its number, and the hash table holds where that is, so that a look-up needs
// two places of memory; nothing is allocated per string. Numbers never change; entries are dropped
// by building a new table. A table may begin with the strings of a stored file, which have the
// first numbers and stay where they are.
//
// Without a domain: reads may run together, `intern` needs the table to itself. With one: reads run
// without locks beside one thread that interns, and each reader holds a Pin of the domain from
// before its first call until it has the views it wants. A number is good for `operator[]` if it
// came from `find` or from anything that the writer published after interning. Destroying and
// moving a table need it to themselves in both cases.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/epoch.hpp"
#include "base/frozen_strings.hpp"

namespace spector {

class StringTable {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  StringTable() = default;
  explicit StringTable(EpochDomain& domain) noexcept : domain_(&domain) {}
  StringTable(EpochDomain& domain, FrozenStrings first) noexcept
      : domain_(&domain), first_(std::move(first)), size_(first_.size()) {}
  StringTable(StringTable&& other) noexcept { swap(other); }
  // Exchanges the two, domains included.
  StringTable& operator=(StringTable&& other) noexcept {
    swap(other);
    return *this;
  }
  StringTable(const StringTable&) = delete;
  StringTable& operator=(const StringTable&) = delete;
  ~StringTable();

  // The number of `key`, a new one if it was not there. On an exception (memory, or Capacity past
  // 2^32-2 strings) nothing has changed.
  std::uint32_t intern(std::string_view key) { return intern(key, hash(key)); }
  std::uint32_t intern(std::string_view key, std::uint32_t hash);

  // The number of `key`, or kNone.
  [[nodiscard]] std::uint32_t find(std::string_view key) const noexcept;

  // numbers[i] becomes what `find` says of keys[i]. Takes a fraction of the time where this table
  // is not in a cache: what is needed for many keys is asked for at once.
  void find_all(const StringTable& keys, std::span<std::uint32_t> numbers) const noexcept;

  // The same in all tables of a process.
  [[nodiscard]] static std::uint32_t hash(std::string_view key) noexcept;
  // Asks for what `intern` looks at first, some calls ahead of it, and half as many ahead for what
  // it looks at next.
  void prefetch(std::uint32_t hash) const noexcept;
  void prefetch_string(std::uint32_t hash) const noexcept;

  [[nodiscard]] std::string_view operator[](std::uint32_t number) const noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

 private:
  // Of a fixed capacity; a full one is replaced.
  struct Table {
    explicit Table(std::size_t n_buckets);
    [[nodiscard]] std::size_t bytes() const noexcept;

    std::size_t n_buckets;  // a power of two
    // Where a string is, or 0; in the highest byte that of its hash, so that other strings are
    // seldom looked at.
    std::unique_ptr<std::atomic<std::uint64_t>[]> buckets;
    std::unique_ptr<const char*[]> strings;  // by number, see `write`

    void prefetch(std::uint32_t hash) const noexcept;
    void prefetch_string(std::uint32_t hash) const noexcept;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
  static_assert(std::atomic<Table*>::is_always_lock_free);

  void swap(StringTable& other) noexcept;
  struct Place {
    std::size_t bucket;
    const char* string;  // null: none was there
  };
  // The bucket that holds `key`, or the empty one where it belongs.
  static Place locate(const Table& table, std::string_view key, std::uint32_t hash) noexcept;
  static std::size_t empty_bucket(const Table& table, std::uint32_t hash) noexcept;
  [[nodiscard]] Table* grow();
  // Stores a string for good and returns where: its number, its length and its bytes.
  [[nodiscard]] const char* write(std::string_view key, std::uint32_t number);

  EpochDomain* domain_ = nullptr;
  FrozenStrings first_;  // the table below counts from 0 after it
  std::atomic<Table*> table_{nullptr};
  std::atomic<std::uint32_t> size_{0};
  // The writer's, apart from chunk_bytes_.
  std::vector<std::unique_ptr<char[]>> chunks_;
  std::atomic<std::size_t> chunk_bytes_{0};
  char* free_ = nullptr;  // the rest of the chunk that short strings go to
  std::size_t n_free_ = 0;
};

}  // namespace spector
