#include "records/fusion.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace spector {
namespace {

struct Entry {
  std::int64_t slot;
  double score;
  std::uint32_t n_lists;
  std::uint32_t best_rank;
  std::uint32_t list;
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
  std::vector<Entry> entries;
  entries.reserve(most);
  std::uint32_t number = 0;
  for (const RankedList& list : lists) {
    ++number;
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
      entries.push_back(
          {list.slots[i], list.weight * part, 1, static_cast<std::uint32_t>(i + 1), number});
    }
  }
  // Parts of a slot side by side, in the order of the lists, in which they are added.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.slot < b.slot || (a.slot == b.slot && a.list < b.list);
  });
  std::size_t n = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (n > 0 && entries[n - 1].slot == entries[i].slot) {
      Entry& entry = entries[n - 1];
      entry.score += entries[i].score;
      ++entry.n_lists;
      entry.best_rank = std::min(entry.best_rank, entries[i].best_rank);
    } else {
      entries[n++] = entries[i];
    }
  }
  entries.resize(n);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.n_lists != b.n_lists) return a.n_lists > b.n_lists;
    if (a.best_rank != b.best_rank) return a.best_rank < b.best_rank;
    return a.slot < b.slot;
  });
  Fused fused;
  fused.slots.reserve(n);
  fused.scores.reserve(n);
  const double best = n > 0 && entries[0].score > 0 ? entries[0].score : 1;
  for (const Entry& entry : entries) {
    fused.slots.push_back(entry.slot);
    fused.scores.push_back(static_cast<float>(entry.score / best));
  }
  return fused;
}

}  // namespace spector
