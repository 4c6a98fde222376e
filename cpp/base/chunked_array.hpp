// An array that one writer grows while readers index it without locks; elements never move.
//
// Elements are in chunks of 64 Ki. A directory of chunks that is full is replaced by one of twice
// the size; the old ones are kept as long as the array, since together they are smaller than the
// newest, so readers need no Pin for it: the array itself must outlive them. An element is seen by
// whoever has seen a size() beyond it, or anything else that the writer did after adding it.
// Elements may be atomics; others must not be written once added while there are readers.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace spector {

template <class T>
class ChunkedArray {
  static_assert(std::is_trivially_destructible_v<T>);
  static_assert(alignof(T) <= alignof(std::max_align_t));
  static_assert(std::atomic<T*>::is_always_lock_free);
  static_assert(std::atomic<std::size_t>::is_always_lock_free);

 public:
  static constexpr std::size_t kChunk = std::size_t{1} << 16;

  ChunkedArray() = default;
  // Moving needs both arrays to itself.
  ChunkedArray(ChunkedArray&& other) noexcept
      : size_(other.size_.exchange(0, std::memory_order_relaxed)),
        directory_(other.directory_.exchange(nullptr, std::memory_order_relaxed)),
        directories_(std::exchange(other.directories_, {})),
        chunks_(std::exchange(other.chunks_, {})) {}
  ChunkedArray& operator=(ChunkedArray&& other) noexcept {
    ChunkedArray moved(std::move(other));
    size_.store(moved.size_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    directory_.store(moved.directory_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    directories_.swap(moved.directories_);
    chunks_.swap(moved.chunks_);
    return *this;
  }
  ChunkedArray(const ChunkedArray&) = delete;
  ChunkedArray& operator=(const ChunkedArray&) = delete;
  ~ChunkedArray() = default;

  // Acquire: elements below it are seen.
  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }

  // i < size(). Acquire on both pointers: the directory's entries and the chunk are seen, though
  // whoever knows that the element is there has seen them already.
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return *at(i); }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return *at(i); }

  // The elements from i < size() on that lie side by side: to the end of the chunk or of the array.
  [[nodiscard]] std::span<const T> run(std::size_t i) const noexcept {
    return {at(i), std::min(kChunk - i % kChunk, size() - i)};
  }

  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    const std::size_t n_chunks = (size() + kChunk - 1) / kChunk;
    if (n_chunks == 0) return 0;
    // The directories in use and before: 8, 16, ...
    const std::size_t newest = std::max(kFirstDirectory, std::bit_ceil(n_chunks));
    return n_chunks * kChunk * sizeof(T) + (2 * newest - kFirstDirectory) * sizeof(T*);
  }

  // The rest is the writer's. On an exception (memory) nothing has changed.

  template <class... Args>
  void emplace_back(Args&&... args) {
    const std::size_t size = size_.load(std::memory_order_relaxed);
    if (size == chunks_.size() * kChunk) add_chunk();
    new (chunks_[size / kChunk].get() + size % kChunk * sizeof(T)) T(std::forward<Args>(args)...);
    // Release: the element, and the chunk it may have begun.
    size_.store(size + 1, std::memory_order_release);
  }

  // Adds elements T(args...) until there are `size`; they become visible at once.
  template <class... Args>
  void grow_to(std::size_t size, const Args&... args) {
    const std::size_t old = size_.load(std::memory_order_relaxed);
    if (size <= old) return;
    while (chunks_.size() * kChunk < size) add_chunk();
    for (std::size_t i = old; i < size; ++i) {
      new (chunks_[i / kChunk].get() + i % kChunk * sizeof(T)) T(args...);
    }
    size_.store(size, std::memory_order_release);
  }

 private:
  using Entries = std::unique_ptr<std::atomic<T*>[]>;
  static constexpr std::size_t kFirstDirectory = 8;

  [[nodiscard]] T* at(std::size_t i) const noexcept {
    const std::atomic<T*>* directory = directory_.load(std::memory_order_acquire);
    return directory[i / kChunk].load(std::memory_order_acquire) + i % kChunk;
  }

  // A spare chunk that an exception leaves is used by the next growth.
  void add_chunk() {
    const std::size_t n = chunks_.size();
    chunks_.reserve(std::max(n + 1, n == chunks_.capacity() ? n * 2 : 0));
    auto chunk = std::make_unique_for_overwrite<std::byte[]>(kChunk * sizeof(T));
    if (n == 0 || (n >= kFirstDirectory && std::has_single_bit(n))) {
      directories_.reserve(directories_.size() + 1);
      auto grown = std::make_unique<std::atomic<T*>[]>(n == 0 ? kFirstDirectory : n * 2);
      for (std::size_t i = 0; i < n; ++i) {
        grown[i].store(directories_.back()[i].load(std::memory_order_relaxed),
                       std::memory_order_relaxed);
      }
      directories_.push_back(std::move(grown));
      directory_.store(directories_.back().get(), std::memory_order_release);
    }
    directories_.back()[n].store(std::launder(reinterpret_cast<T*>(chunk.get())),
                                 std::memory_order_release);
    chunks_.push_back(std::move(chunk));
  }

  std::atomic<std::size_t> size_{0};
  std::atomic<std::atomic<T*>*> directory_{nullptr};
  std::vector<Entries> directories_;  // the last is in use
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
};

}  // namespace spector
