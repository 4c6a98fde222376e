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
#include "base/string_table.hpp"

namespace spector {

class RowTable {
 public:
  RowTable();

  // The row of each id, a new one for an id that has none. Equal ids get equal rows.
  std::vector<std::uint32_t> assign(std::span<const std::string_view> ids);

  // The row the id had; the id is unknown from now on.
  std::optional<std::uint32_t> remove(std::string_view id);

  [[nodiscard]] std::optional<std::uint32_t> find(std::string_view id) const;

  // The id of each row; nothing for a row that was removed.
  [[nodiscard]] std::vector<std::optional<std::string>> ids(
      std::span<const std::int64_t> rows) const;

  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  static constexpr std::uint32_t kNone = StringTable::kNone;
  using Column = ChunkedArray<std::atomic<std::uint32_t>>;

  // Replaced as a whole when most of its strings are of removed ids.
  struct Table {
    explicit Table(EpochDomain& epochs) : keys(epochs) {}
    StringTable keys;
    Column row_of_key;  // kNone: removed; written before the key can be found
    Column key_of_row;
  };

  [[nodiscard]] std::unique_ptr<Table> without_removed() const;

  mutable EpochDomain epochs_;  // outlives all that follows
  mutable std::mutex writer_;
  Table* own_;  // the published table, for the writer
  Published<Table> table_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace spector
