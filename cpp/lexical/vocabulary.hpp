// The terms of an index: what a token of the analyzer is looked up as.
//
// A token is looked up as it stands, or, if it is a `word` and stems are in use, as its stem; the
// table of words remembers the stem of each word seen, so that the stemmer runs once per new word
// (AM-1). Words and terms have separate numberings. Reads may run together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/string_table.hpp"

namespace spector {

// Word to stem, for the words a vocabulary does not know yet.
using Stems = std::unordered_map<std::string, std::string>;

class Vocabulary {
 public:
  static constexpr std::uint32_t kNone = StringTable::kNone;

  // `stemming`: words become their stems; else they are terms as they stand.
  explicit Vocabulary(bool stemming) : stemming_(stemming) {}

  [[nodiscard]] bool stemming() const noexcept { return stemming_; }

  // True if looking `text` up needs a stem that is not known here.
  [[nodiscard]] bool needs_stem(std::string_view text, bool word) const noexcept {
    return word && stemming_ && words_.find(text) == kNone;
  }

  // The term's number or kNone. `stems` must hold the stem where `needs_stem`.
  [[nodiscard]] std::uint32_t find(std::string_view text, bool word, const Stems& stems) const;

  // The same, entering what is new.
  std::uint32_t intern(std::string_view text, bool word, const Stems& stems);

  [[nodiscard]] std::string_view term(std::uint32_t number) const noexcept {
    return terms_[number];
  }
  [[nodiscard]] std::size_t size() const noexcept { return terms_.size(); }
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

  // A copy in which term t has number numbers[t]; `dropped` ones and their words are left out.
  [[nodiscard]] Vocabulary renumbered(std::span<const std::uint32_t> numbers,
                                      std::uint32_t dropped) const;

 private:
  bool stemming_;
  StringTable terms_;
  StringTable words_;
  std::vector<std::uint32_t> word_terms_;  // by word number
};

}  // namespace spector
