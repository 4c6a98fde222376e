#include "lexical/segment.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"

namespace spector {
namespace {

using kernels::kWindow;

// Bounds are made for an average a little above the present one and lower bounds for one a little
// below, so that small drifts cost no precision at all.
constexpr double kDrift = 1.05;

template <class T>
std::uint64_t bytes_of(const std::vector<T>& items) noexcept {
  return items.capacity() * sizeof(T);
}

}  // namespace

void Segment::Rows::add(std::uint32_t slot, std::uint32_t length,
                        std::span<const TermCount> terms) {
  std::uint32_t before = 0;
  for (const TermCount& term : terms) {
    std::uint32_t step = term.term - before;
    before = term.term;
    for (; step >= 0x80; step >>= 7) {
      row_terms.push_back(static_cast<std::uint8_t>(step | 0x80));
    }
    row_terms.push_back(static_cast<std::uint8_t>(step));
  }
  end_row(slot, length);
}

void Segment::Rows::add_packed(std::uint32_t slot, std::uint32_t length,
                               std::span<const std::uint8_t> terms) {
  row_terms.insert(row_terms.end(), terms.begin(), terms.end());
  end_row(slot, length);
}

void Segment::Rows::end_row(std::uint32_t slot, std::uint32_t length) {
  if (row_terms.size() > 0xffffffffU) throw Capacity("a segment's rows have over 4 GiB of terms");
  row_term_ends.push_back(static_cast<std::uint32_t>(row_terms.size()));
  slots.push_back(slot);
  lengths.push_back(length);
}

Segment::Segment(Rows rows, Postings postings, double k1, double b, double average)
    : rows_(std::move(rows)),
      bound_average_(std::max(average, 1e-9) * kDrift),
      best_average_(std::max(average, 1e-9) / kDrift) {
  if (postings.rows.size() >= kNone) throw Capacity("a segment has over 4,294,967,294 postings");
  const std::uint32_t windows = n_windows();
  // Windows pay where a term has some rows in most of them.
  const std::uint64_t many = std::max<std::uint64_t>(64, 2 * std::uint64_t{windows});
  const std::size_t count = postings.terms.size();

  deleted_ = std::make_unique<std::atomic<StateNumber>[]>(n_rows());
  for (std::uint32_t row = 0; row < n_rows(); ++row) {
    deleted_[row].store(kAlive, std::memory_order_relaxed);
  }
  places_.assign(count == 0 ? 0 : postings.terms.back() + std::size_t{1}, kNone);
  numbers_ = std::move(postings.terms);
  terms_.resize(count);
  deaths_.resize(count);
  std::uint64_t n_windowed = 0;
  std::uint64_t n_windowed_terms = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t n = postings.ends[i + 1] - postings.ends[i];
    if (n >= many) {
      n_windowed += n;
      ++n_windowed_terms;
    }
  }
  offsets_.resize(n_windowed);
  sparse_rows_.resize(postings.rows.size() - n_windowed);
  bounds_.resize(postings.rows.size());
  frequencies_.resize(postings.rows.size());
  window_starts_.resize(n_windowed_terms * (windows + 1));
  window_maxima_.resize(n_windowed_terms * (windows + 1));

  // c0 + c1 * length at the two averages, per row.
  std::vector<float> high(n_rows());
  std::vector<float> low(n_rows());
  for (std::uint32_t row = 0; row < n_rows(); ++row) {
    high[row] = static_cast<float>(k1 * (1 - b + b * rows_.lengths[row] / bound_average_));
    low[row] = static_cast<float>(k1 * (1 - b + b * rows_.lengths[row] / best_average_));
  }

  std::uint32_t windowed = 0;
  auto sparse = static_cast<std::uint32_t>(n_windowed);
  std::uint32_t window_entry = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<const std::uint32_t> term_rows =
        std::span(postings.rows).subspan(postings.ends[i], postings.ends[i + 1] - postings.ends[i]);
    const auto n = static_cast<std::uint32_t>(term_rows.size());
    const bool is_windowed = n >= many;
    Term& term = terms_[i];
    term = {
        is_windowed ? windowed : sparse, n, is_windowed ? window_entry : kNone, {0, 0, 0}, false};
    places_[numbers_[i]] = static_cast<std::uint32_t>(i);

    std::array<std::uint32_t, 256> histogram{};  // of impacts in 1/255, rounded down
    for (std::uint32_t j = 0; j < n; ++j) {
      const std::uint32_t row = term_rows[j];
      const std::uint32_t f = postings.frequencies[postings.ends[i] + j];
      const auto f_real = static_cast<float>(f);
      // 1e-5 covers the rounding of these floats and of the scores.
      const float bound = std::ceil(255.0F * (f_real / (f_real + high[row])) * 1.00001F);
      bounds_[term.begin + j] = static_cast<std::uint8_t>(std::min(bound, 255.0F));
      ++histogram[static_cast<std::uint8_t>(255.0F * (f_real / (f_real + low[row])) * 0.99999F)];
      frequencies_[term.begin + j] = static_cast<std::uint8_t>(std::min<std::uint32_t>(f, kEscape));
      if (f >= kEscape) {
        escapes_.emplace_back(term.begin + j, f);
        term.escapes = true;
      }
    }
    std::uint64_t above = 0;
    std::size_t depth = 0;
    for (int impact = 255; impact >= 0 && depth < 3; --impact) {
      above += histogram[static_cast<std::size_t>(impact)];
      while (depth < 3 && above >= kBestDepths[depth]) {
        term.best[depth++] = static_cast<std::uint8_t>(impact);
      }
    }

    if (!is_windowed) {
      std::copy(term_rows.begin(), term_rows.end(),
                sparse_rows_.begin() + static_cast<std::ptrdiff_t>(sparse - n_windowed));
      sparse += n;
      continue;
    }
    std::uint32_t j = 0;
    for (std::uint32_t window = 0; window <= windows; ++window) {
      window_starts_[window_entry + window] = j;
      std::uint8_t highest = 0;
      for (; j < n && term_rows[j] / kWindow == window; ++j) {
        offsets_[windowed + j] = static_cast<std::uint16_t>(term_rows[j] % kWindow);
        highest = std::max(highest, bounds_[windowed + j]);
      }
      window_maxima_[window_entry + window] = highest;
    }
    windowed += n;
    window_entry += windows + 1;
  }
  std::sort(escapes_.begin(), escapes_.end());
}

std::uint32_t Segment::find(std::uint32_t slot) const noexcept {
  const auto at = std::lower_bound(rows_.slots.begin(), rows_.slots.end(), slot);
  return at != rows_.slots.end() && *at == slot
             ? static_cast<std::uint32_t>(at - rows_.slots.begin())
             : kNone;
}

std::uint32_t Segment::dead(std::uint32_t place, StateNumber state,
                            const EpochDomain::Pin& pin) const noexcept {
  const std::span<const StateNumber> deaths = deaths_[place].view(pin);
  // Mostly all of them are visible: look from the end.
  std::size_t n = deaths.size();
  while (n > 0 && deaths[n - 1] > state) --n;
  return static_cast<std::uint32_t>(n);
}

std::uint32_t Segment::escaped(std::uint32_t posting) const noexcept {
  const auto at = std::lower_bound(escapes_.begin(), escapes_.end(),
                                   std::pair<std::uint32_t, std::uint32_t>(posting, 0));
  return at->second;
}

std::uint32_t Segment::frequency_at(const Term& term, std::uint32_t row) const noexcept {
  if (term.windows == kNone) {
    const std::uint32_t* first = sparse_rows(term);
    const std::uint32_t* at = std::lower_bound(first, first + term.count, row);
    if (at == first + term.count || *at != row) return 0;
    return frequency(term, static_cast<std::uint32_t>(at - first));
  }
  const std::uint32_t* starts = window_starts(term) + row / kWindow;
  const std::uint16_t* all = offsets(term);
  const auto offset = static_cast<std::uint16_t>(row % kWindow);
  const std::uint16_t* last = all + starts[1];
  const std::uint16_t* at = std::lower_bound(all + starts[0], last, offset);
  if (at == last || *at != offset) return 0;
  return frequency(term, static_cast<std::uint32_t>(at - all));
}

void Segment::reserve_erase(std::uint32_t row, EpochDomain& epochs) {
  for_each_term(row, [&](std::uint32_t number) {
    AppendArray<StateNumber>& deaths = deaths_[places_[number]];
    deaths.reserve(deaths.size() + 1, epochs);
  });
}

void Segment::erase(std::uint32_t row, StateNumber state, EpochDomain& epochs) {
  for_each_term(row, [&](std::uint32_t number) {
    deaths_[places_[number]].append(state, epochs);
    ++n_dead_postings_;
  });
  deleted_[row].store(state, std::memory_order_relaxed);
  ++n_dead_rows_;
}

std::uint64_t Segment::memory_bytes() const noexcept {
  return bytes_of(rows_.slots) + bytes_of(rows_.lengths) + bytes_of(rows_.row_term_ends) +
         bytes_of(rows_.row_terms) + n_rows() * sizeof(StateNumber) + bytes_of(places_) +
         bytes_of(numbers_) + bytes_of(terms_) + bytes_of(offsets_) + bytes_of(sparse_rows_) +
         bytes_of(bounds_) + bytes_of(frequencies_) + bytes_of(escapes_) +
         bytes_of(window_starts_) + bytes_of(window_maxima_) + bytes_of(deaths_);
}

}  // namespace spector
