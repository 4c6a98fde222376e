// Epoch-based reclamation: readers look at published data without locks while one writer replaces
// it, and what was replaced is freed when no reader can see it any more.
//
// A reader holds a Pin while it uses anything that it reached through a published pointer. Any
// number of threads may pin, any number of times, also within one another; a Pin may end in another
// thread than it began in. `retire`, `collect`, `reserve` and the counts belong to the writer: one
// thread at a time, which the owner's mutex guarantees. The domain outlives its pins and the
// structures that retire into it.
//
// How: the domain has a counter, the epoch. A Pin writes the epoch it read into a record of its
// own; a retired object is tagged with the epoch of its retirement. `collect` raises the epoch,
// looks at all records, and frees what was tagged before the oldest pinned epoch.
//
// Why that is safe: the writer (W1) unlinks an object, (W2) raises the epoch, (W3) looks at the
// records; a reader (R1) writes its record, (R2) reads the epoch, (R3) follows pointers. W2, W3, R1
// and R2 are seq_cst, so if W3 misses R1, then W2 comes before R2 in their one order, R2 reads what
// W2 wrote or later, and as W2 releases and R2 acquires, R3 sees the unlinking W1: the reader
// cannot reach the object. If W3 sees R1, the object stays unless the reader's epoch is newer than
// the tag, and then R2 has read that newer epoch and R3 sees W1 likewise. A record is cleared with
// release and W3 acquires, so everything a reader did comes before the freeing.
// (A seq_cst fence between R1 and R3 would do as well; ThreadSanitizer does not know fences.)
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace spector {

class EpochDomain {
  // The epoch that a reader has pinned; 0: the record is free. A cache line each, so that readers
  // on different cores do not disturb one another.
  struct alignas(64) Record {
    std::atomic<std::uint64_t> epoch{0};
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

 public:
  class Pin {
   public:
    Pin(Pin&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
    Pin& operator=(Pin&& other) noexcept {
      if (this != &other) {
        release();
        record_ = std::exchange(other.record_, nullptr);
      }
      return *this;
    }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
    ~Pin() { release(); }

   private:
    friend class EpochDomain;
    explicit Pin(Record* record) noexcept : record_(record) {}
    void release() noexcept {
      if (record_ != nullptr) record_->epoch.store(0, std::memory_order_release);
    }

    Record* record_;  // null after a move
  };

  EpochDomain() = default;
  EpochDomain(const EpochDomain&) = delete;
  EpochDomain& operator=(const EpochDomain&) = delete;
  EpochDomain(EpochDomain&&) = delete;
  EpochDomain& operator=(EpochDomain&&) = delete;
  ~EpochDomain();

  // Lock-free: never waits for the writer or for a reader. Throws std::bad_alloc only if kRecords
  // pins or more are held and there is no memory for further records.
  [[nodiscard]] Pin pin() const;

  // Takes an object that no pointer leads to any more and frees it by its deleter when no reader
  // can see it; now and then collects. `bytes` is what the object holds in all: much of it makes
  // the next collection come sooner. If there is no memory to remember the object it is never
  // freed; after `reserve` that cannot happen.
  template <class T, class Deleter>
  void retire(std::unique_ptr<T, Deleter> object, std::size_t bytes) noexcept {
    static_assert(
        std::is_trivially_copyable_v<Deleter> && sizeof(Deleter) <= sizeof(Retired::deleter),
        "the deleter is kept in a fixed place");
    if (object == nullptr) return;
    using Value = std::remove_const_t<std::remove_extent_t<T>>;
    using DeleterBytes = std::array<std::byte, sizeof(Deleter)>;
    Retired retired{};
    retired.bytes = bytes;
    const auto kept = std::bit_cast<DeleterBytes>(object.get_deleter());
    std::copy(kept.begin(), kept.end(), retired.deleter.begin());
    retired.object = const_cast<Value*>(object.release());
    retired.destroy = [](Retired& self) {
      DeleterBytes deleter;
      std::copy_n(self.deleter.begin(), deleter.size(), deleter.begin());
      std::bit_cast<Deleter>(deleter)(static_cast<Value*>(self.object));
    };
    remember(retired);
  }
  template <class T, class Deleter>
  void retire(std::unique_ptr<T, Deleter> object) noexcept {
    retire(std::move(object), sizeof(T));
  }

  // Makes the next `n` calls of `retire` safe from lack of memory; called before anything is
  // published, so that a change that cannot be completed is not begun.
  void reserve(std::size_t n);

  // Frees all that no reader can see. Costs a look at each record, plus what is freed.
  void collect() noexcept;

  [[nodiscard]] std::size_t retired_count() const noexcept { return retired_.size() - n_freed_; }
  [[nodiscard]] std::size_t retired_bytes() const noexcept { return retired_bytes_; }

  static constexpr std::size_t kRecords = 64;

 private:
  struct Block {
    std::array<Record, kRecords> records;
    Block* next = nullptr;  // never changes once the block can be seen
  };
  struct Retired {
    std::uint64_t epoch;
    std::size_t bytes;
    void* object;
    void (*destroy)(Retired&);
    std::array<std::byte, sizeof(void*)> deleter;
  };

  void remember(Retired retired) noexcept;
  [[nodiscard]] std::uint64_t oldest_pinned(std::uint64_t limit) const noexcept;

  // Written by collections only, read by every pin: apart from what others write.
  alignas(64) std::atomic<std::uint64_t> epoch_{1};
  mutable Block first_;
  mutable std::atomic<Block*> further_{nullptr};  // a list; blocks are added, never removed

  // The writer's.
  alignas(64) std::vector<Retired> retired_;  // epochs ascend; the first n_freed_ are gone
  std::size_t n_freed_ = 0;
  std::size_t retired_bytes_ = 0;
  std::size_t uncollected_count_ = 0;  // since the last collection
  std::size_t uncollected_bytes_ = 0;
  bool collecting_ = false;
};

// A pointer to an immutable T that readers follow under a Pin while the writer replaces it.
template <class T>
class Published {
  static_assert(std::atomic<const T*>::is_always_lock_free);

 public:
  // `first` is not null.
  explicit Published(std::unique_ptr<const T> first) noexcept : current_(first.release()) {}
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;
  Published(Published&&) = delete;
  Published& operator=(Published&&) = delete;
  // No reader is left.
  ~Published() { std::default_delete<const T>()(current_.load(std::memory_order_relaxed)); }

  // Valid as long as the Pin. Acquire: what the writer did before `publish` is seen.
  [[nodiscard]] const T& get(const EpochDomain::Pin& /*pin*/) const noexcept {
    return *current_.load(std::memory_order_acquire);
  }

  // For the writer. It is the only one that stores, so it sees its own last value.
  [[nodiscard]] const T& current() const noexcept {
    return *current_.load(std::memory_order_relaxed);
  }

  // `next` is not null. On an exception (memory) nothing has changed. Release: see `get`.
  void publish(std::unique_ptr<const T> next, EpochDomain& domain, std::size_t bytes = sizeof(T)) {
    domain.reserve(1);
    std::unique_ptr<const T> old(current_.load(std::memory_order_relaxed));
    current_.store(next.release(), std::memory_order_release);
    domain.retire(std::move(old), bytes);
  }

 private:
  std::atomic<const T*> current_;
};

}  // namespace spector
