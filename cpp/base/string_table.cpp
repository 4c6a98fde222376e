#include "base/string_table.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/load_line.hpp"

namespace spector {

namespace {

constexpr std::size_t kFirstBuckets = 64;
constexpr std::size_t kSmallestChunk = std::size_t{1} << 10;
constexpr std::size_t kLargestChunk = std::size_t{1} << 18;

// How many strings a table of so many buckets takes: at three quarters it is full.
constexpr std::size_t capacity(std::size_t n_buckets) noexcept { return n_buckets / 4 * 3; }

// What precedes the bytes of a string: its number, and its length in one byte, or this mark and
// eight.
constexpr unsigned char kLong = 0xff;

std::uint32_t number_of(const char* at) noexcept {
  std::uint32_t number = 0;
  std::memcpy(&number, at, sizeof number);
  return number;
}

std::string_view read(const char* at) noexcept {
  at += sizeof(std::uint32_t);
  const auto first = static_cast<unsigned char>(*at);
  if (first != kLong) return {at + 1, first};
  std::uint64_t size = 0;
  std::memcpy(&size, at + 1, sizeof size);
  return {at + 1 + sizeof size, static_cast<std::size_t>(size)};
}

// Pointers have 56 bits.
constexpr unsigned kHashShift = 56;
static_assert(sizeof(void*) == sizeof(std::uint64_t));

std::uint64_t entry_of(const char* at, std::uint32_t hash) noexcept {
  return std::bit_cast<std::uint64_t>(at) | std::uint64_t{hash >> 24} << kHashShift;
}
const char* string_of(std::uint64_t entry) noexcept {
  return std::bit_cast<const char*>(entry & ~(std::uint64_t{0xff} << kHashShift));
}

}  // namespace

StringTable::Table::Table(std::size_t n)
    : n_buckets(n),
      buckets(std::make_unique<std::atomic<std::uint64_t>[]>(n)),
      strings(std::make_unique_for_overwrite<const char*[]>(capacity(n))) {}

std::size_t StringTable::Table::bytes() const noexcept {
  return sizeof(Table) + n_buckets * sizeof(buckets[0]) + capacity(n_buckets) * sizeof(strings[0]);
}

void StringTable::Table::prefetch(std::uint32_t hash) const noexcept {
  prefetch_line(&buckets[hash & (n_buckets - 1)]);
}

void StringTable::Table::prefetch_string(std::uint32_t hash) const noexcept {
  prefetch_line(string_of(buckets[hash & (n_buckets - 1)].load(std::memory_order_relaxed)));
}

StringTable::~StringTable() { delete table_.load(std::memory_order_relaxed); }

void StringTable::swap(StringTable& other) noexcept {
  const auto exchange = [](auto& a, auto& b) {
    const auto value = a.load(std::memory_order_relaxed);
    a.store(b.load(std::memory_order_relaxed), std::memory_order_relaxed);
    b.store(value, std::memory_order_relaxed);
  };
  exchange(table_, other.table_);
  exchange(size_, other.size_);
  exchange(chunk_bytes_, other.chunk_bytes_);
  std::swap(domain_, other.domain_);
  std::swap(first_, other.first_);
  std::swap(chunks_, other.chunks_);
  std::swap(free_, other.free_);
  std::swap(n_free_, other.n_free_);
}

std::uint32_t StringTable::hash(std::string_view key) noexcept {
  return static_cast<std::uint32_t>(table_hash(key, process_seed()) >> 32);
}

StringTable::Place StringTable::locate(const Table& table, std::string_view key,
                                       std::uint32_t hash) noexcept {
  const std::size_t mask = table.n_buckets - 1;
  std::size_t bucket = hash & mask;
  while (true) {
    // Acquire: with the entry the string itself is seen.
    const std::uint64_t entry = table.buckets[bucket].load(std::memory_order_acquire);
    if (entry == 0) return {bucket, nullptr};
    if (entry >> kHashShift == hash >> 24) {
      const char* const string = string_of(entry);
      if (read(string) == key) return {bucket, string};
    }
    bucket = (bucket + 1) & mask;
  }
}

std::size_t StringTable::empty_bucket(const Table& table, std::uint32_t hash) noexcept {
  const std::size_t mask = table.n_buckets - 1;
  std::size_t bucket = hash & mask;
  while (table.buckets[bucket].load(std::memory_order_relaxed) != 0) bucket = (bucket + 1) & mask;
  return bucket;
}

std::uint32_t StringTable::find(std::string_view key) const noexcept {
  const std::uint32_t stored = first_.find(key);
  if (stored != kNone) return stored;
  const Table* table = table_.load(std::memory_order_acquire);  // with what `grow` copied
  if (table == nullptr) return kNone;
  const char* const string = locate(*table, key, hash(key)).string;
  return string == nullptr ? kNone : first_.size() + number_of(string);
}

void StringTable::find_all(const StringTable& keys,
                           std::span<std::uint32_t> numbers) const noexcept {
  constexpr std::size_t kTogether = 32;
  const Table* table = table_.load(std::memory_order_acquire);
  for (std::size_t begin = 0; begin < numbers.size(); begin += kTogether) {
    const std::span<std::uint32_t> some =
        numbers.subspan(begin, std::min(kTogether, numbers.size() - begin));
    std::array<std::string_view, kTogether> texts;
    std::array<std::uint32_t, kTogether> hashes;
    for (std::size_t i = 0; i < some.size(); ++i) {
      texts[i] = keys[static_cast<std::uint32_t>(begin + i)];
      some[i] = first_.find(texts[i]);
      hashes[i] = hash(texts[i]);
      if (table != nullptr) table->prefetch(hashes[i]);
    }
    if (table == nullptr) continue;
    for (std::size_t i = 0; i < some.size(); ++i) table->prefetch_string(hashes[i]);
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (some[i] != kNone) continue;
      const char* const string = locate(*table, texts[i], hashes[i]).string;
      if (string != nullptr) some[i] = first_.size() + number_of(string);
    }
  }
}

void StringTable::prefetch(std::uint32_t hash) const noexcept {
  const Table* table = table_.load(std::memory_order_acquire);
  if (table != nullptr) table->prefetch(hash);
}

void StringTable::prefetch_string(std::uint32_t hash) const noexcept {
  const Table* table = table_.load(std::memory_order_acquire);
  if (table != nullptr) table->prefetch_string(hash);
}

std::string_view StringTable::operator[](std::uint32_t number) const noexcept {
  if (number < first_.size()) return first_[number];
  // Whoever knows the number sees a table at least as new as the string.
  return read(table_.load(std::memory_order_acquire)->strings[number - first_.size()]);
}

std::uint32_t StringTable::intern(std::string_view key, std::uint32_t hash) {
  const std::uint32_t stored = first_.find(key);
  if (stored != kNone) return stored;
  Table* table = table_.load(std::memory_order_relaxed);  // only the writer stores it
  if (table == nullptr) table = grow();
  Place place = locate(*table, key, hash);
  if (place.string != nullptr) return first_.size() + number_of(place.string);

  const std::uint32_t size = size_.load(std::memory_order_relaxed);
  const std::uint32_t number = size - first_.size();
  if (size >= kNone - 1) throw Capacity("more than 4,294,967,294 distinct strings");
  if (number == capacity(table->n_buckets)) {
    table = grow();
    place.bucket = empty_bucket(*table, hash);
  }
  const char* const string = write(key, number);  // the last step that can throw
  table->strings[number] = string;
  table->buckets[place.bucket].store(entry_of(string, hash),
                                     std::memory_order_release);  // see `locate`
  size_.store(size + 1, std::memory_order_release);
  return size;
}

StringTable::Table* StringTable::grow() {
  Table* old = table_.load(std::memory_order_relaxed);
  auto grown = std::make_unique<Table>(old == nullptr ? kFirstBuckets : old->n_buckets * 2);
  if (old != nullptr) {
    if (domain_ != nullptr) domain_->reserve(1);
    // In the order of the numbers, in which the strings lie.
    const std::size_t n = size_.load(std::memory_order_relaxed) - first_.size();
    for (std::size_t i = 0; i < n; ++i) {
      const char* const string = old->strings[i];
      const std::uint32_t hash = StringTable::hash(read(string));
      grown->strings[i] = string;
      grown->buckets[empty_bucket(*grown, hash)].store(entry_of(string, hash),
                                                       std::memory_order_relaxed);
    }
  }
  Table* const table = grown.release();
  table_.store(table, std::memory_order_release);
  std::unique_ptr<Table> replaced(old);
  if (replaced != nullptr && domain_ != nullptr) {
    const std::size_t bytes = replaced->bytes();
    domain_->retire(std::move(replaced), bytes);
  }
  return table;
}

const char* StringTable::write(std::string_view key, std::uint32_t number) {
  const std::size_t bytes =
      sizeof number + key.size() + (key.size() < kLong ? 1 : 1 + sizeof(std::uint64_t));
  char* at = free_;
  if (bytes <= n_free_) {
    free_ += bytes;
    n_free_ -= bytes;
  } else {
    // Chunks grow with the table. A string that would take much of one has its own, and the rest
    // of the present one remains in use.
    const std::size_t total = chunk_bytes_.load(std::memory_order_relaxed);
    const std::size_t usual = std::clamp(total, kSmallestChunk, kLargestChunk);
    const std::size_t size = bytes > usual / 4 ? bytes : usual;
    chunks_.push_back(std::make_unique_for_overwrite<char[]>(size));
    chunk_bytes_.store(total + size, std::memory_order_relaxed);
    at = chunks_.back().get();
    if (size == usual) {
      free_ = at + bytes;
      n_free_ = size - bytes;
    }
  }
  char* out = at;
  std::memcpy(out, &number, sizeof number);
  out += sizeof number;
  if (key.size() < kLong) {
    *out++ = static_cast<char>(key.size());
  } else {
    const std::uint64_t size = key.size();
    *out++ = static_cast<char>(kLong);
    std::memcpy(out, &size, sizeof size);
    out += sizeof size;
  }
  std::copy(key.begin(), key.end(), out);
  return at;
}

std::size_t StringTable::memory_bytes() const noexcept {
  const Table* table = table_.load(std::memory_order_acquire);
  return first_.memory_bytes() + (table == nullptr ? 0 : table->bytes()) +
         chunk_bytes_.load(std::memory_order_relaxed);
}

}  // namespace spector
