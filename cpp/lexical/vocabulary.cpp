#include "lexical/vocabulary.hpp"

namespace spector {

std::uint32_t Vocabulary::find(std::string_view text, bool word, const Stems& stems) const {
  if (!word || !stemming_) return terms_.find(text);
  const std::uint32_t known = words_.find(text);
  if (known != kNone) return word_terms_[known];
  return terms_.find(stems.at(std::string(text)));
}

std::uint32_t Vocabulary::intern(std::string_view text, bool word, const Stems& stems) {
  if (!word || !stemming_) return terms_.intern(text);
  const std::uint32_t known = words_.find(text);
  if (known != kNone) return word_terms_[known];
  const std::uint32_t term = terms_.intern(stems.at(std::string(text)));
  word_terms_.reserve(word_terms_.size() + 1 > word_terms_.capacity() ? word_terms_.size() * 2 + 16
                                                                      : 0);
  words_.intern(text);
  word_terms_.push_back(term);
  return term;
}

std::size_t Vocabulary::memory_bytes() const noexcept {
  return terms_.memory_bytes() + words_.memory_bytes() +
         word_terms_.capacity() * sizeof(word_terms_[0]);
}

Vocabulary Vocabulary::renumbered(std::span<const std::uint32_t> numbers,
                                  std::uint32_t dropped) const {
  Vocabulary copy(stemming_);
  // Kept terms keep their order, so interning them in turn gives each its new number.
  for (std::uint32_t term = 0; term < numbers.size(); ++term) {
    if (numbers[term] != dropped) copy.terms_.intern(terms_[term]);
  }
  for (std::uint32_t word = 0; word < words_.size(); ++word) {
    const std::uint32_t term = word_terms_[word];
    if (term >= numbers.size() || numbers[term] == dropped) continue;
    copy.words_.intern(words_[word]);
    copy.word_terms_.push_back(numbers[term]);
  }
  return copy;
}

}  // namespace spector
