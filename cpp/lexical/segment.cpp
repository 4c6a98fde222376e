#include "lexical/segment.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "lexical/packed_postings.hpp"

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

std::size_t n_threads() noexcept {
  return std::min(4U, std::max(1U, std::thread::hardware_concurrency()));
}

std::size_t count_escapes(std::span<const std::uint32_t> frequencies) noexcept {
  std::size_t n = 0;
  for (const std::uint32_t f : frequencies) n += f >= Segment::kEscape ? 1 : 0;
  return n;
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

Segment::Norms::Norms(double k1, double b, const Stored& stored)
    : k1_(k1), b_(b), high_average_(stored.bound_average), low_average_(stored.best_average) {
  constexpr std::uint32_t kUsual = 1024;
  const std::uint32_t longest =
      stored.lengths.empty() ? 0 : *std::max_element(stored.lengths.begin(), stored.lengths.end());
  const std::uint32_t n = std::min(longest, kUsual) + 1;
  high_.resize(n);
  low_.resize(n);
  for (std::uint32_t length = 0; length < n; ++length) {
    high_[length] = norm(length, high_average_);
    low_[length] = norm(length, low_average_);
  }
}

Segment::Segment(Rows rows, Postings postings, double k1, double b, double average)
    : own_(std::move(rows)), places_(postings.terms) {
  if (postings.rows.size() >= kNone) throw Capacity("a segment has over 4,294,967,294 postings");
  const std::size_t n_terms = postings.terms.size();
  own_counts_.reserve(n_terms);
  for (std::size_t i = 0; i < n_terms; ++i) {
    own_counts_.push_back(static_cast<std::uint32_t>(postings.ends[i + 1] - postings.ends[i]));
  }
  stored_.slots = own_.slots;
  stored_.lengths = own_.lengths;
  stored_.counts = own_counts_;
  stored_.bound_average = std::max(average, 1e-9) * kDrift;
  stored_.best_average = std::max(average, 1e-9) / kDrift;
  n_postings_ = postings.rows.size();
  norms_ = Norms(k1, b, stored_);
  make_alive();
  make_terms([&](std::size_t first, std::size_t last, Unpacked& /*scratch*/) {
    const std::uint64_t begin = postings.ends[first];
    const std::uint64_t n = postings.ends[last] - begin;
    return std::pair(std::span<const std::uint32_t>(postings.rows).subspan(begin, n),
                     std::span<const std::uint32_t>(postings.frequencies).subspan(begin, n));
  });
}

Segment::Segment(Stored stored, double k1, double b, bool now)
    : stored_(std::move(stored)),
      n_postings_(std::accumulate(stored_.counts.begin(), stored_.counts.end(), std::uint64_t{0})),
      norms_(k1, b, stored_) {
  make_alive();
  std::vector<std::uint32_t> numbers(stored_.counts.size());
  std::iota(numbers.begin(), numbers.end(), 0U);
  places_ = TermPlaces(numbers);
  if (!now) return;
  make_terms([&](std::size_t first, std::size_t last, Unpacked& list) {
    const auto counts = stored_.counts.subspan(first, last - first);
    const auto n = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    list.rows.resize(n);
    list.frequencies.resize(n);
    std::size_t at = 0;
    for (std::size_t i = first; i < last; at += stored_.counts[i], ++i) {
      unpack(static_cast<std::uint32_t>(i), std::span(list.rows).subspan(at, stored_.counts[i]),
             std::span(list.frequencies).subspan(at, stored_.counts[i]));
    }
    return std::pair(std::span<const std::uint32_t>(list.rows),
                     std::span<const std::uint32_t>(list.frequencies));
  });
  stored_.ends = {};
  stored_.lists = {};
}

Segment::~Segment() {
  delete row_terms_.load(std::memory_order_relaxed);
  if (!blocks_.empty()) return;
  for (std::size_t i = 0; i < stored_.counts.size(); ++i) {
    const std::uint64_t list = lists_[i].load(std::memory_order_relaxed);
    if (list >> kCountShift != 1) ::operator delete(const_cast<std::byte*>(pointer(list)));
  }
}

void Segment::make_alive() {
  deleted_.reset(
      static_cast<StateNumber*>(std::calloc(n_rows() + std::size_t{1}, sizeof(StateNumber))));
  if (deleted_ == nullptr) throw std::bad_alloc();
  lists_ = std::make_unique<ListPlace[]>(stored_.counts.size());
}

bool Segment::windowed(std::size_t count) const noexcept {
  // Windows pay where a term has some rows in most of them.
  return count >= std::max<std::size_t>(64, 2 * std::size_t{n_windows()});
}

unsigned Segment::part_bits(std::size_t count) const noexcept {
  // So many postings a part that one or two registers hold them.
  constexpr std::size_t kInPart = 8;
  if (!windowed(count)) return kWindowBits;
  unsigned bits = kWindowBits;
  while (bits > 0 && count << bits > kInPart * n_rows()) --bits;
  return bits;
}

std::size_t Segment::term_bytes(std::size_t count, std::size_t n_escapes) const noexcept {
  if (count == 1 && n_escapes == 0) return 0;
  const std::size_t starts = n_windows() + std::size_t{1};
  const std::size_t parts = n_parts(part_bits(count));
  const std::size_t in_window =
      parts == 0 ? 0 : (parts + 1) * sizeof(std::uint16_t) + parts * sizeof(std::uint8_t);
  const std::size_t arrays = n_escapes * sizeof(Escape) + n_windows() * in_window +
                             count * (row_bytes(windowed(count)) + 2) +
                             (windowed(count) ? starts * (sizeof(std::uint32_t) + 1) : 0);
  return (headless(count, n_escapes) ? 0 : sizeof(TermHead)) +
         (arrays + alignof(TermHead) - 1) / alignof(TermHead) * alignof(TermHead);
}

template <class Lists>
void Segment::make_terms(const Lists& lists) {
  constexpr std::size_t kPart = std::size_t{1} << 18;  // postings
  std::vector<std::size_t> parts{0};                   // first terms
  std::size_t in_part = 0;
  for (std::size_t i = 0; i < stored_.counts.size(); ++i) {
    if (in_part >= kPart) {
      parts.push_back(i);
      in_part = 0;
    }
    in_part += stored_.counts[i];
  }
  parts.push_back(stored_.counts.size());
  blocks_.resize(parts.size() - 1);
  parallel_for(blocks_.size(), n_threads(), [&](std::size_t part) {
    const std::size_t first = parts[part];
    const std::size_t last = parts[part + 1];
    Unpacked scratch;
    const auto [rows, frequencies] = lists(first, last, scratch);
    std::vector<std::uint32_t> n_escapes(last - first);
    std::size_t bytes = 0;
    std::size_t at = 0;
    for (std::size_t i = first; i < last; at += stored_.counts[i], ++i) {
      const std::size_t n = count_escapes(frequencies.subspan(at, stored_.counts[i]));
      n_escapes[i - first] = static_cast<std::uint32_t>(n);
      bytes += term_bytes(stored_.counts[i], n);
    }
    blocks_[part] = std::unique_ptr<std::byte[]>(new std::byte[bytes]);
    std::byte* next = blocks_[part].get();
    at = 0;
    for (std::size_t i = first; i < last; at += stored_.counts[i], ++i) {
      const std::size_t n = n_escapes[i - first];
      lists_[i].store(make_term(next, rows.subspan(at, stored_.counts[i]),
                                frequencies.subspan(at, stored_.counts[i]), n),
                      std::memory_order_relaxed);  // the segment is published afterwards
      next += term_bytes(stored_.counts[i], n);
    }
    made_bytes_ += bytes;
  });
}

std::uint64_t Segment::make_term(std::byte* at, std::span<const std::uint32_t> rows,
                                 std::span<const std::uint32_t> frequencies,
                                 std::size_t n_escapes) const noexcept {
  const std::size_t n = rows.size();
  TermHead head{static_cast<std::uint32_t>(n),           windowed(n) ? n_windows() : kNone,
                static_cast<std::uint32_t>(n_escapes),   {},
                static_cast<std::uint8_t>(part_bits(n)), row_bytes(windowed(n))};
  if (!headless(n, n_escapes)) {
    fill({head, at + sizeof(TermHead)}, head, rows, frequencies);
    return std::bit_cast<std::uint64_t>(new (at) TermHead(head));
  }
  auto list = std::bit_cast<std::uint64_t>(at);
  alignas(std::uint64_t) std::byte one[sizeof list]{};
  fill({head, n == 1 ? one : at}, head, rows, frequencies);
  if (n == 1) std::memcpy(&list, one, sizeof list);
  return list | std::uint64_t{n} << kCountShift;
}

void Segment::fill(const Term& term, TermHead& head, std::span<const std::uint32_t> rows,
                   std::span<const std::uint32_t> frequencies) const noexcept {
  const std::size_t n = rows.size();
  // The accessors give the places, here to be written to.
  auto* const bounds = const_cast<std::uint8_t*>(Segment::bounds(term));
  auto* const kept = const_cast<std::uint8_t*>(Segment::frequencies(term));

  constexpr std::size_t kBlock = 256;
  float f[kBlock];
  float high[kBlock];
  float low[kBlock];
  std::uint8_t highest[kBlock];
  std::uint8_t lowest[kBlock];
  std::uint32_t histogram[256];  // of impacts in 1/255, rounded down
  const bool ranked = n >= kBestDepths[0];
  if (ranked) std::fill_n(histogram, 256, 0U);
  for (std::size_t first = 0; first < n; first += kBlock) {
    const std::size_t in_block = std::min(kBlock, n - first);
    for (std::size_t i = 0; i < in_block; ++i) {
      const std::uint32_t length = stored_.lengths[rows[first + i]];
      const std::uint32_t frequency = frequencies[first + i];
      f[i] = static_cast<float>(frequency);
      high[i] = norms_.high(length);
      low[i] = norms_.low(length);
      kept[first + i] = static_cast<std::uint8_t>(std::min<std::uint32_t>(frequency, kEscape));
    }
    // Without branches: it is vectorised. 1e-5 covers the rounding of these floats and of the
    // scores.
    for (std::size_t i = 0; i < in_block; ++i) {
      const float bound = 255.0F * (f[i] / (f[i] + high[i])) * 1.00001F;
      const auto whole = static_cast<std::int32_t>(bound);
      const std::int32_t up = whole + (static_cast<float>(whole) < bound ? 1 : 0);
      highest[i] = static_cast<std::uint8_t>(up < 255 ? up : 255);
      lowest[i] = static_cast<std::uint8_t>(
          static_cast<std::int32_t>(255.0F * (f[i] / (f[i] + low[i])) * 0.99999F));
    }
    std::copy_n(highest, in_block, bounds + first);
    if (!ranked) continue;
    for (std::size_t i = 0; i < in_block; ++i) ++histogram[lowest[i]];
  }
  std::uint64_t above = 0;
  std::size_t depth = 0;
  constexpr std::size_t kDepths = std::size(kBestDepths);
  for (int impact = 255; impact >= 0 && depth < kDepths && kBestDepths[depth] <= n; --impact) {
    above += histogram[impact];
    while (depth < kDepths && above >= kBestDepths[depth]) {
      head.best[depth++] = static_cast<std::uint8_t>(impact);
    }
  }

  if (term.n_escapes > 0) {
    auto* escape = const_cast<Escape*>(escapes(term));
    for (std::size_t i = 0; i < n; ++i) {
      if (frequencies[i] >= kEscape) *escape++ = {static_cast<std::uint32_t>(i), frequencies[i]};
    }
  }
  if (term.windows == kNone) {
    return with_rows(term, [&]<class Row>(const Row* kept_rows) {
      std::transform(rows.begin(), rows.end(), const_cast<Row*>(kept_rows),
                     [](std::uint32_t row) { return static_cast<Row>(row); });
    });
  }
  auto* const offsets = const_cast<std::uint16_t*>(Segment::offsets(term));
  for (std::size_t i = 0; i < n; ++i) offsets[i] = static_cast<std::uint16_t>(rows[i] % kWindow);
  auto* const starts = const_cast<std::uint32_t*>(window_starts(term));
  auto* const maxima = const_cast<std::uint8_t*>(window_maxima(term));
  std::size_t i = 0;
  for (std::uint32_t window = 0; window <= term.windows; ++window) {
    const std::size_t begin = i;
    starts[window] = static_cast<std::uint32_t>(begin);
    while (i < n && rows[i] / kWindow == window) ++i;
    std::uint8_t maximum = 0;
    for (std::size_t j = begin; j < i; ++j) maximum = std::max(maximum, bounds[j]);
    maxima[window] = maximum;
  }
  const std::size_t parts = n_parts(term.part_bits);
  if (parts == 0) return;
  auto* part_start = const_cast<std::uint16_t*>(part_starts(term));
  auto* part_maximum = const_cast<std::uint8_t*>(part_maxima(term));
  std::size_t next = 0;
  for (std::uint32_t window = 0; window < term.windows; ++window) {
    const std::size_t begin = next;
    for (std::size_t part = 0; part < parts; ++part) {
      *part_start++ = static_cast<std::uint16_t>(next - begin);
      std::uint8_t maximum = 0;
      const std::size_t last = window * kWindow + ((part + 1) << term.part_bits);
      for (; next < n && rows[next] < last; ++next) maximum = std::max(maximum, bounds[next]);
      *part_maximum++ = maximum;
    }
    *part_start++ = static_cast<std::uint16_t>(next - begin);
  }
}

void Segment::unpack(std::uint32_t place, std::span<std::uint32_t> rows,
                     std::span<std::uint32_t> frequencies) const {
  const std::uint64_t begin = place == 0 ? 0 : stored_.ends[place - 1];
  if (!unpack_postings(stored_.lists.subspan(begin, stored_.ends[place] - begin), n_rows(),
                       stored_.all_blocks, rows, frequencies)) {
    throw Corruption(stored_.path + " is damaged: posting list " + std::to_string(place) +
                     " is none; " + kRebuildIndex);
  }
}

Segment::Term Segment::unpack(std::uint32_t place) const {
  Unpacked list;
  read(place, list);
  const std::size_t n_escapes = count_escapes(list.frequencies);
  const std::size_t bytes = term_bytes(list.rows.size(), n_escapes);
  std::byte* const block = bytes == 0 ? nullptr : static_cast<std::byte*>(::operator new(bytes));
  const std::uint64_t made = make_term(block, list.rows, list.frequencies, n_escapes);
  std::uint64_t first = kPacked;
  // Release: see `term`. Acquire: another reader was first, and its list is used.
  if (!lists_[place].compare_exchange_strong(first, made, std::memory_order_acq_rel,
                                             std::memory_order_acquire)) {
    ::operator delete(block);
    return term_of(lists_[place], first);
  }
  made_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return term_of(lists_[place], made);
}

void Segment::read(std::uint32_t place, Unpacked& list) const {
  list.rows.resize(stored_.counts[place]);
  list.frequencies.resize(stored_.counts[place]);
  if (!stored_.ends.empty()) return unpack(place, list.rows, list.frequencies);
  const Term kept = term(place);
  for_each_row(kept, [&](std::uint32_t row, std::uint32_t i) {
    list.rows[i] = row;
    list.frequencies[i] = frequency(kept, i);
  });
}

void Segment::make_ends(std::span<std::uint32_t> sizes) {
  std::uint64_t end = 0;
  for (std::uint32_t& size : sizes) {
    end += size;
    if (end > 0xffffffffU) throw Capacity("a segment's rows have over 4 GiB of terms");
    size = static_cast<std::uint32_t>(end);
  }
}

void Segment::make_row_terms(const std::atomic<bool>& abandoned) {
  if (has_row_terms() || n_rows() == 0) return;
  // Postings come by term, so each row's terms come in the order in which the row lists them. Each
  // thread looks after some of the rows.
  constexpr std::uint64_t kWorthThreads = 1U << 18;  // postings
  const std::size_t threads = n_postings_ < kWorthThreads ? 1 : n_threads();
  constexpr std::size_t kBlock = 256;
  const auto for_each_block = [&](const auto& visit) {
    parallel_for(threads, threads, [&](std::size_t part) {
      const auto first = static_cast<std::uint32_t>(n_rows() * part / threads);
      const auto last = static_cast<std::uint32_t>(n_rows() * (part + 1) / threads);
      Unpacked list;
      for (std::uint32_t place = 0; place < stored_.counts.size(); ++place) {
        if (abandoned.load(std::memory_order_relaxed)) return;
        read(place, list);
        const auto begin = std::lower_bound(list.rows.begin(), list.rows.end(), first);
        std::span<const std::uint32_t> rows(begin, std::lower_bound(begin, list.rows.end(), last));
        for (; rows.size() > kBlock; rows = rows.subspan(kBlock)) visit(rows.first(kBlock), place);
        visit(rows, place);
      }
    });
  };
  struct Row {
    std::uint32_t newest;  // term
    std::uint32_t at;      // first how many bytes, then where the next one goes
  };
  std::vector<Row> state(n_rows());
  const auto size_of = [](std::uint32_t step) {
    return static_cast<std::uint32_t>((std::bit_width(step | 1U) + 6) / 7);
  };
  for_each_block([&](std::span<const std::uint32_t> rows, std::uint32_t place) {
    for (const std::uint32_t row : rows) {
      state[row].at += size_of(place - state[row].newest);
      state[row].newest = place;
    }
  });
  if (abandoned.load(std::memory_order_relaxed)) return;
  std::vector<std::uint32_t> ends(n_rows());
  for (std::uint32_t row = 0; row < n_rows(); ++row) ends[row] = state[row].at;
  make_ends(ends);
  for (std::uint32_t row = 0; row < n_rows(); ++row) state[row] = {0, row == 0 ? 0 : ends[row - 1]};
  std::vector<std::uint8_t> terms(ends.back());
  for_each_block([&](std::span<const std::uint32_t> rows, std::uint32_t place) {
    // Rows are anywhere in memory. First without branches, so that the processor waits for many at
    // once.
    std::uint32_t steps[kBlock];
    std::uint32_t places[kBlock];
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Row& row = state[rows[i]];
      steps[i] = place - row.newest;
      places[i] = row.at;
      row = {place, row.at + size_of(steps[i])};
      __builtin_prefetch(terms.data() + places[i], 1);
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::uint8_t* at = terms.data() + places[i];
      for (; steps[i] >= 0x80; steps[i] >>= 7) *at++ = static_cast<std::uint8_t>(steps[i] | 0x80);
      *at = static_cast<std::uint8_t>(steps[i]);
    }
  });
  if (abandoned.load(std::memory_order_relaxed)) return;
  auto made = std::make_unique<RowTerms>(std::move(ends), std::move(terms));
  const std::uint64_t bytes = bytes_of(made->ends) + bytes_of(made->bytes);
  const RowTerms* first = nullptr;
  // Release: who sees it sees the terms.
  if (row_terms_.compare_exchange_strong(first, made.get(), std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
    [[maybe_unused]] const RowTerms* published = made.release();
    made_bytes_ += bytes;
  }
}

std::uint32_t Segment::find(std::uint32_t slot) const noexcept {
  const auto at = std::lower_bound(stored_.slots.begin(), stored_.slots.end(), slot);
  return at != stored_.slots.end() && *at == slot
             ? static_cast<std::uint32_t>(at - stored_.slots.begin())
             : kNone;
}

std::uint32_t Segment::dead(std::uint32_t place, StateNumber state,
                            const EpochDomain::Pin& pin) const {
  // Mostly all deaths are visible: look from the end.
  if (state >= counted_from_.load(std::memory_order_acquire)) {
    const std::span<const StateNumber> deaths = deaths_[place].view(pin);
    std::size_t n = deaths.size();
    while (n > 0 && deaths[n - 1] > state) --n;
    return static_cast<std::uint32_t>(n);
  }
  std::span<const Death> deaths = uncounted_.view(pin);
  while (!deaths.empty() && deaths.back().state > state) deaths = deaths.first(deaths.size() - 1);
  if (deaths.empty()) return 0;
  const Term kept = term(place);
  std::uint32_t n = 0;
  constexpr std::size_t kLookUpCost = 16;  // in postings looked at
  if (deaths.size() * kLookUpCost < kept.count) {
    for (const Death& death : deaths) n += frequency_at(kept, death.row) > 0 ? 1 : 0;
  } else {
    for_each_row(kept, [&](std::uint32_t row, std::uint32_t) { n += alive(row, state) ? 0 : 1; });
  }
  return n;
}

std::uint32_t Segment::escaped(const Term& term, std::uint32_t i) noexcept {
  const Escape* first = escapes(term);
  return std::lower_bound(first, first + term.n_escapes, Escape{i, 0})->frequency;
}

std::uint32_t Segment::frequency_at(const Term& term, std::uint32_t row) noexcept {
  if (term.windows == kNone) {
    return with_rows(term, [&](const auto* first) -> std::uint32_t {
      const auto* at = std::lower_bound(first, first + term.count, row);
      if (at == first + term.count || *at != row) return 0;
      return frequency(term, static_cast<std::uint32_t>(at - first));
    });
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
  if (!counts_deaths()) return uncounted_.reserve(uncounted_.size() + 1, epochs);
  for_each_place(row, [&](std::uint32_t place) {
    AppendArray<StateNumber>& deaths = deaths_[place];
    deaths.reserve(deaths.size() + 1, epochs);
  });
}

void Segment::erase(std::uint32_t row, StateNumber state, EpochDomain& epochs) {
  if (counts_deaths()) {
    for_each_place(row, [&](std::uint32_t place) {
      deaths_[place].append(state, epochs);
      ++n_dead_postings_;
    });
  } else {
    uncounted_.append({row, state}, epochs);
  }
  std::atomic_ref(deleted_[row]).store(~state, std::memory_order_relaxed);
  ++n_dead_rows_;
}

void Segment::reserve_uncounted(EpochDomain& epochs) {
  deaths_.resize(stored_.counts.size());
  std::vector<std::uint32_t> places;
  for (const Death& death : uncounted_.view()) {
    for_each_place(death.row, [&](std::uint32_t place) { places.push_back(place); });
  }
  std::sort(places.begin(), places.end());
  for (auto at = places.begin(); at != places.end();) {
    const auto next = std::upper_bound(at, places.end(), *at);
    deaths_[*at].reserve(static_cast<std::size_t>(next - at), epochs);
    at = next;
  }
}

std::uint64_t Segment::memory_bytes() const noexcept {
  // Of packed lists as well: they are in memory as a mapped file is.
  return stored_.slots.size_bytes() + stored_.lengths.size_bytes() + stored_.counts.size_bytes() +
         stored_.ends.size_bytes() + stored_.lists.size_bytes() +
         made_bytes_.load(std::memory_order_relaxed) + stored_.counts.size() * sizeof(ListPlace) +
         n_rows() * sizeof(StateNumber) + places_.memory_bytes() + uncounted_.memory_bytes() +
         std::accumulate(
             deaths_.begin(), deaths_.end(), bytes_of(deaths_),
             [](std::uint64_t bytes, const auto& deaths) { return bytes + deaths.memory_bytes(); });
}

}  // namespace spector
