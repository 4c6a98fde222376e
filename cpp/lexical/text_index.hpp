// BM25 over texts: the analyzer, a vocabulary and a Bm25Index behind one published view.
//
// Stems come from outside (the stemmer is Python's), so an operation that meets words it has never
// seen changes nothing and answers NeedStems; the caller gets their stems and asks again. No lock
// is held meanwhile.
//
// All members may be called from any thread. `search`, `search_many`, `explain`, `contains` and
// `size` take no lock and never wait (IDX-5): they pin an epoch and read the view that was
// published last, in which a batch is there entirely or not at all. Writers wait for each other.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/epoch.hpp"
#include "base/string_table.hpp"
#include "lexical/analyzer.hpp"
#include "lexical/bm25_index.hpp"
#include "lexical/index_file.hpp"
#include "lexical/merge_thread.hpp"
#include "lexical/row_table.hpp"
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
  TextIndex(double k1, double b, bool stemming, bool stop_words, const MergePolicy& policy = {});

  // Documents of `batches`, in their order, under `slots` (as many), each replacing what the slot
  // held; of equal slots the last wins. Readers see all of them at once. Returns how many were put;
  // an exception (memory) leaves a prefix of them.
  OrNeedStems<std::size_t> put(std::span<const std::uint32_t> slots,
                               std::span<const AnalysedBatch> batches, const Stems& stems);

  // How many of the slots existed.
  std::size_t erase(std::span<const std::uint32_t> slots);

  [[nodiscard]] OrNeedStems<std::vector<Hit>> search(const TokenStream& query, const Stems& stems,
                                                     std::size_t k, const SlotSet* allow) const;

  // Many queries over one state of the index, on up to `threads` threads.
  [[nodiscard]] OrNeedStems<std::vector<std::vector<Hit>>> search_many(
      std::span<const TokenStream> queries, const Stems& stems, std::size_t k, std::size_t threads,
      const SlotSet* allow) const;

  [[nodiscard]] OrNeedStems<std::vector<TextTermScore>> explain(const TokenStream& query,
                                                                const Stems& stems,
                                                                std::uint32_t slot) const;

  void compact();
  // Waits until no merge goes on.
  void settle() { merges_.settle(); }
  // Writes the index with the ids of its slots to a file, compacting it first. No id may be added
  // or removed meanwhile.
  void save(const std::string& path, IndexSettings settings, const RowTable& rows);
  // Of an index that is empty and was made with the settings of the file.
  void load(const IndexFile& file);
  [[nodiscard]] bool contains(std::uint32_t slot) const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] TextIndexStats stats();

 private:
  struct View {
    const Vocabulary* vocabulary;
    Bm25State bm25;
  };

  [[nodiscard]] static std::vector<std::string> missing(const Vocabulary& vocabulary,
                                                        const TokenStream& stream,
                                                        const Stems& stems);
  // Query terms and weights by TOK-4, TOK-8 and TOK-12.
  [[nodiscard]] std::vector<QueryTerm> resolve(const View& view, const EpochDomain::Pin& pin,
                                               const TokenStream& query, const Stems& stems) const;
  // The terms of the tokens of a batch, kNone for those that are new.
  struct BatchTerms {
    std::vector<std::uint32_t> words;
    std::vector<std::uint32_t> exact;
  };
  // The rest needs writer_.
  void put_batch(std::span<const std::uint32_t> slots, const AnalysedBatch& batch,
                 BatchTerms& terms, const Stems& stems);
  void put_document(std::uint32_t slot, std::span<const std::uint32_t> tokens,
                    const BatchTerms& terms);
  void compact_unpublished();
  void drop_unused_terms();  // once much of the vocabulary has no document any more
  void put_documents();
  void publish();

  const bool stop_words_;
  mutable EpochDomain epochs_;  // outlives all that follows
  mutable std::mutex writer_;
  std::unique_ptr<Vocabulary> vocabulary_;
  Bm25Index index_;
  std::unique_ptr<Vocabulary> old_vocabulary_;  // of the published view
  Published<View> view_;
  // Scratch of put.
  Documents documents_;
  std::vector<std::uint32_t> occurrences_;
  std::vector<std::uint32_t> sorting_;
  std::vector<TermCount> counts_;

  MergeThread merges_;  // ends before the rest
};

}  // namespace spector
