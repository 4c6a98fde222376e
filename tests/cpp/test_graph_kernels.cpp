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

TEST_CASE("HEB-11: extend_paths gives the scalar keys on every instruction set") {
  const std::string active = kernels::active().name;
  Random random(3);
  for (std::size_t count = 0; count <= 100; ++count) {
    CAPTURE(count);
    std::vector<std::uint32_t> neighbours(count);
    std::vector<float> weights(count);
    for (std::size_t i = 0; i < count; ++i) {
      neighbours[i] = count % 2 == 0 ? random() : random() % 8;
      weights[i] = static_cast<float>(random() % 1001) / 1000;
      if (random() % 4 == 0) weights[i] = -weights[i];
    }
    for (const float least : {1e-6F, 0.01F, 0.4F, 1.0F}) {
      const kernels::PathRule rule{.strength = count % 3 == 0 ? 1.0F : 0.7F,
                                   .least = least,
                                   .seed = count == 0 ? 0 : neighbours[count / 2]};
      std::vector<std::uint64_t> expected(count, 7);
      const std::size_t n = kernels::kScalar.extend_paths(neighbours.data(), weights.data(), count,
                                                          rule, expected.data());
      for (const std::string_view isa : kernels::available_isas()) {
        CAPTURE(isa);
        kernels::set_isa(isa);
        std::vector<std::uint64_t> keys(count, 7);
        REQUIRE(kernels::active().extend_paths(neighbours.data(), weights.data(), count, rule,
                                               keys.data()) == n);
        CHECK(std::equal(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(n),
                         expected.begin()));
      }
    }
  }
  kernels::set_isa(active);
}

TEST_CASE("HEB-11: extend_paths is the rule") {
  const std::vector<std::uint32_t> neighbours{5, 6, 7, 8};
  const std::vector<float> weights{0.5F, -1.0F, 0.25F, 1.0F};
  std::vector<std::uint64_t> keys(4);
  REQUIRE(kernels::kScalar.extend_paths(neighbours.data(), weights.data(), 4, {0.5F, 0.25F, 8},
                                        keys.data()) == 2);
  CHECK(keys[0] == (std::uint64_t{0x3f800000U - 0x3e800000U} << 32 | 5));  // 0.25
  CHECK(keys[1] == (std::uint64_t{0x3f800000U - 0x3f000000U} << 32 | 6));  // 0.5
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
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t key = random() % range;
      check(key, set.insert(key * 4096U));
    }
    REQUIRE(std::vector(set.keys().begin(), set.keys().end()) == keys);
    for (std::uint32_t i = 0; i < 100; ++i) {
      const std::uint32_t key = random() % range;
      REQUIRE(set.find(key * 4096U) == place[key]);
    }
  }
}
