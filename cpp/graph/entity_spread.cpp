#include "graph/entity_spread.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>

#include "graph/visited.hpp"

namespace spector {
namespace {

constexpr std::uint32_t kNone = EntityDirectory::kNone;

struct Met {
  std::uint32_t entity;
  std::uint32_t from;  // the place of the one before it, or kNone
  double strength;
};

// Entities in the order in which they were met, each once.
class Around {
 public:
  // Nobody is met with a strength below `least`.
  Around(const EntityDirectory::View& directory, const HyperGraph::View* hyper, double least,
         VisitedSet& places)
      : directory_(directory), hyper_(hyper), least_(least), places_(places) {
    places_.clear();
  }

  // Of one step an entity keeps its greatest strength, of several the first step's.
  void meet(std::uint32_t entity, std::uint32_t from, double strength) {
    if (strength < least_) return;
    const auto [place, is_new] = places_.insert(entity);
    if (is_new) {
      met_.push_back({entity, from, strength});
    } else if (place >= step_begin_ && met_[place].strength < strength) {
      met_[place] = {entity, from, strength};
    }
  }

  // Lets those of the last step pass on their strength.
  void step(double share) {
    std::vector<std::uint32_t> order;
    for (std::size_t i = step_begin_; i < met_.size(); ++i) {
      order.push_back(static_cast<std::uint32_t>(i));
    }
    std::sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
      return std::tuple(-met_[a].strength, met_[a].entity) <
             std::tuple(-met_[b].strength, met_[b].entity);
    });
    if (order.size() > SpreadLimits::kMostEntities) order.resize(SpreadLimits::kMostEntities);
    step_begin_ = met_.size();
    for (const std::uint32_t place : order) pass_on(place, share * met_[place].strength);
  }

  [[nodiscard]] std::span<const Met> met() const noexcept { return met_; }

 private:
  void pass_on(std::uint32_t place, double strength) {
    const std::uint32_t entity = met_[place].entity;
    const auto pass = [&](std::uint32_t to, float weight) {
      meet(to, place, strength * std::min(1.0, static_cast<double>(weight)));
    };
    const std::span<const EntityDirectory::Relation> out = directory_.relations_of(entity);
    for (std::size_t i = 0; i < std::min(out.size(), SpreadLimits::kMostAround); ++i) {
      pass(out[i].target, out[i].weight);
    }
    const std::span<const EntityDirectory::Incoming> in = directory_.incoming(entity);
    for (std::size_t i = 0; i < std::min(in.size(), SpreadLimits::kMostAround); ++i) {
      for (const EntityDirectory::Relation& relation : directory_.relations_of(in[i].source)) {
        if (relation.target == entity && relation.type == in[i].type) {
          pass(in[i].source, relation.weight);
        }
      }
    }
    if (hyper_ == nullptr) return;
    const std::span<const std::uint32_t> events = hyper_->hyperedges_of(entity);
    for (std::size_t i = 0; i < std::min(events.size(), SpreadLimits::kMostAround); ++i) {
      const HyperGraph::Edge event = hyper_->edge(events[i]);
      for (const HyperGraph::Vertex& vertex : event.vertices) {
        if (vertex.entity >= directory_.size()) continue;
        pass(directory_.resolve_known(vertex.entity), event.weight);
      }
    }
  }

  const EntityDirectory::View& directory_;
  const HyperGraph::View* hyper_;
  double least_;
  std::vector<Met> met_;
  VisitedSet& places_;  // in the order of met_
  std::size_t step_begin_ = 0;
};

}  // namespace

std::vector<ActivatedMemory> spread_entities(const EntityDirectory::View& directory,
                                             const HyperGraph::View* hyper,
                                             std::span<const std::uint32_t> starts,
                                             std::span<const double> strengths,
                                             const SpreadLimits& limits) {
  thread_local VisitedSet places;
  thread_local VisitedSet memories;
  Around around(directory, hyper, limits.least, places);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    around.meet(directory.resolve(starts[i]), kNone, strengths[i]);
  }
  for (std::uint32_t step = 0; step < std::min(limits.steps, SpreadLimits::kMostSteps); ++step) {
    around.step(limits.share);
  }
  const std::span<const Met> met = around.met();
  struct Activated {
    std::uint32_t memory;
    std::uint32_t place;
    double activation;
  };
  std::vector<Activated> all;  // in the order of `memories`, each with its strongest
  memories.clear();
  for (std::uint32_t place = 0; place < met.size(); ++place) {
    const EntityDirectory::Node& node = directory.node(met[place].entity);
    if (node.adj_count == 0 || node.adj_count > limits.most_links) continue;
    const double strength = met[place].strength / std::sqrt(static_cast<double>(node.adj_count));
    if (strength < limits.least) continue;
    directory.for_each_piece(node, [&](std::span<const EntityDirectory::Link> links) {
      for (const EntityDirectory::Link& link : links) {
        const double weight = std::min(1.0, static_cast<double>(link.strength()));
        if (strength * weight < limits.least) continue;
        const auto [index, is_new] = memories.insert(link.memory);
        if (is_new) {
          all.push_back({link.memory, place, strength * weight});
        } else if (strength * weight > all[index].activation) {
          all[index] = {link.memory, place, strength * weight};
        }
      }
    });
  }
  if (all.size() > limits.most) {
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(limits.most), all.end(),
                     [](const Activated& a, const Activated& b) {
                       return std::tuple(-a.activation, a.memory) <
                              std::tuple(-b.activation, b.memory);
                     });
    all.resize(limits.most);
  }
  std::sort(all.begin(), all.end(),
            [](const Activated& a, const Activated& b) { return a.memory < b.memory; });
  std::vector<ActivatedMemory> found;
  found.reserve(all.size());
  for (const Activated& one : all) {
    ActivatedMemory& added =
        found.emplace_back(ActivatedMemory{one.memory, {kNone, kNone, kNone}, one.activation});
    std::size_t n = 0;
    for (std::uint32_t at = one.place; at != kNone; at = met[at].from) ++n;
    for (std::uint32_t at = one.place; at != kNone; at = met[at].from) {
      added.path[--n] = met[at].entity;
    }
  }
  return found;
}

std::vector<NamedTogether> spread_memories(const EntityDirectory::View& directory,
                                           std::span<const std::uint32_t> memories,
                                           std::span<const double> strengths, double few,
                                           const SpreadLimits& limits) {
  std::vector<NamedTogether> found;
  std::vector<double> each;
  for (std::uint32_t seed = 0; seed < memories.size(); ++seed) {
    const std::span<const std::uint32_t> own = directory.entities_of(memories[seed]);
    if (own.empty()) continue;
    const double share = std::min(1.0, few / static_cast<double>(own.size()));
    each.assign(own.size(), strengths[seed] * std::pow(share, 0.25));
    for (const ActivatedMemory& one : spread_entities(directory, nullptr, own, each, limits)) {
      found.push_back({seed, one.memory, one.path[0], one.activation});
    }
  }
  return found;
}

}  // namespace spector
