#include "lexical/sparse_index.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

#include "base/error.hpp"
#include "kernels/dispatch.hpp"

namespace spector {

using kernels::kWindow;

SparseIndex::SparseIndex(EpochDomain& epochs)
    : heap_(epochs),
      names_(epochs),
      directory_(heap_),
      lists_(heap_),
      slots_(heap_),
      rows_(heap_) {}

std::vector<SparseIndex::View::QueryTerm> SparseIndex::View::resolve(
    std::span<const std::string_view> terms, std::span<const float> weights) const {
  std::vector<QueryTerm> known;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const std::uint32_t term = names_->find(terms[i]);
    // A name can be there before the view that has documents with it.
    if (term != StringTable::kNone && term < directory_.size()) known.push_back({term, weights[i]});
  }
  return known;
}

std::vector<ScoredSlot> SparseIndex::View::search(
    std::span<const std::string_view> terms, std::span<const float> weights, std::size_t k,
    std::optional<std::span<const std::uint32_t>> allow) const {
  struct Cursor {
    std::span<const Part> parts;
    float weight;
  };
  std::vector<Cursor> cursors;
  for (const QueryTerm& term : resolve(terms, weights)) {
    if (!directory_[term.term].empty()) cursors.push_back({directory_[term.term], term.weight});
  }
  TopK top(std::min(k, std::max<std::size_t>(n_live_, 1)));
  alignas(64) std::array<float, kWindow> sums;
  std::array<std::uint32_t, kWindow> reached;
  const kernels::Table& simd = kernels::active();
  for (std::size_t first = 0; first < n_rows_ && !cursors.empty(); first += kWindow) {
    const auto window = static_cast<std::uint32_t>(first / kWindow);
    const std::size_t width = (std::min(kWindow, n_rows_ - first) + 15) / 16 * 16;
    bool any = false;
    for (Cursor& cursor : cursors) {
      if (cursor.parts.empty() || cursor.parts.front().window != window) continue;
      if (!any) std::fill_n(sums.begin(), width, 0.0F);
      any = true;
      for (const Posting& posting : lists_[cursor.parts.front().list]) {
        sums[posting.offset] += cursor.weight * posting.weight;
      }
      cursor.parts = cursor.parts.subspan(1);
    }
    if (!any) continue;
    const std::size_t found =
        simd.collect_at_least(sums.data(), width, top.threshold(), reached.data());
    for (std::size_t i = 0; i < found; ++i) {
      const std::uint32_t slot = slots_[first + reached[i]];
      if (slot == kDead) continue;
      if (allow && !std::binary_search(allow->begin(), allow->end(), slot)) continue;
      top.offer(sums[reached[i]], slot);
    }
  }
  return top.take();
}

float SparseIndex::View::score(std::span<const std::string_view> terms,
                               std::span<const float> weights, std::uint32_t slot) const {
  if (!contains(slot)) return 0;
  const std::uint32_t row = rows_[slot] - 1;
  const auto window = static_cast<std::uint32_t>(row / kWindow);
  const auto offset = static_cast<std::uint32_t>(row % kWindow);
  float score = 0;
  for (const QueryTerm& term : resolve(terms, weights)) {
    const std::span<const Part> parts = directory_[term.term];
    const auto part =
        std::ranges::lower_bound(parts, window, {}, [](const Part& each) { return each.window; });
    if (part == parts.end() || part->window != window) continue;
    const std::span<const Posting> postings = lists_[part->list];
    const auto posting = std::ranges::lower_bound(postings, offset, {},
                                                  [](const Posting& each) { return each.offset; });
    if (posting != postings.end() && posting->offset == offset) {
      score += term.weight * posting->weight;
    }
  }
  return score;
}

void SparseIndex::put(std::span<const std::uint32_t> slots, const SparseVectors& documents) {
  for (const float weight : documents.weights) {
    if (!std::isfinite(weight) || weight <= 0) {
      throw std::invalid_argument("a weight must be finite and above 0, not " +
                                  std::to_string(weight));
    }
  }
  if (now_.rows + slots.size() >= kDead) {
    throw Capacity("a sparse index has at most 4,294,967,294 rows");
  }
  std::vector<std::uint32_t> numbers;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    kill(slots[i]);
    const std::uint64_t begin = documents.ends[i];
    const std::uint64_t end = documents.ends[i + 1];
    if (begin == end) continue;
    numbers.clear();
    for (std::uint64_t at = begin; at < end; ++at) {
      numbers.push_back(names_.intern(documents.terms[at]));
    }
    directory_.resize(names_.size());
    const std::size_t row = now_.rows;
    const auto window = static_cast<std::uint32_t>(row / kWindow);
    const auto offset = static_cast<std::uint32_t>(row % kWindow);
    for (std::size_t at = 0; at < numbers.size(); ++at) {
      std::span<const Part> parts = directory_[numbers[at]];
      if (parts.empty() || parts.back().window != window) {
        if (lists_.size() >= kDead) throw Capacity("a sparse index has too many posting lists");
        directory_.push_back(numbers[at], {window, static_cast<std::uint32_t>(lists_.size())});
        lists_.resize(lists_.size() + 1);
        parts = directory_[numbers[at]];
      }
      const std::uint32_t list = parts.back().list;
      const std::span<const Posting> before = lists_[list];
      if (!before.empty() && before.back().offset == offset) {
        throw std::invalid_argument("a document has the term '" +
                                    std::string(documents.terms[begin + at]) + "' twice");
      }
      lists_.push_back(list, {offset, documents.weights[begin + at]});
    }
    slots_.push_back(slots[i]);
    rows_.resize(slots[i] + std::size_t{1});
    rows_.edit(slots[i]) = static_cast<std::uint32_t>(row) + 1;
    ++now_.rows;
    ++now_.live;
  }
  tidy();
}

std::size_t SparseIndex::erase(std::span<const std::uint32_t> slots) {
  std::size_t erased = 0;
  for (const std::uint32_t slot : slots) erased += kill(slot) ? 1 : 0;
  tidy();
  return erased;
}

bool SparseIndex::kill(std::uint32_t slot) {
  if (slot >= rows_.size() || rows_[slot] == 0) return false;
  std::uint32_t& row = rows_.edit(slot);
  slots_.edit(row - 1) = kDead;
  row = 0;
  --now_.live;
  return true;
}

void SparseIndex::tidy() {
  const std::size_t dead = now_.rows - now_.live;
  if (dead * 4 > now_.rows && dead > 64) compact();
}

void SparseIndex::compact() {
  if (now_.live == now_.rows) return;
  std::vector<std::uint32_t> new_rows(now_.rows, kDead);
  std::vector<std::uint32_t> live;
  live.reserve(now_.live);
  for (std::size_t row = 0; row < now_.rows; ++row) {
    if (slots_[row] == kDead) continue;
    new_rows[row] = static_cast<std::uint32_t>(live.size());
    live.push_back(slots_[row]);
  }
  // Term by term, so that what is copied beside the old lists is one term's.
  std::vector<std::vector<Part>> parts(directory_.size());
  std::vector<std::vector<Posting>> lists;
  for (std::size_t term = 0; term < directory_.size(); ++term) {
    for (const Part& part : directory_[term]) {
      for (const Posting& posting : lists_[part.list]) {
        const std::uint32_t row = new_rows[part.window * kWindow + posting.offset];
        if (row == kDead) continue;
        const auto window = static_cast<std::uint32_t>(row / kWindow);
        if (parts[term].empty() || parts[term].back().window != window) {
          parts[term].push_back({window, static_cast<std::uint32_t>(lists.size())});
          lists.emplace_back();
        }
        lists.back().push_back({static_cast<std::uint32_t>(row % kWindow), posting.weight});
      }
    }
  }
  directory_.clear();
  directory_.resize(parts.size());
  for (std::size_t term = 0; term < parts.size(); ++term) directory_.assign(term, parts[term]);
  lists_.clear();
  lists_.resize(lists.size());
  for (std::size_t list = 0; list < lists.size(); ++list) {
    lists_.assign(list, lists[list]);
    lists[list] = {};
  }
  slots_.clear();
  slots_.resize(live.size());
  for (std::size_t row = 0; row < live.size(); ++row) {
    slots_.edit(row) = live[row];
    rows_.edit(live[row]) = static_cast<std::uint32_t>(row) + 1;
  }
  now_.rows = live.size();
}

SparseIndex::View SparseIndex::view() const {
  View view;
  view.names_ = &names_;
  view.directory_ = directory_.view();
  view.lists_ = lists_.view();
  view.slots_ = slots_.view();
  view.rows_ = rows_.view();
  view.n_rows_ = now_.rows;
  view.n_live_ = now_.live;
  view.bytes_ = heap_.next_bytes();
  return view;
}

void SparseIndex::published() noexcept {
  directory_.published();
  lists_.published();
  slots_.published();
  rows_.published();
  heap_.published();
  published_ = now_;
}

void SparseIndex::rollback() noexcept {
  directory_.rollback();
  lists_.rollback();
  slots_.rollback();
  rows_.rollback();
  heap_.rollback();
  now_ = published_;
}

}  // namespace spector
