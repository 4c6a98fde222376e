// The terms of an index: what a token of the analyzer is looked up as.
//
// A token is looked up as it stands, or, if it is a `word` and stems are in use, as its stem; the
// table of words remembers the stem of each word seen, so that the stemmer runs once per new word
// (AM-1). Words and terms have separate numberings. Readers under a Pin run beside one writer
// (`intern`, `renumbered`).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/append_array.hpp"
#include "base/epoch.hpp"
#include "base/string_table.hpp"

namespace spector {

// Word to stem, for the words a vocabulary does not know yet.
using Stems = std::unordered_map<std::string, std::string>;

class Vocabulary {
 public:
  static constexpr std::uint32_t kNone = StringTable::kNone;

  // `stemming`: words become their stems; else they are terms as they stand.
  Vocabulary(bool stemming, EpochDomain& epochs)
      : epochs_(epochs), stemming_(stemming), terms_(epochs), words_(epochs) {}

  // Of a stored file: word i has the term word_terms[i].
  Vocabulary(bool stemming, EpochDomain& epochs, FrozenStrings terms, FrozenStrings words,
             std::span<const std::uint32_t> word_terms);

  [[nodiscard]] bool stemming() const noexcept { return stemming_; }

  // True if looking `text` up needs a stem that is not known here.
  [[nodiscard]] bool needs_stem(std::string_view text, bool word) const noexcept {
    return word && stemming_ && words_.find(text) == kNone;
  }

  // The term's number or kNone. `stems` must hold the stem where `needs_stem`.
  [[nodiscard]] std::uint32_t find(std::string_view text, bool word, const Stems& stems,
                                   const EpochDomain::Pin& pin) const;

  [[nodiscard]] std::string_view term(std::uint32_t number) const noexcept {
    return terms_[number];
  }
  [[nodiscard]] std::size_t size() const noexcept { return terms_.size(); }
  // The words whose stems are known, and the term of each.
  [[nodiscard]] const StringTable& words() const noexcept { return words_; }
  [[nodiscard]] std::span<const std::uint32_t> word_terms() const noexcept {
    return word_terms_.view().first(words_.size());
  }
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

  // Writer: the terms of many texts, kNone where `intern` has something to do.
  [[nodiscard]] std::vector<std::uint32_t> find_all(const StringTable& texts, bool word) const;
  // Writer: the term's number, a new one for what is new.
  std::uint32_t intern(std::string_view text, bool word, const Stems& stems);

  // Writer: a copy in which term t has number numbers[t], which ascend; `dropped` ones and their
  // words are left out.
  [[nodiscard]] std::unique_ptr<Vocabulary> renumbered(std::span<const std::uint32_t> numbers,
                                                       std::uint32_t dropped) const;

 private:
  EpochDomain& epochs_;
  bool stemming_;
  StringTable terms_;
  StringTable words_;
  AppendArray<std::uint32_t> word_terms_;  // by word number; written before the word can be found
};

}  // namespace spector
