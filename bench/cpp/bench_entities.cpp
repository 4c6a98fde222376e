// find_entity and 2-hop collection over 100,000 entities and 300,000 hyperedges, without Python.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/shared.hpp"
#include "graph/entity_directory.hpp"
#include "graph/traverse.hpp"

namespace {

using namespace spector;

constexpr std::uint32_t kEntities = 100000;

struct Graph {
  Shared<EntityDirectory> directory{48U};
  Shared<HyperGraph> hyper{64U};

  Graph() {
    std::mt19937 random(42);
    directory.write([&](EntityDirectory& store) {
      for (std::uint32_t i = 0; i < kEntities; ++i) {
        store.intern("Entity-" + std::to_string(i), i % 21);
      }
      hyper.write([&](HyperGraph& edges) {
        for (std::uint32_t memory = 0; memory < 3 * kEntities; ++memory) {
          std::set<std::uint32_t> members;
          const std::size_t n = 3 + random() % 6;
          while (members.size() < n)
            members.insert(static_cast<std::uint32_t>(random() % kEntities));
          const std::vector<std::uint32_t> entities(members.begin(), members.end());
          const std::vector<std::uint32_t> roles(n, 0);
          edges.add({0, entities, roles, memory, memory, 1});
          for (const std::uint32_t entity : entities) store.link(entity, memory, false);
        }
      });
    });
  }
};

const Graph& graph() {
  static const Graph made;
  return made;
}

void find_entity(benchmark::State& state, const char* prefix) {
  std::mt19937 random(7);
  std::vector<std::string> names;
  for (int i = 0; i < 4096; ++i) names.push_back(prefix + std::to_string(random() % kEntities));
  const Graph& made = graph();
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(made.directory.read(
        [&](const EntityDirectory::View& view) { return view.find(names[i++ % names.size()]); }));
  }
}
BENCHMARK_CAPTURE(find_entity, ascii, "Entity-");
BENCHMARK_CAPTURE(find_entity, absent, "Absent-");
BENCHMARK_CAPTURE(find_entity, full_width, "\xef\xbc\xa5ntity-");

void collect_2_hops(benchmark::State& state) {
  std::mt19937 random(7);
  std::size_t memories = 0;
  const Graph& made = graph();
  for (auto _ : state) {
    const std::vector<std::uint32_t> start{static_cast<std::uint32_t>(random() % kEntities)};
    memories += made.directory.read([&](const EntityDirectory::View& view) {
      return made.hyper.read([&](const HyperGraph::View& edges) {
        return collect_memories(view, &edges, start, std::nullopt, 2).size();
      });
    });
  }
  state.counters["memories"] =
      static_cast<double>(memories) / static_cast<double>(state.iterations());
}
BENCHMARK(collect_2_hops)->Unit(benchmark::kMicrosecond);

}  // namespace
