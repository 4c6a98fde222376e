// What several layers of the graph lead to from the seeds of a recall, asked in one call: each of
// the calls that this replaces costs more by itself than most of the layers do.
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/shared.hpp"
#include "bindings/arrays.hpp"
#include "bindings/bound.hpp"
#include "bindings/gil.hpp"
#include "bindings/register.hpp"
#include "graph/entity_spread.hpp"
#include "graph/hebbian.hpp"
#include "graph/temporal_chain.hpp"
#include "records/fusion.hpp"

namespace py = pybind11;

namespace spector::bindings {
namespace {

struct SeedRules {
  // Associations (HEB-11).
  std::size_t depth;
  float min_strength;
  std::size_t associated;  // of each seed
  // What was told around a seed (TMP-4).
  std::size_t hops;
  double forward;
  double backward;
  // Entities (EXP-1): those that are asked for, and those of the first seeds.
  double asked;
  SpreadLimits around;
  std::size_t entity_seeds;
  double few;
  double below;
};

// Slots any number of times, each time with an activation.
struct Reach {
  std::vector<std::uint32_t> slots;
  std::vector<double> activations;

  void add(std::uint32_t slot, double activation) {
    slots.push_back(slot);
    activations.push_back(activation);
  }
};

using Seen = std::span<const std::uint32_t>;
using Strengths = std::span<const double>;

Reach by_association(const Shared<HebbianGraph>& graph, Seen seeds, Strengths strengths,
                     const SeedRules& rules) {
  Reach reach;
  graph.read([&](const HebbianGraph::View& view) {
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      if (seeds[i] >= view.slots()) continue;
      const Activations found =
          view.spread(seeds.subspan(i, 1), rules.depth, rules.min_strength, rules.associated);
      for (std::size_t j = 0; j < found.size(); ++j) {
        reach.add(found.slots[j], static_cast<double>(found.strengths[j]) * strengths[i]);
      }
    }
  });
  return reach;
}

Reach by_time(const Shared<TemporalChain>& chain, Seen seeds, Strengths strengths,
              const SeedRules& rules) {
  using Direction = TemporalChain::Direction;
  Reach reach;
  chain.read([&](const TemporalChain::View& view) {
    for (const auto& [direction, share] : {std::pair(Direction::kForward, rules.forward),
                                           std::pair(Direction::kBackward, rules.backward)}) {
      for (std::size_t i = 0; i < seeds.size(); ++i) {
        if (seeds[i] >= view.size()) continue;
        view.follow(seeds[i], direction, rules.hops, [&, share = share](std::uint32_t slot) {
          reach.add(slot, share * strengths[i]);
        });
      }
    }
  });
  return reach;
}

// `ranking`: what the lists found.
Reach by_entities(const EntityDirectory::View& directory, const HyperGraph::View& hyper, Seen asked,
                  Seen seeds, Strengths strengths, const RankedList& ranking,
                  const SeedRules& rules) {
  Reach reach;
  if (!asked.empty()) {
    const std::vector<double> each(asked.size(), rules.asked);
    for (const ActivatedMemory& one :
         spread_entities(directory, &hyper, asked, each, rules.around)) {
      reach.add(one.memory, one.activation);
    }
  }
  const std::size_t n = std::min(rules.entity_seeds, seeds.size());
  const SpreadLimits& around = rules.around;
  std::vector<std::uint32_t> places;
  Reach led;
  for (const NamedTogether& one :
       spread_memories(directory, seeds.first(n), strengths.first(n), rules.few,
                       {0, 0, around.most_links, around.least, around.most})) {
    places.push_back(one.seed);
    led.add(one.memory, one.activation);
  }
  if (places.empty()) return reach;
  const Bounded bounded =
      bound_by_seeds({places, led.slots, led.activations}, seeds.first(n), strengths.first(n),
                     ranking.slots, ranking.scores, {rules.below, ranking.weight, around.least});
  for (std::size_t i = 0; i < bounded.places.size(); ++i) {
    reach.add(led.slots[static_cast<std::size_t>(bounded.places[i])], bounded.activations[i]);
  }
  return reach;
}

}  // namespace

void register_expansion(py::module_& module) {
  bound<SeedRules>(module, "SeedRules")
      .def(py::init([](std::size_t depth, float min_strength, std::size_t associated,
                       std::size_t hops, double forward, double backward, double asked,
                       std::uint32_t steps, double share, std::uint32_t most_memories, double least,
                       std::size_t most, std::size_t entity_seeds, double few, double below) {
             return SeedRules{
                 depth,        min_strength, associated, hops,
                 forward,      backward,     asked,      {steps, share, most_memories, least, most},
                 entity_seeds, few,          below};
           }),
           py::kw_only(), py::arg("depth"), py::arg("min_strength"), py::arg("associated"),
           py::arg("hops"), py::arg("forward"), py::arg("backward"), py::arg("asked"),
           py::arg("steps"), py::arg("share"), py::arg("most_memories"), py::arg("least"),
           py::arg("most"), py::arg("entity_seeds"), py::arg("few"), py::arg("below"));
  module.def(
      "reach",
      [](const SeedRules& rules, const Array<std::uint32_t>& seeds, const Array<double>& strengths,
         const Array<std::int64_t>& slots, const Array<float>& scores,
         const Shared<HebbianGraph>* hebbian, const Shared<TemporalChain>* temporal,
         const Shared<EntityDirectory>* directory, const Shared<HyperGraph>* hyper,
         const std::vector<std::uint32_t>& asked, double weight) {
        const Seen from = span_of(seeds);
        const Strengths strong = span_of(strengths);
        const RankedList ranking{span_of(slots), span_of(scores), weight};
        if (from.size() != strong.size() || ranking.slots.size() != ranking.scores.size()) {
          throw std::invalid_argument("arrays that belong together must be of one length");
        }
        for (const double strength : strong) {
          if (!(strength >= 0 && strength <= 1)) {
            throw std::invalid_argument("strengths must be in [0, 1]");
          }
        }
        if (directory != nullptr && hyper == nullptr) {
          throw std::invalid_argument("a directory needs its hypergraph");
        }
        std::array<Reach, 3> found;
        {
          const GilRelease release;
          if (hebbian != nullptr) found[0] = by_association(*hebbian, from, strong, rules);
          if (temporal != nullptr) found[1] = by_time(*temporal, from, strong, rules);
          if (directory != nullptr) {
            found[2] = directory->read([&](const EntityDirectory::View& entities) {
              return hyper->read([&](const HyperGraph::View& events) {
                return by_entities(entities, events, asked, from, strong, ranking, rules);
              });
            });
          }
        }
        py::list parts;
        for (Reach& reach : found) {
          parts.append(py::make_tuple(to_array(std::move(reach.slots)),
                                      to_array(std::move(reach.activations))));
        }
        return parts;
      },
      py::arg("rules"), py::arg("seeds").noconvert(), py::arg("strengths").noconvert(),
      py::arg("slots").noconvert(), py::arg("scores").noconvert(), py::arg("hebbian").none(true),
      py::arg("temporal").none(true), py::arg("directory").none(true), py::arg("hyper").none(true),
      py::arg("asked"), py::arg("weight"));
  module.def(
      "having",
      [](const Array<std::uint32_t>& numbers, const Array<std::int64_t>& slots,
         const std::vector<std::uint32_t>& wanted) {
        const auto of = span_of(numbers);
        std::vector<std::uint32_t> found;
        for (const std::int64_t slot : span_of(slots)) {
          // Below 0 is beyond as well.
          if (static_cast<std::uint64_t>(slot) >= of.size()) continue;
          const std::uint32_t number = of[static_cast<std::size_t>(slot)];
          if (std::find(wanted.begin(), wanted.end(), number) == wanted.end()) continue;
          found.push_back(static_cast<std::uint32_t>(slot));
        }
        return to_array(found);
      },
      py::arg("numbers").noconvert(), py::arg("slots").noconvert(), py::arg("wanted"));
}

}  // namespace spector::bindings
