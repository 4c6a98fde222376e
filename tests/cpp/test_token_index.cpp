#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "lexical/token_index.hpp"
#include "random.hpp"

using namespace spector;  // NOLINT(google-build-using-namespace)

namespace {

using Slots = std::vector<std::uint32_t>;

void put(TokenIndex& index, const Slots& slots, const std::vector<Slots>& documents) {
  std::vector<std::int64_t> ends{0};
  Slots tokens;
  for (const Slots& document : documents) {
    tokens.insert(tokens.end(), document.begin(), document.end());
    ends.push_back(static_cast<std::int64_t>(tokens.size()));
  }
  index.put(slots, {ends, tokens});
}

bool equal(const std::vector<Hit>& a, const std::vector<Hit>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].slot != b[i].slot || a[i].score != b[i].score) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("token ids are terms, whatever their size") {
  TokenIndex index(1.2, 0.75);
  put(index, {0, 1, 2}, {{7, 4294967295U}, {7, 7}, {0}});
  CHECK(index.search(Slots{4294967295U}, 5).size() == 1);
  CHECK(index.search(Slots{7}, 5).front().slot == 1);
  CHECK(index.search(Slots{0, 9}, 5).front().slot == 2);
  index.compact();
  CHECK(index.search(Slots{7}, 5).size() == 2);
  CHECK(index.contains(1));
  CHECK(index.erase(Slots{1, 5}) == 1);
  CHECK_FALSE(index.contains(1));
  CHECK(index.size() == 2);
}

TEST_CASE("many queries at once are the single ones") {
  TokenIndex index(1.2, 0.75);
  Random random(3);
  for (std::uint32_t slot = 0; slot < 500; ++slot) {
    put(index, {slot}, {{random() % 30, random() % 30, random() % 30}});
  }
  std::vector<std::int64_t> ends{0};
  Slots tokens;
  for (int i = 0; i < 40; ++i) {
    for (unsigned j = 0; j < random() % 5; ++j) tokens.push_back(random() % 32);
    ends.push_back(static_cast<std::int64_t>(tokens.size()));
  }
  const TokenLists queries{ends, tokens};
  for (const std::size_t threads : {1, 3}) {
    const auto lists = index.search_many(queries, 7, threads);
    REQUIRE(lists.size() == 40);
    for (std::size_t i = 0; i < lists.size(); ++i) {
      CHECK(equal(lists[i], index.search(queries[i], 7)));
    }
  }
}

TEST_CASE("IDX-5: what readers find beside a writer is one of the states in between") {
  // After each change the writer notes what the fixed queries find. A reader's result must be one
  // of those between the change that was complete when it began and the one after it ended. Merges
  // go on in the background all the time and must change nothing.
  constexpr std::size_t kChanges = 20'000;
  constexpr std::size_t kReaders = 4;
  TokenIndex index(1.2, 0.75, {.head_rows = 8, .fan_in = 2, .small = 0, .most = 6});
  const std::array<Slots, 3> queries{Slots{1, 2}, Slots{3}, Slots{2, 9, 5}};
  // Few of them bounded: that is slow in a build without optimisation.
  const std::array<std::size_t, 3> k{1000, 1000, 10};
  using Found = std::array<std::vector<Hit>, 3>;
  std::vector<Found> history(kChanges + 1);
  std::atomic<std::size_t> complete{0};

  struct Seen {
    std::size_t query;
    std::size_t before;
    std::size_t after;
    std::vector<Hit> hits;
  };
  std::array<std::vector<Seen>, kReaders> seen;
  std::vector<std::jthread> readers;
  for (std::size_t reader = 0; reader < kReaders; ++reader) {
    readers.emplace_back([&, reader] {
      Random random(static_cast<unsigned>(reader));
      while (complete < kChanges) {
        const std::size_t query = random() % 3;
        const std::size_t before = complete;
        auto hits = index.search(queries[query], k[query]);
        const std::size_t after = complete;
        if (after > before || random() % 16 == 0) {
          seen[reader].push_back({query, before, after, std::move(hits)});
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
  }
  Random random(99);
  for (std::size_t change = 1; change <= kChanges; ++change) {
    const std::uint32_t slot = random() % 60;
    const auto kind = random() % 100;
    if (kind < 55) {
      put(index, {slot, slot + 1}, {{random() % 12, random() % 12, 1 + random() % 3}, {1, 2, 3}});
    } else if (kind < 99) {
      index.erase(Slots{slot});
    } else {
      index.compact();
    }
    for (std::size_t query = 0; query < 3; ++query) {
      history[change][query] = index.search(queries[query], k[query]);
    }
    complete = change;
  }
  readers.clear();
  std::size_t strangers = 0;
  std::size_t overlapping = 0;
  for (const auto& of_reader : seen) {
    CHECK_FALSE(of_reader.empty());
    for (const Seen& result : of_reader) {
      bool known = false;
      const std::size_t last = std::min(result.after + 1, kChanges);
      for (std::size_t change = result.before; change <= last && !known; ++change) {
        known = equal(history[change][result.query], result.hits);
      }
      strangers += known ? 0 : 1;
      overlapping += result.after > result.before ? 1 : 0;
    }
  }
  CHECK(strangers == 0);
  CHECK(overlapping > 0);  // else the test saw nothing happen
  index.settle();
  const Bm25Stats stats = index.stats();
  CHECK(stats.dead_postings * 4 <= stats.postings + stats.dead_postings);
  for (std::size_t query = 0; query < 3; ++query) {
    CHECK(equal(index.search(queries[query], k[query]), history[kChanges][query]));
  }
}

TEST_CASE("a large merge goes on beside changes, which wait for none") {
  TokenIndex index(1.2, 0.75);
  constexpr std::uint32_t kDocuments = 9000;  // a segment of its own each time
  Random random(8);
  const auto fill = [&](std::uint32_t first) {
    Slots slots;
    std::vector<Slots> documents;
    for (std::uint32_t i = 0; i < kDocuments; ++i) {
      slots.push_back(first + i);
      documents.emplace_back();
      for (int j = 0; j < 10; ++j) documents.back().push_back(random() % 1000);
    }
    put(index, slots, documents);
  };
  std::size_t n = 0;
  for (std::uint32_t batch = 0; batch < 4; ++batch) fill(batch * kDocuments);
  // Whether the merge has landed or not: deletions and updates are kept.
  std::uint32_t gone = 0;
  for (; gone < 200; ++gone) n += index.erase(Slots{gone * 7});
  put(index, {5}, {{77777}});
  index.settle();
  CHECK(n == 200);
  CHECK(index.stats().segments == 1);
  CHECK(index.stats().dead_postings <= 2010);
  CHECK(index.size() == 4 * kDocuments - 200);
  CHECK(index.search(Slots{77777}, 5).front().slot == 5);
  for (std::uint32_t i = 0; i < gone; ++i) CHECK_FALSE(index.contains(i * 7));
}

TEST_CASE("an index may go, be compacted and be asked while merges go on") {
  for (unsigned round = 0; round < 30; ++round) {
    TokenIndex index(1.2, 0.75, {.head_rows = 64, .fan_in = 2, .small = 0, .most = 100});
    Random random(round);
    for (std::uint32_t slot = 0; slot < 64 * (4 + round); ++slot) {
      put(index, {slot}, {{random() % 50, random() % 50}});
    }
    if (round % 3 == 1) {
      index.compact();
      CHECK(index.stats().segments == 1);
      index.settle();
      CHECK(index.stats().segments == 1);
    }
    if (round % 3 == 2) index.settle();
  }
}
