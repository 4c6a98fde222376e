#include "lexical/bm25_index.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>

#include "base/error.hpp"

namespace spector {
namespace {

// Segments of about equal size are merged when there are this many: each posting is rewritten once
// per factor of growth.
constexpr std::size_t kFanIn = 4;

// Segments are not merged beyond this, so that their 32-bit positions never run out.
constexpr std::uint64_t kMaxPostings = 1'000'000'000;

// A batch of so many documents becomes a segment of its own.
constexpr std::size_t kBulk = 4096;

// Sizes by factors of 4: 0 for up to 4 rows, 1 for up to 16, ...
constexpr int kSizeClasses = 16;
int size_class(const Segment& segment) noexcept {
  const auto live = segment.n_rows() - segment.n_dead_rows();
  return (std::bit_width(std::max<std::uint32_t>(live, 1)) - 1) / 2;
}

// Appends the varint differences of `terms` after renaming; `numbers` keeps their order.
void add_renamed(Segment::Rows& rows, const Segment& from, std::uint32_t row,
                 std::span<const std::uint32_t> numbers, std::vector<TermCount>& scratch) {
  scratch.clear();
  from.for_each_term(row, [&](std::uint32_t term) { scratch.push_back({numbers[term], 1}); });
  rows.add(from.slot(row), from.lengths()[row], scratch);
}

}  // namespace

SlotSet::SlotSet(std::span<const std::uint32_t> slots) : slots_(slots.begin(), slots.end()) {
  if (slots.empty()) return;
  if (!std::is_sorted(slots_.begin(), slots_.end())) std::sort(slots_.begin(), slots_.end());
  slots_.erase(std::unique(slots_.begin(), slots_.end()), slots_.end());
  words_.resize(slots_.back() / 64 + 1);
  for (const std::uint32_t slot : slots_) words_[slot / 64] |= std::uint64_t{1} << (slot % 64);
}

Bm25Index::Bm25Index(double k1, double b, EpochDomain& epochs) : k1_(k1), b_(b), epochs_(epochs) {
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

void Bm25Index::reserve_kill(const Place& place) {
  if (place.segment != nullptr) {
    place.segment->reserve_erase(place.row, epochs_);
  } else if (place.row != Segment::kNone) {
    head_->reserve_erase(place.row);
  }
}

void Bm25Index::kill(const Place& place) noexcept {
  const auto lose = [this](std::uint32_t term) { n_terms_ -= --live_[term] == 0 ? 1 : 0; };
  if (place.segment != nullptr) {
    place.segment->erase(place.row, number_ + 1, epochs_);
    total_length_ -= place.segment->lengths()[place.row];
    place.segment->for_each_term(place.row, lose);
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
  // The bounds are for the average there will be; as yet the index may even be empty.
  std::uint64_t n = n_documents_;
  std::uint64_t total = total_length_;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (!wanted[i]) continue;
    ++n;
    total += documents.lengths[i];
  }
  std::unique_ptr<Segment> segment =
      merge({}, &documents, wanted, {}, static_cast<double>(total) / static_cast<double>(n));
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
  for (auto& segment : old_segments_) {
    const std::uint64_t bytes = segment->memory_bytes();
    epochs_.retire(std::move(segment), bytes);
  }
  for (auto& head : old_heads_) {
    const std::uint64_t bytes = head->memory_bytes();
    epochs_.retire(std::move(head), bytes);
  }
  old_segments_.clear();
  old_heads_.clear();
}

double Bm25Index::average_length() const noexcept {
  return n_documents_ == 0 ? 0.0
                           : static_cast<double>(total_length_) / static_cast<double>(n_documents_);
}

std::unique_ptr<Segment> Bm25Index::merge(std::span<Segment* const> segments,
                                          const Documents* documents,
                                          const std::vector<bool>& wanted,
                                          std::span<const std::uint32_t> numbers,
                                          double average) const {
  for (const Segment* segment : segments) segment->check_rows();
  // The live rows of all parts in the order of their slots. Part i is segments[i]; the last is
  // `documents`.
  struct Source {
    std::uint32_t slot;
    std::uint32_t part;
    std::uint32_t row;
  };
  std::vector<Source> sources;
  const auto last_part = static_cast<std::uint32_t>(segments.size());
  for (std::uint32_t part = 0; part < segments.size(); ++part) {
    for (std::uint32_t row = 0; row < segments[part]->n_rows(); ++row) {
      if (segments[part]->alive(row, kAlive - 1)) {
        sources.push_back({segments[part]->slot(row), part, row});
      }
    }
  }
  for (std::uint32_t row = 0; row < wanted.size(); ++row) {
    if (wanted[row]) sources.push_back({documents->slots[row], last_part, row});
  }
  const auto by_slot = [](const Source& x, const Source& y) { return x.slot < y.slot; };
  if (!std::is_sorted(sources.begin(), sources.end(), by_slot)) {
    std::sort(sources.begin(), sources.end(), by_slot);
  }

  Segment::Rows rows;
  rows.slots.reserve(sources.size());
  rows.lengths.reserve(sources.size());
  rows.row_term_ends.reserve(sources.size());
  if (numbers.empty()) {
    std::size_t bytes = 0;
    for (const Source& source : sources) {
      if (source.part != last_part) bytes += segments[source.part]->packed_terms(source.row).size();
    }
    rows.row_terms.reserve(bytes);
  }
  std::vector<std::vector<std::uint32_t>> new_rows(segments.size() + 1);
  for (std::uint32_t part = 0; part < segments.size(); ++part) {
    new_rows[part].assign(segments[part]->n_rows(), Segment::kNone);
  }
  new_rows[last_part].assign(wanted.size(), Segment::kNone);
  std::vector<TermCount> scratch;
  for (const Source& source : sources) {
    new_rows[source.part][source.row] = static_cast<std::uint32_t>(rows.slots.size());
    if (source.part == last_part) {
      const std::span<const TermCount> terms = documents->terms(source.row);
      scratch.assign(terms.begin(), terms.end());
      if (!numbers.empty()) {
        for (TermCount& term : scratch) term.term = numbers[term.term];
      }
      rows.add(source.slot, documents->lengths[source.row], scratch);
    } else if (!numbers.empty()) {
      add_renamed(rows, *segments[source.part], source.row, numbers, scratch);
    } else {
      rows.add_packed(source.slot, segments[source.part]->lengths()[source.row],
                      segments[source.part]->packed_terms(source.row));
    }
  }
  sources = {};

  // Postings by term: count, then fill part by part; rows of a part ascend, and where parts
  // interleave, the term's rows are sorted in the end.
  std::vector<std::uint64_t> count(live_.size() + 1);
  const auto for_each_posting = [&](const auto& visit) {
    for (std::uint32_t part = 0; part < segments.size(); ++part) {
      const Segment& segment = *segments[part];
      for (std::uint32_t place = 0; place < segment.term_numbers().size(); ++place) {
        const Segment::Term& term = segment.term(place);
        const std::uint32_t number = segment.term_numbers()[place];
        segment.for_each_row(term, [&](std::uint32_t row, std::uint32_t i) {
          const std::uint32_t new_row = new_rows[part][row];
          if (new_row != Segment::kNone) visit(number, new_row, segment.frequency(term, i));
        });
      }
    }
    for (std::uint32_t row = 0; row < wanted.size(); ++row) {
      const std::uint32_t new_row = new_rows[last_part][row];
      if (new_row == Segment::kNone) continue;
      for (const TermCount& term : documents->terms(row)) visit(term.term, new_row, term.count);
    }
  };
  for_each_posting([&](std::uint32_t term, std::uint32_t, std::uint32_t) { ++count[term + 1]; });
  std::partial_sum(count.begin(), count.end(), count.begin());
  Segment::Postings postings;
  postings.rows.resize(count.back());
  postings.frequencies.resize(count.back());
  {
    std::vector<std::uint64_t> next(count.begin(), count.end() - 1);
    for_each_posting([&](std::uint32_t term, std::uint32_t row, std::uint32_t frequency) {
      const std::uint64_t at = next[term]++;
      postings.rows[at] = row;
      postings.frequencies[at] = frequency;
    });
  }
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  postings.ends.push_back(0);
  for (std::uint32_t term = 0; term < live_.size(); ++term) {
    const std::uint64_t begin = count[term];
    const std::uint64_t end = count[term + 1];
    if (begin == end) continue;
    postings.terms.push_back(numbers.empty() ? term : numbers[term]);
    postings.ends.push_back(end);
    const auto first = postings.rows.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = postings.rows.begin() + static_cast<std::ptrdiff_t>(end);
    if (std::is_sorted(first, last)) continue;
    pairs.clear();
    for (std::uint64_t i = begin; i < end; ++i) {
      pairs.emplace_back(postings.rows[i], postings.frequencies[i]);
    }
    std::sort(pairs.begin(), pairs.end());
    for (std::uint64_t i = begin; i < end; ++i) {
      std::tie(postings.rows[i], postings.frequencies[i]) = pairs[i - begin];
    }
  }
  rows.row_terms.shrink_to_fit();
  return std::make_unique<Segment>(std::move(rows), std::move(postings), k1_, b_, average);
}

void Bm25Index::replace(const std::vector<Segment*>& segments, bool with_head,
                        std::span<const std::uint32_t> numbers) {
  std::vector<bool> wanted;
  for (std::uint32_t row = 0; with_head && row < head_->n_rows(); ++row) {
    wanted.push_back(head_->alive(row, kAlive - 1));
  }
  std::unique_ptr<Segment> merged =
      merge(segments, &head_->documents(), wanted, numbers, average_length());
  std::unique_ptr<Head> head = with_head ? std::make_unique<Head>(epochs_) : nullptr;
  segments_.reserve(segments_.size() + 1);
  old_segments_.reserve(old_segments_.size() + segments.size());
  old_heads_.reserve(old_heads_.size() + 1);
  epochs_.reserve(old_segments_.size() + segments.size() + old_heads_.size() + 2);
  // Nothing below throws.
  for (Segment* segment : segments) {
    const auto at = std::find_if(segments_.begin(), segments_.end(),
                                 [&](const auto& owned) { return owned.get() == segment; });
    old_segments_.push_back(std::move(*at));
    segments_.erase(at);
  }
  if (merged->n_rows() > 0) segments_.push_back(std::move(merged));
  if (with_head) {
    old_heads_.push_back(std::move(head_));
    head_ = std::move(head);
  }
}

void Bm25Index::renew_head() {
  auto head = std::make_unique<Head>(epochs_);
  for (std::uint32_t row = 0; row < head_->n_rows(); ++row) {
    if (head_->alive(row, kAlive - 1))
      head->add(head_->documents().slots[row], head_->documents().lengths[row],
                head_->documents().terms(row));
  }
  old_heads_.reserve(old_heads_.size() + 1);
  epochs_.reserve(old_segments_.size() + old_heads_.size() + 2);
  old_heads_.push_back(std::move(head_));
  head_ = std::move(head);
}

void Bm25Index::tidy() {
  try {
    if (head_->n_rows() >= Head::kMaxRows) {
      replace({}, true);
    } else if (head_->n_dead_postings() * 4 > head_->n_postings() ||
               head_->n_dead_rows() * 2 > head_->n_rows() + 64) {
      renew_head();
    }
    // Few segments of each size: merge a size that has grown too many.
    for (int size = 0; size < kSizeClasses && segments_.size() >= kFanIn; ++size) {
      std::vector<Segment*> equal;
      std::uint64_t postings = 0;
      for (const auto& segment : segments_) {
        if (size_class(*segment) != size) continue;
        equal.push_back(segment.get());
        postings += segment->n_postings();
      }
      if (equal.size() >= kFanIn && postings < kMaxPostings) replace(equal, false);
    }
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      Segment& segment = *segments_[i];
      if (segment.n_dead_postings() * 4 > segment.n_postings() ||
          segment.n_dead_rows() * 2 > segment.n_rows() + 64 ||
          segment.n_dead_rows() == segment.n_rows()) {
        replace({&segment}, false);
        i = static_cast<std::size_t>(-1);  // the list has changed
      }
    }
  } catch (const std::bad_alloc&) {
    // The index is whole without it; the next change tries again.
    return;
  }
}

void Bm25Index::compact(std::span<const std::uint32_t> numbers) {
  std::vector<Segment*> all;
  for (const auto& segment : segments_) all.push_back(segment.get());
  std::vector<std::uint32_t> live;
  if (!numbers.empty()) {
    live.resize(n_terms_);
    for (std::uint32_t term = 0; term < numbers.size(); ++term) {
      if (numbers[term] != kDropped) live[numbers[term]] = live_[term];
    }
  }
  replace(all, true, numbers);
  if (!numbers.empty()) live_ = std::move(live);
}

std::vector<std::uint32_t> Bm25Index::compact_numbers() const {
  std::vector<std::uint32_t> numbers(live_.size(), kDropped);
  std::uint32_t next = 0;
  for (std::uint32_t term = 0; term < numbers.size(); ++term) {
    if (live_[term] > 0) numbers[term] = next++;
  }
  return numbers;
}

std::optional<const Segment*> Bm25Index::sealed() const noexcept {
  if (head_->n_rows() > 0 || segments_.size() > 1) return std::nullopt;
  if (segments_.empty()) return nullptr;
  const Segment& only = *segments_.front();
  const std::span<const std::uint32_t> numbers = only.term_numbers();
  const bool by_place = numbers.empty() || numbers.back() + std::size_t{1} == numbers.size();
  return only.n_dead_rows() == 0 && by_place ? std::optional(&only) : std::nullopt;
}

void Bm25Index::adopt(std::unique_ptr<Segment> segment) {
  if (n_documents_ > 0) throw std::logic_error("the index has documents");
  std::vector<std::uint32_t> live;
  if (segment != nullptr) {
    live.reserve(segment->arrays().terms.size());
    for (const Segment::Term& term : segment->arrays().terms) live.push_back(term.count);
    segments_.reserve(segments_.size() + 1);
    n_documents_ = segment->n_rows();
    const std::span<const std::uint32_t> lengths = segment->lengths();
    total_length_ = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
    segments_.push_back(std::move(segment));
  }
  n_terms_ = live.size();
  live_ = std::move(live);
}

Bm25Stats Bm25Index::stats() const noexcept {
  Bm25Stats stats{};
  stats.documents = n_documents_;
  stats.terms = n_terms_;
  stats.total_length = total_length_;
  stats.segments = segments_.size();
  stats.dead_postings = head_->n_dead_postings();
  stats.postings = head_->n_postings();
  stats.bytes = head_->memory_bytes() + live_.capacity() * sizeof(live_[0]);
  for (const auto& segment : segments_) {
    stats.dead_postings += segment->n_dead_postings();
    stats.postings += segment->n_postings();
    stats.bytes += segment->memory_bytes();
  }
  stats.postings -= stats.dead_postings;
  return stats;
}

}  // namespace spector
