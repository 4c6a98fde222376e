// From entities to what is around them (ENT-10): over relations in both directions and over
// hyperedges, breadth first, so that each entity is met on a shortest way and expanded from there.
//
// Pure functions over Views: any thread may call them, under Pins of both stores. They use memory
// of the thread's own, which grows to one bit for each entity, hyperedge and memory at most, and
// cost what they touch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/entity_directory.hpp"
#include "graph/hyper_graph.hpp"

namespace spector {

struct Reach {
  std::vector<std::uint32_t> entities;  // the starts first; nearest first, then by number
  std::vector<std::uint32_t> hops;      // of each, on the shortest way from any start
};

// What may be followed: relations and hyperedges of these types, or all.
using TypeFilter = std::optional<std::span<const std::uint32_t>>;

// The entities within max_hops of the starts. `hyper` may be null. Hyperedges may name entities
// that the directory does not know (they are passed over) or has merged (the survivor is meant).
// Throws std::out_of_range for a start that is not there.
[[nodiscard]] Reach traverse(const EntityDirectory::View& directory, const HyperGraph::View* hyper,
                             std::span<const std::uint32_t> starts, const TypeFilter& types,
                             std::uint32_t max_hops);

// The memories linked to any of them, ascending.
[[nodiscard]] std::vector<std::uint32_t> collect_memories(const EntityDirectory::View& directory,
                                                          const HyperGraph::View* hyper,
                                                          std::span<const std::uint32_t> starts,
                                                          const TypeFilter& types,
                                                          std::uint32_t max_hops);

}  // namespace spector
