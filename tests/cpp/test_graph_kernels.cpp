// The kernels of the graph on every instruction set against the plain loop, bit for bit (GEN-3).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "graph/visited.hpp"
#include "kernels/dispatch.hpp"
#include "random.hpp"

using namespace spector;  // NOLINT(google-build-using-namespace)

TEST_CASE("HEB-8, HEB-9: decay_weights gives the scalar bits on every instruction set") {
  const std::string active = kernels::active().name;
  Random random(1);
  for (std::size_t size = 0; size <= 100; ++size) {
    const std::size_t count = size < 100 ? size : 10'007;
    CAPTURE(count);
    std::vector<float> weights(count);
    std::vector<float> factors(count);
    std::vector<std::uint32_t> meta(count);
    for (std::size_t i = 0; i < count; ++i) {
      weights[i] = random() % 5 == 0 ? 0.0F : static_cast<float>(random() % 1001) / 1000;
      if (random() % 7 == 0) weights[i] = -0.1F;
      if (random() % 7 == 0) weights[i] = 0.1F;
      factors[i] = static_cast<float>(900 + random() % 101) / 1000;
      meta[i] = random();
      if (random() % 2 == 0) meta[i] = (meta[i] & 0xff000000U) | 0x00e00000U | (random() % 800);
    }
    for (const bool each : {false, true}) {
      const kernels::DecayRule rule{.factor = count % 2 == 0 ? 0.9F : 1.0F,
                                    .factors = each ? factors.data() : nullptr,
                                    .floor = 0.1F,
                                    .bridge = 224,
                                    .max_age = 365,
                                    .cycle = static_cast<std::uint32_t>(count * 7 % 65536)};
      std::vector<float> expected(count);
      const auto counts =
          kernels::kScalar.decay_weights(weights.data(), meta.data(), count, rule, expected.data());
      for (const std::string_view isa : kernels::available_isas()) {
        CAPTURE(isa);
        kernels::set_isa(isa);
        std::vector<float> out(count, 7.0F);
        const auto found =
            kernels::active().decay_weights(weights.data(), meta.data(), count, rule, out.data());
        CHECK(found.removed == counts.removed);
        CHECK(found.floored == counts.floored);
        CHECK((count == 0 || std::memcmp(out.data(), expected.data(), count * 4) == 0));
      }
    }
  }
  kernels::set_isa(active);
}

TEST_CASE("HEB-8: decay_weights is the rule") {
  const kernels::DecayRule rule{.factor = 0.9F,
                                .factors = nullptr,
                                .floor = 0.1F,
                                .bridge = 224,
                                .max_age = 365,
                                .cycle = 10};
  const std::uint32_t fresh = 10;
  const std::vector<float> weights{1.0F, 0.11F, 0.11F, -0.1F, -0.1F, 0.0F, -0.5F};
  const std::vector<std::uint32_t> meta{fresh,
                                        fresh | 223U << 16,
                                        fresh | 224U << 16,
                                        ((10 - 364) & 0xffffU) | 255U << 16,
                                        ((10 - 365) & 0xffffU) | 255U << 16,
                                        fresh | 255U << 16,
                                        fresh | 255U << 16};
  std::vector<float> out(weights.size());
  const auto counts =
      kernels::kScalar.decay_weights(weights.data(), meta.data(), weights.size(), rule, out.data());
  CHECK(out == std::vector<float>{0.9F, 0.0F, -0.1F, -0.1F, 0.0F, 0.0F, 0.45F});
  CHECK(counts.removed == 2);
  CHECK(counts.floored == 2);
}

TEST_CASE("a visited set agrees with a model, used again and again") {
  Random random(5);
  VisitedSet set;
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t n = round % 50 == 49 ? 300'000 : random() % 3000;
    const std::uint32_t range = 1 + random() % (2 * n + 1);
    set.clear(round % 3 == 0 ? n : 0);
    std::vector<std::uint32_t> keys;
    std::vector<std::uint32_t> place(range, VisitedSet::kAbsent);
    const auto check = [&](std::uint32_t key, VisitedSet::Place at) {
      REQUIRE(at.is_new == (place[key] == VisitedSet::kAbsent));
      if (at.is_new) {
        place[key] = static_cast<std::uint32_t>(keys.size());
        keys.push_back(key * 4096U);
      }
      REQUIRE(at.index == place[key]);
    };
    std::vector<std::uint32_t> some;
    for (std::uint32_t i = 0; i < n; i += static_cast<std::uint32_t>(some.size())) {
      some.resize(std::min<std::size_t>(n - i, 1 + random() % (round % 2 == 0 ? 1 : 1000)));
      for (std::uint32_t& key : some) key = random() % range;
      if (some.size() == 1) {
        check(some[0], set.insert(some[0] * 4096U));
        continue;
      }
      std::vector<std::uint32_t> scaled;
      for (const std::uint32_t key : some) scaled.push_back(key * 4096U);
      std::size_t next = 0;
      set.insert(scaled, [&](std::size_t i_key, VisitedSet::Place at) {
        REQUIRE(i_key == next++);
        check(some[i_key], at);
      });
      REQUIRE(next == some.size());
    }
    REQUIRE(std::vector(set.keys().begin(), set.keys().end()) == keys);
    for (std::uint32_t i = 0; i < 100; ++i) {
      const std::uint32_t key = random() % range;
      REQUIRE(set.find(key * 4096U) == place[key]);
    }
  }
}
