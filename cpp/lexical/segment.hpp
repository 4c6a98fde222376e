// A sealed part of a BM25 index: rows in the order of their slots, postings that never change, and
// the moment each row was deleted.
//
// Nothing stored here depends on the statistics of the whole index (N, document frequencies,
// average length), which move with every change elsewhere; what bounds a score holds for any
// average length, after one factor (see Bound below). Deletions are marked with the number of the
// state that first lacks the row, so that every reader sees the rows of its own state.
//
// Reads may run beside one writer, which only calls `erase` (see bm25_index.hpp); everything else
// is fixed when the constructor returns.
//
// The arrays are the segment's own or lie in a stored file, which the segment keeps (`Arrays`).
//
// Layout (structure of arrays), per posting 4 bytes: position, bound, frequency. A term with many
// rows has them as 16-bit offsets in windows of kernels::kWindow rows, with the first posting and
// the highest bound of each window beside; a term with few rows has them as 32-bit numbers.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/append_array.hpp"
#include "base/epoch.hpp"
#include "kernels/bm25.hpp"

namespace spector {

struct TermCount {
  std::uint32_t term;
  std::uint32_t count;  // > 0
};

// Documents in order of arrival, one after the other.
struct Documents {
  std::vector<std::uint32_t> slots;
  std::vector<std::uint32_t> lengths;
  std::vector<std::uint64_t> ends{0};  // document i has counts[ends[i], ends[i + 1])
  std::vector<TermCount> counts;       // terms of a document are distinct and ascend

  [[nodiscard]] std::size_t size() const noexcept { return slots.size(); }
  [[nodiscard]] std::span<const TermCount> terms(std::size_t i) const noexcept {
    return std::span(counts).subspan(ends[i], ends[i + 1] - ends[i]);
  }
  // On an exception (memory) nothing has changed.
  void add(std::uint32_t slot, std::uint32_t length, std::span<const TermCount> terms);
  void clear() noexcept;
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;
};

// Numbers of a state (bm25_index.hpp): a row deleted in state s is alive in all before s.
using StateNumber = std::uint32_t;
inline constexpr StateNumber kAlive = 0xffffffffU;

// Bound: a posting's impact f / (f + c0 + c1 * length) at the average length kept in the segment,
// in 1/255, rounded up. The impact grows with the average length a, but no faster than a itself,
// so at any other average it is at most bound / 255 * max(1, a / a_kept).
class Segment {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;
  static constexpr std::uint8_t kEscape = 255;  // a frequency of 255 or more: see `frequency`
  static constexpr std::size_t kBestDepths[3] = {10, 100, 1000};

  struct Term {
    std::uint32_t begin;    // of its postings in the arrays
    std::uint32_t count;    // rows, deleted ones included
    std::uint32_t windows;  // of its entries in the arrays of windows, kNone for a term of few rows
    std::uint8_t best[3];   // the 10th, 100th, 1000th highest impact, in 1/255, rounded down
    std::uint8_t escapes;   // 1 if some frequency is kEscape
  };

  struct Escape {
    std::uint32_t posting;
    std::uint32_t frequency;
    auto operator<=>(const Escape&) const = default;
  };

  // Everything of a segment that never changes. Terms are numbered by their place here.
  struct Arrays {
    std::span<const std::uint32_t> slots;  // by row; ascending
    std::span<const std::uint32_t> lengths;
    std::span<const std::uint32_t> row_term_ends;
    std::span<const std::uint8_t> row_terms;
    std::span<const Term> terms;             // by place
    std::span<const std::uint16_t> offsets;  // terms with windows come first in posting arrays
    std::span<const std::uint32_t> sparse_rows;
    std::span<const std::uint8_t> bounds;
    std::span<const std::uint8_t> frequencies;
    std::span<const Escape> escapes;  // ascending
    std::span<const std::uint32_t> window_starts;
    std::span<const std::uint8_t> window_maxima;
    double bound_average = 0;
    double best_average = 0;
  };
  enum class Part : std::uint8_t {
    kSlots,
    kLengths,
    kRowTermEnds,
    kRowTerms,
    kTerms,
    kOffsets,
    kSparseRows,
    kBounds,
    kFrequencies,
    kEscapes,
    kWindowStarts,
    kWindowMaxima,
  };
  struct Fault {
    Part part;
    const char* what;
  };
  // What is wrong with arrays that come from elsewhere: searching them is safe if nothing is. The
  // terms of each row are not looked at here but when they are first used (`check_row`).
  [[nodiscard]] static std::optional<Fault> fault(const Arrays& arrays);

  // Postings by term: term i has rows[ends[i], ends[i + 1]), ascending, with their frequencies.
  struct Postings {
    std::vector<std::uint32_t> terms;  // ascending
    std::vector<std::uint64_t> ends;
    std::vector<std::uint32_t> rows;
    std::vector<std::uint32_t> frequencies;
  };

  // What the rows are, beside their postings. `row_terms` holds the terms of each row as varint
  // differences, row r in [row_term_ends[r - 1], row_term_ends[r]).
  struct Rows {
    std::vector<std::uint32_t> slots;  // ascending
    std::vector<std::uint32_t> lengths;
    std::vector<std::uint32_t> row_term_ends;
    std::vector<std::uint8_t> row_terms;

    // `terms` ascend.
    void add(std::uint32_t slot, std::uint32_t length, std::span<const TermCount> terms);
    void add_packed(std::uint32_t slot, std::uint32_t length, std::span<const std::uint8_t> terms);

   private:
    void end_row(std::uint32_t slot, std::uint32_t length);
  };

  // `k1`, `b` and the present average length are what the bounds are made for.
  Segment(Rows rows, Postings postings, double k1, double b, double average);

  // Of arrays without a fault; place i is term i. `owners` keep them where they are.
  Segment(const Arrays& arrays, std::vector<std::shared_ptr<const void>> owners);

  [[nodiscard]] const Arrays& arrays() const noexcept { return arrays_; }

  [[nodiscard]] std::uint32_t n_rows() const noexcept {
    return static_cast<std::uint32_t>(arrays_.slots.size());
  }
  [[nodiscard]] std::uint32_t n_windows() const noexcept {
    return static_cast<std::uint32_t>((arrays_.slots.size() + kernels::kWindow - 1) /
                                      kernels::kWindow);
  }
  [[nodiscard]] std::uint32_t slot(std::uint32_t row) const noexcept { return arrays_.slots[row]; }
  [[nodiscard]] std::span<const std::uint32_t> lengths() const noexcept { return arrays_.lengths; }
  [[nodiscard]] bool alive(std::uint32_t row, StateNumber state) const noexcept {
    return ~std::atomic_ref(deleted_[row]).load(std::memory_order_relaxed) > state;
  }
  // The row of a slot, deleted or not.
  [[nodiscard]] std::uint32_t find(std::uint32_t slot) const noexcept;

  // The term's place here or kNone.
  [[nodiscard]] std::uint32_t place(std::uint32_t term) const noexcept {
    return term < places_.size() ? places_[term] : kNone;
  }
  [[nodiscard]] const Term& term(std::uint32_t place) const noexcept {
    return arrays_.terms[place];
  }
  // Rows of the term that are alive in `state`.
  [[nodiscard]] std::uint32_t live(std::uint32_t place, StateNumber state,
                                   const EpochDomain::Pin& pin) const noexcept {
    return arrays_.terms[place].count - dead(place, state, pin);
  }
  // Rows of the term that are deleted in `state`.
  [[nodiscard]] std::uint32_t dead(std::uint32_t place, StateNumber state,
                                   const EpochDomain::Pin& pin) const noexcept;

  // Arrays of postings, from Term::begin on.
  [[nodiscard]] const std::uint16_t* offsets(const Term& term) const noexcept {
    return arrays_.offsets.data() + term.begin;
  }
  [[nodiscard]] const std::uint32_t* sparse_rows(const Term& term) const noexcept {
    return arrays_.sparse_rows.data() + (term.begin - arrays_.offsets.size());
  }
  [[nodiscard]] const std::uint8_t* bounds(const Term& term) const noexcept {
    return arrays_.bounds.data() + term.begin;
  }
  [[nodiscard]] const std::uint8_t* frequencies(const Term& term) const noexcept {
    return arrays_.frequencies.data() + term.begin;
  }
  // For a term with windows: window w has the postings [starts[w], starts[w + 1]) of the term.
  [[nodiscard]] const std::uint32_t* window_starts(const Term& term) const noexcept {
    return arrays_.window_starts.data() + term.windows;
  }
  [[nodiscard]] const std::uint8_t* window_maxima(const Term& term) const noexcept {
    return arrays_.window_maxima.data() + term.windows;
  }

  // Calls visit(row, i) for posting i of the term, in order.
  template <class Visit>
  void for_each_row(const Term& term, const Visit& visit) const {
    if (term.windows == kNone) {
      const std::uint32_t* rows = sparse_rows(term);
      for (std::uint32_t i = 0; i < term.count; ++i) visit(rows[i], i);
      return;
    }
    const std::uint32_t* starts = window_starts(term);
    const std::uint16_t* window_offsets = offsets(term);
    for (std::uint32_t window = 0; window < n_windows(); ++window) {
      const auto first = static_cast<std::uint32_t>(window * kernels::kWindow);
      for (std::uint32_t i = starts[window]; i < starts[window + 1]; ++i) {
        visit(first + window_offsets[i], i);
      }
    }
  }

  // The true frequency of posting i of the term.
  [[nodiscard]] std::uint32_t frequency(const Term& term, std::uint32_t i) const noexcept {
    const std::uint8_t kept = arrays_.frequencies[term.begin + i];
    return kept == kEscape ? escaped(term.begin + i) : kept;
  }
  // The frequency of the term in a row, 0 if it is not there.
  [[nodiscard]] std::uint32_t frequency_at(const Term& term, std::uint32_t row) const noexcept;

  // The factor that makes bounds hold at another average length, and the one for `Term::best`.
  [[nodiscard]] double bound_factor(double average) const noexcept {
    return average > arrays_.bound_average ? average / arrays_.bound_average : 1.0;
  }
  [[nodiscard]] double best_factor(double average) const noexcept {
    return average < arrays_.best_average ? average / arrays_.best_average : 1.0;
  }

  // Writer: marks a row as deleted from `state` on. The row must be alive. After `reserve_erase`
  // for it nothing is thrown.
  void reserve_erase(std::uint32_t row, EpochDomain& epochs);
  void erase(std::uint32_t row, StateNumber state, EpochDomain& epochs);

  // Writer, before `for_each_term` and `packed_terms`: throws Corruption unless the terms of a row,
  // or of all rows, are what the postings say. Costs nothing for a segment that was made here.
  void check_row(std::uint32_t row) const;
  void check_rows() const;

  // Calls visit(term number) for each term of a row, ascending.
  template <class Visit>
  void for_each_term(std::uint32_t row, const Visit& visit) const {
    std::uint32_t at = row == 0 ? 0 : arrays_.row_term_ends[row - 1];
    std::uint32_t term = 0;
    while (at < arrays_.row_term_ends[row]) {
      std::uint32_t step = 0;
      for (unsigned shift = 0;; shift += 7) {
        const std::uint8_t byte = arrays_.row_terms[at++];
        step |= std::uint32_t{byte & 0x7fU} << shift;
        if (byte < 0x80) break;
      }
      term += step;
      visit(term);
    }
  }
  [[nodiscard]] std::span<const std::uint8_t> packed_terms(std::uint32_t row) const noexcept {
    const std::uint32_t begin = row == 0 ? 0 : arrays_.row_term_ends[row - 1];
    return arrays_.row_terms.subspan(begin, arrays_.row_term_ends[row] - begin);
  }

  [[nodiscard]] std::span<const std::uint32_t> term_numbers() const noexcept { return numbers_; }
  [[nodiscard]] std::uint64_t n_postings() const noexcept { return arrays_.bounds.size(); }
  [[nodiscard]] std::uint64_t n_dead_postings() const noexcept { return n_dead_postings_; }
  [[nodiscard]] std::uint32_t n_dead_rows() const noexcept { return n_dead_rows_; }
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

 private:
  // What `arrays_` shows of a segment that was made here.
  struct Own {
    Rows rows;
    std::vector<Term> terms;
    std::vector<std::uint16_t> offsets;
    std::vector<std::uint32_t> sparse_rows;
    std::vector<std::uint8_t> bounds;
    std::vector<std::uint8_t> frequencies;
    std::vector<Escape> escapes;
    std::vector<std::uint32_t> window_starts;
    std::vector<std::uint8_t> window_maxima;
  };

  struct Free {
    void operator()(StateNumber* memory) const noexcept { std::free(memory); }
  };

  void make_alive();
  [[nodiscard]] std::uint32_t escaped(std::uint32_t posting) const noexcept;

  Arrays arrays_;
  std::vector<std::shared_ptr<const void>> owners_;
  // ~ of the state that first lacks the row: zeros, which cost nothing until written, are alive.
  std::unique_ptr<StateNumber[], Free> deleted_;
  std::span<const std::uint32_t> places_;   // by term number
  std::span<const std::uint32_t> numbers_;  // by place
  std::vector<std::uint32_t> own_places_;   // empty where they are the numbers
  std::vector<std::uint32_t> own_numbers_;
  std::vector<AppendArray<StateNumber>> deaths_;  // by place: when its rows were deleted
  // Of the writer.
  mutable bool rows_checked_ = false;
  std::uint64_t n_dead_postings_ = 0;
  std::uint32_t n_dead_rows_ = 0;
};

}  // namespace spector
