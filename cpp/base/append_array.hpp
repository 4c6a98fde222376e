// An array that one writer appends to while readers look at it without locks.
//
// The elements are in one block; a full block is replaced by one of twice the size, and the old one
// is retired to the domain that the writer passes. An empty array is one null pointer: there may be
// a million of them. Destroying the array and moving it need it to themselves.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "base/epoch.hpp"
#include "base/error.hpp"

namespace spector {

template <class T>
class AppendArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  static_assert(alignof(T) <= alignof(std::max_align_t));

 public:
  AppendArray() = default;
  AppendArray(AppendArray&& other) noexcept
      : block_(other.block_.exchange(nullptr, std::memory_order_relaxed)) {}
  AppendArray& operator=(AppendArray&& other) noexcept {
    Block* const mine = current();
    block_.store(other.current(), std::memory_order_relaxed);
    other.block_.store(mine, std::memory_order_relaxed);
    return *this;
  }
  AppendArray(const AppendArray&) = delete;
  AppendArray& operator=(const AppendArray&) = delete;
  ~AppendArray() { FreeBlock()(current()); }

  // The elements there are now, in order; valid as long as the Pin. Acquire on the pointer: the
  // elements copied into the block are seen. Acquire on the count: those appended since as well.
  [[nodiscard]] std::span<const T> view(const EpochDomain::Pin& /*pin*/) const noexcept {
    const Block* block = block_.load(std::memory_order_acquire);
    if (block == nullptr) return {};
    return {block->values(), block->count.load(std::memory_order_acquire)};
  }

  // The rest is the writer's.

  // On an exception (memory, or Capacity past 2^32-1 elements) nothing has changed.
  void append(const T& value, EpochDomain& domain) {
    Block* block = current();
    if (block == nullptr || own_count(*block) == block->capacity) {
      const T copy = value;  // `value` may be in the block
      block = grow(std::size_t{own_size()} + 1, domain);
      return push(*block, copy);
    }
    push(*block, value);
  }

  // All of them become visible at once. `values` must not be part of this array.
  void append(std::span<const T> values, EpochDomain& domain) {
    if (values.empty()) return;
    Block* block = current();
    const std::uint32_t count = own_size();
    if (block == nullptr || block->capacity - count < values.size()) {
      block = grow(std::size_t{count} + values.size(), domain);
    }
    std::copy(values.begin(), values.end(), block->values() + count);
    block->count.store(count + static_cast<std::uint32_t>(values.size()),
                       std::memory_order_release);
  }

  // After it, the array takes up to `n` elements without an exception.
  void reserve(std::size_t n, EpochDomain& domain) {
    const Block* block = current();
    if (block == nullptr || block->capacity < n) grow(n, domain);
  }

  [[nodiscard]] std::span<const T> view() const noexcept {
    const Block* block = current();
    return block == nullptr ? std::span<const T>{}
                            : std::span<const T>{block->values(), own_count(*block)};
  }
  [[nodiscard]] std::size_t size() const noexcept { return own_size(); }
  [[nodiscard]] bool empty() const noexcept { return own_size() == 0; }
  // On the heap.
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    const Block* block = current();
    return block == nullptr ? 0 : block_bytes(block->capacity);
  }

 private:
  static constexpr std::uint32_t kFirstCapacity = 4;

  // A header; the elements follow it.
  struct alignas(std::max(alignof(T), alignof(std::uint32_t))) Block {
    std::atomic<std::uint32_t> count;
    std::uint32_t capacity;

    [[nodiscard]] T* values() noexcept { return reinterpret_cast<T*>(this + 1); }
    [[nodiscard]] const T* values() const noexcept { return reinterpret_cast<const T*>(this + 1); }
  };
  static_assert(std::atomic<Block*>::is_always_lock_free);
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

  struct FreeBlock {
    void operator()(Block* block) const noexcept { ::operator delete(block); }
  };

  static std::size_t block_bytes(std::uint32_t capacity) noexcept {
    return sizeof(Block) + std::size_t{capacity} * sizeof(T);
  }

  // The writer is the only one that stores, so it sees its own last values without any order.
  [[nodiscard]] Block* current() const noexcept { return block_.load(std::memory_order_relaxed); }
  static std::uint32_t own_count(const Block& block) noexcept {
    return block.count.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t own_size() const noexcept {
    const Block* block = current();
    return block == nullptr ? 0 : own_count(*block);
  }

  static void push(Block& block, const T& value) noexcept {
    const std::uint32_t count = own_count(block);
    block.values()[count] = value;
    block.count.store(count + 1, std::memory_order_release);
  }

  Block* grow(std::size_t at_least, EpochDomain& domain) {
    if (at_least > UINT32_MAX) throw Capacity("more than 4,294,967,295 elements in one list");
    Block* old = current();
    std::size_t capacity = old == nullptr ? kFirstCapacity : std::size_t{old->capacity} * 2;
    capacity = std::min<std::size_t>(std::max(capacity, at_least), UINT32_MAX);
    domain.reserve(1);
    const auto n = static_cast<std::uint32_t>(capacity);
    auto* block = new (::operator new(block_bytes(n))) Block{own_size(), n};
    if (old != nullptr) {
      std::copy_n(old->values(), own_count(*old), block->values());
    }
    block_.store(block, std::memory_order_release);
    if (old != nullptr) {
      domain.retire(std::unique_ptr<Block, FreeBlock>(old), block_bytes(old->capacity));
    }
    return block;
  }

  std::atomic<Block*> block_{nullptr};
};

}  // namespace spector
