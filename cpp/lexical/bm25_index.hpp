// Exact BM25 over documents that come, change and go (BM25-1 to BM25-6, IDX-1 to IDX-5).
//
// The caller names documents by slot (u32) and terms by number. The index is a list of sealed
// Segments and one growing Head. A `Bm25State` is what one reader sees: which segments, how much of
// the head, and the number that tells which deletions have happened; it is a small value, and all
// it points to stays readable as long as the reader's Pin. Statistics count the live documents of
// the state and nothing else, so scores do not depend on history.
//
// One writer at a time calls the members of Bm25Index; it changes nothing that an earlier state can
// see. The owner publishes `state()` when a change is complete (all of a batch at once) and then
// calls `published()`, which lets go of what the new state no longer needs. Searching is free
// functions over a state, from any thread, without locks (bm25_search.cpp).
//
// Changes seal the head when it is full and merge what is small; larger merges are handed out
// (`begin_merge`) to be made beside further changes, usually by a MergeThread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/epoch.hpp"
#include "base/top_k.hpp"
#include "lexical/head.hpp"
#include "lexical/segment.hpp"

namespace spector {

// A query term; a term that is given twice counts twice (BM25-1).
struct QueryTerm {
  std::uint32_t term;
  double weight;
};

using Hit = ScoredSlot;

// One term's part in a score; the contributions of all terms, added in order, are the score.
struct TermScore {
  std::uint32_t term;
  std::uint32_t f;  // occurrences in the document
  std::uint32_t n;  // live documents with the term
  double idf;       // BM25-2
  std::uint32_t length;
  double weight;  // of the query term
  float contribution;
};

struct Bm25Stats {
  std::uint64_t documents;
  std::uint64_t terms;  // with at least one live document
  std::uint64_t postings;
  std::uint64_t dead_postings;
  std::uint64_t total_length;
  std::uint64_t segments;
  std::uint64_t bytes;
};

// A set of slots; slots past the end are not in it.
class SlotSet {
 public:
  explicit SlotSet(std::span<const std::uint32_t> slots);
  [[nodiscard]] bool contains(std::uint32_t slot) const noexcept {
    return slot / 64 < words_.size() && (words_[slot / 64] >> (slot % 64) & 1) != 0;
  }
  // How many, and the slots in ascending order.
  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
  [[nodiscard]] std::span<const std::uint32_t> slots() const noexcept { return slots_; }

 private:
  std::vector<std::uint64_t> words_;
  std::vector<std::uint32_t> slots_;
};

struct Bm25State {
  std::vector<const Segment*> segments;
  const Head* head = nullptr;
  std::uint32_t head_rows = 0;
  StateNumber number = 0;
  std::uint64_t n_documents = 0;
  std::uint64_t total_length = 0;
  double k1 = 0;
  double b = 0;
};

// Live documents with the term.
[[nodiscard]] std::uint32_t document_frequency(const Bm25State& state, const EpochDomain::Pin& pin,
                                               std::uint32_t term);

// The k best documents with score > 0, best first, equal scores by slot (GEN-4). `allow`: only
// these slots, null for all. k >= 1; no allocation grows with k beyond the number of documents.
[[nodiscard]] std::vector<Hit> search(const Bm25State& state, const EpochDomain::Pin& pin,
                                      std::span<const QueryTerm> query, std::size_t k,
                                      const SlotSet* allow = nullptr);

// The terms of `query` that the document has, in the order they are added up. Empty for an unknown
// slot.
[[nodiscard]] std::vector<TermScore> explain(const Bm25State& state, const EpochDomain::Pin& pin,
                                             std::span<const QueryTerm> query, std::uint32_t slot);

[[nodiscard]] bool contains(const Bm25State& state, const EpochDomain::Pin& pin,
                            std::uint32_t slot) noexcept;

// When the head is sealed and segments are merged, and by whom. Tests make both frequent.
struct MergePolicy {
  std::uint32_t head_rows = Head::kMaxRows;  // sealed at so many
  // Segments of about equal size are merged when there are this many: each posting is rewritten
  // once per factor of growth.
  std::size_t fan_in = 4;
  // Live postings that a change merges itself: about a millisecond's work.
  std::uint64_t small = 1U << 16;
  // So many deletions in a segment are worth making the terms of its rows.
  std::size_t uncounted = 64;
  // So many segments of one size mean that merges fall behind: then a change makes one itself.
  std::size_t most = 12;
};

class Bm25Index {
 public:
  // Throws std::invalid_argument unless k1 is in [0,3] and b in [0,1] (BM25-3).
  Bm25Index(double k1, double b, EpochDomain& epochs, const MergePolicy& policy = {});

  // Adds a document or replaces it entirely. `terms` are distinct and ascend. On an exception
  // (memory, or Capacity) nothing has changed.
  void put(std::uint32_t slot, std::span<const TermCount> terms, std::uint32_t length);

  // Many documents, each as above; of equal slots the last wins. On an exception a prefix of a
  // small batch, and nothing of a large one, has been put.
  void put(const Documents& documents);
  static constexpr std::size_t kMaxBatch = 1U << 17;  // worth giving at once; more costs memory

  // True if the document existed.
  bool erase(std::uint32_t slot);

  // Everything put and erased so far. To be published before the next change.
  [[nodiscard]] Bm25State state();

  // The last `state()` is what readers get from now on.
  void published() noexcept;

  struct Place {
    Segment* segment;  // null: in the head
    std::uint32_t row;
  };

  // Segments that are to become one, or one whose deletions are to be counted. Between
  // `begin_merge` and `finish` the index may change.
  class Merge {
   public:
    // The work itself, needing no lock and nothing of the index; once. Returns early if the merge
    // is abandoned meanwhile. On an exception `abandon` it.
    void run();
    [[nodiscard]] bool abandoned() const noexcept {
      return abandoned_.load(std::memory_order_relaxed);
    }

   private:
    friend class Bm25Index;
    [[nodiscard]] bool has(const Segment* segment) const noexcept;

    std::vector<std::shared_ptr<Segment>> segments_;
    StateNumber number_ = 0;        // of the state whose live rows it takes
    std::uint64_t n_postings_ = 0;  // of those
    std::size_t n_terms_ = 0;
    double k1_ = 0;
    double b_ = 0;
    double average_ = 0;
    bool only_counts_ = false;  // the deletions of its one segment
    std::atomic<bool> abandoned_{false};
    std::unique_ptr<Segment> merged_;
    // By segment whose deletions are not counted: how many rows of a term were left out.
    std::vector<std::vector<TermCount>> left_out_;
    // The writer's: rows that were deleted since it began.
    std::vector<Place> deleted_;
  };

  [[nodiscard]] bool merge_is_due() const { return to_be_counted() != nullptr || !due().empty(); }
  // A merge that is due, or null. Everything is published.
  [[nodiscard]] std::shared_ptr<Merge> begin_merge();
  // Takes in what `run` made, with the deletions since; true if there is something to publish,
  // false if the merge was abandoned. On an exception (memory) `abandon` it: nothing has changed.
  bool finish(Merge& merge);
  void abandon(Merge& merge) noexcept;
  void abandon_merges() noexcept;

  // Makes one segment without dead rows of everything. `numbers`, if given, renames the terms:
  // numbers[t] is the new number of term t, ascending with t, kDropped for a term without live
  // documents; the owner publishes its own renaming together with the state.
  static constexpr std::uint32_t kDropped = 0xffffffffU;
  void compact(std::span<const std::uint32_t> numbers = {});

  // True if so many of `n_known` term numbers have no live documents that dropping them is worth a
  // compaction: more than a quarter, and enough for the work, which is that of all postings.
  [[nodiscard]] bool wastes_terms(std::uint64_t n_known) const noexcept;
  // A renaming that drops the terms without live documents.
  [[nodiscard]] std::vector<std::uint32_t> compact_numbers();

  // All there is in one segment without dead rows, in which place i is term i; null if there are no
  // documents. Nothing if a compaction must come first.
  [[nodiscard]] std::optional<const Segment*> sealed() const noexcept;

  // Of an index without documents: takes them from a segment in which place i is term i.
  void adopt(std::shared_ptr<Segment> segment);

  [[nodiscard]] double k1() const noexcept { return k1_; }
  [[nodiscard]] double b() const noexcept { return b_; }
  [[nodiscard]] std::size_t size() const noexcept { return n_documents_; }
  [[nodiscard]] std::uint64_t n_terms() const noexcept { return n_terms_; }
  // Where deletions are not counted yet it looks through all postings.
  [[nodiscard]] Bm25Stats stats() const;

 private:
  using Owned = std::vector<std::shared_ptr<Segment>>;

  // Where the live row of a slot is; row is Segment::kNone if there is none.
  [[nodiscard]] Place find(std::uint32_t slot) const noexcept;
  void reserve_kill(const Place& place);  // after it, `kill` cannot fail
  // Counts the deletions of a segment that has the terms of its rows.
  void count_deaths(Segment& segment);
  // live_ without the deletions that are not counted yet.
  [[nodiscard]] std::vector<std::uint32_t> live_counts() const;
  void lose(std::uint32_t term, std::uint32_t n = 1) noexcept;
  void kill(const Place& place) noexcept;
  [[nodiscard]] double average_length() const noexcept;

  // The live rows of the head as a segment.
  [[nodiscard]] std::unique_ptr<Segment> sealed_head() const;
  // Puts `merged` in the place of `segments`. On an exception nothing has changed.
  void replace(const Owned& segments, std::unique_ptr<Segment> merged);
  void replace_head(std::unique_ptr<Head> head);
  void seal_head();
  void renew_head();  // the live rows of the head in a new one
  [[nodiscard]] bool in_merge(const Segment& segment) const noexcept;
  // Segments that should be one and are in no merge; empty if there are none.
  [[nodiscard]] Owned due() const;
  // A segment with many deletions that are not counted and in no merge, or null.
  [[nodiscard]] std::shared_ptr<Segment> to_be_counted() const noexcept;
  [[nodiscard]] bool falls_behind() const noexcept;
  [[nodiscard]] std::shared_ptr<Merge> make_merge(Owned segments, StateNumber number) const;
  // Seals, merges and reclaims where that is due (IDX-2).
  void tidy();

  double k1_;
  double b_;
  EpochDomain& epochs_;
  MergePolicy policy_;
  std::unique_ptr<Head> head_;
  Owned segments_;
  std::vector<std::shared_ptr<Merge>> merges_;  // begun and neither finished nor abandoned
  // Replaced, but still part of the published state. Merges may own segments, too.
  std::vector<std::unique_ptr<Head>> old_heads_;
  std::vector<std::unique_ptr<const std::shared_ptr<Segment>>> old_segments_;

  StateNumber number_ = 0;           // of the state that the next `state()` will be
  std::vector<std::uint32_t> live_;  // by term: document frequency, and deletions not counted yet
  std::uint64_t n_documents_ = 0;
  std::uint64_t total_length_ = 0;
  std::uint64_t n_terms_ = 0;  // with live > 0
};

}  // namespace spector
