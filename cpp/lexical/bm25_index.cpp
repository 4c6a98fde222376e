#include "lexical/bm25_index.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "kernels/dispatch.hpp"

namespace spector {
namespace {

// Better first: higher score, then lower slot (GEN-4).
bool better(const Hit& a, const Hit& b) noexcept {
  return a.score != b.score ? a.score > b.score : a.slot < b.slot;
}

// Keeps the best k of the hits offered: a buffer of 2k that is cut to k when full, which also gives
// the score that later hits must reach.
class TopK {
 public:
  explicit TopK(std::size_t k) : k_(k) {}

  // Hits below this score cannot enter; equal ones can, by their slot.
  [[nodiscard]] float threshold() const noexcept { return threshold_; }

  void offer(const Hit& hit) {
    hits_.push_back(hit);
    if (hits_.size() >= 2 * k_ + 64) cut();
  }

  [[nodiscard]] std::vector<Hit> take() {
    cut();
    std::sort(hits_.begin(), hits_.end(), better);
    return std::move(hits_);
  }

 private:
  void cut() {
    if (hits_.size() <= k_) return;
    const auto last = hits_.begin() + static_cast<std::ptrdiff_t>(k_ - 1);
    std::nth_element(hits_.begin(), last, hits_.end(), better);
    threshold_ = last->score;
    hits_.resize(k_);
  }

  std::size_t k_;
  std::vector<Hit> hits_;
  float threshold_ = std::numeric_limits<float>::denorm_min();  // only score > 0 (BM25-6)
};

// The first position at or after `from` whose row is >= `row`, by doubling steps.
std::size_t advance(std::span<const std::uint32_t> rows, std::size_t from, std::uint32_t row) {
  std::size_t step = 1;
  std::size_t low = from;
  while (low + step < rows.size() && rows[low + step] < row) {
    low += step;
    step *= 2;
  }
  const auto first = rows.begin() + static_cast<std::ptrdiff_t>(low);
  const auto last = rows.begin() + static_cast<std::ptrdiff_t>(std::min(low + step, rows.size()));
  return static_cast<std::size_t>(std::lower_bound(first, last, row) - rows.begin());
}

template <class T>
std::uint64_t bytes_of(const std::vector<T>& items) noexcept {
  return items.capacity() * sizeof(T);
}

// Room for `more` further items with doubling growth, so that later push_backs cannot throw.
template <class T>
void reserve_more(std::vector<T>& items, std::size_t more) {
  const std::size_t need = items.size() + more;
  if (need > items.capacity()) items.reserve(std::max(need, items.capacity() * 2));
}

}  // namespace

SlotSet::SlotSet(std::span<const std::uint32_t> slots) {
  if (slots.empty()) return;
  words_.resize(*std::max_element(slots.begin(), slots.end()) / 64 + 1);
  for (const std::uint32_t slot : slots) words_[slot / 64] |= std::uint64_t{1} << (slot % 64);
}

Bm25Index::Bm25Index(double k1, double b) : k1_(k1), b_(b) {
  if (!(k1 >= 0 && k1 <= 3)) {
    throw std::invalid_argument("k1 must be in [0, 3], not " + std::to_string(k1));
  }
  if (!(b >= 0 && b <= 1)) {
    throw std::invalid_argument("b must be in [0, 1], not " + std::to_string(b));
  }
}

void Bm25Index::put(std::uint32_t slot, std::span<const TermCount> terms, std::uint32_t length) {
  if (lengths_.size() >= kNoRow - 1) throw Capacity("more than 4,294,967,294 documents");
  // Everything that can throw comes first.
  std::uint32_t highest = 0;
  for (const TermCount& term : terms) highest = std::max(highest, term.term + 1);
  if (highest > terms_.size()) {
    reserve_more(terms_, highest - terms_.size());
    terms_.resize(highest);
  }
  for (const TermCount& term : terms) {
    reserve_more(terms_[term.term].rows, 1);
    reserve_more(terms_[term.term].frequencies, 1);
  }
  if (slot >= row_of_slot_.size()) {
    reserve_more(row_of_slot_, slot + std::size_t{1} - row_of_slot_.size());
    row_of_slot_.resize(slot + std::size_t{1}, kNoRow);
  }
  reserve_more(row_terms_, terms.size());
  for (auto* column : {&lengths_, &slots_}) reserve_more(*column, 1);
  reserve_more(term_ends_, 1);
  dead_.reserve(lengths_.capacity());

  if (row_of_slot_[slot] != kNoRow) kill(row_of_slot_[slot]);
  const auto row = static_cast<std::uint32_t>(lengths_.size());
  for (const TermCount& term : terms) {
    Postings& postings = terms_[term.term];
    postings.rows.push_back(row);
    postings.frequencies.push_back(term.count);
    n_terms_ += postings.live++ == 0 ? 1 : 0;
    row_terms_.push_back(term.term);
  }
  term_ends_.push_back(row_terms_.size());
  lengths_.push_back(length);
  slots_.push_back(slot);
  dead_.push_back(false);
  row_of_slot_[slot] = row;
  ++n_documents_;
  total_length_ += length;
  n_postings_ += terms.size();
}

bool Bm25Index::erase(std::uint32_t slot) {
  if (!contains(slot)) return false;
  kill(row_of_slot_[slot]);
  row_of_slot_[slot] = kNoRow;
  return true;
}

bool Bm25Index::contains(std::uint32_t slot) const noexcept {
  return slot < row_of_slot_.size() && row_of_slot_[slot] != kNoRow;
}

void Bm25Index::kill(std::uint32_t row) noexcept {
  dead_[row] = true;
  for (std::uint64_t i = term_ends_[row]; i < term_ends_[row + 1]; ++i) {
    n_terms_ -= --terms_[row_terms_[i]].live == 0 ? 1 : 0;
  }
  --n_documents_;
  total_length_ -= lengths_[row];
  n_dead_postings_ += term_ends_[row + 1] - term_ends_[row];
}

bool Bm25Index::wasteful() const noexcept {
  // Rows without postings count as well: an index of empty documents must not grow for ever.
  return n_dead_postings_ * 4 > n_postings_ || lengths_.size() > 2 * n_documents_ + 64;
}

std::vector<std::uint32_t> Bm25Index::compact_numbers() const {
  std::vector<std::uint32_t> numbers(terms_.size(), kDropped);
  std::uint32_t next = 0;
  for (std::uint32_t term = 0; term < numbers.size(); ++term) {
    if (terms_[term].live > 0) numbers[term] = next++;
  }
  return numbers;
}

void Bm25Index::compact(std::span<const std::uint32_t> new_term) {
  std::vector<std::uint32_t> new_row(lengths_.size(), kNoRow);
  std::uint32_t rows = 0;
  for (std::uint32_t row = 0; row < new_row.size(); ++row) {
    if (!dead_[row]) new_row[row] = rows++;
  }
  // A shrunken copy of each posting list and of the columns; nothing below throws after these.
  std::vector<Postings> terms(n_terms_);
  for (std::uint32_t term = 0; term < new_term.size(); ++term) {
    if (new_term[term] == kDropped) continue;
    const Postings& from = terms_[term];
    Postings& to = terms[new_term[term]];
    to.live = from.live;
    to.rows.reserve(from.live);
    to.frequencies.reserve(from.live);
    for (std::size_t i = 0; i < from.rows.size(); ++i) {
      if (new_row[from.rows[i]] == kNoRow) continue;
      to.rows.push_back(new_row[from.rows[i]]);
      to.frequencies.push_back(from.frequencies[i]);
    }
  }
  std::vector<std::uint32_t> lengths(rows);
  std::vector<std::uint32_t> slots(rows);
  std::vector<std::uint64_t> term_ends(rows + std::size_t{1});
  std::vector<std::uint32_t> row_terms(n_postings_ - n_dead_postings_);
  std::vector<bool> dead(rows, false);
  std::uint64_t end = 0;
  for (std::uint32_t row = 0; row < new_row.size(); ++row) {
    const std::uint32_t to = new_row[row];
    if (to == kNoRow) continue;
    lengths[to] = lengths_[row];
    slots[to] = slots_[row];
    row_of_slot_[slots_[row]] = to;
    for (std::uint64_t i = term_ends_[row]; i < term_ends_[row + 1]; ++i) {
      row_terms[end++] = new_term[row_terms_[i]];
    }
    term_ends[to + 1] = end;
  }
  terms_ = std::move(terms);
  lengths_ = std::move(lengths);
  slots_ = std::move(slots);
  term_ends_ = std::move(term_ends);
  row_terms_ = std::move(row_terms);
  dead_ = std::move(dead);
  n_postings_ -= n_dead_postings_;
  n_dead_postings_ = 0;
}

Bm25Index::Weights Bm25Index::weights(const QueryTerm& term) const noexcept {
  const auto documents = static_cast<double>(n_documents_);
  const auto n = static_cast<double>(terms_[term.term].live);
  const double idf = std::log1p((documents - n + 0.5) / (n + 0.5));
  return {idf, static_cast<float>(idf * (k1_ + 1) * term.weight)};
}

std::pair<float, float> Bm25Index::length_norm() const noexcept {
  const double average = static_cast<double>(total_length_) /
                         static_cast<double>(std::max<std::uint64_t>(1, n_documents_));
  return {static_cast<float>(k1_ * (1 - b_)),
          average > 0 ? static_cast<float>(k1_ * b_ / average) : 0.0F};
}

std::vector<QueryTerm> Bm25Index::known_terms(std::span<const QueryTerm> query) const {
  std::vector<QueryTerm> known;
  std::vector<std::uint32_t> order(query.size());
  // Sorting joins duplicates in n log n, however long the query is.
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(query[a].term, a) < std::pair(query[b].term, b);
  });
  std::vector<std::pair<std::uint32_t, QueryTerm>> joined;  // by first appearance
  for (const std::uint32_t i : order) {
    if (document_frequency(query[i].term) == 0 || !(query[i].weight > 0)) continue;
    if (!joined.empty() && joined.back().second.term == query[i].term) {
      joined.back().second.weight += query[i].weight;
    } else {
      joined.emplace_back(i, query[i]);
    }
  }
  std::sort(joined.begin(), joined.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  known.reserve(joined.size());
  for (const auto& [first, term] : joined) known.push_back(term);
  return known;
}

std::vector<Hit> Bm25Index::search(std::span<const QueryTerm> query, std::size_t k,
                                   const SlotSet* allow) const {
  using kernels::kWindow;
  const std::vector<QueryTerm> terms = known_terms(query);
  if (terms.empty()) return {};
  const kernels::Table& simd = kernels::active();
  const auto [c0, c1] = length_norm();

  struct Cursor {
    std::span<const std::uint32_t> rows;
    const std::uint32_t* frequencies;
    std::size_t position;
    float weight;
  };
  std::vector<Cursor> cursors;
  cursors.reserve(terms.size());
  for (const QueryTerm& term : terms) {
    const Postings& postings = terms_[term.term];
    cursors.push_back({postings.rows, postings.frequencies.data(), 0, weights(term).weight});
  }

  TopK top(std::min<std::size_t>(k, n_documents_));
  alignas(64) float sums[kWindow];
  std::uint32_t reached[kWindow];
  while (true) {
    // The next window that has a posting at all.
    std::uint32_t first = kNoRow;
    for (const Cursor& cursor : cursors) {
      if (cursor.position < cursor.rows.size()) {
        first = std::min(first, cursor.rows[cursor.position]);
      }
    }
    if (first == kNoRow) break;
    const auto window = static_cast<std::uint32_t>(first - first % kWindow);
    const std::size_t rows = std::min(kWindow, lengths_.size() - window);
    const std::size_t width = (rows + 15) / 16 * 16;
    std::fill_n(sums, width, 0.0F);
    for (Cursor& cursor : cursors) {
      const std::size_t begin = cursor.position;
      if (begin >= cursor.rows.size()) continue;
      const std::uint64_t last = std::uint64_t{window} + kWindow;
      cursor.position = last > kNoRow
                            ? cursor.rows.size()
                            : advance(cursor.rows, begin, static_cast<std::uint32_t>(last));
      simd.bm25_accumulate({cursor.rows.data() + begin, cursor.frequencies + begin,
                            cursor.position - begin, cursor.weight, c0, c1},
                           lengths_.data(), window, sums);
    }
    const std::size_t found = simd.collect_at_least(sums, width, top.threshold(), reached);
    for (std::size_t i = 0; i < found; ++i) {
      const std::uint32_t row = window + reached[i];
      if (dead_[row] || (allow != nullptr && !allow->contains(slots_[row]))) continue;
      if (sums[reached[i]] >= top.threshold()) top.offer({sums[reached[i]], slots_[row]});
    }
  }
  return top.take();
}

std::vector<TermScore> Bm25Index::explain(std::span<const QueryTerm> query,
                                          std::uint32_t slot) const {
  std::vector<TermScore> scores;
  if (!contains(slot)) return scores;
  const std::uint32_t row = row_of_slot_[slot];
  const auto [c0, c1] = length_norm();
  for (const QueryTerm& term : known_terms(query)) {
    const Postings& postings = terms_[term.term];
    const auto at = std::lower_bound(postings.rows.begin(), postings.rows.end(), row);
    if (at == postings.rows.end() || *at != row) continue;
    const auto i = static_cast<std::size_t>(at - postings.rows.begin());
    const auto [idf, weight] = weights(term);
    // The kernel itself, on a window of one row: the same bits as the search.
    float contribution = 0;
    kernels::active().bm25_accumulate(
        {&postings.rows[i], &postings.frequencies[i], 1, weight, c0, c1}, lengths_.data(), row,
        &contribution);
    scores.push_back({term.term, postings.frequencies[i], postings.live, idf, lengths_[row],
                      term.weight, contribution});
  }
  return scores;
}

Bm25Stats Bm25Index::stats() const noexcept {
  std::uint64_t bytes = bytes_of(terms_) + bytes_of(lengths_) + bytes_of(slots_) +
                        bytes_of(term_ends_) + bytes_of(row_terms_) + dead_.capacity() / 8 +
                        bytes_of(row_of_slot_);
  for (const Postings& postings : terms_) {
    bytes += bytes_of(postings.rows) + bytes_of(postings.frequencies);
  }
  return {n_documents_,     n_terms_,      n_postings_ - n_dead_postings_,
          n_dead_postings_, total_length_, bytes};
}

}  // namespace spector
