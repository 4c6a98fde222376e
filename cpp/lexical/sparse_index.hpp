// Learned sparse vectors (SPL-1): documents and queries are maps from term to weight, the score is
// the sum over shared terms of the product of the weights.
//
// Documents are rows in order of arrival, in windows of kernels::kWindow rows. A term has a posting
// list for each window it occurs in, so that adding a document copies only lists of the newest
// window, and a directory of its lists. A replaced or erased document is a dead row until a
// compaction, which comes by itself when more than a quarter of the rows are dead.
//
// SparseIndex is the writer's side, for Shared (base/shared.hpp); a View is one state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/cow.hpp"
#include "base/epoch.hpp"
#include "base/string_table.hpp"
#include "base/top_k.hpp"

namespace spector {

// Maps as lists: document i has terms and weights [ends[i], ends[i + 1]); ends[0] = 0, ascending.
struct SparseVectors {
  std::span<const std::uint64_t> ends;
  std::span<const std::string_view> terms;
  std::span<const float> weights;

  [[nodiscard]] std::size_t size() const noexcept { return ends.size() - 1; }
};

class SparseIndex {
  struct Posting {
    std::uint32_t offset;  // of the row in its window
    float weight;
  };
  struct Part {
    std::uint32_t window;
    std::uint32_t list;
  };

 public:
  class View {
   public:
    // The k best with score > 0 among the live documents, GEN-4. Terms that are not in the index
    // count nothing; a term given twice counts twice. `allow`: ascending slots, nothing for all.
    [[nodiscard]] std::vector<ScoredSlot> search(
        std::span<const std::string_view> terms, std::span<const float> weights, std::size_t k,
        std::optional<std::span<const std::uint32_t>> allow) const;
    // The score of one document, 0 where there is none.
    [[nodiscard]] float score(std::span<const std::string_view> terms,
                              std::span<const float> weights, std::uint32_t slot) const;
    [[nodiscard]] bool contains(std::uint32_t slot) const noexcept {
      return slot < rows_.size() && rows_[slot] != 0;
    }
    [[nodiscard]] std::size_t size() const noexcept { return n_live_; }
    [[nodiscard]] std::size_t n_terms() const noexcept { return directory_.size(); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_ + names_->memory_bytes(); }

   private:
    friend class SparseIndex;
    struct QueryTerm {
      std::uint32_t term;
      float weight;
    };
    [[nodiscard]] std::vector<QueryTerm> resolve(std::span<const std::string_view> terms,
                                                 std::span<const float> weights) const;

    const StringTable* names_ = nullptr;
    CowLists<Part>::View directory_;  // by term
    CowLists<Posting>::View lists_;
    CowArray<std::uint32_t>::View slots_;  // by row; kDead where the row is dead
    CowArray<std::uint32_t>::View rows_;   // by slot: row + 1, 0 where there is none
    std::size_t n_rows_ = 0;
    std::size_t n_live_ = 0;
    std::size_t bytes_ = 0;
  };

  explicit SparseIndex(EpochDomain& epochs);

  // Each document replaces that of its slot; an empty map leaves none. Throws
  // std::invalid_argument unless each weight is finite and above 0 and terms of a document are
  // distinct.
  void put(std::span<const std::uint32_t> slots, const SparseVectors& documents);
  // How many there were.
  std::size_t erase(std::span<const std::uint32_t> slots);
  void compact();

  [[nodiscard]] View view() const;
  void reserve() { heap_.reserve(); }
  void published() noexcept;
  void rollback() noexcept;

 private:
  static constexpr std::uint32_t kDead = 0xffffffffU;

  bool kill(std::uint32_t slot);
  void tidy();

  CowHeap heap_;
  StringTable names_;  // of terms
  CowLists<Part> directory_;
  CowLists<Posting> lists_;
  CowArray<std::uint32_t> slots_;
  CowArray<std::uint32_t> rows_;
  struct Counts {
    std::size_t rows = 0;
    std::size_t live = 0;
  };
  Counts now_;
  Counts published_;
};

}  // namespace spector
