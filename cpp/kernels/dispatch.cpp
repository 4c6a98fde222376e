#include "kernels/dispatch.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "kernels/archs.hpp"

namespace spector::kernels {
namespace {

template <class Arch>
void bm25_accumulate(const Bm25Postings& postings, const std::uint32_t* lengths,
                     std::uint32_t window, float* sums) noexcept {
  Bm25Accumulate{}(Arch{}, postings, lengths, window, sums);
}

template <class Arch>
void bm25_accumulate_window(const Bm25WindowPostings& postings, const std::uint32_t* window_lengths,
                            float* sums) noexcept {
  Bm25AccumulateWindow{}(Arch{}, postings, window_lengths, sums);
}

template <class Arch>
std::size_t take_at_least(std::uint16_t* sums, std::size_t count, std::uint16_t threshold,
                          std::uint16_t* indices, std::uint16_t* values) noexcept {
  return TakeAtLeast{}(Arch{}, sums, count, threshold, indices, values);
}

template <class Arch>
std::size_t collect_bounds(const std::uint8_t* bounds, std::size_t count, std::uint8_t threshold,
                           std::uint16_t* indices) noexcept {
  return CollectBounds{}(Arch{}, bounds, count, threshold, indices);
}

template <class Arch>
std::size_t find_offsets(const Bm25Offsets& list, const std::uint16_t* wanted, std::size_t n_wanted,
                         std::uint16_t* in_wanted, std::uint16_t* in_offsets) noexcept {
  return FindOffsets{}(Arch{}, list, wanted, n_wanted, in_wanted, in_offsets);
}

template <class Arch>
std::size_t collect_at_least(const float* sums, std::size_t count, float threshold,
                             std::uint32_t* indices) noexcept {
  return CollectAtLeast{}(Arch{}, sums, count, threshold, indices);
}

template <class Arch>
DecayCounts decay_weights(const float* weights, const std::uint32_t* meta, std::size_t count,
                          const DecayRule& rule, float* out) noexcept {
  return DecayWeights{}(Arch{}, weights, meta, count, rule, out);
}

template <class Arch>
std::size_t extend_paths(const std::uint32_t* neighbours, const float* weights, std::size_t count,
                         const PathRule& rule, std::uint64_t* keys) noexcept {
  return ExtendPaths{}(Arch{}, neighbours, weights, count, rule, keys);
}

template <class Arch>
std::size_t intersect(const std::uint32_t* a, std::size_t n_a, const std::uint32_t* b,
                      std::size_t n_b, std::uint32_t* out) noexcept {
  return Intersect{}(Arch{}, a, n_a, b, n_b, out);
}

template <class Arch>
void dot_i8(const std::int8_t* query, std::span<const std::int8_t* const> rows,
            std::span<const std::int8_t* const> next, std::size_t size,
            std::int32_t* dots) noexcept {
  DotI8{}(Arch{}, query, rows, next, size, dots);
}

template <class Arch>
void dot_halves(const std::int8_t* query, std::span<const std::uint8_t* const> rows,
                std::span<const std::uint8_t* const> next, std::size_t size,
                std::int32_t* dots) noexcept {
  DotHalves{}(Arch{}, query, rows, next, size, dots);
}

template <class Arch>
void dot_split(const std::int8_t* query, std::span<const std::uint8_t* const> rows,
               std::span<const std::uint8_t* const> next, std::size_t to_low, std::size_t size,
               std::int32_t* dots) noexcept {
  DotSplit{}(Arch{}, query, rows, next, to_low, size, dots);
}

template <class Arch>
void dot_f32(const float* query, std::span<const float* const> rows,
             std::span<const float* const> next, std::size_t size, float* dots) noexcept {
  DotF32{}(Arch{}, query, rows, next, size, dots);
}

template <class Arch>
float squared_l2(const float* a, const float* b, std::size_t size) noexcept {
  return SquaredL2{}(Arch{}, a, b, size);
}

template <class Arch>
float squared_l2_i8(const float* a, const std::int8_t* codes, float scale,
                    std::size_t size) noexcept {
  return SquaredL2I8{}(Arch{}, a, codes, scale, size);
}

template <class Arch>
void scale_dots(const std::int32_t* products, const float* scales, float factor, const float* rests,
                float reach, std::size_t n, float* dots) noexcept {
  ScaleDots{}(Arch{}, products, scales, factor, rests, reach, n, dots);
}

template <class Arch>
void least_distances(const DistanceBounds& limits, const float* dots, const float* squares,
                     std::size_t n, float limit, float* bounds, std::uint64_t* within) noexcept {
  LeastDistances{}(Arch{}, limits, dots, squares, n, limit, bounds, within);
}

template <class Arch>
void gate(const GateLimits& limits, const GateColumns& columns, GateMasks& masks) noexcept {
  Gate{}(Arch{}, limits, columns, masks);
}

template <class Arch>
constexpr Table table(const char* name) {
  return {name,
          bm25_accumulate<Arch>,
          bm25_accumulate_window<Arch>,
          take_at_least<Arch>,
          collect_bounds<Arch>,
          find_offsets<Arch>,
          collect_at_least<Arch>,
          decay_weights<Arch>,
          extend_paths<Arch>,
          intersect<Arch>,
          dot_i8<Arch>,
          dot_halves<Arch>,
          dot_split<Arch>,
          dot_f32<Arch>,
          squared_l2<Arch>,
          squared_l2_i8<Arch>,
          scale_dots<Arch>,
          least_distances<Arch>,
          gate<Arch>};
}

template <class Arch>
constexpr Table kTable{};

#ifdef SPECTOR_X86
template <>
constexpr Table kTable<xsimd::avx512bw> = table<xsimd::avx512bw>("avx512");
template <>
constexpr Table kTable<xsimd::fma3<xsimd::avx2>> = table<xsimd::fma3<xsimd::avx2>>("avx2");
template <>
constexpr Table kTable<xsimd::sse2> = table<xsimd::sse2>("sse2");
#else
template <>
constexpr Table kTable<xsimd::default_arch> = table<xsimd::default_arch>("native");
#endif

// Calls take(table) for each that this machine can run, best first, the scalar one last.
template <class Take>
void each_runnable(const Take& take) {
  const auto machine = xsimd::available_architectures();
  const auto offer = [&]<class... Arch>(xsimd::arch_list<Arch...>) {
    ((machine.has(Arch{}) ? take(kTable<Arch>) : void()), ...);
  };
  offer(Archs{});
  take(kScalar);
}

std::vector<const Table*> runnable() {
  std::vector<const Table*> tables;
  each_runnable([&](const Table& table) { tables.push_back(&table); });
  return tables;
}

// Nothing is allocated: the first search may be the one to ask, where no exception may leave.
const Table* best() noexcept {
  const Table* found = nullptr;
  each_runnable([&](const Table& table) {
    if (found == nullptr) found = &table;
  });
  return found;
}

std::atomic<const Table*>& current() noexcept {
  static std::atomic<const Table*> table = best();
  return table;
}

}  // namespace

const Table& active() noexcept { return *current().load(std::memory_order_acquire); }

std::vector<std::string_view> available_isas() {
  std::vector<std::string_view> names;
  for (const Table* table : runnable()) names.insert(names.begin(), table->name);
  return names;
}

void set_isa(std::string_view name) {
  std::string names;
  for (const Table* table : runnable()) {
    if (name == table->name) {
      current().store(table, std::memory_order_release);
      return;
    }
    names.append(names.empty() ? "" : ", ").append(table->name);
  }
  throw std::invalid_argument("SIMD level '" + std::string(name) + "': this machine has " + names);
}

void set_isa_from_environment() {
  // Read once, before any other thread can use the module.
  const char* name = std::getenv("SPECTOR_SIMD");  // NOLINT(concurrency-mt-unsafe)
  if (name != nullptr && *name != '\0') set_isa(name);
}

}  // namespace spector::kernels
