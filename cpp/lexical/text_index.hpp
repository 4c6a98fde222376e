// BM25 over texts: the analyzer, a vocabulary and a Bm25Index under one lock.
//
// Stems come from outside (the stemmer is Python's), so an operation that meets words it has never
// seen changes nothing and answers NeedStems; the caller gets their stems and asks again. No lock
// is held meanwhile. All members may be called from any thread: readers run together, a writer has
// the index to itself while it applies a batch that was analysed before.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/fair_mutex.hpp"
#include "base/string_table.hpp"
#include "lexical/analyzer.hpp"
#include "lexical/bm25_index.hpp"
#include "lexical/vocabulary.hpp"

namespace spector {

// Documents after analysis and before anything of the index is touched.
class AnalysedBatch {
 public:
  void begin_document();
  // Appends to the newest document; its context and its text come as two streams (AM-3).
  void add(const TokenStream& stream);

  [[nodiscard]] std::size_t size() const noexcept { return document_begins_.size(); }

 private:
  friend class TextIndex;

  static constexpr std::uint32_t kFirst = 0x80000000U;  // marks the first token of a compound

  // A token is 2 * its number in one of the tables, + 1 for words.
  StringTable exact_;
  StringTable words_;
  std::vector<std::uint32_t> tokens_;
  std::vector<std::uint64_t> document_begins_;
};

struct NeedStems {
  std::vector<std::string> words;
};

template <class T>
using OrNeedStems = std::variant<T, NeedStems>;

struct TextTermScore {
  std::string term;
  TermScore score;
};

struct TextIndexStats {
  Bm25Stats bm25;
  std::uint64_t vocabulary_bytes;
};

class TextIndex {
 public:
  // `stop_words`: a query ignores tokens marked as function words (TOK-8).
  TextIndex(double k1, double b, bool stemming, bool stop_words)
      : stop_words_(stop_words), vocabulary_(stemming), index_(k1, b) {}

  // Documents of `batch` under `slots` (as many), each replacing what the slot held; of equal slots
  // the last wins. Returns how many were put; an exception (memory) leaves a prefix of them.
  OrNeedStems<std::size_t> put(std::span<const std::uint32_t> slots, const AnalysedBatch& batch,
                               const Stems& stems);

  // How many of the slots existed.
  std::size_t erase(std::span<const std::uint32_t> slots);

  [[nodiscard]] OrNeedStems<std::vector<Hit>> search(const TokenStream& query, const Stems& stems,
                                                     std::size_t k, const SlotSet* allow) const;

  // Many queries over one state of the index, on up to `threads` threads.
  [[nodiscard]] OrNeedStems<std::vector<std::vector<Hit>>> search_many(
      std::span<const TokenStream> queries, const Stems& stems, std::size_t k,
      std::size_t threads) const;

  [[nodiscard]] OrNeedStems<std::vector<TextTermScore>> explain(const TokenStream& query,
                                                                const Stems& stems,
                                                                std::uint32_t slot) const;

  void compact();
  [[nodiscard]] bool contains(std::uint32_t slot) const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] TextIndexStats stats() const;

 private:
  [[nodiscard]] std::vector<std::string> missing(const TokenStream& stream,
                                                 const Stems& stems) const;
  // Query terms and weights by TOK-4, TOK-8 and TOK-12.
  [[nodiscard]] std::vector<QueryTerm> resolve(const TokenStream& query, const Stems& stems) const;
  void compact_unlocked();
  void compact_if_wasteful() noexcept;

  const bool stop_words_;
  FairMutex mutex_;
  Vocabulary vocabulary_;
  Bm25Index index_;
};

}  // namespace spector
