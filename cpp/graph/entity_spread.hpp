// From entities to the memories that speak of what is around them (EXP-1, step 5e).
//
// An entity passes a share of its strength to those that it is related to, in either direction, or
// took part in an event with; a memory is activated by the strongest entity that it is linked to,
// which is worth less the more memories it has (ENT-6). Bounded work: of each step only the
// strongest entities go on, each to so many others, and an entity that nearly everything speaks of
// activates nothing.
//
// A pure function over Views: any thread may call it, under Pins of both stores.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/entity_directory.hpp"
#include "graph/hyper_graph.hpp"

namespace spector {

struct SpreadLimits {
  static constexpr std::uint32_t kMostSteps = 2;
  static constexpr std::size_t kMostEntities = 8;  // of a step that go on
  static constexpr std::size_t kMostAround = 16;   // relations from one, to one, and its events

  std::uint32_t steps;       // at most kMostSteps
  double share;              // of its strength that an entity passes on, in [0, 1]
  std::uint32_t most_links;  // an entity with more memories activates none
  double least;              // no activation is below it
  std::size_t most;          // memories; the strongest are kept, of equals the lower ones
};

struct ActivatedMemory {
  std::uint32_t memory;
  // The entities on the way, from the start; kNone after the last.
  std::array<std::uint32_t, SpreadLimits::kMostSteps + 1> path;
  double activation;
};

// The memories with their strongest activation, ascending. `hyper` may be null; `strengths` has one
// for each start, in [0, 1]. Throws std::out_of_range for a start that is not there.
[[nodiscard]] std::vector<ActivatedMemory> spread_entities(const EntityDirectory::View& directory,
                                                           const HyperGraph::View* hyper,
                                                           std::span<const std::uint32_t> starts,
                                                           std::span<const double> strengths,
                                                           const SpreadLimits& limits);

// A memory that another one, of place `seed` among those given, leads to by way of `entity`.
struct NamedTogether {
  std::uint32_t seed;
  std::uint32_t memory;
  std::uint32_t entity;
  double activation;
};

// `spread_entities` without steps from the entities of each memory, one memory after the other.
// Each entity has the memory's strength, and where there are more than `few` of them that times
// (few / their number)^(1/4).
[[nodiscard]] std::vector<NamedTogether> spread_memories(const EntityDirectory::View& directory,
                                                         std::span<const std::uint32_t> memories,
                                                         std::span<const double> strengths,
                                                         double few, const SpreadLimits& limits);

}  // namespace spector
