#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/envelope.hpp"
#include "base/error.hpp"
#include "base/shared.hpp"
#include "base/utf8.hpp"
#include "graph/cross_capture.hpp"
#include "graph/tag_coactivation.hpp"
#include "random.hpp"
#include "temporary_file.hpp"

using spector::Corruption;
using spector::CrossCapture;
using spector::Shared;
using spector::TagCoActivation;
using Tags = std::vector<std::string_view>;

namespace {

// All that a table says.
std::string everything(const Shared<TagCoActivation>& store) {
  return store.read([](const TagCoActivation::View& view) {
    std::string all = std::to_string(view.n_observations()) + "/" + std::to_string(view.capacity());
    std::map<std::string, std::uint32_t> tags;
    for (std::uint32_t tag = 0; tag < view.n_tags(); ++tag) {
      if (view.n(tag) > 0) tags[std::string(view.name(tag))] = view.n(tag);
    }
    for (const auto& [tag, n] : tags) all += " " + tag + ":" + std::to_string(n);
    const auto add = [&](const auto& entries) {
      for (const auto& entry : entries) {
        all.append(" ").append(view.name(entry.first)).append("-").append(view.name(entry.second));
        all += ":" + std::to_string(entry.value) + "@" + std::to_string(entry.last_use);
      }
    };
    add(view.pairs());
    add(view.edges());
    return all;
  });
}

void fill(TagCoActivation& store) {
  store.observe(Tags{"a", "b", "c"});
  store.observe(Tags{"b", "c"});
  store.observe(Tags{"\xe6\x9d\xb1"});
  store.observe_sequence(Tags{"a"}, Tags{"b", "only followed"}, 1000);
}

}  // namespace

TEST_CASE("UTF-8 is told from what is none") {
  for (const std::string_view good : {"", "abc", "\xc2\x80", "\xe6\x9d\xb1", "\xf0\x90\x80\x80",
                                      "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"}) {
    CHECK(spector::is_utf8(good));
  }
  for (const std::string_view bad :
       {"\x80", "\xc1\xbf", "\xc2", "\xc2z", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe6\x9d",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "ab\xf0\x90\x80"}) {
    CHECK_FALSE(spector::is_utf8(bad));
  }
}

TEST_CASE("pair table: random inserts and removals leave every chain whole (COA-2)") {
  spector::EpochDomain epochs;
  spector::CowHeap heap(epochs);
  spector::PairTable<std::uint32_t, true> table(heap, 97);
  table.resize(40);
  Random random(4);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> model;
  for (std::uint32_t step = 1; step < 20'000; ++step) {
    const std::uint32_t a = random() % 40;
    const std::uint32_t b = random() % 40;
    if (a == b) continue;
    const auto key = std::minmax(a, b);
    auto* const entry = table.edit(a, b);
    REQUIRE((entry != nullptr) == model.contains(key));
    if (entry != nullptr && random() % 2 == 0) {
      REQUIRE(entry->value == model[key]);
      entry->value = model[key] = step;
    } else if (entry != nullptr) {
      table.erase(b, a);
      model.erase(key);
    } else if (!table.full()) {
      table.insert(a, b, step, step);
      model[key] = step;
    }
    if (step % 500 == 0) {
      REQUIRE(table.view().entries().size() == model.size());
      for (std::uint32_t thing = 0; thing < 40; ++thing) {
        std::set<std::uint32_t> expected;
        for (const auto& [pair, value] : model) {
          if (pair.first == thing) expected.insert(pair.second);
          if (pair.second == thing) expected.insert(pair.first);
        }
        const auto partners = table.view().partners(thing);
        REQUIRE(std::set(partners.begin(), partners.end()) == expected);
        REQUIRE(partners.size() == expected.size());
      }
      table.published();
      heap.published();
    }
  }
}

TEST_CASE("tags whose hashes are all equal are reported and never mixed (COA-1)") {
  Shared<TagCoActivation> store(std::size_t{10},
                                [](std::string_view) noexcept { return std::uint64_t{7}; });
  store.write([](TagCoActivation& table) { fill(table); });
  store.read([](const TagCoActivation::View& view) {
    CHECK(view.co_activation(view.find("b"), view.find("c")) == 2);
    CHECK(view.co_activation(view.find("a"), view.find("c")) == 1);
    CHECK(view.collisions().size() == 4);
    for (const auto& [first, second] : view.collisions()) {
      CHECK(view.name(first) == "a");
      CHECK(view.name(second) != "a");
    }
  });
}

TEST_CASE("a write that fails half way leaves nothing of it, and the next one works") {
  Shared<TagCoActivation> counts(std::size_t{5});
  Shared<CrossCapture> index;
  counts.write([](TagCoActivation& table) { fill(table); });
  index.write([](CrossCapture& store) { store.add(3, Tags{"a", "b"}); });
  const std::string before = everything(counts);
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_AS(counts.write([](TagCoActivation& table) {
      for (int k = 0; k < 50; ++k) {
        const std::string tag = "new " + std::to_string(k);
        table.observe(Tags{tag, "a", "b", "c"});
        table.observe_sequence(Tags{tag}, Tags{"a"}, 5);
      }
      table.forget(Tags{"nobody has this"});
    }),
                    std::invalid_argument);
    CHECK(everything(counts) == before);
    CHECK_THROWS_AS(index.write([](CrossCapture& store) {
      for (std::uint32_t slot = 100; slot < 2000; ++slot) store.add(slot, Tags{"a", "new"});
      for (std::uint32_t slot = 100; slot < 1900; ++slot) store.remove(slot);
      store.add(3, Tags{"c"});
    }),
                    std::invalid_argument);
    index.read([](const CrossCapture::View& view) {
      CHECK(view.n_memories() == 1);
      CHECK(view.n_entries() == 2);
      CHECK(view.slots(view.find("a")) == std::vector<std::uint32_t>{3});
      CHECK(view.find("new") == CrossCapture::kNone);
      CHECK(view.tags(1950).empty());
    });
  }
  counts.write([](TagCoActivation& table) { table.observe(Tags{"new 1", "new 2"}); });
  counts.read([](const TagCoActivation::View& view) {
    CHECK(view.co_activation(view.find("new 1"), view.find("new 2")) == 1);
    CHECK(view.n(view.find("new 3")) == 0);
    CHECK(view.collisions().empty());
  });
  index.write([](CrossCapture& store) {
    for (std::uint32_t slot = 100; slot < 2000; ++slot) store.add(slot, Tags{"a", "new"});
  });
  index.read([](const CrossCapture::View& view) {
    CHECK(view.match_all(Tags{"a", "new"}).size() == 1900);
  });
}

TEST_CASE("COAX: saved and loaded, and every cut and every flipped byte is noticed (PER-4)") {
  const TemporaryFile file;
  Shared<TagCoActivation> store(std::size_t{5});
  store.write([](TagCoActivation& table) { fill(table); });
  store.read([&](const TagCoActivation::View& view) { view.save(file.path()); });
  const Shared<TagCoActivation> loaded(file.path());
  CHECK(everything(loaded) == everything(store));

  const std::string good = file.read();
  for (std::size_t size = 0; size < good.size(); ++size) {
    file.write(good.substr(0, size));
    CHECK_THROWS_AS(Shared<TagCoActivation>(file.path()), Corruption);
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1 << bit);
      file.write(bad);
      CHECK_THROWS_AS(Shared<TagCoActivation>(file.path()), spector::Error);
    }
  }
  file.write(good + "x");
  CHECK_THROWS_AS(Shared<TagCoActivation>(file.path()), Corruption);
}

namespace {

constexpr std::array<std::string_view, 7> kNames{"0", "1", "2", "3", "4", "5", "6"};

// The sections of a COAX file, to be signed again after a change.
struct Crafted {
  std::vector<std::uint64_t> settings{4, 5};
  std::vector<std::uint32_t> ends{1, 2, 4};
  std::string chars{"abcd"};
  std::vector<std::uint64_t> hashes{spector::hash64("a"), spector::hash64("b"),
                                    spector::hash64("cd")};
  std::vector<std::uint32_t> memories{2, 1, 0};
  std::vector<TagCoActivation::Counts::Entry> pairs{{0, 1, 3, 2, 0}, {0, 2, 4, 1, 0}};
  std::vector<TagCoActivation::Edges::Entry> edges{{1, 0, 1, 0.5F, 0}};
  std::uint64_t count = 3;
  std::uint32_t version = 2;

  void write(const std::string& path) const {
    const std::array<std::span<const std::byte>, 7> sections{
        std::as_bytes(std::span(settings)), std::as_bytes(std::span(ends)),
        std::as_bytes(std::span(chars)),    std::as_bytes(std::span(hashes)),
        std::as_bytes(std::span(memories)), std::as_bytes(std::span(pairs)),
        std::as_bytes(std::span(edges))};
    const spector::FileKind kind{{'C', 'O', 'A', 'X'}, version, 8, 24, kNames, ""};
    spector::write_file(path, kind, count, sections);
  }
};

}  // namespace

TEST_CASE("COAX: what the sections say is checked before it is used (PER-4)") {
  const TemporaryFile file;
  Crafted().write(file.path());
  const Shared<TagCoActivation> fine(file.path());
  CHECK(everything(fine) == "4/5 a:2 b:1 a-b:2@3 a-cd:1@4 b-a:0.500000@1");

  using Change = void (*)(Crafted&);
  const std::vector<Change> changes{
      [](Crafted& c) { c.settings.push_back(1); },
      [](Crafted& c) { c.settings[1] = 0; },
      [](Crafted& c) { c.settings[1] = std::uint64_t{1} << 40; },
      [](Crafted& c) { c.settings[1] = 1; },                  // fewer than there are pairs
      [](Crafted& c) { c.settings[0] = 3; },                  // a pair was used later
      [](Crafted& c) { c.settings[0] = ~std::uint64_t{0}; },  // the next would be number 0
      [](Crafted& c) { c.ends = {2, 1, 4}; },
      [](Crafted& c) { c.ends = {1, 2, 5}; },
      [](Crafted& c) { c.ends = {1, 1, 4}; },
      [](Crafted& c) { c.ends.push_back(4); },
      [](Crafted& c) { c.count = 4; },
      [](Crafted& c) { c.chars = "bacd"; },
      [](Crafted& c) { c.chars = "ab\xc3x"; },
      [](Crafted& c) { c.hashes[1] += 1; },
      [](Crafted& c) { c.hashes.pop_back(); },
      [](Crafted& c) { c.memories.pop_back(); },
      [](Crafted& c) { c.pairs[1].second = 3; },
      [](Crafted& c) { c.pairs[1].first = 0xffffffff; },
      [](Crafted& c) { c.pairs[0] = {1, 0, 3, 2, 0}; },
      [](Crafted& c) { c.pairs[1] = c.pairs[0]; },
      [](Crafted& c) { std::swap(c.pairs[0], c.pairs[1]); },
      [](Crafted& c) { c.pairs[0].second = 0; },
      [](Crafted& c) { c.pairs[0].value = 0; },
      [](Crafted& c) { c.pairs[0].last_use = 0; },
      [](Crafted& c) { c.pairs[0].reserved = 1; },
      [](Crafted& c) { c.edges[0].second = 1; },
      [](Crafted& c) { c.edges[0].first = 9; },
      [](Crafted& c) { c.edges[0].value = 0; },
      [](Crafted& c) { c.edges[0].value = -0.5F; },
      [](Crafted& c) { c.edges[0].value = 1.5F; },
      [](Crafted& c) { c.edges[0].value = __builtin_nanf(""); },
      [](Crafted& c) { c.edges[0].last_use = 5; },
      [](Crafted& c) { c.version = 1; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    Crafted crafted;
    changes[i](crafted);
    crafted.write(file.path());
    CHECK_THROWS_AS(Shared<TagCoActivation>(file.path()), Corruption);
  }
  Crafted newer;
  newer.version = 3;
  newer.write(file.path());
  CHECK_THROWS_AS(Shared<TagCoActivation>(file.path()), spector::Version);
}

TEST_CASE("tags: 4 readers beside a writer see each memory entirely or not at all") {
  constexpr std::uint32_t kSlots = 800;  // enough for lists in chunks
  constexpr int kOperations = 20'000;
  Shared<TagCoActivation> counts(std::size_t{40});
  Shared<CrossCapture> index;
  std::atomic<bool> stop{false};
  std::atomic<int> faults{0};
  std::atomic<std::uint64_t> looks{0};

  // Every memory has x and y, and a tag of its own kind.
  const auto look = [&](unsigned seed) {
    Random random(seed);
    while (!stop.load(std::memory_order_relaxed)) {
      const bool whole = index.read([&](const CrossCapture::View& view) {
        const std::uint32_t x = view.find("x");
        const std::uint32_t y = view.find("y");
        if (view.n(x) != view.n(y) || view.slots(x) != view.slots(y)) return false;
        const std::vector<std::uint32_t> all = view.match_all(Tags{"x", "y"});
        if (all.size() != view.n_memories() || view.n_entries() != 3 * all.size()) return false;
        const std::uint32_t slot = random() % kSlots;
        const auto tags = view.tags(slot);
        return tags.size() == (std::binary_search(all.begin(), all.end(), slot) ? 3 : 0);
      });
      const bool symmetric = counts.read([&](const TagCoActivation::View& view) {
        const std::uint32_t x = view.find("x");
        const std::uint32_t y = view.find("y");
        for (const auto& [tag, count] : view.associated(x, 100)) {
          if (view.co_activation(tag, x) != count || count > view.n(x)) return false;
        }
        for (const auto& [tag, weight] : view.predict(x, 100)) {
          if (view.weight(x, tag) != weight || !(weight > 0 && weight <= 1)) return false;
        }
        return view.n(x) == view.n(y);
      });
      const bool reachable = counts.read([&](const TagCoActivation::View& tags) {
        return index.read([&](const CrossCapture::View& view) {
          const auto found = view.expand(Tags{"x"}, 1, tags, {}, std::nullopt);
          return std::is_sorted(found.scores.rbegin(), found.scores.rend());
        });
      });
      if (!whole || !symmetric || !reachable) faults.fetch_add(1);
      looks.fetch_add(1, std::memory_order_relaxed);
    }
  };
  std::vector<std::thread> readers;
  for (unsigned seed = 0; seed < 4; ++seed) readers.emplace_back(look, seed);

  Random random(9);
  std::map<std::uint32_t, std::string> held;
  for (int i = 0; i < kOperations || looks.load(std::memory_order_relaxed) < 8; ++i) {
    const std::uint32_t slot = random() % kSlots;
    const std::string kind = "kind " + std::to_string(random() % 60);
    const Tags after{"x", "y", kind};
    const auto at = held.find(slot);
    if (at == held.end()) {
      index.write([&](CrossCapture& store) { store.add(slot, after); });
      counts.write([&](TagCoActivation& table) { table.observe(after); });
      held[slot] = kind;
    } else if (random() % 4 == 0) {
      const Tags before{"x", "y", at->second};
      index.write([&](CrossCapture& store) { store.remove(slot); });
      counts.write([&](TagCoActivation& table) { table.forget(before); });
      held.erase(at);
    } else {
      const Tags before{"x", "y", at->second};
      index.write([&](CrossCapture& store) { store.update(slot, after); });
      counts.write([&](TagCoActivation& table) { table.update(before, after); });
      at->second = kind;
    }
    if (i % 4 == 0) {
      counts.write(
          [&](TagCoActivation& table) { table.observe_sequence(Tags{"x", kind}, Tags{"y"}, 100); });
    }
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  CHECK(faults.load() == 0);
  index.read([&](const CrossCapture::View& view) { CHECK(view.n_memories() == held.size()); });
}
