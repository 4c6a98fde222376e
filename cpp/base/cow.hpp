// Arrays and lists that one writer changes in transactions while readers look at what was
// published before: copy on write, by pages.
//
// A store keeps its CowArrays and CowLists beside one CowHeap. Between two publications it edits
// them freely: the first edit of a page copies it, further edits of the same transaction are in
// place. `view()` of each is a small value that shows the present state and never changes; the
// owner puts the views into what it publishes (see Shared in base/shared.hpp) and then calls
// `published()`, after which old pages are freed when no reader can see them any more. Or it calls
// `rollback()`, and everything is as it was published.
//
// Views belong to readers under a Pin of the domain and cost two or three loads an element; all
// other functions are the writer's. If one throws (memory), the owner must roll back.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/epoch.hpp"
#include "base/error.hpp"

namespace spector {

// Begins every allocation of a CowHeap.
struct CowBlock {
  std::uint64_t transaction;  // that made it
  std::uint32_t place;        // among the fresh ones, while that transaction lasts
  std::uint32_t extent;       // in units of 16 bytes, doubled, plus 1 if it is aligned to 64

  [[nodiscard]] std::size_t bytes() const noexcept { return std::size_t{extent >> 1} * 16; }
};

class CowHeap {
 public:
  explicit CowHeap(EpochDomain& epochs) : epochs_(epochs) {}
  CowHeap(const CowHeap&) = delete;
  CowHeap& operator=(const CowHeap&) = delete;
  CowHeap(CowHeap&&) = delete;
  CowHeap& operator=(CowHeap&&) = delete;
  ~CowHeap() = default;

  // Of this transaction: no reader has it, so it is edited in place.
  [[nodiscard]] bool owns(const CowBlock* block) const noexcept {
    return block->transaction == transaction_;
  }

  // Uninitialised but for the CowBlock. Block has no more than 64 bytes of alignment.
  template <class Block>
  [[nodiscard]] Block* allocate(std::size_t bytes) {
    static_assert(std::is_trivially_destructible_v<Block> && std::is_base_of_v<CowBlock, Block>);
    static_assert(alignof(Block) <= kAlignment);
    constexpr bool aligned = alignof(Block) > __STDCPP_DEFAULT_NEW_ALIGNMENT__;
    const std::size_t units = (bytes + 15) / 16;
    if (units > kMaxUnits || fresh_.size() > kMaxFresh) throw std::bad_alloc();
    if (fresh_.size() == fresh_.capacity()) fresh_.reserve(fresh_.size() * 2 + 16);
    void* const memory =
        aligned ? ::operator new(bytes, std::align_val_t{kAlignment}) : ::operator new(bytes);
    auto* const block = static_cast<Block*>(memory);
    block->transaction = transaction_;
    block->place = static_cast<std::uint32_t>(fresh_.size());
    block->extent = static_cast<std::uint32_t>(units << 1 | (aligned ? 1 : 0));
    fresh_.push_back(block);
    bytes_ += block->bytes();
    return block;
  }

  // A block that the state to be published does not have.
  void release(CowBlock* block) {
    if (owns(block)) {
      fresh_.back()->place = block->place;
      fresh_[block->place] = fresh_.back();
      fresh_.pop_back();
      bytes_ -= block->bytes();
      destroy(block);
      return;
    }
    if (replaced_ == nullptr) replaced_ = std::make_unique<Blocks>();
    replaced_->blocks.push_back(block);
    replaced_bytes_ += block->bytes();
  }

  // Makes `published` safe from lack of memory.
  void reserve() { epochs_.reserve(1); }

  // Readers get the present state from now on.
  void published() noexcept {
    if (replaced_ != nullptr) epochs_.retire(std::move(replaced_), replaced_bytes_);
    bytes_ -= replaced_bytes_;
    end();
  }

  // The arrays go back to the published state themselves.
  void rollback() noexcept {
    for (CowBlock* block : fresh_) {
      bytes_ -= block->bytes();
      destroy(block);
    }
    if (replaced_ != nullptr) replaced_->blocks.clear();
    replaced_.reset();
    end();
  }

  // In use by the state to be published and the one before.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  // In use by the state to be published.
  [[nodiscard]] std::size_t next_bytes() const noexcept { return bytes_ - replaced_bytes_; }

  // For the destructors of arrays: nobody sees the block.
  static void destroy(CowBlock* block) noexcept {
    if ((block->extent & 1) != 0) {
      ::operator delete(block, std::align_val_t{kAlignment});
    } else {
      ::operator delete(block);
    }
  }

  static constexpr std::size_t kAlignment = 64;

 private:
  static constexpr std::size_t kMaxUnits = 0x7fffffff;
  static constexpr std::size_t kMaxFresh = 0xfffffffe;

  struct Blocks {
    std::vector<CowBlock*> blocks;
    Blocks() = default;
    Blocks(const Blocks&) = delete;
    Blocks& operator=(const Blocks&) = delete;
    Blocks(Blocks&&) = delete;
    Blocks& operator=(Blocks&&) = delete;
    ~Blocks() {
      for (CowBlock* block : blocks) destroy(block);
    }
  };

  void end() noexcept {
    replaced_bytes_ = 0;
    fresh_.clear();
    // One large transaction does not keep its memory for ever.
    if (fresh_.capacity() > 4096) fresh_ = {};
    ++transaction_;
  }

  EpochDomain& epochs_;
  std::uint64_t transaction_ = 1;
  std::vector<CowBlock*> fresh_;
  std::unique_ptr<Blocks> replaced_;
  std::size_t replaced_bytes_ = 0;
  std::size_t bytes_ = 0;
};

// Elements 0 to size - 1. Pages that were never edited have no memory: their elements are T{}.
template <class T>
class CowArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  // Pages of about 2 KiB.
  static constexpr std::size_t page_bits() noexcept {
    std::size_t bits = 4;
    while (bits < 9 && (sizeof(T) << (bits + 1)) <= 2048) ++bits;
    return bits;
  }

 public:
  static constexpr std::size_t kPageBits = page_bits();
  static constexpr std::size_t kPage = std::size_t{1} << kPageBits;

 private:
  static constexpr std::size_t kMiddleBits = 8;
  static constexpr std::size_t kMiddle = std::size_t{1} << kMiddleBits;

  struct Page : CowBlock {
    std::array<T, kPage> values;
  };
  struct Middle : CowBlock {
    std::array<const Page*, kMiddle> pages;
  };
  struct Root : CowBlock {
    std::size_t n;
    // n pointers follow.
    [[nodiscard]] const Middle** middles() noexcept {
      return reinterpret_cast<const Middle**>(this + 1);
    }
    [[nodiscard]] const Middle* const* middles() const noexcept {
      return reinterpret_cast<const Middle* const*>(this + 1);
    }
  };

 public:
  class View {
   public:
    View() = default;

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    // i < size().
    [[nodiscard]] const T& operator[](std::size_t i) const noexcept {
      return page(i).values[i % kPage];
    }
    // The elements from i < size() on that lie side by side.
    [[nodiscard]] std::span<const T> run(std::size_t i) const noexcept {
      return {&page(i).values[i % kPage], std::min(kPage - i % kPage, size_ - i)};
    }
    // Asks for the element's memory to be loaded. i < size().
    void prefetch(std::size_t i) const noexcept {
      __builtin_prefetch(static_cast<const void*>(&(*this)[i]));
    }

   private:
    friend class CowArray;
    View(const Root* root, std::size_t size) noexcept : root_(root), size_(size) {}
    [[nodiscard]] const Page& page(std::size_t i) const noexcept {
      return *root_->middles()[i >> (kPageBits + kMiddleBits)]->pages[(i >> kPageBits) % kMiddle];
    }

    const Root* root_ = nullptr;
    std::size_t size_ = 0;
  };

  explicit CowArray(CowHeap& heap) noexcept : heap_(heap) {}
  CowArray(const CowArray&) = delete;
  CowArray& operator=(const CowArray&) = delete;
  CowArray(CowArray&&) = delete;
  CowArray& operator=(CowArray&&) = delete;
  // Between transactions, without readers.
  ~CowArray() {
    if (now_.root_ == nullptr) return;
    for (std::size_t i = 0; i < now_.root_->n; ++i) {
      const Middle* middle = now_.root_->middles()[i];
      if (middle == &kEmptyMiddle) continue;
      for (const Page* page : middle->pages) {
        if (page != &kEmptyPage) CowHeap::destroy(mutate(page));
      }
      CowHeap::destroy(mutate(middle));
    }
    CowHeap::destroy(mutate(now_.root_));
  }

  [[nodiscard]] View view() const noexcept { return now_; }
  [[nodiscard]] std::size_t size() const noexcept { return now_.size_; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return now_[i]; }

  // The element, to be written before anything is published. i < size().
  [[nodiscard]] T& edit(std::size_t i) {
    Root* const root = own_root(now_.root_->n);
    const Middle*& middle = root->middles()[i >> (kPageBits + kMiddleBits)];
    if (!owned(middle, &kEmptyMiddle)) {
      auto* const copy = heap_.template allocate<Middle>(sizeof(Middle));
      copy->pages = middle->pages;
      replace(middle, copy, &kEmptyMiddle);
    }
    const Page*& page = mutate(middle)->pages[(i >> kPageBits) % kMiddle];
    if (!owned(page, &kEmptyPage)) {
      auto* const copy = heap_.template allocate<Page>(sizeof(Page));
      copy->values = page->values;
      replace(page, copy, &kEmptyPage);
    }
    return mutate(page)->values[i % kPage];
  }

  // New elements are T{}. Only ever grows, but for `clear`.
  void resize(std::size_t size) {
    if (size <= now_.size_) return;
    const std::size_t n = (size + kPage * kMiddle - 1) / (kPage * kMiddle);
    if (now_.root_ == nullptr || n > now_.root_->n) static_cast<void>(own_root(n));
    now_.size_ = size;
  }
  void push_back(const T& value) {
    resize(now_.size_ + 1);
    edit(now_.size_ - 1) = value;
  }

  // These elements instead of all that were there.
  void assign(std::span<const T> values) {
    clear();
    resize(values.size());
    for (std::size_t i = 0; i < values.size(); i += kPage) {
      const std::size_t n = std::min(kPage, values.size() - i);
      std::copy_n(values.data() + i, n, &edit(i));
    }
  }

  // No elements.
  void clear() {
    if (now_.root_ == nullptr) return;
    for (std::size_t i = 0; i < now_.root_->n; ++i) {
      const Middle* middle = now_.root_->middles()[i];
      if (middle == &kEmptyMiddle) continue;
      for (const Page* page : middle->pages) {
        if (page != &kEmptyPage) heap_.release(mutate(page));
      }
      heap_.release(mutate(middle));
    }
    heap_.release(mutate(now_.root_));
    now_ = {};
  }

  // What was ever edited, in order, and where that begins; beyond size() it is T{}. Costs nothing
  // for the rest.
  template <class F>
  void for_each_page(const F& f) const {
    if (now_.root_ == nullptr) return;
    for (std::size_t i = 0; i < now_.root_->n; ++i) {
      const Middle* middle = now_.root_->middles()[i];
      if (middle == &kEmptyMiddle) continue;
      for (std::size_t j = 0; j < kMiddle; ++j) {
        const Page* page = middle->pages[j];
        if (page != &kEmptyPage) f((i * kMiddle + j) * kPage, std::span<const T>(page->values));
      }
    }
  }

  void published() noexcept { published_ = now_; }
  // Before the heap's own.
  void rollback() noexcept { now_ = published_; }

 private:
  static constexpr Page kEmptyPage{};
  static constexpr Middle make_empty_middle() noexcept {
    Middle middle{};
    middle.pages.fill(&kEmptyPage);
    return middle;
  }
  static constexpr Middle kEmptyMiddle = make_empty_middle();

  // What is not owned is never written through this.
  template <class Block>
  static Block* mutate(const Block* block) noexcept {
    return const_cast<Block*>(block);
  }
  template <class Block>
  [[nodiscard]] bool owned(const Block* block, const Block* empty) const noexcept {
    return block != empty && heap_.owns(block);
  }
  template <class Block>
  void replace(const Block*& place, const Block* copy, const Block* empty) {
    if (place != empty) heap_.release(mutate(place));
    place = copy;
  }

  // A root of this transaction with at least `n` middles.
  Root* own_root(std::size_t n) {
    const Root* const old = now_.root_;
    if (old != nullptr && heap_.owns(old) && old->n >= n) return mutate(old);
    const std::size_t before = old == nullptr ? 0 : old->n;
    const std::size_t after = n > before ? std::max(n, before + before / 2) : before;
    auto* const root = heap_.template allocate<Root>(sizeof(Root) + after * sizeof(Middle*));
    root->n = after;
    for (std::size_t i = 0; i < after; ++i) {
      root->middles()[i] = i < before ? old->middles()[i] : &kEmptyMiddle;
    }
    if (old != nullptr) heap_.release(mutate(old));
    now_.root_ = root;
    return root;
  }

  CowHeap& heap_;
  View now_;
  View published_;
};

// A list of T for each of 0 to size - 1, all empty at first.
template <class T>
class CowLists {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

  struct Block : CowBlock {
    std::uint32_t size;
    std::uint32_t capacity;
    T* values() noexcept { return reinterpret_cast<T*>(this + 1); }
    [[nodiscard]] const T* values() const noexcept { return reinterpret_cast<const T*>(this + 1); }
  };
  static_assert(alignof(T) <= alignof(Block));
  using Blocks = CowArray<Block*>;

 public:
  class View {
   public:
    View() = default;
    [[nodiscard]] std::size_t size() const noexcept { return blocks_.size(); }
    // i < size().
    [[nodiscard]] std::span<const T> operator[](std::size_t i) const noexcept {
      const Block* const block = blocks_[i];
      if (block == nullptr) return {};
      return {block->values(), block->size};
    }
    // Asks for the beginning of the list to be loaded, which is known where `prefetch_place` has
    // done its work. i < size().
    void prefetch(std::size_t i) const noexcept { __builtin_prefetch(blocks_[i]); }
    void prefetch_place(std::size_t i) const noexcept { blocks_.prefetch(i); }

   private:
    friend class CowLists;
    explicit View(typename Blocks::View blocks) noexcept : blocks_(blocks) {}
    typename Blocks::View blocks_;
  };

  explicit CowLists(CowHeap& heap) noexcept : heap_(heap), blocks_(heap) {}
  CowLists(const CowLists&) = delete;
  CowLists& operator=(const CowLists&) = delete;
  CowLists(CowLists&&) = delete;
  CowLists& operator=(CowLists&&) = delete;
  // Between transactions, without readers.
  ~CowLists() {
    blocks_.for_each_page([](std::size_t, std::span<Block* const> page) {
      for (Block* block : page) {
        if (block != nullptr) CowHeap::destroy(block);
      }
    });
  }

  [[nodiscard]] View view() const noexcept { return View(blocks_.view()); }
  [[nodiscard]] std::size_t size() const noexcept { return blocks_.size(); }
  [[nodiscard]] std::span<const T> operator[](std::size_t i) const noexcept { return view()[i]; }

  void resize(std::size_t size) { blocks_.resize(size); }

  // The list's elements, to be written before anything is published.
  [[nodiscard]] std::span<T> edit(std::size_t i) {
    Block* block = blocks_[i];
    if (block == nullptr) return {};
    if (!heap_.owns(block)) block = renew(i, block->size);
    return {block->values(), block->size};
  }
  void push_back(std::size_t i, const T& value) {
    Block* block = blocks_[i];
    if (block == nullptr) {
      block = renew(i, kFirst);
    } else if (block->size == block->capacity) {
      if (block->size == std::numeric_limits<std::uint32_t>::max()) {
        throw Capacity("a list has 4,294,967,295 entries, which is all it can");
      }
      block = renew(i, std::min<std::size_t>(std::size_t{block->size} * 2,
                                             std::numeric_limits<std::uint32_t>::max()));
    } else if (!heap_.owns(block)) {
      block = renew(i, block->capacity);
    }
    block->values()[block->size++] = value;
  }
  // Entry `at` goes, the others keep their order.
  void erase(std::size_t i, std::size_t at) {
    const std::span<T> values = edit(i);
    std::copy(values.begin() + static_cast<std::ptrdiff_t>(at) + 1, values.end(),
              values.begin() + static_cast<std::ptrdiff_t>(at));
    truncate(i, values.size() - 1);
  }
  // Leaves the first `n` entries; none: no memory either.
  void truncate(std::size_t i, std::size_t n) {
    if (n == 0) {
      drop(i);
    } else if (n < blocks_[i]->size) {
      static_cast<void>(edit(i));
      blocks_[i]->size = static_cast<std::uint32_t>(n);
    }
  }
  void assign(std::size_t i, std::span<const T> values) {
    if (values.size() > std::numeric_limits<std::uint32_t>::max()) {
      throw Capacity("a list of more than 4,294,967,295 entries");
    }
    if (values.empty()) return drop(i);
    Block* block = blocks_[i];
    if (block == nullptr || !heap_.owns(block) || block->capacity < values.size()) {
      block = renew(i, values.size(), false);
    }
    std::copy(values.begin(), values.end(), block->values());
    block->size = static_cast<std::uint32_t>(values.size());
  }
  // All lists, none is left.
  void clear() {
    blocks_.for_each_page([this](std::size_t, std::span<Block* const> page) {
      for (Block* block : page) {
        if (block != nullptr) heap_.release(block);
      }
    });
    blocks_.clear();
  }

  void published() noexcept { blocks_.published(); }
  void rollback() noexcept { blocks_.rollback(); }

 private:
  static constexpr std::size_t kFirst = std::max<std::size_t>(1, 16 / sizeof(T));

  // The list in a block of this transaction; `values` are to be written by the caller if not kept.
  Block* renew(std::size_t i, std::size_t capacity, bool keep = true) {
    Block*& place = blocks_.edit(i);
    Block* const old = place;
    auto* const block = heap_.template allocate<Block>(sizeof(Block) + capacity * sizeof(T));
    block->size = 0;
    block->capacity = static_cast<std::uint32_t>(capacity);
    if (keep && old != nullptr) {
      block->size = old->size;
      std::copy_n(old->values(), old->size, block->values());
    }
    if (old != nullptr) heap_.release(old);
    place = block;
    return block;
  }
  void drop(std::size_t i) {
    if (blocks_[i] == nullptr) return;
    Block*& place = blocks_.edit(i);
    heap_.release(place);
    place = nullptr;
  }

  CowHeap& heap_;
  Blocks blocks_;
};

}  // namespace spector
