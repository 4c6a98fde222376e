#include "lexical/segment.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>
#include <numeric>
#include <thread>

#include "base/error.hpp"
#include "base/parallel.hpp"

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

// Loops over whole arrays that compilers vectorise: without branches, counting in the width of the
// elements for as long as that cannot overflow.
template <class T, class Matches>
std::size_t count_in_blocks(std::size_t n, const Matches& matches) noexcept {
  constexpr std::size_t kBlock = std::min<std::size_t>(std::numeric_limits<T>::max(), 4096) & ~15U;
  std::size_t total = 0;
  for (std::size_t first = 0; first < n; first += kBlock) {
    const std::size_t last = std::min(n, first + kBlock);
    T found = 0;
    for (std::size_t i = first; i < last; ++i) {
      found = static_cast<T>(found + (matches(i) ? 1 : 0));
    }
    total += found;
  }
  return total;
}

template <class T>
std::size_t count_equal(std::span<const T> values, T value) noexcept {
  return count_in_blocks<T>(values.size(), [&](std::size_t i) { return values[i] == value; });
}

// How many values are not above the one before.
template <class T>
std::size_t descents(std::span<const T> values) noexcept {
  if (values.empty()) return 0;
  const T* before = values.data();
  const T* after = before + 1;
  return count_in_blocks<T>(values.size() - 1,
                            [&](std::size_t i) { return before[i] >= after[i]; });
}

}  // namespace

void Documents::add(std::uint32_t slot, std::uint32_t length, std::span<const TermCount> terms) {
  const auto room = [](auto& items, std::size_t more) {
    const std::size_t need = items.size() + more;
    if (need > items.capacity()) items.reserve(std::max(need, items.capacity() * 2));
  };
  room(slots, 1);
  room(lengths, 1);
  room(ends, 1);
  room(counts, terms.size());
  slots.push_back(slot);
  lengths.push_back(length);
  counts.insert(counts.end(), terms.begin(), terms.end());
  ends.push_back(counts.size());
}

void Documents::clear() noexcept {
  constexpr std::uint64_t kKept = 1U << 20;  // bytes, for the next ones
  slots.clear();
  lengths.clear();
  ends.resize(1);
  counts.clear();
  if (memory_bytes() < kKept) return;
  slots = {};
  lengths = {};
  counts = {};
  ends.shrink_to_fit();  // keeps its capacity if there is no memory for less
}

std::uint64_t Documents::memory_bytes() const noexcept {
  return bytes_of(slots) + bytes_of(lengths) + bytes_of(ends) + bytes_of(counts);
}

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
    : rows_checked_(true) {
  if (postings.rows.size() >= kNone) throw Capacity("a segment has over 4,294,967,294 postings");
  const auto own = std::make_shared<Own>();
  own->rows = std::move(rows);
  arrays_.slots = own->rows.slots;
  arrays_.lengths = own->rows.lengths;
  arrays_.row_term_ends = own->rows.row_term_ends;
  arrays_.row_terms = own->rows.row_terms;
  arrays_.bound_average = std::max(average, 1e-9) * kDrift;
  arrays_.best_average = std::max(average, 1e-9) / kDrift;
  make_alive();
  const std::uint32_t windows = n_windows();
  // Windows pay where a term has some rows in most of them.
  const std::uint64_t many = std::max<std::uint64_t>(64, 2 * std::uint64_t{windows});
  const std::size_t count = postings.terms.size();

  own_places_.assign(count == 0 ? 0 : postings.terms.back() + std::size_t{1}, kNone);
  own_numbers_ = std::move(postings.terms);
  places_ = own_places_;
  numbers_ = own_numbers_;
  own->terms.resize(count);
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
  own->offsets.resize(n_windowed);
  own->sparse_rows.resize(postings.rows.size() - n_windowed);
  own->bounds.resize(postings.rows.size());
  own->frequencies.resize(postings.rows.size());
  own->window_starts.resize(n_windowed_terms * (windows + 1));
  own->window_maxima.resize(n_windowed_terms * (windows + 1));

  // c0 + c1 * length at the two averages, per row.
  std::vector<float> high(n_rows());
  std::vector<float> low(n_rows());
  for (std::uint32_t row = 0; row < n_rows(); ++row) {
    high[row] = static_cast<float>(k1 * (1 - b + b * arrays_.lengths[row] / arrays_.bound_average));
    low[row] = static_cast<float>(k1 * (1 - b + b * arrays_.lengths[row] / arrays_.best_average));
  }

  std::uint32_t windowed = 0;
  auto sparse = static_cast<std::uint32_t>(n_windowed);
  std::uint32_t window_entry = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<const std::uint32_t> term_rows =
        std::span(postings.rows).subspan(postings.ends[i], postings.ends[i + 1] - postings.ends[i]);
    const auto n = static_cast<std::uint32_t>(term_rows.size());
    const bool is_windowed = n >= many;
    Term& term = own->terms[i];
    term = {is_windowed ? windowed : sparse, n, is_windowed ? window_entry : kNone, {0, 0, 0}, 0};
    own_places_[numbers_[i]] = static_cast<std::uint32_t>(i);

    std::array<std::uint32_t, 256> histogram{};  // of impacts in 1/255, rounded down
    for (std::uint32_t j = 0; j < n; ++j) {
      const std::uint32_t row = term_rows[j];
      const std::uint32_t f = postings.frequencies[postings.ends[i] + j];
      const auto f_real = static_cast<float>(f);
      // 1e-5 covers the rounding of these floats and of the scores.
      const float bound = std::ceil(255.0F * (f_real / (f_real + high[row])) * 1.00001F);
      own->bounds[term.begin + j] = static_cast<std::uint8_t>(std::min(bound, 255.0F));
      ++histogram[static_cast<std::uint8_t>(255.0F * (f_real / (f_real + low[row])) * 0.99999F)];
      own->frequencies[term.begin + j] =
          static_cast<std::uint8_t>(std::min<std::uint32_t>(f, kEscape));
      if (f >= kEscape) {
        own->escapes.push_back({term.begin + j, f});
        term.escapes = 1;
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
                own->sparse_rows.begin() + static_cast<std::ptrdiff_t>(sparse - n_windowed));
      sparse += n;
      continue;
    }
    std::uint32_t j = 0;
    for (std::uint32_t window = 0; window <= windows; ++window) {
      own->window_starts[window_entry + window] = j;
      std::uint8_t highest = 0;
      for (; j < n && term_rows[j] / kWindow == window; ++j) {
        own->offsets[windowed + j] = static_cast<std::uint16_t>(term_rows[j] % kWindow);
        highest = std::max(highest, own->bounds[windowed + j]);
      }
      own->window_maxima[window_entry + window] = highest;
    }
    windowed += n;
    window_entry += windows + 1;
  }
  std::sort(own->escapes.begin(), own->escapes.end());
  arrays_.terms = own->terms;
  arrays_.offsets = own->offsets;
  arrays_.sparse_rows = own->sparse_rows;
  arrays_.bounds = own->bounds;
  arrays_.frequencies = own->frequencies;
  arrays_.escapes = own->escapes;
  arrays_.window_starts = own->window_starts;
  arrays_.window_maxima = own->window_maxima;
  owners_.push_back(own);
}

Segment::Segment(const Arrays& arrays, std::vector<std::shared_ptr<const void>> owners)
    : arrays_(arrays), owners_(std::move(owners)) {
  make_alive();
  own_numbers_.resize(arrays_.terms.size());
  std::iota(own_numbers_.begin(), own_numbers_.end(), 0U);
  numbers_ = own_numbers_;
  places_ = own_numbers_;
  deaths_.resize(arrays_.terms.size());
}

void Segment::make_alive() {
  deleted_.reset(
      static_cast<StateNumber*>(std::calloc(n_rows() + std::size_t{1}, sizeof(StateNumber))));
  if (deleted_ == nullptr) throw std::bad_alloc();
}

std::optional<Segment::Fault> Segment::fault(const Arrays& arrays) {
  const auto ascend = [](const auto& values) {
    bool ok = true;  // without a branch: it is vectorised
    for (std::size_t i = 1; i < values.size(); ++i) ok &= values[i - 1] < values[i];
    return ok;
  };
  const std::size_t n_rows = arrays.slots.size();
  if (n_rows >= kNone || !ascend(arrays.slots) || (n_rows > 0 && arrays.slots.back() == kNone)) {
    return Fault{Part::kSlots, "rows do not ascend"};
  }
  if (arrays.lengths.size() != n_rows) return Fault{Part::kLengths, "not one for each row"};
  constexpr std::uint32_t kLongest = 0x7fffffffU;  // kernels read them as signed
  if (std::any_of(arrays.lengths.begin(), arrays.lengths.end(),
                  [](std::uint32_t length) { return length > kLongest; })) {
    return Fault{Part::kLengths, "a document of more than 2^31-1 tokens"};
  }
  if (arrays.row_term_ends.size() != n_rows) {
    return Fault{Part::kRowTermEnds, "not one for each row"};
  }
  if (!std::is_sorted(arrays.row_term_ends.begin(), arrays.row_term_ends.end())) {
    return Fault{Part::kRowTermEnds, "a row ends before it begins"};
  }
  if ((n_rows == 0 ? 0 : arrays.row_term_ends.back()) != arrays.row_terms.size()) {
    return Fault{Part::kRowTerms, "they do not end with the last row"};
  }

  // Terms follow each other without gaps in two stretches: those with windows, then the others.
  const std::size_t n_postings = arrays.bounds.size();
  const std::uint64_t n_windows = (n_rows + kWindow - 1) / kWindow;
  if (n_postings >= kNone || arrays.frequencies.size() != n_postings) {
    return Fault{Part::kFrequencies, "not one for each posting"};
  }
  if (arrays.offsets.size() + arrays.sparse_rows.size() != n_postings) {
    return Fault{Part::kOffsets, "not one for each posting"};
  }
  if (arrays.terms.size() >= kNone) return Fault{Part::kTerms, "too many"};
  if (arrays.window_starts.size() != arrays.window_maxima.size()) {
    return Fault{Part::kWindowMaxima, "not one for each window"};
  }
  std::uint64_t windowed = 0;
  std::uint64_t sparse = arrays.offsets.size();
  std::uint64_t entry = 0;
  for (const Term& term : arrays.terms) {
    if (term.windows == kNone) {
      if (term.begin != sparse) return Fault{Part::kTerms, "a gap between terms"};
      sparse += term.count;
    } else {
      if (term.begin != windowed || term.windows != entry) {
        return Fault{Part::kTerms, "a gap between terms"};
      }
      windowed += term.count;
      entry += n_windows + 1;
    }
    if (term.count == 0 || term.escapes > 1) return Fault{Part::kTerms, "a term of no rows"};
  }
  if (windowed != arrays.offsets.size() || sparse != n_postings) {
    return Fault{Part::kTerms, "they do not end with the last posting"};
  }
  if (entry != arrays.window_starts.size()) {
    return Fault{Part::kWindowStarts, "not those of the terms"};
  }

  // The postings themselves, which are most of the work: in parts of about equal size that begin
  // with a term. Rows ascend within a term, offsets within a window, so there are as many descents
  // as there are beginnings at which the values descend.
  constexpr std::size_t kPart = std::size_t{1} << 20;
  std::vector<std::size_t> parts{0};  // first terms
  std::size_t in_part = 0;
  for (std::size_t i = 0; i < arrays.terms.size(); ++i) {
    if (in_part > kPart) {
      parts.push_back(i);
      in_part = 0;
    }
    in_part += arrays.terms[i].count;
  }
  parts.push_back(arrays.terms.size());
  std::atomic<bool> rows_ascend{true};
  std::atomic<bool> offsets_ascend{true};
  std::atomic<bool> windows_ascend{true};
  std::atomic<std::size_t> n_escapes{0};
  const std::size_t last_width = n_windows == 0 ? 0 : n_rows - (n_windows - 1) * kWindow;
  const auto check_part = [&](std::span<const Term> terms) {
    std::span<const std::uint32_t> rows = arrays.sparse_rows.first(0);
    std::span<const std::uint16_t> offsets = arrays.offsets.first(0);
    std::size_t row_descents = 0;
    std::size_t offset_descents = 0;
    bool row_too_high = false;  // the last of each stretch that ascends tells
    bool offset_too_high = false;
    for (const Term& term : terms) {
      if (term.windows == kNone) {
        const std::size_t at = term.begin - arrays.offsets.size();
        if (rows.empty()) {
          rows = arrays.sparse_rows.subspan(at, 0);
        } else {
          row_descents += arrays.sparse_rows[at - 1] >= arrays.sparse_rows[at] ? 1 : 0;
        }
        row_too_high |= arrays.sparse_rows[at + term.count - 1] >= n_rows;
        rows = {rows.data(), rows.size() + term.count};
        continue;
      }
      const auto starts = arrays.window_starts.subspan(term.windows, n_windows + 1);
      if (starts.front() != 0 || starts.back() != term.count ||
          !std::is_sorted(starts.begin(), starts.end())) {
        windows_ascend = false;
        return;
      }
      if (offsets.empty()) {
        offsets = arrays.offsets.subspan(term.begin, 0);
      } else {
        offset_descents += arrays.offsets[term.begin - 1] >= arrays.offsets[term.begin] ? 1 : 0;
      }
      offsets = {offsets.data(), offsets.size() + term.count};
      const std::uint16_t* own = arrays.offsets.data() + term.begin;
      for (std::size_t window = 1; window < n_windows; ++window) {
        const std::uint32_t start = starts[window];
        if (start == starts[window - 1] || start == term.count) continue;
        offset_descents += own[start - 1] >= own[start] ? 1 : 0;
        offset_too_high |= own[start - 1] >= kWindow;
      }
      const bool in_last = starts[n_windows - 1] < term.count;
      offset_too_high |= own[term.count - 1] >= (in_last ? last_width : kWindow);
    }
    const auto count_escapes = [&](std::size_t first, std::size_t n) {
      if (n > 0) n_escapes += count_equal(arrays.frequencies.subspan(first, n), kEscape);
    };
    count_escapes(static_cast<std::size_t>(offsets.data() - arrays.offsets.data()), offsets.size());
    count_escapes(
        arrays.offsets.size() + static_cast<std::size_t>(rows.data() - arrays.sparse_rows.data()),
        rows.size());
    if (descents(rows) != row_descents || row_too_high) rows_ascend = false;
    if (descents(offsets) != offset_descents || offset_too_high) offsets_ascend = false;
  };
  const std::size_t threads = std::min(4U, std::max(1U, std::thread::hardware_concurrency()));
  parallel_for(parts.size() - 1, threads, [&](std::size_t part) {
    check_part(arrays.terms.subspan(parts[part], parts[part + 1] - parts[part]));
  });
  if (!windows_ascend) return Fault{Part::kWindowStarts, "a window ends before it begins"};
  if (!offsets_ascend) return Fault{Part::kOffsets, "rows of a window do not ascend"};
  if (!rows_ascend) return Fault{Part::kSparseRows, "rows of a term do not ascend"};

  // Each escape belongs to a frequency that is one, and there are as many: so each has its own.
  if (!ascend(arrays.escapes) ||
      std::any_of(arrays.escapes.begin(), arrays.escapes.end(), [&](const Escape& escape) {
        return escape.posting >= n_postings || arrays.frequencies[escape.posting] != kEscape ||
               escape.frequency < kEscape;
      })) {
    return Fault{Part::kEscapes, "one is of no posting"};
  }
  if (n_escapes != arrays.escapes.size()) {
    return Fault{Part::kEscapes, "not one for each high frequency"};
  }
  return std::nullopt;
}

namespace {

// Reads a varint from bytes[at, end) and moves `at` behind it; false if there is no good one.
bool read_varint(std::span<const std::uint8_t> bytes, std::uint32_t& at, std::uint32_t end,
                 std::uint32_t& value) noexcept {
  std::uint64_t read = 0;
  for (unsigned shift = 0; at < end && shift < 35; shift += 7) {
    const std::uint8_t byte = bytes[at++];
    read |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte >= 0x80) continue;
    value = static_cast<std::uint32_t>(read);
    return read <= 0xffffffffU;
  }
  return false;
}

[[noreturn]] void fail_rows() {
  throw Corruption(
      "the terms of a row are not those of its postings: the file that the index was loaded from "
      "is damaged; rebuild it from the texts");
}

}  // namespace

void Segment::check_row(std::uint32_t row) const {
  if (rows_checked_) return;
  // Distinct terms that all have the row: so deleting it takes from each what it has.
  std::uint32_t at = row == 0 ? 0 : arrays_.row_term_ends[row - 1];
  const std::uint32_t end = arrays_.row_term_ends[row];
  for (std::uint64_t term = 0, n = 0; at < end; ++n) {
    std::uint32_t step = 0;
    if (!read_varint(arrays_.row_terms, at, end, step) || (step == 0 && n > 0)) fail_rows();
    term += step;
    if (term >= arrays_.terms.size() || frequency_at(arrays_.terms[term], row) == 0) fail_rows();
  }
}

void Segment::check_rows() const {
  if (rows_checked_) return;
  // Postings come by term, so each row's terms come in the order in which the row lists them.
  std::vector<std::uint32_t> next(n_rows());
  std::vector<std::uint32_t> newest(n_rows());
  for (std::uint32_t row = 1; row < n_rows(); ++row) next[row] = arrays_.row_term_ends[row - 1];
  for (std::uint32_t place = 0; place < arrays_.terms.size(); ++place) {
    for_each_row(arrays_.terms[place], [&](std::uint32_t row, std::uint32_t) {
      std::uint32_t step = 0;
      if (!read_varint(arrays_.row_terms, next[row], arrays_.row_term_ends[row], step) ||
          std::uint64_t{newest[row]} + step != place) {
        fail_rows();
      }
      newest[row] = place;
    });
  }
  if (!std::equal(next.begin(), next.end(), arrays_.row_term_ends.begin())) fail_rows();
  rows_checked_ = true;
}

std::uint32_t Segment::find(std::uint32_t slot) const noexcept {
  const auto at = std::lower_bound(arrays_.slots.begin(), arrays_.slots.end(), slot);
  return at != arrays_.slots.end() && *at == slot
             ? static_cast<std::uint32_t>(at - arrays_.slots.begin())
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
  const auto at =
      std::lower_bound(arrays_.escapes.begin(), arrays_.escapes.end(), Escape{posting, 0});
  return at->frequency;
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
  check_row(row);
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
  std::atomic_ref(deleted_[row]).store(~state, std::memory_order_relaxed);
  ++n_dead_rows_;
}

std::uint64_t Segment::memory_bytes() const noexcept {
  const Arrays& a = arrays_;
  return a.slots.size_bytes() + a.lengths.size_bytes() + a.row_term_ends.size_bytes() +
         a.row_terms.size_bytes() + a.terms.size_bytes() + a.offsets.size_bytes() +
         a.sparse_rows.size_bytes() + a.bounds.size_bytes() + a.frequencies.size_bytes() +
         a.escapes.size_bytes() + a.window_starts.size_bytes() + a.window_maxima.size_bytes() +
         n_rows() * sizeof(StateNumber) + bytes_of(own_places_) + bytes_of(own_numbers_) +
         std::accumulate(
             deaths_.begin(), deaths_.end(), bytes_of(deaths_),
             [](std::uint64_t bytes, const auto& deaths) { return bytes + deaths.memory_bytes(); });
}

}  // namespace spector
