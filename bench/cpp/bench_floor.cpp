// What a query that reads all its postings costs at the least on this machine: one addition a
// posting and one look at each document, both in cache and without anything around them.
// `python -m bench.bm25 --floor FILE` reads it:
//     spector_bench --benchmark_filter=floor --benchmark_format=json > FILE
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "kernels/dispatch.hpp"

namespace {

using namespace spector;  // NOLINT(google-build-using-namespace)

void floor_scatter_add(benchmark::State& state) {
  std::mt19937 random(1);
  std::vector<std::uint16_t> offsets;
  std::vector<float> impacts;
  std::vector<float> sums(kernels::kWindow);
  // Terms of a hundredth of the documents, one behind the other.
  for (int term = 0; term < 64; ++term) {
    for (std::uint32_t row = 0; row < kernels::kWindow; ++row) {
      if (random() % 100 != 0) continue;
      offsets.push_back(static_cast<std::uint16_t>(row));
      impacts.push_back(static_cast<float>(random() % 100));
    }
  }
  for (auto _ : state) {
    for (std::size_t i = 0; i < offsets.size(); ++i) sums[offsets[i]] += impacts[i];
    benchmark::DoNotOptimize(sums.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(offsets.size()));
}

void floor_scan(benchmark::State& state) {
  std::vector<std::uint16_t> sums(kernels::kWindow);
  std::vector<std::uint16_t> indices(kernels::kWindow);
  std::vector<std::uint16_t> values(kernels::kWindow);
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernels::active().take_at_least(sums.data(), sums.size(), 1,
                                                             indices.data(), values.data()));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(sums.size()));
}

BENCHMARK(floor_scatter_add);
BENCHMARK(floor_scan);

}  // namespace
