// External ids of documents and their rows: numbers in order of first insertion, never used again
// after a removal. Thread-safe; readers run together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fair_mutex.hpp"
#include "base/string_table.hpp"

namespace spector {

class RowTable {
 public:
  // The row of each id, a new one for an id that has none. Equal ids get equal rows.
  std::vector<std::uint32_t> assign(std::span<const std::string_view> ids);

  // The row the id had; the id is unknown from now on.
  std::optional<std::uint32_t> remove(std::string_view id);

  [[nodiscard]] std::optional<std::uint32_t> find(std::string_view id) const;

  // The id of each row; nothing for a row that was removed.
  [[nodiscard]] std::vector<std::optional<std::string>> ids(
      std::span<const std::int64_t> rows) const;

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  static constexpr std::uint32_t kNone = StringTable::kNone;

  FairMutex mutex_;
  StringTable keys_;
  std::vector<std::uint32_t> row_of_key_;  // kNone: removed
  std::vector<std::uint32_t> key_of_row_;
  std::size_t size_ = 0;
};

}  // namespace spector
