#include "lexical/row_table.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"

namespace spector {

RowTable::Table::Table(EpochDomain& epochs, FrozenStrings first_keys,
                       SharedSpan<std::uint32_t> first_rows, std::uint32_t n)
    : keys(epochs, std::move(first_keys)), rows(std::move(first_rows)), n_first(n) {
  for (const std::uint32_t row : rows.values) row_of_key.emplace_back(row);
}

std::uint32_t RowTable::Table::key(std::uint64_t row) const noexcept {
  if (row >= n_first) {
    const std::uint64_t i = row - n_first;
    return i < key_of_row.size() ? key_of_row[i].load(std::memory_order_acquire) : kNone;
  }
  const auto at = std::lower_bound(rows.values.begin(), rows.values.end(), row);
  if (at == rows.values.end() || *at != row) return kNone;
  const auto found = static_cast<std::uint32_t>(at - rows.values.begin());
  // It may have been removed since, and the id be back under another row.
  return row_of_key[found].load(std::memory_order_acquire) == row ? found : kNone;
}

RowTable::RowTable() : own_(new Table(epochs_)), table_(std::unique_ptr<const Table>(own_)) {}

std::vector<std::uint32_t> RowTable::assign(std::span<const std::string_view> ids) {
  const std::scoped_lock lock(writer_);
  Table& table = *own_;
  if (table.n_rows() + ids.size() >= kNone) {
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
      row = table.n_rows();
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
  if (row >= own_->n_first) {
    own_->key_of_row[row - own_->n_first].store(kNone, std::memory_order_release);
  }
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
  std::vector<std::pair<std::uint32_t, std::uint32_t>> live;  // row, key
  for (std::uint32_t key = 0; key < own_->keys.size(); ++key) {
    const std::uint32_t row = own_->row_of_key[key].load(std::memory_order_relaxed);
    if (row != kNone) live.emplace_back(row, key);
  }
  std::sort(live.begin(), live.end());
  const auto rows = std::make_shared<std::vector<std::uint32_t>>();
  for (const auto& [row, key] : live) rows->push_back(row);
  auto table = std::make_unique<Table>(epochs_, FrozenStrings(),
                                       SharedSpan<std::uint32_t>{*rows, rows}, own_->n_rows());
  for (const auto& [row, key] : live) table->keys.intern(own_->keys[key]);
  if (table->keys.size() != live.size()) {
    throw Corruption("an id occurs twice in the file that the index was loaded from; " +
                     std::string(kRebuildIndex));
  }
  return table;
}

std::uint32_t RowTable::freeze(std::span<const std::uint32_t> rows, StringFreezer& ids) const {
  const std::scoped_lock lock(writer_);
  for (const std::uint32_t row : rows) {
    const std::uint32_t key = own_->key(row);
    if (key == kNone) throw std::logic_error("a document without an id");
    ids.add(own_->keys[key]);
  }
  return own_->n_rows();
}

void RowTable::load(const IndexFile& file) {
  const std::scoped_lock lock(writer_);
  if (own_->n_rows() > 0) throw std::logic_error("the table has ids");
  auto table = std::make_unique<Table>(epochs_, file.ids(), file.slots(), file.next_row());
  Table* next = table.get();
  table_.publish(std::move(table), epochs_);
  own_ = next;
  size_.store(next->keys.size(), std::memory_order_release);
}

std::optional<std::uint32_t> RowTable::find(std::string_view id) const {
  const EpochDomain::Pin pin = epochs_.pin();
  const Table& table = table_.get(pin);
  const std::uint32_t key = table.keys.find(id);
  if (key == kNone) return std::nullopt;
  const std::uint32_t row = table.row_of_key[key].load(std::memory_order_acquire);
  return row == kNone ? std::nullopt : std::optional(row);
}

std::vector<std::uint32_t> RowTable::find_known(std::span<const std::string_view> ids) const {
  const EpochDomain::Pin pin = epochs_.pin();
  const Table& table = table_.get(pin);
  std::vector<std::uint32_t> rows;
  rows.reserve(ids.size());
  for (const std::string_view id : ids) {
    const std::uint32_t key = table.keys.find(id);
    if (key == kNone) continue;
    const std::uint32_t row = table.row_of_key[key].load(std::memory_order_acquire);
    if (row != kNone) rows.push_back(row);
  }
  return rows;
}

std::vector<std::optional<std::string>> RowTable::ids(std::span<const std::int64_t> rows) const {
  const EpochDomain::Pin pin = epochs_.pin();
  const Table& table = table_.get(pin);
  std::vector<std::optional<std::string>> ids;
  ids.reserve(rows.size());
  for (const std::int64_t row : rows) {
    const std::uint32_t key = row >= 0 ? table.key(static_cast<std::uint64_t>(row)) : kNone;
    ids.emplace_back(key == kNone ? std::optional<std::string>{} : std::string(table.keys[key]));
  }
  return ids;
}

std::size_t RowTable::memory_bytes() const {
  const std::scoped_lock lock(writer_);
  return own_->keys.memory_bytes() + own_->row_of_key.memory_bytes() +
         own_->rows.values.size_bytes() + own_->key_of_row.memory_bytes();
}

}  // namespace spector
