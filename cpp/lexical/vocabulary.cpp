#include "lexical/vocabulary.hpp"

#include <utility>

#include "base/error.hpp"

namespace spector {

Vocabulary::Vocabulary(bool stemming, EpochDomain& epochs, FrozenStrings terms, FrozenStrings words,
                       std::span<const std::uint32_t> word_terms)
    : epochs_(epochs),
      stemming_(stemming),
      terms_(epochs, std::move(terms)),
      words_(epochs, std::move(words)) {
  word_terms_.append(word_terms, epochs);
}

std::uint32_t Vocabulary::find(std::string_view text, bool word, const Stems& stems,
                               const EpochDomain::Pin& pin) const {
  if (!word || !stemming_) return terms_.find(text);
  const std::uint32_t known = words_.find(text);
  if (known != kNone) return word_terms_.view(pin)[known];
  return terms_.find(stems.at(std::string(text)));
}

std::vector<std::uint32_t> Vocabulary::find_all(const StringTable& texts, bool word) const {
  std::vector<std::uint32_t> numbers(texts.size());
  if (!word || !stemming_) {
    terms_.find_all(texts, numbers);
    return numbers;
  }
  words_.find_all(texts, numbers);
  const std::span<const std::uint32_t> word_terms = word_terms_.view();
  for (std::uint32_t& number : numbers) number = number == kNone ? kNone : word_terms[number];
  return numbers;
}

std::uint32_t Vocabulary::intern(std::string_view text, bool word, const Stems& stems) {
  if (!word || !stemming_) return terms_.intern(text);
  const std::uint32_t known = words_.find(text);
  if (known != kNone) return word_terms_.view()[known];
  const std::uint32_t term = terms_.intern(stems.at(std::string(text)));
  // The word's number is known beforehand. An entry left by an intern that failed is used again.
  if (word_terms_.size() == words_.size()) {
    word_terms_.append(term, epochs_);
    words_.intern(text);
  } else if (word_terms_.view()[words_.size()] == term) {
    words_.intern(text);
  }
  return term;
}

std::size_t Vocabulary::memory_bytes() const noexcept {
  return terms_.memory_bytes() + words_.memory_bytes() + word_terms_.memory_bytes();
}

std::unique_ptr<Vocabulary> Vocabulary::renumbered(std::span<const std::uint32_t> numbers,
                                                   std::uint32_t dropped) const {
  auto copy = std::make_unique<Vocabulary>(stemming_, epochs_);
  // Kept terms keep their order, so interning them in turn gives each its new number.
  for (std::uint32_t term = 0; term < numbers.size(); ++term) {
    if (numbers[term] != dropped && copy->terms_.intern(terms_[term]) != numbers[term]) {
      throw Corruption("a term occurs twice in the file that the index was loaded from; " +
                       std::string(kRebuildIndex));
    }
  }
  for (std::uint32_t word = 0; word < words_.size(); ++word) {
    const std::uint32_t term = word_terms_.view()[word];
    if (term >= numbers.size() || numbers[term] == dropped) continue;
    copy->word_terms_.append(numbers[term], epochs_);
    copy->words_.intern(words_[word]);
  }
  return copy;
}

}  // namespace spector
