// Names that occur in running text: a trie over folded words, walked from each word of the text.
//
// A text is words: runs of letters, digits, marks and "_" of its NFKC form, folded by full
// casefold. A name is found where its words stand in a row, whatever is between them. The longest
// name at a place counts, and the next place is after it. With at most kLongest words in a name a
// search is linear in the text, however many names there are.
//
// A name whose first word begins with a capital in every spelling that was added is not found at a
// word without one, unless the text has no capitals at all.
//
// NameMatcher is the writer's side, without a lock of its own; View is one state, for readers under
// a Pin (base/shared.hpp brings both together).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/cow.hpp"
#include "base/epoch.hpp"
#include "base/string_table.hpp"

namespace spector {

class NameMatcher {
  static constexpr std::uint32_t kNone = 0xffffffffU;

  struct Node {
    std::uint32_t first = kNone;  // of its numbers, in the entries; kNone: no name ends here
    std::uint32_t last = kNone;
    bool capital = true;
  };
  struct Entry {
    std::uint32_t number = 0;
    std::uint32_t next = kNone;
  };
  // Of a table of nodes by parent and word, by open addressing; node 0 is the root and no child.
  struct Slot {
    std::uint32_t parent = 0;
    std::uint32_t word = 0;
    std::uint32_t child = 0;
  };

 public:
  static constexpr std::size_t kLongest = 12;  // words of a name

  struct Match {
    std::string name;  // folded words, a space between them
    std::vector<std::uint32_t> numbers;
    // Where it stands in the NFKC form of the text, in code points.
    std::uint32_t begin;
    std::uint32_t end;
  };

  class View {
   public:
    // In the order of the text.
    [[nodiscard]] std::vector<Match> find(std::string_view text) const;
    // How many names differ in their folded words.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::size_t memory_bytes() const noexcept {
      return words_->memory_bytes() + bytes_;
    }

   private:
    friend class NameMatcher;
    // The child of a node, or 0.
    [[nodiscard]] std::uint32_t child(std::uint32_t parent, std::uint32_t word) const noexcept;

    const StringTable* words_ = nullptr;
    CowArray<Slot>::View slots_;
    CowArray<Node>::View nodes_;
    CowArray<Entry>::View entries_;
    std::size_t size_ = 0;
    std::size_t bytes_ = 0;
  };

  explicit NameMatcher(EpochDomain& epochs);

  // Lets `number` be found by `name`; numbers of one name stay in the order of their coming. False,
  // and nothing is done, for a name without words or of more than kLongest.
  bool add(std::string_view name, std::uint32_t number);

  [[nodiscard]] View view() const noexcept;
  void reserve() { heap_.reserve(); }
  void published() noexcept;
  void rollback() noexcept;  // a word that was interned is there the next time

 private:
  void insert(const Slot& slot);
  void grow();

  CowHeap heap_;
  StringTable words_;
  CowArray<Slot> slots_;  // a power of two, or empty
  CowArray<Node> nodes_;
  CowArray<Entry> entries_;
  std::size_t size_ = 0;
  std::size_t published_size_ = 0;
};

}  // namespace spector
