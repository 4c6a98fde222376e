// The best k, ties included, beside sorting everything.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/sort_best.hpp"
#include "base/sort_numbers.hpp"
#include "base/top_k.hpp"
#include "random.hpp"

using spector::ScoredSlot;
using spector::TopK;

TEST_CASE("GEN-4: the best k of what is offered, equal scores by slot") {
  Random random(11);
  for (const std::size_t k : {1, 2, 5, 10, 15, 16, 17, 31, 32, 33, 64, 200}) {
    for (const std::size_t n : {0, 1, 9, 10, 31, 32, 33, 300, 3000}) {
      for (const std::uint32_t n_scores : {1U, 3U, 1000U}) {
        CAPTURE(k);
        CAPTURE(n);
        CAPTURE(n_scores);
        TopK top(k);
        std::vector<std::pair<float, std::uint32_t>> all;  // negative scores, so that they ascend
        for (std::uint32_t slot = 0; slot < n; ++slot) {
          const std::uint32_t mixed = slot * 7919 % 65'537;
          const auto score = static_cast<float>(random() % n_scores + 1) / 8;
          all.emplace_back(-score, mixed);
          top.offer(score, mixed);
          if (random() % 50 == 0) top.cut();
        }
        std::sort(all.begin(), all.end());
        all.resize(std::min(n, k));
        const std::vector<ScoredSlot> best = top.take();
        REQUIRE(best.size() == all.size());
        for (std::size_t i = 0; i < best.size(); ++i) {
          CHECK(best[i].score == -all[i].first);
          CHECK(best[i].slot == all[i].second);
        }
      }
    }
  }
}

TEST_CASE("GEN-4: entries in shares of their scores are those that a plain sort gives") {
  struct Entry {
    float score = 0;
    std::uint32_t slot = 0;
  };
  const auto better = [](const Entry& a, const Entry& b) {
    return a.score != b.score ? a.score > b.score : a.slot < b.slot;
  };
  Random random(5);
  for (std::size_t round = 0; round < 300; ++round) {
    std::vector<Entry> entries(random() % (round < 20 ? 2000 : 120));
    for (Entry& entry : entries) {
      const auto level = static_cast<float>(random() % (round % 3 == 0 ? 4 : 1 << 20));
      entry = {(level - static_cast<float>(round % 5)) / static_cast<float>(1 + round * round),
               random()};
      if (random() % 9 == 0) entry.score = random() % 2 == 0 ? -0.0F : 0.0F;
    }
    std::vector<Entry> expected = entries;
    std::sort(expected.begin(), expected.end(), better);
    spector::sort_best(entries, better);
    const auto same = [](const Entry& a, const Entry& b) {
      return a.score == b.score && a.slot == b.slot;
    };
    CHECK(std::equal(entries.begin(), entries.end(), expected.begin(), expected.end(), same));
  }
}

TEST_CASE("numbers are sorted as std::sort does, few and many, small and large") {
  Random random(29);
  std::vector<std::uint32_t> scratch;
  for (const std::uint32_t n : {0U, 1U, 24U, 25U, 56U, 3000U}) {
    for (const unsigned shift : {0U, 12U, 25U, 31U}) {
      std::vector<std::uint32_t> numbers(n);
      for (std::uint32_t& number : numbers) {
        number = static_cast<std::uint32_t>(random()) >> shift;
      }
      std::vector<std::uint32_t> expected = numbers;
      std::sort(expected.begin(), expected.end());
      spector::sort_numbers(numbers, scratch);
      REQUIRE(numbers == expected);
    }
  }
}
