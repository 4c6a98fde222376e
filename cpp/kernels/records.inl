// Definitions of the kernels in records.hpp for one xsimd architecture.
#pragma once

#include <xsimd/xsimd.hpp>

#include "kernels/records.hpp"

namespace spector::kernels {

// The sum of the products of a row, in lanes. xsimd has no multiply-and-add of pairs, so each
// instruction set has its own; integers are exact, so all are equal. Where there is an instruction
// for unsigned times signed bytes the query gives its signs to the row: two products of at most
// 127 * 127 fit its 16 bits. Meanwhile the row `next` is asked for, as one that is read once: a
// scan of many megabytes then leaves in the caches what the rest of a recall needs.
#if defined(__AVX512BW__)
using DotLanes = __m512i;
template <class Arch>
inline DotLanes dot_lanes(const std::int8_t* query, const std::int8_t* row, const std::int8_t* next,
                          std::size_t size) noexcept {
  const __m512i zero = _mm512_setzero_si512();
  const __m512i ones = _mm512_set1_epi16(1);
  __m512i sum = zero;
  for (std::size_t i = 0; i < size; i += 64) {
    __builtin_prefetch(next + i, 0, 0);
    const __m512i signs = _mm512_loadu_si512(query + i);
    const __m512i codes = _mm512_loadu_si512(row + i);
    const __m512i signed_codes =
        _mm512_mask_sub_epi8(codes, _mm512_movepi8_mask(signs), zero, codes);
    const __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(signs), signed_codes);
    sum = _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, ones));
  }
  return sum;
}
template <class Arch>
inline void fold_four(const DotLanes* sums, std::int32_t* dots) noexcept {
  const __m512i low = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[0], sums[1]),
                                       _mm512_unpackhi_epi32(sums[0], sums[1]));
  const __m512i high = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[2], sums[3]),
                                        _mm512_unpackhi_epi32(sums[2], sums[3]));
  const __m512i all =
      _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
  const __m256i half =
      _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  const __m128i quarter =
      _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(dots), quarter);
}
#elif defined(__AVX2__)
using DotLanes = __m256i;
template <class Arch>
inline DotLanes dot_lanes(const std::int8_t* query, const std::int8_t* row, const std::int8_t* next,
                          std::size_t size) noexcept {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  for (std::size_t i = 0; i < size; i += 64) {
    __builtin_prefetch(next + i, 0, 0);
    for (std::size_t half = 0; half < 2; ++half) {
      const std::size_t at = i + half * 32;
      const __m256i signs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(query + at));
      const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + at));
      const __m256i pairs =
          _mm256_maddubs_epi16(_mm256_abs_epi8(signs), _mm256_sign_epi8(codes, signs));
      sums[half] = _mm256_add_epi32(sums[half], _mm256_madd_epi16(pairs, ones));
    }
  }
  return _mm256_add_epi32(sums[0], sums[1]);
}
template <class Arch>
inline void fold_four(const DotLanes* sums, std::int32_t* dots) noexcept {
  const __m256i low = _mm256_hadd_epi32(sums[0], sums[1]);
  const __m256i high = _mm256_hadd_epi32(sums[2], sums[3]);
  const __m256i all = _mm256_hadd_epi32(low, high);
  const __m128i quarter =
      _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(dots), quarter);
}
#elif defined(__SSE2__)
using DotLanes = __m128i;
template <class Arch>
inline DotLanes dot_lanes(const std::int8_t* query, const std::int8_t* row, const std::int8_t* next,
                          std::size_t size) noexcept {
  __m128i sum = _mm_setzero_si128();
  for (std::size_t i = 0; i < size; i += 16) {
    if (i % 64 == 0) __builtin_prefetch(next + i, 0, 0);
    const __m128i q = _mm_loadu_si128(reinterpret_cast<const __m128i*>(query + i));
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + i));
    const auto low = [](__m128i bytes) {
      return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
    };
    const auto high = [](__m128i bytes) {
      return _mm_srai_epi16(_mm_unpackhi_epi8(bytes, bytes), 8);
    };
    sum = _mm_add_epi32(sum, _mm_madd_epi16(low(q), low(codes)));
    sum = _mm_add_epi32(sum, _mm_madd_epi16(high(q), high(codes)));
  }
  return sum;
}
template <class Arch>
inline void fold_four(const DotLanes* sums, std::int32_t* dots) noexcept {
  const __m128i low =
      _mm_add_epi32(_mm_unpacklo_epi32(sums[0], sums[1]), _mm_unpackhi_epi32(sums[0], sums[1]));
  const __m128i high =
      _mm_add_epi32(_mm_unpacklo_epi32(sums[2], sums[3]), _mm_unpackhi_epi32(sums[2], sums[3]));
  const __m128i all = _mm_add_epi32(_mm_unpacklo_epi64(low, high), _mm_unpackhi_epi64(low, high));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(dots), all);
}
#else
using DotLanes = std::int32_t;
template <class Arch>
inline DotLanes dot_lanes(const std::int8_t* query, const std::int8_t* row, const std::int8_t* next,
                          std::size_t size) noexcept {
  static_cast<void>(next);
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += query[i] * row[i];
  return sum;
}
template <class Arch>
inline void fold_four(const DotLanes* sums, std::int32_t* dots) noexcept {
  for (std::size_t r = 0; r < 4; ++r) dots[r] = sums[r];
}
#endif

// One row after another, as they mostly lie in memory: what foresees loads then sees one stream.
template <class Arch>
void DotI8::operator()(Arch, const std::int8_t* query, std::span<const std::int8_t* const> rows,
                       std::span<const std::int8_t* const> next, std::size_t size,
                       std::int32_t* dots) const noexcept {
  DotLanes sums[4] = {};
  for (std::size_t first = 0; first < rows.size(); first += 4) {
    const std::size_t many = rows.size() - first < 4 ? rows.size() - first : 4;
    for (std::size_t r = first; r < first + many; ++r) {
      sums[r - first] = dot_lanes<Arch>(query, rows[r], r < next.size() ? next[r] : rows[r], size);
    }
    std::int32_t four[4];
    fold_four<Arch>(sums, four);
    for (std::size_t r = 0; r < many; ++r) dots[first + r] = four[r];
  }
}

// The sum of the products of a row of halves, in the same lanes. Halves have no sign, so that they
// go first into products of unsigned and signed bytes; of these eight sums of two fit 16 bits.
#if defined(__AVX2__)
#if defined(__AVX512BW__)
template <class Arch>
inline DotLanes dot_lanes_of(__m256i sum) noexcept {
  return _mm512_zextsi256_si512(sum);
}
#else
template <class Arch>
inline DotLanes dot_lanes_of(__m256i sum) noexcept {
  return sum;
}
#endif
template <class Arch>
inline void add_halves(const std::int8_t* query, const std::uint8_t* row, __m256i& below,
                       __m256i& above) noexcept {
  const __m256i mask = _mm256_set1_epi8(15);
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
  const auto* const q = reinterpret_cast<const __m256i*>(query);
  below = _mm256_add_epi16(
      below, _mm256_maddubs_epi16(_mm256_and_si256(halves, mask), _mm256_loadu_si256(q)));
  above = _mm256_add_epi16(
      above, _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(halves, 4), mask),
                                  _mm256_loadu_si256(q + 1)));
}
template <class Arch>
inline DotLanes halves_lanes(const std::int8_t* query, const std::uint8_t* row,
                             const std::uint8_t* next, std::size_t size) noexcept {
  constexpr std::size_t kFits = 8 * kHalvesBlock;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sum = _mm256_setzero_si256();
  for (std::size_t first = 0; first < size; first += kFits) {
    const std::size_t end = size - first < kFits ? size : first + kFits;
    __m256i below = _mm256_setzero_si256();
    __m256i above = _mm256_setzero_si256();
    std::size_t i = first;
    for (; i + 2 * kHalvesBlock <= end; i += 2 * kHalvesBlock) {
      __builtin_prefetch(next + i / 2, 0, 0);
      add_halves<Arch>(query + i, row + i / 2, below, above);
      add_halves<Arch>(query + i + kHalvesBlock, row + i / 2 + kHalvesBlock / 2, below, above);
    }
    if (i < end) {
      __builtin_prefetch(next + i / 2, 0, 0);
      add_halves<Arch>(query + i, row + i / 2, below, above);
    }
    sum = _mm256_add_epi32(
        sum, _mm256_add_epi32(_mm256_madd_epi16(below, ones), _mm256_madd_epi16(above, ones)));
  }
  return dot_lanes_of<Arch>(sum);
}
template <class Arch>
inline DotLanes split_lanes(const std::int8_t* query, const std::uint8_t* row,
                            const std::uint8_t* next, std::size_t to_low,
                            std::size_t size) noexcept {
  constexpr std::size_t kFits = 8 * kHalvesBlock;
  const __m256i ones = _mm256_set1_epi16(1);
  const __m256i sixteens = _mm256_set1_epi16(16);
  const std::uint8_t* const row_low = row + to_low;
  const std::uint8_t* const next_low = next + to_low;
  __m256i sum = _mm256_setzero_si256();
  for (std::size_t first = 0; first < size; first += kFits) {
    const std::size_t end = size - first < kFits ? size : first + kFits;
    __m256i high[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    __m256i low[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    const auto add = [&](std::size_t i) {
      add_halves<Arch>(query + i, row + i / 2, high[0], high[1]);
      add_halves<Arch>(query + i, row_low + i / 2, low[0], low[1]);
    };
    std::size_t i = first;
    for (; i + 2 * kHalvesBlock <= end; i += 2 * kHalvesBlock) {
      __builtin_prefetch(next + i / 2, 0, 0);
      __builtin_prefetch(next_low + i / 2, 0, 0);
      add(i);
      add(i + kHalvesBlock);
    }
    if (i < end) {
      __builtin_prefetch(next + i / 2, 0, 0);
      __builtin_prefetch(next_low + i / 2, 0, 0);
      add(i);
    }
    sum = _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_madd_epi16(high[0], sixteens),
                                                 _mm256_madd_epi16(high[1], sixteens)));
    sum = _mm256_add_epi32(
        sum, _mm256_add_epi32(_mm256_madd_epi16(low[0], ones), _mm256_madd_epi16(low[1], ones)));
  }
  return dot_lanes_of<Arch>(sum);
}
#elif defined(__SSE2__)
template <class Arch>
inline DotLanes halves_lanes(const std::int8_t* query, const std::uint8_t* row,
                             const std::uint8_t* next, std::size_t size) noexcept {
  const __m128i mask = _mm_set1_epi8(15);
  const __m128i zero = _mm_setzero_si128();
  const auto products = [zero](__m128i halves, const std::int8_t* codes) {
    const __m128i q = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    const __m128i low =
        _mm_madd_epi16(_mm_unpacklo_epi8(halves, zero), _mm_srai_epi16(_mm_unpacklo_epi8(q, q), 8));
    const __m128i high =
        _mm_madd_epi16(_mm_unpackhi_epi8(halves, zero), _mm_srai_epi16(_mm_unpackhi_epi8(q, q), 8));
    return _mm_add_epi32(low, high);
  };
  __m128i sum = zero;
  for (std::size_t i = 0; i < size; i += kHalvesBlock) {
    __builtin_prefetch(next + i / 2, 0, 0);
    for (std::size_t j = 0; j < kHalvesBlock / 2; j += 16) {
      const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + i / 2 + j));
      sum = _mm_add_epi32(sum, products(_mm_and_si128(halves, mask), query + i + j));
      sum = _mm_add_epi32(sum, products(_mm_and_si128(_mm_srli_epi16(halves, 4), mask),
                                        query + i + kHalvesBlock / 2 + j));
    }
  }
  return sum;
}
#else
template <class Arch>
inline DotLanes halves_lanes(const std::int8_t* query, const std::uint8_t* row,
                             const std::uint8_t* next, std::size_t size) noexcept {
  static_cast<void>(next);
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < size; i += kHalvesBlock) {
    for (std::size_t j = 0; j < kHalvesBlock / 2; ++j) {
      const std::uint8_t halves = row[i / 2 + j];
      sum += query[i + j] * (halves & 15) + query[i + kHalvesBlock / 2 + j] * (halves >> 4);
    }
  }
  return sum;
}
#endif

#if !defined(__AVX2__)
template <class Arch>
inline DotLanes split_lanes(const std::int8_t* query, const std::uint8_t* row,
                            const std::uint8_t* next, std::size_t to_low,
                            std::size_t size) noexcept {
  const DotLanes high = halves_lanes<Arch>(query, row, next, size);
  const DotLanes low = halves_lanes<Arch>(query, row + to_low, next + to_low, size);
#if defined(__SSE2__)
  return _mm_add_epi32(_mm_slli_epi32(high, 4), low);
#else
  return 16 * high + low;
#endif
}
#endif

// The products of each row, four at a time: lanes(row, the one after it).
template <class Arch, class Lanes>
inline void dot_rows(std::span<const std::uint8_t* const> rows,
                     std::span<const std::uint8_t* const> next, std::int32_t* dots,
                     const Lanes& lanes) noexcept {
  DotLanes sums[4] = {};
  for (std::size_t first = 0; first < rows.size(); first += 4) {
    const std::size_t many = rows.size() - first < 4 ? rows.size() - first : 4;
    for (std::size_t r = first; r < first + many; ++r) {
      sums[r - first] = lanes(rows[r], r < next.size() ? next[r] : rows[r]);
    }
    std::int32_t four[4];
    fold_four<Arch>(sums, four);
    for (std::size_t r = 0; r < many; ++r) dots[first + r] = four[r];
  }
}

template <class Arch>
void DotHalves::operator()(Arch, const std::int8_t* query,
                           std::span<const std::uint8_t* const> rows,
                           std::span<const std::uint8_t* const> next, std::size_t size,
                           std::int32_t* dots) const noexcept {
  dot_rows<Arch>(rows, next, dots, [&](const std::uint8_t* row, const std::uint8_t* after) {
    return halves_lanes<Arch>(query, row, after, size);
  });
}

template <class Arch>
void DotSplit::operator()(Arch, const std::int8_t* query, std::span<const std::uint8_t* const> rows,
                          std::span<const std::uint8_t* const> next, std::size_t to_low,
                          std::size_t size, std::int32_t* dots) const noexcept {
  dot_rows<Arch>(rows, next, dots, [&](const std::uint8_t* row, const std::uint8_t* after) {
    return split_lanes<Arch>(query, row, after, to_low, size);
  });
}

template <class Arch>
inline float fold_lanes(float* lanes) noexcept {
  for (std::size_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

template <class Arch, std::size_t kRows>
inline void dot_f32_rows(const float* query, const float* const* rows, const float* const* next,
                         std::size_t size, float* dots) noexcept {
  using V = xsimd::batch<float, Arch>;
  constexpr std::size_t kParts = kSumLanes / V::size;
  V sums[kRows][kParts];
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t p = 0; p < kParts; ++p) sums[r][p] = V(0.0F);
  }
  for (std::size_t i = 0; i < size; i += kSumLanes) {
    for (std::size_t r = 0; r < kRows; ++r) __builtin_prefetch(next[r] + i, 0, 2);
    for (std::size_t p = 0; p < kParts; ++p) {
      const V q = V::load_unaligned(query + i + p * V::size);
      for (std::size_t r = 0; r < kRows; ++r) {
        sums[r][p] = sums[r][p] + q * V::load_unaligned(rows[r] + i + p * V::size);
      }
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    alignas(64) float lanes[kSumLanes];
    for (std::size_t p = 0; p < kParts; ++p) sums[r][p].store_aligned(lanes + p * V::size);
    dots[r] = fold_lanes<Arch>(lanes);
  }
}

template <class Arch>
void DotF32::operator()(Arch, const float* query, std::span<const float* const> rows,
                        std::span<const float* const> next, std::size_t size,
                        float* dots) const noexcept {
  constexpr std::size_t kRows = 2;
  std::size_t r = 0;
  for (; r + kRows <= rows.size(); r += kRows) {
    const bool more = r + kRows <= next.size();
    dot_f32_rows<Arch, kRows>(query, &rows[r], more ? &next[r] : &rows[r], size, dots + r);
  }
  for (; r < rows.size(); ++r) dot_f32_rows<Arch, 1>(query, &rows[r], &rows[r], size, dots + r);
}

template <class Arch>
float SquaredL2::operator()(Arch, const float* a, const float* b, std::size_t size) const noexcept {
  using V = xsimd::batch<float, Arch>;
  constexpr std::size_t kParts = kSumLanes / V::size;
  V sums[kParts];
  for (std::size_t p = 0; p < kParts; ++p) sums[p] = V(0.0F);
  for (std::size_t i = 0; i < size; i += kSumLanes) {
    for (std::size_t p = 0; p < kParts; ++p) {
      const std::size_t at = i + p * V::size;
      const V difference = V::load_unaligned(a + at) - V::load_unaligned(b + at);
      sums[p] = sums[p] + difference * difference;
    }
  }
  alignas(64) float lanes[kSumLanes];
  for (std::size_t p = 0; p < kParts; ++p) sums[p].store_aligned(lanes + p * V::size);
  return fold_lanes<Arch>(lanes);
}

// There is no load of bytes as floats in xsimd; elsewhere compilers make vectors of the loop.
template <class Arch>
float SquaredL2I8::operator()(Arch, const float* a, const std::int8_t* codes, float scale,
                              std::size_t size) const noexcept {
  alignas(64) float lanes[kSumLanes] = {};
#if defined(__AVX2__)
  constexpr std::size_t kHalf = kSumLanes / 2;
  const __m256 by = _mm256_set1_ps(scale);
  __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (std::size_t i = 0; i < size; i += kSumLanes) {
    for (std::size_t half = 0; half < 2; ++half) {
      const std::size_t at = i + half * kHalf;
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + at));
      const __m256 values = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
      const __m256 difference = _mm256_sub_ps(_mm256_loadu_ps(a + at), _mm256_mul_ps(values, by));
      sums[half] = _mm256_add_ps(sums[half], _mm256_mul_ps(difference, difference));
    }
  }
  _mm256_store_ps(lanes, sums[0]);
  _mm256_store_ps(lanes + kHalf, sums[1]);
#else
  for (std::size_t i = 0; i < size; i += kSumLanes) {
    for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
      const float difference = a[i + lane] - static_cast<float>(codes[i + lane]) * scale;
      lanes[lane] += difference * difference;
    }
  }
#endif
  return fold_lanes<Arch>(lanes);
}

template <class Arch>
void ScaleDots::operator()(Arch, const std::int32_t* products, const float* scales, float factor,
                           const float* rests, float reach, std::size_t n,
                           float* dots) const noexcept {
  using V = xsimd::batch<float, Arch>;
  using Whole = xsimd::batch<std::int32_t, Arch>;
  const V by(factor);
  const V far(reach);
  for (std::size_t i = 0; i < n; i += V::size) {
    const V product = xsimd::to_float(Whole::load_unaligned(products + i));
    const V dot = product * (by * V::load_unaligned(scales + i));
    (dot + far * V::load_unaligned(rests + i)).store_unaligned(dots + i);
  }
}

template <class Arch>
void LeastDistances::operator()(Arch, const DistanceBounds& limits, const float* dots,
                                const float* squares, std::size_t n, float limit, float* bounds,
                                std::uint64_t* within) const noexcept {
  using V = xsimd::batch<float, Arch>;
  const V query_square(limits.query_square);
  const V margin(limits.margin);
  const V slack(limits.slack);
  const V zero(0.0F);
  const V one(1.0F);
  const V two(2.0F);
  const V most_allowed(limit);
  for (std::size_t i = 0; i < n; i += V::size) {
    const V square = V::load_unaligned(squares + i);
    const V sum = query_square + square;
    const V dot = V::load_unaligned(dots + i) + margin * xsimd::sqrt(square);
    V bound;
    if (limits.dot) {
      const V most = dot + slack * sum;
      const V positive = one / (one + xsimd::max(most, zero));
      bound = xsimd::select(most >= zero, positive, one - most);
    } else {
      const V least = (sum - slack * sum) - two * dot;
      bound = xsimd::sqrt(xsimd::max(least, zero));
    }
    bound.store_unaligned(bounds + i);
    const auto bits = static_cast<std::uint64_t>((bound <= most_allowed).mask());
    if (i % 64 == 0) within[i / 64] = 0;
    within[i / 64] |= bits << i % 64;
  }
}

// A word of 64 bits of test(V) over 64 values.
template <class Arch, class T, class Test>
inline std::uint64_t test_64(const T* values, const Test& test) noexcept {
  using V = xsimd::batch<T, Arch>;
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < 64; i += V::size) {
    word |= static_cast<std::uint64_t>(test(V::load_unaligned(values + i)).mask()) << i;
  }
  return word;
}

template <class Arch>
void Gate::operator()(Arch, const GateLimits& limits, const GateColumns& columns,
                      GateMasks& masks) const noexcept {
  using Byte = xsimd::batch<std::uint8_t, Arch>;
  using Signed = xsimd::batch<std::int8_t, Arch>;
  using Time = xsimd::batch<std::int64_t, Arch>;
  using Float = xsimd::batch<float, Arch>;
  const Byte excluded(limits.excluded);
  const Byte none(std::uint8_t{0});
  for (std::size_t w = 0; w < GateMasks::kWords; ++w) {
    const std::size_t at = w * 64;
    const std::uint64_t present = test_64<Arch>(columns.marks + at, [&](const Byte& marks) {
      return (marks & Byte(kMarkPresent)) != none;
    });
    std::uint64_t in_time = present;
    std::uint64_t in_valence = present;
    std::uint64_t important = present;
    std::uint64_t maybe_stale = 0;
    if (present != 0) {
      if (limits.excluded != 0) {
        in_time &= test_64<Arch>(columns.marks + at,
                                 [&](const Byte& marks) { return (marks & excluded) == none; });
      }
      if (limits.min_timestamp != INT64_MIN || limits.max_timestamp != INT64_MAX) {
        const Time low(limits.min_timestamp);
        const Time high(limits.max_timestamp);
        in_time &= test_64<Arch>(columns.timestamps + at, [&](const Time& times) {
          return (times >= low) & (times <= high);
        });
      }
      if (columns.valences != nullptr) {
        const Signed low(limits.min_valence);
        const Signed high(limits.max_valence);
        in_valence &= test_64<Arch>(columns.valences + at, [&](const Signed& valences) {
          return (valences >= low) & (valences <= high);
        });
      }
      for (unsigned type = 0; limits.types != 15 && type < 4; ++type) {
        if ((limits.types >> type & 1) != 0) continue;
        const Byte refused(static_cast<std::uint8_t>(type << kMarkTypeShift));
        important &= test_64<Arch>(columns.marks + at, [&](const Byte& marks) {
          return (marks & Byte(std::uint8_t{3 << kMarkTypeShift})) != refused;
        });
      }
      if (columns.importances != nullptr) {
        const Float low(limits.min_importance);
        important &= test_64<Arch>(columns.importances + at,
                                   [&](const Float& values) { return values >= low; });
      }
      if (columns.stale) {
        const Byte asked(std::uint8_t{kMarkSlight | kMarkPinned | kMarkResolved});
        const Byte wanted(std::uint8_t{kMarkSlight | kMarkResolved});
        const Time limit(limits.stale_timestamp);
        maybe_stale = present & test_64<Arch>(columns.marks + at, [&](const Byte& marks) {
                        return (marks & asked) == wanted;
                      });
        if (maybe_stale != 0) {
          maybe_stale &= test_64<Arch>(columns.timestamps + at,
                                       [&](const Time& times) { return times <= limit; });
        }
      }
    }
    masks.present[w] = present;
    masks.in_time[w] = in_time;
    masks.in_valence[w] = in_valence;
    masks.important[w] = important;
    masks.maybe_stale[w] = maybe_stale;
  }
}

}  // namespace spector::kernels
