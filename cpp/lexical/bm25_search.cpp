// Searching one state of a BM25 index.
//
// Scores are defined as the float32 sums, in query order, of what kernels/bm25.hpp computes for
// each posting. Segments are worked through in windows of kernels::kWindow rows in one of two ways:
//
//  - exact: the contributions themselves are summed for all postings of the window, and the sums
//    that reach the threshold (the k-th best score so far) become hits;
//  - bounded: upper bounds of the contributions are summed as 16-bit integers, which is much
//    faster, and only rows whose bound reaches the threshold are scored. Lists that cannot reach
//    the threshold together are not summed: in them only the rows are looked up that others leave
//    over. A window whose highest possible sum is below the threshold is skipped.
//
// Both give the same hits with the same bits. Exact pays where k is not small beside the number of
// postings.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/dispatch.hpp"
#include "lexical/bm25_index.hpp"

namespace spector {
namespace {

using kernels::kWindow;

// A query term under the statistics of the state.
struct Term {
  std::uint32_t number;
  std::uint32_t n;
  double query_weight;
  double idf;
  float weight;
};

struct LengthNorm {
  float c0;
  float c1;
};

// The one place where a single contribution is computed: the kernels' operations in their order.
float contribution(float weight, std::uint32_t f, std::uint32_t length, LengthNorm norm) noexcept {
  const auto real = static_cast<float>(f);
  return weight * real / (real + (norm.c0 + norm.c1 * static_cast<float>(length)));
}

double average_length(const Bm25State& state) noexcept {
  return state.n_documents == 0
             ? 0.0
             : static_cast<double>(state.total_length) / static_cast<double>(state.n_documents);
}

LengthNorm length_norm(const Bm25State& state) noexcept {
  const double average = average_length(state);
  return {static_cast<float>(state.k1 * (1 - state.b)),
          average > 0 ? static_cast<float>(state.k1 * state.b / average) : 0.0F};
}

// Calls visit(segment, place) for each segment that a term has a place in.
template <class Visit>
void for_each_list(const Bm25State& state, std::span<const QueryTerm> query, const Visit& visit) {
  for (const Segment* segment : state.segments) {
    for (const QueryTerm& term : query) {
      const std::uint32_t place = segment->place(term.term);
      if (place != Segment::kNone) visit(*segment, place);
    }
  }
}

// Terms with live documents, duplicates joined, in order of first appearance.
std::vector<Term> known_terms(const Bm25State& state, const EpochDomain::Pin& pin,
                              std::span<const QueryTerm> query) {
  // Of a query among others nothing is in a cache.
  for (const Segment* segment : state.segments) {
    for (const QueryTerm& term : query) segment->prefetch_place(term.term);
  }
  for_each_list(state, query,
                [](const Segment& segment, std::uint32_t place) { segment.prefetch_list(place); });
  std::vector<Term> terms;
  terms.reserve(query.size());
  const auto documents = static_cast<double>(state.n_documents);
  const auto add = [&](const QueryTerm& term) {
    const std::uint32_t n = document_frequency(state, pin, term.term);
    if (n > 0) terms.push_back({term.term, n, term.weight, 0, 0});
  };
  if (query.size() <= 32) {
    for (const QueryTerm& term : query) {
      const auto at = std::find_if(terms.begin(), terms.end(),
                                   [&](const Term& other) { return other.number == term.term; });
      if (at != terms.end()) {
        at->query_weight += term.weight;
      } else {
        add(term);
      }
    }
  } else {  // the same in n log n
    std::vector<std::pair<QueryTerm, std::uint32_t>> order;
    order.reserve(query.size());
    for (std::uint32_t i = 0; i < query.size(); ++i) order.emplace_back(query[i], i);
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first.term, a.second) < std::pair(b.first.term, b.second);
    });
    std::size_t kept = 0;
    for (const auto& [term, first] : order) {
      if (kept > 0 && order[kept - 1].first.term == term.term) {
        order[kept - 1].first.weight += term.weight;
      } else {
        order[kept++] = {term, first};
      }
    }
    order.resize(kept);
    std::sort(order.begin(), order.end(),
              [](const auto& a, const auto& b) { return a.second < b.second; });
    for (const auto& [term, first] : order) add(term);
  }
  for_each_list(state, query,
                [](const Segment& segment, std::uint32_t place) { segment.prefetch_term(place); });
  for (Term& term : terms) {
    const auto n = static_cast<double>(term.n);
    term.idf = std::log1p((documents - n + 0.5) / (n + 0.5));
    term.weight = static_cast<float>(term.idf * (state.k1 + 1) * term.query_weight);
  }
  return terms;
}

// Beyond so many terms in a query all are scored exactly.
constexpr std::size_t kMostLists = 256;
// What the row of a posting costs to look at, in rows of a window that are all looked at.
constexpr std::size_t kVisitCost = 8;

// A posting of a row whose score is wanted.
struct Match {
  std::uint32_t found;    // the row's place in Scratch::found
  std::uint32_t posting;  // of the list
  std::uint32_t list;
};

// A query term's postings in a segment, window w in [starts[w], starts[w + 1]).
struct List {
  Segment::Term kept;
  float weight;
  const std::uint32_t* starts = nullptr;
  const std::uint16_t* offsets = nullptr;
  const std::uint8_t* bounds = nullptr;
  const std::uint8_t* maxima = nullptr;
  // By part of all windows, where these have several.
  const std::uint16_t* part_starts = nullptr;
  const std::uint8_t* part_maxima = nullptr;
  const std::uint16_t* table = nullptr;  // bound to integer, up to the highest of all
  std::uint8_t highest_bound = 0;
  std::uint32_t highest = 0;  // as integer
};

// A candidate that is scored when all are known.
struct Kept {
  std::uint32_t row;
  std::uint16_t bound;
};

// Room for the work of one search.
struct Scratch {
  // Of one window.
  alignas(64) std::array<std::uint16_t, kWindow> sums{};  // zeros between uses
  alignas(64) std::array<float, kWindow> scores{};        // zeros between uses
  std::array<std::uint16_t, kWindow + 1> rows;            // of candidates, in the window
  std::array<std::uint16_t, kWindow> bounds;              // of candidates
  std::array<std::uint16_t, kWindow> in_rows;
  std::array<std::uint16_t, kWindow> in_list;
  std::array<std::uint32_t, kWindow + 1> reached;
  std::array<float, kWindow + 1> reached_scores;
  // Of one segment.
  std::vector<std::array<std::uint16_t, 256>> tables;
  std::vector<std::uint16_t> offsets;  // of terms of few rows, as terms of many have them
  std::vector<std::uint32_t> starts;
  std::vector<std::uint8_t> maxima;
  std::vector<std::uint32_t> highest;  // sums of bounds by window
  std::vector<std::uint32_t> found;    // rows to be scored
  std::vector<float> scores_found;
  std::vector<Match> matches;
  std::vector<List> lists;  // in query order
  std::vector<const List*> by_highest;
  std::vector<Kept> kept;  // by window

  [[nodiscard]] std::size_t vector_bytes() const noexcept {
    const auto bytes = []<class... T>(const std::vector<T>&... vectors) {
      return (std::size_t{0} + ... + (vectors.capacity() * sizeof(T)));
    };
    return bytes(tables, offsets, starts, maxima, highest, found, scores_found, matches, lists,
                 by_highest, kept);
  }
};

// The room of a thread, which keeps it for its next search unless that one was large.
class ScratchLoan {
 public:
  ScratchLoan() : scratch_(std::move(kept())) {
    if (scratch_ == nullptr) scratch_ = std::make_unique<Scratch>();
  }
  ScratchLoan(const ScratchLoan&) = delete;
  ScratchLoan& operator=(const ScratchLoan&) = delete;
  ScratchLoan(ScratchLoan&&) = delete;
  ScratchLoan& operator=(ScratchLoan&&) = delete;
  ~ScratchLoan() = default;

  [[nodiscard]] Scratch& operator*() noexcept { return *scratch_; }
  // After a search that has ended well: one that threw may leave sums behind.
  void give_back() noexcept {
    if (scratch_->vector_bytes() <= kMostKept) kept() = std::move(scratch_);
  }

 private:
  static constexpr std::size_t kMostKept = std::size_t{1} << 20;
  static std::unique_ptr<Scratch>& kept() noexcept {
    static thread_local std::unique_ptr<Scratch> scratch;
    return scratch;
  }

  std::unique_ptr<Scratch> scratch_;
};

// True if k rows of the term in the segment are alive and have a part of at least `least` in a
// score. Only rows with this bound are looked at.
bool has_live_rows(const Bm25State& state, const Segment& segment, const Segment::Term& kept,
                   float weight, LengthNorm norm, std::uint8_t bound, float least, std::size_t k,
                   Scratch& scratch) {
  const auto counts = [&](std::uint32_t row, std::uint32_t posting) {
    return segment.alive(row, state.number) &&
           contribution(weight, Segment::frequency(kept, posting), segment.lengths()[row], norm) >=
               least;
  };
  const std::uint8_t* bounds = Segment::bounds(kept);
  std::size_t found = 0;
  if (kept.windows == Segment::kNone) {
    return Segment::with_rows(kept, [&](const auto* rows) {
      for (std::uint32_t i = 0; i < kept.count && found < k; ++i) {
        found += bounds[i] >= bound && counts(rows[i], i) ? 1 : 0;
      }
      return found >= k;
    });
  }
  const kernels::Table& simd = kernels::active();
  const std::uint32_t* starts = Segment::window_starts(kept);
  const std::uint8_t* maxima = Segment::window_maxima(kept);
  for (std::uint32_t window = 0; window < kept.windows && found < k; ++window) {
    if (maxima[window] < bound) continue;
    const std::uint32_t begin = starts[window];
    const std::size_t n =
        simd.collect_bounds(bounds + begin, starts[window + 1] - begin, bound, scratch.rows.data());
    for (std::size_t i = 0; i < n && found < k; ++i) {
      const std::uint32_t posting = begin + scratch.rows[i];
      const std::uint32_t offset = Segment::offsets(kept)[posting];
      found += counts(static_cast<std::uint32_t>(window * kWindow) + offset, posting) ? 1 : 0;
    }
  }
  return found >= k;
}

// A score that the k-th best hit is sure to reach: each of the k best rows of one term has at least
// the term's own part. Where deleted rows may be among them the best of those that are left are
// looked for.
float sure_threshold(const Bm25State& state, const EpochDomain::Pin& pin,
                     std::span<const Term> terms, LengthNorm norm, std::size_t k,
                     Scratch& scratch) {
  struct Guess {
    float least;
    const Segment* segment;
    Segment::Term kept;
    float weight;
    std::uint8_t bound;
  };
  constexpr std::size_t kMostGuesses = 64;
  std::array<Guess, kMostGuesses> guesses;
  std::size_t n_guesses = 0;
  float sure = 0;
  const double average = average_length(state);
  for (const Segment* segment : state.segments) {
    const auto factor = static_cast<float>(segment->best_factor(average));
    for (const Term& term : terms) {
      const std::uint32_t place = segment->place(term.number);
      if (place == Segment::kNone) continue;
      const Segment::Term kept = segment->term(place);
      const std::uint64_t dead = segment->dead(place, state.number, pin);
      for (std::size_t i = 0; i < std::size(Segment::kBestDepths); ++i) {
        const std::size_t depth = Segment::kBestDepths[i];
        // More than the rounding of all the floats involved.
        const float least =
            term.weight * factor * (static_cast<float>(kept.best[i]) / 255.0F) * 0.9999F;
        if (depth > kept.count || least <= sure) break;
        if (depth >= k + dead) {
          sure = least;
          break;
        }
        // As many as can be expected to be alive.
        if (depth * (kept.count - dead) >= k * kept.count && n_guesses < kMostGuesses) {
          guesses[n_guesses++] = {least, segment, kept, term.weight, kept.best[i]};
        }
      }
    }
  }
  const auto end = guesses.begin() + static_cast<std::ptrdiff_t>(n_guesses);
  std::sort(guesses.begin(), end, [](const Guess& x, const Guess& y) { return x.least > y.least; });
  // On the way to nothing they cost more than they may save; each takes k rows anywhere in memory.
  const std::size_t most_tries = k <= 100 ? 4 : 1;
  for (std::size_t i = 0; i < std::min(n_guesses, most_tries) && guesses[i].least > sure; ++i) {
    const Guess& guess = guesses[i];
    if (has_live_rows(state, *guess.segment, guess.kept, guess.weight, norm, guess.bound,
                      guess.least, k, scratch)) {
      return guess.least;
    }
  }
  return sure;
}

// One segment's part of a search.
class SegmentSearch {
 public:
  SegmentSearch(const Bm25State& state, const Segment& segment, std::span<const Term> terms,
                LengthNorm norm, const SlotSet* allow, Scratch& scratch, TopK& top)
      : state_(state),
        segment_(segment),
        norm_(norm),
        allow_(allow),
        scratch_(scratch),
        top_(top),
        lists_(scratch.lists),
        by_highest_(scratch.by_highest),
        kept_(scratch.kept) {
    lists_.clear();
    kept_.clear();
    for (const Term& term : terms) {
      const std::uint32_t place = segment.place(term.number);
      if (place == Segment::kNone) continue;
      lists_.push_back({.kept = segment.term(place), .weight = term.weight});
      const Segment::Term& kept = lists_.back().kept;
      n_postings_ += kept.count;
      __builtin_prefetch(Segment::window_maxima(kept));
      const std::uint32_t first =
          kept.windows == Segment::kNone ? kept.count : Segment::window_starts(kept)[1];
      prefetch(Segment::offsets(kept), Segment::bounds(kept), first);
    }
  }

  void run(std::size_t k) {
    if (lists_.empty()) return;
    add_windows();
    const bool keep = k > kMostAtOnce;
    // Where a threshold is known about as many rows reach it as the segment has of all.
    const std::uint64_t likely =
        top_.threshold() > 0 ? k * std::uint64_t{segment_.n_rows()} / state_.n_documents : k;
    if (lists_.size() > kMostLists || (keep && likely * lists_.size() * kRowCost > n_postings_)) {
      for (std::uint32_t window = 0; window < segment_.n_windows(); ++window) exact_window(window);
      return;
    }
    make_tables();
    if (keep) counts_.fill(0);
    std::uint32_t threshold = 0;
    for (std::uint32_t window = 0; window < segment_.n_windows(); ++window) {
      if (threshold != bound_threshold()) {
        threshold = bound_threshold();
        divide(threshold);
      }
      if (scratch_.highest[window] < threshold) continue;
      std::size_t found = candidates(window, threshold);
      if (found == 0) continue;
      if (keep) {
        keep_candidates(window, found, k);
      } else {
        if (found >= kMany && found > k) found = score_best(window, found, k);
        find_postings(window, found);
        if (scratch_.found.size() < kBatch) continue;
        score_found();
        top_.cut();
      }
    }
    if (keep) {
      score_kept();
    } else {
      score_found();
      top_.cut();
    }
  }

  // Scores single rows: for filters that let few through.
  void score_rows(std::span<const std::uint32_t> slots) {
    if (lists_.empty()) return;
    for (const std::uint32_t slot : slots) {
      const std::uint32_t row = segment_.find(slot);
      if (row == Segment::kNone || !segment_.alive(row, state_.number)) continue;
      const float score = score_of(row);
      if (score > 0) top_.offer(score, slot);
    }
  }

 private:
  // Asks for the first n postings from there. Memory ahead of a list comes by itself only once some
  // of the list has been read, which in a small segment is all of it.
  static void prefetch(const std::uint16_t* offsets, const std::uint8_t* bounds,
                       std::size_t n) noexcept {
    constexpr std::size_t kLine = 64;  // bytes that come together
    for (std::size_t i = 0; i < n; i += kLine / sizeof *offsets) __builtin_prefetch(offsets + i);
    for (std::size_t i = 0; i < n; i += kLine) __builtin_prefetch(bounds + i);
  }

  // Rows of the window, a multiple of 32.
  [[nodiscard]] std::size_t width(std::uint32_t window) const noexcept {
    const std::size_t rows = segment_.n_rows() - std::size_t{window} * kWindow;
    return std::min<std::size_t>(kWindow, (rows + 31) / 32 * 32);
  }

  [[nodiscard]] bool wanted(std::uint32_t row) const noexcept {
    return segment_.alive(row, state_.number) &&
           (allow_ == nullptr || allow_->contains(segment_.slot(row)));
  }

  [[nodiscard]] float score_of(std::uint32_t row) const noexcept {
    float score = 0;
    const std::uint32_t length = segment_.lengths()[row];
    for (const List& list : lists_) {
      const std::uint32_t f = segment_.frequency_at(list.kept, row);
      if (f > 0) score += contribution(list.weight, f, length, norm_);
    }
    return score;
  }

  // Finds the windows of the lists, making them for terms of few rows.
  void add_windows() {
    const std::uint32_t n_windows = segment_.n_windows();
    std::size_t n_rows = 0;
    std::size_t n_lists = 0;
    for (const List& list : lists_) {
      if (list.kept.windows != Segment::kNone) continue;
      n_rows += list.kept.count;
      ++n_lists;
    }
    scratch_.offsets.resize(n_rows + kernels::kReadBeyond);
    scratch_.starts.assign(n_lists * (n_windows + std::size_t{1}), 0);
    scratch_.maxima.assign(n_lists * std::size_t{n_windows}, 0);
    std::uint16_t* offsets = scratch_.offsets.data();
    std::uint32_t* starts = scratch_.starts.data();
    std::uint8_t* maxima = scratch_.maxima.data();
    for (List& list : lists_) {
      const Segment::Term& term = list.kept;
      list.bounds = segment_.bounds(term);
      if (term.windows != Segment::kNone) {
        list.starts = segment_.window_starts(term);
        list.offsets = segment_.offsets(term);
        list.maxima = segment_.window_maxima(term);
        if (Segment::n_parts(term.part_bits) > 0) {
          list.part_starts = segment_.part_starts(term);
          list.part_maxima = segment_.part_maxima(term);
        }
        continue;
      }
      list.starts = starts;
      list.offsets = offsets;
      list.maxima = maxima;
      Segment::for_each_row(term, [&](std::uint32_t row, std::uint32_t i) {
        const std::size_t window = row / kWindow;
        ++starts[window + 1];
        offsets[i] = static_cast<std::uint16_t>(row % kWindow);
        maxima[window] = std::max(maxima[window], list.bounds[i]);
      });
      for (std::uint32_t window = 0; window < n_windows; ++window) {
        starts[window + 1] += starts[window];
      }
      starts += n_windows + 1;
      offsets += term.count;
      maxima += n_windows;
    }
  }

  void exact_window(std::uint32_t window) {
    const auto first = static_cast<std::uint32_t>(window * kWindow);
    const std::size_t rows = width(window);
    std::size_t n = 0;
    for (const List& list : lists_) n += list.starts[window + 1] - list.starts[window];
    if (n == 0) return;
    float* sums = scratch_.scores.data();
    const kernels::Table& simd = kernels::active();
    for (const List& list : lists_) add_exact(simd, list, window, sums);
    const auto offer = [&](std::uint32_t at, float score) {
      if (wanted(first + at)) top_.offer(score, segment_.slot(first + at));
    };
    if (n * kVisitCost < rows) {
      // Looks at the rows of the postings only; the first look takes the sum.
      const float threshold = top_.threshold();
      std::uint32_t* reached = scratch_.reached.data();
      float* scores = scratch_.reached_scores.data();
      std::size_t found = 0;
      for (const List& list : lists_) {
        const std::uint32_t end = list.starts[window + 1];
        for (std::uint32_t j = list.starts[window]; j < end; ++j) {
          const std::uint16_t row = list.offsets[j];
          reached[found] = row;
          scores[found] = sums[row];
          found += sums[row] >= threshold ? 1 : 0;
          sums[row] = 0;
        }
      }
      for (std::size_t i = 0; i < found; ++i) offer(reached[i], scores[i]);
      return;
    }
    const std::size_t found =
        simd.collect_at_least(sums, rows, top_.threshold(), scratch_.reached.data());
    for (std::size_t i = 0; i < found; ++i) offer(scratch_.reached[i], sums[scratch_.reached[i]]);
    std::fill_n(sums, rows, 0.0F);
  }

  void add_exact(const kernels::Table& simd, const List& list, std::uint32_t window,
                 float* sums) const {
    const std::uint32_t begin = list.starts[window];
    const std::uint32_t end = list.starts[window + 1];
    const std::uint32_t* lengths = segment_.lengths().data() + std::size_t{window} * kWindow;
    if (list.kept.n_escapes == 0) {
      simd.bm25_accumulate_window({list.offsets + begin, segment_.frequencies(list.kept) + begin,
                                   std::size_t{end} - begin, list.weight, norm_.c0, norm_.c1},
                                  lengths, sums);
      return;
    }
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::uint16_t offset = list.offsets[i];
      sums[offset] +=
          contribution(list.weight, segment_.frequency(list.kept, i), lengths[offset], norm_);
    }
  }

  // Bounds as integers, per term, rounded up, so that all sums stay within 16 bits.
  void make_tables() {
    const std::uint32_t n_windows = segment_.n_windows();
    float weights = 0;
    for (const List& list : lists_) weights += list.weight;
    weights_ = weights;
    upper_factor_ = static_cast<float>(segment_.bound_factor(average_length(state_)));
    scale_ = (65534.0F - 2 * static_cast<float>(lists_.size())) / (weights * upper_factor_);
    scratch_.tables.resize(lists_.size());
    scratch_.highest.assign(n_windows, 0);
    by_highest_.clear();
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      List& list = lists_[i];
      std::array<std::uint16_t, 256>& table = scratch_.tables[i];
      // In 1/65536. An entry is less than 1.01 above its bound.
      const auto step = static_cast<std::uint32_t>(
          std::ceil(list.weight * upper_factor_ * scale_ / 255.0F * 65536.0F));
      const std::uint8_t highest = *std::max_element(list.maxima, list.maxima + n_windows);
      for (std::uint32_t bound = 0; bound <= highest; ++bound) {
        table[bound] = static_cast<std::uint16_t>((bound * step + 65535) >> 16);
      }
      list.table = table.data();
      for (std::uint32_t window = 0; window < n_windows; ++window) {
        scratch_.highest[window] += table[list.maxima[window]];
      }
      list.highest_bound = highest;
      list.highest = table[highest];
      by_highest_.push_back(&list);
    }
    std::sort(by_highest_.begin(), by_highest_.end(),
              [](const List* x, const List* y) { return x->highest > y->highest; });
  }

  // A row whose score reaches the threshold has a sum of bounds of at least this.
  [[nodiscard]] std::uint32_t bound_threshold() const noexcept {
    const float scaled = std::floor(top_.threshold() * scale_ * 0.9999F);
    return static_cast<std::uint32_t>(std::clamp(scaled, 1.0F, 65535.0F));
  }

  // Lists that cannot reach the threshold together are not read: rows that are in no other list
  // cannot reach it either, and rows that are get looked up.
  void divide(std::uint32_t threshold) noexcept {
    std::uint64_t n_postings = 0;
    for (const List* list : by_highest_) n_postings += list->kept.count;
    n_read_ = by_highest_.size();
    rest_ = 0;
    while (n_read_ > 0 && rest_ + by_highest_[n_read_ - 1]->highest < threshold) {
      const List& list = *by_highest_[--n_read_];
      rest_ += list.highest;
      n_postings -= list.kept.count;
    }
    while (n_read_ > 0 && n_read_ < by_highest_.size() &&
           by_highest_[n_read_]->kept.count < kLookUpCost * n_postings) {
      const List& list = *by_highest_[n_read_++];
      rest_ -= list.highest;
      n_postings += list.kept.count;
    }
    if (n_read_ != 1) return;
    const std::uint16_t* table = by_highest_[0]->table;
    const std::uint16_t* end = table + by_highest_[0]->highest_bound + 1;
    lowest_ = static_cast<std::size_t>(std::lower_bound(table, end, threshold - rest_) - table);
  }

  // Finds the wanted rows of a window whose sum of bounds reaches the threshold: returns how many
  // of scratch rows and bounds there are.
  std::size_t candidates(std::uint32_t window, std::uint32_t threshold) {
    std::uint16_t* rows = scratch_.rows.data();
    std::uint16_t* bounds = scratch_.bounds.data();
    std::size_t found = 0;
    const kernels::Table& simd = kernels::active();
    std::uint32_t rest = 0;  // the most that the lists that are looked up can add
    for (std::size_t i = n_read_; i < by_highest_.size(); ++i) {
      rest += by_highest_[i]->table[by_highest_[i]->maxima[window]];
    }
    if (n_read_ == 1) {
      if (lowest_ > 255) return 0;
      const List& list = *by_highest_[0];
      const std::uint32_t begin = list.starts[window];
      const std::uint32_t size = list.starts[window + 1] - begin;
      found =
          simd.collect_bounds(list.bounds + begin, size, static_cast<std::uint8_t>(lowest_), rows);
      for (std::size_t i = 0; i < found; ++i) {
        bounds[i] = list.table[list.bounds[begin + rows[i]]];
        rows[i] = list.offsets[begin + rows[i]];
      }
    } else {
      std::size_t n = 0;
      for (std::size_t i = 0; i < n_read_; ++i) {
        n += by_highest_[i]->starts[window + 1] - by_highest_[i]->starts[window];
      }
      const std::size_t rows_in_window = width(window);
      if (n * kTakeCost < rows_in_window) {
        found = take_few(window, threshold - rest);
      } else {
        for (std::size_t i = 0; i < n_read_; ++i) add_bounds(*by_highest_[i], window);
        found = simd.take_at_least(scratch_.sums.data(), rows_in_window,
                                   static_cast<std::uint16_t>(threshold - rest), rows, bounds);
      }
    }
    if (n_read_ < by_highest_.size() && found > 0) found = within_parts(window, threshold, found);
    for (std::size_t i = n_read_; i < by_highest_.size() && found > 0; ++i) {
      const List& list = *by_highest_[i];
      rest -= list.table[list.maxima[window]];
      const std::uint8_t* list_bounds = list.bounds + list.starts[window];
      for_each_match(list, window, found, [&](std::size_t at, std::uint32_t in_list) {
        bounds[at] = static_cast<std::uint16_t>(bounds[at] + list.table[list_bounds[in_list]]);
      });
      std::size_t kept = 0;
      for (std::size_t at = 0; at < found; ++at) {
        rows[kept] = rows[at];
        bounds[kept] = bounds[at];
        kept += bounds[at] + rest >= threshold ? 1 : 0;
      }
      found = kept;
    }
    const auto first = static_cast<std::uint32_t>(window * kWindow);
    std::size_t kept = 0;
    for (std::size_t at = 0; at < found; ++at) {
      if (!wanted(first + rows[at])) continue;
      rows[kept] = rows[at];
      bounds[kept++] = bounds[at];
    }
    return kept;
  }

  void add_bounds(const List& list, std::uint32_t window) const noexcept {
    const std::uint16_t* table = list.table;
    std::uint16_t* sums = scratch_.sums.data();
    const std::uint16_t* offsets = list.offsets;
    const std::uint8_t* bounds = list.bounds;
    const std::uint32_t end = list.starts[window + 1];
    for (std::uint32_t j = list.starts[window]; j < end; ++j) {
      sums[offsets[j]] = static_cast<std::uint16_t>(sums[offsets[j]] + table[bounds[j]]);
    }
  }

  // What take_at_least does after adding the bounds of the lists that are read, for few postings:
  // looks at their rows only, and gives them in any order.
  std::size_t take_few(std::uint32_t window, std::uint32_t threshold) const {
    std::uint16_t* sums = scratch_.sums.data();
    std::uint16_t* rows = scratch_.rows.data();
    std::size_t found = 0;
    std::uint32_t highest = 0;  // of the sums so far
    for (std::size_t i = n_read_; i-- > 0;) {
      const List& list = *by_highest_[i];
      highest += list.table[list.maxima[window]];
      if (highest < threshold) {
        add_bounds(list, window);
        continue;
      }
      // A row is taken when its sum comes to the threshold. Without a branch, whose outcome no
      // processor can guess.
      const std::uint32_t end = list.starts[window + 1];
      for (std::uint32_t j = list.starts[window]; j < end; ++j) {
        const std::uint16_t row = list.offsets[j];
        const std::uint32_t before = sums[row];
        const std::uint32_t sum = before + list.table[list.bounds[j]];
        sums[row] = static_cast<std::uint16_t>(sum);
        rows[found] = row;
        found += static_cast<std::size_t>(before < threshold) &
                 static_cast<std::size_t>(sum >= threshold);
      }
    }
    for (std::size_t i = 0; i < found; ++i) scratch_.bounds[i] = sums[rows[i]];
    for (std::size_t i = 0; i < n_read_; ++i) {
      const List& list = *by_highest_[i];
      const std::uint32_t end = list.starts[window + 1];
      for (std::uint32_t j = list.starts[window]; j < end; ++j) sums[list.offsets[j]] = 0;
    }
    return found;
  }

  // Keeps those of the first n scratch rows that can reach the threshold by what the lists that are
  // looked up have at most in their parts of the window; returns how many.
  std::size_t within_parts(std::uint32_t window, std::uint32_t threshold, std::size_t n) const {
    std::array<const List*, kMostLists> lists;
    std::size_t n_lists = 0;
    std::uint32_t rest = 0;  // of lists without parts
    for (std::size_t i = n_read_; i < by_highest_.size(); ++i) {
      const List& list = *by_highest_[i];
      if (list.part_maxima != nullptr) {
        lists[n_lists++] = &list;
      } else {
        rest += list.table[list.maxima[window]];
      }
    }
    if (n_lists == 0) return n;
    std::uint16_t* rows = scratch_.rows.data();
    std::uint16_t* bounds = scratch_.bounds.data();
    std::size_t kept = 0;
    for (std::size_t at = 0; at < n; ++at) {
      const std::uint16_t row = rows[at];
      const std::uint16_t bound = bounds[at];
      const std::size_t in_segment = std::size_t{window} * kWindow + row;
      std::uint32_t highest = bound + rest;
      for (std::size_t i = 0; i < n_lists; ++i) {
        highest += lists[i]->table[lists[i]->part_maxima[in_segment >> lists[i]->kept.part_bits]];
      }
      rows[kept] = row;
      bounds[kept] = bound;
      kept += highest >= threshold ? 1 : 0;
    }
    return kept;
  }

  // Calls visit(i, j) for each of the first n scratch rows i that is the list's posting j of the
  // window.
  template <class Visit>
  void for_each_match(const List& list, std::uint32_t window, std::size_t n,
                      const Visit& visit) const {
    const std::uint32_t begin = list.starts[window];
    const std::uint16_t one_part[2] = {0,
                                       static_cast<std::uint16_t>(list.starts[window + 1] - begin)};
    kernels::Bm25Offsets offsets{list.offsets + begin, one_part, Segment::kWindowBits};
    if (list.part_starts != nullptr) {
      offsets.part_bits = list.kept.part_bits;
      offsets.part_starts = list.part_starts + window * (Segment::n_parts(offsets.part_bits) + 1);
    }
    const std::size_t found = kernels::active().find_offsets(
        offsets, scratch_.rows.data(), n, scratch_.in_rows.data(), scratch_.in_list.data());
    for (std::size_t i = 0; i < found; ++i) visit(scratch_.in_rows[i], scratch_.in_list[i]);
  }

  // Finds the postings of the first n scratch rows and has what their scores need brought near:
  // mostly none of it is in a cache, and many such reads take hardly longer than one.
  void find_postings(std::uint32_t window, std::size_t n) {
    const auto first = static_cast<std::uint32_t>(window * kWindow);
    const auto before = static_cast<std::uint32_t>(scratch_.found.size());
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t row = first + scratch_.rows[i];
      scratch_.found.push_back(row);
      __builtin_prefetch(segment_.lengths().data() + row);
      __builtin_prefetch(segment_.slots().data() + row);
    }
    std::vector<Match>& matches = scratch_.matches;
    std::size_t n_matches = matches.size();
    const std::size_t room = n_matches + n * lists_.size();
    if (room > matches.size()) matches.resize(room);
    for (std::uint32_t i = 0; i < lists_.size(); ++i) {
      const List& list = lists_[i];
      const std::uint32_t begin = list.starts[window];
      const std::uint8_t* frequencies = segment_.frequencies(list.kept) + begin;
      for_each_match(list, window, n, [&](std::uint32_t at, std::uint32_t in_list) {
        __builtin_prefetch(frequencies + in_list);
        matches[n_matches++] = {before + at, begin + in_list, i};
      });
    }
    matches.resize(n_matches);
  }

  // Of many candidates, those with the k highest bounds are scored at once: they give the threshold
  // for the others. Returns how many of these can still reach it, and keeps them.
  std::size_t score_best(std::uint32_t window, std::size_t n, std::size_t k) {
    std::uint16_t* rows = scratch_.rows.data();
    std::uint16_t* bounds = scratch_.bounds.data();
    std::uint32_t low = 0;  // at least k reach it; fewer than k reach high
    std::uint32_t high = 65536;
    while (high - low > kStep) {
      const std::uint32_t middle = (low + high) / 2;
      std::size_t above = 0;
      for (std::size_t i = 0; i < n; ++i) above += bounds[i] >= middle ? 1 : 0;
      (above >= k ? low : high) = middle;
    }
    std::size_t best = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (bounds[i] < low) continue;
      std::swap(rows[i], rows[best]);
      std::swap(bounds[i], bounds[best++]);
    }
    find_postings(window, best);
    score_found();
    top_.cut();
    const std::uint32_t threshold = bound_threshold();
    std::size_t kept = 0;
    for (std::size_t i = best; i < n; ++i) {
      rows[kept] = rows[i];
      bounds[kept] = bounds[i];
      kept += bounds[i] >= threshold ? 1 : 0;
    }
    return kept;
  }

  // Scores the rows found. The matches of a row come in query order.
  void score_found() {
    scratch_.scores_found.assign(scratch_.found.size(), 0.0F);
    const std::uint32_t* lengths = segment_.lengths().data();
    for (const Match& match : scratch_.matches) {
      const List& list = lists_[match.list];
      scratch_.scores_found[match.found] +=
          contribution(list.weight, segment_.frequency(list.kept, match.posting),
                       lengths[scratch_.found[match.found]], norm_);
    }
    for (std::size_t i = 0; i < scratch_.found.size(); ++i) {
      top_.offer(scratch_.scores_found[i], segment_.slot(scratch_.found[i]));
    }
    scratch_.found.clear();
    scratch_.matches.clear();
  }

  // Keeps candidates for later. Once k of them are known to score at least so much, the threshold
  // rises to it.
  void keep_candidates(std::uint32_t window, std::size_t n, std::size_t k) {
    for (std::size_t i = 0; i < n; ++i) {
      kept_.push_back(
          {static_cast<std::uint32_t>(window * kWindow) + scratch_.rows[i], scratch_.bounds[i]});
      ++counts_[scratch_.bounds[i] / kStep];
      above_ += scratch_.bounds[i] / kStep >= best_step_ ? 1 : 0;
    }
    if (above_ < k) return;
    while (above_ - counts_[best_step_] >= k) above_ -= counts_[best_step_++];
    top_.raise(sure_score(static_cast<float>(best_step_ * kStep)));
  }

  // A row with such a sum of bounds has at least this score: each bound is less than 1/255 above
  // the impact, and each table entry less than 2 above its bound.
  [[nodiscard]] float sure_score(float bound) const noexcept {
    const double average = average_length(state_);
    const auto lower_factor = static_cast<float>(std::min(1.0, average / segment_.bound_average()));
    const float sum = (bound - 2 * static_cast<float>(lists_.size())) / (scale_ * upper_factor_) -
                      weights_ / 255.0F;
    return sum * lower_factor * 0.9999F;
  }

  void score_kept() {
    // First those that are likely to be hits: they give the threshold for the others.
    const std::uint32_t best = best_step_ * kStep;
    score_kept(best, 65536);
    top_.cut();
    if (best > bound_threshold()) score_kept(bound_threshold(), best);
  }

  // Scores the candidates kept with low <= bound < high.
  void score_kept(std::uint32_t low, std::uint32_t high) {
    for (std::size_t i = 0; i < kept_.size();) {
      const auto window = static_cast<std::uint32_t>(kept_[i].row / kWindow);
      std::size_t n = 0;
      for (; i < kept_.size() && kept_[i].row / kWindow == window; ++i) {
        scratch_.rows[n] = static_cast<std::uint16_t>(kept_[i].row % kWindow);
        n += kept_[i].bound >= low && kept_[i].bound < high ? 1 : 0;
      }
      if (n > 0) find_postings(window, n);
    }
    score_found();
  }

  // Up to this k candidates are scored as they come, so many together. For a larger k they are kept
  // until all are known: their bounds alone raise the threshold, and most are never scored.
  static constexpr std::size_t kMostAtOnce = 128;
  static constexpr std::size_t kBatch = 16;
  static constexpr std::size_t kMany = 32;
  // A list is looked up if it is so many times longer than all that are summed.
  static constexpr std::uint32_t kLookUpCost = 4;
  // What a posting costs to look at twice, in rows of a window that are all looked at.
  static constexpr std::size_t kTakeCost = 12;
  // What a row costs to score, per list, in postings summed exactly.
  static constexpr std::size_t kRowCost = 2;
  // Bounds of kept candidates are counted in steps.
  static constexpr std::uint32_t kStep = 64;

  const Bm25State& state_;
  const Segment& segment_;
  LengthNorm norm_;
  const SlotSet* allow_;
  Scratch& scratch_;
  TopK& top_;
  std::vector<List>& lists_;
  std::vector<const List*>& by_highest_;
  std::vector<Kept>& kept_;
  std::size_t n_read_ = 0;  // of by_highest_; the others are looked up
  std::uint32_t rest_ = 0;  // the most that those can add
  std::size_t lowest_ = 0;  // bound of a candidate, if one list is read
  std::uint64_t n_postings_ = 0;
  float upper_factor_ = 1;
  float scale_ = 1;
  float weights_ = 0;
  std::array<std::uint32_t, 65536 / kStep> counts_;  // of kept_, by step
  std::uint32_t best_step_ = 0;  // the highest that k of kept_ reach; 0 until there are as many
  std::uint64_t above_ = 0;      // of kept_ that reach it
};

// The head's part: always exact.
void search_head(const Bm25State& state, const EpochDomain::Pin& pin, std::span<const Term> terms,
                 LengthNorm norm, const SlotSet* allow, Scratch& scratch, TopK& top) {
  const Head& head = *state.head;
  struct Cursor {
    Head::View postings;
    std::size_t begin;  // of the window
    std::size_t end;
    float weight;
  };
  std::vector<Cursor> cursors;
  for (const Term& term : terms) {
    const Head::View postings = head.postings(term.number, state.head_rows, pin);
    if (!postings.rows.empty()) cursors.push_back({postings, 0, 0, term.weight});
  }
  if (cursors.empty()) return;
  const kernels::Table& simd = kernels::active();
  const std::uint32_t* lengths = head.lengths(pin).data();
  const std::uint32_t* slots = head.slots(pin).data();
  float* sums = scratch.scores.data();
  std::uint32_t* reached = scratch.reached.data();
  float* scores = scratch.reached_scores.data();
  for (std::uint32_t first = 0; first < state.head_rows; first += kWindow) {
    const std::uint32_t last = std::min<std::uint32_t>(first + kWindow, state.head_rows);
    const std::size_t width = (std::size_t{last} - first + 15) / 16 * 16;
    std::size_t n = 0;
    for (Cursor& cursor : cursors) {
      const auto& rows = cursor.postings.rows;
      cursor.begin = cursor.end;
      const auto from = rows.begin() + static_cast<std::ptrdiff_t>(cursor.begin);
      cursor.end =
          static_cast<std::size_t>(std::lower_bound(from, rows.end(), last) - rows.begin());
      if (cursor.begin == cursor.end) continue;
      n += cursor.end - cursor.begin;
      simd.bm25_accumulate({&*from, cursor.postings.frequencies + cursor.begin,
                            cursor.end - cursor.begin, cursor.weight, norm.c0, norm.c1},
                           lengths, first, sums);
    }
    if (n == 0) continue;
    const float threshold = top.threshold();
    std::size_t found = 0;
    if (n * kVisitCost < width) {  // as in an exact window of a segment
      for (const Cursor& cursor : cursors) {
        for (std::size_t i = cursor.begin; i < cursor.end; ++i) {
          float& sum = sums[cursor.postings.rows[i] - first];
          reached[found] = cursor.postings.rows[i];
          scores[found] = sum;
          found += sum >= threshold ? 1 : 0;
          sum = 0;
        }
      }
    } else {
      found = simd.collect_at_least(sums, width, threshold, reached);
      for (std::size_t i = 0; i < found; ++i) {
        scores[i] = sums[reached[i]];
        reached[i] += first;
      }
      std::fill_n(sums, width, 0.0F);
    }
    for (std::size_t i = 0; i < found; ++i) {
      const std::uint32_t row = reached[i];
      if (head.alive(row, state.number) && (allow == nullptr || allow->contains(slots[row]))) {
        top.offer(scores[i], slots[row]);
      }
    }
  }
}

}  // namespace

std::uint32_t document_frequency(const Bm25State& state, const EpochDomain::Pin& pin,
                                 std::uint32_t term) {
  std::uint32_t n = state.head->live(term, state.head_rows, state.number, pin);
  for (const Segment* segment : state.segments) {
    const std::uint32_t place = segment->place(term);
    if (place != Segment::kNone) n += segment->live(place, state.number, pin);
  }
  return n;
}

std::vector<Hit> search(const Bm25State& state, const EpochDomain::Pin& pin,
                        std::span<const QueryTerm> query, std::size_t k, const SlotSet* allow) {
  const std::vector<Term> terms = known_terms(state, pin, query);
  if (terms.empty() || (allow != nullptr && allow->size() == 0)) return {};
  const LengthNorm norm = length_norm(state);
  TopK top(std::min<std::size_t>(k, state.n_documents));
  ScratchLoan scratch;
  // A filter may leave out the rows that the sure threshold counts on.
  if (allow == nullptr) top.raise(sure_threshold(state, pin, terms, norm, k, *scratch));

  // A look-up costs about as much as two hundred postings.
  std::uint64_t work = state.n_documents / 16;
  for (const Term& term : terms) work += term.n;
  const bool few =
      allow != nullptr && allow->size() * (terms.size() + state.segments.size()) * 100 < work;
  for (const Segment* segment : state.segments) {
    SegmentSearch part(state, *segment, terms, norm, allow, *scratch, top);
    if (few) {
      part.score_rows(allow->slots());
    } else {
      part.run(k);
    }
  }
  search_head(state, pin, terms, norm, allow, *scratch, top);
  scratch.give_back();
  return top.take();
}

namespace {

// Calls visit(lengths, row, frequency of a term as a function) where the slot's live row is.
template <class InSegment, class InHead>
void with_row(const Bm25State& state, const EpochDomain::Pin& pin, std::uint32_t slot,
              const InSegment& in_segment, const InHead& in_head) {
  for (const Segment* segment : state.segments) {
    const std::uint32_t row = segment->find(slot);
    if (row != Segment::kNone && segment->alive(row, state.number))
      return in_segment(*segment, row);
  }
  const std::span<const std::uint32_t> slots = state.head->slots(pin).first(state.head_rows);
  for (std::uint32_t row = state.head_rows; row-- > 0;) {
    if (slots[row] == slot && state.head->alive(row, state.number)) return in_head(row);
  }
}

}  // namespace

std::vector<TermScore> explain(const Bm25State& state, const EpochDomain::Pin& pin,
                               std::span<const QueryTerm> query, std::uint32_t slot) {
  std::vector<TermScore> scores;
  const LengthNorm norm = length_norm(state);
  const auto add = [&](const Term& term, std::uint32_t f, std::uint32_t length) {
    if (f == 0) return;
    scores.push_back({term.number, f, term.n, term.idf, length, term.query_weight,
                      contribution(term.weight, f, length, norm)});
  };
  with_row(
      state, pin, slot,
      [&](const Segment& segment, std::uint32_t row) {
        for (const Term& term : known_terms(state, pin, query)) {
          const std::uint32_t place = segment.place(term.number);
          if (place == Segment::kNone) continue;
          add(term, segment.frequency_at(segment.term(place), row), segment.lengths()[row]);
        }
      },
      [&](std::uint32_t row) {
        const std::uint32_t length = state.head->lengths(pin)[row];
        for (const Term& term : known_terms(state, pin, query)) {
          const Head::View postings = state.head->postings(term.number, state.head_rows, pin);
          const auto at = std::lower_bound(postings.rows.begin(), postings.rows.end(), row);
          if (at == postings.rows.end() || *at != row) continue;
          add(term, postings.frequencies[at - postings.rows.begin()], length);
        }
      });
  return scores;
}

bool contains(const Bm25State& state, const EpochDomain::Pin& pin, std::uint32_t slot) noexcept {
  bool found = false;
  with_row(
      state, pin, slot, [&](const Segment&, std::uint32_t) { found = true; },
      [&](std::uint32_t) { found = true; });
  return found;
}

}  // namespace spector
