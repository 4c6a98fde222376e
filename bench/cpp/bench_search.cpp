// Searches by kind of query, in an index of drawn documents: terms that few or many of them have,
// one or several, and k.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "lexical/token_index.hpp"

namespace {

using namespace spector;  // NOLINT(google-build-using-namespace)

constexpr std::uint32_t kDocuments = 200'000;
constexpr std::uint32_t kTerms = 50'000;

// Term t is drawn with a chance of about 1 / (t + 1), 30 tokens a document.
const TokenIndex& index() {
  static const std::unique_ptr<TokenIndex> built = [] {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> logs(0, std::log(kTerms));
    std::vector<std::uint32_t> slots;
    std::vector<std::uint32_t> tokens;
    std::vector<std::int64_t> ends{0};
    for (std::uint32_t slot = 0; slot < kDocuments; ++slot) {
      slots.push_back(slot);
      for (int i = 0; i < 30; ++i) {
        tokens.push_back(static_cast<std::uint32_t>(std::exp(logs(random))));
      }
      ends.push_back(static_cast<std::int64_t>(tokens.size()));
    }
    auto made = std::make_unique<TokenIndex>(1.2, 0.75);
    made->put(slots, {ends, tokens});
    made->compact();
    return made;
  }();
  return *built;
}

// Range: terms of a query; the lowest of their numbers, which go up to four times it; k.
void search(benchmark::State& state) {
  const auto n_terms = static_cast<std::size_t>(state.range(0));
  const auto lowest = static_cast<std::uint32_t>(state.range(1));
  const auto k = static_cast<std::size_t>(state.range(2));
  std::mt19937 random(2);
  std::vector<std::vector<std::uint32_t>> queries(500);  // more than caches hold
  for (std::vector<std::uint32_t>& query : queries) {
    while (query.size() < n_terms) {
      const auto term = static_cast<std::uint32_t>(lowest + random() % (3UL * lowest));
      if (std::find(query.begin(), query.end(), term) == query.end()) query.push_back(term);
    }
  }
  const TokenIndex& searched = index();
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(searched.search(queries[next], k));
    next = (next + 1) % queries.size();
  }
}

BENCHMARK(search)
    ->ArgNames({"terms", "lowest", "k"})
    ->ArgsProduct({{1, 2, 4, 8}, {10, 100, 10'000}, {10, 100, 1000}});

}  // namespace
