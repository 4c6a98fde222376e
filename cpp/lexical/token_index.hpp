// BM25 over documents that come as token ids: a Bm25Index whose terms are the caller's u32 ids.
// Threads as in TextIndex.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/epoch.hpp"
#include "base/u32_map.hpp"
#include "lexical/bm25_index.hpp"
#include "lexical/index_file.hpp"
#include "lexical/merge_thread.hpp"
#include "lexical/row_table.hpp"

namespace spector {

// A list of token lists: list i is ids[ends[i], ends[i + 1]); ends[0] = 0, ascending.
struct TokenLists {
  std::span<const std::int64_t> ends;
  std::span<const std::uint32_t> ids;

  [[nodiscard]] std::size_t size() const noexcept { return ends.size() - 1; }
  [[nodiscard]] std::span<const std::uint32_t> operator[](std::size_t i) const noexcept {
    return ids.subspan(static_cast<std::size_t>(ends[i]),
                       static_cast<std::size_t>(ends[i + 1] - ends[i]));
  }
};

class TokenIndex {
 public:
  TokenIndex(double k1, double b, const MergePolicy& policy = {});

  void put(std::span<const std::uint32_t> slots, const TokenLists& documents);
  std::size_t erase(std::span<const std::uint32_t> slots);

  [[nodiscard]] std::vector<Hit> search(std::span<const std::uint32_t> query, std::size_t k,
                                        const SlotSet* allow = nullptr) const;
  [[nodiscard]] std::vector<std::vector<Hit>> search_many(const TokenLists& queries, std::size_t k,
                                                          std::size_t threads,
                                                          const SlotSet* allow = nullptr) const;

  void compact();
  // Waits until no merge goes on.
  void settle() { merges_.settle(); }
  // As in TextIndex.
  void save(const std::string& path, IndexSettings settings, const RowTable& rows);
  void load(const IndexFile& file);
  [[nodiscard]] bool contains(std::uint32_t slot) const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] Bm25Stats stats();

 private:
  struct View {
    const U32Map* terms;  // token id -> term number
    Bm25State bm25;
  };

  [[nodiscard]] static std::vector<QueryTerm> resolve(const View& view,
                                                      std::span<const std::uint32_t> query);
  // The rest needs writer_.
  void put_document(std::uint32_t slot, std::span<const std::uint32_t> tokens);
  void compact_unpublished();
  void drop_unused_terms();  // once many of the token ids have no document any more
  void put_documents();
  void publish();

  mutable EpochDomain epochs_;  // outlives all that follows
  mutable std::mutex writer_;
  std::unique_ptr<U32Map> terms_;
  Bm25Index index_;
  std::unique_ptr<U32Map> old_terms_;  // of the published view
  Published<View> view_;
  // Scratch of put.
  Documents documents_;
  std::vector<std::uint32_t> tokens_;
  std::vector<TermCount> counts_;

  MergeThread merges_;  // ends before the rest
};

}  // namespace spector
