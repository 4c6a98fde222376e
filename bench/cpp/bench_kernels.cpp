// Each kernel on each instruction set of this machine, over one window in cache.
#include <benchmark/benchmark.h>

#include <algorithm>
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

// Offsets in the window of a term that one document in `step` has.
std::vector<std::uint16_t> offsets(std::uint32_t step, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint16_t> drawn;
  for (std::uint32_t row = 0; row < kernels::kWindow; ++row) {
    if (random() % step == 0) drawn.push_back(static_cast<std::uint16_t>(row));
  }
  return drawn;
}

void accumulate_window(benchmark::State& state, const std::string& isa) {
  kernels::set_isa(isa);
  const std::vector<std::uint32_t> lengths(kernels::kWindow, 50);
  const std::vector<std::uint16_t> rows = offsets(10, 1);
  const std::vector<std::uint8_t> frequencies(rows.size(), 2);
  std::vector<float> sums(kernels::kWindow);
  for (auto _ : state) {
    kernels::active().bm25_accumulate_window(
        {rows.data(), frequencies.data(), rows.size(), 2.2F, 0.3F, 0.015F}, lengths.data(),
        sums.data());
    benchmark::DoNotOptimize(sums.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows.size()));
}

// The writing of the sums is in the time; range: sums that reach the threshold.
void take(benchmark::State& state, const std::string& isa) {
  kernels::set_isa(isa);
  std::mt19937 random(1);
  std::vector<std::uint16_t> sums(kernels::kWindow);
  std::vector<std::uint16_t> indices(kernels::kWindow);
  std::vector<std::uint16_t> values(kernels::kWindow);
  for (auto _ : state) {
    for (std::int64_t i = 0; i < state.range(0); ++i) sums[random() % kernels::kWindow] = 9;
    benchmark::DoNotOptimize(kernels::active().take_at_least(sums.data(), sums.size(), 9,
                                                             indices.data(), values.data()));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(sums.size()));
}

void collect_bounds(benchmark::State& state, const std::string& isa) {
  kernels::set_isa(isa);
  std::mt19937 random(1);
  std::vector<std::uint8_t> bounds(1000);
  std::vector<std::uint16_t> indices(bounds.size());
  for (std::uint8_t& bound : bounds) bound = static_cast<std::uint8_t>(random());
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        kernels::active().collect_bounds(bounds.data(), bounds.size(), 250, indices.data()));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(bounds.size()));
}

// Few rows looked up in a list of some hundreds, other rows each time.
void find(benchmark::State& state, const std::string& isa) {
  kernels::set_isa(isa);
  constexpr unsigned kPartBits = 8;
  std::vector<std::uint16_t> list = offsets(20, 1);
  std::vector<std::uint16_t> starts;
  for (std::size_t first = 0; first <= kernels::kWindow; first += std::size_t{1} << kPartBits) {
    const auto at = std::lower_bound(list.begin(), list.end(), first);
    starts.push_back(static_cast<std::uint16_t>(at - list.begin()));
  }
  list.resize(list.size() + kernels::kReadBeyond);
  std::vector<std::vector<std::uint16_t>> wanted;
  std::size_t n_wanted = 0;
  for (unsigned seed = 2; seed < 258; ++seed) {
    wanted.push_back(offsets(800, seed));
    n_wanted += wanted.back().size();
  }
  std::vector<std::uint16_t> in_wanted(kernels::kWindow);
  std::vector<std::uint16_t> in_list(kernels::kWindow);
  for (auto _ : state) {
    for (const std::vector<std::uint16_t>& rows : wanted) {
      benchmark::DoNotOptimize(
          kernels::active().find_offsets({list.data(), starts.data(), kPartBits}, rows.data(),
                                         rows.size(), in_wanted.data(), in_list.data()));
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(n_wanted));
}

const int registered = [] {
  for (const std::string_view isa : kernels::available_isas()) {
    const std::string name(isa);
    benchmark::RegisterBenchmark(("bm25_accumulate/" + name).c_str(), accumulate, name);
    benchmark::RegisterBenchmark(("bm25_accumulate_window/" + name).c_str(), accumulate_window,
                                 name);
    benchmark::RegisterBenchmark(("collect_at_least/" + name).c_str(), collect, name);
    benchmark::RegisterBenchmark(("take_at_least/" + name).c_str(), take, name)
        ->Arg(0)
        ->Arg(10)
        ->Arg(100);
    benchmark::RegisterBenchmark(("collect_bounds/" + name).c_str(), collect_bounds, name);
    benchmark::RegisterBenchmark(("find_offsets/" + name).c_str(), find, name);
  }
  return 0;
}();

}  // namespace
