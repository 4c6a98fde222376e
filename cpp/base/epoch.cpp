#include "base/epoch.hpp"

#include <cassert>
#include <new>

namespace spector {

namespace {

// A collection looks at every record; over this many retirements that costs nearly nothing.
constexpr std::size_t kCountPerCollection = 16;
constexpr std::size_t kBytesPerCollection = 64 << 10;

// Where a thread begins to look for a free record: its own place for the first 64 threads, with
// room beside it for pins within pins.
std::size_t home_record() noexcept {
  static std::atomic<std::size_t> n_threads{0};
  thread_local std::size_t ordinal = 0;  // from 1
  if (ordinal == 0) ordinal = n_threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return ordinal * 5;  // odd, so that no two of 64 in a row agree
}

}  // namespace

EpochDomain::~EpochDomain() {
  assert(oldest_pinned(UINT64_MAX) == UINT64_MAX && "a reader outlives the domain");
  collecting_ = true;
  for (; n_freed_ < retired_.size(); ++n_freed_) {
    Retired retired = retired_[n_freed_];
    retired.destroy(retired);
  }
  for (Block* block = further_.load(std::memory_order_acquire); block != nullptr;) {
    const std::unique_ptr<Block> freed(block);
    block = block->next;
  }
}

EpochDomain::Pin EpochDomain::pin() const {
  // May be outdated when it is written to the record: an older epoch only keeps more alive.
  const std::uint64_t epoch = epoch_.load(std::memory_order_relaxed);
  const std::size_t home = home_record();
  const auto claim = [&](Block& block) -> Record* {
    for (std::size_t i = 0; i < kRecords; ++i) {
      Record& record = block.records[(home + i) % kRecords];
      std::uint64_t free = 0;
      if (record.epoch.load(std::memory_order_relaxed) == 0 &&
          record.epoch.compare_exchange_strong(free, epoch, std::memory_order_seq_cst,
                                               std::memory_order_relaxed)) {
        return &record;  // R1
      }
    }
    return nullptr;
  };

  Record* record = claim(first_);
  // Acquire (in seq_cst): the records of a block that another thread pushed are constructed.
  for (Block* block = further_.load(std::memory_order_seq_cst);
       record == nullptr && block != nullptr; block = block->next) {
    record = claim(*block);
  }
  if (record == nullptr) {
    auto* const grown = new Block;
    record = &grown->records[home % kRecords];
    record->epoch.store(epoch, std::memory_order_relaxed);
    grown->next = further_.load(std::memory_order_relaxed);
    // Here the push is R1: a collection that misses it misses the record. Its release publishes
    // the block; a failure means that another thread has pushed one.
    while (!further_.compare_exchange_weak(grown->next, grown, std::memory_order_seq_cst,
                                           std::memory_order_relaxed)) {
    }
  }
  // R2: not for its value but for what it makes visible, see the header.
  static_cast<void>(epoch_.load(std::memory_order_seq_cst));
  return Pin(record);
}

void EpochDomain::reserve(std::size_t n) {
  if (retired_.size() + n <= retired_.capacity()) return;
  if (n_freed_ > 0) {
    retired_.erase(retired_.begin(), retired_.begin() + static_cast<std::ptrdiff_t>(n_freed_));
    n_freed_ = 0;
  }
  // Half of it free: the erasing above costs no more than the retirements between two of them.
  if (retired_.size() * 2 + n > retired_.capacity()) retired_.reserve(retired_.size() * 2 + n + 14);
}

void EpochDomain::remember(Retired retired) noexcept {
  retired.epoch = epoch_.load(std::memory_order_relaxed);  // only the writer stores it
  try {
    reserve(1);
  } catch (const std::bad_alloc&) {
    return;  // kept for ever rather than freed under a reader
  }
  retired_.push_back(retired);
  retired_bytes_ += retired.bytes;
  uncollected_bytes_ += retired.bytes;
  ++uncollected_count_;
  if (uncollected_count_ >= kCountPerCollection || uncollected_bytes_ >= kBytesPerCollection) {
    collect();
  }
}

std::uint64_t EpochDomain::oldest_pinned(std::uint64_t limit) const noexcept {
  std::uint64_t oldest = limit;
  const auto look = [&](const Block& block) {
    for (const Record& record : block.records) {
      const std::uint64_t epoch = record.epoch.load(std::memory_order_seq_cst);
      if (epoch != 0 && epoch < oldest) oldest = epoch;
    }
  };
  look(first_);
  for (const Block* block = further_.load(std::memory_order_seq_cst); block != nullptr;
       block = block->next) {
    look(*block);
  }
  return oldest;
}

void EpochDomain::collect() noexcept {
  if (collecting_ || retired_count() == 0) return;  // a destructor may retire, and so come here
  collecting_ = true;
  uncollected_count_ = 0;
  uncollected_bytes_ = 0;
  const std::uint64_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  epoch_.store(epoch, std::memory_order_seq_cst);     // W2
  const std::uint64_t oldest = oldest_pinned(epoch);  // W3
  while (n_freed_ < retired_.size() && retired_[n_freed_].epoch < oldest) {
    Retired retired = retired_[n_freed_++];  // a copy: destroying may move the list
    retired_bytes_ -= retired.bytes;
    retired.destroy(retired);
  }
  if (n_freed_ == retired_.size()) {
    retired_.clear();
    n_freed_ = 0;
  }
  collecting_ = false;
}

}  // namespace spector
