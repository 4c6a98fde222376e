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
// Any number of threads may search; who adds has the matcher alone meanwhile (a shared mutex, held
// for one name or one text).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/string_table.hpp"

namespace spector {

class NameMatcher {
 public:
  static constexpr std::size_t kLongest = 12;  // words of a name

  struct Match {
    std::string name;  // folded words, a space between them
    std::vector<std::uint32_t> numbers;
    // Where it stands in the NFKC form of the text, in code points.
    std::uint32_t begin;
    std::uint32_t end;
  };

  // Lets `number` be found by `name`; numbers of one name stay in the order of their coming. False,
  // and nothing is done, for a name without words or of more than kLongest.
  bool add(std::string_view name, std::uint32_t number);

  // In the order of the text.
  [[nodiscard]] std::vector<Match> find(std::string_view text) const;

  // How many names differ in their folded words.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  struct Node {
    std::uint32_t first = kNone;  // of its numbers, in entries_; kNone: no name ends here
    std::uint32_t last = kNone;
    bool capital = true;
  };
  struct Entry {
    std::uint32_t number;
    std::uint32_t next;
  };

  // Nodes by parent and word, by open addressing; node 0 is the root and no child.
  class Children {
   public:
    [[nodiscard]] std::uint32_t find(std::uint32_t parent, std::uint32_t word) const noexcept;
    void insert(std::uint32_t parent, std::uint32_t word, std::uint32_t child);
    [[nodiscard]] std::size_t memory_bytes() const noexcept {
      return slots_.capacity() * sizeof(Slot);
    }

   private:
    struct Slot {
      std::uint32_t parent;
      std::uint32_t word;
      std::uint32_t child = 0;
    };
    [[nodiscard]] std::size_t place(std::uint32_t parent, std::uint32_t word) const noexcept;

    std::vector<Slot> slots_;  // a power of two, or empty
    std::size_t size_ = 0;
  };

  mutable std::shared_mutex mutex_;
  StringTable words_;
  Children children_;
  std::vector<Node> nodes_{1};
  std::vector<Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace spector
