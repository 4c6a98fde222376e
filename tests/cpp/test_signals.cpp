#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/shared.hpp"
#include "lexical/sparse_index.hpp"
#include "random.hpp"
#include "records/token_vectors.hpp"

using spector::ScoredSlot;
using spector::Shared;
using spector::SparseIndex;
using spector::SparseVectors;
using spector::TokenVectors;

namespace {

// One document with the given terms, each of weight `weight`.
void put(SparseIndex& index, std::uint32_t slot, const std::vector<std::string_view>& terms,
         float weight) {
  const std::vector<float> weights(terms.size(), weight);
  const std::array<std::uint64_t, 2> ends{0, terms.size()};
  index.put(std::array{slot}, SparseVectors{ends, terms, weights});
}

}  // namespace

TEST_CASE("SPL-1: a write that is refused leaves the index as it was") {
  Shared<SparseIndex> index;
  index.write([](SparseIndex& store) { put(store, 1, {"a", "b"}, 2); });
  CHECK_THROWS_AS(index.write([](SparseIndex& store) {
    put(store, 2, {"c"}, 1);
    put(store, 3, {"a", "a"}, 1);
  }),
                  std::invalid_argument);
  CHECK_THROWS_AS(index.write([](SparseIndex& store) { put(store, 1, {"a"}, -1); }),
                  std::invalid_argument);
  const std::vector<std::string_view> terms{"a", "c"};
  const std::vector<float> weights{1, 1};
  index.read([&](const SparseIndex::View& view) {
    const std::vector<ScoredSlot> hits = view.search(terms, weights, 10, std::nullopt);
    REQUIRE(hits.size() == 1);
    CHECK(hits[0].slot == 1);
    CHECK(hits[0].score == 2);
    CHECK(view.size() == 1);
    CHECK_FALSE(view.contains(2));
  });
}

TEST_CASE("SPL-1: readers of a sparse index beside a writer see whole documents") {
  Shared<SparseIndex> index;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  const std::vector<std::string_view> terms{"left", "right"};
  const std::vector<float> weights{1, 1};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&] {
      while (!stop) {
        index.read([&](const SparseIndex::View& view) {
          for (const ScoredSlot& hit : view.search(terms, weights, 1000, std::nullopt)) {
            // Both terms have the same weight in a document, and a document is there once.
            if (hit.score != 2 * view.score(std::span(terms).first(1), weights, hit.slot)) ++wrong;
          }
        });
      }
    });
  }
  Random random(5);
  for (int change = 0; change < 20'000; ++change) {
    const std::uint32_t slot = random() % 300;
    index.write([&](SparseIndex& store) {
      if (random() % 3 == 0) {
        store.erase(std::array{slot});
      } else {
        put(store, slot, terms, static_cast<float>(random() % 7 + 1));
      }
    });
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
}

TEST_CASE("RRK-1: token vectors are replaced whole beside a writer") {
  constexpr std::size_t kDimensions = 3;
  Shared<TokenVectors> store(kDimensions);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  const std::vector<float> query{1, 0, 0, 0, 1, 0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&] {
      while (!stop) {
        store.read([&](const TokenVectors::View& view) {
          for (const ScoredSlot& hit : view.search(query, 1000, std::nullopt)) {
            // Each memory has both directions with one scale: the score is twice a whole number.
            const auto twice = static_cast<int>(hit.score + 0.5F);
            if (twice % 2 != 0) ++wrong;
          }
        });
      }
    });
  }
  Random random(6);
  for (int change = 0; change < 20'000; ++change) {
    const std::uint32_t slot = random() % 100;
    store.write([&](TokenVectors& vectors) {
      if (random() % 3 == 0) {
        vectors.erase(std::array{slot});
        return;
      }
      const auto size = static_cast<float>(random() % 9 + 1);
      const std::array<std::int8_t, 6> codes{127, 0, 0, 0, 127, 0};
      const std::array<float, 2> scales{size / 127, size / 127};
      vectors.put(std::array{slot}, std::array<std::uint64_t, 2>{0, 2}, codes, scales);
    });
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
}
