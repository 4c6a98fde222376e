#include "graph/entity_directory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <latch>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "altered_file.hpp"
#include "base/error.hpp"
#include "base/shared.hpp"
#include "graph/folded_name.hpp"
#include "graph/similar_names.hpp"
#include "graph/traverse.hpp"
#include "lexical/unicode.hpp"
#include "random.hpp"

using namespace spector;

namespace {

using Directory = Shared<EntityDirectory>;
using View = EntityDirectory::View;
constexpr std::uint32_t kNone = EntityDirectory::kNone;

std::string folded(std::string_view name) { return std::string(FoldedName(name).view()); }

// Everything that can be read of a state, in a form that can be compared.
std::string described(const View& view) {
  std::string out;
  const auto put = [&](auto value) { out += std::to_string(value) + ' '; };
  put(view.size());
  put(view.n_links());
  put(view.n_relations());
  put(view.cycle());
  put(view.max_relations());
  for (std::uint32_t entity = 0; entity < view.size(); ++entity) {
    out += '\n';
    out += view.name(entity);
    out += '|';
    out += view.folded_name(entity);
    out += '|';
    put(view.find(view.name(entity)));
    put(view.resolve(entity));
    put(view.type(entity));
    put(view.node(entity).merged_into);
    for (const auto& link : view.links(entity)) {
      put(link.memory);
      put(link.weight);
    }
    for (const auto& relation : view.relations(entity)) {
      put(relation.target);
      put(relation.type);
      put(relation.weight);
      put(relation.last_cycle);
      put(relation.bridge);
      put(relation.flags);
    }
    for (const auto& relation : view.relations_to(entity)) put(relation.target);
  }
  for (std::uint32_t memory = 0; memory < view.n_memories(); ++memory) {
    out += '\n';
    for (const std::uint32_t entity : view.entities_of(memory)) put(entity);
  }
  return out;
}
std::string described(const Directory& directory) {
  return directory.read([](const View& view) { return described(view); });
}

void save(const Directory& directory, const std::string& path) {
  directory.read([](const View& view) { return view.contents(false); }).save(path);
}
std::unique_ptr<Directory> loaded(const std::string& path) {
  auto directory = std::make_unique<Directory>(48U);
  directory->write([&](EntityDirectory& store) { store.load(path); });
  return directory;
}

// The contents of tests/data/entities-2.graph, which cpp/FORMATS.md describes.
std::unique_ptr<Directory> sample() {
  auto directory = std::make_unique<Directory>(3U);
  directory->write([](EntityDirectory& store) {
    store.intern("Kafka", 11);
    store.intern("Project  Alpha", 4);
    store.intern("Zo\xc3\xab", 0);
    store.intern("cranel", EntityDirectory::kOther);
    store.intern("Cranelr", 5);
    store.intern("lonely", 5);
    for (std::uint32_t memory = 0; memory < 9; ++memory) store.link(0, memory, memory == 3);
    store.link(1, 3, true);
    store.link(4, 3, false);
    store.link(4, 4, false);
    store.link(0, 4, false);
    store.add_relation(0, 1, 12);
    store.add_relation(2, 1, 0);
    store.add_relation(2, 3, 2);
    store.decay_relations(0.95F, 0.2F);
  });
  const auto pairs = directory->read(similar_entities);
  directory->write([&](EntityDirectory& store) { store.merge(pairs); });
  return directory;
}

// Which error, if any, comes of loading; and that the directory then is what it was.
template <class E>
bool refused(const TemporaryFile& file, const std::string& bytes) {
  file.write(bytes);
  Directory directory(7U);
  directory.write([](EntityDirectory& store) { store.link(store.intern("kept", 1), 2, false); });
  const std::string before = described(directory);
  bool thrown = false;
  try {
    directory.write([&](EntityDirectory& store) { store.load(file.path()); });
  } catch (const E&) {
    thrown = true;
  }
  return thrown && described(directory) == before;
}

unsigned plain_distance(const std::u32string& a, const std::u32string& b) {
  std::vector<unsigned> row(b.size() + 1);
  for (unsigned j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    unsigned diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const unsigned above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::vector<std::u32string> numbers_in(const std::u32string& name) {
  std::vector<std::u32string> runs;
  bool within = false;
  for (const char32_t c : name) {
    const bool digit = char_properties(c).char_class == CharClass::Digit;
    if (digit && !within) runs.emplace_back();
    if (digit) runs.back().push_back(c);
    within = digit;
  }
  return runs;
}

std::vector<SimilarNames> plain_similar(const std::vector<std::u32string>& names) {
  std::vector<SimilarNames> found;
  for (std::uint32_t a = 0; a < names.size(); ++a) {
    for (std::uint32_t b = a + 1; b < names.size(); ++b) {
      const std::size_t shorter = std::min(names[a].size(), names[b].size());
      if (shorter < 5 || numbers_in(names[a]) != numbers_in(names[b])) continue;
      const unsigned distance = plain_distance(names[a], names[b]);
      if (distance <= (shorter < 10 ? 1U : 2U)) found.push_back({a, b, distance});
    }
  }
  std::sort(found.begin(), found.end(), [](const SimilarNames& x, const SimilarNames& y) {
    return std::tuple(x.distance, x.a, x.b) < std::tuple(y.distance, y.a, y.b);
  });
  return found;
}

}  // namespace

TEST_CASE("GEN-6, F-068: names that are written differently fold to one form") {
  CHECK(folded("  Project\t ALPHA \n") == "project alpha");
  CHECK(folded("Delivery") == "delivery");
  CHECK(folded("Node.js") == folded("node.JS"));
  CHECK(folded("\xef\xbc\xa1\xef\xbc\xb0\xef\xbc\xa9") == "api");  // full width
  CHECK(folded("Zo\xc3\xab") == folded("ZOE\xcc\x88"));            // composed, decomposed
  CHECK(folded("Stra\xc3\x9f"
               "e") == "strasse");  // full casefold
  CHECK(folded("a\xc2\xa0\xe3\x80\x80"
               "b") == "a b");                                     // wide white space
  CHECK(folded("\xc4\xb0stanbul") == folded("i\xcc\x87stanbul"));  // no locale
  CHECK(folded("5_business_days") != folded("5 business days"));   // underscores stay
  CHECK(folded(" \t\xe3\x80\x80\xc2\x85").empty());
  CHECK(folded("").empty());
  CHECK(folded("\xff") == "\xef\xbf\xbd");
}

TEST_CASE("GEN-6: folding is done once, and the short way gives what the long one does") {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string name = "x";
    append_utf8(name, code);
    name += "Y\xcc\x81";
    const std::string once = folded(name);
    REQUIRE(folded(once) == once);
  }
  Random random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string name;
    const std::size_t n = random() % 140;
    for (std::size_t i = 0; i < n; ++i) {
      name.push_back(static_cast<char>(random() % 4 == 0 ? random() % 33 : random() % 128));
    }
    // Long enough for the general way.
    const std::string tail(130, 'Q');
    const std::string whole = folded(name + tail);
    const std::string part = folded(name + "Q");
    REQUIRE(whole.substr(0, whole.size() - 129) == part);
  }
}

TEST_CASE("ENT-9: the neighbourhoods find exactly the similar pairs") {
  Random random(2);
  for (int round = 0; round < 60; ++round) {
    // Few letters and edits of one another, so that many pairs are near the limits.
    std::vector<std::u32string> names;
    const std::size_t longest = round % 3 == 0 ? 12 : round % 3 == 1 ? 46 : 120;
    const std::u32string letters = round % 2 == 0 ? U"ab1 " : U"abcdefgh12\u00e9\u0663";
    while (names.size() < 120) {
      std::u32string name;
      if (!names.empty() && random() % 4 != 0) {
        name = names[random() % names.size()];
        for (std::uint32_t edits = 1 + random() % 3; edits > 0; --edits) {
          const std::size_t at = random() % (name.size() + 1);
          const char32_t letter = letters[random() % letters.size()];
          const std::uint32_t kind = random() % 3;
          if (kind == 0 || at == name.size()) {
            name.insert(name.begin() + static_cast<std::ptrdiff_t>(at), letter);
          } else if (kind == 1 && name.size() > 1) {
            name.erase(at, 1);
          } else {
            name[at] = letter;
          }
        }
      } else {
        const std::size_t n = 1 + random() % longest;
        while (name.size() < n) name.push_back(letters[random() % letters.size()]);
      }
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    const auto found = similar_names(names);
    const auto expected = plain_similar(names);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      REQUIRE(found[i].a == expected[i].a);
      REQUIRE(found[i].b == expected[i].b);
      REQUIRE(found[i].distance == expected[i].distance);
    }
  }
}

TEST_CASE("ENT-4: past the last memory and without an entity nothing is linked") {
  Directory directory(48U);
  directory.write([](EntityDirectory& store) { store.intern("a", 1); });
  const auto link = [&](std::uint32_t entity, std::uint32_t memory) {
    directory.write([&](EntityDirectory& store) { store.link(entity, memory, false); });
  };
  const std::string before = described(directory);
  CHECK_THROWS_AS(link(0, kNone), std::invalid_argument);
  CHECK_THROWS_AS(link(1, 0), std::out_of_range);
  CHECK(described(directory) == before);
  link(0, kNone - 1);
  CHECK(directory.read([](const View& view) { return view.entities_of(kNone - 1).size(); }) == 1);
}

TEST_CASE("a change that fails half-way leaves nothing, names included") {
  Directory directory(48U);
  directory.write([](EntityDirectory& store) { store.link(store.intern("Anna", 0), 1, false); });
  const std::string before = described(directory);
  CHECK_THROWS_AS(directory.write([](EntityDirectory& store) {
    store.link(store.intern("Bert", 0), 2, true);
    store.link(0, 2, true);
    store.add_relation(0, 1, 3);
    store.decay_links(0.5F, 0.2F);
    store.intern(" ", 0);
  }),
                  std::invalid_argument);
  CHECK(described(directory) == before);
  CHECK(directory.read([](const View& view) { return view.find("bert"); }) == kNone);
  directory.write([](EntityDirectory& store) { CHECK(store.intern("BERT", 0) == 1); });
  CHECK(directory.read([](const View& view) { return std::string(view.name(1)); }) == "BERT");
}

TEST_CASE("EEE-3, HEB-8: a floored relation goes when it was not strengthened for 365 cycles") {
  Directory directory(48U);
  directory.write([](EntityDirectory& store) {
    store.intern("a", 0);
    store.intern("b", 0);
    store.add_relation(0, 1, 0);
  });
  std::size_t cycles = 0;
  bool floored = false;
  while (directory.read([](const View& view) { return view.n_relations(); }) == 1) {
    REQUIRE(cycles < 400);
    ++cycles;
    directory.write([](EntityDirectory& store) { store.decay_relations(0.95F, 0.2F); });
    directory.read([&](const View& view) {
      for (const auto& relation : view.relations(0)) {
        const bool held = (relation.flags & EntityDirectory::kFloored) != 0;
        CHECK(held == (cycles >= 32));
        if (held) CHECK(relation.weight == 0.2F);
        floored |= held;
      }
    });
  }
  CHECK(floored);
  CHECK(cycles == 365);
}

TEST_CASE("ENT-10: levels are complete where an entity is first met at the last hop") {
  // a - b - c and a - c - d: from a, c is met at hop 1 although b comes first.
  Directory directory(48U);
  directory.write([](EntityDirectory& store) {
    for (const char* name : {"a", "b", "c", "d"}) store.intern(name, 0);
    store.add_relation(0, 1, 0);
    store.add_relation(1, 2, 0);
    store.add_relation(2, 0, 0);
    store.add_relation(3, 2, 5);
    for (std::uint32_t i = 0; i < 4; ++i) store.link(i, 10 + i, false);
  });
  directory.read([](const View& view) {
    const std::vector<std::uint32_t> start{0};
    const Reach reach = traverse(view, nullptr, start, std::nullopt, 2);
    CHECK(reach.entities == std::vector<std::uint32_t>{0, 1, 2, 3});
    CHECK(reach.hops == std::vector<std::uint32_t>{0, 1, 1, 2});
    CHECK(collect_memories(view, nullptr, start, std::nullopt, 2) ==
          std::vector<std::uint32_t>{10, 11, 12, 13});
    const std::vector<std::uint32_t> types{0, 100};
    CHECK(collect_memories(view, nullptr, start, TypeFilter(types), 2) ==
          std::vector<std::uint32_t>{10, 11, 12});
    CHECK_THROWS_AS(
        static_cast<void>(traverse(view, nullptr, std::vector<std::uint32_t>{4}, std::nullopt, 2)),
        std::out_of_range);
  });
}

TEST_CASE("EDIR: a saved directory comes back whole, and goes on as the first") {
  const auto directory = sample();
  const TemporaryFile file;
  save(*directory, file.path());
  const auto again = loaded(file.path());
  CHECK(described(*again) == described(*directory));
  for (Directory* each : {directory.get(), again.get()}) {
    each->write([](EntityDirectory& store) {
      store.intern("new", 3);
      store.link(0, 20, false);
      store.add_relation(5, 0, 1);
      store.unmerge(3);
      store.decay_links(0.5F, 0.6F);
      store.compact_links();
    });
  }
  CHECK(described(*again) == described(*directory));
}

TEST_CASE("EDIR: the file of version 2 stays readable, and is what is written") {
  const std::string golden = std::string(SPECTOR_TEST_DATA) + "/entities-2.graph";
  const auto directory = sample();
  const TemporaryFile file;
  save(*directory, file.path());
  std::ifstream stream(golden, std::ios::binary);
  std::string expected{std::istreambuf_iterator<char>(stream), {}};
  std::string written = file.read();
  REQUIRE(written.size() == expected.size());
  for (std::string* bytes : {&expected, &written}) {
    set_field<std::uint64_t>(*bytes, 40, 0);  // times
    set_field<std::uint64_t>(*bytes, 48, 0);
    set_field<std::uint32_t>(*bytes, 60, 0);
  }
  CHECK(written == expected);
  CHECK(described(*loaded(golden)) == described(*directory));
}

TEST_CASE("EDIR, PER-4: cut at every length and flipped in every byte") {
  const TemporaryFile file;
  save(*sample(), file.path());
  const std::string bytes = file.read();
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    REQUIRE(refused<Corruption>(file, bytes.substr(0, n)));
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    REQUIRE(refused<Error>(file, bad));
  }
  std::string newer = bytes;
  set_field<std::uint32_t>(newer, 4, 3);
  sign(newer);
  CHECK(refused<Version>(file, newer));
}

TEST_CASE("EDIR, PER-4: signed files that cannot be are refused") {
  const TemporaryFile file;
  save(*sample(), file.path());
  const std::string bytes = file.read();
  const auto bad = [&](std::size_t section, std::size_t offset, auto value) {
    std::string altered = bytes;
    set_field(altered, section_offset(altered, section) + offset, value);
    sign(altered);
    return refused<Corruption>(file, altered);
  };
  std::string same = bytes;
  sign(same);
  CHECK(same == bytes);
  CHECK(bad(0, 4, std::uint32_t{0}));  // most relations
  CHECK(bad(0, 4, std::uint32_t{257}));
  CHECK(bad(1, 4, std::uint32_t{1}));  // pads
  CHECK(bad(1, 32, std::uint32_t{1}));
  CHECK(bad(1, 60, std::uint32_t{1}));
  CHECK(bad(1, 8, std::uint64_t{1}));   // hash of the name
  CHECK(bad(1, 16, std::int32_t{-1}));  // block
  CHECK(bad(1, 16, std::int32_t{-2}));
  CHECK(bad(1, 16, std::int32_t{1 << 30}));
  CHECK(bad(1, 16, std::int32_t{17}));
  CHECK(bad(1, 20, std::uint32_t{17}));
  CHECK(bad(1, 24, std::uint32_t{0xffffffff}));
  CHECK(bad(1, 24, std::uint32_t{32}));          // overlaps the next
  CHECK(bad(1, 28, std::uint32_t{1}));           // merged into itself
  CHECK(bad(1, 28, std::uint32_t{2}));           // merged, with links
  CHECK(bad(1, 5 * 64 + 28, std::uint32_t{7}));  // into nothing
  CHECK(bad(1, 5 * 64 + 28, std::uint32_t{6}));
  CHECK(bad(1, 36, std::uint32_t{4}));  // relations
  CHECK(bad(1, 40, std::uint32_t{1}));
  const auto first =
      static_cast<std::size_t>(field<std::int32_t>(bytes, section_offset(bytes, 1) + 16));
  CHECK(bad(2, first * 8, kNone));             // memory
  CHECK(bad(2, first * 8, std::uint32_t{1}));  // twice
  CHECK(bad(2, first * 8 + 4, 0.0F));
  CHECK(bad(2, first * 8 + 4, 3.5F));
  CHECK(bad(2, first * 8 + 4, std::numeric_limits<float>::quiet_NaN()));
  CHECK(bad(3, 0, std::uint32_t{0}));  // to itself
  CHECK(bad(3, 0, std::uint32_t{9}));  // to nothing
  CHECK(bad(3, 0, std::uint32_t{3}));  // to a merged one
  CHECK(bad(3, 8, -1.0F));
  CHECK(bad(4, 0, std::uint32_t{0xffffffff}));  // names
  CHECK(bad(4, 5 * 4, std::uint32_t{0}));
  CHECK(bad(5, 0, 'K'));
  CHECK(bad(5, 0, '\xff'));
  CHECK(bad(7, 0, 'x'));
  // A memory far away is possible, and takes no memory for those before it.
  std::string far = bytes;
  set_field(far, section_offset(far, 2) + first * 8, kNone - 1);
  sign(far);
  file.write(far);
  CHECK(loaded(file.path())->read([](const View& view) {
    return view.entities_of(kNone - 1).size();
  }) == 1);
}

TEST_CASE("ENT-5, EEE-1: memories are linked fully or not at all beside a writer") {
  // Memory m is linked to the entities m % 50, 50 + m % 50 and 100 + m % 50 or to none, a relation
  // is seen from both ends or from none, and names are found once they are there.
  constexpr std::uint32_t kMemories = 400;
  constexpr std::uint32_t kOperations = 20000;
  Directory directory(48U);
  directory.write([](EntityDirectory& store) {
    for (std::uint32_t i = 0; i < 150; ++i) store.intern("Entity-" + std::to_string(i), 0);
  });
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> failures{0};
  std::latch begun(5);
  const auto check = [&](Random& random) {
    const std::uint32_t memory = random() % kMemories;
    const std::uint32_t base = memory % 50;
    return directory.read([&](const View& view) {
      const auto entities = view.entities_of(memory);
      bool right =
          entities.empty() ||
          std::ranges::equal(entities, std::vector<std::uint32_t>{base, base + 50, base + 100});
      for (std::uint32_t entity = base; entity < 150; entity += 50) {
        const auto links = view.links(entity);
        right &= links.size() == view.n_links(entity);
        const auto n = std::count_if(links.begin(), links.end(),
                                     [&](const auto& link) { return link.memory == memory; });
        right &= n == (entities.empty() ? 0 : 1);
      }
      // Both directions of a relation, or none.
      const auto out = view.relations(base);
      const bool related = std::any_of(out.begin(), out.end(), [&](const auto& relation) {
        return relation.target == base + 100;
      });
      const auto in = view.incoming(base + 100);
      right &= related == std::any_of(in.begin(), in.end(),
                                      [&](const auto& from) { return from.source == base; });
      const std::vector<std::uint32_t> start{base};
      const Reach reach = traverse(view, nullptr, start, std::nullopt, 1);
      std::vector<std::uint32_t> near{base};
      for (const auto& relation : out) near.push_back(relation.target);
      for (const auto& relation : view.relations_to(base)) near.push_back(relation.target);
      std::sort(near.begin(), near.end());
      near.erase(std::unique(near.begin(), near.end()), near.end());
      right &= reach.entities.size() == near.size();
      const auto memories = collect_memories(view, nullptr, start, std::nullopt, 0);
      right &= memories.size() == view.n_links(base);
      const std::uint32_t last = view.size() - 1;
      right &= view.find(view.name(last)) == view.resolve(last);
      return right;
    });
  };
  std::vector<std::thread> readers;
  for (unsigned i = 0; i < 4; ++i) {
    readers.emplace_back([&, i] {
      Random random(i);
      begun.arrive_and_wait();
      for (bool last = false; !last;) {
        last = done.load();
        failures += check(random) ? 0 : 1;
      }
    });
  }
  begun.arrive_and_wait();
  Random random(77);
  for (std::uint32_t i = 0; i < kOperations; ++i) {
    const std::uint32_t memory = random() % kMemories;
    const std::uint32_t base = memory % 50;
    directory.write([&](EntityDirectory& store) {
      switch (random() % 16) {
        case 0:
          store.intern("Other " + std::to_string(i), 3);
          break;
        case 1:
          // A triangle, so that a decay may remove any of them.
          store.add_relation(base, base + 100, 2);
          store.add_relation(base, base + 50, 2);
          store.add_relation(base + 50, base + 100, 2);
          break;
        case 2:
          store.decay_relations(0.5F, 0.9F);
          break;
        case 3:
          store.compact_links();
          break;
        case 4:
        case 5:
        case 6: {
          const std::vector<std::uint32_t> gone{memory};
          store.remove_memories(gone);
          break;
        }
        default:
          for (std::uint32_t entity = base; entity < 150; entity += 50) {
            store.link(entity, memory, false);
          }
      }
    });
  }
  done.store(true);
  for (std::thread& reader : readers) reader.join();
  CHECK(failures.load() == 0);
}
