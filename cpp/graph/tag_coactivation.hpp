// How many memories have two tags in common, and which tags follow which in recalls (COA-1 to
// STDP-2).
//
// Both tables are of a fixed size: when one is full, its weakest tenth leaves, by value, then by
// last use, then by name. Last use is the number of the observation. Counts of memories per tag are
// kept for all tags and are exact.
//
// Tags are names, as they come (folding is the caller's), and are told apart by their names: two
// that have the same hash (H64) are never mixed, and are reported.
//
// TagCoActivation is the writer's side, without a lock of its own; View is one state, for readers
// under a Pin (base/shared.hpp brings both together).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cow.hpp"
#include "base/epoch.hpp"
#include "base/hash.hpp"
#include "base/string_table.hpp"
#include "graph/pair_table.hpp"

namespace spector {

class TagCoActivation {
 public:
  static constexpr std::uint32_t kNone = StringTable::kNone;
  static constexpr std::size_t kMaxCapacity = std::size_t{1} << 24;
  static constexpr std::size_t kMaxTags = 1000;        // of a memory
  static constexpr std::size_t kMaxSequenceTags = 40;  // of 5 results with 8 tags each
  static constexpr double kMaxSequenceMs = 120'000;    // STDP-2
  static constexpr double kTimeConstantMs = 30'000;
  static constexpr double kForward = 0.1;
  static constexpr double kBackward = 0.05;

  using Names = std::span<const std::string_view>;
  using Hash = std::uint64_t (*)(std::string_view) noexcept;
  using Counts = PairTable<std::uint32_t, true>;
  using Edges = PairTable<float, false>;

  // In bytes.
  struct Memory {
    std::size_t tables = 0;  // of both tables with their lists; of a fixed size (BUD-2)
    std::size_t names = 0;   // of all tags there were
  };

  template <class Value>
  struct Partner {
    std::uint32_t tag;
    Value value;
  };

  struct Collision {
    std::uint32_t first;
    std::uint32_t second;
  };

  class View {
   public:
    // Tags are numbered; those that were seen have numbers below it.
    [[nodiscard]] std::size_t n_tags() const noexcept { return n_memories_.size(); }
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
    [[nodiscard]] std::uint32_t n(std::uint32_t number) const noexcept {
      return number < n_tags() ? n_memories_[number] : 0;
    }
    // Memories that have both.
    [[nodiscard]] std::uint32_t co_activation(std::uint32_t a, std::uint32_t b) const noexcept;
    // How surely `to` follows `from`, 0 to 1.
    [[nodiscard]] float weight(std::uint32_t from, std::uint32_t to) const noexcept;
    // Distinct tags that share a memory with this one.
    [[nodiscard]] std::size_t degree(std::uint32_t number) const noexcept {
      return counts_.partners(number).size();
    }
    // The first `limit` of the tags that share memories with this one, by their number, then name;
    // those of `except` left out.
    [[nodiscard]] std::vector<Partner<std::uint32_t>> associated(
        std::uint32_t number, std::size_t limit, std::span<const std::uint32_t> except = {}) const;
    // The first `limit` of the tags that follow this one, by weight, then name.
    [[nodiscard]] std::vector<Partner<float>> predict(std::uint32_t number,
                                                      std::size_t limit) const;

    [[nodiscard]] std::size_t n_pairs() const noexcept { return counts_.size(); }
    [[nodiscard]] std::size_t n_edges() const noexcept { return edges_.size(); }
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] std::uint64_t n_observations() const noexcept { return n_observations_; }
    // All pairs with their counts, first name before second, and all edges, by name.
    [[nodiscard]] std::vector<Counts::Entry> pairs() const;
    [[nodiscard]] std::vector<Edges::Entry> edges() const;
    // Tags with the hash of an earlier one, which comes first.
    [[nodiscard]] std::vector<Collision> collisions() const;

    [[nodiscard]] Memory memory() const noexcept {
      return {table_bytes_, names_->memory_bytes() + hash_bytes_};
    }

    // COAX file (cpp/FORMATS.md). Equal states give equal files. Throws Storage.
    void save(const std::string& path) const;

   private:
    friend class TagCoActivation;
    [[nodiscard]] bool before(std::uint32_t a, std::uint32_t b) const noexcept {
      return name(a) < name(b);
    }
    template <class Entry>
    void sort_by_name(std::vector<Entry>& entries) const;

    const StringTable* names_ = nullptr;
    CowArray<std::uint32_t>::View n_memories_;
    Counts::View counts_;
    Edges::View edges_;
    CowArray<Collision>::View collisions_;
    std::size_t capacity_ = 0;
    std::uint64_t n_observations_ = 0;
    std::size_t table_bytes_ = 0;
    std::size_t hash_bytes_ = 0;
  };

  // `capacity`: pairs and edges that are kept, each, 1 to kMaxCapacity. `hash`: another one than
  // H64 is for tests.
  TagCoActivation(EpochDomain& epochs, std::size_t capacity, Hash hash = hash64);
  // What a file holds. Throws Corruption, Version or Storage.
  TagCoActivation(EpochDomain& epochs, const std::string& path);

  // A memory with these tags, at most kMaxTags; a tag that occurs twice is one.
  void observe(Names tags);
  // A memory with these tags is no more; each must be in one. Pairs that had left stay away.
  void forget(Names tags);
  // A memory's tags change: `forget` and `observe` in one.
  void update(Names before, Names after);
  // Two recalls of a session, and how far apart (STDP-2); at most kMaxSequenceTags each. False:
  // not above 0 or beyond kMaxSequenceMs, so that nothing was learned.
  bool observe_sequence(Names earlier, Names later, double dt_ms);

  [[nodiscard]] View view() const;
  void reserve() { heap_.reserve(); }
  void published() noexcept;
  void rollback() noexcept;

 private:
  using Numbers = std::vector<std::uint32_t>;

  class File;
  TagCoActivation(EpochDomain& epochs, const File& file);

  void intern(Names tags, Numbers& numbers);
  void add_new_tags();
  void check_all_present(Names tags) const;
  void subtract(Names tags);
  template <class Table>
  void prune(Table& table);
  void strengthen(std::uint32_t from, std::uint32_t to, float by);
  void weaken(std::uint32_t from, std::uint32_t to, float by);

  CowHeap heap_;
  StringTable names_;
  Hash hash_;
  CowArray<std::uint32_t> n_memories_;  // by tag
  Counts counts_;
  Edges edges_;
  CowArray<Collision> collisions_;
  std::uint64_t n_observations_ = 0;
  std::uint64_t published_observations_ = 0;
  // The hash -> tag map: the first tag of each hash + 1, or 0. Like `names_` it never loses one.
  std::vector<std::uint32_t> by_hash_;
  std::size_t n_hashes_ = 0;
  Numbers numbers_, others_;  // of the present call
};

}  // namespace spector
