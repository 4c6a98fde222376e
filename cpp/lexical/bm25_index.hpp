// Exact BM25 over documents that come, change and go (BM25-1 to BM25-6, IDX-1 to IDX-3).
//
// The caller names documents by slot (u32) and terms by number. Inside, each version of a document
// is a *row* in order of arrival; a replaced or erased version stays as a dead row until the owner
// calls `compact`, which it does once `wasteful()`. Statistics always count the live rows only, so
// scores depend on the live documents and on nothing else. Rows never leave this class.
//
// Layout: structure of arrays; per term two arrays (rows ascending, frequencies), per row its
// length, slot and terms. Not synchronised: reads may run together, writes need it to themselves.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace spector {

struct TermCount {
  std::uint32_t term;
  std::uint32_t count;  // > 0
};

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
  std::uint64_t bytes;
};

// A set of slots; slots past the end are not in it.
class SlotSet {
 public:
  explicit SlotSet(std::span<const std::uint32_t> slots);
  [[nodiscard]] bool contains(std::uint32_t slot) const noexcept {
    return slot / 64 < words_.size() && (words_[slot / 64] >> (slot % 64) & 1) != 0;
  }

 private:
  std::vector<std::uint64_t> words_;
};

class Bm25Index {
 public:
  // Throws std::invalid_argument unless k1 is in [0,3] and b in [0,1] (BM25-3).
  Bm25Index(double k1, double b);

  // Adds a document or replaces it entirely. `terms` are distinct. On an exception (memory, or
  // Capacity past 2^32-2 rows) nothing has changed.
  void put(std::uint32_t slot, std::span<const TermCount> terms, std::uint32_t length);

  // True if the document existed.
  bool erase(std::uint32_t slot);

  // More than a quarter of the postings are dead (IDX-2), or more rows than live documents.
  [[nodiscard]] bool wasteful() const noexcept;

  // Drops dead rows and the terms that no live document has. Scores do not change. `numbers` is
  // what `compact_numbers` gave: the new number of each term, kDropped for those that go; the owner
  // renames its terms by it. On an exception nothing has changed.
  static constexpr std::uint32_t kDropped = 0xffffffffU;
  [[nodiscard]] std::vector<std::uint32_t> compact_numbers() const;
  void compact(std::span<const std::uint32_t> numbers);

  // The k best documents with score > 0, best first, equal scores by slot (GEN-4). `allow`: only
  // these slots, null for all. k >= 1; no allocation grows with k beyond the number of documents.
  [[nodiscard]] std::vector<Hit> search(std::span<const QueryTerm> query, std::size_t k,
                                        const SlotSet* allow = nullptr) const;

  // The terms of `query` that the document has, in the order they were added up. Empty for an
  // unknown slot.
  [[nodiscard]] std::vector<TermScore> explain(std::span<const QueryTerm> query,
                                               std::uint32_t slot) const;

  [[nodiscard]] bool contains(std::uint32_t slot) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return n_documents_; }
  [[nodiscard]] std::uint32_t document_frequency(std::uint32_t term) const noexcept {
    return term < terms_.size() ? terms_[term].live : 0;
  }
  [[nodiscard]] Bm25Stats stats() const noexcept;
  [[nodiscard]] double k1() const noexcept { return k1_; }
  [[nodiscard]] double b() const noexcept { return b_; }

 private:
  static constexpr std::uint32_t kNoRow = 0xffffffffU;

  struct Postings {
    std::vector<std::uint32_t> rows;
    std::vector<std::uint32_t> frequencies;
    std::uint32_t live = 0;  // document frequency
  };
  // What turns a term into contributions under the present statistics.
  struct Weights {
    double idf;
    float weight;
  };

  [[nodiscard]] Weights weights(const QueryTerm& term) const noexcept;
  // c0 and c1 of kernels::Bm25Postings.
  [[nodiscard]] std::pair<float, float> length_norm() const noexcept;
  // Query terms with live documents, duplicates joined, in order of first appearance.
  [[nodiscard]] std::vector<QueryTerm> known_terms(std::span<const QueryTerm> query) const;
  void kill(std::uint32_t row) noexcept;

  double k1_;
  double b_;
  std::vector<Postings> terms_;
  // Per row.
  std::vector<std::uint32_t> lengths_;
  std::vector<std::uint32_t> slots_;
  std::vector<std::uint64_t> term_ends_{0};  // row r has row_terms_[term_ends_[r], term_ends_[r+1])
  std::vector<std::uint32_t> row_terms_;
  std::vector<bool> dead_;
  // Per slot.
  std::vector<std::uint32_t> row_of_slot_;

  std::uint64_t n_documents_ = 0;
  std::uint64_t total_length_ = 0;
  std::uint64_t n_terms_ = 0;  // with live > 0
  std::uint64_t n_postings_ = 0;
  std::uint64_t n_dead_postings_ = 0;
};

}  // namespace spector
