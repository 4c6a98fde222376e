// Each kernel on each instruction set of this machine, over one window in cache.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "kernels/dispatch.hpp"

namespace {

using namespace spector;  // NOLINT(google-build-using-namespace)

void accumulate(benchmark::State& state, const std::string& isa) {
  kernels::set_isa(isa);
  std::mt19937 random(1);
  std::vector<std::uint32_t> lengths(kernels::kWindow);
  std::vector<std::uint32_t> rows;
  std::vector<std::uint32_t> frequencies;
  std::vector<float> sums(kernels::kWindow);
  for (std::uint32_t row = 0; row < kernels::kWindow; ++row) {
    lengths[row] = 20 + static_cast<std::uint32_t>(random() % 80);
    if (random() % 10 != 0) continue;  // a term in a tenth of the documents
    rows.push_back(row);
    frequencies.push_back(1 + static_cast<std::uint32_t>(random() % 3));
  }
  const kernels::Bm25Postings postings{rows.data(), frequencies.data(), rows.size(), 2.2F, 0.3F,
                                       0.015F};
  for (auto _ : state) {
    kernels::active().bm25_accumulate(postings, lengths.data(), 0, sums.data());
    benchmark::DoNotOptimize(sums.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows.size()));
}

void collect(benchmark::State& state, const std::string& isa) {
  kernels::set_isa(isa);
  std::mt19937 random(1);
  std::vector<float> sums(kernels::kWindow);
  std::vector<std::uint32_t> indices(kernels::kWindow);
  for (float& sum : sums) sum = static_cast<float>(random() % 1000);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        kernels::active().collect_at_least(sums.data(), sums.size(), 990.0F, indices.data()));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(sums.size()));
}

const int registered = [] {
  for (const std::string_view isa : kernels::available_isas()) {
    const std::string name(isa);
    benchmark::RegisterBenchmark(("bm25_accumulate/" + name).c_str(), accumulate, name);
    benchmark::RegisterBenchmark(("collect_at_least/" + name).c_str(), collect, name);
  }
  return 0;
}();

}  // namespace
