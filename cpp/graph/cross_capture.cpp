#include "graph/cross_capture.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "graph/visited.hpp"

namespace spector {
namespace {

using Slots = std::span<const std::uint32_t>;

// A page begins with 64 ends of 16 bits, two in a word: slot i has the tags from end i - 1 to end i
// of those that follow.
constexpr std::size_t kPageSlots = 64;
constexpr std::size_t kEndWords = kPageSlots / 2;
static_assert(kPageSlots * CrossCapture::kMaxTags <= 0xffff);

std::size_t page_end(Slots page, std::size_t i) noexcept {
  return page[i / 2] >> (i % 2 * 16) & 0xffff;
}

Slots page_tags(Slots page, std::size_t i) noexcept {
  if (page.empty()) return {};
  const std::size_t begin = i == 0 ? 0 : page_end(page, i - 1);
  return page.subspan(kEndWords + begin, page_end(page, i) - begin);
}

void check(CrossCapture::Names tags) {
  if (tags.size() > CrossCapture::kMaxTags) {
    throw std::invalid_argument("at most " + std::to_string(CrossCapture::kMaxTags) +
                                " tags are allowed, not " + std::to_string(tags.size()));
  }
  for (std::size_t i = 0; i < tags.size(); ++i) {
    if (tags[i].empty()) {
      throw std::invalid_argument("tag " + std::to_string(i) + " must not be empty");
    }
  }
}

void check_table(std::size_t n_names, Slots slots, std::span<const std::uint64_t> ends,
                 Slots tags) {
  if (ends.size() != slots.size() || tags.size() != (ends.empty() ? 0 : ends.back())) {
    throw std::invalid_argument("ends must have one entry for each of slots, the last one the " +
                                std::to_string(tags.size()) + " entries of tags");
  }
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if ((i > 0 && slots[i] <= slots[i - 1]) || slots[i] == CrossCapture::kNone) {
      throw std::invalid_argument("slots must ascend and be below 4,294,967,295");
    }
    if (ends[i] <= begin || ends[i] - begin > CrossCapture::kMaxTags) {
      throw std::invalid_argument("ends must ascend by 1 to " +
                                  std::to_string(CrossCapture::kMaxTags));
    }
    begin = ends[i];
  }
  for (const std::uint32_t tag : tags) {
    if (tag >= n_names) {
      throw std::invalid_argument("tags must be places in names, of which there are " +
                                  std::to_string(n_names) + ", not " + std::to_string(tag));
    }
  }
}

// Into a sorted list.
void insert_sorted(CowLists<std::uint32_t>& lists, std::size_t i, std::uint32_t slot) {
  lists.push_back(i, slot);
  const std::span<std::uint32_t> list = lists.edit(i);
  const auto at = std::upper_bound(list.begin(), list.end() - 1, slot);
  std::rotate(at, list.end() - 1, list.end());
}

void erase_sorted(CowLists<std::uint32_t>& lists, std::size_t i, std::uint32_t slot) {
  const Slots list = lists[i];
  const auto at = std::lower_bound(list.begin(), list.end(), slot);
  lists.erase(i, static_cast<std::size_t>(at - list.begin()));
}

}  // namespace

// Goes through the slots of a tag, in either direction, by leaps.
class CrossCapture::View::Cursor {
 public:
  Cursor(const View& view, std::uint32_t tag) noexcept
      : view_(view), list_(view.lists_[tag]), chunked_(view.counts_[tag] > kChunk) {}

  // Pieces of ascending slots that follow one another.
  [[nodiscard]] std::size_t n_pieces() const noexcept { return chunked_ ? list_.size() : 1; }
  [[nodiscard]] Slots piece(std::size_t i) const noexcept {
    return chunked_ ? view_.chunks_[list_[i]] : list_;
  }

  // The first slot from `from` on, or kNone. `from` never descends.
  [[nodiscard]] std::uint32_t next(std::uint32_t from) noexcept {
    if (piece(piece_).back() < from) {
      // Doubling steps, then halving ones: near ones are found fast.
      std::size_t low = piece_;
      std::size_t step = 1;
      while (low + step < n_pieces() && piece(low + step).back() < from) {
        low += step;
        step *= 2;
      }
      std::size_t high = std::min(low + step, n_pieces());
      while (high - low > 1) {
        const std::size_t middle = low + (high - low) / 2;
        (piece(middle).back() < from ? low : high) = middle;
      }
      if (high == n_pieces()) return kNone;
      piece_ = high;
      place_ = 0;
    }
    const Slots slots = piece(piece_);
    std::size_t step = 1;
    while (place_ + step < slots.size() && slots[place_ + step] < from) {
      place_ += step;
      step *= 2;
    }
    const auto* const end = slots.data() + std::min(place_ + step + 1, slots.size());
    const auto* const at = std::lower_bound(slots.data() + place_, end, from);
    place_ = static_cast<std::size_t>(at - slots.data());
    return *at;
  }

  // The last slot up to `to`, or kNone.
  [[nodiscard]] std::uint32_t last(std::uint32_t to) const noexcept {
    std::size_t low = 0;  // pieces before it begin at or before `to`
    std::size_t high = n_pieces();
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (piece(middle).front() <= to) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low == 0) return kNone;
    const Slots slots = piece(low - 1);
    return *(std::upper_bound(slots.begin(), slots.end(), to) - 1);
  }

 private:
  const View& view_;
  Slots list_;
  bool chunked_;
  std::size_t piece_ = 0;
  std::size_t place_ = 0;
};

std::vector<std::uint32_t> CrossCapture::View::slots(std::uint32_t tag) const {
  std::vector<std::uint32_t> found;
  if (n(tag) == 0) return found;
  found.reserve(n(tag));
  const Cursor cursor(*this, tag);
  for (std::size_t i = 0; i < cursor.n_pieces(); ++i) {
    const Slots piece = cursor.piece(i);
    found.insert(found.end(), piece.begin(), piece.end());
  }
  return found;
}

std::span<const std::uint32_t> CrossCapture::View::tags(std::uint32_t slot) const noexcept {
  if (slot / kPageSlots >= pages_.size()) return {};
  return page_tags(pages_[slot / kPageSlots], slot % kPageSlots);
}

std::vector<std::uint32_t> CrossCapture::View::match_all(Names tags) const {
  std::vector<std::uint32_t> numbers;
  for (const std::string_view tag : tags) {
    const std::uint32_t number = find(tag);
    if (n(number) == 0) return {};
    numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end(), [this](std::uint32_t a, std::uint32_t b) {
    return counts_[a] != counts_[b] ? counts_[a] < counts_[b] : a < b;
  });
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (numbers.empty()) return {};
  if (numbers.size() == 1) return slots(numbers[0]);
  std::vector<Cursor> cursors;
  cursors.reserve(numbers.size());
  for (const std::uint32_t number : numbers) cursors.emplace_back(*this, number);

  std::vector<std::uint32_t> found;
  std::uint32_t slot = cursors[0].next(0);
  while (slot != kNone) {
    std::uint32_t highest = slot;
    for (std::size_t i = 1; i < cursors.size() && highest == slot; ++i) {
      highest = cursors[i].next(slot);
    }
    if (highest == slot) {
      found.push_back(slot);
      highest = slot + 1;
    }
    if (highest == kNone) break;
    slot = cursors[0].next(highest);
  }
  return found;
}

std::vector<std::uint32_t> CrossCapture::View::match_any(Names tags) const {
  std::vector<std::uint32_t> numbers;
  for (const std::string_view tag : tags) {
    const std::uint32_t number = find(tag);
    if (n(number) > 0) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end(), [this](std::uint32_t a, std::uint32_t b) {
    return counts_[a] != counts_[b] ? counts_[a] < counts_[b] : a < b;
  });
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::vector<std::uint32_t> found;
  std::vector<std::uint32_t> merged;
  for (const std::uint32_t number : numbers) {
    const std::vector<std::uint32_t> more = slots(number);
    merged.clear();
    std::set_union(found.begin(), found.end(), more.begin(), more.end(),
                   std::back_inserter(merged));
    found.swap(merged);
  }
  return found;
}

// Up to `limit` slots of the tag, newest first.
void CrossCapture::View::add_newest(std::uint32_t tag, std::size_t limit,
                                    std::optional<std::span<const std::uint32_t>> allow,
                                    std::vector<std::uint32_t>& slots) const {
  const Cursor cursor(*this, tag);
  if (!allow) {
    for (std::size_t i = cursor.n_pieces(); i-- > 0 && slots.size() < limit;) {
      const Slots piece = cursor.piece(i);
      const std::size_t n = std::min(limit - slots.size(), piece.size());
      slots.insert(slots.end(), piece.rbegin(), piece.rbegin() + static_cast<std::ptrdiff_t>(n));
    }
    return;
  }
  // Both sides leap to where the other one is.
  std::uint32_t slot = cursor.last(kNone - 1);
  while (slot != kNone && slots.size() < limit) {
    const auto after = std::upper_bound(allow->begin(), allow->end(), slot);
    if (after == allow->begin()) return;
    allow = Slots(allow->begin(), after);
    if (allow->back() != slot) {
      slot = cursor.last(allow->back());
      continue;
    }
    slots.push_back(slot);
    if (slot == 0) return;
    slot = cursor.last(slot - 1);
  }
}

CrossCapture::Expansion CrossCapture::View::expand(
    Names query_tags, float best_score, const TagCoActivation::View& coactivation,
    const Options& options, std::optional<std::span<const std::uint32_t>> allow) const {
  std::vector<std::uint32_t> query;
  for (const std::string_view tag : query_tags) {
    const std::uint32_t number = coactivation.find(tag);
    if (number != kNone && std::find(query.begin(), query.end(), number) == query.end()) {
      query.push_back(number);
    }
  }
  thread_local VisitedSet reached;
  reached.clear();
  Expansion found;
  std::vector<std::uint32_t> newest;
  for (const std::uint32_t from : query) {
    const std::size_t degree = coactivation.degree(from);
    const std::uint32_t n_from = coactivation.n(from);
    if (degree == 0 || n_from == 0) continue;
    for (const auto& [to, count] :
         coactivation.associated(from, options.max_tag_neighbors, query)) {
      const std::uint32_t tag = find(coactivation.name(to));
      if (n(tag) == 0) continue;
      const double affinity = std::min(1.0, static_cast<double>(count) / n_from);
      const auto score = static_cast<float>(static_cast<double>(best_score) * options.attenuation *
                                            affinity / std::sqrt(static_cast<double>(degree)));
      newest.clear();
      add_newest(tag, options.max_memories_per_tag, allow, newest);
      for (const std::uint32_t slot : newest) {
        const auto [index, is_new] = reached.insert(slot);
        if (is_new) {
          found.slots.push_back(slot);
          found.scores.push_back(score);
          found.from.push_back(from);
          found.to.push_back(to);
        } else if (score > found.scores[index]) {
          found.scores[index] = score;
          found.from[index] = from;
          found.to[index] = to;
        }
      }
    }
  }

  // Scores are not negative, so their bits ascend as they do.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> order;
  order.reserve(found.slots.size());
  for (std::uint32_t i = 0; i < found.slots.size(); ++i) {
    const std::uint64_t score = ~std::bit_cast<std::uint32_t>(found.scores[i] + 0.0F);
    order.emplace_back(score << 32 | found.slots[i], i);
  }
  std::sort(order.begin(), order.end());
  Expansion sorted;
  sorted.slots.reserve(order.size());
  sorted.scores.reserve(order.size());
  sorted.from.reserve(order.size());
  sorted.to.reserve(order.size());
  for (const auto& [key, i] : order) {
    sorted.slots.push_back(found.slots[i]);
    sorted.scores.push_back(found.scores[i]);
    sorted.from.push_back(found.from[i]);
    sorted.to.push_back(found.to[i]);
  }
  return sorted;
}

CrossCapture::CrossCapture(EpochDomain& epochs)
    : slot_heap_(epochs),
      tag_heap_(epochs),
      names_(epochs),
      counts_(slot_heap_),
      lists_(slot_heap_),
      chunks_(slot_heap_),
      free_chunks_(slot_heap_),
      pages_(tag_heap_) {}

void CrossCapture::restore(Names names, Slots slots, std::span<const std::uint64_t> ends,
                           Slots tags) {
  if (now_.n_memories > 0) throw std::invalid_argument("there are memories with tags already");
  check_table(names.size(), slots, ends, tags);
  std::vector<std::uint32_t> numbers;
  numbers.reserve(names.size());
  for (const std::string_view name : names) {
    if (name.empty()) throw std::invalid_argument("names must not be empty");
    numbers.push_back(names_.intern(name));
  }
  counts_.resize(names_.size());
  lists_.resize(names_.size());
  std::vector<std::uint32_t> numbered;
  numbered.reserve(tags.size());
  for (const std::uint32_t tag : tags) numbered.push_back(numbers[tag]);
  restore_pages(slots, ends, numbered);
  restore_lists(slots, ends, numbered);
  now_.n_memories = slots.size();
  now_.n_entries = tags.size();
}

void CrossCapture::restore_pages(Slots slots, std::span<const std::uint64_t> ends, Slots tags) {
  if (slots.empty()) return;
  pages_.resize(std::size_t{slots.back()} / kPageSlots + 1);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < slots.size();) {
    const std::size_t page = slots[i] / kPageSlots;
    page_.assign(kEndWords, 0);
    for (std::size_t j = 0; j < kPageSlots; ++j) {
      if (i < slots.size() && slots[i] == page * kPageSlots + j) {
        const Slots own = tags.subspan(begin, ends[i] - begin);
        page_.insert(page_.end(), own.begin(), own.end());
        begin = ends[i++];
      }
      page_[j / 2] |= static_cast<std::uint32_t>(page_.size() - kEndWords) << (j % 2 * 16);
    }
    pages_.assign(page, page_);
  }
}

void CrossCapture::restore_lists(Slots slots, std::span<const std::uint64_t> ends, Slots tags) {
  std::vector<std::size_t> ends_of(counts_.size());  // where those of each tag end
  for (const std::uint32_t tag : tags) ++ends_of[tag];
  std::partial_sum(ends_of.begin(), ends_of.end(), ends_of.begin());
  std::vector<std::uint32_t> by_tag(tags.size());
  for (std::size_t i = slots.size(); i-- > 0;) {
    for (std::size_t k = i == 0 ? 0 : ends[i - 1]; k < ends[i]; ++k) {
      by_tag[--ends_of[tags[k]]] = slots[i];
    }
  }
  std::vector<std::uint32_t> chunks;
  for (std::uint32_t tag = 0; tag < ends_of.size(); ++tag) {  // they are where it begins now
    const std::size_t end = tag + 1 < ends_of.size() ? ends_of[tag + 1] : by_tag.size();
    const Slots own = Slots(by_tag).subspan(ends_of[tag], end - ends_of[tag]);
    if (own.empty()) continue;
    if (std::adjacent_find(own.begin(), own.end()) != own.end()) {
      throw std::invalid_argument("a memory has a tag twice");
    }
    counts_.edit(tag) = static_cast<std::uint32_t>(own.size());
    chunks.clear();
    for (std::size_t k = 0; own.size() > kChunk && k < own.size(); k += kChunk) {
      chunks.push_back(new_chunk(own.subspan(k, std::min(kChunk, own.size() - k))));
    }
    lists_.assign(tag, chunks.empty() ? own : Slots(chunks));
  }
}

void CrossCapture::add(std::uint32_t slot, Names tags) {
  check(tags);
  if (!view().tags(slot).empty()) {
    throw std::invalid_argument("slot " + std::to_string(slot) + " has tags already");
  }
  set(slot, tags);
}

void CrossCapture::update(std::uint32_t slot, Names tags) {
  check(tags);
  set(slot, tags);
}

bool CrossCapture::remove(std::uint32_t slot) {
  if (view().tags(slot).empty()) return false;
  set(slot, {});
  return true;
}

void CrossCapture::set(std::uint32_t slot, Names tags) {
  const Slots old = view().tags(slot);
  const std::vector<std::uint32_t> before(old.begin(), old.end());
  tags_.clear();
  for (const std::string_view tag : tags) tags_.push_back(names_.intern(tag));
  counts_.resize(names_.size());
  lists_.resize(names_.size());
  std::size_t n = 0;  // distinct ones so far, at the beginning
  const auto has = [](const auto& numbers, std::size_t size, std::uint32_t number) {
    const auto end = numbers.begin() + static_cast<std::ptrdiff_t>(size);
    return std::find(numbers.begin(), end, number) != end;
  };
  for (const std::uint32_t tag : tags_) {
    if (!has(tags_, n, tag)) tags_[n++] = tag;
  }
  tags_.resize(n);
  if (before == tags_) return;

  for (const std::uint32_t tag : before) {
    if (!has(tags_, n, tag)) erase(tag, slot);
  }
  for (const std::uint32_t tag : tags_) {
    if (!has(before, before.size(), tag)) insert(tag, slot);
  }
  write_page(slot, tags_);
  now_.n_entries += tags_.size();
  now_.n_entries -= before.size();
  if (before.empty()) ++now_.n_memories;
  if (tags_.empty()) --now_.n_memories;
}

void CrossCapture::write_page(std::uint32_t slot, std::span<const std::uint32_t> tags) {
  const std::size_t number = slot / kPageSlots;
  pages_.resize(number + 1);
  const Slots old = pages_[number];
  page_.assign(kEndWords, 0);
  for (std::size_t i = 0; i < kPageSlots; ++i) {
    const Slots own = i == slot % kPageSlots ? tags : page_tags(old, i);
    page_.insert(page_.end(), own.begin(), own.end());
    page_[i / 2] |= static_cast<std::uint32_t>(page_.size() - kEndWords) << (i % 2 * 16);
  }
  if (page_.size() == kEndWords) page_.clear();
  pages_.assign(number, page_);
}

// Of the tag's chunks, the one where the slot is or belongs.
std::size_t CrossCapture::chunk_of(std::uint32_t tag, std::uint32_t slot) const noexcept {
  const Slots list = lists_[tag];
  const auto after = std::upper_bound(
      list.begin() + 1, list.end(), slot,
      [this](std::uint32_t value, std::uint32_t chunk) { return value < chunks_[chunk].front(); });
  return static_cast<std::size_t>(after - list.begin()) - 1;
}

void CrossCapture::insert(std::uint32_t tag, std::uint32_t slot) {
  const std::uint32_t count = counts_.edit(tag)++;
  if (count < kChunk) return insert_sorted(lists_, tag, slot);
  if (count == kChunk) {
    const std::uint32_t whole = new_chunk(lists_[tag]);
    lists_.assign(tag, Slots(&whole, 1));
  }
  const std::size_t at = chunk_of(tag, slot);
  const std::uint32_t chunk = lists_[tag][at];
  const Slots slots = chunks_[chunk];
  if (slots.size() < kChunk) return insert_sorted(chunks_, chunk, slot);
  // Slots that come in order leave full chunks behind them.
  if (slot > slots.back() && at + 1 == lists_[tag].size()) {
    return insert_chunk(tag, at + 1, new_chunk(Slots(&slot, 1)));
  }
  const std::uint32_t upper = new_chunk(slots.subspan(kChunk / 2));
  chunks_.truncate(chunk, kChunk / 2);
  insert_chunk(tag, at + 1, upper);
  insert_sorted(chunks_, slot < chunks_[upper].front() ? chunk : upper, slot);
}

void CrossCapture::erase(std::uint32_t tag, std::uint32_t slot) {
  const std::uint32_t count = --counts_.edit(tag);
  if (count < kChunk) return erase_sorted(lists_, tag, slot);

  const std::size_t at = chunk_of(tag, slot);
  const std::uint32_t chunk = lists_[tag][at];
  erase_sorted(chunks_, chunk, slot);
  if (count == kChunk) {  // one list holds them again
    const std::vector<std::uint32_t> chunks(lists_[tag].begin(), lists_[tag].end());
    std::vector<std::uint32_t> all;
    all.reserve(kChunk);
    for (const std::uint32_t part : chunks) {
      all.insert(all.end(), chunks_[part].begin(), chunks_[part].end());
      free_chunk(part);
    }
    lists_.assign(tag, all);
    return;
  }
  if (chunks_[chunk].empty()) {
    free_chunk(chunk);
    lists_.erase(tag, at);
    return;
  }
  // Two neighbours that are less than half full together become one.
  for (std::size_t second = std::max<std::size_t>(at, 1); second <= at + 1; ++second) {
    if (second == lists_[tag].size()) return;
    const std::uint32_t one = lists_[tag][second - 1];
    const std::uint32_t two = lists_[tag][second];
    if (chunks_[one].size() + chunks_[two].size() >= kChunk / 2) continue;
    for (const std::uint32_t moved : chunks_[two]) chunks_.push_back(one, moved);
    free_chunk(two);
    lists_.erase(tag, second);
    return;
  }
}

std::uint32_t CrossCapture::new_chunk(std::span<const std::uint32_t> slots) {
  std::uint32_t chunk = 0;
  if (now_.n_free_chunks > 0) {
    chunk = free_chunks_[--now_.n_free_chunks];
  } else {
    chunk = static_cast<std::uint32_t>(chunks_.size());
    chunks_.resize(chunks_.size() + 1);
  }
  chunks_.assign(chunk, slots);
  return chunk;
}

void CrossCapture::free_chunk(std::uint32_t chunk) {
  chunks_.truncate(chunk, 0);
  free_chunks_.resize(now_.n_free_chunks + 1);
  free_chunks_.edit(now_.n_free_chunks++) = chunk;
}

void CrossCapture::insert_chunk(std::uint32_t tag, std::size_t at, std::uint32_t chunk) {
  lists_.push_back(tag, chunk);
  const std::span<std::uint32_t> list = lists_.edit(tag);
  std::rotate(list.begin() + static_cast<std::ptrdiff_t>(at), list.end() - 1, list.end());
}

CrossCapture::View CrossCapture::view() const {
  View view;
  view.names_ = &names_;
  view.counts_ = counts_.view();
  view.lists_ = lists_.view();
  view.chunks_ = chunks_.view();
  view.pages_ = pages_.view();
  view.n_memories_ = now_.n_memories;
  view.n_entries_ = now_.n_entries;
  view.slot_bytes_ = slot_heap_.next_bytes();
  view.tag_bytes_ = tag_heap_.next_bytes();
  return view;
}

void CrossCapture::published() noexcept {
  counts_.published();
  lists_.published();
  chunks_.published();
  free_chunks_.published();
  pages_.published();
  published_ = now_;
  slot_heap_.published();
  tag_heap_.published();
}

void CrossCapture::rollback() noexcept {
  counts_.rollback();
  lists_.rollback();
  chunks_.rollback();
  free_chunks_.rollback();
  pages_.rollback();
  now_ = published_;
  slot_heap_.rollback();
  tag_heap_.rollback();
}

}  // namespace spector
