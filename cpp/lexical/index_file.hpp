// bm25.idx: a whole index in one stored file (base/envelope.hpp; cpp/FORMATS.md has the bytes).
//
// The file holds one sealed segment without deleted rows, its postings packed, what its terms stand
// for, and the ids of its rows. It is checked when an IndexFile is made, all but the posting lists,
// which are when they are unpacked: when the segment is made, or from a mapped file when a list is
// first asked for. What an IndexFile gives keeps the memory or the map it is in.
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
  [[nodiscard]] SharedSpan<std::uint32_t> slots() const;
  [[nodiscard]] std::uint32_t next_row() const noexcept { return next_row_; }
  [[nodiscard]] FrozenStrings ids() const;
  [[nodiscard]] FrozenStrings terms() const;
  [[nodiscard]] FrozenStrings words() const;
  [[nodiscard]] SharedSpan<std::uint32_t> word_terms() const;
  [[nodiscard]] FrozenKeys token_ids() const;

 private:
  [[nodiscard]] FrozenStrings strings(std::size_t first_section) const;
  [[nodiscard]] FrozenStrings::Arrays string_arrays(std::size_t first_section) const;
  void read_settings();
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
};

}  // namespace spector
