// The kernels of the record store on every instruction set against the plain loop, bit for bit
// (GEN-3).
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/dispatch.hpp"
#include "random.hpp"

using namespace spector;  // NOLINT(google-build-using-namespace)

namespace {

template <class Check>
void on_every_level(const Check& check) {
  const std::string before = kernels::active().name;
  for (const std::string_view isa : kernels::available_isas()) {
    CAPTURE(isa);
    kernels::set_isa(isa);
    check(kernels::active());
  }
  kernels::set_isa(before);
}

// Rows apart from one another, so that reading past one is seen by a sanitizer.
template <class T>
struct Rows {
  Rows(std::size_t n, std::size_t size) : values(n, std::vector<T>(size)) {
    for (const std::vector<T>& row : values) at.push_back(row.data());
  }
  std::vector<std::vector<T>> values;
  std::vector<const T*> at;
};

float real(Random& random) {
  return (static_cast<float>(random() % 20001) - 10000) / 3000 *
         (random() % 50 == 0 ? 1e-20F : 1.0F);
}

}  // namespace

TEST_CASE("DEN-4: dot_i8 is exact on every instruction set") {
  Random random(1);
  for (const std::size_t size : {64, 128, 192, 384, 1024, 65536}) {
    for (std::size_t n = 0; n <= (size > 1024 ? 5U : 21U); ++n) {
      CAPTURE(size);
      CAPTURE(n);
      std::vector<std::int8_t> query(size);
      Rows<std::int8_t> rows(n, size);
      const bool largest = n == 3;  // the sums that must still fit
      for (std::int8_t& q : query) {
        q = static_cast<std::int8_t>(largest ? -127 : static_cast<int>(random() % 255) - 127);
      }
      for (auto& row : rows.values) {
        for (std::int8_t& value : row) {
          value = static_cast<std::int8_t>(largest ? 127 : static_cast<int>(random() % 255) - 127);
        }
      }
      std::vector<std::int32_t> expected(n);
      kernels::kScalar.dot_i8(query.data(), rows.at, {}, size, expected.data());
      for (std::size_t r = 0; r < n; ++r) {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < size; ++i) sum += std::int64_t{query[i]} * rows.values[r][i];
        REQUIRE(expected[r] == sum);
      }
      on_every_level([&](const kernels::Table& isa) {
        for (const std::size_t ahead : {std::size_t{0}, n / 2, n}) {
          std::vector<std::int32_t> dots(n, 7);
          isa.dot_i8(query.data(), rows.at, std::span(rows.at).first(ahead), size, dots.data());
          CHECK(dots == expected);
        }
      });
    }
  }
}

TEST_CASE("DEN-4: dot_halves and dot_split are exact on every instruction set") {
  Random random(9);
  for (const std::size_t size : {64, 128, 192, 384, 512, 576, 1024, 1088, 65536}) {
    for (std::size_t n = 0; n <= (size > 1088 ? 5U : 13U); ++n) {
      CAPTURE(size);
      CAPTURE(n);
      std::vector<std::int8_t> query(size);
      const bool largest = n == 3;  // the sums that must still fit
      for (std::int8_t& q : query) {
        q = static_cast<std::int8_t>(largest ? -127 : static_cast<int>(random() % 255) - 127);
      }
      Rows<std::uint8_t> rows(n, size);  // high halves, then low ones
      const std::size_t to_low = size / 2;
      std::vector<std::int32_t> high(n);
      std::vector<std::int32_t> both(n);
      for (std::size_t r = 0; r < n; ++r) {
        for (std::size_t i = 0; i < size; ++i) {
          const unsigned code = largest ? 255 : static_cast<unsigned>(random() % 256);
          const std::size_t at = i / 64 * 32 + i % 32;
          const unsigned shift = i % 64 < 32 ? 0 : 4;
          rows.values[r][at] |= static_cast<std::uint8_t>(code >> 4 << shift);
          rows.values[r][to_low + at] |= static_cast<std::uint8_t>((code & 15) << shift);
          high[r] += query[i] * static_cast<int>(code >> 4);
          both[r] += query[i] * static_cast<int>(code);
        }
      }
      on_every_level([&](const kernels::Table& isa) {
        for (const std::size_t ahead : {std::size_t{0}, n / 2, n}) {
          const auto next = std::span(rows.at).first(ahead);
          std::vector<std::int32_t> dots(n, 7);
          isa.dot_halves(query.data(), rows.at, next, size, dots.data());
          CHECK(dots == high);
          isa.dot_split(query.data(), rows.at, next, to_low, size, dots.data());
          CHECK(dots == both);
        }
      });
    }
  }
}

TEST_CASE("GEN-3: dot_f32 and squared_l2 give the scalar bits on every instruction set") {
  Random random(2);
  for (std::size_t size = 16; size <= 16 * 33; size += 16) {
    CAPTURE(size);
    constexpr std::size_t kRows = 7;
    std::vector<float> query(size);
    Rows<float> rows(kRows, size);
    for (float& q : query) q = real(random);
    for (auto& row : rows.values) {
      for (float& value : row) value = real(random);
    }
    std::array<float, kRows> expected{};
    kernels::kScalar.dot_f32(query.data(), rows.at, {}, size, expected.data());
    std::array<float, kRows> squares{};
    double exact = 0;
    for (std::size_t r = 0; r < kRows; ++r) {
      squares[r] = kernels::kScalar.squared_l2(query.data(), rows.at[r], size);
    }
    for (std::size_t i = 0; i < size; ++i) {
      const double difference = static_cast<double>(query[i]) - rows.values[0][i];
      exact += difference * difference;
    }
    CHECK(squares[0] == doctest::Approx(exact).epsilon(1e-5));
    on_every_level([&](const kernels::Table& isa) {
      std::array<float, kRows> found{};
      isa.dot_f32(query.data(), rows.at, std::span(rows.at).first(5), size, found.data());
      CHECK(std::memcmp(found.data(), expected.data(), sizeof found) == 0);
      for (std::size_t r = 0; r < kRows; ++r) {
        found[r] = isa.squared_l2(query.data(), rows.at[r], size);
      }
      CHECK(std::memcmp(found.data(), squares.data(), sizeof found) == 0);
    });
  }
}

TEST_CASE("DEN-4: squared_l2_i8 is squared_l2 of what the codes stand for") {
  Random random(9);
  for (std::size_t size = 64; size <= 64 * 9; size += 64) {
    std::vector<float> query(size);
    std::vector<float> decoded(size);
    std::vector<std::int8_t> codes(size);
    constexpr float kScale = 0.0137F;
    for (std::size_t i = 0; i < size; ++i) {
      query[i] = real(random);
      codes[i] = static_cast<std::int8_t>(static_cast<int>(random() % 255) - 127);
      decoded[i] = static_cast<float>(codes[i]) * kScale;
    }
    const float expected = kernels::kScalar.squared_l2(query.data(), decoded.data(), size);
    CHECK(kernels::kScalar.squared_l2_i8(query.data(), codes.data(), kScale, size) == expected);
    on_every_level([&](const kernels::Table& isa) {
      CHECK(isa.squared_l2_i8(query.data(), codes.data(), kScale, size) == expected);
    });
  }
}

TEST_CASE("DEN-4: scale_dots gives the scalar bits on every instruction set") {
  Random random(8);
  for (std::size_t n = 16; n <= 256; n += 16) {
    std::vector<std::int32_t> products(n);
    std::vector<float> scales(n);
    std::vector<float> rests(n);
    const float reach = n % 32 == 0 ? 0.0F : 0.77F;
    for (std::size_t i = 0; i < n; ++i) {
      rests[i] = std::abs(real(random));
      products[i] = static_cast<std::int32_t>(random() % 2'000'000'001) - 1'000'000'000;
      scales[i] = random() % 9 == 0 ? 0.0F : std::abs(real(random));
    }
    std::vector<float> expected(n);
    kernels::kScalar.scale_dots(products.data(), scales.data(), 0.0123F, rests.data(), reach, n,
                                expected.data());
    CHECK(expected[0] ==
          static_cast<float>(products[0]) * (0.0123F * scales[0]) + reach * rests[0]);
    on_every_level([&](const kernels::Table& isa) {
      std::vector<float> found(n);
      isa.scale_dots(products.data(), scales.data(), 0.0123F, rests.data(), reach, n, found.data());
      CHECK(std::memcmp(found.data(), expected.data(), n * sizeof(float)) == 0);
    });
  }
}

TEST_CASE("SCO-5: least_distances gives the scalar bits on every instruction set") {
  Random random(3);
  for (std::size_t n = 16; n <= 256; n += 16) {
    std::vector<float> dots(n);
    std::vector<float> squares(n);
    for (std::size_t i = 0; i < n; ++i) {
      dots[i] = random() % 9 == 0 ? 0.0F : real(random);
      squares[i] = random() % 9 == 0 ? 0.0F : std::abs(real(random));
    }
    for (const bool dot : {false, true}) {
      const kernels::DistanceBounds bounds{random() % 3 == 0 ? 0.0F : 1.0F, 0.01F, 1e-5F, dot};
      constexpr float kLimit = 1.25F;
      const std::size_t n_words = (n + 63) / 64;
      std::vector<float> expected(n);
      std::vector<std::uint64_t> expected_within(n_words, ~std::uint64_t{0});
      kernels::kScalar.least_distances(bounds, dots.data(), squares.data(), n, kLimit,
                                       expected.data(), expected_within.data());
      for (std::size_t i = 0; i < n_words * 64; ++i) {
        const bool within = (expected_within[i / 64] >> i % 64 & 1) != 0;
        REQUIRE(within == (i < n && expected[i] <= kLimit));
      }
      on_every_level([&](const kernels::Table& isa) {
        std::vector<float> found(n);
        std::vector<std::uint64_t> within(n_words, ~std::uint64_t{0});
        isa.least_distances(bounds, dots.data(), squares.data(), n, kLimit, found.data(),
                            within.data());
        CHECK(std::memcmp(found.data(), expected.data(), n * sizeof(float)) == 0);
        CHECK(within == expected_within);
      });
    }
  }
}

TEST_CASE("SCO-1, SCO-3, SCO-4: gate finds the same records on every instruction set") {
  Random random(4);
  constexpr std::size_t kN = kernels::kGateBlock;
  std::vector<std::uint8_t> marks(kN);
  std::vector<std::int64_t> timestamps(kN);
  std::vector<std::int8_t> valences(kN);
  std::vector<float> importances(kN);
  for (int round = 0; round < 300; ++round) {
    for (std::size_t i = 0; i < kN; ++i) {
      marks[i] = static_cast<std::uint8_t>(random());
      if (round % 5 == 0 && i < 64) marks[i] &= 0xfe;  // a word without records
      timestamps[i] = static_cast<std::int64_t>(random() % 9) - 4;
      if (random() % 16 == 0) timestamps[i] *= std::int64_t{1} << 40;
      valences[i] = static_cast<std::int8_t>(random());
      importances[i] = static_cast<float>(random() % 5) / 2;
    }
    const auto maybe = [&](auto* column) { return random() % 3 == 0 ? nullptr : column; };
    const bool times = random() % 2 == 0;
    const kernels::GateLimits limits{
        .min_timestamp = times ? -3 : std::numeric_limits<std::int64_t>::min(),
        .max_timestamp = times ? 2 : std::numeric_limits<std::int64_t>::max(),
        .stale_timestamp = -2,
        .min_importance = static_cast<float>(random() % 4) / 2,
        .min_valence = static_cast<std::int8_t>(random()),
        .max_valence = static_cast<std::int8_t>(random()),
        .types = static_cast<std::uint8_t>(random() % 16),
        .excluded = static_cast<std::uint8_t>(random() % 2 * kernels::kMarkContradicted)};
    const kernels::GateColumns columns{marks.data(), timestamps.data(), maybe(valences.data()),
                                       maybe(importances.data()), random() % 2 == 0};
    kernels::GateMasks expected{};
    kernels::kScalar.gate(limits, columns, expected);
    on_every_level([&](const kernels::Table& isa) {
      kernels::GateMasks found{};
      isa.gate(limits, columns, found);
      CHECK(std::memcmp(&found, &expected, sizeof found) == 0);
    });
  }
}
