// The growing part of a BM25 index: rows in order of arrival, read while one writer appends.
//
// A reader sees the first `n_rows` rows of its state; what the writer adds beyond has higher row
// numbers, and every posting list ascends, so the reader's part is a prefix. Rows are deleted as in
// a Segment. When the head is sealed it is left as it is for its readers and freed after them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/append_array.hpp"
#include "base/epoch.hpp"
#include "base/u32_map.hpp"
#include "lexical/segment.hpp"

namespace spector {

class Head {
 public:
  static constexpr std::uint32_t kMaxRows = 1U << 14;
  static constexpr std::uint32_t kNone = 0xffffffffU;

  explicit Head(EpochDomain& epochs);

  // A term's postings among the first `n_rows` rows.
  struct View {
    std::span<const std::uint32_t> rows;
    const std::uint32_t* frequencies = nullptr;
  };
  [[nodiscard]] View postings(std::uint32_t term, std::uint32_t n_rows,
                              const EpochDomain::Pin& pin) const noexcept;
  // Rows of the term among the first `n_rows` that are alive in `state`.
  [[nodiscard]] std::uint32_t live(std::uint32_t term, std::uint32_t n_rows, StateNumber state,
                                   const EpochDomain::Pin& pin) const noexcept;
  [[nodiscard]] std::span<const std::uint32_t> lengths(const EpochDomain::Pin& pin) const noexcept {
    return lengths_.view(pin);
  }
  [[nodiscard]] std::span<const std::uint32_t> slots(const EpochDomain::Pin& pin) const noexcept {
    return slots_.view(pin);
  }
  [[nodiscard]] bool alive(std::uint32_t row, StateNumber state) const noexcept {
    return ~std::atomic_ref(deleted_[row]).load(std::memory_order_relaxed) > state;
  }

  // The rest is the writer's.

  // On an exception nothing has changed.
  void add(std::uint32_t slot, std::uint32_t length, std::span<const TermCount> terms);
  // After `reserve_erase` for the row nothing is thrown.
  void reserve_erase(std::uint32_t row);
  void erase(std::uint32_t row, StateNumber state);
  // The newest row of a slot, deleted or not, or kNone.
  [[nodiscard]] std::uint32_t find(std::uint32_t slot) const noexcept;
  [[nodiscard]] std::uint32_t n_rows() const noexcept {
    return static_cast<std::uint32_t>(documents_.size());
  }
  [[nodiscard]] std::uint32_t n_dead_rows() const noexcept { return n_dead_rows_; }
  [[nodiscard]] std::uint64_t n_postings() const noexcept { return documents_.counts.size(); }
  [[nodiscard]] std::uint64_t n_dead_postings() const noexcept { return n_dead_postings_; }
  // The rows as they were added.
  [[nodiscard]] const Documents& documents() const noexcept { return documents_; }
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

 private:
  struct Term {
    AppendArray<std::uint32_t> rows;
    AppendArray<std::uint32_t> frequencies;  // appended first, so it is never the shorter one
    AppendArray<StateNumber> deaths;
  };
  struct Free {
    void operator()(std::uint32_t* memory) const noexcept { std::free(memory); }
  };

  [[nodiscard]] const Term* find_term(std::uint32_t term,
                                      const EpochDomain::Pin& pin) const noexcept;
  Term& own_term(std::uint32_t term);

  EpochDomain& epochs_;
  U32Map places_;             // term number -> place in terms_
  AppendArray<Term*> terms_;  // into own_terms_
  AppendArray<std::uint32_t> lengths_;
  AppendArray<std::uint32_t> slots_;
  // ~ of the state that first lacks the row: zeros, which cost nothing until written, are alive.
  std::unique_ptr<std::uint32_t[], Free> deleted_;
  // Of the writer.
  std::deque<Term> own_terms_;
  std::unordered_map<std::uint32_t, std::uint32_t> newest_row_;  // by slot
  Documents documents_;
  std::uint32_t n_dead_rows_ = 0;
  std::uint64_t n_dead_postings_ = 0;
};

}  // namespace spector
