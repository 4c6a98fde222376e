// The scans of a record store beside plain reading of the same bytes, on one thread.
//
// spector_bench --benchmark_filter=records --benchmark_enable_random_interleaving=true
//   --benchmark_repetitions=9 --benchmark_min_time=0.1
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/shared.hpp"
#include "kernels/dispatch.hpp"
#include "records/record_store.hpp"
#include "records/scorer.hpp"

namespace {

using namespace spector;  // NOLINT(google-build-using-namespace)

constexpr std::uint32_t kDimensions = 384;
constexpr std::int64_t kNow = 1'900'000'000'000;

// SPECTOR_BENCH_RECORDS, or so many that building them takes a second.
std::uint32_t n_records() {
  const char* text = std::getenv("SPECTOR_BENCH_RECORDS");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 20'000 : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

struct Random {
  std::uint64_t state;
  std::uint64_t operator()() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
  float real() { return static_cast<float>(static_cast<std::int64_t>((*this)()) >> 40); }
};

std::vector<float> random_vector(Random& random) {
  std::vector<float> vector(kDimensions);
  for (float& value : vector) value = random.real();
  return vector;
}

Shared<RecordStore>& store() {
  static const std::unique_ptr<Shared<RecordStore>> made = [] {
    auto store = std::make_unique<Shared<RecordStore>>(
        VectorSettings{kDimensions, Similarity::kCosine, VectorStorage::kI8});
    Random random{7};
    const std::uint32_t n = n_records();
    constexpr std::uint32_t kBatch = 10'000;
    for (std::uint32_t first = 0; first < n; first += kBatch) {
      std::vector<std::uint32_t> slots;
      std::vector<RecordHeader> headers;
      std::vector<float> vectors;
      for (std::uint32_t slot = first; slot < std::min(n, first + kBatch); ++slot) {
        slots.push_back(slot);
        RecordHeader header;
        header.importance = 0.05F + static_cast<float>(random() % 995) / 100;
        header.timestamp = kNow - static_cast<std::int64_t>(random() % 7'776'000'000);
        headers.push_back(header);
        const std::vector<float> vector = random_vector(random);
        vectors.insert(vectors.end(), vector.begin(), vector.end());
      }
      store->write([&](RecordStore& writer) { writer.put(slots, headers, vectors); });
    }
    return store;
  }();
  return *made;
}

std::uint64_t sum_words(const std::byte* bytes, std::size_t size) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < size; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, sizeof word);
    sum += word;
  }
  return sum;
}

#ifdef __x86_64__
#pragma GCC push_options
#pragma GCC target("avx512f")
std::uint64_t sum_words_avx512(const std::byte* bytes, std::size_t size) {
  using Words __attribute__((vector_size(64))) = std::uint64_t;
  Words sums[4]{};
  for (std::size_t i = 0; i < size; i += 256) {  // of a chunk, whose size is a multiple
    for (std::size_t j = 0; j < 4; ++j) {
      Words words;
      std::memcpy(&words, bytes + i + 64 * j, sizeof words);
      sums[j] += words;
    }
  }
  const Words all = sums[0] + sums[1] + sums[2] + sums[3];
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < 8; ++i) sum += all[i];
  return sum;
}
#pragma GCC pop_options
#endif

void records_read(benchmark::State& state) {
  auto& records = store();
  auto* sum = &sum_words;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) sum = &sum_words_avx512;
#endif
  std::size_t bytes = 0;
  for (auto _ : state) {
    records.read([&](const RecordStore::View& view) {
      bytes = view.n_rows * view.row_bytes;
      const std::size_t chunk = view.row_bytes << view.row_bits;
      for (std::size_t i = 0; i < view.chunks.size(); ++i) {
        benchmark::DoNotOptimize(
            sum(view.chunks[i], std::min(chunk, (bytes - i * chunk) / 256 * 256)));
      }
    });
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

template <class Rank>
void scan(benchmark::State& state, const Rank& rank, std::uint32_t step) {
  auto& records = store();
  Random random{99};
  std::vector<std::uint32_t> allow;
  for (std::uint32_t slot = 0; slot < n_records();
       slot += 1 + static_cast<std::uint32_t>(random() % (2 * step - 1))) {
    allow.push_back(slot);
  }
  ScoringOptions options;
  options.now = kNow;
  if (step > 1) options.allow = allow;
  std::uint64_t vectors = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const std::vector<float> query = random_vector(random);
    state.ResumeTiming();
    records.read([&](const RecordStore::View& view) {
      const Answer answer = rank(view, query, options, 10);
      vectors = answer.counts.vectors;
      benchmark::DoNotOptimize(answer.hits.data());
    });
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(vectors * kDimensions));
}

void records_similar(benchmark::State& state) { scan(state, similar, 1); }
void records_search(benchmark::State& state) { scan(state, search, 1); }
void records_similar_filtered(benchmark::State& state) { scan(state, similar, 100); }
void records_search_filtered(benchmark::State& state) { scan(state, search, 100); }

void records_headers_only(benchmark::State& state) {
  auto& records = store();
  ScoringOptions options;
  options.now = kNow;
  options.min_valence = 127;
  options.min_importance = 10;
  const std::vector<float> query(kDimensions, 1.0F);
  for (auto _ : state) {
    records.read([&](const RecordStore::View& view) {
      benchmark::DoNotOptimize(search(view, query, options, 10).hits.data());
    });
  }
  state.SetItemsProcessed(state.iterations() * n_records());
}

BENCHMARK(records_read)->Unit(benchmark::kMillisecond);
BENCHMARK(records_similar)->Unit(benchmark::kMillisecond);
BENCHMARK(records_search)->Unit(benchmark::kMillisecond);
BENCHMARK(records_similar_filtered)->Unit(benchmark::kMillisecond);
BENCHMARK(records_search_filtered)->Unit(benchmark::kMillisecond);
BENCHMARK(records_headers_only)->Unit(benchmark::kMillisecond);

}  // namespace
