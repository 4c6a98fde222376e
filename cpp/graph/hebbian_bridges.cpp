// HEB-10, AM-22: which edges hold the graph together.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "base/large_array.hpp"
#include "graph/hebbian.hpp"

namespace spector {
namespace {

constexpr std::uint32_t kOnly = 255;

// Marks every edge without which its ends would not be connected, in both directions. `scores` has
// one for each entry. Returns how many edges there are.
//
// A depth-first walk numbers the slots as it meets them; an edge of its tree is an only connection
// if nothing below it has an edge to its upper end or beyond (Tarjan's low-link, without recursion
// as paths may be as long as the graph is large).
std::size_t mark_only_connections(const HebbianBase& graph, std::uint8_t* scores) {
  struct Frame {
    std::uint32_t slot;
    std::uint32_t at;   // the next entry of its row
    std::uint32_t end;  // of its row
    std::uint32_t low;  // the least number that an edge from here or below leads to
  };
  const std::uint32_t* const offsets = graph.offsets.get();
  const std::uint32_t* const neighbours = graph.neighbours.get();
  std::vector<std::uint32_t> numbers(graph.slots, 0);  // from 1 in order of meeting
  std::vector<Frame> path;
  std::uint32_t n_met = 0;
  std::size_t n_only = 0;
  const auto enter = [&](std::uint32_t slot) {
    const std::uint32_t first = offsets[slot];
    const std::uint32_t end = offsets[slot + 1];
    for (std::uint32_t i = first; i < end; ++i) __builtin_prefetch(&numbers[neighbours[i]]);
    numbers[slot] = ++n_met;
    path.push_back({slot, first, end, n_met});
  };
  for (std::size_t root = 0; root < graph.slots; ++root) {
    if (numbers[root] != 0) continue;
    enter(static_cast<std::uint32_t>(root));
    while (true) {
      Frame& frame = path.back();
      if (frame.at < frame.end) {
        const std::uint32_t slot = neighbours[frame.at++];
        const std::uint32_t number = numbers[slot];
        if (number == 0) {
          enter(slot);
        } else if (path.size() < 2 || slot != path[path.size() - 2].slot) {
          frame.low = std::min(frame.low, number);
        }
        continue;
      }
      const Frame done = frame;
      path.pop_back();
      if (path.empty()) break;
      Frame& above = path.back();
      if (done.low > numbers[above.slot]) {
        ++n_only;
        scores[above.at - 1] = kOnly;
        const std::uint32_t* const row = neighbours + offsets[done.slot];
        const std::uint32_t* const back = std::lower_bound(row, neighbours + done.end, above.slot);
        scores[back - neighbours] = kOnly;
      }
      above.low = std::min(above.low, done.low);
    }
  }
  return n_only;
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
          std::min<std::uint32_t>(kBridge - 1, static_cast<std::uint32_t>(255 * share + 0.5)));
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
