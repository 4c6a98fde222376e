#include "records/fusion.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "base/sort_best.hpp"
#include "graph/visited.hpp"

namespace spector {
namespace {

struct Entry {
  std::int64_t slot;
  double score;
  std::uint32_t n_lists;
  std::uint32_t best_rank;
};

}  // namespace

Fused fuse(std::span<const RankedList> lists, unsigned rrf_k) {
  std::size_t most = 0;
  for (const RankedList& list : lists) {
    if (list.slots.size() != list.scores.size()) {
      throw std::invalid_argument("a list must have as many scores as slots");
    }
    most += list.slots.size();
  }
  thread_local VisitedSet known;
  known.clear(most);
  std::vector<Entry> entries;
  entries.reserve(most);
  for (const RankedList& list : lists) {
    if (!(list.weight > 0) || list.slots.empty()) continue;
    const auto [low, high] = std::minmax_element(list.scores.begin(), list.scores.end());
    const double least = *low;
    const double range = static_cast<double>(*high) - least;
    for (std::size_t i = 0; i < list.slots.size(); ++i) {
      double part = 1;
      if (rrf_k > 0) {
        part = 1 / (static_cast<double>(rrf_k) + static_cast<double>(i + 1));
      } else if (range > 0) {
        part = (static_cast<double>(list.scores[i]) - least) / range;
      }
      const auto rank = static_cast<std::uint32_t>(i + 1);
      const VisitedSet::Place place = known.insert(static_cast<std::uint32_t>(list.slots[i]));
      if (place.is_new) {
        entries.push_back({list.slots[i], list.weight * part, 1, rank});
      } else {
        Entry& entry = entries[place.index];
        entry.score += list.weight * part;
        ++entry.n_lists;
        entry.best_rank = std::min(entry.best_rank, rank);
      }
    }
  }
  sort_best(entries, [](const Entry& a, const Entry& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.n_lists != b.n_lists) return a.n_lists > b.n_lists;
    if (a.best_rank != b.best_rank) return a.best_rank < b.best_rank;
    return a.slot < b.slot;
  });
  Fused fused;
  fused.slots.reserve(entries.size());
  fused.scores.reserve(entries.size());
  const double best = !entries.empty() && entries[0].score > 0 ? entries[0].score : 1;
  for (const Entry& entry : entries) {
    fused.slots.push_back(entry.slot);
    fused.scores.push_back(static_cast<float>(entry.score / best));
  }
  return fused;
}

Gains add_layers(std::span<const Layer> layers) {
  std::vector<const Layer*> ordered;
  std::size_t most = 0;
  for (const Layer& layer : layers) {
    ordered.push_back(&layer);
    most += layer.slots.size();
  }
  std::sort(ordered.begin(), ordered.end(), [](const Layer* a, const Layer* b) {
    return std::pair(a->number, a) < std::pair(b->number, b);  // of one number: as they were given
  });
  struct Sum {
    double gain;  // of the layers before `layer`
    const Layer* layer;
    double activation;  // the strongest of this one
    [[nodiscard]] double whole() const noexcept { return gain + layer->scale * activation; }
  };
  thread_local VisitedSet known;
  known.clear(most);
  std::vector<Sum> sums;
  sums.reserve(most);
  for (const Layer* const layer : ordered) {
    for (std::size_t i = 0; i < layer->slots.size(); ++i) {
      const double activation = layer->activations[i];
      if (!(activation > 0)) continue;
      const VisitedSet::Place place = known.insert(layer->slots[i]);
      if (place.is_new) {
        sums.push_back({0, layer, activation});
        continue;
      }
      Sum& sum = sums[place.index];
      if (sum.layer->number != layer->number) {
        sum = {sum.whole(), layer, activation};
      } else if (activation > sum.activation) {
        sum.layer = layer;
        sum.activation = activation;
      }
    }
  }
  Gains found;
  found.slots.assign(known.keys().begin(), known.keys().end());
  found.gains.reserve(sums.size());
  for (const Sum& sum : sums) found.gains.push_back(sum.whole());
  return found;
}

Bounded bound_by_seeds(const Led& led, std::span<const std::uint32_t> seeds,
                       std::span<const double> strengths, std::span<const std::int64_t> slots,
                       std::span<const float> scores, const Bounds& bounds) {
  const double best = !scores.empty() && scores[0] > 0 ? scores[0] : 1;
  using Share = std::pair<std::int64_t, double>;
  std::vector<Share> shares;
  shares.reserve(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) shares.emplace_back(slots[i], scores[i] / best);
  std::sort(shares.begin(), shares.end());
  Bounded found;
  for (std::size_t i = 0; i < led.slots.size(); ++i) {
    const std::uint32_t seed = led.seeds[i];
    const std::int64_t slot = led.slots[i];
    if (std::cmp_equal(slot, seeds[seed])) continue;
    const auto known = std::lower_bound(
        shares.begin(), shares.end(), slot,
        [](const Share& share, std::int64_t wanted) { return share.first < wanted; });
    const double own = known != shares.end() && known->first == slot ? known->second : 0;
    const double room = (bounds.below * strengths[seed] - own) / bounds.weight;
    const double activation = std::min(led.activations[i], room);
    if (activation < bounds.least) continue;
    found.places.push_back(static_cast<std::int64_t>(i));
    found.activations.push_back(activation);
  }
  return found;
}

Seeds seeds_of(std::span<const std::int64_t> slots, std::span<const float> scores,
               std::size_t most) {
  Seeds found;
  for (std::size_t i = 0; i < std::min(most, slots.size()) && scores[i] > 0; ++i) {
    found.slots.push_back(static_cast<std::uint32_t>(slots[i]));
    found.strengths.push_back(static_cast<double>(scores[i]) / static_cast<double>(scores[0]));
  }
  return found;
}

Fused accumulate(std::span<const std::int64_t> slots, std::span<const float> scores,
                 std::span<const std::int64_t> extra, std::span<const double> gains) {
  struct Entry {
    std::int64_t slot;
    double score;
  };
  thread_local VisitedSet known;
  known.clear(slots.size() + extra.size());
  for (const std::int64_t slot : slots) known.insert(static_cast<std::uint32_t>(slot));
  std::vector<Entry> changed;
  changed.reserve(extra.size());
  std::vector<std::uint8_t> raised(slots.size());
  for (std::size_t i = 0; i < extra.size(); ++i) {
    const VisitedSet::Place place = known.insert(static_cast<std::uint32_t>(extra[i]));
    changed.push_back({extra[i], gains[i]});
    if (place.is_new) continue;
    changed.back().score = scores[place.index] + gains[i];
    raised[place.index] = 1;
  }
  std::vector<Entry> same;  // in their order already, but perhaps for equal ones
  same.reserve(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (raised[i] == 0) same.push_back({slots[i], scores[i]});
  }
  const auto better = [](const Entry& a, const Entry& b) {
    return a.score != b.score ? a.score > b.score : a.slot < b.slot;
  };
  if (!std::is_sorted(same.begin(), same.end(), better)) sort_best(same, better);
  sort_best(changed, better);
  std::vector<Entry> entries(same.size() + changed.size());
  std::merge(same.begin(), same.end(), changed.begin(), changed.end(), entries.begin(), better);
  Fused found;
  found.slots.reserve(entries.size());
  found.scores.reserve(entries.size());
  for (const Entry& entry : entries) {
    found.slots.push_back(entry.slot);
    found.scores.push_back(static_cast<float>(entry.score));
  }
  return found;
}

}  // namespace spector
