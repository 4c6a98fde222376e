// The Hebbian graph: its files, and readers beside its writer. What it computes is compared with a
// plain model in tests/test_hebbian.py.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "altered_file.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/shared.hpp"
#include "graph/hebbian.hpp"
#include "random.hpp"

using namespace spector;  // NOLINT(google-build-using-namespace)

namespace {

using Graph = Shared<HebbianGraph>;
using View = HebbianGraph::View;

bool strengthen(Graph& graph, std::uint32_t a, std::uint32_t b, float delta = 0.3F) {
  return graph.write([&](HebbianGraph& store) {
    return store.strengthen(std::span(&a, 1), std::span(&b, 1), std::span(&delta, 1), false)[0] !=
           0;
  });
}

std::string sample_file() {
  Graph graph(4U);
  graph.write([](HebbianGraph& store) { store.resize(6); });
  strengthen(graph, 0, 1, 0.9F);
  strengthen(graph, 1, 2);
  strengthen(graph, 2, 0);
  strengthen(graph, 3, 4, 0.05F);
  graph.write([](HebbianGraph& store) { return store.decay(0.9F, false); });
  const TemporaryFile file;
  graph.read([&](const View& view) { save_hebbian(file.path(), view); });
  return file.read();
}

}  // namespace

TEST_CASE("PER-4: a graph file that is cut or has a flipped byte is refused") {
  const std::string good = sample_file();
  const TemporaryFile file;
  file.write(good);
  CHECK(load_hebbian(file.path()).base.entries == 8);
  for (std::size_t size = 0; size < good.size(); ++size) {
    file.write(good.substr(0, size));
    CHECK_THROWS_AS(static_cast<void>(load_hebbian(file.path())), Corruption);
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char mask : {'\x01', '\x80', '\xff'}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ mask);
      file.write(bad);
      CHECK_THROWS_AS(static_cast<void>(load_hebbian(file.path())), Error);
    }
  }
}

TEST_CASE("PER-4, F-057: a graph file with good checksums and wrong contents is refused") {
  const std::string good = sample_file();
  const TemporaryFile file;
  const std::size_t settings = section_offset(good, 0);
  const std::size_t offsets = section_offset(good, 1);
  const std::size_t edges = section_offset(good, 2);
  const auto refused = [&](const char* section, auto change) {
    CAPTURE(section);
    std::string bad = good;
    change(bad);
    sign(bad);
    file.write(bad);
    try {
      static_cast<void>(load_hebbian(file.path()));
      FAIL("loaded");
    } catch (const Corruption& error) {
      CHECK(std::string(error.what()).find(section) != std::string::npos);
    }
  };
  std::string same = good;
  sign(same);
  CHECK(same == good);  // so what follows is refused for what it holds

  refused("settings", [&](std::string& bad) { set_field<std::uint32_t>(bad, settings + 8, 0); });
  refused("settings", [&](std::string& bad) { set_field<std::uint32_t>(bad, settings + 8, 257); });
  refused("settings", [&](std::string& bad) { set_field<std::uint32_t>(bad, settings + 12, 1); });
  refused("offsets", [&](std::string& bad) { set_field<std::uint32_t>(bad, settings + 8, 1); });
  refused("offsets", [&](std::string& bad) { set_field<std::uint32_t>(bad, offsets, 1); });
  refused("offsets", [&](std::string& bad) { set_field<std::uint32_t>(bad, offsets + 4, 9); });
  refused("offsets", [&](std::string& bad) { set_field<std::uint32_t>(bad, offsets + 24, 7); });
  refused("edges", [&](std::string& bad) { set_field<std::uint32_t>(bad, edges, 6); });
  refused("edges", [&](std::string& bad) { set_field<std::uint32_t>(bad, edges, 0); });
  refused("edges", [&](std::string& bad) { set_field<std::uint32_t>(bad, edges, 2); });
  for (const float weight : {0.0F, -0.5F, 1.5F, NAN, INFINITY}) {
    refused("edges", [&](std::string& bad) { set_field(bad, edges + 4, weight); });
  }
  // One direction says something else than the other.
  refused("edges", [&](std::string& bad) { set_field(bad, edges + 4, 0.5F); });
  refused("edges", [&](std::string& bad) { set_field<std::uint16_t>(bad, edges + 8, 9); });
  refused("edges", [&](std::string& bad) { set_field<std::uint8_t>(bad, edges + 10, 9); });
  refused("edges", [&](std::string& bad) { set_field<std::uint8_t>(bad, edges + 11, 4); });
  // One direction is missing: 0 to 2 becomes 0 to 3.
  refused("edges", [&](std::string& bad) { set_field<std::uint32_t>(bad, edges + 12, 3); });
  refused("edges", [&](std::string& bad) {
    set_field<std::uint64_t>(bad, 16, 9);
    set_field<std::uint64_t>(bad, 24, 9);
  });

  // Flags that this release does not know are kept, if both directions have them (HEB-1).
  std::string flagged = good;
  for (std::size_t i = 0; i < 8; ++i) {
    const std::size_t at = edges + i * 12 + 11;
    set_field<std::uint8_t>(flagged, at,
                            static_cast<std::uint8_t>(field<std::uint8_t>(flagged, at) | 0x40));
  }
  sign(flagged);
  file.write(flagged);
  Graph graph(load_hebbian(file.path()));
  strengthen(graph, 0, 1);
  graph.read([&](const View& view) {
    CHECK(view.edge(0, 1)->flags == 0x40);
    CHECK(view.edge(4, 3)->flags == (0x40 | HebbianEdge::kFloored));
    CHECK(!view.fault());
  });
}

TEST_CASE("HEB-10: scores are given to the edges that still are there when the pass ends") {
  for (const int changes : {0, 1, 2, 3}) {
    CAPTURE(changes);
    Graph graph(8U);
    graph.write([](HebbianGraph& store) { store.resize(8); });
    for (const auto& [a, b] : {std::pair(0U, 1U), {1U, 2U}, {2U, 0U}, {2U, 3U}, {3U, 4U}}) {
      strengthen(graph, a, b, 0.9F);
    }
    if (changes >= 2) graph.write([](HebbianGraph& store) { store.compact(); });
    graph.read([&](const View& view) {
      const HebbianGraph::BridgeScores scores = view.bridge_scores();
      CHECK(scores.only == 2);
      if (changes >= 1) {
        strengthen(graph, 5, 6);
        strengthen(graph, 2, 3);
        const std::uint32_t gone = 4;
        CHECK(graph.write([&](HebbianGraph& store) { return store.remove(std::span(&gone, 1)); }) ==
              1);
      }
      if (changes == 3) graph.write([](HebbianGraph& store) { store.compact(); });
      graph.write([&](HebbianGraph& store) { return store.apply(scores); });
    });
    graph.read([&](const View& view) {
      CHECK(view.edge(2, 3)->bridge_score == 255);
      CHECK(view.edge(3, 2)->bridge_score == 255);
      CHECK(view.edge(0, 1)->bridge_score < 224);
      if (changes >= 1) {
        CHECK(!view.edge(3, 4));
        CHECK(view.edge(5, 6)->bridge_score == 255);  // the estimate it got when it was made
      }
      CHECK(!view.fault());
    });
  }
}

TEST_CASE("a change of the graph that fails changes nothing") {
  Graph graph(2U);
  graph.write([](HebbianGraph& store) { store.resize(10); });
  for (std::uint32_t i = 0; i < 9; ++i) strengthen(graph, i, i + 1);
  CHECK_THROWS_AS(graph.write([](HebbianGraph& store) {
    store.resize(20);
    const std::array<std::uint32_t, 2> a{0, 3};
    const std::array<std::uint32_t, 2> b{9, 19};
    const float delta = 0.9F;
    static_cast<void>(store.strengthen(a, b, std::span(&delta, 1), false));
    static_cast<void>(store.decay(0.2F, false));
    throw std::invalid_argument("no");
  }),
                  std::invalid_argument);
  graph.read([](const View& view) {
    CHECK(view.slots() == 10);
    CHECK(view.edge_count() == 9);
    CHECK(view.cycle() == 0);
    CHECK(view.edge(0, 1)->weight == 0.3F);
    CHECK(!view.edge(0, 9));
    CHECK(!view.fault());
  });
}

TEST_CASE("the Hebbian graph: readers beside a writer see both directions of an edge or none") {
  constexpr std::uint32_t kSlots = 400;
  constexpr int kOperations = 20'000;
  Graph graph(6U);
  graph.write([](HebbianGraph& store) { store.resize(kSlots); });
  std::atomic<bool> done{false};
  std::atomic<int> faults{0};
  std::latch begun(5);
  std::vector<std::thread> readers;
  for (unsigned reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&, reader] {
      Random random(reader);
      begun.arrive_and_wait();
      for (bool last = false; !last;) {
        last = done.load();
        graph.read([&](const View& view) {
          const std::uint32_t slot = random() % kSlots;
          for (const HebbianEdge& edge : view.neighbours(slot)) {
            const auto back = view.edge(edge.neighbour, slot);
            if (!back || back->weight != edge.weight || back->last_cycle != edge.last_cycle ||
                back->bridge_score != edge.bridge_score || back->flags != edge.flags) {
              ++faults;
            }
          }
          const std::array<std::uint32_t, 2> seeds{slot, random() % kSlots};
          float before = 1;
          const Activations found = view.spread(seeds, 3, 0.01F, 50);
          for (std::size_t i = 0; i < found.size(); ++i) {
            if (found.slots[i] >= view.slots() || !(found.strengths[i] <= before)) ++faults;
            before = found.strengths[i];
          }
          if (reader == 0 && random() % 64 == 0 && view.fault()) ++faults;
        });
        if (reader == 1 && random() % 64 == 0) {
          graph.read([&](const View& view) {
            const HebbianGraph::BridgeScores scores = view.bridge_scores();
            graph.write([&](HebbianGraph& store) { return store.apply(scores); });
          });
        }
        std::this_thread::yield();
      }
    });
  }
  Random random(99);
  begun.arrive_and_wait();
  for (int operation = 0; operation < kOperations; ++operation) {
    if (operation % 64 == 0) std::this_thread::yield();
    const std::uint32_t a = random() % kSlots;
    const std::uint32_t b = (a + 1 + random() % (kSlots - 1)) % kSlots;
    if (random() % 20 == 0) {
      graph.write([&](HebbianGraph& store) { return store.remove(std::span(&a, 1)); });
    } else if (random() % 400 == 0) {
      graph.write([&](HebbianGraph& store) { return store.decay(0.9F, false); });
    } else {
      strengthen(graph, a, b, 0.1F + 0.01F * static_cast<float>(random() % 80));
    }
  }
  done.store(true);
  for (std::thread& reader : readers) reader.join();
  CHECK(faults.load() == 0);
  CHECK(graph.read([](const View& view) { return !view.fault() && view.edge_count() > 100; }));
}
