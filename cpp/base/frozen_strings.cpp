#include "base/frozen_strings.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "base/hash.hpp"

namespace spector {

const char* FrozenStrings::fault(const Arrays& arrays) noexcept {
  const std::span<const std::uint32_t> ends = arrays.ends;
  bool sorted = true;  // without a branch: it is vectorised
  for (std::size_t i = 1; i < ends.size(); ++i) sorted &= ends[i - 1] <= ends[i];
  if (!sorted) return "a string ends before it begins";
  if ((ends.empty() ? 0 : ends.back()) != arrays.chars.size()) {
    return "the strings do not end where their bytes do";
  }
  return bucket_fault(arrays.buckets, ends.size());
}

const char* bucket_fault(std::span<const std::uint32_t> buckets, std::size_t n) noexcept {
  if (n == 0 && buckets.empty()) return nullptr;
  if (n >= UINT32_MAX || !std::has_single_bit(buckets.size())) {
    return "their number is wrong";
  }
  std::uint32_t free = 0;
  std::uint32_t highest = 0;
  for (const std::uint32_t bucket : buckets) {
    free |= bucket == 0 ? 1U : 0U;
    highest = std::max(highest, bucket);
  }
  // Looking for something ends at a free bucket.
  if (free == 0) return "none is free";
  if (highest > n) return "one is of nothing";
  return nullptr;
}

std::uint32_t FrozenStrings::find(std::string_view key) const noexcept {
  if (arrays_.buckets.empty()) return kNone;
  const std::size_t mask = arrays_.buckets.size() - 1;
  std::size_t bucket = table_hash(key, arrays_.seed) & mask;
  while (true) {
    const std::uint32_t entry = arrays_.buckets[bucket];
    if (entry == 0) return kNone;
    if ((*this)[entry - 1] == key) return entry - 1;
    bucket = (bucket + 1) & mask;
  }
}

void StringFreezer::add(std::string_view text) {
  if (chars_.size() + text.size() > UINT32_MAX || ends_.size() >= UINT32_MAX / 2) {
    throw Capacity("more than 4 GiB or 2,147,483,647 of terms or ids cannot be stored");
  }
  chars_.insert(chars_.end(), text.begin(), text.end());
  ends_.push_back(static_cast<std::uint32_t>(chars_.size()));
}

FrozenStrings::Arrays StringFreezer::finish(std::uint64_t seed) {
  // A quarter to half of the buckets are in use.
  buckets_.assign(ends_.empty() ? 0 : std::bit_ceil(ends_.size() * 2), 0);
  const FrozenStrings strings({ends_, chars_, buckets_, seed}, {});
  for (std::uint32_t i = 0; i < ends_.size(); ++i) {
    std::size_t bucket = table_hash(strings[i], seed) & (buckets_.size() - 1);
    while (buckets_[bucket] != 0) bucket = (bucket + 1) & (buckets_.size() - 1);
    buckets_[bucket] = i + 1;
  }
  return {ends_, chars_, buckets_, seed};
}

}  // namespace spector
