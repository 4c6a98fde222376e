#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "kernels/dispatch.hpp"
#include "lexical/bm25_index.hpp"
#include "lexical/row_table.hpp"
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

// An index and the state that readers would have.
struct Live {
  EpochDomain epochs;
  Bm25Index index;
  Bm25State state;

  Live(double k1, double b, const MergePolicy& policy = {}) : index(k1, b, epochs, policy) {
    publish();
  }
  void publish() {
    state = index.state();
    index.published();
  }
  void put(std::uint32_t slot, const std::vector<TermCount>& terms, std::uint32_t length) {
    index.put(slot, terms, length);
    publish();
  }
  void put(std::uint32_t slot, const Document& document) {
    std::vector<TermCount> counts;
    for (const auto& [term, count] : document.counts) counts.push_back({term, count});
    put(slot, counts, document.length);
  }
  bool erase(std::uint32_t slot) {
    const bool erased = index.erase(slot);
    publish();
    return erased;
  }
  void compact() {
    index.compact();
    publish();
  }
  std::vector<Hit> search(const std::vector<QueryTerm>& query, std::size_t k,
                          const SlotSet* allow = nullptr) const {
    return spector::search(state, epochs.pin(), query, k, allow);
  }
  std::vector<TermScore> explain(const std::vector<QueryTerm>& query, std::uint32_t slot) const {
    return spector::explain(state, epochs.pin(), query, slot);
  }
};

}  // namespace

TEST_CASE("IDX-1, IDX-2, BM25-1..6: any history scores as the live documents do") {
  for (const auto& [k1, b] : {std::pair{1.2, 0.75}, {0.0, 0.5}, {3.0, 0.0}, {0.9, 1.0}}) {
    Random random(static_cast<unsigned>(k1 * 10));
    Live index(k1, b);
    std::map<std::uint32_t, Document> model;
    for (int step = 0; step < 1500; ++step) {
      const std::uint32_t slot = random() % 60;
      const auto kind = random() % 10;
      if (kind < 6) {
        Document document;
        const auto n = random() % 12;
        for (unsigned i = 0; i < n; ++i) ++document.counts[random() % (1 + random() % 30)];
        for (const auto& [term, count] : document.counts) document.length += count;
        index.put(slot, document);
        model[slot] = document;
      } else if (kind < 9) {
        CHECK(index.erase(slot) == (model.erase(slot) > 0));
      } else {
        index.compact();
      }
      REQUIRE(index.index.size() == model.size());
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
  Live index(1.2, 0.75);
  for (std::uint32_t slot = 0; slot < 3 * kernels::kWindow + 100; ++slot) {
    Document document;
    for (unsigned i = 0; i < 5; ++i) ++document.counts[random() % 50];
    document.length = 5;
    index.put(slot, document);
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

TEST_CASE("IDX-2: dead postings never outweigh a quarter, in the head and in segments") {
  Live index(1.2, 0.75);
  for (std::uint32_t slot = 0; slot < 100; ++slot) index.put(slot, {{slot, 1}, {100, 2}}, 3);
  const auto check = [&] {
    const Bm25Stats stats = index.index.stats();
    CHECK(stats.postings == 2 * stats.documents);
    CHECK(stats.dead_postings * 4 <= stats.postings + stats.dead_postings);
    CHECK(stats.terms == stats.documents + (stats.documents > 0 ? 1 : 0));
  };
  for (std::uint32_t slot = 0; slot < 40; ++slot) {
    CHECK(index.erase(slot));
    check();
  }
  index.compact();
  CHECK(index.index.stats().segments == 1);
  CHECK(index.index.stats().dead_postings == 0);
  for (std::uint32_t slot = 40; slot < 100; ++slot) {
    CHECK(index.erase(slot));
    check();
  }
  CHECK(index.index.stats().segments == 0);
  CHECK(index.epochs.retired_count() < 100);
}

TEST_CASE("a compaction renames the terms that are left") {
  Live index(1.2, 0.75);
  for (std::uint32_t slot = 0; slot < 10; ++slot) index.put(slot, {{slot, 1}, {10, 2}}, 3);
  for (std::uint32_t slot = 0; slot < 4; ++slot) index.erase(slot);
  const auto before = index.search({{10, 1.0}}, 20);
  const auto numbers = index.index.compact_numbers();
  CHECK(numbers[3] == Bm25Index::kDropped);
  CHECK(numbers[4] == 0);
  CHECK(numbers[10] == 6);
  index.index.compact(numbers);
  index.publish();
  const auto after = index.search({{6, 1.0}}, 20);
  REQUIRE(before.size() == after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK(before[i].slot == after[i].slot);
    CHECK(before[i].score == after[i].score);
  }
  CHECK(index.search({{0, 1.0}}, 20).size() == 1);
  index.put(20, {{0, 1}, {6, 1}, {7, 1}}, 3);
  CHECK(index.search({{0, 1.0}}, 20).size() == 2);
  CHECK(index.search({{6, 1.0}}, 20).size() == 7);
}

TEST_CASE("BM25-6: bounded search gives what scoring every posting gives, ties included") {
  // Several windows, sealed by compaction; few lengths and frequencies, so that ties abound.
  Random random(17);
  Live index(1.2, 0.75);
  constexpr std::uint32_t kDocuments = 3 * kernels::kWindow + 500;
  for (std::uint32_t slot = 0; slot < kDocuments; ++slot) {
    Document document;
    for (unsigned i = 0; i < 4; ++i) {
      // Term t in about 1/(t+1) of the documents: lists of every kind.
      const std::uint32_t term = random() % (1 + random() % 400);
      document.counts[term] += 1 + (random() % 50 == 0 ? random() % 600 : 0);
    }
    document.length = 4 + random() % 3;
    index.index.put(
        slot,
        [&] {
          std::vector<TermCount> counts;
          for (const auto& [term, count] : document.counts) counts.push_back({term, count});
          return counts;
        }(),
        document.length);
  }
  index.compact();
  const auto compare = [&] {
    for (int round = 0; round < 60; ++round) {
      std::vector<QueryTerm> query;
      for (unsigned i = 0; i < 1 + random() % 6; ++i) {
        query.push_back({random() % (1 + random() % 400), random() % 4 == 0 ? 0.25 : 1.0});
      }
      const auto all = index.search(query, kDocuments);  // exact: k is large
      for (const std::size_t k : {1, 2, 10, 100, 128, 129, 300, 1000}) {
        const auto hits = index.search(query, k);
        REQUIRE(hits.size() == std::min<std::size_t>(k, all.size()));
        for (std::size_t i = 0; i < hits.size(); ++i) {
          REQUIRE(hits[i].slot == all[i].slot);
          REQUIRE(hits[i].score == all[i].score);
        }
      }
      // A filter keeps the order and the scores of the rest, whether it is wide or narrow.
      for (const std::uint32_t step : {3U, 5000U}) {
        std::vector<std::uint32_t> slots;
        for (std::uint32_t slot = random() % step; slot < kDocuments; slot += step) {
          slots.push_back(slot);
        }
        const SlotSet allow(slots);
        std::vector<Hit> expected;
        for (const Hit& hit : all) {
          if (allow.contains(hit.slot)) expected.push_back(hit);
        }
        for (const std::size_t k : {10, 150}) {
          const auto hits = index.search(query, k, &allow);
          REQUIRE(hits.size() == std::min<std::size_t>(k, expected.size()));
          for (std::size_t i = 0; i < hits.size(); ++i) {
            REQUIRE(hits[i].slot == expected[i].slot);
            REQUIRE(hits[i].score == expected[i].score);
          }
        }
      }
    }
  };
  compare();
  // The average length moves away from that of the stored bounds, up and down, with deletions and
  // a head beside the segment.
  for (std::uint32_t slot = 0; slot < kDocuments; slot += 6) index.index.erase(slot);
  for (std::uint32_t slot = 0; slot < 4000; ++slot) {
    index.index.put(kDocuments + slot, std::vector<TermCount>{{slot % 300, 1}}, 100);
  }
  index.publish();
  CHECK(index.index.stats().dead_postings > 0);
  compare();
  for (std::uint32_t slot = 0; slot < 4000; ++slot) {
    index.index.put(kDocuments + slot, std::vector<TermCount>{{slot % 300, 1}}, 1);
  }
  for (std::uint32_t slot = 1; slot < kDocuments; slot += 16) {
    index.index.put(slot, std::vector<TermCount>{{slot % 300, 2}}, 1);
  }
  index.publish();
  compare();
}

TEST_CASE("BM25-1, BM25-6: row numbers of 16 and of 32 bits find the same documents") {
  // The last row has the highest number of 16 bits, or one more. Terms of 1, 2, 3, ... documents,
  // these far apart and at the end; term 0 is in all.
  for (const std::uint32_t n : {0x10000U, 0x10001U}) {
    constexpr std::uint32_t kTerms = 70;
    std::map<std::uint32_t, std::map<std::uint32_t, std::uint32_t>> documents;  // by term
    Documents all;
    for (std::uint32_t slot = 0; slot < n; ++slot) {
      std::vector<TermCount> counts{{0, 1}};
      for (std::uint32_t term = 1; term <= kTerms; ++term) {
        const std::uint32_t step = n / term;
        if ((n - 1 - slot) % step != 0 || (n - 1 - slot) / step >= term) continue;
        const std::uint32_t count = 1 + slot % 3 + (term % 7 == 0 && slot % 5 == 0 ? 300 : 0);
        counts.push_back({term, count});
        documents[term][slot] = count;
      }
      all.add(slot, 3 + slot % 4, counts);
    }
    Live index(1.2, 0.75);
    index.index.put(all);
    index.publish();
    for (std::uint32_t term = 1; term <= kTerms; ++term) {
      REQUIRE(documents[term].size() == term);
      const std::vector<QueryTerm> query{{term, 1.0}, {0, 0.001}};
      const auto hits = index.search({{term, 1.0}}, n);
      REQUIRE(hits.size() == term);
      for (const Hit& hit : hits) {
        REQUIRE(documents[term].contains(hit.slot));
        const auto scores = index.explain({{term, 1.0}}, hit.slot);
        REQUIRE(scores.size() == 1);
        REQUIRE(scores[0].f == documents[term][hit.slot]);
        REQUIRE(scores[0].n == term);
        REQUIRE(scores[0].contribution == hit.score);
      }
      const auto exact = index.search(query, n);
      REQUIRE(exact.size() == n);
      for (const std::size_t k : {1, 10, 60, 200}) {
        const auto best = index.search(query, k);
        REQUIRE(best.size() == k);
        for (std::size_t i = 0; i < k; ++i) {
          REQUIRE(best[i].slot == exact[i].slot);
          REQUIRE(best[i].score == exact[i].score);
        }
      }
    }
    index.index.erase(n - 1);
    index.publish();
    for (std::uint32_t term = 1; term <= kTerms; ++term) {
      REQUIRE(index.search({{term, 1.0}}, 100).size() == term - 1);
    }
  }
}

TEST_CASE("IDX-6: a large batch gives what single additions give, repeated and known slots too") {
  Random random(31);
  Live single(1.2, 0.75);
  Live batch(1.2, 0.75);
  for (int round = 0; round < 3; ++round) {
    Documents documents;
    for (int i = 0; i < 6000; ++i) {
      const std::uint32_t slot = random() % 9000;
      std::map<std::uint32_t, std::uint32_t> counts;
      for (unsigned j = 0; j < random() % 6; ++j) ++counts[random() % (1 + random() % 500)];
      std::vector<TermCount> terms;
      for (const auto& [term, count] : counts) terms.push_back({term, count});
      const std::uint32_t length = 5 + random() % 3;
      documents.add(slot, length, terms);
      single.index.put(slot, terms, length);
    }
    single.publish();
    batch.index.put(documents);
    batch.publish();
    // Bounds are made for the lengths there are: else they hold, but let every row through.
    const double average = static_cast<double>(batch.state.total_length) /
                           static_cast<double>(batch.state.n_documents);
    for (const Segment* segment : batch.state.segments) {
      CHECK(segment->bound_factor(average) < 1.1);
      CHECK(segment->best_factor(average) > 0.9);
    }
    const Bm25Stats a = single.index.stats();
    const Bm25Stats b = batch.index.stats();
    CHECK(a.documents == b.documents);
    CHECK(a.terms == b.terms);
    CHECK(a.postings == b.postings);
    CHECK(a.total_length == b.total_length);
    CHECK(b.dead_postings * 4 <= b.postings + b.dead_postings);
    for (int i = 0; i < 100; ++i) {
      const std::vector<QueryTerm> query{{random() % 50, 1.0}, {random() % 500, 1.0}};
      for (const std::size_t k : {10, 10000}) {
        const auto expected = single.search(query, k);
        const auto hits = batch.search(query, k);
        REQUIRE(hits.size() == expected.size());
        for (std::size_t j = 0; j < hits.size(); ++j) {
          REQUIRE(hits[j].slot == expected[j].slot);
          REQUIRE(hits[j].score == expected[j].score);
        }
      }
    }
    for (std::uint32_t slot = 0; slot < 9000; slot += 7) {
      CHECK(single.erase(slot) == batch.erase(slot));
    }
  }
}

TEST_CASE("IDX-2, BM25-4: any history scores as the live documents do, wherever merges land") {
  // Merges begin, are made, taken in and given up between any two changes.
  for (unsigned seed = 0; seed < 6; ++seed) {
    Random random(seed);
    const MergePolicy policy{
        .head_rows = 4 + random() % 12, .fan_in = 2 + seed % 3, .small = 0, .most = 1000};
    Live index(1.2, 0.75, policy);
    std::map<std::uint32_t, Document> model;
    struct Running {
      std::shared_ptr<Bm25Index::Merge> merge;
      bool made = false;
    };
    std::vector<Running> running;
    int taken_in = 0;
    int given_up = 0;
    int changed_meanwhile = 0;
    std::uint64_t begun_at = 0;
    const EpochDomain::Pin pin = index.epochs.pin();  // so that earlier states can be asked again
    std::vector<std::pair<Bm25State, std::vector<Hit>>> history;
    const std::vector<QueryTerm> fixed{{1, 1.0}, {2, 1.0}, {7, 1.0}};
    for (int step = 0; step < 4000; ++step) {
      const auto kind = random() % 20;
      const std::uint32_t slot = random() % 90;
      if (kind < 8) {
        Document document;
        for (unsigned i = 0; i < random() % 10; ++i) ++document.counts[random() % 30];
        for (const auto& [term, count] : document.counts) document.length += count;
        index.put(slot, document);
        model[slot] = document;
      } else if (kind < 12) {
        CHECK(index.erase(slot) == (model.erase(slot) > 0));
      } else if (kind < 15) {
        if (auto merge = index.index.begin_merge()) {
          running.push_back({std::move(merge)});
          begun_at = index.state.number;
        }
      } else if (!running.empty() && kind < 19) {
        Running& one = running[random() % running.size()];
        if (!one.made) {
          one.merge->run();
          one.made = true;
        } else {
          if (index.index.finish(*one.merge)) {
            index.publish();
            ++taken_in;
            changed_meanwhile += index.state.number > begun_at + 1 ? 1 : 0;
          }
          running.erase(running.begin() + (&one - running.data()));
        }
      } else if (!running.empty() && random() % 4 == 0) {
        index.index.abandon(*running.back().merge);
        running.pop_back();
        ++given_up;
      } else if (random() % 40 == 0) {
        index.compact();  // running merges come to nothing
      }
      REQUIRE(index.index.size() == model.size());
      if (step % 40 == 0) {
        std::vector<QueryTerm> query;
        for (unsigned i = 0; i < 1 + random() % 4; ++i) query.push_back({random() % 32, 1.0});
        const auto expected = brute_force(model, query, 1.2, 0.75);
        const auto hits = index.search(query, 1000);
        REQUIRE(hits.size() == expected.size());
        for (std::size_t i = 0; i < hits.size(); ++i) {
          CHECK(hits[i].score == doctest::Approx(expected[i].first).epsilon(1e-6));
        }
        const Bm25Stats stats = index.index.stats();
        std::uint64_t postings = 0;
        for (const auto& [own, document] : model) postings += document.counts.size();
        CHECK(stats.postings == postings);
      }
      if (step % 100 == 0) history.emplace_back(index.state, index.search(fixed, 100));
    }
    CHECK(taken_in > 20);
    CHECK(given_up > 3);
    CHECK(changed_meanwhile > 5);
    for (const auto& [state, hits] : history) {
      const auto again = search(state, pin, fixed, 100);
      REQUIRE(again.size() == hits.size());
      for (std::size_t i = 0; i < hits.size(); ++i) {
        REQUIRE(again[i].slot == hits[i].slot);
        REQUIRE(again[i].score == hits[i].score);
      }
    }
    // Once all that is due is made, little is dead and segments are few.
    index.index.abandon_merges();
    while (auto merge = index.index.begin_merge()) {
      merge->run();
      CHECK(index.index.finish(*merge));
      index.publish();
    }
    const Bm25Stats stats = index.index.stats();
    CHECK(stats.dead_postings * 4 <= stats.postings + stats.dead_postings);
    CHECK(stats.segments < 4 * policy.fan_in);
  }
}

TEST_CASE(
    "BM25-6: thresholds that are known at once leave out no hit, with rows deleted and equal") {
  for (unsigned seed = 0; seed < 6; ++seed) {
    Random random(seed);
    Live index(1.2, 0.75, {.head_rows = 3000, .small = 0});
    const std::uint32_t n = 9000 + random() % 3000;
    // Of few lengths and frequencies, so that many rows are equal; some are much better.
    for (std::uint32_t slot = 0; slot < n; ++slot) {
      Document document;
      for (unsigned i = 0; i < 4; ++i) ++document.counts[random() % (1 + random() % 40)];
      if (random() % 200 == 0) document.counts[random() % 8] += random() % 300;
      document.length = 4 + random() % (seed % 2 == 0 ? 2 : 40);
      index.put(slot, document);
    }
    if (seed % 3 == 0) index.compact();
    std::vector<std::uint32_t> live;
    for (std::uint32_t slot = 0; slot < n; ++slot) {
      if (random() % 100 < 1 + 10 * seed) {
        index.erase(slot);
      } else {
        live.push_back(slot);
      }
    }
    const SlotSet all(live);  // with a filter no threshold is known before the first hits
    for (const std::size_t k : {1, 9, 10, 11, 17, 20, 80, 100, 900, 1000, 1300, 1500, 5000}) {
      for (int i = 0; i < 6; ++i) {
        std::vector<QueryTerm> query;
        for (unsigned j = 0; j < 1 + random() % 4; ++j) query.push_back({random() % 40, 1.0});
        const auto hits = index.search(query, k);
        const auto expected = index.search(query, k, &all);
        REQUIRE(hits.size() == expected.size());
        for (std::size_t j = 0; j < hits.size(); ++j) {
          REQUIRE(hits[j].slot == expected[j].slot);
          REQUIRE(hits[j].score == expected[j].score);
        }
      }
    }
  }
}

TEST_CASE("changes make merges themselves when those fall behind") {
  const MergePolicy policy{.head_rows = 4, .fan_in = 2, .small = 0, .most = 5};
  Live index(1.2, 0.75, policy);
  const auto fill = [&](std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t slot = first; slot < last; ++slot) {
      index.put(slot, std::vector<TermCount>{{slot % 7, 1}}, 1);
    }
  };
  fill(0, 16);
  CHECK(index.index.stats().segments == 4);  // nobody asks for merges
  const auto merge = index.index.begin_merge();
  REQUIRE(merge != nullptr);
  CHECK_FALSE(index.index.merge_is_due());
  fill(16, 400);
  // The four that are being merged, and of each larger size less than five.
  CHECK(index.index.stats().segments < 4 + 5 * 3);
  merge->run();
  CHECK(index.index.finish(*merge));
  index.publish();
  CHECK(index.search({{3, 1.0}}, 1000).size() == 57);
}

TEST_CASE("IDX-2: a document written 1,000 times costs what it costs once, beside others") {
  for (const std::uint32_t others : {0U, 300U, 5000U, 16000U}) {
    Live index(1.2, 0.75);
    Random random(others);
    const auto document = [&] {
      Document made;
      for (int i = 0; i < 60; ++i) ++made.counts[random() % 3000];
      made.length = 60;
      return made;
    };
    for (std::uint32_t slot = 0; slot <= others; ++slot) index.put(slot, document());
    const Bm25Stats before = index.index.stats();
    for (int i = 0; i < 999; ++i) index.put(others / 2, document());
    const Bm25Stats after = index.index.stats();
    CHECK(after.documents == before.documents);
    CHECK(after.total_length == before.total_length);
    CHECK(after.dead_postings <= 34 * 60);
    CHECK(after.bytes < before.bytes + 50'000);
  }
}

TEST_CASE("an earlier state stays what it was while the index goes on") {
  Random random(23);
  EpochDomain epochs;
  Bm25Index index(1.2, 0.75, epochs);
  const EpochDomain::Pin pin = epochs.pin();
  const std::vector<QueryTerm> query{{1, 1.0}, {2, 1.0}};
  std::vector<std::pair<Bm25State, std::vector<Hit>>> history;
  for (int step = 0; step < 600; ++step) {
    const std::uint32_t slot = random() % 80;
    if (random() % 4 == 0) {
      index.erase(slot);
    } else {
      index.put(slot, std::vector<TermCount>{{1 + random() % 2, 1 + random() % 3}, {3, 1}},
                2 + random() % 5);
    }
    if (step % 150 == 149) index.compact();
    const Bm25State state = index.state();
    index.published();
    history.emplace_back(state, search(state, pin, query, 100));
  }
  for (const auto& [state, hits] : history) {
    const auto again = search(state, pin, query, 100);
    REQUIRE(again.size() == hits.size());
    for (std::size_t i = 0; i < hits.size(); ++i) {
      REQUIRE(again[i].slot == hits[i].slot);
      REQUIRE(again[i].score == hits[i].score);
    }
  }
}

TEST_CASE("places of terms are their ranks among the numbers there are") {
  Random random(4);
  for (const std::uint32_t most : {1U, 2U, 31U, 32U, 33U, 64U, 5000U}) {
    for (const unsigned share : {1U, 2U, 70U}) {
      std::vector<std::uint32_t> numbers;
      for (std::uint32_t number = 0; number < most; ++number) {
        if (random() % share == 0) numbers.push_back(number);
      }
      const TermPlaces places(numbers);
      std::uint32_t next = 0;
      for (std::uint32_t number = 0; number < most + 70; ++number) {
        const bool there = next < numbers.size() && numbers[next] == number;
        CHECK(places.place(number) == (there ? next : TermPlaces::kNone));
        if (there) CHECK(places.number(next++) == number);
      }
      CHECK(places.place(0xffffffffU) == TermPlaces::kNone);
    }
  }
}

TEST_CASE("F-011: the terms of rows end past 2^31, and in an error before 2^32") {
  std::vector<std::uint32_t> sizes{0x7ffffff8U, 16, 0, 0x7ffffff7U};
  Segment::make_ends(sizes);
  CHECK(sizes == std::vector<std::uint32_t>{0x7ffffff8U, 0x80000008U, 0x80000008U, 0xffffffffU});
  sizes = {0x7ffffff8U, 16, 0, 0x7ffffff8U};
  CHECK_THROWS_AS(Segment::make_ends(sizes), Capacity);
}

TEST_CASE("BM25-5: documents without terms count, and never match") {
  Live index(1.2, 0.75);
  CHECK(index.search({{0, 1.0}}, 5).empty());
  index.put(0, std::vector<TermCount>{}, 0);
  CHECK(index.search({{0, 1.0}}, 5).empty());
  index.put(1, std::vector<TermCount>{{0, 1}}, 1);
  const auto hits = index.search({{0, 1.0}}, 5);
  REQUIRE(hits.size() == 1);
  // N=2, n=1, avgdl=0.5
  const double idf = std::log((2 - 1 + 0.5) / (1 + 0.5) + 1);
  CHECK(hits[0].score == doctest::Approx(idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2))));
}

TEST_CASE("BM25-3: k1 and b out of range are refused") {
  EpochDomain epochs;
  CHECK_THROWS_AS(Bm25Index(-0.1, 0.5, epochs), std::invalid_argument);
  CHECK_THROWS_AS(Bm25Index(3.1, 0.5, epochs), std::invalid_argument);
  CHECK_THROWS_AS(Bm25Index(1.2, 1.1, epochs), std::invalid_argument);
  CHECK_THROWS_AS(Bm25Index(std::nan(""), 0.5, epochs), std::invalid_argument);
}

TEST_CASE("allowed slots: only they come back, with the scores of the whole index") {
  Live index(1.2, 0.75);
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
  for (int i = 0; i < 5000; ++i) {
    const std::string id = "temporary-" + std::to_string(i);
    table.assign(std::vector<std::string_view>{id});
    CHECK(table.remove(id));
  }
  CHECK(table.size() == 3);
  CHECK(table.find("a") == std::optional<std::uint32_t>(0));
  CHECK(table.find("b") == std::optional<std::uint32_t>(3));
}
