#include "graph/name_matcher.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/shared.hpp"
#include "random.hpp"

using namespace spector;

namespace {

struct Matcher {
  Shared<NameMatcher> shared;

  bool add(std::string_view name, std::uint32_t number) {
    return shared.write([&](NameMatcher& store) { return store.add(name, number); });
  }
  [[nodiscard]] std::vector<NameMatcher::Match> find(std::string_view text) const {
    return shared.read([&](const NameMatcher::View& view) { return view.find(text); });
  }
  [[nodiscard]] std::size_t size() const {
    return shared.read([](const NameMatcher::View& view) { return view.size(); });
  }
  [[nodiscard]] std::size_t memory_bytes() const {
    return shared.read([](const NameMatcher::View& view) { return view.memory_bytes(); });
  }
};

std::vector<std::string> names_in(const Matcher& matcher, std::string_view text) {
  std::vector<std::string> names;
  for (const NameMatcher::Match& match : matcher.find(text)) names.push_back(match.name);
  return names;
}

}  // namespace

TEST_CASE("AM-10: the longest name at a place is found, and where it stands") {
  Matcher matcher;
  CHECK(matcher.find("New York").empty());
  CHECK(matcher.add("New York", 7));
  CHECK(matcher.add("new  york", 8));
  CHECK(matcher.add("New York City", 9));
  CHECK(matcher.add("York", 7));
  CHECK_FALSE(matcher.add(" - ", 1));
  CHECK(matcher.size() == 3);
  const auto found = matcher.find("In New-York and New York City, York");
  REQUIRE(found.size() == 3);
  CHECK(found[0].name == "new york");
  CHECK(found[0].numbers == std::vector<std::uint32_t>{7, 8});
  CHECK(found[0].begin == 3);
  CHECK(found[0].end == 11);
  CHECK(found[1].name == "new york city");
  CHECK(found[2].name == "york");
}

TEST_CASE("AM-10: a name with a capital is not found at a word without one, unless none has any") {
  Matcher matcher;
  matcher.add("Comedy!", 1);
  CHECK(names_in(matcher, "She saw a comedy") == std::vector<std::string>{});
  CHECK(names_in(matcher, "she saw a comedy") == std::vector<std::string>{"comedy"});
  matcher.add("comedy", 2);
  CHECK(names_in(matcher, "She saw a comedy") == std::vector<std::string>{"comedy"});
}

TEST_CASE("Names beyond ASCII are found by their NFKC form, and places count characters") {
  Matcher matcher;
  matcher.add("Stra\u00dfe", 1);
  matcher.add("\u4eac\u90fd", 2);
  const auto found = matcher.find("e\u0301 STRASSE \u4eac\u90fd");
  REQUIRE(found.size() == 2);
  CHECK(found[0].name == "strasse");
  CHECK(found[0].begin == 2);  // the accent has joined its letter
  CHECK(found[0].end == 9);
  CHECK(found[1].begin == 10);
  CHECK(matcher.find("\xff\xfe broken \xc3").empty());
}

TEST_CASE("Names are found beside a writer, each whole or not at all") {
  Matcher matcher;
  constexpr std::uint32_t kNames = 20'000;
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      std::size_t before = 0;
      while (!done) {
        const auto found = matcher.find("x n17 n18 y n19999 z");
        if (found.size() < before) ++wrong;  // none goes again
        before = found.size();
        for (const NameMatcher::Match& match : found) {
          if (match.name != "n" + std::to_string(match.numbers.at(0))) ++wrong;
        }
      }
    });
  }
  for (std::uint32_t i = 0; i < kNames; ++i) matcher.add("n" + std::to_string(i), i);
  done = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
  CHECK(matcher.size() == kNames);
  CHECK(names_in(matcher, "x n17 n18 y n19999 z").size() == 3);
  CHECK(matcher.memory_bytes() > 0);
}
