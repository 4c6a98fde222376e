#include "base/string_table.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"

namespace spector {

std::size_t StringTable::bucket_of(std::string_view key, std::uint32_t hash) const noexcept {
  const std::size_t mask = buckets_.size() - 1;
  std::size_t bucket = hash & mask;
  while (buckets_[bucket] != kNone) {
    const std::uint32_t number = buckets_[bucket];
    if (hashes_[number] == hash && (*this)[number] == key) break;
    bucket = (bucket + 1) & mask;
  }
  return bucket;
}

std::uint32_t StringTable::intern(std::string_view key) {
  if ((size() + 1) * 4 > buckets_.size() * 3) grow();
  const auto hash = static_cast<std::uint32_t>(table_hash(key, process_seed()) >> 32);
  const std::size_t bucket = bucket_of(key, hash);
  if (buckets_[bucket] != kNone) return buckets_[bucket];
  if (size() >= kNone - 1) throw Capacity("more than 4,294,967,294 distinct strings");
  const auto number = static_cast<std::uint32_t>(size());
  ends_.reserve(ends_.size() + 1 > ends_.capacity() ? ends_.size() * 2 : 0);
  hashes_.reserve(hashes_.size() + 1 > hashes_.capacity() ? hashes_.size() * 2 + 1 : 0);
  chars_.append(key);  // the last step that can throw
  ends_.push_back(chars_.size());
  hashes_.push_back(hash);
  buckets_[bucket] = number;
  return number;
}

std::uint32_t StringTable::find(std::string_view key) const noexcept {
  if (buckets_.empty()) return kNone;
  const auto hash = static_cast<std::uint32_t>(table_hash(key, process_seed()) >> 32);
  return buckets_[bucket_of(key, hash)];
}

void StringTable::grow() {
  std::vector<std::uint32_t> buckets(buckets_.empty() ? 64 : buckets_.size() * 2, kNone);
  const std::size_t mask = buckets.size() - 1;
  for (std::uint32_t number = 0; number < size(); ++number) {
    std::size_t bucket = hashes_[number] & mask;
    while (buckets[bucket] != kNone) bucket = (bucket + 1) & mask;
    buckets[bucket] = number;
  }
  buckets_ = std::move(buckets);
}

std::size_t StringTable::memory_bytes() const noexcept {
  return chars_.capacity() + ends_.capacity() * sizeof(ends_[0]) +
         (hashes_.capacity() + buckets_.capacity()) * sizeof(hashes_[0]);
}

}  // namespace spector
