// The kernels of the instruction set in use, chosen once at start: the best this machine has, or
// what SPECTOR_SIMD names. The table is immutable and its pointer atomic, so any thread may call.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/bm25.hpp"
#include "kernels/graph.hpp"
#include "kernels/records.hpp"
#include "kernels/sets.hpp"

namespace spector::kernels {

struct Table {
  const char* name;  // scalar, sse2, avx2, avx512 (native off x86)
  void (*bm25_accumulate)(const Bm25Postings&, const std::uint32_t* lengths, std::uint32_t window,
                          float* sums) noexcept;
  void (*bm25_accumulate_window)(const Bm25WindowPostings&, const std::uint32_t* window_lengths,
                                 float* sums) noexcept;
  std::size_t (*take_at_least)(std::uint16_t* sums, std::size_t count, std::uint16_t threshold,
                               std::uint16_t* indices, std::uint16_t* values) noexcept;
  std::size_t (*collect_bounds)(const std::uint8_t* bounds, std::size_t count,
                                std::uint8_t threshold, std::uint16_t* indices) noexcept;
  std::size_t (*find_offsets)(const Bm25Offsets& list, const std::uint16_t* wanted,
                              std::size_t n_wanted, std::uint16_t* in_wanted,
                              std::uint16_t* in_offsets) noexcept;
  std::size_t (*collect_at_least)(const float* sums, std::size_t count, float threshold,
                                  std::uint32_t* indices) noexcept;
  DecayCounts (*decay_weights)(const float* weights, const std::uint32_t* meta, std::size_t count,
                               const DecayRule& rule, float* out) noexcept;
  std::size_t (*extend_paths)(const std::uint32_t* neighbours, const float* weights,
                              std::size_t count, const PathRule& rule,
                              std::uint64_t* keys) noexcept;
  std::size_t (*intersect)(const std::uint32_t* a, std::size_t n_a, const std::uint32_t* b,
                           std::size_t n_b, std::uint32_t* out) noexcept;
  void (*dot_i8)(const std::int8_t* query, std::span<const std::int8_t* const> rows,
                 std::span<const std::int8_t* const> next, std::size_t size,
                 std::int32_t* dots) noexcept;
  void (*dot_halves)(const std::int8_t* query, std::span<const std::uint8_t* const> rows,
                     std::span<const std::uint8_t* const> next, std::size_t size,
                     std::int32_t* dots) noexcept;
  void (*dot_split)(const std::int8_t* query, std::span<const std::uint8_t* const> rows,
                    std::span<const std::uint8_t* const> next, std::size_t to_low, std::size_t size,
                    std::int32_t* dots) noexcept;
  void (*dot_f32)(const float* query, std::span<const float* const> rows,
                  std::span<const float* const> next, std::size_t size, float* dots) noexcept;
  float (*squared_l2)(const float* a, const float* b, std::size_t size) noexcept;
  float (*squared_l2_i8)(const float* a, const std::int8_t* codes, float scale,
                         std::size_t size) noexcept;
  void (*scale_dots)(const std::int32_t* products, const float* scales, float factor,
                     const float* rests, float reach, std::size_t n, float* dots) noexcept;
  void (*least_distances)(const DistanceBounds&, const float* dots, const float* squares,
                          std::size_t n, float limit, float* bounds,
                          std::uint64_t* within) noexcept;
  void (*gate)(const GateLimits&, const GateColumns&, GateMasks& masks) noexcept;
};

[[nodiscard]] const Table& active() noexcept;

// Names this machine can run, scalar first, best last.
[[nodiscard]] std::vector<std::string_view> available_isas();

// For tests, benchmarks and SPECTOR_SIMD. Throws std::invalid_argument naming what is available.
void set_isa(std::string_view name);

// Applies SPECTOR_SIMD where it is set. Called once, when the extension is loaded.
void set_isa_from_environment();

extern const Table kScalar;  // scalar.cpp

}  // namespace spector::kernels
