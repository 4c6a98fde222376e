// Memories in the order in which their session told them: a doubly linked list for each session
// (TMP-1 to TMP-5).
//
// Links are mutual, those that are linked have one session, and no chain closes: `link` takes a
// memory out of its place before it puts it into another. So a reader needs nothing to notice a
// repeated one, and follows one load after the other.
//
// TemporalChain is the writer's side, without a lock of its own; View is one state, for readers
// under a Pin (base/shared.hpp brings both together).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/cow.hpp"
#include "base/epoch.hpp"

namespace spector {

class TemporalChain {
 public:
  static constexpr std::size_t kMaxSlots = std::size_t{1} << 31;  // numbers are i32

  // Stored form (TMP-1).
  struct Record {
    std::int32_t previous = -1;  // -1: none
    std::int32_t next = -1;
    std::uint32_t session = 0;
    std::uint32_t time_s = 0;  // since 1970; 0: not known

    [[nodiscard]] bool linked() const noexcept { return previous >= 0 || next >= 0; }
  };
  static_assert(sizeof(Record) == 16 && offsetof(Record, next) == 4 &&
                offsetof(Record, session) == 8 && offsetof(Record, time_s) == 12);

  enum class Direction : std::uint8_t { kForward, kBackward };

  // Lists one after the other: list i is slots[indptr[i], indptr[i + 1]).
  struct Lists {
    std::vector<std::int64_t> indptr;
    std::vector<std::uint32_t> slots;
  };

  class View {
   public:
    [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
    [[nodiscard]] std::size_t n_links() const noexcept { return n_links_; }
    // slot < size().
    [[nodiscard]] const Record& operator[](std::size_t slot) const noexcept {
      return records_[slot];
    }

    // Calls visit(slot) for up to max_hops followers (or predecessors), nearest first (TMP-4).
    // start < size().
    template <class Visit>
    void follow(std::uint32_t start, Direction direction, std::size_t max_hops,
                const Visit& visit) const {
      std::uint32_t slot = start;
      for (; max_hops > 0; --max_hops) {
        const Record& record = records_[slot];
        const std::int32_t to = direction == Direction::kForward ? record.next : record.previous;
        if (to < 0) return;
        slot = static_cast<std::uint32_t>(to);
        visit(slot);
      }
    }
    // Those of each start. Throws std::out_of_range for an unknown one.
    [[nodiscard]] Lists followers(std::span<const std::uint32_t> starts, Direction direction,
                                  std::size_t max_hops) const;

    [[nodiscard]] std::size_t memory_bytes() const noexcept { return memory_bytes_; }

    // TPCH file (cpp/FORMATS.md). Throws Storage.
    void save(const std::string& path) const;

   private:
    friend class TemporalChain;
    CowArray<Record>::View records_;
    std::size_t n_links_ = 0;
    std::size_t memory_bytes_ = 0;
  };

  explicit TemporalChain(EpochDomain& epochs) : heap_(epochs), records_(heap_) {}

  [[nodiscard]] View view() const noexcept;
  void reserve() { heap_.reserve(); }
  void published() noexcept;
  void rollback() noexcept;

  // The rest changes the chains. Throws std::out_of_range for unknown slots.

  // Slots are below n, at least; throws std::invalid_argument above kMaxSlots.
  void resize(std::size_t n);
  // `current` comes directly after `previous` (TMP-2): it is taken out of its place, whose
  // neighbours are joined; what came after `previous` comes after `current`. A `previous` that is
  // not linked and has session 0 gets the session. Throws std::invalid_argument if both are the
  // same, or if `previous` has another session.
  void link(std::uint32_t current, std::uint32_t previous, std::uint32_t session,
            std::uint32_t time_s);
  // The slots lose place, session and time; their neighbours are joined (TMP-5).
  void remove(std::span<const std::uint32_t> slots);
  // Those of the slots that are linked, with a known time before the given one, are taken out of
  // their chains, whose neighbours are joined; they keep session and time (TMP-5). Returns how
  // many.
  std::size_t prune(std::uint32_t before_s, std::span<const std::uint32_t> slots);

  // Replaces everything by what a TPCH file holds. Throws Corruption, Version and Storage.
  void load(const std::string& path);

 private:
  void check(const char* name, std::uint32_t slot) const;
  void take_out(std::uint32_t slot);

  CowHeap heap_;
  CowArray<Record> records_;
  std::size_t n_links_ = 0;
  std::size_t published_links_ = 0;
};

}  // namespace spector
