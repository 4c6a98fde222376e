#include "graph/entity_spread.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/shared.hpp"

using namespace spector;

namespace {

using Directory = Shared<EntityDirectory>;

constexpr std::uint32_t kNone = EntityDirectory::kNone;

SpreadLimits limits(std::uint32_t steps) {
  return {steps, 0.5, 100, 0.0, std::numeric_limits<std::size_t>::max()};
}

std::vector<ActivatedMemory> spread(const Directory& directory, const Shared<HyperGraph>* hyper,
                                    const std::vector<std::uint32_t>& starts,
                                    const std::vector<double>& strengths,
                                    const SpreadLimits& limit) {
  return directory.read([&](const EntityDirectory::View& view) {
    if (hyper == nullptr) return spread_entities(view, nullptr, starts, strengths, limit);
    return hyper->read([&](const HyperGraph::View& edges) {
      return spread_entities(view, &edges, starts, strengths, limit);
    });
  });
}

void fill(Directory& directory, std::uint32_t n) {
  directory.write([&](EntityDirectory& store) {
    for (std::uint32_t i = 0; i < n; ++i) {
      store.intern("e" + std::to_string(i), EntityDirectory::kOther);
    }
  });
}

}  // namespace

TEST_CASE("EXP-1 (5e): strength over relations in both directions and events, by the fan factor") {
  Directory directory(48U);
  Shared<HyperGraph> hyper(64U);
  fill(directory, 6);
  directory.write([](EntityDirectory& store) {
    store.add_relation(0, 1, 0);
    store.add_relation(2, 1, 0);
    store.link(0, 10, false);
    store.link(1, 11, true);
    store.link(1, 12, false);
    store.link(2, 12, false);
    store.link(4, 14, false);
  });
  hyper.write([](HyperGraph& store) {
    const std::vector<std::uint32_t> entities{0, 4, 5};
    const std::vector<std::uint32_t> roles{0, 0, 0};
    store.add({0, entities, roles, kNone, 0, 1.0F});
  });
  const auto near = spread(directory, nullptr, {0}, {1.0}, limits(0));
  REQUIRE(near.size() == 1);
  CHECK(near[0].memory == 10);
  CHECK(near[0].activation == 1.0);
  const auto far = spread(directory, &hyper, {0}, {1.0}, limits(2));
  REQUIRE(far.size() == 4);
  CHECK(far[1].memory == 11);
  CHECK(far[1].activation == doctest::Approx(0.5 / std::sqrt(2.0)));
  CHECK(far[1].path == std::array<std::uint32_t, 3>{0, 1, kNone});
  CHECK(far[2].memory == 12);  // by way of 1 it is stronger than by way of 2
  CHECK(far[2].activation == doctest::Approx(0.5 / std::sqrt(2.0)));
  CHECK(far[3].memory == 14);
  CHECK(far[3].activation == 0.5);
}

TEST_CASE("EXP-1 (5e): the limits") {
  Directory directory(48U);
  fill(directory, 3);
  directory.write([](EntityDirectory& store) {
    for (std::uint32_t memory = 0; memory < 20; ++memory) store.link(0, memory, false);
    store.link(1, 100, false);
  });
  SpreadLimits limit = limits(0);
  CHECK(spread(directory, nullptr, {0, 1, 2}, {1, 1, 1}, limit).size() == 21);
  limit.most = 3;
  const auto strongest = spread(directory, nullptr, {0, 1}, {1, 1}, limit);
  REQUIRE(strongest.size() == 3);
  CHECK(strongest[0].memory == 0);
  CHECK(strongest[1].memory == 1);
  CHECK(strongest[2].memory == 100);
  limit.least = 0.5;
  CHECK(spread(directory, nullptr, {0, 1}, {1, 1}, limit).size() == 1);
  limit.most_links = 0;
  CHECK(spread(directory, nullptr, {0, 1}, {1, 1}, limit).empty());
  CHECK(spread(directory, nullptr, {}, {}, limit).empty());
  CHECK_THROWS_AS(spread(directory, nullptr, {3}, {1}, limit), std::out_of_range);
}

TEST_CASE("An entity that everything is related to is bounded work") {
  Directory directory(256U);
  constexpr std::uint32_t kEntities = 5000;
  fill(directory, kEntities);
  directory.write([](EntityDirectory& store) {
    for (std::uint32_t i = 1; i < kEntities; ++i) {
      store.add_relation(i, 0, 0);
      store.link(i, i, false);
    }
  });
  const auto found = spread(directory, nullptr, {0}, {1.0}, limits(2));
  CHECK(found.size() <= SpreadLimits::kMostAround * (1 + SpreadLimits::kMostEntities));
  CHECK_FALSE(found.empty());
}
