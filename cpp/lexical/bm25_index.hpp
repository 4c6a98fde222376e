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
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/epoch.hpp"
#include "lexical/head.hpp"
#include "lexical/segment.hpp"

namespace spector {

// A query term; a term that is given twice counts twice (BM25-1).
struct QueryTerm {
  std::uint32_t term;
  double weight;
};

struct Hit {
  float score;
  std::uint32_t slot;
};

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
                                               std::uint32_t term) noexcept;

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

class Bm25Index {
 public:
  // Throws std::invalid_argument unless k1 is in [0,3] and b in [0,1] (BM25-3).
  Bm25Index(double k1, double b, EpochDomain& epochs);

  // Adds a document or replaces it entirely. `terms` are distinct and ascend. On an exception
  // (memory, or Capacity) nothing has changed.
  void put(std::uint32_t slot, std::span<const TermCount> terms, std::uint32_t length);

  // Many documents, each as above; of equal slots the last wins. On an exception a prefix of a
  // small batch, and nothing of a large one, has been put.
  void put(const Documents& documents);
  static constexpr std::size_t kMaxBatch = 1U << 16;  // worth giving at once; more costs memory

  // True if the document existed.
  bool erase(std::uint32_t slot);

  // Everything put and erased so far. To be published before the next change.
  [[nodiscard]] Bm25State state();

  // The last `state()` is what readers get from now on.
  void published() noexcept;

  // Makes one segment without dead rows of everything. `numbers`, if given, renames the terms:
  // numbers[t] is the new number of term t, ascending with t, kDropped for a term without live
  // documents; the owner publishes its own renaming together with the state.
  static constexpr std::uint32_t kDropped = 0xffffffffU;
  void compact(std::span<const std::uint32_t> numbers = {});

  // A renaming that drops the terms without live documents.
  [[nodiscard]] std::vector<std::uint32_t> compact_numbers() const;

  // All there is in one segment without dead rows, in which place i is term i; null if there are no
  // documents. Nothing if a compaction must come first.
  [[nodiscard]] std::optional<const Segment*> sealed() const noexcept;

  // Of an index without documents: takes them from a segment in which place i is term i.
  void adopt(std::unique_ptr<Segment> segment);

  [[nodiscard]] double k1() const noexcept { return k1_; }
  [[nodiscard]] double b() const noexcept { return b_; }
  [[nodiscard]] std::size_t size() const noexcept { return n_documents_; }
  [[nodiscard]] std::uint64_t n_terms() const noexcept { return n_terms_; }
  [[nodiscard]] Bm25Stats stats() const noexcept;

 private:
  using Owned = std::vector<std::unique_ptr<Segment>>;

  struct Place {
    Segment* segment;  // null: in the head
    std::uint32_t row;
  };
  // Where the live row of a slot is; row is Segment::kNone if there is none.
  [[nodiscard]] Place find(std::uint32_t slot) const noexcept;
  void reserve_kill(const Place& place);  // after it, `kill` cannot fail
  void kill(const Place& place) noexcept;
  [[nodiscard]] double average_length() const noexcept;

  // A segment of the live rows of `segments` and of the `wanted` documents, with bounds for the
  // average length.
  [[nodiscard]] std::unique_ptr<Segment> merge(std::span<Segment* const> segments,
                                               const Documents* documents,
                                               const std::vector<bool>& wanted,
                                               std::span<const std::uint32_t> numbers,
                                               double average) const;
  // Replaces segments (and the head) by their merge.
  void replace(const std::vector<Segment*>& segments, bool with_head,
               std::span<const std::uint32_t> numbers = {});
  void renew_head();  // the live rows of the head in a new one
  // Seals, merges and reclaims where that is due (IDX-2).
  void tidy();

  double k1_;
  double b_;
  EpochDomain& epochs_;
  std::unique_ptr<Head> head_;
  Owned segments_;
  // Replaced, but still part of the published state.
  std::vector<std::unique_ptr<Head>> old_heads_;
  Owned old_segments_;

  StateNumber number_ = 0;           // of the state that the next `state()` will be
  std::vector<std::uint32_t> live_;  // by term: document frequency
  std::uint64_t n_documents_ = 0;
  std::uint64_t total_length_ = 0;
  std::uint64_t n_terms_ = 0;  // with live > 0
};

}  // namespace spector
