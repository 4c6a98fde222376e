// Distinct byte strings numbered from 0 in order of arrival: terms, words, document ids.
//
// Strings live in one growing arena, the hash table holds numbers only; nothing is allocated per
// string. Numbers never change; entries are dropped by building a new table. Reads may run
// together; `intern` needs the table to itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spector {

class StringTable {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  // The number of `key`, a new one if it was not there. Throws Capacity past 2^32-2 strings.
  std::uint32_t intern(std::string_view key);

  // The number of `key`, or kNone.
  [[nodiscard]] std::uint32_t find(std::string_view key) const noexcept;

  [[nodiscard]] std::string_view operator[](std::uint32_t number) const noexcept {
    return std::string_view(chars_).substr(ends_[number], ends_[number + 1] - ends_[number]);
  }
  [[nodiscard]] std::size_t size() const noexcept { return hashes_.size(); }
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

 private:
  // The bucket that holds `key`, or the empty one where it belongs.
  [[nodiscard]] std::size_t bucket_of(std::string_view key, std::uint32_t hash) const noexcept;
  void grow();

  std::string chars_;
  std::vector<std::uint64_t> ends_{0};  // string i is chars_[ends_[i], ends_[i + 1])
  std::vector<std::uint32_t> hashes_;   // so that growing never touches the strings
  std::vector<std::uint32_t> buckets_;  // numbers, kNone when empty; a power of two
};

}  // namespace spector
