#include "lexical/head.hpp"

#include <algorithm>
#include <atomic>
#include <new>

namespace spector {

Head::Head(EpochDomain& epochs)
    : epochs_(epochs),
      places_(epochs),
      deleted_(static_cast<std::uint32_t*>(std::calloc(kMaxRows, sizeof(std::uint32_t)))) {
  if (deleted_ == nullptr) throw std::bad_alloc();
}

const Head::Term* Head::find_term(std::uint32_t term, const EpochDomain::Pin& pin) const noexcept {
  const std::uint32_t place = places_.find(term);
  // The place is published after the pointer (own_term), so it is in the view.
  return place == U32Map::kNone ? nullptr : terms_.view(pin)[place];
}

Head::View Head::postings(std::uint32_t term, std::uint32_t n_rows,
                          const EpochDomain::Pin& pin) const noexcept {
  const Term* found = find_term(term, pin);
  if (found == nullptr) return {};
  const std::span<const std::uint32_t> rows = found->rows.view(pin);
  std::size_t n = rows.size();
  // What the writer has added since is a short tail, if there is any.
  for (std::size_t step = 1; n > 0 && rows[n - 1] >= n_rows; step *= 2) {
    const std::size_t low = n > step ? n - step : 0;
    const auto first = rows.begin() + static_cast<std::ptrdiff_t>(low);
    n = static_cast<std::size_t>(
        std::lower_bound(first, rows.begin() + static_cast<std::ptrdiff_t>(n), n_rows) -
        rows.begin());
  }
  return {rows.first(n), found->frequencies.view(pin).data()};
}

std::uint32_t Head::live(std::uint32_t term, std::uint32_t n_rows, StateNumber state,
                         const EpochDomain::Pin& pin) const noexcept {
  const Term* found = find_term(term, pin);
  if (found == nullptr) return 0;
  const std::span<const StateNumber> deaths = found->deaths.view(pin);
  std::size_t dead = deaths.size();
  while (dead > 0 && deaths[dead - 1] > state) --dead;
  return static_cast<std::uint32_t>(postings(term, n_rows, pin).rows.size() - dead);
}

Head::Term& Head::own_term(std::uint32_t term) {
  const std::uint32_t known = places_.find(term);
  if (known != U32Map::kNone) return *terms_.view()[known];
  Term& added = own_terms_.emplace_back();
  try {
    terms_.append(&added, epochs_);
    places_.insert(term, static_cast<std::uint32_t>(terms_.size() - 1));
  } catch (...) {
    // A pointer without a place is never found; the term stays for the destructor.
    throw;
  }
  return added;
}

void Head::add(std::uint32_t slot, std::uint32_t length, std::span<const TermCount> terms) {
  // Everything that can throw comes first.
  for (const TermCount& term : terms) {
    Term& own = own_term(term.term);
    own.rows.reserve(own.rows.size() + 1, epochs_);
    own.frequencies.reserve(own.frequencies.size() + 1, epochs_);
  }
  lengths_.reserve(lengths_.size() + 1, epochs_);
  slots_.reserve(slots_.size() + 1, epochs_);
  const std::uint32_t row = n_rows();
  const auto before = newest_row_.find(slot);
  const bool is_new = before == newest_row_.end();
  if (is_new) newest_row_.emplace(slot, row);
  try {
    documents_.add(slot, length, terms);
  } catch (...) {
    if (is_new) newest_row_.erase(slot);
    throw;
  }
  if (!is_new) before->second = row;

  for (const TermCount& term : terms) {
    Term& own = own_term(term.term);
    own.frequencies.append(term.count, epochs_);
    own.rows.append(row, epochs_);
  }
  lengths_.append(length, epochs_);
  slots_.append(slot, epochs_);
}

void Head::reserve_erase(std::uint32_t row) {
  for (const TermCount& term : documents_.terms(row)) {
    Term& own = own_term(term.term);
    own.deaths.reserve(own.deaths.size() + 1, epochs_);
  }
}

void Head::erase(std::uint32_t row, StateNumber state) {
  for (const TermCount& term : documents_.terms(row))
    own_term(term.term).deaths.append(state, epochs_);
  std::atomic_ref(deleted_[row]).store(~state, std::memory_order_relaxed);
  ++n_dead_rows_;
  n_dead_postings_ += documents_.terms(row).size();
}

std::uint32_t Head::find(std::uint32_t slot) const noexcept {
  const auto at = newest_row_.find(slot);
  return at == newest_row_.end() ? kNone : at->second;
}

std::uint64_t Head::memory_bytes() const noexcept {
  std::uint64_t bytes = places_.memory_bytes() + terms_.memory_bytes() + lengths_.memory_bytes() +
                        slots_.memory_bytes() + n_rows() * sizeof(std::uint32_t) +
                        documents_.memory_bytes() + newest_row_.size() * 4 * sizeof(void*);
  for (const Term& term : own_terms_) {
    bytes += sizeof(Term) + term.rows.memory_bytes() + term.frequencies.memory_bytes() +
             term.deaths.memory_bytes();
  }
  return bytes;
}

}  // namespace spector
