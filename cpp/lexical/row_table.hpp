// External ids of documents and their rows: numbers in order of first insertion, never used again
// after a removal. Any thread may call; `find`, `ids` and `size` take no lock, writers wait for
// each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/chunked_array.hpp"
#include "base/epoch.hpp"
#include "base/frozen_strings.hpp"
#include "base/string_table.hpp"
#include "lexical/index_file.hpp"

namespace spector {

class RowTable {
 public:
  RowTable();

  // The row of each id, a new one for an id that has none. Equal ids get equal rows.
  std::vector<std::uint32_t> assign(std::span<const std::string_view> ids);

  // The row the id had; the id is unknown from now on.
  std::optional<std::uint32_t> remove(std::string_view id);

  [[nodiscard]] std::optional<std::uint32_t> find(std::string_view id) const;
  // The rows of those ids that have one, in their order.
  [[nodiscard]] std::vector<std::uint32_t> find_known(std::span<const std::string_view> ids) const;

  // The id of each row; nothing for a row that was removed.
  [[nodiscard]] std::vector<std::optional<std::string>> ids(
      std::span<const std::int64_t> rows) const;

  // Adds the ids of the given rows (which ascend) to `ids`, and returns what row a new id would
  // get. No id may be added or removed meanwhile.
  std::uint32_t freeze(std::span<const std::uint32_t> rows, StringFreezer& ids) const;
  // Of an empty table: takes ids and rows from a file.
  void load(const IndexFile& file);

  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  static constexpr std::uint32_t kNone = StringTable::kNone;
  using Column = ChunkedArray<std::atomic<std::uint32_t>>;

  // Replaced as a whole when most of its strings are of removed ids.
  struct Table {
    explicit Table(EpochDomain& epochs) : keys(epochs) {}
    // Key i of the table's beginning has rows[i]; the other keys have rows from n_first on.
    Table(EpochDomain& epochs, FrozenStrings first_keys, SharedSpan<std::uint32_t> first_rows,
          std::uint32_t n_first);

    // The key of a row, kNone for one that was removed or never given.
    [[nodiscard]] std::uint32_t key(std::uint64_t row) const noexcept;
    [[nodiscard]] std::uint32_t n_rows() const noexcept {
      return n_first + static_cast<std::uint32_t>(key_of_row.size());
    }

    StringTable keys;
    Column row_of_key;               // kNone: removed; written before the key can be found
    SharedSpan<std::uint32_t> rows;  // ascending
    std::uint32_t n_first = 0;
    Column key_of_row;  // from n_first on
  };

  [[nodiscard]] std::unique_ptr<Table> without_removed() const;

  mutable EpochDomain epochs_;  // outlives all that follows
  mutable std::mutex writer_;
  Table* own_;  // the published table, for the writer
  Published<Table> table_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace spector
