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
// A segment that comes from a file has its postings packed, there, and unpacks a list when it is
// first asked for: whichever reader comes first publishes it with one exchange, so that none waits.
// No segment has the terms of its rows at first, which a deletion is counted by: until they are
// made, deleted rows are kept as they are, and who asks how many of a term's rows are dead looks
// them up in its list.
//
// Layout of a posting list (one block of memory, structure of arrays), per posting 4 bytes:
// position, bound, frequency. A term with many rows has them as 16-bit offsets in windows of
// kernels::kWindow rows, with the first posting and the highest bound of each window beside; if it
// has many rows in a window, also of each part of one. A term with few rows has them as numbers, of
// 16 bits if the segment has no higher ones, else of 32. A term with very few has nothing else, and
// one with a single row no block either: its posting is where others have the pointer to theirs.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/append_array.hpp"
#include "base/epoch.hpp"
#include "kernels/bm25.hpp"
#include "lexical/term_places.hpp"

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
  // Two of them leave room for rows that are deleted.
  static constexpr std::size_t kBestDepths[] = {10, 20, 100, 1000, 1500};
  static constexpr unsigned kWindowBits = std::bit_width(kernels::kWindow) - 1;

  // What a posting list begins with.
  struct TermHead {
    std::uint32_t count;      // rows, deleted ones included
    std::uint32_t windows;    // of the segment; kNone for a term of few rows
    std::uint32_t n_escapes;  // frequencies that are kEscape
    // The impacts at the kBestDepths, the highest being the first, in 1/255, rounded down.
    std::uint8_t best[std::size(kBestDepths)];
    std::uint8_t part_bits;  // a part is 2^part_bits rows; kWindowBits: a window is one part
    std::uint8_t row_bytes;  // of a row's number, or its offset in a window
  };
  // A posting list; its arrays are one after the other in the order of the accessors below.
  struct Term : TermHead {
    const std::byte* arrays;
  };

  struct Escape {
    std::uint32_t posting;  // of the term
    std::uint32_t frequency;
    auto operator<=>(const Escape&) const = default;
  };

  // What a file has of a segment. Terms are numbered by their place here.
  struct Stored {
    std::span<const std::uint32_t> slots;  // by row; ascending
    std::span<const std::uint32_t> lengths;
    std::span<const std::uint32_t> counts;  // by term: rows
    std::span<const std::uint64_t> ends;    // by term: of its list in `lists`
    std::span<const std::uint8_t> lists;    // packed_postings.hpp; kPackedSlack bytes follow
    bool all_blocks = false;                // short lists, too
    double bound_average = 0;
    double best_average = 0;
    std::string path;  // for messages
    std::vector<std::shared_ptr<const void>> owners;
  };

  // One term's rows and frequencies.
  struct Unpacked {
    std::vector<std::uint32_t> rows;
    std::vector<std::uint32_t> frequencies;
  };

  // Postings by term: term i has rows[ends[i], ends[i + 1]), ascending, with their frequencies.
  struct Postings {
    std::vector<std::uint32_t> terms;  // ascending
    std::vector<std::uint64_t> ends;
    std::vector<std::uint32_t> rows;
    std::vector<std::uint32_t> frequencies;
  };

  // What the rows are, beside their postings.
  struct Rows {
    std::vector<std::uint32_t> slots;  // ascending
    std::vector<std::uint32_t> lengths;
  };

  // `k1`, `b` and the present average length are what the bounds are made for.
  Segment(Rows rows, Postings postings, double k1, double b, double average);

  // Of a file whose lists alone are not checked yet; place i is term i. `now`: unpacks all lists,
  // on several threads, and keeps nothing of the packed ones. Throws Corruption.
  Segment(Stored stored, double k1, double b, bool now);

  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  Segment(Segment&&) = delete;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  [[nodiscard]] std::uint32_t n_rows() const noexcept {
    return static_cast<std::uint32_t>(stored_.slots.size());
  }
  [[nodiscard]] std::uint32_t n_windows() const noexcept {
    return static_cast<std::uint32_t>((stored_.slots.size() + kernels::kWindow - 1) /
                                      kernels::kWindow);
  }
  [[nodiscard]] std::uint32_t slot(std::uint32_t row) const noexcept { return stored_.slots[row]; }
  [[nodiscard]] std::span<const std::uint32_t> slots() const noexcept { return stored_.slots; }
  [[nodiscard]] std::span<const std::uint32_t> lengths() const noexcept { return stored_.lengths; }
  // By place: rows of the term, deleted ones included.
  [[nodiscard]] std::span<const std::uint32_t> counts() const noexcept { return stored_.counts; }
  [[nodiscard]] double bound_average() const noexcept { return stored_.bound_average; }
  [[nodiscard]] double best_average() const noexcept { return stored_.best_average; }
  [[nodiscard]] bool alive(std::uint32_t row, StateNumber state) const noexcept {
    return ~std::atomic_ref(deleted_[row]).load(std::memory_order_relaxed) > state;
  }
  // The row of a slot, deleted or not.
  [[nodiscard]] std::uint32_t find(std::uint32_t slot) const noexcept;

  // The term's place here or kNone.
  [[nodiscard]] std::uint32_t place(std::uint32_t term) const noexcept {
    return places_.place(term);
  }
  // Three steps that have what a search needs of a term brought near, each what the next one looks
  // at: many terms' one step takes hardly longer than one term's.
  void prefetch_place(std::uint32_t term) const noexcept { places_.prefetch(term); }
  void prefetch_list(std::uint32_t place) const noexcept {
    __builtin_prefetch(&stored_.counts[place]);
    __builtin_prefetch(&lists_[place]);
  }
  void prefetch_term(std::uint32_t place) const noexcept {
    const std::uint64_t list = lists_[place].load(std::memory_order_relaxed);
    if (list == kPacked) return;
    const std::byte* const head = pointer(list);
    __builtin_prefetch(head);
    __builtin_prefetch(head + kLine);
  }
  // Throws Corruption, and bad_alloc, where the list has to be unpacked.
  [[nodiscard]] Term term(std::uint32_t place) const {
    // Acquire: what the reader that unpacked it has written is seen.
    const std::uint64_t list = lists_[place].load(std::memory_order_acquire);
    return list != kPacked ? term_of(lists_[place], list) : unpack(place);
  }
  // Rows of the term that are alive in `state`.
  [[nodiscard]] std::uint32_t live(std::uint32_t place, StateNumber state,
                                   const EpochDomain::Pin& pin) const {
    return stored_.counts[place] - dead(place, state, pin);
  }
  // Rows of the term that are deleted in `state`. Throws as `term` does.
  [[nodiscard]] std::uint32_t dead(std::uint32_t place, StateNumber state,
                                   const EpochDomain::Pin& pin) const;

  // For a term with windows: window w has the postings [starts[w], starts[w + 1]) of the term.
  [[nodiscard]] static const std::uint32_t* window_starts(const Term& term) noexcept {
    return reinterpret_cast<const std::uint32_t*>(term.arrays);
  }
  // Ascending.
  [[nodiscard]] static const Escape* escapes(const Term& term) noexcept {
    const std::size_t starts = term.windows == kNone ? 0 : term.windows + std::size_t{1};
    return reinterpret_cast<const Escape*>(window_starts(term) + starts);
  }
  // The parts of a window; 0 if it is not divided.
  [[nodiscard]] static std::size_t n_parts(unsigned part_bits) noexcept {
    return part_bits == kWindowBits ? 0 : std::size_t{1} << (kWindowBits - part_bits);
  }
  // By window, one more than it has parts: part p has the postings [starts[p], starts[p + 1]) of
  // the window.
  [[nodiscard]] static const std::uint16_t* part_starts(const Term& term) noexcept {
    return reinterpret_cast<const std::uint16_t*>(escapes(term) + term.n_escapes);
  }
  // The offsets of a term with windows; of a term of few rows, use(rows), a pointer to their
  // numbers, which are of one width or another.
  [[nodiscard]] static const std::uint16_t* offsets(const Term& term) noexcept {
    const std::size_t parts = n_parts(term.part_bits);
    return part_starts(term) + (parts == 0 ? 0 : term.windows * (parts + 1));
  }
  template <class Use>
  static auto with_rows(const Term& term, const Use& use) {
    const std::uint16_t* rows = offsets(term);
    return term.row_bytes == sizeof *rows ? use(rows)
                                          : use(reinterpret_cast<const std::uint32_t*>(rows));
  }
  [[nodiscard]] static const std::uint8_t* bounds(const Term& term) noexcept {
    return reinterpret_cast<const std::uint8_t*>(offsets(term)) +
           std::size_t{term.count} * term.row_bytes;
  }
  [[nodiscard]] static const std::uint8_t* frequencies(const Term& term) noexcept {
    return bounds(term) + term.count;
  }
  // For a term with windows, by window.
  [[nodiscard]] static const std::uint8_t* window_maxima(const Term& term) noexcept {
    return frequencies(term) + term.count;
  }
  // By part of all windows: the highest bound.
  [[nodiscard]] static const std::uint8_t* part_maxima(const Term& term) noexcept {
    return window_maxima(term) + term.windows;
  }

  // Calls visit(row, i) for posting i of the term, in order.
  template <class Visit>
  static void for_each_row(const Term& term, const Visit& visit) {
    if (term.windows == kNone) {
      return with_rows(term, [&](const auto* rows) {
        for (std::uint32_t i = 0; i < term.count; ++i) visit(std::uint32_t{rows[i]}, i);
      });
    }
    const std::uint32_t* starts = window_starts(term);
    const std::uint16_t* window_offsets = offsets(term);
    for (std::uint32_t window = 0; window < term.windows; ++window) {
      const auto first = static_cast<std::uint32_t>(window * kernels::kWindow);
      for (std::uint32_t i = starts[window]; i < starts[window + 1]; ++i) {
        visit(first + window_offsets[i], i);
      }
    }
  }

  // The true frequency of posting i of the term.
  [[nodiscard]] static std::uint32_t frequency(const Term& term, std::uint32_t i) noexcept {
    const std::uint8_t kept = frequencies(term)[i];
    return kept == kEscape ? escaped(term, i) : kept;
  }
  // The frequency of the term in a row, 0 if it is not there.
  [[nodiscard]] static std::uint32_t frequency_at(const Term& term, std::uint32_t row) noexcept;

  // The rows and frequencies of a term; a list that is packed stays so. Throws as `term` does.
  void read(std::uint32_t place, Unpacked& list) const;

  // The factor that makes bounds hold at another average length, and the one for `Term::best`.
  [[nodiscard]] double bound_factor(double average) const noexcept {
    return average > stored_.bound_average ? average / stored_.bound_average : 1.0;
  }
  [[nodiscard]] double best_factor(double average) const noexcept {
    return average < stored_.best_average ? average / stored_.best_average : 1.0;
  }

  // Writer: marks a row as deleted from `state` on. The row must be alive. After `reserve_erase`
  // for it nothing is thrown.
  void reserve_erase(std::uint32_t row, EpochDomain& epochs);
  void erase(std::uint32_t row, StateNumber state, EpochDomain& epochs);

  // Before `for_each_term`: makes the terms of the rows from the posting lists. One pass over all
  // lists; ends early, without them, if `abandoned` becomes true. Throws as `term` does. The writer
  // and a merge may both call it; what the first has made stays.
  void make_row_terms(const std::atomic<bool>& abandoned = kNever);
  // Sizes of rows in bytes become where each one ends. Throws Capacity past 2^32.
  static void make_ends(std::span<std::uint32_t> sizes);
  [[nodiscard]] bool has_row_terms() const noexcept {
    return row_terms_.load(std::memory_order_acquire) != nullptr;
  }

  // Writer: false as long as deletions are kept without the terms of their rows.
  [[nodiscard]] bool counts_deaths() const noexcept {
    return counted_from_.load(std::memory_order_relaxed) != kAlive;
  }
  // Writer: how many deletions are kept so.
  [[nodiscard]] std::size_t n_uncounted() const noexcept { return uncounted_.size(); }
  // Writer: counts these by term, and later ones at once, for states from `state` on, the next one;
  // calls visit(term number) for each term of each of the rows. The terms of the rows are there.
  // Nothing happens on an exception (memory).
  template <class Visit>
  void count_deaths(StateNumber state, EpochDomain& epochs, const Visit& visit) {
    reserve_uncounted(epochs);
    for (const Death& death : uncounted_.view()) {
      for_each_place(death.row, [&](std::uint32_t place) {
        deaths_[place].append(death.state, epochs);
        ++n_dead_postings_;
        visit(places_.number(place));
      });
    }
    // Release: who sees it sees the deaths.
    counted_from_.store(state, std::memory_order_release);
  }

  // Writer: of a segment whose deletions are not counted, calls visit(term number, n) for each term
  // of which n > 0 rows are deleted. One pass over all lists. Throws as `term` does.
  template <class Visit>
  void for_each_uncounted(const Visit& visit) const {
    if (uncounted_.empty()) return;
    Unpacked list;
    for (std::uint32_t place = 0; place < stored_.counts.size(); ++place) {
      read(place, list);
      const auto n = static_cast<std::uint32_t>(
          std::count_if(list.rows.begin(), list.rows.end(),
                        [this](std::uint32_t row) { return !alive(row, kAlive - 1); }));
      if (n > 0) visit(places_.number(place), n);
    }
  }

  // Calls visit(term number) for each term of a row, ascending.
  template <class Visit>
  void for_each_term(std::uint32_t row, const Visit& visit) const {
    for_each_place(row, [&](std::uint32_t place) { visit(places_.number(place)); });
  }

  [[nodiscard]] std::uint32_t term_number(std::uint32_t place) const noexcept {
    return places_.number(place);
  }
  [[nodiscard]] std::uint64_t n_postings() const noexcept { return n_postings_; }
  [[nodiscard]] std::uint64_t n_dead_postings() const noexcept { return n_dead_postings_; }
  [[nodiscard]] std::uint32_t n_dead_rows() const noexcept { return n_dead_rows_; }
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

 private:
  struct Free {
    void operator()(StateNumber* memory) const noexcept { std::free(memory); }
  };

  // c0 + c1 * length at the two averages.
  class Norms {
   public:
    Norms() = default;
    Norms(double k1, double b, const Stored& stored);
    [[nodiscard]] float high(std::uint32_t length) const noexcept {
      return length < high_.size() ? high_[length] : norm(length, high_average_);
    }
    [[nodiscard]] float low(std::uint32_t length) const noexcept {
      return length < low_.size() ? low_[length] : norm(length, low_average_);
    }

   private:
    [[nodiscard]] float norm(std::uint32_t length, double average) const noexcept {
      return static_cast<float>(k1_ * (1 - b_ + b_ * length / average));
    }

    double k1_ = 0;
    double b_ = 0;
    double high_average_ = 0;
    double low_average_ = 0;
    std::vector<float> high_;  // of the lengths that most rows have
    std::vector<float> low_;
  };

  struct Death {
    std::uint32_t row;
    StateNumber state;
  };

  // The places of the terms of each row, as varint differences, row r in [ends[r - 1], ends[r]).
  struct RowTerms {
    std::vector<std::uint32_t> ends;
    std::vector<std::uint8_t> bytes;
  };

  // Calls visit(place) for each term of a row, ascending.
  template <class Visit>
  void for_each_place(std::uint32_t row, const Visit& visit) const {
    const RowTerms& terms = *row_terms_.load(std::memory_order_acquire);
    std::uint32_t at = row == 0 ? 0 : terms.ends[row - 1];
    std::uint32_t place = 0;
    while (at < terms.ends[row]) {
      std::uint32_t step = 0;
      for (unsigned shift = 0;; shift += 7) {
        const std::uint8_t byte = terms.bytes[at++];
        step |= std::uint32_t{byte & 0x7fU} << shift;
        if (byte < 0x80) break;
      }
      place += step;
      visit(place);
    }
  }

  // Where the list of a term is, in a word. In the highest byte 0: the word is a pointer to a
  // TermHead, which arrays follow. A number n of rows below kBestDepths[0]: there is no head, as
  // all in it but n is nothing; the rest of the word is a pointer to the arrays, or for n = 1
  // itself these arrays.
  using ListPlace = std::atomic<std::uint64_t>;
  static constexpr std::uint64_t kPacked = 0;  // the list is not unpacked yet
  static constexpr unsigned kCountShift = 56;
  static constexpr std::size_t kLine = 64;  // bytes that come together
  static_assert(std::endian::native == std::endian::little && sizeof(void*) == 8);

  // The pointer in a place, whatever the highest byte says.
  [[nodiscard]] static const std::byte* pointer(std::uint64_t list) noexcept {
    return std::bit_cast<const std::byte*>(list & ~(std::uint64_t{0xff} << kCountShift));
  }
  [[nodiscard]] Term term_of(const ListPlace& place, std::uint64_t list) const noexcept {
    const auto count = static_cast<std::uint32_t>(list >> kCountShift);
    if (count == 0) {
      const auto* head = reinterpret_cast<const TermHead*>(pointer(list));
      return {*head, reinterpret_cast<const std::byte*>(head + 1)};
    }
    return {{count, kNone, 0, {}, kWindowBits, row_bytes(false)},
            count == 1 ? reinterpret_cast<const std::byte*>(&place) : pointer(list)};
  }
  [[nodiscard]] static bool headless(std::size_t count, std::size_t n_escapes) noexcept {
    return count < kBestDepths[0] && n_escapes == 0;
  }
  static inline const std::atomic<bool> kNever{false};

  void reserve_uncounted(EpochDomain& epochs);
  void make_alive();
  [[nodiscard]] bool windowed(std::size_t count) const noexcept;
  [[nodiscard]] unsigned part_bits(std::size_t count) const noexcept;
  [[nodiscard]] std::uint8_t row_bytes(bool windowed) const noexcept {
    return windowed || n_rows() <= 0x10000U ? sizeof(std::uint16_t) : sizeof(std::uint32_t);
  }
  [[nodiscard]] std::size_t term_bytes(std::size_t count, std::size_t n_escapes) const noexcept;
  // What is to be in the term's place, for a list in `at`, which has its term_bytes.
  [[nodiscard]] std::uint64_t make_term(std::byte* at, std::span<const std::uint32_t> rows,
                                        std::span<const std::uint32_t> frequencies,
                                        std::size_t n_escapes) const noexcept;
  void fill(const Term& term, TermHead& head, std::span<const std::uint32_t> rows,
            std::span<const std::uint32_t> frequencies) const noexcept;
  // Makes the lists of all terms, some at a time, from lists(first term, last term, scratch), which
  // gives rows and frequencies of these terms one after the other.
  template <class Lists>
  void make_terms(const Lists& lists);
  void unpack(std::uint32_t place, std::span<std::uint32_t> rows,
              std::span<std::uint32_t> frequencies) const;
  Term unpack(std::uint32_t place) const;
  [[nodiscard]] static std::uint32_t escaped(const Term& term, std::uint32_t i) noexcept;

  Stored stored_;  // of a segment that was made here: what it owns, and no packed lists
  Rows own_;
  std::vector<std::uint32_t> own_counts_;
  std::uint64_t n_postings_ = 0;
  Norms norms_;
  // By place. Each list is in a block of its own, or many are in one of `blocks_`.
  mutable std::unique_ptr<ListPlace[]> lists_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  mutable std::atomic<std::size_t> made_bytes_{0};  // of lists, and of the terms of rows
  // ~ of the state that first lacks the row: zeros, which cost nothing until written, are alive.
  std::unique_ptr<StateNumber[], Free> deleted_;
  TermPlaces places_;
  // By place: when its rows were deleted; empty until they are counted.
  std::vector<AppendArray<StateNumber>> deaths_;
  // Rows that were deleted before that was counted; states before `counted_from_` count by it.
  AppendArray<Death> uncounted_;
  std::atomic<StateNumber> counted_from_{kAlive};
  std::atomic<const RowTerms*> row_terms_{nullptr};  // null: not made yet
  // Of the writer.
  std::uint64_t n_dead_postings_ = 0;
  std::uint32_t n_dead_rows_ = 0;
};

}  // namespace spector
