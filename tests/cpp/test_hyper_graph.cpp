#include "graph/hyper_graph.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "altered_file.hpp"
#include "base/error.hpp"
#include "base/shared.hpp"
#include "damage.hpp"
#include "random.hpp"

using namespace spector;

namespace {

using Graph = Shared<HyperGraph>;
using View = HyperGraph::View;

std::uint32_t add(Graph& graph, std::uint32_t type, const std::vector<std::uint32_t>& entities,
                  std::uint32_t memory = HyperGraph::kNone, std::int64_t timestamp = 0,
                  float weight = 1.0F) {
  const std::vector<std::uint32_t> roles(entities.size(), 1);
  return graph.write([&](HyperGraph& store) {
    return store.add({type, entities, roles, memory, timestamp, weight});
  });
}

// What is wrong between lists and edges, or null.
const char* fault(const View& view, std::uint32_t entity) {
  const std::span<const std::uint32_t> places = view.hyperedges_of(entity);
  if (places.size() > view.max_per_entity()) return "too many";
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i > 0 && places[i] <= places[i - 1]) return "a list that does not ascend";
    if (places[i] >= view.n_places()) return "a place that is not there";
    const HyperGraph::Edge edge = view.edge(places[i]);
    if (edge.vertices.size() < 3) return "a removed edge in a list";
    if (view.find(edge.id) != places[i]) return "an id that leads elsewhere";
    bool named = false;
    for (const HyperGraph::Vertex& vertex : edge.vertices) {
      named = named || vertex.entity == entity;
      const auto other = view.hyperedges_of(vertex.entity);
      if (!std::binary_search(other.begin(), other.end(), places[i])) {
        return "an edge that is not in the lists of all its entities";
      }
    }
    if (!named) return "an edge in the list of an entity that it does not name";
  }
  return nullptr;
}

}  // namespace

TEST_CASE("HYP-6: lists and edges agree whatever is added, evicted and compacted") {
  Graph graph(5U);
  Random random(3);
  for (std::uint32_t i = 0; i < 20000; ++i) {
    std::vector<std::uint32_t> entities;
    const std::size_t n = 3 + random() % 6;
    while (entities.size() < n) {
      // Few are in most events, some in one only.
      const std::uint32_t entity = random() % 10 == 0
                                       ? 500 + 8 * i + static_cast<std::uint32_t>(entities.size())
                                       : random() % (1 + random() % 500);
      if (std::find(entities.begin(), entities.end(), entity) == entities.end()) {
        entities.push_back(entity);
      }
    }
    REQUIRE(add(graph, random() % 3, entities, i, i) == i);
    if (i % 5000 == 1) graph.write([](HyperGraph& store) { store.decay(0.9F, 0.2F); });
  }
  graph.read([](const View& view) {
    for (std::uint32_t entity = 0; entity < view.n_entities(); ++entity) {
      CHECK(fault(view, entity) == nullptr);
    }
    CHECK(view.n_places() <= view.size() * 4 / 3 + 1025);
  });
}

TEST_CASE("an edge lies in one page of vertices, and is found by what it says after each move") {
  Graph graph(64U);
  for (std::uint32_t i = 0; i < 3000; ++i) {
    add(graph, 0, {i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6}, i);
  }
  std::vector<std::uint32_t> odd;
  odd.reserve(1500);
  for (std::uint32_t i = 1; i < 3000; i += 2) odd.push_back(i);
  CHECK(graph.write([&](HyperGraph& store) { return store.remove_memories(odd); }) == 1500);
  for (std::uint32_t i = 0; i < 3000; i += 2) {
    CHECK(add(graph, 0, {i + 6, i + 5, i + 4, i + 3, i + 2, i + 1, i}, i) == i);
  }
  graph.read([](const View& view) {
    CHECK(view.size() == 1500);
    for (std::uint32_t id = 0; id < 3000; ++id) {
      const std::uint32_t place = view.find(id);
      REQUIRE((place == HyperGraph::kNone) == (id % 2 == 1));
      if (id % 2 == 1) continue;
      const HyperGraph::Edge edge = view.edge(place);
      for (std::uint32_t i = 0; i < 7; ++i) CHECK(edge.vertices[i].entity == id + i);
    }
  });
}

TEST_CASE("a refused transaction leaves the graph and what it finds as they were") {
  Graph graph(2U);
  for (std::uint32_t i = 0; i < 50; ++i) add(graph, 0, {i, i + 1, i + 2}, i, i);
  const auto ids = graph.read([](const View& view) { return view.ids(); });
  CHECK_THROWS_AS(graph.write([](HyperGraph& store) {
    const std::array<std::uint32_t, 3> entities{1, 2, 3};
    for (std::uint32_t i = 0; i < 2000; ++i) store.add({9, entities, entities, i, 99, 1.0F});
    store.decay(0.5F, 1.0F);
    throw std::runtime_error("stop");
  }),
                  std::runtime_error);
  CHECK(graph.read([](const View& view) { return view.ids(); }) == ids);
  CHECK(add(graph, 0, {51, 50, 49}, 49, 49) == 49);
  CHECK(add(graph, 9, {1, 2, 3}, 0, 99) == 50);
}

TEST_CASE("PER-4: a damaged HYEG file is noticed, wherever it is") {
  const TemporaryFile file;
  Graph graph(3U);
  for (std::uint32_t i = 0; i < 6; ++i) add(graph, i, {i, i + 1, i + 2, 9}, i, -1, 0.5F);
  graph.write([](HyperGraph& store) { store.merge(9, 2); });
  graph.read([&](const View& view) { view.save(file.path()); });
  const auto load = [&] {
    Graph loaded(64U);
    loaded.write([&](HyperGraph& store) { store.load(file.path()); });
  };
  check_damage(file, load);
}

TEST_CASE("PER-4: numbers of a HYEG file with right checksums are not believed") {
  const TemporaryFile file;
  Graph graph(2U);
  add(graph, 0, {0, 1, 2}, 7);
  add(graph, 0, {1, 2, 3, 4}, 8);
  graph.read([&](const View& view) { view.save(file.path()); });
  const auto load = [&] {
    Graph loaded(64U);
    loaded.write([&](HyperGraph& store) { store.load(file.path()); });
  };
  load();
  const std::string whole = file.read();
  const auto crafted = [&](std::size_t section, std::size_t offset, auto value, const char* what) {
    std::string bytes = whole;
    set_field(bytes, section_offset(bytes, section) + offset, value);
    check_crafted(file, bytes, what, load);
  };
  crafted(0, 0, std::uint32_t{0}, "settings");
  crafted(0, 0, std::uint32_t{1}, "an entity has too many");
  crafted(0, 4, std::uint32_t{1}, "ids are not ascending");
  crafted(1, 0, std::uint32_t{1}, "ids are not ascending");
  crafted(1, 32, std::uint32_t{0}, "ids are not ascending");
  for (const float weight : {-1.0F, 3.5F, std::numeric_limits<float>::quiet_NaN()}) {
    crafted(1, 8, weight, "a weight is not in");
  }
  for (const std::uint32_t n : {0U, 2U, 9U, 0xffffffffU}) {
    crafted(1, 12, n, "a number of vertices is not 3 to 8");
  }
  crafted(1, 12, std::uint32_t{4}, "");
  crafted(1, 44, std::uint32_t{5}, "vertices do not follow");
  crafted(1, 44, std::uint32_t{3}, "one belongs to no hyperedge");
  crafted(1, 48, std::uint32_t{2}, "vertices do not follow");
  crafted(2, 0, std::uint32_t{5}, "an entity that is not there");
  crafted(2, 0, std::uint32_t{1}, "an entity twice");
  crafted(2, 0, std::uint32_t{4}, "it does not fit the vertices");
  crafted(3, 0, std::uint32_t{0}, "it does not fit the vertices");
  crafted(3, 16, std::uint32_t{0xffffffff}, "it does not fit the vertices");
  crafted(4, 0, std::uint32_t{1}, "they do not fit the vertices");
  crafted(4, 4, std::uint32_t{9}, "they do not fit the vertices");
  std::string bytes = whole;
  set_field(bytes, 16, std::uint64_t{3});
  set_field(bytes, 24, std::uint64_t{3});
  check_crafted(file, bytes, "not as many as the header says", load);
  bytes = whole;
  set_field(bytes, 4, std::uint32_t{3});
  sign(bytes);
  file.write(bytes);
  CHECK_THROWS_AS(load(), Version);
}

TEST_CASE("readers beside a writer see events in the lists of all their entities or of none") {
  constexpr std::uint32_t kEntities = 60;
  Graph graph(8U);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> faults{0};
  std::vector<std::jthread> readers;
  readers.reserve(4);
  for (unsigned reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&, reader] {
      Random random(reader);
      while (!stop.load()) {
        graph.read([&](const View& view) {
          const std::uint32_t entity = random() % kEntities;
          if (fault(view, entity) != nullptr) ++faults;
          const std::array<std::uint32_t, 2> both{entity, random() % kEntities};
          for (const std::uint32_t id : view.common(both)) {
            if (view.find(id) == HyperGraph::kNone) ++faults;
          }
        });
      }
    });
  }
  Random random(99);
  for (std::uint32_t i = 0; i < 20000; ++i) {
    const std::uint32_t a = random() % kEntities;
    const std::array<std::uint32_t, 3> entities{a, (a + 1 + random() % 20) % kEntities,
                                                (a + 21 + random() % 20) % kEntities};
    graph.write([&](HyperGraph& store) {
      switch (i % 50) {
        case 10:
          store.decay(0.95F, 0.2F);
          break;
        case 20:
          store.merge(a, entities[1]);
          break;
        case 30:
          store.remove_memories(std::array{i / 2, i / 2 + 1});
          break;
        case 40:
          store.compact();
          break;
        default:
          store.add({0, entities, entities, i, i, 1.0F});
      }
    });
  }
  stop = true;
  readers.clear();
  CHECK(faults == 0);
}
