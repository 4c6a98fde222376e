#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "kernels/dispatch.hpp"
#include "random.hpp"

using namespace spector;

namespace {

std::vector<std::uint32_t> draw(Random& random, std::size_t n, std::uint32_t range) {
  std::set<std::uint32_t> set;
  while (set.size() < n) {
    // Also where a sign would be.
    const std::uint32_t value = random() % range;
    set.insert(random() % 2 == 0 ? value : 0x80000000U + value);
  }
  return {set.begin(), set.end()};
}

}  // namespace

TEST_CASE("HYP-7: intersect gives what is in both, on every instruction set and of all sizes") {
  const std::string before = kernels::active().name;
  Random random(1);
  std::vector<std::size_t> sizes;
  for (std::size_t n = 0; n <= 2 * 16 + 1; ++n) sizes.push_back(n);
  sizes.push_back(64);
  sizes.push_back(1000);
  for (const std::size_t n_a : sizes) {
    for (const std::size_t n_b : sizes) {
      const auto range = static_cast<std::uint32_t>(std::max(n_a, n_b) * (1 + random() % 3) + 1);
      const std::vector<std::uint32_t> a = draw(random, n_a, range);
      const std::vector<std::uint32_t> b = draw(random, n_b, range);
      std::vector<std::uint32_t> expected;
      std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(expected));
      std::vector<const kernels::Table*> tables{&kernels::kScalar};
      for (const std::string_view isa : kernels::available_isas()) {
        kernels::set_isa(isa);
        tables.push_back(&kernels::active());
      }
      for (const kernels::Table* table : tables) {
        CAPTURE(table->name);
        CAPTURE(n_a);
        CAPTURE(n_b);
        std::vector<std::uint32_t> out(std::min(n_a, n_b) + 1, 77);
        out.resize(table->intersect(a.data(), n_a, b.data(), n_b, out.data()));
        CHECK(out == expected);
        std::vector<std::uint32_t> in_place = a;
        in_place.resize(table->intersect(in_place.data(), n_a, b.data(), n_b, in_place.data()));
        CHECK(in_place == expected);
      }
    }
  }
  kernels::set_isa(before);
}

TEST_CASE("intersect of equal, nested and disjoint sets") {
  std::vector<std::uint32_t> low(50);
  std::vector<std::uint32_t> high(50);
  for (std::uint32_t i = 0; i < 50; ++i) {
    low[i] = i;
    high[i] = 100 + i;
  }
  std::vector<std::uint32_t> out(50);
  const auto intersect = kernels::active().intersect;
  CHECK(intersect(low.data(), 50, low.data(), 50, out.data()) == 50);
  CHECK(out == low);
  CHECK(intersect(low.data(), 50, high.data(), 50, out.data()) == 0);
  CHECK(intersect(high.data(), 50, low.data(), 50, out.data()) == 0);
  CHECK(intersect(low.data() + 10, 5, low.data(), 50, out.data()) == 5);
  CHECK(out[0] == 10);
}
