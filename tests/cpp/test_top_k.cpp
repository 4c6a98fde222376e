// The best k, ties included, beside sorting everything.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

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
