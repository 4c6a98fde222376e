// u32 keys to u32 values by open addressing; entries are never removed. Reads may run together.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace spector {

class U32Map {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;  // no value; not allowed as one

  [[nodiscard]] std::uint32_t find(std::uint32_t key) const noexcept {
    return buckets_.empty() ? kNone : buckets_[bucket_of(key)].second;
  }

  // The value of `key`, set to `value` if it had none.
  std::uint32_t insert(std::uint32_t key, std::uint32_t value) {
    if ((size_ + 1) * 4 > buckets_.size() * 3) grow();
    Bucket& bucket = buckets_[bucket_of(key)];
    if (bucket.second == kNone) {
      bucket = {key, value};
      ++size_;
    }
    return bucket.second;
  }

  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [key, value] : buckets_) {
      if (value != kNone) visit(key, value);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return buckets_.capacity() * sizeof(Bucket);
  }

 private:
  using Bucket = std::pair<std::uint32_t, std::uint32_t>;

  [[nodiscard]] std::size_t bucket_of(std::uint32_t key) const noexcept {
    const std::size_t mask = buckets_.size() - 1;
    std::size_t bucket = (key * std::uint64_t{0x9e3779b97f4a7c15} >> 32) & mask;
    while (buckets_[bucket].second != kNone && buckets_[bucket].first != key) {
      bucket = (bucket + 1) & mask;
    }
    return bucket;
  }

  void grow() {
    std::vector<Bucket> old(buckets_.empty() ? 64 : buckets_.size() * 2, Bucket{0, kNone});
    old.swap(buckets_);
    for (const Bucket& bucket : old) {
      if (bucket.second != kNone) buckets_[bucket_of(bucket.first)] = bucket;
    }
  }

  std::vector<Bucket> buckets_;
  std::size_t size_ = 0;
};

}  // namespace spector
