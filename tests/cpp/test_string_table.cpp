#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/epoch.hpp"
#include "base/string_table.hpp"
#include "base/u32_map.hpp"
#include "random.hpp"

using spector::EpochDomain;
using spector::StringTable;
using spector::U32Map;

TEST_CASE("strings are numbered in order of arrival and found again") {
  StringTable table;
  CHECK(table.find("a") == StringTable::kNone);
  CHECK(table.intern("a") == 0);
  CHECK(table.intern("") == 1);
  CHECK(table.intern(std::string("x\0y", 3)) == 2);
  CHECK(table.intern("x") == 3);
  CHECK(table.intern("a") == 0);
  CHECK(table[2] == std::string("x\0y", 3));
  CHECK(table[1].empty());
  CHECK(table.find("x") == 3);
  CHECK(table.size() == 4);
}

TEST_CASE("a table agrees with a plain map over many strings") {
  StringTable table;
  std::unordered_map<std::string, std::uint32_t> model;
  Random random(7);
  for (int i = 0; i < 50000; ++i) {
    // Lengths around the 8-byte steps of the hash, few enough letters that strings repeat.
    std::string key(random() % 19, 'a');
    for (char& c : key) c = static_cast<char>('a' + random() % 3);
    const auto [at, added] = model.try_emplace(key, static_cast<std::uint32_t>(model.size()));
    REQUIRE(table.intern(key) == at->second);
  }
  REQUIRE(table.size() == model.size());
  for (const auto& [key, number] : model) {
    REQUIRE(table.find(key) == number);
    REQUIRE(table[number] == key);
  }
  CHECK(table.find("zz") == StringTable::kNone);
}

TEST_CASE("finding all strings of another table is finding each") {
  Random random(19);
  for (const std::uint32_t n : {0U, 1U, 31U, 32U, 33U, 5000U}) {
    StringTable table;
    StringTable keys;
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::string key = std::to_string(random() % (2 * n)) + std::string(random() % 300, 'x');
      keys.intern(key);
      if (random() % 2 == 0) table.intern(key);
    }
    std::vector<std::uint32_t> numbers(keys.size());
    table.find_all(keys, numbers);
    for (std::uint32_t i = 0; i < keys.size(); ++i) REQUIRE(numbers[i] == table.find(keys[i]));
  }
}

TEST_CASE("a u32 map agrees with a plain map, also for keys at the ends") {
  U32Map map;
  std::unordered_map<std::uint32_t, std::uint32_t> model;
  Random random(11);
  for (std::uint32_t i = 0; i < 20000; ++i) {
    std::uint32_t key = random() % 5000;
    if (i % 3 == 0) key = 0xffffffffU - key;
    const auto [at, added] = model.try_emplace(key, i);
    REQUIRE(map.insert(key, i) == at->second);
  }
  CHECK(map.size() == model.size());
  for (const auto& [key, value] : model) REQUIRE(map.find(key) == value);
  CHECK(map.find(5001) == U32Map::kNone);
  std::size_t visited = 0;
  map.for_each([&](std::uint32_t key, std::uint32_t value) {
    ++visited;
    REQUIRE(model.at(key) == value);
  });
  CHECK(visited == model.size());
}

TEST_CASE("strings never move, of whatever length") {
  StringTable table;
  std::vector<std::string> keys;
  std::vector<std::string_view> views;
  Random random(3);
  // Lengths around the ends of the stored forms and of a chunk.
  const std::vector<std::size_t> lengths{0,   1,    253,  254,   255,    256,
                                         300, 1023, 1024, 70000, 262143, 262144};
  for (std::size_t i = 0; i < 3000; ++i) {
    const std::size_t length = i < lengths.size() ? lengths[i] : random() % 300;
    keys.push_back(std::to_string(i));
    keys.back().resize(std::max(length, keys.back().size()), static_cast<char>('a' + i % 26));
    if (i == 0) keys.back().clear();
    REQUIRE(table.intern(keys.back()) == i);
    views.push_back(table[static_cast<std::uint32_t>(i)]);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    REQUIRE(views[i] == keys[i]);
    REQUIRE(table.find(keys[i]) == i);
    REQUIRE(table[static_cast<std::uint32_t>(i)].data() == views[i].data());
  }
  // A table takes its own strings, also when it grows for them.
  CHECK(table.intern(views[5]) == 5);
  CHECK(table.intern(views[5].substr(1)) == 3000);
  CHECK(table[3000] == keys[5].substr(1));

  StringTable moved(std::move(table));
  CHECK(moved.find(keys[7]) == 7);
  CHECK(moved[8].data() == views[8].data());
  StringTable assigned;
  assigned.intern("gone");
  assigned = std::move(moved);
  CHECK(assigned.find("gone") == StringTable::kNone);
  CHECK(assigned.size() == 3001);
}

TEST_CASE("a table in a domain keeps what a pin may see") {
  EpochDomain domain;
  StringTable table(domain);
  U32Map map(domain);
  {
    const EpochDomain::Pin pin = domain.pin();
    for (std::uint32_t i = 0; i < 1000; ++i) {
      table.intern(std::to_string(i));
      map.insert(i, i);
    }
    domain.collect();
    CHECK(domain.retired_count() == 10);  // 64 buckets doubled five times, twice
    CHECK(domain.retired_bytes() > 0);
  }
  domain.collect();
  CHECK(domain.retired_count() == 0);
  CHECK(table.find("999") == 999);
  CHECK(map.find(999) == 999);
}

TEST_CASE("small tables stay small") {
  StringTable table;
  CHECK(table.memory_bytes() == 0);
  table.intern("a");
  CHECK(table.memory_bytes() < 4096);
}
