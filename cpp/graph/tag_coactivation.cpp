#include "graph/tag_coactivation.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <tuple>
#include <type_traits>

#include "base/envelope.hpp"
#include "base/error.hpp"
#include "base/utf8.hpp"

namespace spector {
namespace {

// No history is as long; far from where the count would start again.
constexpr std::uint64_t kMaxObservations = std::uint64_t{1} << 62;

enum Section : std::size_t { kSettings, kEnds, kChars, kHashes, kMemories, kPairs, kEdges };

constexpr std::array<std::string_view, 7> kSectionNames{
    "settings", "tags: ends", "tags: bytes", "hashes", "memories of tags", "pairs", "edges"};

constexpr FileKind kKind{
    .magic = {'C', 'O', 'A', 'X'},
    .version = 2,
    .shape = 8,
    .stride = sizeof(TagCoActivation::Counts::Entry),
    .sections = kSectionNames,
    .remedy =
        "observe the tags of all memories again and save the table; the order of recalls is "
        "learned anew",
};

struct Settings {
  std::uint64_t n_observations;
  std::uint64_t capacity;
};
static_assert(sizeof(Settings) == 16);

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& items) noexcept {
  return std::as_bytes(std::span(items));
}

void check_size(TagCoActivation::Names tags, std::size_t limit) {
  if (tags.size() > limit) {
    throw std::invalid_argument("at most " + std::to_string(limit) + " tags are allowed, not " +
                                std::to_string(tags.size()));
  }
}

void check(TagCoActivation::Names tags, std::size_t limit) {
  check_size(tags, limit);
  for (std::size_t i = 0; i < tags.size(); ++i) {
    if (tags[i].empty()) {
      throw std::invalid_argument("tag " + std::to_string(i) + " must not be empty");
    }
  }
}

// Keeps the first `limit` in the order of `less`, sorted.
template <class T, class Less>
void keep_first(std::vector<T>& items, std::size_t limit, const Less& less) {
  const auto middle = items.begin() + static_cast<std::ptrdiff_t>(std::min(limit, items.size()));
  std::partial_sort(items.begin(), middle, items.end(), less);
  items.erase(middle, items.end());
}

}  // namespace

std::uint32_t TagCoActivation::View::co_activation(std::uint32_t a,
                                                   std::uint32_t b) const noexcept {
  const Counts::Entry* const entry = counts_.find(a, b);
  return entry == nullptr ? 0 : entry->value;
}

float TagCoActivation::View::weight(std::uint32_t from, std::uint32_t to) const noexcept {
  const Edges::Entry* const entry = edges_.find(from, to);
  return entry == nullptr ? 0 : entry->value;
}

std::vector<TagCoActivation::Partner<std::uint32_t>> TagCoActivation::View::associated(
    std::uint32_t number, std::size_t limit, std::span<const std::uint32_t> except) const {
  using Partner = Partner<std::uint32_t>;
  const auto better = [this](const Partner& a, const Partner& b) {
    return a.value != b.value ? a.value > b.value : before(a.tag, b.tag);
  };
  std::vector<Partner> best;  // a heap with the worst in front
  if (limit == 0) return best;
  // Pairs lie anywhere in memory: that of several is asked for before the first is looked at.
  std::array<std::uint32_t, 16> asked{};
  std::size_t n_asked = 0;
  const auto look = [&] {
    for (const std::uint32_t partner : std::span(asked).first(n_asked)) {
      const Partner found{partner, counts_.find(number, partner)->value};
      if (best.size() == limit) {
        if (!better(found, best.front())) continue;
        std::pop_heap(best.begin(), best.end(), better);
        best.back() = found;
      } else {
        best.push_back(found);
      }
      std::push_heap(best.begin(), best.end(), better);
    }
    n_asked = 0;
  };
  for (const std::uint32_t partner : counts_.partners(number)) {
    // Of a tag's memories no more can be of both: most partners of a common tag are rare ones.
    if (best.size() == limit && n_memories_[partner] < best.front().value) continue;
    if (std::find(except.begin(), except.end(), partner) != except.end()) continue;
    counts_.prefetch(number, partner);
    asked[n_asked++] = partner;
    if (n_asked == asked.size()) look();
  }
  look();
  std::sort_heap(best.begin(), best.end(), better);
  return best;
}

std::vector<TagCoActivation::Partner<float>> TagCoActivation::View::predict(
    std::uint32_t number, std::size_t limit) const {
  std::vector<Partner<float>> found;
  found.reserve(edges_.partners(number).size());
  for (const std::uint32_t partner : edges_.partners(number)) {
    found.push_back({partner, edges_.find(number, partner)->value});
  }
  keep_first(found, limit, [this](const Partner<float>& a, const Partner<float>& b) {
    return a.value != b.value ? a.value > b.value : before(a.tag, b.tag);
  });
  return found;
}

template <class Entry>
void TagCoActivation::View::sort_by_name(std::vector<Entry>& entries) const {
  std::sort(entries.begin(), entries.end(), [this](const Entry& a, const Entry& b) {
    return a.first != b.first ? before(a.first, b.first) : before(a.second, b.second);
  });
}

std::vector<TagCoActivation::Counts::Entry> TagCoActivation::View::pairs() const {
  std::vector<Counts::Entry> found = counts_.entries();
  for (Counts::Entry& entry : found) {
    if (before(entry.second, entry.first)) std::swap(entry.first, entry.second);
  }
  sort_by_name(found);
  return found;
}

std::vector<TagCoActivation::Edges::Entry> TagCoActivation::View::edges() const {
  std::vector<Edges::Entry> found = edges_.entries();
  sort_by_name(found);
  return found;
}

std::vector<TagCoActivation::Collision> TagCoActivation::View::collisions() const {
  std::vector<Collision> found;
  found.reserve(collisions_.size());
  for (std::size_t i = 0; i < collisions_.size(); ++i) found.push_back(collisions_[i]);
  return found;
}

void TagCoActivation::View::save(const std::string& path) const {
  std::vector<Counts::Entry> pairs = this->pairs();
  std::vector<Edges::Entry> edges = this->edges();
  // Tags that say something, numbered by name.
  std::vector<bool> used(n_tags());
  for (std::uint32_t tag = 0; tag < used.size(); ++tag) used[tag] = n_memories_[tag] > 0;
  const auto mark = [&](const auto& entries) {
    for (const auto& entry : entries) used[entry.first] = used[entry.second] = true;
  };
  mark(pairs);
  mark(edges);
  Numbers tags;
  for (std::uint32_t tag = 0; tag < used.size(); ++tag) {
    if (used[tag]) tags.push_back(tag);
  }
  std::sort(tags.begin(), tags.end(),
            [this](std::uint32_t a, std::uint32_t b) { return before(a, b); });

  std::vector<std::uint32_t> ends;
  std::vector<char> chars;
  std::vector<std::uint64_t> hashes;
  std::vector<std::uint32_t> memories;
  Numbers places(used.size());
  for (const std::uint32_t tag : tags) {
    const std::string_view text = name(tag);
    places[tag] = static_cast<std::uint32_t>(ends.size());
    if (chars.size() + text.size() > std::numeric_limits<std::uint32_t>::max()) {
      throw Capacity("more than 4 GiB of tags cannot be stored");
    }
    chars.insert(chars.end(), text.begin(), text.end());
    ends.push_back(static_cast<std::uint32_t>(chars.size()));
    hashes.push_back(hash64(text));
    memories.push_back(n_memories_[tag]);
  }
  const auto renumber = [&](auto& entries) {
    for (auto& entry : entries) {
      entry.first = places[entry.first];
      entry.second = places[entry.second];
    }
  };
  renumber(pairs);
  renumber(edges);

  const Settings settings{n_observations_, capacity_};
  const std::array<std::span<const std::byte>, kSectionNames.size()> sections{
      std::as_bytes(std::span(&settings, 1)),
      bytes_of(ends),
      bytes_of(chars),
      bytes_of(hashes),
      bytes_of(memories),
      bytes_of(pairs),
      bytes_of(edges)};
  write_file(path, kKind, tags.size(), sections);
}

// What a file says, checked.
class TagCoActivation::File {
 public:
  explicit File(const std::string& path) : file_(path, kKind, false) {
    const auto settings = file_.array<Settings>(kSettings).values;
    if (settings.size() != 1) file_.fail(kSettings, "there must be one");
    settings_ = settings[0];
    if (settings_.capacity < 1 || settings_.capacity > kMaxCapacity) {
      file_.fail(kSettings, "a capacity that no table has");
    }
    if (settings_.n_observations > kMaxObservations) {
      file_.fail(kSettings, "more observations than there can have been");
    }
    check_tags();
    check_entries(kPairs, pairs(), [&](const Counts::Entry& entry) {
      return entry.first < entry.second && entry.value > 0;
    });
    check_entries(kEdges, edges(), [](const Edges::Entry& entry) {
      return entry.first != entry.second && entry.value > 0 && entry.value <= 1;
    });
  }

  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  [[nodiscard]] std::size_t n_tags() const { return ends().size(); }
  [[nodiscard]] std::string_view tag(std::size_t i) const {
    const std::uint32_t begin = i == 0 ? 0 : ends()[i - 1];
    return {chars().data() + begin, ends()[i] - begin};
  }
  [[nodiscard]] std::span<const std::uint32_t> memories() const {
    return file_.array<std::uint32_t>(kMemories).values;
  }
  [[nodiscard]] std::span<const Counts::Entry> pairs() const {
    return file_.array<Counts::Entry>(kPairs).values;
  }
  [[nodiscard]] std::span<const Edges::Entry> edges() const {
    return file_.array<Edges::Entry>(kEdges).values;
  }

 private:
  [[nodiscard]] std::span<const std::uint32_t> ends() const {
    return file_.array<std::uint32_t>(kEnds).values;
  }
  [[nodiscard]] std::span<const char> chars() const { return file_.array<char>(kChars).values; }

  void check_tags() const {
    const auto hashes = file_.array<std::uint64_t>(kHashes).values;
    if (n_tags() != file_.count()) file_.fail(kEnds, "not as many as the header says");
    if (!std::is_sorted(ends().begin(), ends().end()) ||
        (ends().empty() ? 0 : ends().back()) != chars().size()) {
      file_.fail(kEnds, "the tags do not end where their bytes do");
    }
    if (hashes.size() != n_tags()) file_.fail(kHashes, "not one for each tag");
    if (memories().size() != n_tags()) file_.fail(kMemories, "not one for each tag");
    for (std::size_t i = 0; i < n_tags(); ++i) {
      if (tag(i).empty() || !is_utf8(tag(i))) file_.fail(kChars, "a tag is empty or not UTF-8");
      if (i > 0 && tag(i - 1) >= tag(i)) file_.fail(kChars, "the tags do not ascend");
      if (hashes[i] != hash64(tag(i))) file_.fail(kHashes, "one is not that of its tag");
    }
  }

  template <class Entry, class Good>
  void check_entries(Section section, std::span<const Entry> entries, const Good& good) const {
    if (entries.size() > settings_.capacity) file_.fail(section, "more than the capacity");
    const auto key = [](const Entry& entry) { return std::tuple(entry.first, entry.second); };
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Entry& entry = entries[i];
      if (entry.first >= n_tags() || entry.second >= n_tags()) {
        file_.fail(section, "a tag that is not there");
      }
      if (i > 0 && key(entries[i - 1]) >= key(entry)) file_.fail(section, "they do not ascend");
      if (!good(entry) || entry.reserved != 0 || entry.last_use == 0 ||
          entry.last_use > settings_.n_observations) {
        file_.fail(section, "one is out of range");
      }
    }
  }

  StoredFile file_;
  Settings settings_{};
};

TagCoActivation::TagCoActivation(EpochDomain& epochs, std::size_t capacity, Hash hash)
    : heap_(epochs),
      names_(epochs),
      hash_(hash),
      n_memories_(heap_),
      counts_(heap_, capacity),
      edges_(heap_, capacity),
      collisions_(heap_) {}

TagCoActivation::TagCoActivation(EpochDomain& epochs, const std::string& path)
    : TagCoActivation(epochs, File(path)) {}

TagCoActivation::TagCoActivation(EpochDomain& epochs, const File& file)
    : TagCoActivation(epochs, file.settings().capacity) {
  n_observations_ = file.settings().n_observations;
  for (std::size_t i = 0; i < file.n_tags(); ++i) names_.intern(file.tag(i));
  add_new_tags();
  for (std::size_t i = 0; i < file.n_tags(); ++i) n_memories_.edit(i) = file.memories()[i];
  for (const Counts::Entry& entry : file.pairs()) {
    counts_.insert(entry.first, entry.second, entry.value, entry.last_use);
  }
  for (const Edges::Entry& entry : file.edges()) {
    edges_.insert(entry.first, entry.second, entry.value, entry.last_use);
  }
}

void TagCoActivation::observe(Names tags) {
  check(tags, kMaxTags);
  intern(tags, numbers_);
  ++n_observations_;
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    ++n_memories_.edit(numbers_[i]);
    for (std::size_t j = 0; j < i; ++j) {
      if (Counts::Entry* const entry = counts_.edit(numbers_[j], numbers_[i])) {
        ++entry->value;
        entry->last_use = n_observations_;
        continue;
      }
      if (counts_.full()) prune(counts_);
      counts_.insert(numbers_[j], numbers_[i], 1, n_observations_);
    }
  }
}

void TagCoActivation::forget(Names tags) {
  check_size(tags, kMaxTags);
  check_all_present(tags);
  subtract(tags);
}

void TagCoActivation::update(Names before, Names after) {
  check_size(before, kMaxTags);
  check_all_present(before);
  check(after, kMaxTags);
  subtract(before);
  observe(after);
}

bool TagCoActivation::observe_sequence(Names earlier, Names later, double dt_ms) {
  if (std::isnan(dt_ms)) throw std::invalid_argument("dt_ms must be a number, not NaN");
  check(earlier, kMaxSequenceTags);
  check(later, kMaxSequenceTags);
  if (!(dt_ms > 0 && dt_ms <= kMaxSequenceMs)) return false;
  intern(earlier, numbers_);
  intern(later, others_);
  ++n_observations_;
  const double decay = std::exp(-dt_ms / kTimeConstantMs);
  const auto up = static_cast<float>(kForward * decay);
  const auto down = static_cast<float>(kBackward * decay);
  for (const std::uint32_t from : numbers_) {
    for (const std::uint32_t to : others_) {
      if (from == to) continue;
      strengthen(from, to, up);
      weaken(to, from, down);
    }
  }
  return true;
}

void TagCoActivation::strengthen(std::uint32_t from, std::uint32_t to, float by) {
  if (Edges::Entry* const entry = edges_.edit(from, to)) {
    entry->value = std::min(1.0F, entry->value + by);
    entry->last_use = n_observations_;
    return;
  }
  if (edges_.full()) prune(edges_);
  edges_.insert(from, to, by, n_observations_);
}

void TagCoActivation::weaken(std::uint32_t from, std::uint32_t to, float by) {
  Edges::Entry* const entry = edges_.edit(from, to);
  if (entry == nullptr) return;
  entry->value -= by;
  if (!(entry->value > 0)) edges_.erase(from, to);
}

// The weakest tenth goes.
template <class Table>
void TagCoActivation::prune(Table& table) {
  using Entry = typename Table::Entry;
  std::vector<Entry> entries = table.view().entries();
  const auto names = [this](const Entry& entry) {
    const std::pair both(names_[entry.first], names_[entry.second]);
    constexpr bool symmetric = std::is_same_v<Table, Counts>;
    return symmetric && both.second < both.first ? std::pair(both.second, both.first) : both;
  };
  const std::size_t n = std::max<std::size_t>(1, table.capacity() / 10);
  const auto middle = entries.begin() + static_cast<std::ptrdiff_t>(n);
  std::nth_element(entries.begin(), middle - 1, entries.end(), [&](const Entry& a, const Entry& b) {
    if (a.value != b.value) return a.value < b.value;
    if (a.last_use != b.last_use) return a.last_use < b.last_use;
    return names(a) < names(b);
  });
  entries.erase(middle, entries.end());
  for (const Entry& entry : entries) table.erase(entry.first, entry.second);
}

// Numbers of distinct tags, in the order given.
void TagCoActivation::intern(Names tags, Numbers& numbers) {
  numbers.clear();
  for (const std::string_view tag : tags) numbers.push_back(names_.intern(tag));
  add_new_tags();
  Numbers sorted(numbers);
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) return;
  std::size_t n = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto end = numbers.begin() + static_cast<std::ptrdiff_t>(n);
    if (std::find(numbers.begin(), end, numbers[i]) == end) numbers[n++] = numbers[i];
  }
  numbers.resize(n);
}

// Gives the tags that names_ has and the arrays have not their places, and looks at their hashes.
void TagCoActivation::add_new_tags() {
  const std::size_t old = n_memories_.size();
  if (old == names_.size()) return;
  n_memories_.resize(names_.size());
  counts_.resize(names_.size());
  edges_.resize(names_.size());
  const auto place_of = [this](std::uint64_t hash) {
    std::size_t at = hash & (by_hash_.size() - 1);
    while (by_hash_[at] != 0 && hash_(names_[by_hash_[at] - 1]) != hash) {
      at = (at + 1) & (by_hash_.size() - 1);
    }
    return at;
  };
  for (auto tag = static_cast<std::uint32_t>(old); tag < names_.size(); ++tag) {
    if (2 * (n_hashes_ + 1) > by_hash_.size()) {
      std::vector<std::uint32_t> before(std::max<std::size_t>(64, 2 * by_hash_.size()));
      before.swap(by_hash_);
      for (const std::uint32_t entry : before) {
        if (entry != 0) by_hash_[place_of(hash_(names_[entry - 1]))] = entry;
      }
    }
    std::uint32_t& entry = by_hash_[place_of(hash_(names_[tag]))];
    if (entry == 0) {
      entry = tag + 1;
      ++n_hashes_;
    } else if (entry != tag + 1) {  // it is itself after a transaction that was rolled back
      collisions_.push_back({entry - 1, tag});
    }
  }
}

void TagCoActivation::check_all_present(Names tags) const {
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const std::uint32_t number = names_.find(tags[i]);
    if (number >= n_memories_.size() || n_memories_[number] == 0) {
      throw std::invalid_argument("tag " + std::to_string(i) + " of those to forget is in no " +
                                  "memory");
    }
  }
}

void TagCoActivation::subtract(Names tags) {
  intern(tags, numbers_);
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    --n_memories_.edit(numbers_[i]);
    for (std::size_t j = 0; j < i; ++j) {
      Counts::Entry* const entry = counts_.edit(numbers_[j], numbers_[i]);
      if (entry == nullptr) continue;
      if (--entry->value == 0) counts_.erase(numbers_[j], numbers_[i]);
    }
  }
}

TagCoActivation::View TagCoActivation::view() const {
  View view;
  view.names_ = &names_;
  view.n_memories_ = n_memories_.view();
  view.counts_ = counts_.view();
  view.edges_ = edges_.view();
  view.collisions_ = collisions_.view();
  view.capacity_ = counts_.capacity();
  view.n_observations_ = n_observations_;
  view.table_bytes_ = heap_.next_bytes();
  view.hash_bytes_ = by_hash_.size() * sizeof(by_hash_[0]);
  return view;
}

void TagCoActivation::published() noexcept {
  n_memories_.published();
  counts_.published();
  edges_.published();
  collisions_.published();
  published_observations_ = n_observations_;
  heap_.published();
}

void TagCoActivation::rollback() noexcept {
  n_memories_.rollback();
  counts_.rollback();
  edges_.rollback();
  collisions_.rollback();
  n_observations_ = published_observations_;
  heap_.rollback();
}

}  // namespace spector
