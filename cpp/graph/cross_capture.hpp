// Which memories have a tag, and the memories that a query's tags lead to by way of tags that occur
// with them (XCP-1 to XCP-5).
//
// The inverted index and its counterpart, the tags of each memory, hold 4 bytes each per tag and
// memory. A tag's slots are sorted: up to kChunk of them in one list, more in a list of chunks, so
// that a change copies a chunk and never the whole list. The tags of 64 neighbouring slots lie
// together. Tags are told apart by their names (folding is the caller's). A memory without tags
// leaves no trace.
//
// CrossCapture is the writer's side, without a lock of its own; View is one state, for readers
// under a Pin (base/shared.hpp brings both together).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cow.hpp"
#include "base/epoch.hpp"
#include "base/string_table.hpp"
#include "graph/tag_coactivation.hpp"

namespace spector {

class CrossCapture {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;  // no slot, no tag
  static constexpr std::size_t kMaxTags = 1000;        // of a memory
  static constexpr std::size_t kChunk = 512;

  using Names = std::span<const std::string_view>;

  // In bytes.
  struct Memory {
    std::size_t slots = 0;  // of tags
    std::size_t tags = 0;   // of slots
    std::size_t names = 0;
  };

  struct Options {
    float attenuation = 0.25F;
    std::size_t max_tag_neighbors = 5;
    std::size_t max_memories_per_tag = 10;
  };

  // Memories by score, then slot. Memory i was reached from tag from[i] by way of tag to[i], both
  // as the co-activation numbers them.
  struct Expansion {
    std::vector<std::uint32_t> slots;
    std::vector<float> scores;
    std::vector<std::uint32_t> from;
    std::vector<std::uint32_t> to;
  };

  class View {
   public:
    // Memories with tags, and tags of memories in all.
    [[nodiscard]] std::size_t n_memories() const noexcept { return n_memories_; }
    [[nodiscard]] std::size_t n_entries() const noexcept { return n_entries_; }
    // Tags are numbered; those that were seen have numbers below it.
    [[nodiscard]] std::size_t n_tags() const noexcept { return counts_.size(); }
    // The number of a tag, or kNone.
    [[nodiscard]] std::uint32_t find(std::string_view tag) const noexcept {
      const std::uint32_t number = names_->find(tag);
      return number < n_tags() ? number : kNone;
    }
    // number < n_tags().
    [[nodiscard]] std::string_view name(std::uint32_t number) const noexcept {
      return (*names_)[number];
    }
    // Memories that have the tag.
    [[nodiscard]] std::uint32_t n(std::uint32_t tag) const noexcept {
      return tag < n_tags() ? counts_[tag] : 0;
    }
    // Ascending: the newest is the last.
    [[nodiscard]] std::vector<std::uint32_t> slots(std::uint32_t tag) const;
    // In the order given.
    [[nodiscard]] std::span<const std::uint32_t> tags(std::uint32_t slot) const noexcept;

    // Slots that have all of the tags, or any of them, ascending. Costs what the rarest tag (all),
    // or what is found (any).
    [[nodiscard]] std::vector<std::uint32_t> match_all(Names tags) const;
    [[nodiscard]] std::vector<std::uint32_t> match_any(Names tags) const;

    // XCP-4, XCP-5. `allow`: the slots that may be reached, ascending, distinct; all without it.
    [[nodiscard]] Expansion expand(Names query_tags, float best_score,
                                   const TagCoActivation::View& coactivation,
                                   const Options& options,
                                   std::optional<std::span<const std::uint32_t>> allow) const;

    [[nodiscard]] Memory memory() const noexcept {
      return {slot_bytes_, tag_bytes_, names_->memory_bytes()};
    }

   private:
    friend class CrossCapture;
    class Cursor;
    void add_newest(std::uint32_t tag, std::size_t limit,
                    std::optional<std::span<const std::uint32_t>> allow,
                    std::vector<std::uint32_t>& slots) const;

    const StringTable* names_ = nullptr;
    CowArray<std::uint32_t>::View counts_;
    CowLists<std::uint32_t>::View lists_;
    CowLists<std::uint32_t>::View chunks_;
    CowLists<std::uint32_t>::View pages_;
    std::size_t n_memories_ = 0;
    std::size_t n_entries_ = 0;
    std::size_t slot_bytes_ = 0;
    std::size_t tag_bytes_ = 0;
  };

  explicit CrossCapture(EpochDomain& epochs);

  // What `View`s of a store without memories will show: slots ascending, and for slot i the places
  // in `names` of its tags, which end at ends[i].
  void restore(Names names, std::span<const std::uint32_t> slots,
               std::span<const std::uint64_t> ends, std::span<const std::uint32_t> tags);
  // A memory that has no tags yet gets these, at most kMaxTags; a tag that occurs twice is one.
  void add(std::uint32_t slot, Names tags);
  // The memory has these tags and no others.
  void update(std::uint32_t slot, Names tags);
  // False: it had no tags.
  bool remove(std::uint32_t slot);

  [[nodiscard]] View view() const;
  void reserve() {
    slot_heap_.reserve();
    tag_heap_.reserve();
  }
  void published() noexcept;
  void rollback() noexcept;

 private:
  // What a transaction can take back by itself.
  struct Numbers {
    std::size_t n_memories = 0;
    std::size_t n_entries = 0;
    std::size_t n_free_chunks = 0;
  };

  void set(std::uint32_t slot, Names tags);
  void restore_pages(std::span<const std::uint32_t> slots, std::span<const std::uint64_t> ends,
                     std::span<const std::uint32_t> tags);
  void restore_lists(std::span<const std::uint32_t> slots, std::span<const std::uint64_t> ends,
                     std::span<const std::uint32_t> tags);
  void write_page(std::uint32_t slot, std::span<const std::uint32_t> tags);
  void insert(std::uint32_t tag, std::uint32_t slot);
  void erase(std::uint32_t tag, std::uint32_t slot);
  [[nodiscard]] std::size_t chunk_of(std::uint32_t tag, std::uint32_t slot) const noexcept;
  std::uint32_t new_chunk(std::span<const std::uint32_t> slots);
  void free_chunk(std::uint32_t chunk);
  void insert_chunk(std::uint32_t tag, std::size_t at, std::uint32_t chunk);

  CowHeap slot_heap_;
  CowHeap tag_heap_;
  StringTable names_;
  CowArray<std::uint32_t> counts_;  // by tag
  CowLists<std::uint32_t> lists_;   // by tag: its slots, or if more than kChunk its chunks
  CowLists<std::uint32_t> chunks_;
  CowArray<std::uint32_t> free_chunks_;  // the first n_free_chunks
  CowLists<std::uint32_t> pages_;        // by slot / 64: where each slot's tags end, then the tags
  Numbers now_;
  Numbers published_;
  std::vector<std::uint32_t> tags_;  // of the present call
  std::vector<std::uint32_t> page_;
};

}  // namespace spector
