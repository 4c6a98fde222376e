#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "lexical/text_index.hpp"
#include "random.hpp"

using namespace spector;  // NOLINT(google-build-using-namespace)

namespace {

// Stems by a rule a reader can follow: a final s is dropped.
std::string stem_of(const std::string& word) {
  return word.size() > 1 && word.back() == 's' ? word.substr(0, word.size() - 1) : word;
}

struct Texts {
  TextIndex index{1.2, 0.75, true, true};
  int stemmed = 0;  // words that were asked for

  template <class Ask>
  auto answer(const Ask& ask) {
    Stems stems;
    while (true) {
      auto result = ask(stems);
      auto* need = std::get_if<NeedStems>(&result);
      if (need == nullptr) return std::get<0>(std::move(result));
      REQUIRE_FALSE(need->words.empty());
      for (const std::string& word : need->words) stems[word] = stem_of(word);
      stemmed += static_cast<int>(need->words.size());
    }
  }

  void put(std::uint32_t slot, const std::string& text) {
    TokenStream stream;
    analyze(AnalyzerKind::Code, text, stream);
    AnalysedBatch batch;
    batch.begin_document();
    batch.add(stream);
    const std::vector<std::uint32_t> slots{slot};
    answer([&](const Stems& stems) { return index.put(slots, {&batch, 1}, stems); });
  }

  std::vector<std::uint32_t> search(const std::string& query) {
    TokenStream stream;
    analyze(AnalyzerKind::Code, query, stream);
    std::vector<std::uint32_t> slots;
    for (const Hit& hit :
         answer([&](const Stems& stems) { return index.search(stream, stems, 10, nullptr); })) {
      slots.push_back(hit.slot);
    }
    return slots;
  }
};

using Slots = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("AM-1: each new word is stemmed once, and query words meet texts by their stem") {
  Texts texts;
  texts.put(0, "cats and dogs");
  CHECK(texts.stemmed == 3);
  texts.put(1, "cats cats cats");
  CHECK(texts.stemmed == 3);
  CHECK(texts.search("cat") == Slots{1, 0});  // "cat" itself was never indexed
  CHECK(texts.search("dogs") == Slots{0});
}

TEST_CASE("TOK-12: one identifier is looked up whole, in a longer query its parts count less") {
  Texts texts;
  texts.put(0, "get user name");
  texts.put(1, "call getUserName here and then do many other things with it");
  CHECK(texts.search("getUserName") == Slots{1});
  CHECK(texts.search("where is getUserName").front() == 1);
  CHECK(texts.search("setUserName") == Slots{0, 1});  // not in the index: its parts
  CHECK(texts.search("getusername") == Slots{1});     // its stem as a word
}

TEST_CASE("TOK-8: stop words are ignored beside other words, and count alone") {
  Texts texts;
  texts.put(0, "to be or not to be");
  texts.put(1, "the database");
  CHECK(texts.search("to be") == Slots{0});
  CHECK(texts.search("what is the database to be") == Slots{1});
}

TEST_CASE("IDX-2: words whose texts are gone are dropped in time; they can come back") {
  Texts texts;
  Slots gone;
  for (std::uint32_t slot = 0; slot < 1500; ++slot) {
    texts.put(slot, "common words number" + std::to_string(slot));
    if (slot > 0) gone.push_back(slot);
  }
  const auto bytes = texts.index.stats().vocabulary_bytes;
  CHECK(texts.index.erase(gone) == 1499);
  CHECK(texts.index.stats().bm25.dead_postings == 0);
  CHECK(texts.index.stats().vocabulary_bytes < bytes / 4);
  CHECK(texts.search("number0") == Slots{0});
  CHECK(texts.search("words") == Slots{0});
  CHECK(texts.search("number7") == Slots{0});  // absent: its parts, and one of them is known
  texts.put(7, "number7 is back");
  CHECK(texts.search("number7") == Slots{7});
}

TEST_CASE("readers beside a writer see whole batches, through additions, removals and compaction") {
  // Texts come and go in pairs that share two words, so a search sees both of a pair or none, and
  // both words or none.
  Texts texts;
  std::atomic<bool> done{false};
  std::atomic<int> torn{0};
  std::atomic<int> searches{0};
  TokenStream query;
  analyze(AnalyzerKind::Code, "leftword rightword", query);
  TokenStream left;
  analyze(AnalyzerKind::Code, "leftword", left);
  const Stems stems{{"leftword", "leftword"}, {"rightword", "rightword"}};
  std::vector<std::jthread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        const auto both = std::get<0>(texts.index.search(query, stems, 1000, nullptr));
        std::map<std::uint32_t, int> pairs;
        for (const Hit& hit : both) ++pairs[hit.slot / 2];
        for (const auto& [pair, n] : pairs) torn += n != 2 ? 1 : 0;
        for (const Hit& hit : both) {
          // One state: the same terms in all of them, so equal lengths give equal scores.
          torn += hit.score != both.front().score ? 1 : 0;
        }
        ++searches;
      }
    });
  }
  Random random(5);
  for (std::uint32_t step = 0; step < 3000 || searches < 20; ++step) {
    const std::uint32_t pair = random() % 50;
    const std::vector<std::uint32_t> slots{2 * pair, 2 * pair + 1};
    if (step % 3 == 2) {
      texts.index.erase(slots);
    } else {
      AnalysedBatch batch;
      TokenStream text;
      analyze(AnalyzerKind::Code, "leftword rightword filler" + std::to_string(step % 500), text);
      for (int i = 0; i < 2; ++i) {
        batch.begin_document();
        batch.add(text);
      }
      texts.answer([&](const Stems& known) { return texts.index.put(slots, {&batch, 1}, known); });
    }
    if (step % 200 == 199) texts.index.compact();
  }
  done = true;
  readers.clear();
  CHECK(torn == 0);
}

TEST_CASE("TOK-9: a position counts a stem once") {
  Texts texts;
  texts.put(0, "users-user");  // whole, and two parts with one stem
  TokenStream stream;
  analyze(AnalyzerKind::Code, "user", stream);
  const auto scores =
      texts.answer([&](const Stems& stems) { return texts.index.explain(stream, stems, 0); });
  REQUIRE(scores.size() == 1);
  CHECK(scores[0].score.f == 1);
  CHECK(scores[0].score.length == 1);
}
