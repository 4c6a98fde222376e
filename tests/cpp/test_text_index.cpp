#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lexical/text_index.hpp"

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
    answer([&](const Stems& stems) { return index.put(slots, batch, stems); });
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

TEST_CASE("IDX-2: compaction drops words whose texts are gone; they can come back") {
  Texts texts;
  for (std::uint32_t slot = 0; slot < 50; ++slot) {
    texts.put(slot, "common words number" + std::to_string(slot));
  }
  const auto bytes = texts.index.stats().vocabulary_bytes;
  Slots gone;
  for (std::uint32_t slot = 1; slot < 50; ++slot) gone.push_back(slot);
  CHECK(texts.index.erase(gone) == 49);
  CHECK(texts.index.stats().bm25.dead_postings == 0);
  CHECK(texts.index.stats().vocabulary_bytes < bytes);
  CHECK(texts.search("number0") == Slots{0});
  CHECK(texts.search("number7") == Slots{0});  // absent: its parts, and one of them is known
  CHECK(texts.search("words") == Slots{0});
  texts.put(7, "number7 is back");
  CHECK(texts.search("number7") == Slots{7});
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
