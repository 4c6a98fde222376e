// Byte strings numbered from 0 in arrays that never change, such as those of a stored file, with a
// hash table that needs no building. Immutable: any thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace spector {

class FrozenStrings {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  // String i is chars[ends[i - 1], ends[i]). A string's number + 1 is in the first bucket that was
  // free from table_hash(string, seed) modulo the number of buckets on; others hold 0.
  struct Arrays {
    std::span<const std::uint32_t> ends;
    std::span<const char> chars;
    std::span<const std::uint32_t> buckets;
    std::uint64_t seed = 0;
  };

  // What is wrong with arrays that come from elsewhere, or null. FrozenStrings trusts its own.
  [[nodiscard]] static const char* fault(const Arrays& arrays) noexcept;

  FrozenStrings() = default;
  FrozenStrings(const Arrays& arrays, std::vector<std::shared_ptr<const void>> owners)
      : arrays_(arrays), owners_(std::move(owners)) {}

  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(arrays_.ends.size());
  }
  [[nodiscard]] std::string_view operator[](std::uint32_t number) const noexcept {
    const std::uint32_t begin = number == 0 ? 0 : arrays_.ends[number - 1];
    return {arrays_.chars.data() + begin, arrays_.ends[number] - begin};
  }
  // The number of `key`, or kNone.
  [[nodiscard]] std::uint32_t find(std::string_view key) const noexcept;

  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return arrays_.ends.size_bytes() + arrays_.chars.size_bytes() + arrays_.buckets.size_bytes();
  }

 private:
  Arrays arrays_;
  std::vector<std::shared_ptr<const void>> owners_;
};

// Makes such arrays: distinct strings, in the order of their numbers.
class StringFreezer {
 public:
  // Throws Capacity past 4 GiB in all or 2^31 strings.
  void add(std::string_view text);
  // Of the strings so far; valid until the next `add`.
  [[nodiscard]] FrozenStrings::Arrays finish(std::uint64_t seed);

 private:
  std::vector<std::uint32_t> ends_;
  std::vector<char> chars_;
  std::vector<std::uint32_t> buckets_;
};

}  // namespace spector
