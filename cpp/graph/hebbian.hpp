// Layer 1: which memories were learned together (HEB-1 to HEB-12). An undirected graph over slots
// whose edges are strengthened, fade, and make room for better ones.
//
// Rows lie in one of two places. The base is a CSR of immutable arrays; a row that has changed
// since it was made is wholly in the overflow, a list of its own that is copied on write. `compact`
// and `decay` make a new base of both, and so does a change after which the overflow has outgrown
// the base (`kOutgrown`), which costs each change a constant time on average. A single change that
// is as large as the graph edits loose rows instead, which no reader sees, and folds them. Each
// edge is in the rows of both its ends, rows ascend by neighbour, and all changes are made to both
// at once.
//
// HebbianGraph is the writer's; what it publishes, and all that reads, is its View (base/cow.hpp,
// base/shared.hpp). Slots are never used again, so `remove` leaves nothing behind (HEB-12).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cow.hpp"
#include "base/epoch.hpp"
#include "graph/edge_importance.hpp"
#include "kernels/graph.hpp"

namespace spector {

// HEB-1: an edge as files have it and as readers get it.
struct HebbianEdge {
  std::uint32_t neighbour;
  float weight;              // in (0, 1]
  std::uint16_t last_cycle;  // in which it was strengthened, modulo 65536
  std::uint8_t bridge_score;
  std::uint8_t flags;  // kHinted, kFloored; others are kept as they are

  static constexpr std::uint8_t kHinted = 1;   // created by an explicit hint
  static constexpr std::uint8_t kFloored = 2;  // held at the floor in the last decay

  friend bool operator==(const HebbianEdge&, const HebbianEdge&) = default;
};
static_assert(sizeof(HebbianEdge) == 12 && offsetof(HebbianEdge, weight) == 4 &&
              offsetof(HebbianEdge, last_cycle) == 8 && offsetof(HebbianEdge, bridge_score) == 10 &&
              offsetof(HebbianEdge, flags) == 11);

// The rows as arrays that never change. The flag kFloored is the sign of the weight, so that a
// decay writes weights only; a weight of 0 is an edge that a decay has removed, which all readers
// skip. meta = last cycle | bridge score << 16 | flags << 24.
struct HebbianBase {
  std::size_t slots = 0;
  std::size_t entries = 0;
  std::size_t dead = 0;                            // entries of weight 0
  std::shared_ptr<const std::uint32_t[]> offsets;  // slots + 1, or none
  std::shared_ptr<const std::uint32_t[]> neighbours;
  std::shared_ptr<const float[]> weights;
  std::shared_ptr<const std::uint32_t[]> meta;
};

// What a file holds.
struct HebbianContents {
  std::uint32_t max_degree;
  std::uint64_t cycle;
  HebbianBase base;
};

// One entry of the overflow: the three arrays of the base side by side.
struct HebbianEntry {
  std::uint32_t neighbour;
  float weight;
  std::uint32_t meta;
};
static_assert(sizeof(HebbianEntry) == 12);

// A row, wherever it lies.
class HebbianRow {
 public:
  HebbianRow() = default;
  HebbianRow(const HebbianBase& base, std::uint32_t slot) noexcept {
    const std::uint32_t first = base.offsets[slot];
    neighbours_ = base.neighbours.get() + first;
    weights_ = base.weights.get() + first;
    meta_ = base.meta.get() + first;
    size_ = base.offsets[slot + 1] - first;
  }
  explicit HebbianRow(std::span<const HebbianEntry> entries) noexcept
      : neighbours_(&entries.data()->neighbour),
        weights_(&entries.data()->weight),
        meta_(&entries.data()->meta),
        size_(static_cast<std::uint32_t>(entries.size())),
        stride_(sizeof(HebbianEntry) / sizeof(std::uint32_t)) {}

  // Of all entries, those that are gone included.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint32_t neighbour(std::size_t i) const noexcept {
    return neighbours_[i * stride_];
  }
  // 0: gone.
  [[nodiscard]] float weight(std::size_t i) const noexcept {
    return __builtin_fabsf(weights_[i * stride_]);
  }
  [[nodiscard]] HebbianEntry entry(std::size_t i) const noexcept {
    return {neighbours_[i * stride_], weights_[i * stride_], meta_[i * stride_]};
  }
  // The entry of a neighbour that is not gone, else size().
  [[nodiscard]] std::size_t find(std::uint32_t neighbour) const noexcept;
  // Entries that are not gone.
  [[nodiscard]] std::size_t degree() const noexcept;
  // Asks for the neighbours and weights to be loaded.
  void prefetch() const noexcept;
  // kernels::ExtendPaths for the whole row.
  std::size_t extend_paths(const kernels::PathRule& rule, std::uint64_t* keys) const noexcept;

 private:
  const std::uint32_t* neighbours_ = nullptr;
  const float* weights_ = nullptr;
  const std::uint32_t* meta_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint32_t stride_ = 1;  // in units of 4 bytes
};

[[nodiscard]] inline HebbianEdge to_edge(const HebbianEntry& entry) noexcept {
  const auto flags = static_cast<std::uint8_t>(entry.meta >> 24);
  return {
      entry.neighbour, std::fabs(entry.weight), static_cast<std::uint16_t>(entry.meta),
      static_cast<std::uint8_t>(entry.meta >> 16),
      static_cast<std::uint8_t>(flags | (std::signbit(entry.weight) ? HebbianEdge::kFloored : 0))};
}

[[nodiscard]] inline HebbianEntry to_entry(const HebbianEdge& edge) noexcept {
  const bool floored = (edge.flags & HebbianEdge::kFloored) != 0;
  const auto flags = static_cast<std::uint32_t>(edge.flags & ~HebbianEdge::kFloored);
  return {edge.neighbour, floored ? -edge.weight : edge.weight,
          edge.last_cycle | static_cast<std::uint32_t>(edge.bridge_score) << 16 | flags << 24};
}

class LooseRows;

// Slots that were reached, and how strongly.
struct Activations {
  std::vector<std::uint32_t> slots;
  std::vector<float> strengths;

  [[nodiscard]] std::size_t size() const noexcept { return slots.size(); }
};

class HebbianGraph {
 public:
  static constexpr std::uint32_t kMaxDegree = 256;
  static constexpr float kLeastDelta = 1e-6F;  // so that no weight is 0
  static constexpr float kFloor = 0.1F;
  static constexpr std::uint32_t kBridge = 224;  // the least score that holds an edge at the floor
  static constexpr std::uint32_t kFloorCycles = 365;

  // New scores for the edges of one state (HEB-10).
  struct BridgeScores {
    std::shared_ptr<const HebbianBase> of;
    std::shared_ptr<const std::uint32_t[]> meta;  // of->meta with the new scores
    std::size_t only;                             // edges that are an only connection
  };

  struct DecayReport {
    std::uint64_t cycle;  // that began
    std::size_t edges;    // left
    std::size_t removed;
    std::size_t floored;
  };

  class View {
   public:
    [[nodiscard]] std::size_t slots() const noexcept { return slots_; }
    [[nodiscard]] std::size_t edge_count() const noexcept { return edges_; }
    [[nodiscard]] std::uint64_t cycle() const noexcept { return cycle_; }
    [[nodiscard]] std::uint32_t max_degree() const noexcept { return max_degree_; }

    // slot < slots(). Ascends by neighbour.
    [[nodiscard]] HebbianRow row(std::uint32_t slot) const noexcept {
      if (changed_entries_ != 0) {
        const std::span<const HebbianEntry> list = changed_[slot];
        if (!list.empty()) return HebbianRow(list);
      }
      return slot < base_->slots ? HebbianRow(*base_, slot) : HebbianRow();
    }
    // The edges of a row. Throws std::out_of_range for an unknown slot.
    [[nodiscard]] std::vector<HebbianEdge> neighbours(std::uint32_t slot) const;
    [[nodiscard]] std::optional<HebbianEdge> edge(std::uint32_t a, std::uint32_t b) const;

    // HEB-11: from each seed on its own, the greatest product of weights over paths of at most
    // `depth` edges to each slot but that seed; of those from several seeds the greatest counts.
    // Only strengths of at least `min_strength`; the strongest `limit` of them, in order (GEN-4).
    [[nodiscard]] Activations spread(std::span<const std::uint32_t> seeds, std::size_t depth,
                                     float min_strength, std::size_t limit) const;

    // HEB-10, AM-22: an edge that is an only connection has 255; any other has an estimate of its
    // share of the spanning trees, at most kBridge - 1. Some words a slot, some looks at each edge.
    [[nodiscard]] BridgeScores bridge_scores() const;

    // The graph as one CSR without gaps.
    [[nodiscard]] std::shared_ptr<const HebbianBase> folded() const;
    // What is wrong with it, by the same checks that a file has to pass; nothing if all is well.
    [[nodiscard]] std::optional<std::string> fault() const;

   private:
    friend class HebbianGraph;
    std::shared_ptr<const HebbianBase> base_;
    CowLists<HebbianEntry>::View changed_;
    std::size_t changed_entries_ = 0;
    std::size_t slots_ = 0;
    std::size_t edges_ = 0;
    std::uint64_t cycle_ = 0;
    std::uint32_t max_degree_ = 0;
  };

  // max_degree in [1, kMaxDegree].
  HebbianGraph(EpochDomain& epochs, std::uint32_t max_degree);
  HebbianGraph(EpochDomain& epochs, HebbianContents contents);
  HebbianGraph(const HebbianGraph&) = delete;
  HebbianGraph& operator=(const HebbianGraph&) = delete;
  HebbianGraph(HebbianGraph&&) = delete;
  HebbianGraph& operator=(HebbianGraph&&) = delete;
  ~HebbianGraph();

  [[nodiscard]] View view() const;
  void reserve() { heap_.reserve(); }
  void published() noexcept;
  void rollback() noexcept;

  // Slots 0 to n - 1 are known from now on. Throws std::invalid_argument if there are more already.
  void resize(std::size_t n);

  // HEB-4, HEB-7: for each pair in turn, w += delta * (1 - w); whether the edge is there now.
  // `deltas`: one, or one for each, in [kLeastDelta, 1]. `hinted`: edges that are new get kHinted.
  // All arguments are checked before anything changes.
  [[nodiscard]] std::vector<std::uint8_t> strengthen(std::span<const std::uint32_t> a,
                                                     std::span<const std::uint32_t> b,
                                                     std::span<const float> deltas, bool hinted);

  // HEB-8; `by_arousal`: HEB-9 for the slots whose signals are known.
  DecayReport decay(float factor, bool by_arousal);

  // HEB-12: the edges of these slots; how many there were.
  std::size_t remove(std::span<const std::uint32_t> slots);

  // HEB-10: gives edges that still are there the scores that `scores` has for them. Returns how
  // many edges are only connections in it.
  std::size_t apply(const BridgeScores& scores);

  // For eviction (EDG-1) and decay (HEB-9). Not part of what a file holds.
  void set_signals(std::span<const std::uint32_t> slots, std::span<const MemorySignals> signals);

  void compact();

  // Live bytes.
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

 private:
  // The overflow has outgrown the base when it has more entries than kOutgrown and half of the
  // base's entries and slots.
  static constexpr std::size_t kOutgrown = 4096;

  struct State {
    std::shared_ptr<const HebbianBase> base;
    std::size_t slots = 0;
    std::size_t edges = 0;
    std::size_t changed_entries = 0;
    std::uint64_t cycle = 0;
  };
  struct Weakest;

  [[nodiscard]] HebbianRow row(std::uint32_t slot) const noexcept;
  [[nodiscard]] MemorySignals signals(std::uint32_t slot) const noexcept;
  [[nodiscard]] double importance(std::uint32_t a, const HebbianEntry& entry,
                                  std::uint32_t shared) const noexcept;
  [[nodiscard]] Weakest weakest(std::uint32_t slot) const;
  bool strengthen(std::uint32_t a, std::uint32_t b, float delta, bool hinted);
  void own(std::uint32_t slot);
  void insert(std::uint32_t slot, const HebbianEntry& entry);
  void erase(std::uint32_t slot, std::uint32_t neighbour);
  void edit(std::uint32_t slot, const HebbianEntry& entry);
  void prefetch_place(std::uint32_t slot) const noexcept;
  void fold();
  void fold_if_outgrown();

  EpochDomain& epochs_;
  std::uint32_t max_degree_;
  CowHeap heap_;
  CowLists<HebbianEntry> changed_;
  CowArray<MemorySignals> signals_;
  State now_;
  State published_;
  std::unique_ptr<LooseRows> loose_;  // in a change as large as the graph, else null
  std::vector<HebbianEntry> scratch_;
};

// Writes the state as one file (HCSR 3).
void save_hebbian(const std::string& path, const HebbianGraph::View& view);
// Reads a file of `save_hebbian`, or one of the legacy format (PER-8).
[[nodiscard]] HebbianContents load_hebbian(const std::string& path);

}  // namespace spector
