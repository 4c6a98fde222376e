// Every kernel on every instruction set against the plain loop, bit for bit (GEN-3).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/dispatch.hpp"
#include "random.hpp"

using namespace spector;  // NOLINT(google-build-using-namespace)

namespace {

// Runs `check(table)` for each level this machine has, and puts the former one back.
template <class Check>
void on_every_isa(const Check& check) {
  const std::string before = kernels::active().name;
  for (const std::string_view isa : kernels::available_isas()) {
    CAPTURE(isa);
    kernels::set_isa(isa);
    CHECK(kernels::active().name == isa);
    check(kernels::active());
  }
  kernels::set_isa(before);
}

std::vector<std::size_t> sizes() {
  std::vector<std::size_t> sizes(34);
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = i;
  sizes.push_back(kernels::kWindow);
  return sizes;
}

}  // namespace

TEST_CASE("IDX-4: bm25_accumulate gives the scalar bits on every instruction set") {
  Random random(1);
  const std::uint32_t window = 3 * kernels::kWindow;
  std::vector<std::uint32_t> lengths(window + kernels::kWindow);
  for (std::uint32_t& length : lengths) length = random() % 3000;
  lengths[window] = 0;
  lengths[window + 1] = 16'777'217;  // not exact in float32

  for (const std::size_t size : sizes()) {
    CAPTURE(size);
    std::vector<std::uint32_t> rows;
    std::vector<std::uint32_t> frequencies;
    for (std::uint32_t row = window; rows.size() < size; ++row) {
      if (size < kernels::kWindow && random() % 4 == 0) continue;
      rows.push_back(row);
      frequencies.push_back(1 + (random() % 8 == 0 ? random() % 1000 : random() % 4));
    }
    const kernels::Bm25Postings postings{rows.data(), frequencies.data(), size, 3.7F, 0.3F,
                                         0.0123F};
    std::vector<float> expected(kernels::kWindow);
    for (float& sum : expected) sum = static_cast<float>(random() % 1000) / 7;
    const std::vector<float> start = expected;
    kernels::kScalar.bm25_accumulate(postings, lengths.data(), window, expected.data());
    on_every_isa([&](const kernels::Table& isa) {
      std::vector<float> sums = start;
      isa.bm25_accumulate(postings, lengths.data(), window, sums.data());
      CHECK(std::memcmp(sums.data(), expected.data(), sums.size() * sizeof(float)) == 0);
    });
  }
}

TEST_CASE("bm25_accumulate is the formula: against double") {
  const std::vector<std::uint32_t> lengths{10, 20, 30};
  const std::vector<std::uint32_t> rows{0, 2};
  const std::vector<std::uint32_t> frequencies{3, 1};
  std::vector<float> sums(16, 0.0F);
  kernels::kScalar.bm25_accumulate({rows.data(), frequencies.data(), 2, 2.2F, 0.3F, 0.045F},
                                   lengths.data(), 0, sums.data());
  CHECK(sums[0] == doctest::Approx(2.2 * 3 / (3 + 0.3 + 0.045 * 10)));
  CHECK(sums[1] == 0.0F);
  CHECK(sums[2] == doctest::Approx(2.2 * 1 / (1 + 0.3 + 0.045 * 30)));
}

TEST_CASE("collect_at_least finds the same places on every instruction set") {
  Random random(2);
  for (std::size_t size = 0; size <= 64; size += 16) {
    std::vector<float> sums(size);
    for (float& sum : sums) sum = static_cast<float>(random() % 5);
    if (size > 0) sums[size - 1] = std::numeric_limits<float>::denorm_min();
    for (const float threshold : {std::numeric_limits<float>::denorm_min(), 1.0F, 2.0F, 5.0F}) {
      std::vector<std::uint32_t> expected;
      for (std::uint32_t i = 0; i < size; ++i) {
        if (sums[i] >= threshold) expected.push_back(i);
      }
      on_every_isa([&](const kernels::Table& isa) {
        std::vector<std::uint32_t> found(size);
        found.resize(isa.collect_at_least(sums.data(), size, threshold, found.data()));
        CHECK(found == expected);
      });
    }
  }
}

TEST_CASE("IDX-4: bm25_accumulate_window gives the scalar bits on every instruction set") {
  Random random(3);
  std::vector<std::uint32_t> lengths(kernels::kWindow);
  for (std::uint32_t& length : lengths) length = random() % 3000;
  for (const std::size_t size : sizes()) {
    CAPTURE(size);
    std::vector<std::uint16_t> offsets;
    std::vector<std::uint8_t> frequencies;
    std::vector<std::uint32_t> rows;
    std::vector<std::uint32_t> wide;
    for (std::uint32_t row = 0; offsets.size() < size; ++row) {
      if (size < kernels::kWindow && random() % 4 == 0) continue;
      offsets.push_back(static_cast<std::uint16_t>(row));
      frequencies.push_back(static_cast<std::uint8_t>(1 + random() % 254));
      rows.push_back(row);
      wide.push_back(frequencies.back());
    }
    std::vector<float> start(kernels::kWindow);
    for (float& sum : start) sum = static_cast<float>(random() % 1000) / 7;
    std::vector<float> expected = start;  // the kernel for plain postings is the same function
    kernels::kScalar.bm25_accumulate({rows.data(), wide.data(), size, 3.7F, 0.3F, 0.0123F},
                                     lengths.data(), 0, expected.data());
    on_every_isa([&](const kernels::Table& isa) {
      std::vector<float> sums = start;
      isa.bm25_accumulate_window({offsets.data(), frequencies.data(), size, 3.7F, 0.3F, 0.0123F},
                                 lengths.data(), sums.data());
      CHECK(std::memcmp(sums.data(), expected.data(), sums.size() * sizeof(float)) == 0);
    });
  }
}

TEST_CASE("take_at_least finds the same places on every instruction set and clears them all") {
  Random random(4);
  for (const std::size_t size : {0, 32, 64, 96, 160, 8192}) {
    CAPTURE(size);
    std::vector<std::uint16_t> start(size);
    for (std::uint16_t& sum : start) {
      // Around the sign bit as well: comparisons are unsigned.
      sum = static_cast<std::uint16_t>(random() % 3 == 0 ? 32766 + random() % 4 : random());
    }
    for (const int bound : {1, 2, 32767, 32768, 40000, 65535}) {
      const auto threshold = static_cast<std::uint16_t>(bound);
      CAPTURE(threshold);
      std::vector<std::uint16_t> expected;
      std::vector<std::uint16_t> expected_values;
      for (std::size_t i = 0; i < size; ++i) {
        if (start[i] < threshold) continue;
        expected.push_back(static_cast<std::uint16_t>(i));
        expected_values.push_back(start[i]);
      }
      on_every_isa([&](const kernels::Table& isa) {
        std::vector<std::uint16_t> sums = start;
        std::vector<std::uint16_t> found(size);
        std::vector<std::uint16_t> values(size);
        found.resize(isa.take_at_least(sums.data(), size, threshold, found.data(), values.data()));
        values.resize(found.size());
        CHECK(found == expected);
        CHECK(values == expected_values);
        CHECK(sums == std::vector<std::uint16_t>(size, 0));
      });
    }
  }
}

TEST_CASE("take_at_least finds every single place, alone and beside others") {
  for (std::uint16_t place = 0; place < 512; ++place) {
    CAPTURE(place);
    for (const std::uint16_t other : {place, std::uint16_t{3}, std::uint16_t{511}}) {
      on_every_isa([&](const kernels::Table& isa) {
        std::vector<std::uint16_t> sums(512, 6);
        sums[other] = 8;
        sums[place] = 7;
        std::vector<std::uint16_t> found(512);
        std::vector<std::uint16_t> values(512);
        const std::size_t n =
            isa.take_at_least(sums.data(), sums.size(), 7, found.data(), values.data());
        REQUIRE(n == (other == place ? 1 : 2));
        const std::size_t at = other < place ? 1 : 0;
        CHECK(found[at] == place);
        CHECK(values[at] == 7);
        if (n == 2) CHECK(found[1 - at] == other);
      });
    }
  }
}

TEST_CASE("collect_bounds finds the same places on every instruction set") {
  Random random(6);
  for (std::size_t size = 0; size <= 200; ++size) {
    CAPTURE(size);
    std::vector<std::uint8_t> bounds(size);
    for (std::uint8_t& bound : bounds) {
      bound = static_cast<std::uint8_t>(random() % 3 == 0 ? 126 + random() % 4 : random());
    }
    for (const int given : {0, 1, 127, 128, 200, 255}) {
      const auto threshold = static_cast<std::uint8_t>(given);
      std::vector<std::uint16_t> expected;
      for (std::size_t i = 0; i < size; ++i) {
        if (bounds[i] >= threshold) expected.push_back(static_cast<std::uint16_t>(i));
      }
      on_every_isa([&](const kernels::Table& isa) {
        std::vector<std::uint16_t> found(size);
        found.resize(isa.collect_bounds(bounds.data(), size, threshold, found.data()));
        CHECK(found == expected);
      });
    }
  }
}

TEST_CASE("find_offsets finds what a list has of the wanted on every instruction set") {
  Random random(7);
  // Offsets of one in `step`, in the whole window or at one end of it, so that parts are full.
  const auto draw = [&](std::size_t size, unsigned shape) {
    std::vector<std::uint16_t> offsets;
    const std::uint32_t first = shape == 2 ? kernels::kWindow / 2 : 0;
    const std::uint32_t last = shape == 1 ? kernels::kWindow / 2 : kernels::kWindow;
    for (std::uint32_t at = first; at < last && size > offsets.size(); ++at) {
      if (random() % (last - at) < size - offsets.size()) {
        offsets.push_back(static_cast<std::uint16_t>(at));
      }
    }
    return offsets;
  };
  std::vector<std::size_t> counts = sizes();
  counts.insert(counts.end(), {63, 64, 65, 100, 400, 3000});
  for (const std::size_t size : counts) {
    for (unsigned shape = 0; shape < 3; ++shape) {
      const std::vector<std::uint16_t> offsets = draw(size, shape);
      // What may be read behind them is what is sought.
      std::vector<std::uint16_t> readable = offsets;
      for (std::size_t i = 0; i < kernels::kReadBeyond; ++i) {
        readable.push_back(static_cast<std::uint16_t>(random() % kernels::kWindow));
      }
      for (const unsigned part_bits : {4U, 8U, 13U}) {
        std::vector<std::uint16_t> starts;
        for (std::size_t first = 0; first <= kernels::kWindow;
             first += std::size_t{1} << part_bits) {
          const auto at = std::lower_bound(offsets.begin(), offsets.end(), first);
          starts.push_back(static_cast<std::uint16_t>(at - offsets.begin()));
        }
        for (const std::size_t n : {0, 1, 2, 7, 40, 500, 8192}) {
          CAPTURE(size);
          CAPTURE(shape);
          CAPTURE(part_bits);
          CAPTURE(n);
          std::vector<std::uint16_t> wanted = draw(n, random() % 3);
          if (n == 1 && size > 0) wanted[0] = offsets.back();
          for (std::size_t i = 1; i < wanted.size(); ++i) {
            std::swap(wanted[i], wanted[random() % (i + 1)]);
          }
          std::vector<std::pair<std::uint16_t, std::uint16_t>> expected;
          for (std::size_t i = 0; i < wanted.size(); ++i) {
            const auto at = std::lower_bound(offsets.begin(), offsets.end(), wanted[i]);
            if (at != offsets.end() && *at == wanted[i]) {
              expected.emplace_back(i, at - offsets.begin());
            }
          }
          on_every_isa([&](const kernels::Table& isa) {
            std::vector<std::uint16_t> in_wanted(wanted.size());
            std::vector<std::uint16_t> in_offsets(wanted.size());
            const std::size_t found =
                isa.find_offsets({readable.data(), starts.data(), part_bits}, wanted.data(),
                                 wanted.size(), in_wanted.data(), in_offsets.data());
            REQUIRE(found == expected.size());
            for (std::size_t i = 0; i < found; ++i) {
              CHECK(in_wanted[i] == expected[i].first);
              CHECK(in_offsets[i] == expected[i].second);
            }
          });
        }
      }
    }
  }
}

TEST_CASE("an unknown level is refused with the names that exist") {
  const std::string before = kernels::active().name;
  CHECK_THROWS_WITH_AS(kernels::set_isa("mmx"), doctest::Contains("'mmx': this machine has"),
                       std::invalid_argument);
  CHECK(kernels::active().name == before);
}
