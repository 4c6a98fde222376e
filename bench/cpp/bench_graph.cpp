// The kernels and the inner calls of the graph stores.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/shared.hpp"
#include "graph/hebbian.hpp"
#include "kernels/dispatch.hpp"

namespace {

using namespace spector;  // NOLINT(google-build-using-namespace)

void decay_weights(benchmark::State& state, const std::string& isa) {
  kernels::set_isa(isa);
  constexpr std::size_t kCount = 4096;
  const std::vector<float> weights(kCount, 0.5F);
  const std::vector<std::uint32_t> meta(kCount, 0);
  std::vector<float> out(kCount);
  const kernels::DecayRule rule{
      .factor = 0.9F, .factors = nullptr, .floor = 0.1F, .bridge = 224, .max_age = 365, .cycle = 1};
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        kernels::active().decay_weights(weights.data(), meta.data(), kCount, rule, out.data()));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kCount));
}

struct Pairs {
  std::vector<std::uint32_t> a;
  std::vector<std::uint32_t> b;
  std::vector<float> delta;
};

// degree / 2 pairs for each node, drawn evenly.
Pairs pairs(std::uint32_t n, std::uint32_t degree) {
  std::mt19937_64 random(42);
  std::uniform_int_distribution<std::uint32_t> node(0, n - 1);
  std::uniform_int_distribution<std::uint32_t> step(1, n - 1);
  std::uniform_real_distribution<float> delta(0.2F, 1.0F);
  Pairs made;
  for (std::uint64_t i = 0; i < std::uint64_t{n} * degree / 2; ++i) {
    made.a.push_back(node(random));
    made.b.push_back((made.a.back() + step(random)) % n);
    made.delta.push_back(delta(random));
  }
  return made;
}

std::unique_ptr<Shared<HebbianGraph>> graph(std::uint32_t n, const Pairs& of) {
  auto made = std::make_unique<Shared<HebbianGraph>>(24U);
  made->write([&](HebbianGraph& store) {
    store.resize(n);
    static_cast<void>(store.strengthen(of.a, of.b, of.delta, false));
    store.compact();
  });
  return made;
}

// Arguments: nodes, degree.
void hebbian_strengthen_new(benchmark::State& state) {
  const auto n = static_cast<std::uint32_t>(state.range(0));
  const Pairs of = pairs(n, static_cast<std::uint32_t>(state.range(1)));
  for (auto _ : state) benchmark::DoNotOptimize(graph(n, of));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(of.a.size()));
}

void hebbian_spread(benchmark::State& state) {
  const auto n = static_cast<std::uint32_t>(state.range(0));
  const auto store = graph(n, pairs(n, static_cast<std::uint32_t>(state.range(1))));
  std::mt19937 random(7);
  std::vector<std::uint32_t> seeds(10);
  std::size_t results = 0;
  for (auto _ : state) {
    for (std::uint32_t& seed : seeds) seed = static_cast<std::uint32_t>(random() % n);
    results += store
                   ->read([&](const HebbianGraph::View& view) {
                     return view.spread(seeds, 2, 0.01F, std::numeric_limits<std::size_t>::max());
                   })
                   .size();
  }
  state.counters["results"] =
      benchmark::Counter(static_cast<double>(results), benchmark::Counter::kAvgIterations);
}

const int registered = [] {
  for (const std::string_view isa : kernels::available_isas()) {
    const std::string name(isa);
    benchmark::RegisterBenchmark(("decay_weights/" + name).c_str(), decay_weights, name);
  }
  return 0;
}();

BENCHMARK(hebbian_strengthen_new)->Args({1'000'000, 2})->Unit(benchmark::kMillisecond);
BENCHMARK(hebbian_spread)
    ->Args({1'000'000, 2})
    ->Args({1'000'000, 24})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
