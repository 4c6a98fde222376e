// bm25.idx: a whole index in one stored file (base/envelope.hpp; cpp/FORMATS.md has the bytes).
//
// The file holds one sealed segment without deleted rows, its postings packed, what its terms stand
// for, and the ids of its rows. It is checked when an IndexFile is made, and its numbers are
// unpacked; all but the posting lists, which are when the segment is made, or from a mapped file
// when a list is first asked for. What an IndexFile gives keeps the memory or the map it is in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/envelope.hpp"
#include "base/frozen_strings.hpp"
#include "base/u32_map.hpp"
#include "lexical/segment.hpp"

namespace spector {

// What an index must be made with so that its file fits; the core only keeps it.
struct IndexSettings {
  double k1;
  double b;
  std::string analyzer;
  std::string language;
  std::string fingerprint;
};

enum class IndexKind : std::uint32_t { kNone = 0, kTexts = 1, kTokens = 2 };

struct IndexContents {
  IndexKind kind;
  IndexSettings settings;
  const Segment* segment;     // terms are numbered by their place; null: no documents
  std::uint32_t next_row;     // what the next new id gets; above all slots
  FrozenStrings::Arrays ids;  // by row of the segment; all strings have one seed
  // Of texts.
  FrozenStrings::Arrays terms;
  FrozenStrings::Arrays words;
  std::span<const std::uint32_t> word_terms;  // by word
  // Of token ids.
  std::span<const std::uint32_t> token_ids;  // by term
  std::span<const std::uint32_t> token_buckets;

  [[nodiscard]] std::span<const std::uint32_t> slots() const noexcept {
    return segment == nullptr ? std::span<const std::uint32_t>{} : segment->slots();
  }
};

void save_index(const std::string& path, const IndexContents& contents);

class IndexFile {
 public:
  // Throws Corruption, Version or Storage. `mapped`: see StoredFile.
  IndexFile(const std::string& path, bool mapped);

  [[nodiscard]] IndexKind kind() const noexcept { return kind_; }
  [[nodiscard]] const IndexSettings& settings() const noexcept { return settings_; }
  [[nodiscard]] std::uint64_t n_documents() const noexcept { return file_.count(); }

  // Null if there are no documents. Throws Corruption.
  [[nodiscard]] std::unique_ptr<Segment> segment() const;
  [[nodiscard]] SharedSpan<std::uint32_t> slots() const { return slots_; }
  [[nodiscard]] std::uint32_t next_row() const noexcept { return next_row_; }
  [[nodiscard]] FrozenStrings ids() const { return frozen(ids_); }
  [[nodiscard]] FrozenStrings terms() const { return frozen(terms_); }
  [[nodiscard]] FrozenStrings words() const { return frozen(words_); }
  [[nodiscard]] SharedSpan<std::uint32_t> word_terms() const { return word_terms_; }
  [[nodiscard]] FrozenKeys token_ids() const;

 private:
  // Sections as arrays, unpacked where they are packed.
  [[nodiscard]] SharedSpan<std::uint32_t> numbers(std::size_t section) const;
  template <class T>
  [[nodiscard]] SharedSpan<T> ends(std::size_t section) const;
  [[nodiscard]] SharedSpan<std::uint32_t> buckets(std::size_t section, std::size_t n) const;

  // A set of strings.
  struct Strings {
    SharedSpan<std::uint32_t> ends;
    SharedSpan<char> chars;
    SharedSpan<std::uint32_t> buckets;
  };
  [[nodiscard]] Strings read_strings(std::size_t first_section) const;
  [[nodiscard]] FrozenStrings::Arrays arrays(const Strings& strings) const noexcept;
  [[nodiscard]] FrozenStrings frozen(const Strings& strings) const;

  void read_settings();
  void read_arrays();
  void check() const;
  void check_segment() const;

  std::string path_;
  bool mapped_;
  StoredFile file_;
  IndexKind kind_{};
  IndexSettings settings_;
  std::uint32_t next_row_ = 0;
  std::uint64_t seed_ = 0;
  double bound_average_ = 0;
  double best_average_ = 0;
  Strings ids_;
  Strings terms_;
  Strings words_;
  SharedSpan<std::uint32_t> word_terms_;
  SharedSpan<std::uint32_t> token_ids_;
  SharedSpan<std::uint32_t> token_buckets_;
  SharedSpan<std::uint32_t> slots_;
  SharedSpan<std::uint32_t> lengths_;
  SharedSpan<std::uint32_t> counts_;
  SharedSpan<std::uint64_t> list_ends_;
};

}  // namespace spector
