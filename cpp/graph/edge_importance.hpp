// EDG-1: how much an edge between two memories is worth keeping. A pure function.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace spector {

// What the header of a memory says that concerns its edges.
struct MemorySignals {
  float importance = 0;  // 0.05 to 10
  float storage_strength = 0;
  std::uint8_t arousal = 0;
  std::int8_t valence = 0;
  std::uint8_t open = 0;   // 1: unresolved or pinned
  std::uint8_t known = 0;  // 0: nothing is known, the rest means nothing
};
static_assert(sizeof(MemorySignals) == 12);

struct EdgeFacts {
  float weight;
  std::uint32_t age;  // cycles since it was strengthened, modulo 65536
  std::uint32_t bridge_score;
  std::uint32_t shared;  // neighbours that both ends have
};

// In [0, 1]. Without the signals of both ends: the four structural ones, rescaled.
[[nodiscard]] inline double edge_importance(const EdgeFacts& edge, const MemorySignals& a,
                                            const MemorySignals& b) noexcept {
  double sum = 0.15 * static_cast<double>(edge.weight);
  // Most edges that are compared are fresh, and exp is the most of the cost.
  sum += 0.10 * (edge.age == 0 ? 1 : std::exp(-static_cast<double>(edge.age) / 72));
  sum += 0.20 * (static_cast<double>(edge.bridge_score) / 255);
  sum += 0.10 * (1 / (1 + 0.3 * static_cast<double>(edge.shared)));
  if (a.known == 0 || b.known == 0) return sum / 0.55;
  const auto mean = [](float x, float y) {
    return (static_cast<double>(x) + static_cast<double>(y)) / 2;
  };
  sum += 0.15 * (mean(a.importance, b.importance) / 10);
  sum += 0.10 * (static_cast<double>(std::max(a.arousal, b.arousal)) / 255);
  sum += 0.05 * (1 - static_cast<double>(std::abs(a.valence - b.valence)) / 255);
  sum += 0.05 * std::clamp((mean(a.storage_strength, b.storage_strength) - 1) / 4, 0.0, 1.0);
  if (a.open != 0 || b.open != 0) sum += 0.10;
  return sum;
}

}  // namespace spector
