#include <doctest/doctest.h>

#include <string>
#include <unordered_map>

#include "base/string_table.hpp"
#include "base/u32_map.hpp"
#include "random.hpp"

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
