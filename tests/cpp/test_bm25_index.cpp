#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "kernels/dispatch.hpp"
#include "lexical/bm25_index.hpp"
#include "lexical/row_table.hpp"
#include "lexical/token_index.hpp"
#include "random.hpp"

using namespace spector;  // NOLINT(google-build-using-namespace)

namespace {

struct Document {
  std::map<std::uint32_t, std::uint32_t> counts;
  std::uint32_t length = 0;
};

// BM25-1 and BM25-2 over all documents in double: the oracle.
std::vector<std::pair<double, std::uint32_t>> brute_force(
    const std::map<std::uint32_t, Document>& documents, const std::vector<QueryTerm>& query,
    double k1, double b) {
  double total = 0;
  for (const auto& [slot, document] : documents) total += document.length;
  const auto n_documents = static_cast<double>(documents.size());
  std::vector<std::pair<double, std::uint32_t>> hits;
  for (const auto& [slot, document] : documents) {
    double score = 0;
    for (const QueryTerm& term : query) {
      const auto at = document.counts.find(term.term);
      if (at == document.counts.end()) continue;
      double n = 0;
      for (const auto& [other, counts] : documents) n += counts.counts.contains(term.term) ? 1 : 0;
      const double f = at->second;
      const double idf = std::log((n_documents - n + 0.5) / (n + 0.5) + 1);
      score += term.weight * idf * f * (k1 + 1) /
               (f + k1 * (1 - b + b * document.length / (total / n_documents)));
    }
    if (score > 0) hits.emplace_back(score, slot);
  }
  std::sort(hits.begin(), hits.end(), [](const auto& a, const auto& b_) {
    return a.first != b_.first ? a.first > b_.first : a.second < b_.second;
  });
  return hits;
}

void put(Bm25Index& index, std::uint32_t slot, const Document& document) {
  std::vector<TermCount> counts;
  for (const auto& [term, count] : document.counts) counts.push_back({term, count});
  index.put(slot, counts, document.length);
}

}  // namespace

TEST_CASE("IDX-1, IDX-2, BM25-1..6: any history scores as the live documents do") {
  for (const auto& [k1, b] : {std::pair{1.2, 0.75}, {0.0, 0.5}, {3.0, 0.0}, {0.9, 1.0}}) {
    Random random(static_cast<unsigned>(k1 * 10));
    Bm25Index index(k1, b);
    std::map<std::uint32_t, Document> model;
    for (int step = 0; step < 1500; ++step) {
      const std::uint32_t slot = random() % 60;
      const auto kind = random() % 10;
      if (kind < 6) {
        Document document;
        const auto n = random() % 12;
        for (unsigned i = 0; i < n; ++i) ++document.counts[random() % (1 + random() % 30)];
        for (const auto& [term, count] : document.counts) document.length += count;
        put(index, slot, document);
        model[slot] = document;
      } else if (kind < 9) {
        CHECK(index.erase(slot) == (model.erase(slot) > 0));
      } else {
        // Terms are renamed by a compaction: the identity here, as every term is re-put often
        // enough only if none was dropped.
        const auto numbers = index.compact_numbers();
        if (std::none_of(numbers.begin(), numbers.end(),
                         [](auto n) { return n == Bm25Index::kDropped; })) {
          index.compact(numbers);
        }
      }
      REQUIRE(index.size() == model.size());
      if (step % 10 != 0) continue;
      std::vector<QueryTerm> query;
      for (unsigned i = 0; i < 1 + random() % 5; ++i) query.push_back({random() % 32, 1.0});
      const auto expected = brute_force(model, query, k1, b);
      const auto hits = index.search(query, 1 + random() % 70);
      REQUIRE(hits.size() <= expected.size());
      for (std::size_t i = 0; i < hits.size(); ++i) {
        CHECK(hits[i].score == doctest::Approx(expected[i].first).epsilon(1e-6));
        float sum = 0;
        for (const TermScore& term : index.explain(query, hits[i].slot)) sum += term.contribution;
        CHECK(sum == hits[i].score);  // the same bits
      }
      // A shorter list is a prefix of a longer one, ties included (F-009).
      const auto all = index.search(query, 1000);
      CHECK(all.size() == expected.size());
      for (std::size_t i = 0; i < hits.size(); ++i) {
        CHECK(all[i].slot == hits[i].slot);
        CHECK(all[i].score == hits[i].score);
        if (i > 0 && hits[i].score == hits[i - 1].score) CHECK(hits[i].slot > hits[i - 1].slot);
      }
    }
  }
}

TEST_CASE("GEN-3: whole searches give equal bits on every instruction set, over many windows") {
  Random random(5);
  Bm25Index index(1.2, 0.75);
  for (std::uint32_t slot = 0; slot < 3 * kernels::kWindow + 100; ++slot) {
    Document document;
    for (unsigned i = 0; i < 5; ++i) ++document.counts[random() % 50];
    document.length = 5;
    put(index, slot, document);
    if (slot % 7 == 0) index.erase(slot / 2);
  }
  const std::vector<QueryTerm> query{{3, 1.0}, {9, 0.25}, {3, 1.0}, {40, 1.0}};
  const std::string before = kernels::active().name;
  kernels::set_isa("scalar");
  const auto expected = index.search(query, 500);
  CHECK(expected.size() == 500);
  for (const std::string_view isa : kernels::available_isas()) {
    kernels::set_isa(isa);
    const auto hits = index.search(query, 500);
    REQUIRE(hits.size() == expected.size());
    for (std::size_t i = 0; i < hits.size(); ++i) {
      CHECK(hits[i].slot == expected[i].slot);
      CHECK(hits[i].score == expected[i].score);
    }
  }
  kernels::set_isa(before);
}

TEST_CASE("IDX-2: dead postings are found wasteful past a quarter, and compacting frees them") {
  Bm25Index index(1.2, 0.75);
  for (std::uint32_t slot = 0; slot < 100; ++slot) {
    index.put(slot, std::vector<TermCount>{{slot, 1}, {100, 2}}, 3);
  }
  for (std::uint32_t slot = 0; slot < 25; ++slot) index.erase(slot);
  CHECK_FALSE(index.wasteful());
  index.erase(25);
  CHECK(index.wasteful());
  const auto numbers = index.compact_numbers();
  CHECK(numbers[0] == Bm25Index::kDropped);
  CHECK(numbers[26] == 0);
  CHECK(numbers[100] == 74);
  const auto before = index.search(std::vector<QueryTerm>{{100, 1.0}}, 5);
  index.compact(numbers);
  const auto after = index.search(std::vector<QueryTerm>{{74, 1.0}}, 5);
  REQUIRE(before.size() == after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK(before[i].slot == after[i].slot);
    CHECK(before[i].score == after[i].score);
  }
  CHECK(index.stats().dead_postings == 0);
  CHECK(index.stats().postings == 148);
  CHECK(index.stats().terms == 75);
}

TEST_CASE("BM25-5: documents without terms count, and never match") {
  Bm25Index index(1.2, 0.75);
  CHECK(index.search(std::vector<QueryTerm>{{0, 1.0}}, 5).empty());
  index.put(0, {}, 0);
  CHECK(index.search(std::vector<QueryTerm>{{0, 1.0}}, 5).empty());
  index.put(1, std::vector<TermCount>{{0, 1}}, 1);
  const auto hits = index.search(std::vector<QueryTerm>{{0, 1.0}}, 5);
  REQUIRE(hits.size() == 1);
  // N=2, n=1, avgdl=0.5
  const double idf = std::log((2 - 1 + 0.5) / (1 + 0.5) + 1);
  CHECK(hits[0].score == doctest::Approx(idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2))));
}

TEST_CASE("BM25-3: k1 and b out of range are refused") {
  CHECK_THROWS_AS(Bm25Index(-0.1, 0.5), std::invalid_argument);
  CHECK_THROWS_AS(Bm25Index(3.1, 0.5), std::invalid_argument);
  CHECK_THROWS_AS(Bm25Index(1.2, 1.1), std::invalid_argument);
  CHECK_THROWS_AS(Bm25Index(std::nan(""), 0.5), std::invalid_argument);
}

TEST_CASE("allowed slots: only they come back, with the scores of the whole index") {
  Bm25Index index(1.2, 0.75);
  for (std::uint32_t slot = 0; slot < 200; ++slot) {
    index.put(slot, std::vector<TermCount>{{0, 1 + slot % 3}}, 3);
  }
  const std::vector<QueryTerm> query{{0, 1.0}};
  const std::vector<std::uint32_t> slots{5, 100, 101, 7, 4000000000U};
  const SlotSet allow(slots);
  const auto hits = index.search(query, 10, &allow);
  REQUIRE(hits.size() == 4);
  const auto all = index.search(query, 200);
  for (const Hit& hit : hits) {
    const auto at = std::find_if(all.begin(), all.end(),
                                 [&](const Hit& other) { return other.slot == hit.slot; });
    REQUIRE(at != all.end());
    CHECK(at->score == hit.score);
  }
  const SlotSet none({});
  CHECK(index.search(query, 10, &none).empty());
}

TEST_CASE("TokenIndex: readers beside a writer see whole documents") {
  // Each document holds token 1 and token 2 as often as each other, so any torn one would show.
  TokenIndex index(1.2, 0.75);
  const std::vector<std::uint32_t> query{1, 2};
  std::vector<std::jthread> readers;
  std::atomic<bool> done{false};
  std::atomic<int> torn{0};
  std::atomic<int> searches{0};
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        const auto ones = index.search(std::span(query).first(1), 1000);
        for (std::size_t j = 1; j < ones.size(); ++j) torn += ones[j].score > ones[j - 1].score;
        ++searches;
      }
    });
  }
  Random random(3);
  for (int step = 0; step < 2000; ++step) {
    const std::vector<std::uint32_t> slot{static_cast<std::uint32_t>(random() % 100)};
    if (step % 4 == 3) {
      index.erase(slot);
      continue;
    }
    const std::vector<std::uint32_t> tokens{1, 2, static_cast<std::uint32_t>(random() % 50)};
    const std::vector<std::int64_t> ends{0, 3};
    index.put(slot, {ends, tokens});
  }
  while (searches < 10) std::this_thread::yield();
  done = true;
  readers.clear();
  CHECK(torn == 0);
  CHECK(index.search(query, 1000).size() == index.size());
}

TEST_CASE("RowTable: rows grow, are never used again, and forget removed ids") {
  RowTable table;
  const std::vector<std::string_view> ids{"a", "b", "a", "c"};
  CHECK(table.assign(ids) == std::vector<std::uint32_t>{0, 1, 0, 2});
  CHECK(table.remove("b") == std::optional<std::uint32_t>(1));
  CHECK_FALSE(table.remove("b"));
  CHECK_FALSE(table.find("b"));
  CHECK(table.assign(std::vector<std::string_view>{"b"}) == std::vector<std::uint32_t>{3});
  const std::vector<std::int64_t> rows{0, 1, 3, 99, -1};
  const auto names = table.ids(rows);
  CHECK(names[0] == "a");
  CHECK_FALSE(names[1]);
  CHECK(names[2] == "b");
  CHECK_FALSE(names[3]);
  CHECK_FALSE(names[4]);
  // Many removals rebuild the table of strings; what is left keeps its row.
  for (int i = 0; i < 1000; ++i) {
    const std::string id = "temporary-" + std::to_string(i);
    table.assign(std::vector<std::string_view>{id});
    CHECK(table.remove(id));
  }
  CHECK(table.size() == 3);
  CHECK(table.find("a") == std::optional<std::uint32_t>(0));
  CHECK(table.find("b") == std::optional<std::uint32_t>(3));
}
