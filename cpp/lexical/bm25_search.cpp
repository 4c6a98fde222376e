// Searching one state of a BM25 index.
//
// Scores are defined as the float32 sums, in query order, of what kernels/bm25.hpp computes for
// each posting. Segments are worked through in windows of kernels::kWindow rows in one of two ways:
//
//  - exact: the contributions themselves are summed for all postings of the window, and the sums
//    that reach the threshold (the k-th best score so far) become hits;
//  - bounded: upper bounds of the contributions are summed as 16-bit integers, which is much
//    faster, and only rows whose bound reaches the threshold are scored, posting by posting. A
//    window whose highest possible sum is below the threshold is skipped.
//
// Both give the same hits with the same bits. Bounded needs a threshold worth having and pays for
// small k only; without one, windows are exact until there is one.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/dispatch.hpp"
#include "lexical/bm25_index.hpp"

namespace spector {
namespace {

using kernels::kWindow;

// Above this k the bounds let too many rows through.
constexpr std::size_t kMostBounded = 200;

// Better first: higher score, then lower slot (GEN-4).
bool better(const Hit& a, const Hit& b) noexcept {
  return a.score != b.score ? a.score > b.score : a.slot < b.slot;
}

// Keeps the best k of the hits offered: a buffer that is cut to k when full, which also gives the
// score that later hits must reach.
class TopK {
 public:
  explicit TopK(std::size_t k) : k_(k), limit_(k + std::max<std::size_t>(k, 16)) {}

  // Hits below this score cannot enter; equal ones can, by their slot.
  [[nodiscard]] float threshold() const noexcept { return threshold_; }
  [[nodiscard]] bool has_threshold() const noexcept { return threshold_ > kLowest; }

  // The caller knows k documents that score at least this much.
  void raise(float threshold) noexcept { threshold_ = std::max(threshold_, threshold); }

  void offer(const Hit& hit) {
    if (hit.score < threshold_) return;
    hits_.push_back(hit);
    if (hits_.size() >= limit_) cut();
  }

  // Makes the threshold as high as the hits so far allow.
  void cut() {
    if (hits_.size() < k_) return;
    const auto last = hits_.begin() + static_cast<std::ptrdiff_t>(k_ - 1);
    std::nth_element(hits_.begin(), last, hits_.end(), better);
    raise(last->score);
    hits_.resize(k_);
  }

  [[nodiscard]] std::vector<Hit> take() {
    cut();
    std::sort(hits_.begin(), hits_.end(), better);
    return std::move(hits_);
  }

 private:
  static constexpr float kLowest = std::numeric_limits<float>::denorm_min();

  std::size_t k_;
  std::size_t limit_;
  std::vector<Hit> hits_;
  float threshold_ = kLowest;  // only score > 0 (BM25-6)
};

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

// Terms with live documents, duplicates joined, in order of first appearance.
std::vector<Term> known_terms(const Bm25State& state, const EpochDomain::Pin& pin,
                              std::span<const QueryTerm> query) {
  std::vector<Term> terms;
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
  for (Term& term : terms) {
    const auto n = static_cast<double>(term.n);
    term.idf = std::log1p((documents - n + 0.5) / (n + 0.5));
    term.weight = static_cast<float>(term.idf * (state.k1 + 1) * term.query_weight);
  }
  return terms;
}

// A score that the k-th best hit is sure to reach: each of the k best rows of one term has at least
// the term's own part. Deleted rows may be among them, so the depth is k plus their number.
float sure_threshold(const Bm25State& state, const EpochDomain::Pin& pin,
                     std::span<const Term> terms, std::size_t k) {
  float sure = 0;
  const double average = average_length(state);
  for (const Segment* segment : state.segments) {
    const auto factor = static_cast<float>(segment->best_factor(average));
    for (const Term& term : terms) {
      const std::uint32_t place = segment->place(term.number);
      if (place == Segment::kNone) continue;
      const Segment::Term& kept = segment->term(place);
      const std::size_t depth = k + segment->dead(place, state.number, pin);
      for (std::size_t i = 0; i < 3; ++i) {
        if (Segment::kBestDepths[i] < depth) continue;
        sure = std::max(sure, term.weight * factor * (static_cast<float>(kept.best[i]) / 255.0F));
        break;
      }
    }
  }
  return sure * 0.9999F;  // more than the rounding of all the floats involved
}

// One segment's part of a search.
class SegmentSearch {
 public:
  SegmentSearch(const Bm25State& state, const Segment& segment, std::span<const Term> terms,
                LengthNorm norm, const SlotSet* allow, TopK& top)
      : state_(state), segment_(segment), norm_(norm), allow_(allow), top_(top) {
    const auto factor = static_cast<float>(segment.bound_factor(average_length(state)));
    float highest = 0;
    for (const Term& term : terms) {
      const std::uint32_t place = segment.place(term.number);
      if (place == Segment::kNone) continue;
      terms_.push_back({.kept = &segment.term(place), .weight = term.weight});
      highest += term.weight;
    }
    factor_ = factor;
    // Sums of bounds, each rounded up, must stay within 16 bits.
    scale_ = (65535.0F - static_cast<float>(terms_.size()) - 1.0F) / (highest * factor);
    can_bound_ = terms_.size() <= 256;
  }

  void run(std::size_t k) {
    if (terms_.empty()) return;
    const bool bounded = can_bound_ && k <= kMostBounded;
    for (std::uint32_t window = 0; window < segment_.n_windows(); ++window) {
      if (bounded && !top_.has_threshold()) top_.cut();
      if (bounded && top_.has_threshold()) {
        bound_window(window);
      } else {
        exact_window(window);
      }
    }
  }

  // Scores single rows: for filters that let few through.
  void score_rows(std::span<const std::uint32_t> slots) {
    if (terms_.empty()) return;
    for (const std::uint32_t slot : slots) {
      const std::uint32_t row = segment_.find(slot);
      if (row == Segment::kNone || !segment_.alive(row, state_.number)) continue;
      const float score = score_of(row);
      if (score > 0) top_.offer({score, slot});
    }
  }

 private:
  struct Cursor {
    const Segment::Term* kept;
    float weight;
    std::uint32_t position = 0;  // of a term of few rows
    std::uint32_t begin = 0;     // its postings in the present window
    std::uint32_t end = 0;
  };

  // Sets begin and end of the cursor for a window.
  void enter(Cursor& cursor, std::uint32_t window) const noexcept {
    const Segment::Term& term = *cursor.kept;
    if (term.windows != Segment::kNone) {
      const std::uint32_t* starts = segment_.window_starts(term) + window;
      cursor.begin = starts[0];
      cursor.end = starts[1];
      return;
    }
    const std::uint32_t* rows = segment_.sparse_rows(term);
    const std::uint64_t last = (std::uint64_t{window} + 1) * kWindow;
    while (cursor.position < term.count && rows[cursor.position] / kWindow < window) {
      ++cursor.position;
    }
    cursor.begin = cursor.position;
    while (cursor.position < term.count && rows[cursor.position] < last) ++cursor.position;
    cursor.end = cursor.position;
  }

  [[nodiscard]] std::size_t width(std::uint32_t window) const noexcept {
    return std::min<std::size_t>(kWindow, segment_.n_rows() - std::size_t{window} * kWindow);
  }

  [[nodiscard]] bool wanted(std::uint32_t row) const noexcept {
    return segment_.alive(row, state_.number) &&
           (allow_ == nullptr || allow_->contains(segment_.slot(row)));
  }

  [[nodiscard]] float score_of(std::uint32_t row) const noexcept {
    float score = 0;
    const std::uint32_t length = segment_.lengths()[row];
    for (const Cursor& cursor : terms_) {
      const std::uint32_t f = segment_.frequency_at(*cursor.kept, row);
      if (f > 0) score += contribution(cursor.weight, f, length, norm_);
    }
    return score;
  }

  void exact_window(std::uint32_t window) {
    alignas(64) float sums[kWindow];
    std::uint32_t reached[kWindow];
    const auto first = static_cast<std::uint32_t>(window * kWindow);
    const std::size_t rows = (width(window) + 15) / 16 * 16;
    bool any = false;
    for (Cursor& cursor : terms_) {
      enter(cursor, window);
      any |= cursor.begin < cursor.end;
    }
    if (!any) return;
    std::fill_n(sums, rows, 0.0F);
    const kernels::Table& simd = kernels::active();
    for (const Cursor& cursor : terms_) add_exact(simd, cursor, first, sums);
    const std::size_t found = simd.collect_at_least(sums, rows, top_.threshold(), reached);
    for (std::size_t i = 0; i < found; ++i) {
      const std::uint32_t row = first + reached[i];
      if (wanted(row)) top_.offer({sums[reached[i]], segment_.slot(row)});
    }
  }

  void add_exact(const kernels::Table& simd, const Cursor& cursor, std::uint32_t first,
                 float* sums) const {
    const Segment::Term& term = *cursor.kept;
    if (term.windows != Segment::kNone && !term.escapes) {
      simd.bm25_accumulate_window(
          {segment_.offsets(term) + cursor.begin, segment_.frequencies(term) + cursor.begin,
           cursor.end - cursor.begin, cursor.weight, norm_.c0, norm_.c1},
          segment_.lengths().data() + first, sums);
      return;
    }
    for (std::uint32_t i = cursor.begin; i < cursor.end; ++i) {
      const std::uint32_t row = term.windows == Segment::kNone ? segment_.sparse_rows(term)[i]
                                                               : first + segment_.offsets(term)[i];
      sums[row - first] +=
          contribution(cursor.weight, segment_.frequency(term, i), segment_.lengths()[row], norm_);
    }
  }

  void bound_window(std::uint32_t window) {
    if (tables_.empty()) make_tables();
    std::uint32_t highest = 0;
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      Cursor& cursor = terms_[i];
      enter(cursor, window);
      if (cursor.begin == cursor.end) continue;
      const std::uint8_t bound = cursor.kept->windows == Segment::kNone
                                     ? std::uint8_t{255}
                                     : segment_.window_maxima(*cursor.kept)[window];
      highest += tables_[i][bound];
    }
    const std::uint16_t threshold = bound_threshold();
    if (highest < threshold) return;

    const auto first = static_cast<std::uint32_t>(window * kWindow);
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      const Cursor& cursor = terms_[i];
      const Segment::Term& term = *cursor.kept;
      const std::uint8_t* bounds = segment_.bounds(term);
      const std::uint16_t* table = tables_[i].data();
      if (term.windows != Segment::kNone) {
        const std::uint16_t* offsets = segment_.offsets(term);
        for (std::uint32_t j = cursor.begin; j < cursor.end; ++j) {
          sums_[offsets[j]] = static_cast<std::uint16_t>(sums_[offsets[j]] + table[bounds[j]]);
        }
      } else {
        const std::uint32_t* rows = segment_.sparse_rows(term);
        for (std::uint32_t j = cursor.begin; j < cursor.end; ++j) {
          const std::uint32_t offset = rows[j] - first;
          sums_[offset] = static_cast<std::uint16_t>(sums_[offset] + table[bounds[j]]);
        }
      }
    }
    std::uint16_t reached[kWindow];
    const std::size_t rows = (width(window) + 31) / 32 * 32;
    const std::size_t found =
        kernels::active().take_at_least(sums_.data(), rows, threshold, reached);
    for (std::size_t i = 0; i < found; ++i) {
      const std::uint32_t row = first + reached[i];
      if (wanted(row)) top_.offer({score_of(row), segment_.slot(row)});
    }
  }

  // Bound to integer contribution, per term, rounded up.
  void make_tables() {
    tables_.resize(terms_.size());
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      const float step = terms_[i].weight * factor_ * scale_ / 255.0F;
      for (std::size_t bound = 0; bound < 256; ++bound) {
        tables_[i][bound] = static_cast<std::uint16_t>(std::ceil(static_cast<float>(bound) * step));
      }
    }
    sums_.fill(0);
  }

  // A row whose score reaches the threshold has a sum of bounds of at least this.
  [[nodiscard]] std::uint16_t bound_threshold() const noexcept {
    const float scaled = std::floor(top_.threshold() * scale_ * 0.9999F);
    return static_cast<std::uint16_t>(std::clamp(scaled, 1.0F, 65535.0F));
  }

  const Bm25State& state_;
  const Segment& segment_;
  LengthNorm norm_;
  const SlotSet* allow_;
  TopK& top_;
  std::vector<Cursor> terms_;  // in query order
  float factor_ = 1;
  float scale_ = 1;
  bool can_bound_ = true;
  std::vector<std::array<std::uint16_t, 256>> tables_;
  alignas(64) std::array<std::uint16_t, kWindow> sums_;
};

// The head's part: always exact.
void search_head(const Bm25State& state, const EpochDomain::Pin& pin, std::span<const Term> terms,
                 LengthNorm norm, const SlotSet* allow, TopK& top) {
  const Head& head = *state.head;
  struct Cursor {
    Head::View postings;
    std::size_t position;
    float weight;
  };
  std::vector<Cursor> cursors;
  for (const Term& term : terms) {
    const Head::View postings = head.postings(term.number, state.head_rows, pin);
    if (!postings.rows.empty()) cursors.push_back({postings, 0, term.weight});
  }
  if (cursors.empty()) return;
  const kernels::Table& simd = kernels::active();
  const std::uint32_t* lengths = head.lengths(pin).data();
  const std::uint32_t* slots = head.slots(pin).data();
  alignas(64) float sums[kWindow];
  std::uint32_t reached[kWindow];
  for (std::uint32_t first = 0; first < state.head_rows; first += kWindow) {
    const std::uint32_t last = std::min<std::uint32_t>(first + kWindow, state.head_rows);
    const std::size_t width = (std::size_t{last} - first + 15) / 16 * 16;
    bool any = false;
    for (Cursor& cursor : cursors) {
      const auto& rows = cursor.postings.rows;
      const auto from = rows.begin() + static_cast<std::ptrdiff_t>(cursor.position);
      const auto to = std::lower_bound(from, rows.end(), last);
      if (from == to) continue;
      if (!any) std::fill_n(sums, width, 0.0F);
      any = true;
      simd.bm25_accumulate({&*from, cursor.postings.frequencies + cursor.position,
                            static_cast<std::size_t>(to - from), cursor.weight, norm.c0, norm.c1},
                           lengths, first, sums);
      cursor.position = static_cast<std::size_t>(to - rows.begin());
    }
    if (!any) continue;
    const std::size_t found = simd.collect_at_least(sums, width, top.threshold(), reached);
    for (std::size_t i = 0; i < found; ++i) {
      const std::uint32_t row = first + reached[i];
      if (head.alive(row, state.number) && (allow == nullptr || allow->contains(slots[row]))) {
        top.offer({sums[reached[i]], slots[row]});
      }
    }
  }
}

}  // namespace

std::uint32_t document_frequency(const Bm25State& state, const EpochDomain::Pin& pin,
                                 std::uint32_t term) noexcept {
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
  // A filter may leave out the rows that the sure threshold counts on.
  if (allow == nullptr) top.raise(sure_threshold(state, pin, terms, k));

  // A look-up costs about as much as two hundred postings.
  std::uint64_t work = state.n_documents / 16;
  for (const Term& term : terms) work += term.n;
  const bool few =
      allow != nullptr && allow->size() * (terms.size() + state.segments.size()) * 100 < work;
  for (const Segment* segment : state.segments) {
    SegmentSearch part(state, *segment, terms, norm, allow, top);
    if (few) {
      part.score_rows(allow->slots());
    } else {
      part.run(k);
    }
  }
  search_head(state, pin, terms, norm, allow, top);
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
