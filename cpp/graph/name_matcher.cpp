#include "graph/name_matcher.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "lexical/unicode.hpp"

namespace spector {
namespace {

enum class Kind : std::uint8_t { Separator, Capital, Other };

constexpr std::array<Kind, 128> make_ascii() noexcept {
  std::array<Kind, 128> kinds{};
  for (std::size_t c = 0; c < kinds.size(); ++c) {
    if (c >= 'A' && c <= 'Z') {
      kinds[c] = Kind::Capital;
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_') {
      kinds[c] = Kind::Other;
    }
  }
  return kinds;
}
constexpr std::array<Kind, 128> kAscii = make_ascii();

Kind kind_of(char32_t code) noexcept {
  if (code < kAscii.size()) return kAscii[code];
  switch (char_properties(code).char_class) {
    case CharClass::Other:
      return Kind::Separator;
    case CharClass::Upper:
      return Kind::Capital;
    default:
      return Kind::Other;
  }
}

struct Word {
  std::uint32_t begin;  // in `folded`
  std::uint32_t end;
  std::uint32_t from;  // in the text, in code points
  std::uint32_t to;
  bool capital;  // of its first character
};

struct Words {
  std::string folded;  // one after the other
  std::vector<Word> words;
  bool cased = false;  // there is a capital

  [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept {
    return std::string_view(folded).substr(words[i].begin, words[i].end - words[i].begin);
  }
  void add(std::size_t begin, std::size_t from, std::size_t to, bool capital) {
    words.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(folded.size()),
                     static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), capital});
  }
};

bool is_ascii(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

Words ascii_words(std::string_view text) {
  Words found;
  found.folded.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Kind first = kAscii[static_cast<unsigned char>(text[at])];
    if (first == Kind::Separator) {
      ++at;
      continue;
    }
    const std::size_t begin = found.folded.size();
    const std::size_t from = at;
    for (; at < text.size(); ++at) {
      const char c = text[at];
      const Kind kind = kAscii[static_cast<unsigned char>(c)];
      if (kind == Kind::Separator) break;
      found.cased |= kind == Kind::Capital;
      found.folded.push_back(kind == Kind::Capital ? static_cast<char>(c + ('a' - 'A')) : c);
    }
    found.add(begin, from, at, first == Kind::Capital);
  }
  return found;
}

Words words_of(std::string_view text) {
  if (text.size() > 0xffffffffU / 4) throw Capacity("a text of more than 1 GiB is not searched");
  if (is_ascii(text)) return ascii_words(text);
  Words found;
  const std::string normal = nfkc(text);
  const char* const end = normal.data() + normal.size();
  std::size_t n = 0;  // code points before `at`
  for (const char* at = normal.data(); at != end;) {
    const char* const begin = at;
    Decoded next = decode_utf8(at, end);
    const Kind first = kind_of(next.code);
    at += next.size;
    const std::size_t from = n++;
    if (first == Kind::Separator) continue;
    found.cased |= first == Kind::Capital;
    while (at != end) {
      next = decode_utf8(at, end);
      const Kind kind = kind_of(next.code);
      if (kind == Kind::Separator) break;
      found.cased |= kind == Kind::Capital;
      at += next.size;
      ++n;
    }
    const std::size_t start = found.folded.size();
    found.folded += casefold({begin, static_cast<std::size_t>(at - begin)});
    found.add(start, from, n, first == Kind::Capital);
  }
  return found;
}

// Where a child is in the slots, or would be; there is at least one empty one.
template <class Slots>
std::size_t place(const Slots& slots, std::uint32_t parent, std::uint32_t word) noexcept {
  const std::size_t mask = slots.size() - 1;
  const std::uint64_t key = std::uint64_t{parent} << 32 | word;
  std::size_t at = (key * 0x9e3779b97f4a7c15U >> 32) & mask;
  while (slots[at].child != 0 && (slots[at].parent != parent || slots[at].word != word)) {
    at = (at + 1) & mask;
  }
  return at;
}

}  // namespace

std::uint32_t NameMatcher::View::child(std::uint32_t parent, std::uint32_t word) const noexcept {
  return slots_.size() == 0 ? 0 : slots_[place(slots_, parent, word)].child;
}

NameMatcher::NameMatcher(EpochDomain& epochs)
    : heap_(epochs), words_(epochs), slots_(heap_), nodes_(heap_), entries_(heap_) {
  nodes_.resize(1);
}

NameMatcher::View NameMatcher::view() const noexcept {
  View view;
  view.words_ = &words_;
  view.slots_ = slots_.view();
  view.nodes_ = nodes_.view();
  view.entries_ = entries_.view();
  view.size_ = size_;
  view.bytes_ = heap_.next_bytes();
  return view;
}

void NameMatcher::published() noexcept {
  slots_.published();
  nodes_.published();
  entries_.published();
  published_size_ = size_;
  heap_.published();
}

void NameMatcher::rollback() noexcept {
  slots_.rollback();
  nodes_.rollback();
  entries_.rollback();
  size_ = published_size_;
  heap_.rollback();
}

void NameMatcher::insert(const Slot& slot) {
  // Every node but the root has a slot.
  if (nodes_.size() * 4 > slots_.size() * 3) grow();
  slots_.edit(place(slots_, slot.parent, slot.word)) = slot;
}

void NameMatcher::grow() {
  std::vector<Slot> grown(std::max<std::size_t>(64, slots_.size() * 2));
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.child != 0) grown[place(grown, slot.parent, slot.word)] = slot;
  }
  slots_.assign(grown);
}

bool NameMatcher::add(std::string_view name, std::uint32_t number) {
  const Words words = words_of(name);
  if (words.words.empty() || words.words.size() > kLongest) return false;
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < words.words.size(); ++i) {
    const std::uint32_t word = words_.intern(words[i]);
    std::uint32_t child = slots_.size() == 0 ? 0 : slots_[place(slots_, node, word)].child;
    if (child == 0) {
      child = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({});
      insert({node, word, child});
    }
    node = child;
  }
  const bool capital = nodes_[node].capital && words.words[0].capital;
  if (nodes_[node].capital != capital) nodes_.edit(node).capital = capital;
  for (std::uint32_t at = nodes_[node].first; at != kNone; at = entries_[at].next) {
    if (entries_[at].number == number) return true;
  }
  if (entries_.size() == kNone) throw Capacity("too many names");
  const auto entry = static_cast<std::uint32_t>(entries_.size());
  entries_.push_back({number, kNone});
  Node& end = nodes_.edit(node);
  if (end.first == kNone) {
    end.first = entry;
    ++size_;
  } else {
    entries_.edit(end.last).next = entry;
  }
  end.last = entry;
  return true;
}

std::vector<NameMatcher::Match> NameMatcher::View::find(std::string_view text) const {
  std::vector<Match> matches;
  const Words words = words_of(text);
  const std::size_t n = words.words.size();
  if (size_ == 0) return matches;
  std::vector<std::uint32_t> numbers(n);
  for (std::size_t i = 0; i < n; ++i) numbers[i] = words_->find(words[i]);
  for (std::size_t place = 0; place < n;) {
    std::uint32_t node = 0;
    std::uint32_t found = 0;
    std::size_t length = 0;
    for (std::size_t i = place; i < n && numbers[i] != StringTable::kNone; ++i) {
      node = child(node, numbers[i]);
      if (node == 0) break;
      const Node& here = nodes_[node];
      if (here.first == kNone) continue;
      if (here.capital && words.cased && !words.words[place].capital) continue;
      found = node;
      length = i + 1 - place;
    }
    if (found == 0) {
      ++place;
      continue;
    }
    Match match{.name = std::string(words[place]),
                .numbers = {},
                .begin = words.words[place].from,
                .end = words.words[place + length - 1].to};
    for (std::size_t i = place + 1; i < place + length; ++i) {
      match.name.push_back(' ');
      match.name += words[i];
    }
    for (std::uint32_t at = nodes_[found].first; at != kNone; at = entries_[at].next) {
      match.numbers.push_back(entries_[at].number);
    }
    matches.push_back(std::move(match));
    place += length;
  }
  return matches;
}

}  // namespace spector
