#include "lexical/bm25_index.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>

#include "base/error.hpp"

namespace spector {
namespace {

// Segments are not merged beyond this, so that their 32-bit positions never run out.
constexpr std::uint64_t kMaxPostings = 1'000'000'000;

// A batch of so many documents becomes a segment of its own.
constexpr std::size_t kBulk = 4096;

// So many dead rows are left in the head: what a document that is written again and again may cost
// in memory. A head of few live rows is then made anew, another one is sealed, which costs each
// document at most one further merge.
constexpr std::uint32_t kMostDeadRows = 32;
constexpr std::uint32_t kFewRows = 512;

// Sizes by factors of 4: 0 for up to 3 rows, 1 for up to 15, ...
constexpr int kSizeClasses = 16;
int size_class(const Segment& segment) noexcept {
  const auto live = segment.n_rows() - segment.n_dead_rows();
  return (std::bit_width(std::max<std::uint32_t>(live, 1)) - 1) / 2;
}

// A search costs what is dead as much as what is live, so a segment is written anew well before a
// quarter of it is dead (IDX-2); earlier still would write each posting too often.
bool much_is_dead(const Segment& segment) noexcept {
  return segment.n_dead_postings() * 6 > segment.n_postings() ||
         segment.n_dead_rows() * 2 > segment.n_rows() + 64 ||
         segment.n_dead_rows() == segment.n_rows();
}

std::uint64_t live_postings(const Segment& segment) noexcept {
  return segment.n_postings() - segment.n_dead_postings();
}

// What the bounds of a segment are made for.
struct Scoring {
  double k1;
  double b;
  double average;
};

// Postings grow by appending; a term whose rows do not ascend is sorted when it ends.
class PostingsBuilder {
 public:
  explicit PostingsBuilder(std::uint64_t n_postings) {
    postings_.rows.reserve(n_postings);
    postings_.frequencies.reserve(n_postings);
    postings_.ends.push_back(0);
  }
  void add(std::uint32_t row, std::uint32_t frequency) {
    ascends_ &= postings_.rows.size() == postings_.ends.back() || postings_.rows.back() < row;
    postings_.rows.push_back(row);
    postings_.frequencies.push_back(frequency);
  }
  void end_term(std::uint32_t term) {
    const std::uint64_t begin = postings_.ends.back();
    const std::uint64_t end = postings_.rows.size();
    if (begin == end) return;
    if (!ascends_) {
      pairs_.clear();
      for (std::uint64_t i = begin; i < end; ++i) {
        pairs_.emplace_back(postings_.rows[i], postings_.frequencies[i]);
      }
      std::sort(pairs_.begin(), pairs_.end());
      for (std::uint64_t i = begin; i < end; ++i) {
        std::tie(postings_.rows[i], postings_.frequencies[i]) = pairs_[i - begin];
      }
    }
    ascends_ = true;
    postings_.terms.push_back(term);
    postings_.ends.push_back(end);
  }
  [[nodiscard]] Segment::Postings take() { return std::move(postings_); }

 private:
  Segment::Postings postings_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs_;
  bool ascends_ = true;
};

// A segment of the rows of `segments` that are alive in `state` and have at most `n_postings` in
// all. Null if `abandoned` becomes true. Calls left_out(i, term, n) for each term of segment i of
// which n > 0 rows are not alive.
template <class LeftOut>
std::unique_ptr<Segment> merge(std::span<const std::shared_ptr<Segment>> segments,
                               StateNumber state, std::uint64_t n_postings, std::size_t n_terms,
                               std::span<const std::uint32_t> numbers, const Scoring& scoring,
                               const std::atomic<bool>& abandoned, const LeftOut& left_out) {
  // Where they do not overlap, rows and postings are in their order from the beginning.
  std::vector<std::uint32_t> order(segments.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t x, std::uint32_t y) {
    return segments[x]->slot(0) < segments[y]->slot(0);
  });
  std::vector<const Segment*> parts;
  parts.reserve(order.size());
  for (const std::uint32_t i : order) parts.push_back(segments[i].get());
  struct Source {
    std::uint32_t slot;
    std::uint32_t part;
    std::uint32_t row;
  };
  std::vector<Source> sources;
  std::vector<std::vector<std::uint32_t>> new_rows(parts.size());
  for (std::uint32_t part = 0; part < parts.size(); ++part) {
    new_rows[part].assign(parts[part]->n_rows(), Segment::kNone);
    for (std::uint32_t row = 0; row < parts[part]->n_rows(); ++row) {
      if (parts[part]->alive(row, state)) sources.push_back({parts[part]->slot(row), part, row});
    }
  }
  const auto by_slot = [](const Source& x, const Source& y) { return x.slot < y.slot; };
  if (!std::is_sorted(sources.begin(), sources.end(), by_slot)) {
    std::sort(sources.begin(), sources.end(), by_slot);
  }

  Segment::Rows rows;
  rows.slots.reserve(sources.size());
  rows.lengths.reserve(sources.size());
  for (const Source& source : sources) {
    new_rows[source.part][source.row] = static_cast<std::uint32_t>(rows.slots.size());
    rows.slots.push_back(source.slot);
    rows.lengths.push_back(parts[source.part]->lengths()[source.row]);
  }
  sources = {};

  PostingsBuilder postings(n_postings);
  for (std::uint32_t term = 0; term < n_terms; ++term) {
    if (abandoned.load(std::memory_order_relaxed)) return nullptr;
    for (std::uint32_t part = 0; part < parts.size(); ++part) {
      const Segment& segment = *parts[part];
      const std::uint32_t place = segment.place(term);
      if (place == Segment::kNone) continue;
      const Segment::Term kept = segment.term(place);
      std::uint32_t n_dead = 0;
      segment.for_each_row(kept, [&](std::uint32_t row, std::uint32_t i) {
        const std::uint32_t new_row = new_rows[part][row];
        if (new_row != Segment::kNone) {
          postings.add(new_row, segment.frequency(kept, i));
        } else {
          ++n_dead;
        }
      });
      if (n_dead > 0) left_out(order[part], term, n_dead);
    }
    postings.end_term(numbers.empty() ? term : numbers[term]);
  }
  return std::make_unique<Segment>(std::move(rows), postings.take(), scoring.k1, scoring.b,
                                   scoring.average);
}

// A segment of the `wanted` documents, whose slots are distinct.
std::unique_ptr<Segment> invert(const Documents& documents, const std::vector<bool>& wanted,
                                std::size_t n_terms, const Scoring& scoring) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) order.push_back(i);
  }
  const auto by_slot = [&](std::uint32_t x, std::uint32_t y) {
    return documents.slots[x] < documents.slots[y];
  };
  if (!std::is_sorted(order.begin(), order.end(), by_slot)) {
    std::sort(order.begin(), order.end(), by_slot);
  }
  if (documents.counts.size() >= Segment::kNone) {
    throw Capacity("a batch has over 4,294,967,294 postings");
  }
  Segment::Rows rows;
  rows.slots.reserve(order.size());
  rows.lengths.reserve(order.size());
  std::vector<std::uint32_t> next(n_terms + 1);  // counts, then where each term's postings go on
  for (const std::uint32_t i : order) {
    rows.slots.push_back(documents.slots[i]);
    rows.lengths.push_back(documents.lengths[i]);
    for (const TermCount& term : documents.terms(i)) ++next[term.term + 1];
  }
  Segment::Postings postings;
  postings.ends.push_back(0);
  for (std::uint32_t term = 0; term < n_terms; ++term) {
    if (next[term + 1] > 0) {
      postings.terms.push_back(term);
      postings.ends.push_back(std::uint64_t{next[term]} + next[term + 1]);
    }
    next[term + 1] += next[term];
  }
  postings.rows.resize(next.back());
  postings.frequencies.resize(next.back());
  for (std::uint32_t row = 0; row < order.size(); ++row) {
    for (const TermCount& term : documents.terms(order[row])) {
      const std::uint32_t at = next[term.term]++;
      postings.rows[at] = row;
      postings.frequencies[at] = term.count;
    }
  }
  return std::make_unique<Segment>(std::move(rows), std::move(postings), scoring.k1, scoring.b,
                                   scoring.average);
}

}  // namespace

SlotSet::SlotSet(std::span<const std::uint32_t> slots) : slots_(slots.begin(), slots.end()) {
  if (slots.empty()) return;
  if (!std::is_sorted(slots_.begin(), slots_.end())) std::sort(slots_.begin(), slots_.end());
  slots_.erase(std::unique(slots_.begin(), slots_.end()), slots_.end());
  words_.resize(slots_.back() / 64 + 1);
  for (const std::uint32_t slot : slots_) words_[slot / 64] |= std::uint64_t{1} << (slot % 64);
}

Bm25Index::Bm25Index(double k1, double b, EpochDomain& epochs, const MergePolicy& policy)
    : k1_(k1), b_(b), epochs_(epochs), policy_(policy) {
  if (!(k1 >= 0 && k1 <= 3)) {
    throw std::invalid_argument("k1 must be in [0, 3], not " + std::to_string(k1));
  }
  if (!(b >= 0 && b <= 1)) {
    throw std::invalid_argument("b must be in [0, 1], not " + std::to_string(b));
  }
  head_ = std::make_unique<Head>(epochs);
}

Bm25Index::Place Bm25Index::find(std::uint32_t slot) const noexcept {
  const std::uint32_t in_head = head_->find(slot);
  if (in_head != Head::kNone && head_->alive(in_head, kAlive - 1)) return {nullptr, in_head};
  for (const auto& segment : segments_) {
    const std::uint32_t row = segment->find(slot);
    if (row != Segment::kNone && segment->alive(row, kAlive - 1)) return {segment.get(), row};
  }
  return {nullptr, Segment::kNone};
}

void Bm25Index::count_deaths(Segment& segment) {
  if (segment.counts_deaths()) return;
  segment.count_deaths(number_ + 1, epochs_, [this](std::uint32_t term) { lose(term); });
}

void Bm25Index::lose(std::uint32_t term, std::uint32_t n) noexcept {
  live_[term] -= n;
  n_terms_ -= live_[term] == 0 ? 1 : 0;
}

std::vector<std::uint32_t> Bm25Index::live_counts() const {
  std::vector<std::uint32_t> live = live_;
  for (const auto& segment : segments_) {
    if (segment->counts_deaths()) continue;
    segment->for_each_uncounted([&](std::uint32_t term, std::uint32_t n) { live[term] -= n; });
  }
  return live;
}

void Bm25Index::reserve_kill(const Place& place) {
  if (place.segment != nullptr) {
    if (place.segment->n_postings() <= policy_.small) place.segment->make_row_terms();
    if (place.segment->has_row_terms()) count_deaths(*place.segment);
    place.segment->reserve_erase(place.row, epochs_);
    for (const auto& merge : merges_) {
      auto& deleted = merge->deleted_;
      if (deleted.size() == deleted.capacity()) deleted.reserve(2 * deleted.size() + 16);
    }
  } else if (place.row != Segment::kNone) {
    head_->reserve_erase(place.row);
  }
}

void Bm25Index::kill(const Place& place) noexcept {
  if (place.segment != nullptr) {
    place.segment->erase(place.row, number_ + 1, epochs_);
    total_length_ -= place.segment->lengths()[place.row];
    if (place.segment->counts_deaths()) {
      place.segment->for_each_term(place.row, [this](std::uint32_t term) { lose(term); });
    }
    for (const auto& merge : merges_) {
      if (merge->has(place.segment)) merge->deleted_.push_back(place);
    }
  } else {
    head_->erase(place.row, number_ + 1);
    total_length_ -= head_->documents().lengths[place.row];
    for (const TermCount& term : head_->documents().terms(place.row)) lose(term.term);
  }
  --n_documents_;
}

void Bm25Index::put(std::uint32_t slot, std::span<const TermCount> terms, std::uint32_t length) {
  if (!terms.empty() && terms.back().term >= live_.size()) {
    live_.resize(std::max<std::size_t>(terms.back().term + std::size_t{1}, live_.size() * 3 / 2));
  }
  const Place before = find(slot);
  reserve_kill(before);
  head_->add(slot, length, terms);
  for (const TermCount& term : terms) n_terms_ += live_[term.term]++ == 0 ? 1 : 0;
  ++n_documents_;
  total_length_ += length;
  if (before.row != Segment::kNone) kill(before);
  tidy();
}

void Bm25Index::put(const Documents& documents) {
  if (documents.size() < kBulk) {
    for (std::size_t i = 0; i < documents.size(); ++i) {
      put(documents.slots[i], documents.terms(i), documents.lengths[i]);
    }
    return;
  }
  // Of equal slots the last wins.
  std::vector<bool> wanted(documents.size(), true);
  std::vector<std::uint32_t> order(documents.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto by_slot = [&](std::uint32_t x, std::uint32_t y) {
    return std::pair(documents.slots[x], x) < std::pair(documents.slots[y], y);
  };
  if (!std::is_sorted(order.begin(), order.end(), by_slot)) {
    std::sort(order.begin(), order.end(), by_slot);
  }
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (documents.slots[order[i - 1]] == documents.slots[order[i]]) wanted[order[i - 1]] = false;
  }
  std::uint32_t n_terms = 0;
  for (const TermCount& term : documents.counts) n_terms = std::max(n_terms, term.term + 1);
  if (n_terms > live_.size()) live_.resize(std::max<std::size_t>(n_terms, live_.size() * 3 / 2));
  std::vector<Place> replaced;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (!wanted[i]) continue;
    const Place before = find(documents.slots[i]);
    if (before.row == Segment::kNone) continue;
    reserve_kill(before);
    replaced.push_back(before);
  }
  for (const auto& merge : merges_) {
    merge->deleted_.reserve(merge->deleted_.size() + replaced.size());
  }
  // The bounds are for the average there will be; as yet the index may even be empty.
  std::uint64_t n = n_documents_;
  std::uint64_t total = total_length_;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (!wanted[i]) continue;
    ++n;
    total += documents.lengths[i];
  }
  std::shared_ptr<Segment> segment =
      invert(documents, wanted, live_.size(),
             {k1_, b_, static_cast<double>(total) / static_cast<double>(n)});
  segments_.reserve(segments_.size() + 1);
  // Nothing below throws.
  for (const Place& place : replaced) kill(place);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (!wanted[i]) continue;
    for (const TermCount& term : documents.terms(i)) n_terms_ += live_[term.term]++ == 0 ? 1 : 0;
    ++n_documents_;
    total_length_ += documents.lengths[i];
  }
  segments_.push_back(std::move(segment));
  tidy();
}

bool Bm25Index::erase(std::uint32_t slot) {
  const Place place = find(slot);
  if (place.row == Segment::kNone) return false;
  reserve_kill(place);
  kill(place);
  tidy();
  return true;
}

Bm25State Bm25Index::state() {
  if (number_ >= kAlive - 2) throw Capacity("more than 4,294,967,292 changes to one index");
  ++number_;
  Bm25State state;
  for (const auto& segment : segments_) state.segments.push_back(segment.get());
  // Large segments first: they set the score that the others have to reach.
  std::sort(state.segments.begin(), state.segments.end(), [](const Segment* a, const Segment* b) {
    return std::pair(b->n_postings(), a->slot(0)) < std::pair(a->n_postings(), b->slot(0));
  });
  state.head = head_.get();
  state.head_rows = head_->n_rows();
  state.number = number_;
  state.n_documents = n_documents_;
  state.total_length = total_length_;
  state.k1 = k1_;
  state.b = b_;
  return state;
}

void Bm25Index::published() noexcept {
  if (old_segments_.empty() && old_heads_.empty()) return;
  for (auto& segment : old_segments_) {
    const std::uint64_t bytes = (*segment)->memory_bytes();
    epochs_.retire(std::move(segment), bytes);
  }
  for (auto& head : old_heads_) {
    const std::uint64_t bytes = head->memory_bytes();
    epochs_.retire(std::move(head), bytes);
  }
  old_segments_.clear();
  old_heads_.clear();
  epochs_.collect();  // they are large: not to be left until more has come together
}

double Bm25Index::average_length() const noexcept {
  return n_documents_ == 0 ? 0.0
                           : static_cast<double>(total_length_) / static_cast<double>(n_documents_);
}

std::unique_ptr<Segment> Bm25Index::sealed_head() const {
  std::vector<bool> wanted(head_->n_rows());
  for (std::uint32_t row = 0; row < wanted.size(); ++row) {
    wanted[row] = head_->alive(row, kAlive - 1);
  }
  return invert(head_->documents(), wanted, live_.size(), {k1_, b_, average_length()});
}

void Bm25Index::replace(const Owned& segments, std::unique_ptr<Segment> merged) {
  std::shared_ptr<Segment> added = std::move(merged);
  segments_.reserve(segments_.size() + 1);
  std::vector<std::unique_ptr<const std::shared_ptr<Segment>>> old;
  for (const auto& segment : segments) {
    old.push_back(std::make_unique<const std::shared_ptr<Segment>>(segment));
  }
  old_segments_.reserve(old_segments_.size() + old.size());
  epochs_.reserve(old_segments_.size() + old.size() + old_heads_.size() + 2);
  // Nothing below throws.
  for (auto& segment : old) {
    segments_.erase(std::find(segments_.begin(), segments_.end(), *segment));
    old_segments_.push_back(std::move(segment));
  }
  if (added->n_rows() > 0) segments_.push_back(std::move(added));
}

void Bm25Index::replace_head(std::unique_ptr<Head> head) {
  old_heads_.reserve(old_heads_.size() + 1);
  epochs_.reserve(old_segments_.size() + old_heads_.size() + 2);
  old_heads_.push_back(std::move(head_));
  head_ = std::move(head);
}

void Bm25Index::seal_head() {
  std::shared_ptr<Segment> sealed = sealed_head();
  segments_.reserve(segments_.size() + 1);
  replace_head(std::make_unique<Head>(epochs_));
  if (sealed->n_rows() > 0) segments_.push_back(std::move(sealed));
}

void Bm25Index::renew_head() {
  auto head = std::make_unique<Head>(epochs_);
  for (std::uint32_t row = 0; row < head_->n_rows(); ++row) {
    if (head_->alive(row, kAlive - 1))
      head->add(head_->documents().slots[row], head_->documents().lengths[row],
                head_->documents().terms(row));
  }
  replace_head(std::move(head));
}

bool Bm25Index::in_merge(const Segment& segment) const noexcept {
  return std::any_of(merges_.begin(), merges_.end(),
                     [&](const auto& merge) { return merge->has(&segment); });
}

std::shared_ptr<Segment> Bm25Index::to_be_counted() const noexcept {
  const auto at = std::find_if(segments_.begin(), segments_.end(), [this](const auto& segment) {
    // An eighth of the rows: that much of the segment may be dead, too.
    const std::size_t many = std::min<std::size_t>(policy_.uncounted, segment->n_rows() / 8 + 1);
    return segment->n_uncounted() >= many && !segment->counts_deaths() && !in_merge(*segment);
  });
  return at == segments_.end() ? nullptr : *at;
}

Bm25Index::Owned Bm25Index::due() const {
  // Few segments of each size: merge a size that has grown too many.
  for (int size = 0; size < kSizeClasses && segments_.size() >= policy_.fan_in; ++size) {
    Owned equal;
    std::uint64_t postings = 0;
    for (const auto& segment : segments_) {
      if (size_class(*segment) != size || in_merge(*segment)) continue;
      equal.push_back(segment);
      postings += segment->n_postings();
    }
    if (equal.size() >= policy_.fan_in && postings < kMaxPostings) return equal;
  }
  for (const auto& segment : segments_) {
    if (much_is_dead(*segment) && !in_merge(*segment)) return {segment};
  }
  return {};
}

bool Bm25Index::falls_behind() const noexcept {
  std::array<std::size_t, kSizeClasses> n{};
  for (const auto& segment : segments_) {
    // Those that are too large to be merged any more are not waiting for it.
    if (segment->n_postings() < kMaxPostings / policy_.fan_in) {
      ++n[static_cast<std::size_t>(size_class(*segment))];
    }
  }
  return std::any_of(n.begin(), n.end(), [&](std::size_t i) { return i >= policy_.most; });
}

std::shared_ptr<Bm25Index::Merge> Bm25Index::make_merge(Owned segments, StateNumber number) const {
  auto merge = std::make_shared<Merge>();
  merge->segments_ = std::move(segments);
  merge->number_ = number;
  for (const auto& segment : merge->segments_) merge->n_postings_ += live_postings(*segment);
  merge->n_terms_ = live_.size();
  merge->k1_ = k1_;
  merge->b_ = b_;
  merge->average_ = average_length();
  return merge;
}

bool Bm25Index::Merge::has(const Segment* segment) const noexcept {
  return std::any_of(segments_.begin(), segments_.end(),
                     [&](const auto& own) { return own.get() == segment; });
}

void Bm25Index::Merge::run() {
  if (only_counts_) return segments_.front()->make_row_terms(abandoned_);
  left_out_.resize(segments_.size());
  merged_ = merge(segments_, number_, n_postings_, n_terms_, {}, {k1_, b_, average_}, abandoned_,
                  [this](std::uint32_t i, std::uint32_t term, std::uint32_t n) {
                    if (!segments_[i]->counts_deaths()) left_out_[i].push_back({term, n});
                  });
  // Where rows have been deleted more will be.
  const bool deleted = std::any_of(segments_.begin(), segments_.end(),
                                   [](const auto& segment) { return segment->has_row_terms(); });
  if (deleted && merged_ != nullptr) merged_->make_row_terms(abandoned_);
}

std::shared_ptr<Bm25Index::Merge> Bm25Index::begin_merge() {
  const std::shared_ptr<Segment> to_count = to_be_counted();
  Owned segments = to_count != nullptr ? Owned{to_count} : due();
  if (segments.empty()) return nullptr;
  merges_.reserve(merges_.size() + 1);
  merges_.push_back(make_merge(std::move(segments), number_));
  merges_.back()->only_counts_ = to_count != nullptr;
  return merges_.back();
}

bool Bm25Index::finish(Merge& merge) {
  if (merge.abandoned()) return false;
  if (merge.only_counts_) {
    count_deaths(*merge.segments_.front());
    abandon(merge);
    return true;
  }
  Segment& merged = *merge.merged_;
  if (merged.has_row_terms()) count_deaths(merged);
  for (const Place& place : merge.deleted_) {
    const std::uint32_t row = merged.find(place.segment->slot(place.row));
    merged.reserve_erase(row, epochs_);
    merged.erase(row, number_ + 1, epochs_);
  }
  replace(merge.segments_, std::move(merge.merged_));
  // Nothing below throws. What is counted in live_ as deleted is what the segments there are count.
  for (std::size_t i = 0; i < merge.segments_.size(); ++i) {
    if (merge.segments_[i]->counts_deaths()) continue;
    for (const auto [term, n] : merge.left_out_[i]) lose(term, n);
  }
  for (const Place& place : merge.deleted_) {
    const bool counted = place.segment->counts_deaths();
    if (counted && !merged.counts_deaths()) {
      place.segment->for_each_term(
          place.row, [this](std::uint32_t term) { n_terms_ += live_[term]++ == 0 ? 1 : 0; });
    } else if (!counted && merged.counts_deaths()) {
      merged.for_each_term(merged.find(place.segment->slot(place.row)),
                           [this](std::uint32_t term) { lose(term); });
    }
  }
  abandon(merge);
  return true;
}

void Bm25Index::abandon(Merge& merge) noexcept {
  merge.abandoned_.store(true, std::memory_order_relaxed);
  std::erase_if(merges_, [&](const auto& own) { return own.get() == &merge; });
}

void Bm25Index::abandon_merges() noexcept {
  for (const auto& merge : merges_) merge->abandoned_.store(true, std::memory_order_relaxed);
  merges_.clear();
}

void Bm25Index::tidy() {
  try {
    const std::uint32_t live_rows = head_->n_rows() - head_->n_dead_rows();
    const bool many_dead =
        head_->n_dead_postings() * 4 > head_->n_postings() || head_->n_dead_rows() > kMostDeadRows;
    if (head_->n_rows() >= policy_.head_rows || (many_dead && live_rows > kFewRows)) {
      seal_head();
    } else if (many_dead) {
      renew_head();
    }
    while (true) {
      Owned segments = due();
      if (segments.empty()) break;
      std::uint64_t postings = 0;
      for (const auto& segment : segments) postings += live_postings(*segment);
      if (postings > policy_.small && !falls_behind()) break;
      // Nothing is deleted before it is finished, so all that is dead by now stays out.
      const std::shared_ptr<Merge> merge = make_merge(std::move(segments), kAlive - 1);
      merge->run();
      finish(*merge);
    }
  } catch (const std::bad_alloc&) {
    // The index is whole without it; the next change tries again.
    return;
  }
}

void Bm25Index::compact(std::span<const std::uint32_t> numbers) {
  Owned all = segments_;
  std::uint64_t postings = 0;
  if (head_->n_rows() > head_->n_dead_rows()) all.push_back(sealed_head());
  for (const auto& segment : all) postings += live_postings(*segment);
  std::unique_ptr<Segment> merged =
      merge(all, kAlive - 1, postings, live_.size(), numbers, {k1_, b_, average_length()},
            std::atomic<bool>(false), [](std::uint32_t, std::uint32_t, std::uint32_t) {});
  const std::span<const std::uint32_t> counts = merged->counts();
  std::vector<std::uint32_t> live(
      counts.empty() ? 0 : merged->term_number(static_cast<std::uint32_t>(counts.size() - 1)) + 1);
  for (std::uint32_t place = 0; place < counts.size(); ++place) {
    live[merged->term_number(place)] = counts[place];
  }
  const std::size_t n_terms = counts.size();
  auto head = std::make_unique<Head>(epochs_);
  const Owned before = segments_;
  old_heads_.reserve(old_heads_.size() + 1);
  replace(before, std::move(merged));
  // Nothing below throws.
  abandon_merges();
  replace_head(std::move(head));
  live_ = std::move(live);
  n_terms_ = n_terms;
}

bool Bm25Index::wastes_terms(std::uint64_t n_known) const noexcept {
  const std::uint64_t unused = n_known - n_terms_;
  if (unused <= n_terms_ / 4 + 64) return false;
  std::uint64_t postings = head_->n_postings();
  for (const auto& segment : segments_) postings += segment->n_postings();
  return unused > postings / 64;
}

std::vector<std::uint32_t> Bm25Index::compact_numbers() {
  const std::vector<std::uint32_t> live = live_counts();
  std::vector<std::uint32_t> numbers(live.size(), kDropped);
  std::uint32_t next = 0;
  for (std::uint32_t term = 0; term < numbers.size(); ++term) {
    if (live[term] > 0) numbers[term] = next++;
  }
  return numbers;
}

std::optional<const Segment*> Bm25Index::sealed() const noexcept {
  if (head_->n_rows() > 0 || segments_.size() > 1) return std::nullopt;
  if (segments_.empty()) return nullptr;
  const Segment& only = *segments_.front();
  const auto n_terms = static_cast<std::uint32_t>(only.counts().size());
  const bool by_place = n_terms == 0 || only.term_number(n_terms - 1) == n_terms - 1;
  return only.n_dead_rows() == 0 && by_place ? std::optional(&only) : std::nullopt;
}

void Bm25Index::adopt(std::shared_ptr<Segment> segment) {
  if (n_documents_ > 0) throw std::logic_error("the index has documents");
  std::vector<std::uint32_t> live;
  if (segment != nullptr) {
    live.assign(segment->counts().begin(), segment->counts().end());
    segments_.reserve(segments_.size() + 1);
    n_documents_ = segment->n_rows();
    const std::span<const std::uint32_t> lengths = segment->lengths();
    total_length_ = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
    segments_.push_back(std::move(segment));
  }
  n_terms_ = live.size();
  live_ = std::move(live);
}

Bm25Stats Bm25Index::stats() const {
  Bm25Stats stats{};
  stats.documents = n_documents_;
  stats.terms = n_terms_;
  stats.total_length = total_length_;
  stats.segments = segments_.size();
  stats.dead_postings = head_->n_dead_postings();
  stats.postings = head_->n_postings();
  stats.bytes = head_->memory_bytes() + live_.capacity() * sizeof(live_[0]);
  bool all_counted = true;
  for (const auto& segment : segments_) {
    stats.dead_postings += segment->n_dead_postings();
    stats.postings += segment->n_postings();
    stats.bytes += segment->memory_bytes();
    all_counted &= segment->counts_deaths() || segment->n_uncounted() == 0;
  }
  if (!all_counted) {
    const std::vector<std::uint32_t> live = live_counts();
    for (std::size_t term = 0; term < live.size(); ++term) {
      stats.dead_postings += live_[term] - live[term];
      stats.terms -= live_[term] > 0 && live[term] == 0 ? 1 : 0;
    }
  }
  stats.postings -= stats.dead_postings;
  return stats;
}

}  // namespace spector
