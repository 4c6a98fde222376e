// HEB-10, AM-22: which edges hold the graph together.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/large_array.hpp"
#include "graph/hebbian.hpp"

namespace spector {
namespace {

constexpr std::uint32_t kOnly = 255;
constexpr double kHalf = 0.5;  // rounds what is cut off after it

// A spanning forest, grown breadth first: the rows that come next are known, so their memory can be
// asked for in time.
struct Forest {
  std::shared_ptr<std::uint32_t[]> order;   // the slots as they were met
  std::shared_ptr<std::uint32_t[]> number;  // of a slot in `order`: that of its parent is less
  std::shared_ptr<std::uint32_t[]> parent;  // of a slot; of a root, itself
};

Forest grow(const HebbianBase& graph) {
  const std::size_t n = graph.slots;
  const Forest forest{make_large_array<std::uint32_t>(n), make_large_array<std::uint32_t>(n),
                      make_large_array<std::uint32_t>(n)};
  const std::uint32_t* const offsets = graph.offsets.get();
  const std::uint32_t* const neighbours = graph.neighbours.get();
  std::uint32_t* const order = forest.order.get();
  std::uint32_t* const number = forest.number.get();
  std::uint32_t* const parent = forest.parent.get();
  std::vector<std::uint64_t> met((n + 63) / 64, 0);  // a bit each: small enough for the cache
  std::uint32_t n_met = 0;
  const auto meet = [&](std::uint32_t slot, std::uint32_t from) {
    met[slot / 64] |= std::uint64_t{1} << slot % 64;
    number[slot] = n_met;
    parent[slot] = from;
    order[n_met++] = slot;
  };
  constexpr std::size_t kAhead = 12;
  constexpr std::size_t kLine = 16;  // words
  std::uint32_t next = 0;
  for (std::uint32_t root = 0; root < n; ++root) {
    if ((met[root / 64] >> root % 64 & 1) != 0) continue;
    meet(root, root);
    for (; next < n_met; ++next) {
      if (next + 2 * kAhead < n_met) __builtin_prefetch(offsets + order[next + 2 * kAhead]);
      if (next + kAhead < n_met) {
        const std::uint32_t slot = order[next + kAhead];
        for (std::size_t i = offsets[slot]; i < offsets[slot + 1]; i += kLine) {
          __builtin_prefetch(neighbours + i);
        }
      }
      const std::uint32_t slot = order[next];
      for (std::uint32_t i = offsets[slot]; i < offsets[slot + 1]; ++i) {
        const std::uint32_t other = neighbours[i];
        if ((met[other / 64] >> other % 64 & 1) == 0) meet(other, slot);
      }
    }
  }
  return forest;
}

// Marks every edge without which its ends would not be connected, in both directions. `scores` has
// one for each entry. Returns how many edges there are.
//
// Such an edge is in every spanning forest, and no other edge closes a circle with it. So each edge
// beside the forest joins what lies on its circle into one group; the edges of the forest that are
// left between groups are the only connections. A group is known by its slot nearest to the root,
// and edges within a group need nothing, so that all takes little more than one look at each edge.
std::size_t mark_only_connections(const HebbianBase& graph, std::uint8_t* scores) {
  const Forest forest = grow(graph);
  const std::uint32_t* const offsets = graph.offsets.get();
  const std::uint32_t* const neighbours = graph.neighbours.get();
  const std::uint32_t* const number = forest.number.get();
  const std::uint32_t* const parent = forest.parent.get();
  const auto groups = make_large_array<std::uint32_t>(graph.slots);  // a slot of it nearer the root
  std::uint32_t* const up = groups.get();
  std::size_t n_left = 0;  // edges of the forest between groups
  for (std::uint32_t slot = 0; slot < graph.slots; ++slot) {
    up[slot] = slot;
    n_left += parent[slot] == slot ? 0 : 1;
  }
  const auto group_of = [up](std::uint32_t slot) {
    while (up[slot] != slot) {
      up[slot] = up[up[slot]];
      slot = up[slot];
    }
    return slot;
  };
  constexpr std::size_t kAhead = 32;
  for (std::uint32_t slot = 0; slot < graph.slots && n_left > 0; ++slot) {
    for (std::uint32_t i = offsets[slot]; i < offsets[slot + 1]; ++i) {
      if (i + kAhead < graph.entries) __builtin_prefetch(up + neighbours[i + kAhead]);
      const std::uint32_t other = neighbours[i];
      if (other > slot) break;  // each edge once
      std::uint32_t a = group_of(slot);
      std::uint32_t b = group_of(other);
      if (a == b || parent[slot] == other || parent[other] == slot) continue;
      while (a != b) {
        if (number[a] < number[b]) std::swap(a, b);
        up[a] = parent[a];
        a = group_of(a);
        --n_left;
      }
    }
  }

  const auto mark = [&](std::uint32_t from, std::uint32_t to) {
    const std::uint32_t* const row = neighbours + offsets[from];
    scores[std::lower_bound(row, neighbours + offsets[from + 1], to) - neighbours] = kOnly;
  };
  for (std::uint32_t slot = 0; slot < graph.slots && n_left > 0; ++slot) {
    if (up[slot] != slot || parent[slot] == slot) continue;
    mark(slot, parent[slot]);
    mark(parent[slot], slot);
  }
  return n_left;
}

std::uint32_t n_shared(const HebbianBase& graph, std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t n = 0;
  std::uint32_t i = graph.offsets[a];
  std::uint32_t j = graph.offsets[b];
  while (i < graph.offsets[a + 1] && j < graph.offsets[b + 1]) {
    const std::uint32_t x = graph.neighbours[i];
    const std::uint32_t y = graph.neighbours[j];
    n += x == y ? 1 : 0;
    i += x <= y ? 1 : 0;
    j += y <= x ? 1 : 0;
  }
  return n;
}

}  // namespace

HebbianGraph::BridgeScores HebbianGraph::View::bridge_scores() const {
  const std::shared_ptr<const HebbianBase> graph = folded();
  const std::uint32_t* const offsets = graph->offsets.get();
  const std::uint32_t* const neighbours = graph->neighbours.get();
  const auto scores = make_large_array<std::uint8_t>(graph->entries);

  // An edge's share of the spanning trees is the resistance between its ends if every edge is a
  // resistor of 1. It is about 1/d + 1/d' in a graph that is well connected elsewhere, and at most
  // 1 / (1 + shared / 2) as each shared neighbour is a way round of resistance 2. Counting the
  // shared ones costs a look at another row, so it is done where rows are short and it says most.
  constexpr std::uint32_t kShortRows = 16;  // of both ends together
  std::array<double, kMaxDegree + 1> inverse{};
  for (std::size_t d = 1; d < inverse.size(); ++d) inverse[d] = 1 / static_cast<double>(d);
  constexpr std::uint32_t kAhead = 16;
  for (std::size_t slot = 0; slot < graph->slots; ++slot) {
    const std::uint32_t degree = offsets[slot + 1] - offsets[slot];
    for (std::uint32_t i = offsets[slot]; i < offsets[slot + 1]; ++i) {
      if (i + kAhead < graph->entries) __builtin_prefetch(offsets + neighbours[i + kAhead]);
      const std::uint32_t other = neighbours[i];
      const std::uint32_t degree_of_other = offsets[other + 1] - offsets[other];
      double share = inverse[degree] + inverse[degree_of_other];
      if (degree + degree_of_other <= kShortRows) {
        const std::uint32_t shared = n_shared(*graph, static_cast<std::uint32_t>(slot), other);
        share = std::min(share, 1 / (1 + static_cast<double>(shared) / 2));
      }
      scores[i] = static_cast<std::uint8_t>(
          std::min<std::uint32_t>(kBridge - 1, static_cast<std::uint32_t>(255 * share + kHalf)));
    }
  }
  const std::size_t only = mark_only_connections(*graph, scores.get());

  const auto meta = make_large_array<std::uint32_t>(graph->entries);
  for (std::size_t i = 0; i < graph->entries; ++i) {
    meta[i] = (graph->meta[i] & 0xff00ffffU) | static_cast<std::uint32_t>(scores[i]) << 16;
  }
  return {graph, meta, only};
}

}  // namespace spector
