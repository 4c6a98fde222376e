#include "lexical/row_table.hpp"

#include <utility>

#include "base/error.hpp"

namespace spector {

std::vector<std::uint32_t> RowTable::assign(std::span<const std::string_view> ids) {
  const auto lock = mutex_.write();
  if (key_of_row_.size() + ids.size() >= kNone) throw Capacity("more than 4,294,967,294 documents");
  std::vector<std::uint32_t> rows;
  rows.reserve(ids.size());
  for (const std::string_view id : ids) {
    const std::uint32_t key = keys_.intern(id);
    if (key >= row_of_key_.size()) row_of_key_.resize(key + std::size_t{1}, kNone);
    if (row_of_key_[key] == kNone) {
      key_of_row_.push_back(key);
      row_of_key_[key] = static_cast<std::uint32_t>(key_of_row_.size() - 1);
      ++size_;
    }
    rows.push_back(row_of_key_[key]);
  }
  return rows;
}

std::optional<std::uint32_t> RowTable::remove(std::string_view id) {
  const auto lock = mutex_.write();
  const std::uint32_t key = keys_.find(id);
  if (key == kNone || row_of_key_[key] == kNone) return std::nullopt;
  const std::uint32_t row = std::exchange(row_of_key_[key], kNone);
  key_of_row_[row] = kNone;
  --size_;
  if (keys_.size() > 2 * size_ + 64) {  // the strings of removed ids outweigh the others
    StringTable keys;
    std::vector<std::uint32_t> row_of_key;
    for (std::uint32_t old = 0; old < keys_.size(); ++old) {
      if (row_of_key_[old] == kNone) continue;
      keys.intern(keys_[old]);
      row_of_key.push_back(row_of_key_[old]);
    }
    for (std::uint32_t kept = 0; kept < row_of_key.size(); ++kept) {
      key_of_row_[row_of_key[kept]] = kept;
    }
    keys_ = std::move(keys);
    row_of_key_ = std::move(row_of_key);
  }
  return row;
}

std::optional<std::uint32_t> RowTable::find(std::string_view id) const {
  const auto lock = mutex_.read();
  const std::uint32_t key = keys_.find(id);
  if (key == kNone || row_of_key_[key] == kNone) return std::nullopt;
  return row_of_key_[key];
}

std::vector<std::optional<std::string>> RowTable::ids(std::span<const std::int64_t> rows) const {
  const auto lock = mutex_.read();
  std::vector<std::optional<std::string>> ids;
  ids.reserve(rows.size());
  for (const std::int64_t row : rows) {
    const std::uint32_t key = row >= 0 && static_cast<std::size_t>(row) < key_of_row_.size()
                                  ? key_of_row_[static_cast<std::size_t>(row)]
                                  : kNone;
    ids.emplace_back(key == kNone ? std::optional<std::string>{} : std::string(keys_[key]));
  }
  return ids;
}

std::size_t RowTable::size() const {
  const auto lock = mutex_.read();
  return size_;
}

std::size_t RowTable::memory_bytes() const {
  const auto lock = mutex_.read();
  return keys_.memory_bytes() +
         (row_of_key_.capacity() + key_of_row_.capacity()) * sizeof(key_of_row_[0]);
}

}  // namespace spector
