#include "graph/hebbian.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "base/large_array.hpp"
#include "base/load_line.hpp"
#include "graph/loose_rows.hpp"
#include "kernels/dispatch.hpp"

namespace spector {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kMaxSlots = kNone;
constexpr std::size_t kMaxEntries = kNone;
// Ends a row of the overflow that has become empty while the base has an older one: not an edge.
constexpr HebbianEntry kEmptied{kNone, 0, 0};

std::uint32_t age_of(std::uint64_t cycle, std::uint32_t meta) noexcept {
  return (static_cast<std::uint32_t>(cycle) - meta) & 0xffff;
}

// HEB-10 without a pass over the graph, for an edge that is new. The degrees count it.
std::uint32_t bridge_estimate(std::uint32_t shared, std::uint32_t least_degree) noexcept {
  return (2 * 255 * (least_degree - shared) + least_degree) / (2 * least_degree);
}

// Neighbours that both rows have.
std::uint32_t n_shared(const HebbianRow& a, const HebbianRow& b) noexcept {
  std::uint32_t n = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::uint32_t x = a.neighbour(i);
    const std::uint32_t y = b.neighbour(j);
    if (x == y && a.weight(i) > 0 && b.weight(j) > 0) ++n;
    i += x <= y ? 1 : 0;
    j += y <= x ? 1 : 0;
  }
  return n;
}

void check_slot(std::uint32_t slot, std::size_t slots) {
  if (slot >= slots) {
    throw std::out_of_range("slot " + std::to_string(slot) + ": there are " +
                            std::to_string(slots) + " (resize makes more)");
  }
}

// The rows without gaps: those that changed(slot) gives, and where it gives none those of the base.
template <class Changed, class Prefetch>
HebbianBase fold_rows(const HebbianBase& base, std::size_t slots, std::size_t edges,
                      const Changed& changed, const Prefetch& prefetch) {
  HebbianBase folded;
  folded.slots = slots;
  folded.entries = 2 * edges;
  const auto offsets = make_large_array<std::uint32_t>(slots + 1);
  const auto neighbours = make_large_array<std::uint32_t>(folded.entries);
  const auto weights = make_large_array<float>(folded.entries);
  const auto meta = make_large_array<std::uint32_t>(folded.entries);
  constexpr std::size_t kAhead = 16;  // rows
  std::uint32_t at = 0;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    if (slot + kAhead < slots) prefetch(slot + kAhead);
    offsets[slot] = at;
    const std::optional<std::span<const HebbianEntry>> list = changed(slot);
    if (!list && slot >= base.slots) continue;
    if (!list && base.dead == 0) {
      const std::uint32_t first = base.offsets[slot];
      const std::uint32_t n = base.offsets[slot + 1] - first;
      std::copy_n(base.neighbours.get() + first, n, neighbours.get() + at);
      std::copy_n(base.weights.get() + first, n, weights.get() + at);
      std::copy_n(base.meta.get() + first, n, meta.get() + at);
      at += n;
      continue;
    }
    const HebbianRow row =
        list ? HebbianRow(*list) : HebbianRow(base, static_cast<std::uint32_t>(slot));
    for (std::size_t i = 0; i < row.size(); ++i) {
      const HebbianEntry entry = row.entry(i);
      if (entry.weight == 0) continue;
      neighbours[at] = entry.neighbour;
      weights[at] = entry.weight;
      meta[at] = entry.meta;
      ++at;
    }
  }
  offsets[slots] = at;
  folded.offsets = offsets;
  folded.neighbours = neighbours;
  folded.weights = weights;
  folded.meta = meta;
  return folded;
}

// For fold_rows: the lists of the overflow.
std::optional<std::span<const HebbianEntry>> if_any(std::span<const HebbianEntry> list) noexcept {
  return list.empty() ? std::nullopt : std::optional(list);
}

std::size_t bytes_of(const HebbianBase& base) noexcept {
  return (base.offsets == nullptr ? 0 : (base.slots + 1) * sizeof(std::uint32_t)) +
         base.entries * sizeof(HebbianEntry);
}

}  // namespace

std::size_t HebbianRow::find(std::uint32_t neighbour) const noexcept {
  std::size_t first = 0;
  for (std::size_t n = size_; n > 0;) {
    const std::size_t half = n / 2;
    if (this->neighbour(first + half) < neighbour) {
      first += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return first < size_ && this->neighbour(first) == neighbour && weight(first) > 0 ? first : size_;
}

std::size_t HebbianRow::degree() const noexcept {
  std::size_t n = 0;
  for (std::size_t i = 0; i < size_; ++i) n += weight(i) > 0 ? 1 : 0;
  return n;
}

void HebbianRow::prefetch() const noexcept {
  constexpr std::size_t kLine = 16;   // words
  constexpr std::size_t kMost = 256;  // what follows comes by itself
  const std::size_t words = std::min<std::size_t>(std::size_t{size_} * stride_, kMost);
  for (std::size_t i = 0; i < words; i += kLine) {
    prefetch_line(neighbours_ + i);
    if (stride_ == 1) prefetch_line(weights_ + i);
  }
  if (words > 0) {
    prefetch_line(neighbours_ + words - 1);
    prefetch_line(weights_ + (stride_ == 1 ? words - 1 : 0));
  }
}

std::vector<HebbianEdge> HebbianGraph::View::neighbours(std::uint32_t slot) const {
  check_slot(slot, slots_);
  const HebbianRow row = this->row(slot);
  std::vector<HebbianEdge> edges;
  edges.reserve(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row.weight(i) > 0) edges.push_back(to_edge(row.entry(i)));
  }
  return edges;
}

std::optional<HebbianEdge> HebbianGraph::View::edge(std::uint32_t a, std::uint32_t b) const {
  check_slot(a, slots_);
  check_slot(b, slots_);
  const HebbianRow row = this->row(a);
  const std::size_t at = row.find(b);
  if (at == row.size()) return std::nullopt;
  return to_edge(row.entry(at));
}

std::shared_ptr<const HebbianBase> HebbianGraph::View::folded() const {
  if (changed_entries_ == 0 && base_->dead == 0 && base_->slots == slots_) return base_;
  return std::make_shared<const HebbianBase>(fold_rows(
      *base_, slots_, edges_,
      [this](std::size_t slot) -> std::optional<std::span<const HebbianEntry>> {
        return changed_entries_ == 0 ? std::nullopt : if_any(changed_[slot]);
      },
      [this](std::size_t slot) {
        if (changed_entries_ != 0) changed_.prefetch(slot);
      }));
}

HebbianGraph::HebbianGraph(EpochDomain& epochs, std::uint32_t max_degree)
    : HebbianGraph(epochs, HebbianContents{max_degree, 0, {}}) {}

HebbianGraph::HebbianGraph(EpochDomain& epochs, HebbianContents contents)
    : epochs_(epochs),
      max_degree_(contents.max_degree),
      heap_(epochs),
      changed_(heap_),
      signals_(heap_) {
  if (max_degree_ < 1 || max_degree_ > kMaxDegree) {
    throw std::invalid_argument("max_degree must be in [1, " + std::to_string(kMaxDegree) +
                                "], not " + std::to_string(max_degree_));
  }
  now_.slots = contents.base.slots;
  now_.edges = (contents.base.entries - contents.base.dead) / 2;
  now_.cycle = contents.cycle;
  now_.base = std::make_shared<const HebbianBase>(std::move(contents.base));
  changed_.resize(now_.slots);
}

HebbianGraph::~HebbianGraph() = default;

HebbianGraph::View HebbianGraph::view() const {
  View view;
  view.base_ = now_.base;
  view.changed_ = changed_.view();
  view.changed_entries_ = now_.changed_entries;
  view.slots_ = now_.slots;
  view.edges_ = now_.edges;
  view.cycle_ = now_.cycle;
  view.max_degree_ = max_degree_;
  return view;
}

void HebbianGraph::published() noexcept {
  changed_.published();
  signals_.published();
  heap_.published();
  const bool replaced = published_.base != now_.base;
  published_ = now_;
  if (replaced) epochs_.collect();  // large: not to wait for the next occasion
}

void HebbianGraph::rollback() noexcept {
  changed_.rollback();
  signals_.rollback();
  heap_.rollback();
  loose_.reset();
  now_ = published_;
}

void HebbianGraph::resize(std::size_t n) {
  if (n < now_.slots || n > kMaxSlots) {
    throw std::invalid_argument("n must be in [" + std::to_string(now_.slots) + ", " +
                                std::to_string(kMaxSlots) + "], not " + std::to_string(n) +
                                ": slots are never taken back");
  }
  changed_.resize(n);
  now_.slots = n;
}

HebbianRow HebbianGraph::row(std::uint32_t slot) const noexcept {
  if (loose_ != nullptr && loose_->has(slot)) {
    return HebbianRow(static_cast<const LooseRows&>(*loose_)[slot]);
  }
  if (now_.changed_entries != 0) {
    const std::span<const HebbianEntry> list = changed_[slot];
    if (!list.empty()) return HebbianRow(list);
  }
  return slot < now_.base->slots ? HebbianRow(*now_.base, slot) : HebbianRow();
}

MemorySignals HebbianGraph::signals(std::uint32_t slot) const noexcept {
  return slot < signals_.size() ? signals_[slot] : MemorySignals{};
}

double HebbianGraph::importance(std::uint32_t a, const HebbianEntry& entry,
                                std::uint32_t shared) const noexcept {
  return edge_importance(
      {std::fabs(entry.weight), age_of(now_.cycle, entry.meta), (entry.meta >> 16) & 0xff, shared},
      signals(a), signals(entry.neighbour));
}

// The edge that makes room first (HEB-7).
struct HebbianGraph::Weakest {
  double importance = std::numeric_limits<double>::infinity();
  std::uint32_t age = 0;
  std::uint32_t neighbour = kNone;

  [[nodiscard]] bool operator<(const Weakest& other) const noexcept {
    if (importance != other.importance) return importance < other.importance;
    if (age != other.age) return age > other.age;
    return neighbour < other.neighbour;
  }
};

HebbianGraph::Weakest HebbianGraph::weakest(std::uint32_t slot) const {
  const HebbianRow row = this->row(slot);
  // No edge is worth less than with all other neighbours shared. Counting the shared ones is what
  // costs, so it is done for those that may still be the weakest, the likeliest first; and most
  // pairs share none, which a bit for each neighbour tells.
  std::array<double, kMaxDegree + 1> least;
  std::array<std::uint64_t, 32> bits{};
  const auto bit_of = [](std::uint32_t neighbour) { return neighbour * 0x9e3779b1U >> 21; };
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row.weight(i) > 0) prefetch_place(row.neighbour(i));
  }
  std::size_t first = row.size();
  for (std::size_t i = 0; i < row.size(); ++i) {
    const HebbianEntry entry = row.entry(i);
    if (entry.weight == 0) continue;
    const std::uint32_t bit = bit_of(entry.neighbour);
    bits[bit / 64] |= std::uint64_t{1} << bit % 64;
    this->row(entry.neighbour).prefetch();
    least[i] = importance(slot, entry, max_degree_ - 1);
    if (first == row.size() || least[i] < least[first]) first = i;
  }
  Weakest weakest;
  const auto look = [&](std::size_t i) {
    const HebbianEntry entry = row.entry(i);
    if (entry.weight == 0 || least[i] > weakest.importance) return;
    const HebbianRow other = this->row(entry.neighbour);
    std::uint64_t any = 0;
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::uint32_t bit = bit_of(other.neighbour(j));
      any |= bits[bit / 64] >> bit % 64 & 1;
    }
    const std::uint32_t shared = any == 0 ? 0 : n_shared(row, other);
    weakest = std::min(weakest, Weakest{importance(slot, entry, shared),
                                        age_of(now_.cycle, entry.meta), entry.neighbour});
  };
  if (first < row.size()) look(first);
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i != first) look(i);
  }
  return weakest;
}

// The row can be edited from now on.
void HebbianGraph::own(std::uint32_t slot) {
  if (loose_ != nullptr ? loose_->has(slot) : !changed_[slot].empty()) return;
  const HebbianRow row = this->row(slot);
  scratch_.clear();
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row.weight(i) > 0) scratch_.push_back(row.entry(i));
  }
  if (loose_ != nullptr) {
    loose_->assign(slot, scratch_);
  } else {
    changed_.assign(slot, scratch_);
    now_.changed_entries += scratch_.size();
  }
}

void HebbianGraph::insert(std::uint32_t slot, const HebbianEntry& entry) {
  own(slot);
  std::span<HebbianEntry> entries;
  if (loose_ != nullptr) {
    loose_->push_back(slot, entry);
    entries = loose_->edit(slot);
  } else {
    changed_.push_back(slot, entry);
    ++now_.changed_entries;
    entries = changed_.edit(slot);
  }
  std::size_t at = entries.size() - 1;
  for (; at > 0 && entries[at - 1].neighbour > entry.neighbour; --at) entries[at] = entries[at - 1];
  entries[at] = entry;
}

void HebbianGraph::erase(std::uint32_t slot, std::uint32_t neighbour) {
  own(slot);
  const std::size_t at = row(slot).find(neighbour);
  if (loose_ != nullptr) return loose_->erase(slot, at);
  changed_.erase(slot, at);
  --now_.changed_entries;
  if (changed_[slot].empty() && row(slot).size() > 0) {
    changed_.push_back(slot, kEmptied);
    ++now_.changed_entries;
  }
}

void HebbianGraph::edit(std::uint32_t slot, const HebbianEntry& entry) {
  own(slot);
  const std::size_t at = row(slot).find(entry.neighbour);
  (loose_ != nullptr ? loose_->edit(slot) : changed_.edit(slot))[at] = entry;
}

bool HebbianGraph::strengthen(std::uint32_t a, std::uint32_t b, float delta, bool hinted) {
  const HebbianRow row_a = row(a);
  const auto cycle = static_cast<std::uint32_t>(now_.cycle & 0xffff);
  if (const std::size_t at = row_a.find(b); at < row_a.size()) {
    HebbianEntry entry = row_a.entry(at);
    const float before = std::fabs(entry.weight);
    const float after = std::min(1.0F, before + delta * (1.0F - before));
    entry.weight = std::copysign(after, entry.weight);
    entry.meta = (entry.meta & 0xffff0000U) | cycle;
    edit(a, entry);
    entry.neighbour = a;
    edit(b, entry);
    return true;
  }

  const HebbianRow row_b = row(b);
  const std::size_t degree_a = row_a.degree();
  const std::size_t degree_b = row_b.degree();
  const std::uint32_t shared = n_shared(row_a, row_b);
  const auto least_degree =
      std::min(max_degree_, static_cast<std::uint32_t>(std::min(degree_a, degree_b) + 1));
  HebbianEntry entry{b, delta,
                     cycle | bridge_estimate(shared, least_degree) << 16 |
                         static_cast<std::uint32_t>(hinted ? HebbianEdge::kHinted : 0) << 24};
  const bool full_a = degree_a >= max_degree_;
  const bool full_b = degree_b >= max_degree_;
  if (full_a || full_b) {
    const double offered = importance(a, entry, shared);
    const Weakest from_a = full_a ? weakest(a) : Weakest{};
    if (full_a && offered < from_a.importance) return false;
    const Weakest from_b = full_b ? weakest(b) : Weakest{};
    if (full_b && offered < from_b.importance) return false;
    for (const auto& [slot, other, full] :
         {std::tuple(a, from_a.neighbour, full_a), std::tuple(b, from_b.neighbour, full_b)}) {
      if (!full) continue;
      erase(slot, other);
      erase(other, slot);
      --now_.edges;
    }
  }
  if (2 * now_.edges + 2 > kMaxEntries) {
    throw Capacity("the graph has " + std::to_string(now_.edges) + " edges, which is all it can");
  }
  insert(a, entry);
  entry.neighbour = a;
  insert(b, entry);
  ++now_.edges;
  return true;
}

std::vector<std::uint8_t> HebbianGraph::strengthen(std::span<const std::uint32_t> a,
                                                   std::span<const std::uint32_t> b,
                                                   std::span<const float> deltas, bool hinted) {
  if (a.size() != b.size()) {
    throw std::invalid_argument("a and b must have the same length, not " +
                                std::to_string(a.size()) + " and " + std::to_string(b.size()));
  }
  if (deltas.size() != 1 && deltas.size() != a.size()) {
    throw std::invalid_argument("delta must be one number or one for each of the " +
                                std::to_string(a.size()) + " pairs, not " +
                                std::to_string(deltas.size()));
  }
  for (const float delta : deltas) {
    if (!(delta >= kLeastDelta && delta <= 1)) {
      throw std::invalid_argument("delta must be in [1e-06, 1], not " + std::to_string(delta));
    }
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    check_slot(a[i], now_.slots);
    check_slot(b[i], now_.slots);
    if (a[i] == b[i]) {
      throw std::invalid_argument("a and b must differ, but pair " + std::to_string(i) +
                                  " joins slot " + std::to_string(a[i]) + " to itself");
    }
  }
  // As many as would make the overflow outgrow the base in any case.
  if (2 * a.size() > kOutgrown + (now_.base->entries + now_.slots) / 2) {
    loose_ = std::make_unique<LooseRows>(now_.slots);
  }
  std::vector<std::uint8_t> done(a.size());
  // Of each pair first the places of both rows are asked for, then the rows.
  constexpr std::size_t kAhead = 8;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (i + 2 * kAhead < a.size()) {
      prefetch_place(a[i + 2 * kAhead]);
      prefetch_place(b[i + 2 * kAhead]);
    }
    if (i + kAhead < a.size()) {
      row(a[i + kAhead]).prefetch();
      row(b[i + kAhead]).prefetch();
    }
    done[i] = strengthen(a[i], b[i], deltas[deltas.size() == 1 ? 0 : i], hinted) ? 1 : 0;
  }
  if (loose_ != nullptr) {
    fold();
  } else {
    fold_if_outgrown();
  }
  return done;
}

void HebbianGraph::prefetch_place(std::uint32_t slot) const noexcept {
  if (now_.changed_entries != 0) changed_.view().prefetch_place(slot);
  if (loose_ != nullptr) loose_->prefetch_place(slot);
  if (slot < now_.base->slots) prefetch_line(now_.base->offsets.get() + slot);
}

HebbianGraph::DecayReport HebbianGraph::decay(float factor, bool by_arousal) {
  if (!(factor > 0 && factor <= 1)) {
    throw std::invalid_argument("factor must be in (0, 1], not " + std::to_string(factor));
  }
  if (now_.changed_entries != 0) fold();
  ++now_.cycle;
  auto base = std::make_shared<HebbianBase>(*now_.base);
  const auto weights = make_large_array<float>(base->entries);
  kernels::DecayRule rule{.factor = factor,
                          .factors = nullptr,
                          .floor = kFloor,
                          .bridge = kBridge,
                          .max_age = kFloorCycles,
                          .cycle = static_cast<std::uint32_t>(now_.cycle & 0xffff)};
  kernels::DecayCounts counts{0, 0};
  const auto sweep = [&](std::size_t first, std::size_t n) {
    const kernels::DecayCounts found = kernels::active().decay_weights(
        base->weights.get() + first, base->meta.get() + first, n, rule, weights.get() + first);
    counts.removed += found.removed;
    counts.floored += found.floored;
  };
  if (by_arousal && signals_.size() > 0) {
    std::vector<float> of_slot(now_.slots, factor);
    for (std::size_t slot = 0; slot < signals_.size(); ++slot) {
      const MemorySignals& signal = signals_[slot];
      if (signal.known == 0) continue;
      const double m = 1 + 0.3 * (static_cast<double>(signal.importance) / 10) +
                       0.2 * (static_cast<double>(signal.arousal) / 255) +
                       0.1 * (static_cast<double>(std::abs(signal.valence)) / 128);
      of_slot[slot] = static_cast<float>(std::pow(static_cast<double>(factor), 1 / m));
    }
    std::vector<float> factors;  // of one row: the greater of both ends is that of the larger m
    rule.factors = nullptr;
    for (std::size_t slot = 0; slot < base->slots; ++slot) {
      const std::uint32_t first = base->offsets[slot];
      const std::uint32_t last = base->offsets[slot + 1];
      factors.resize(last - first);
      for (std::uint32_t i = first; i < last; ++i) {
        factors[i - first] = std::max(of_slot[slot], of_slot[base->neighbours[i]]);
      }
      rule.factors = factors.data();
      sweep(first, last - first);
    }
  } else {
    sweep(0, base->entries);
  }
  base->weights = weights;
  base->dead += counts.removed;
  now_.base = std::move(base);
  now_.edges -= counts.removed / 2;
  // What is gone takes memory and time to skip: a quarter of the entries at most.
  if (now_.base->dead > now_.base->entries / 4) fold();
  return {now_.cycle, now_.edges, counts.removed / 2, counts.floored / 2};
}

std::size_t HebbianGraph::remove(std::span<const std::uint32_t> slots) {
  for (const std::uint32_t slot : slots) check_slot(slot, now_.slots);
  const std::size_t before = now_.edges;
  std::vector<std::uint32_t> others;
  for (const std::uint32_t slot : slots) {
    others.clear();
    const HebbianRow row = this->row(slot);
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row.weight(i) > 0) others.push_back(row.neighbour(i));
    }
    for (const std::uint32_t other : others) {
      erase(slot, other);
      erase(other, slot);
    }
    now_.edges -= others.size();
  }
  fold_if_outgrown();
  return before - now_.edges;
}

std::size_t HebbianGraph::apply(const BridgeScores& scores) {
  const HebbianBase& of = *scores.of;
  const auto scored = [](std::uint32_t meta, std::uint32_t score_of) {
    return (meta & 0xff00ffffU) | (score_of & 0x00ff0000U);
  };
  auto base = std::make_shared<HebbianBase>(*now_.base);
  if (base->neighbours == of.neighbours && base->meta == of.meta) {
    base->meta = scores.meta;
  } else if (base->entries > 0) {
    const auto meta = make_large_array<std::uint32_t>(base->entries);
    for (std::size_t slot = 0; slot < base->slots; ++slot) {
      std::uint32_t j = slot < of.slots ? of.offsets[slot] : 0;
      const std::uint32_t last = slot < of.slots ? of.offsets[slot + 1] : 0;
      for (std::uint32_t i = base->offsets[slot]; i < base->offsets[slot + 1]; ++i) {
        while (j < last && of.neighbours[j] < base->neighbours[i]) ++j;
        meta[i] = j < last && of.neighbours[j] == base->neighbours[i]
                      ? scored(base->meta[i], scores.meta[j])
                      : base->meta[i];
      }
    }
    base->meta = meta;
  }
  for (std::size_t slot = 0; now_.changed_entries != 0 && slot < of.slots; ++slot) {
    if (changed_[slot].empty()) continue;
    std::uint32_t j = of.offsets[slot];
    for (HebbianEntry& entry : changed_.edit(slot)) {
      while (j < of.offsets[slot + 1] && of.neighbours[j] < entry.neighbour) ++j;
      if (j < of.offsets[slot + 1] && of.neighbours[j] == entry.neighbour) {
        entry.meta = scored(entry.meta, scores.meta[j]);
      }
    }
  }
  now_.base = std::move(base);
  return scores.only;
}

void HebbianGraph::set_signals(std::span<const std::uint32_t> slots,
                               std::span<const MemorySignals> signals) {
  for (const std::uint32_t slot : slots) check_slot(slot, now_.slots);
  signals_.resize(now_.slots);
  for (std::size_t i = 0; i < slots.size(); ++i) signals_.edit(slots[i]) = signals[i];
}

void HebbianGraph::compact() {
  if (now_.changed_entries != 0 || now_.base->dead != 0 || now_.base->slots != now_.slots) fold();
}

void HebbianGraph::fold() {
  if (loose_ != nullptr) {
    const LooseRows& loose = *loose_;
    now_.base = std::make_shared<const HebbianBase>(fold_rows(
        *now_.base, now_.slots, now_.edges,
        [&](std::size_t slot) {
          return loose.has(slot) ? std::optional(loose[slot]) : if_any(changed_[slot]);
        },
        [&](std::size_t slot) { loose.prefetch(slot); }));
    loose_.reset();
  } else {
    now_.base = view().folded();
  }
  changed_.clear();
  changed_.resize(now_.slots);
  now_.changed_entries = 0;
}

void HebbianGraph::fold_if_outgrown() {
  const std::size_t base = now_.base->entries + now_.base->slots;
  if (now_.changed_entries > kOutgrown + base / 2) fold();
}

std::size_t HebbianGraph::memory_bytes() const noexcept {
  return heap_.bytes() + bytes_of(*now_.base);
}

}  // namespace spector
