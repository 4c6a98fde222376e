#include "lexical/row_table.hpp"

#include <utility>

#include "base/error.hpp"

namespace spector {

RowTable::RowTable() : own_(new Table(epochs_)), table_(std::unique_ptr<const Table>(own_)) {}

std::vector<std::uint32_t> RowTable::assign(std::span<const std::string_view> ids) {
  const std::scoped_lock lock(writer_);
  Table& table = *own_;
  if (table.key_of_row.size() + ids.size() >= kNone) {
    throw Capacity("more than 4,294,967,294 documents");
  }
  std::vector<std::uint32_t> rows;
  rows.reserve(ids.size());
  for (const std::string_view id : ids) {
    const auto next_key = static_cast<std::uint32_t>(table.keys.size());
    if (table.row_of_key.size() == next_key) table.row_of_key.emplace_back(kNone);
    const std::uint32_t key = table.keys.intern(id);
    std::uint32_t row = table.row_of_key[key].load(std::memory_order_relaxed);
    if (row == kNone) {
      row = static_cast<std::uint32_t>(table.key_of_row.size());
      table.key_of_row.emplace_back(key);
      table.row_of_key[key].store(row, std::memory_order_release);
      size_.fetch_add(1, std::memory_order_release);
    }
    rows.push_back(row);
  }
  return rows;
}

std::optional<std::uint32_t> RowTable::remove(std::string_view id) {
  const std::scoped_lock lock(writer_);
  const std::uint32_t key = own_->keys.find(id);
  if (key == kNone) return std::nullopt;
  const std::uint32_t row = own_->row_of_key[key].load(std::memory_order_relaxed);
  if (row == kNone) return std::nullopt;
  own_->row_of_key[key].store(kNone, std::memory_order_release);
  own_->key_of_row[row].store(kNone, std::memory_order_release);
  size_.fetch_sub(1, std::memory_order_release);
  if (own_->keys.size() > 2 * size() + 1024) {
    auto table = without_removed();
    const std::size_t old_bytes = own_->keys.memory_bytes();
    Table* next = table.get();
    table_.publish(std::move(table), epochs_, old_bytes);
    own_ = next;
  }
  return row;
}

std::unique_ptr<RowTable::Table> RowTable::without_removed() const {
  auto table = std::make_unique<Table>(epochs_);
  table->key_of_row.grow_to(own_->key_of_row.size(), kNone);
  for (std::uint32_t key = 0; key < own_->keys.size(); ++key) {
    const std::uint32_t row = own_->row_of_key[key].load(std::memory_order_relaxed);
    if (row == kNone) continue;
    table->row_of_key.emplace_back(row);
    table->key_of_row[row].store(table->keys.intern(own_->keys[key]), std::memory_order_relaxed);
  }
  return table;
}

std::optional<std::uint32_t> RowTable::find(std::string_view id) const {
  const EpochDomain::Pin pin = epochs_.pin();
  const Table& table = table_.get(pin);
  const std::uint32_t key = table.keys.find(id);
  if (key == kNone) return std::nullopt;
  const std::uint32_t row = table.row_of_key[key].load(std::memory_order_acquire);
  return row == kNone ? std::nullopt : std::optional(row);
}

std::vector<std::optional<std::string>> RowTable::ids(std::span<const std::int64_t> rows) const {
  const EpochDomain::Pin pin = epochs_.pin();
  const Table& table = table_.get(pin);
  const std::size_t n_rows = table.key_of_row.size();
  std::vector<std::optional<std::string>> ids;
  ids.reserve(rows.size());
  for (const std::int64_t row : rows) {
    const std::uint32_t key =
        row >= 0 && static_cast<std::size_t>(row) < n_rows
            ? table.key_of_row[static_cast<std::size_t>(row)].load(std::memory_order_acquire)
            : kNone;
    ids.emplace_back(key == kNone ? std::optional<std::string>{} : std::string(table.keys[key]));
  }
  return ids;
}

std::size_t RowTable::memory_bytes() const {
  const std::scoped_lock lock(writer_);
  return own_->keys.memory_bytes() + own_->row_of_key.memory_bytes() +
         own_->key_of_row.memory_bytes();
}

}  // namespace spector
