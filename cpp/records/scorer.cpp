#include "records/scorer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/sort_best.hpp"
#include "kernels/dispatch.hpp"
#include "records/header_check.hpp"

namespace spector {
namespace {

using View = RecordStore::View;
using Slots = ScoringOptions::Slots;

constexpr std::size_t kBlock = kernels::kGateBlock;
// A block of any column lies in one page.
static_assert(CowArray<std::int64_t>::kPage % kBlock == 0 && CowArray<float>::kPage % kBlock == 0 &&
              CowArray<std::uint8_t>::kPage % kBlock == 0);
// A block with so many candidates is looked at as a whole.
constexpr std::size_t kDense = 24;
constexpr std::size_t kBatch = 64;  // vectors measured at a time: memory is never idle for long
constexpr std::size_t kBlocksAhead = 2;
constexpr std::size_t kFewBytes = std::size_t{4} << 20;  // of codes: not worth two looks
constexpr std::size_t kFewApart = std::size_t{1} << 17;
constexpr std::size_t kAhead = 64;  // candidates whose headers are asked for together, ahead

void refuse(const char* name, const char* allowed, double value) {
  throw std::invalid_argument(std::string(name) + " must be " + allowed + ", not " +
                              std::to_string(value));
}

void check_slots(const char* name, Slots slots) {
  if (std::adjacent_find(slots.begin(), slots.end(), std::greater_equal<>()) != slots.end()) {
    throw std::invalid_argument(std::string(name) + " must ascend and hold each slot once");
  }
}

void check(const ScoringOptions& options) {
  if (!is_time(options.now)) {
    throw std::invalid_argument("now must be in the years 1 to 9999, not " +
                                std::to_string(options.now));
  }
  if (options.allow) check_slots("allow", *options.allow);
  for (const Slots tag : options.tags) check_slots("the slots of a tag", tag);
  if (options.hyperfocus) check_slots("hyperfocus", *options.hyperfocus);
  if (!(options.boost >= 1 && options.boost <= 10)) refuse("boost", "in [1, 10]", options.boost);
  if (!(options.min_importance >= 0 && options.min_importance <= 10)) {
    refuse("min_importance", "in [0, 10]", options.min_importance);
  }
  if (!(options.strictness > 0 && options.strictness <= 100)) {
    refuse("strictness", "in (0, 100]", options.strictness);
  }
  if (!(options.alpha >= 0 && options.alpha <= 1e6F)) {
    refuse("alpha", "in [0, 1e6]", options.alpha);
  }
  if (!(options.beta >= 0 && options.beta <= 1e6F)) refuse("beta", "in [0, 1e6]", options.beta);
  if (!(options.alpha + options.beta > 0)) refuse("alpha + beta", "above 0", 0);
  if (options.lateral_distance &&
      !(*options.lateral_distance >= 0 && *options.lateral_distance <= 1e6F)) {
    refuse("lateral_distance", "in [0, 1e6]", *options.lateral_distance);
  }
}

bool contains(Slots slots, std::uint32_t slot) noexcept {
  return std::binary_search(slots.begin(), slots.end(), slot);
}

// Where `slot` is or would be, looked for from `at` on: near by costs little.
std::size_t advance(Slots slots, std::size_t at, std::uint32_t slot) noexcept {
  std::size_t step = 1;
  while (at + step < slots.size() && slots[at + step] < slot) step *= 2;
  const auto first = slots.begin() + static_cast<std::ptrdiff_t>(at + step / 2);
  const auto last =
      slots.begin() + static_cast<std::ptrdiff_t>(std::min(at + step + 1, slots.size()));
  return static_cast<std::size_t>(std::lower_bound(first, last, slot) - slots.begin());
}

// What phase 2 leaves, and how many query tags each slot has.
class Candidates {
 public:
  explicit Candidates(const ScoringOptions& options) : n_tags_(options.tags.size()) {
    std::vector<Slots> sets;
    if (options.allow) sets.push_back(*options.allow);
    if (options.hyperfocus) sets.push_back(*options.hyperfocus);
    if (!options.tags.empty() && options.any_tag) {
      unite(options.tags);
    } else {
      sets.insert(sets.end(), options.tags.begin(), options.tags.end());
    }
    all_ = sets.empty() && options.tags.empty();
    std::sort(sets.begin(), sets.end(), [](Slots a, Slots b) { return a.size() < b.size(); });
    if (options.tags.empty() || !options.any_tag) {
      if (sets.empty()) return;
      slots_ = sets.front();
      sets.erase(sets.begin());
    }
    for (const Slots set : sets) intersect(set);
  }
  Candidates(const Candidates&) = delete;
  Candidates& operator=(const Candidates&) = delete;
  Candidates(Candidates&&) = delete;
  Candidates& operator=(Candidates&&) = delete;
  ~Candidates() = default;

  // No list was given: every record is one.
  [[nodiscard]] bool all() const noexcept { return all_; }
  [[nodiscard]] Slots slots() const noexcept { return slots_; }
  // TAG-4.
  [[nodiscard]] float overlap(std::size_t i) const noexcept {
    if (matches_.empty()) return 1;
    return static_cast<float>(matches_[i]) / static_cast<float>(n_tags_);
  }

 private:
  void unite(std::span<const Slots> tags) {
    std::vector<std::uint32_t> slots;
    std::vector<std::uint32_t> matches;
    for (const Slots tag : tags) {
      slots.clear();
      matches.clear();
      std::size_t i = 0;
      for (const std::uint32_t slot : tag) {
        for (; i < own_.size() && own_[i] < slot; ++i) {
          slots.push_back(own_[i]);
          matches.push_back(matches_[i]);
        }
        const bool there = i < own_.size() && own_[i] == slot;
        slots.push_back(slot);
        matches.push_back(there ? matches_[i] + 1 : 1);
        if (there) ++i;
      }
      for (; i < own_.size(); ++i) {
        slots.push_back(own_[i]);
        matches.push_back(matches_[i]);
      }
      own_.swap(slots);
      matches_.swap(matches);
    }
    slots_ = own_;
  }

  void intersect(Slots set) {
    const Slots before = slots_;
    std::vector<std::uint32_t> kept;
    std::size_t at = 0;
    for (std::size_t i = 0; i < before.size() && at < set.size(); ++i) {
      at = advance(set, at, before[i]);
      if (at == set.size() || set[at] != before[i]) continue;
      if (!matches_.empty()) matches_[kept.size()] = matches_[i];
      kept.push_back(before[i]);
    }
    if (!matches_.empty()) matches_.resize(kept.size());
    own_ = std::move(kept);
    slots_ = own_;
  }

  std::size_t n_tags_;
  bool all_ = false;
  Slots slots_;
  std::vector<std::uint32_t> own_;
  std::vector<std::uint32_t> matches_;  // with any_tag
};

// Phases 1, 3 and 4.
class HeaderGate {
 public:
  HeaderGate(const View& view, const ScoringOptions& options, bool staleness)
      : view_(view),
        limits_{options.min_timestamp,
                options.max_timestamp,
                options.now - kBucketEnds.back(),
                options.min_importance,
                options.min_valence,
                options.max_valence,
                options.types,
                options.include_contradictions ? std::uint8_t{0} : kernels::kMarkContradicted},
        times_(options.min_timestamp != std::numeric_limits<std::int64_t>::min() ||
               options.max_timestamp != std::numeric_limits<std::int64_t>::max()),
        valences_(options.min_valence != -128 || options.max_valence != 127),
        importances_(options.min_importance > 0),
        // SCO-12: the bucket of what has the focus is 0.
        stale_(staleness && options.staleness && !options.hyperfocus) {}

  // Those that are looked at, from `base` on.
  [[nodiscard]] kernels::GateColumns columns(std::size_t base) const noexcept {
    return {&view_.marks[base], &view_.timestamps[base],
            valences_ ? &view_.valences[base] : nullptr,
            importances_ ? &view_.importances[base] : nullptr, stale_};
  }

  // Bits of what passes among `wanted` in the block that begins at `base`.
  using Words = std::array<std::uint64_t, kernels::GateMasks::kWords>;
  [[nodiscard]] Words pass_block(std::size_t base, const Words& wanted,
                                 PhaseCounts& counts) const noexcept {
    kernels::GateMasks masks;
    kernels::active().gate(limits_, columns(base), masks);
    Words words{};
    for (std::size_t w = 0; w < words.size(); ++w) {
      std::uint64_t word = wanted[w] & masks.present[w];
      counts.candidates += count(word);
      word &= masks.in_time[w];
      counts.in_time += count(word);
      word &= masks.in_valence[w];
      counts.in_valence += count(word);
      word &= masks.important[w];
      for (std::uint64_t rest = word & masks.maybe_stale[w]; rest != 0; rest &= rest - 1) {
        const auto bit = static_cast<std::size_t>(__builtin_ctzll(rest));
        if (is_stale(base + w * 64 + bit)) word &= ~(std::uint64_t{1} << bit);
      }
      counts.important += count(word);
      words[w] = word;
    }
    return words;
  }

  // The same for one slot below the view's end, with its block's columns.
  [[nodiscard]] bool pass(const kernels::GateColumns& block, std::size_t base, std::size_t slot,
                          PhaseCounts& counts) const noexcept {
    const std::size_t i = slot - base;
    const std::uint8_t marks = block.marks[i];
    if (marks == 0) return false;
    ++counts.candidates;
    if ((marks & limits_.excluded) != 0) return false;
    if (times_ && (block.timestamps[i] < limits_.min_timestamp ||
                   block.timestamps[i] > limits_.max_timestamp)) {
      return false;
    }
    ++counts.in_time;
    if (valences_ &&
        (block.valences[i] < limits_.min_valence || block.valences[i] > limits_.max_valence)) {
      return false;
    }
    ++counts.in_valence;
    if ((limits_.types >> (marks >> kernels::kMarkTypeShift & 3) & 1) == 0) return false;
    if (importances_ && block.importances[i] < limits_.min_importance) return false;
    constexpr unsigned kAsked =
        kernels::kMarkSlight | kernels::kMarkPinned | kernels::kMarkResolved;
    if (stale_ && (marks & kAsked) == (kernels::kMarkSlight | kernels::kMarkResolved) &&
        block.timestamps[i] <= limits_.stale_timestamp && is_stale(slot)) {
      return false;
    }
    ++counts.important;
    return true;
  }

  // Asks for what a sweep looks at in a block: pages are where they are, and a sweep goes from one
  // to the next faster than the processor can foresee.
  void prefetch_block(std::size_t base) const noexcept {
    ask(&view_.marks[base], kBlock);
    if (times_ || stale_) ask(&view_.timestamps[base], kBlock * sizeof(std::int64_t));
    if (valences_) ask(&view_.valences[base], kBlock);
    if (importances_) ask(&view_.importances[base], kBlock * sizeof(float));
    constexpr std::size_t kPage = CowArray<RecordStore::Place>::kPage;
    for (std::size_t i = 0; i < kBlock && base + i < view_.slots(); i += kPage) {
      ask(&view_.places[base + i], kPage * sizeof(RecordStore::Place));
    }
  }

  void prefetch(std::size_t slot) const noexcept {
    view_.marks.prefetch(slot);
    if (times_ || stale_) view_.timestamps.prefetch(slot);
    if (importances_) view_.importances.prefetch(slot);
    view_.places.prefetch(slot);
  }

 private:
  static void ask(const void* from, std::size_t bytes) noexcept {
    const auto* at = static_cast<const char*>(from);
    for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 0, 2);
  }

  static std::uint64_t count(std::uint64_t word) noexcept {
    return static_cast<std::uint64_t>(__builtin_popcountll(word));
  }

  // Of a record that is old, slight, resolved and not pinned: the rest of SCO-4.
  [[nodiscard]] bool is_stale(std::size_t slot) const noexcept {
    return reconsolidated(kBuckets - 1, view_.explicit_recalls[slot],
                          view_.passive_recalls[slot]) == kBuckets - 1;
  }

  const View& view_;
  kernels::GateLimits limits_;
  bool times_;
  bool valences_;
  bool importances_;
  bool stale_;
};

// Phase 6.
class Weights {
 public:
  Weights(const View& view, const ScoringOptions& options)
      : view_(view),
        multipliers_(options.decay.multipliers()),
        now_(options.now),
        alpha_(options.alpha / (options.alpha + options.beta)),
        beta_(options.beta / (options.alpha + options.beta)),
        additive_(options.additive),
        tags_(!options.tags.empty()),
        boost_(options.hyperfocus ? options.boost : 1),
        focused_(options.hyperfocus.has_value()),
        query_valence_(options.query_valence),
        most_strength_(strength_factor(view.most_strength)),
        most_value_(view.most_importance / 10 * most_strength_) {}

  // What of a record's header weighs.
  struct Weight {
    float decay;
    float importance;  // I * d
    float value;       // I * d * s
  };
  [[nodiscard]] Weight of(std::uint32_t slot, bool focused) const noexcept {
    const std::uint8_t marks = view_.marks[slot];
    unsigned bucket = 0;
    if (!focused && (marks & kernels::kMarkPinned) == 0 && (marks & kernels::kMarkResolved) != 0) {
      bucket = reconsolidated(decay_bucket(now_ - view_.timestamps[slot]),
                              view_.explicit_recalls[slot], view_.passive_recalls[slot]);
    }
    Weight weight{};
    weight.decay = std::min(1.0F, multipliers_[bucket] * arousal_factor(view_.arousals[slot]));
    weight.importance = view_.importances[slot] / 10 * weight.decay;
    weight.value = weight.importance * strength_factor(view_.strengths[slot]);
    return weight;
  }
  // The most that each of a batch can score: without decay, and as strong as any record.
  template <class Batch, std::size_t kN>
  void most(const Batch& batch, float strictness, std::array<float, kN>& scores) const noexcept {
    for (std::size_t i = 0; i < kN; ++i) {
      const float similarity = 1 / (1 + strictness * batch.distances[i]);
      const float value = batch.importances[i] / 10 * most_strength_;
      const float sum =
          additive_ ? alpha_ * similarity + beta_ * value : similarity * (alpha_ + beta_ * value);
      scores[i] = sum * (tags_ ? 1 + 0.3F * batch.overlaps[i] : 1) * boost_;
    }
  }
  [[nodiscard]] float factor(const Weight& weight) const noexcept {
    return alpha_ + beta_ * weight.value;
  }
  // Of a record that the scan has found.
  [[nodiscard]] Weight of(std::uint32_t slot) const noexcept { return of(slot, focused_); }

  // Does not fall with the similarity.
  [[nodiscard]] float score(std::uint32_t slot, float similarity, float overlap,
                            const Weight& weight) const noexcept {
    float score =
        additive_ ? alpha_ * similarity + beta_ * weight.value : similarity * factor(weight);
    if (tags_) score *= 1 + 0.3F * overlap;
    score *= boost_;
    if (query_valence_) {
      const int difference = *query_valence_ - view_.valences[slot];
      score *= 1 - static_cast<float>(std::abs(difference)) / 255;
    }
    return score;
  }

  // A similarity that is needed for `score`, whatever the record is.
  [[nodiscard]] double least_similarity(double score) const noexcept {
    const double most = most_value_ * 1.0001;
    const double base = score / (boost_ * (tags_ ? 1.3001 : 1.0));
    if (!additive_) return base / (alpha_ + beta_ * most);
    return alpha_ > 0 ? (base - beta_ * most) / alpha_ : 0;
  }

 private:
  const View& view_;
  std::array<float, kBuckets> multipliers_;
  std::int64_t now_;
  float alpha_;
  float beta_;
  bool additive_;
  bool tags_;
  float boost_;
  bool focused_;
  std::optional<std::int8_t> query_valence_;
  float most_strength_;
  double most_value_;
};

bool better(const Scored& a, const Scored& b) noexcept {
  return a.score > b.score || (a.score == b.score && a.slot < b.slot);
}

// The best k of what is offered (SCO-7).
class Top {
 public:
  explicit Top(std::size_t k) : k_(k) {}

  [[nodiscard]] bool full() const noexcept { return heap_.size() == k_; }
  // Of a full one.
  [[nodiscard]] float least() const noexcept { return heap_.front().score; }
  [[nodiscard]] bool takes(float score, std::uint32_t slot) const noexcept {
    return !full() || score > heap_.front().score ||
           (score == heap_.front().score && slot < heap_.front().slot);
  }
  void offer(const Scored& scored) {
    if (!takes(scored.score, scored.slot)) return;
    if (full()) {
      replace_worst(scored);
    } else {
      heap_.push_back(scored);
      std::push_heap(heap_.begin(), heap_.end(), better);
    }
  }
  [[nodiscard]] std::vector<Scored> take() {
    std::sort_heap(heap_.begin(), heap_.end(), better);
    return std::move(heap_);
  }

 private:
  // In one way down, where pop_heap and push_heap go down and up again.
  void replace_worst(const Scored& scored) noexcept {
    std::size_t at = 0;
    for (std::size_t next = 1; next < heap_.size(); next = 2 * at + 1) {
      if (next + 1 < heap_.size() && better(heap_[next], heap_[next + 1])) ++next;
      if (!better(scored, heap_[next])) break;
      heap_[at] = heap_[next];
      at = next;
    }
    heap_[at] = scored;
  }

  std::size_t k_;
  std::vector<Scored> heap_;  // the worst in front
};

// A query in the forms that the kernels take.
class Query {
 public:
  Query(const VectorSettings& settings, std::span<const float> vector, bool dot)
      : dot_(dot), size_(settings.row_size()), values_(settings.row_size() / 16) {
    prepare_vector(settings, vector, values(), "query");
    double square = 0;
    for (const float value : values()) square += static_cast<double>(value) * value;
    bounds_.query_square = static_cast<float>(square);
    bounds_.dot = dot;
    // Rounding of all sums and products on the way, of which each errs by at most 2^-24.
    const std::size_t terms = size_ / kernels::kSumLanes;
    bounds_.slack = static_cast<float>(3 * terms + 64) * 0x1p-24F;
    if (settings.storage == VectorStorage::kF32) return;
    codes_.resize(size_);
    scale_ = quantise(values(), codes_);
    double lost = 0;
    std::int64_t squares = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      const double rest = values()[i] - static_cast<double>(scale_) * codes_[i];
      lost += rest * rest;
      sum_ += codes_[i];
      squares += std::int64_t{codes_[i]} * codes_[i];
    }
    reach_ = static_cast<float>(scale_ * std::sqrt(static_cast<double>(squares)) * (1 + 1e-6));
    // A product with a row errs by at most the length of what was lost times the row's.
    bounds_.margin = static_cast<float>(std::sqrt(lost) * (1 + 1e-6));
  }

  [[nodiscard]] std::span<float> values() noexcept { return {values_.front().data(), size_}; }
  [[nodiscard]] std::span<const float> values() const noexcept {
    return {values_.front().data(), size_};
  }
  [[nodiscard]] std::span<const std::int8_t> codes() const noexcept { return codes_; }
  [[nodiscard]] float scale() const noexcept { return scale_; }
  [[nodiscard]] std::int32_t sum() const noexcept { return sum_; }  // of the codes
  // Their length: a product with what high halves leave open is at most this times its length.
  [[nodiscard]] float reach() const noexcept { return reach_; }
  [[nodiscard]] const kernels::DistanceBounds& bounds() const noexcept { return bounds_; }

  [[nodiscard]] static float distance_of_dot(float dot) noexcept {
    return dot >= 0 ? 1 / (1 + dot) : 1 - dot;
  }
  // The exact distance of a row of floats.
  [[nodiscard]] float distance(const float* row) const noexcept {
    const float* const query = values_.front().data();
    if (dot_) {
      float dot = 0;
      kernels::active().dot_f32(query, {&row, 1}, {}, size_, &dot);
      return distance_of_dot(dot);
    }
    return std::sqrt(kernels::active().squared_l2(query, row, size_));
  }
  // L2 of a row of codes: that of the floats they stand for.
  [[nodiscard]] float distance(const std::int8_t* codes, float scale) const noexcept {
    const float* const query = values_.front().data();
    return std::sqrt(kernels::active().squared_l2_i8(query, codes, scale, size_));
  }

 private:
  struct alignas(64) Lanes : std::array<float, 16> {};

  bool dot_;
  std::size_t size_;
  std::vector<Lanes> values_;
  std::vector<std::int8_t> codes_;
  float scale_ = 0;
  std::int32_t sum_ = 0;
  float reach_ = 0;
  kernels::DistanceBounds bounds_{};
};

// The k best of what is offered, by the least that their scores may be.
class Surest {
 public:
  struct Entry {
    float least;
    float most;
    std::size_t place;
  };

  explicit Surest(std::size_t k) : k_(k) {}

  [[nodiscard]] bool full() const noexcept { return heap_.size() == k_; }
  // Of a full one: k records have at least this score.
  [[nodiscard]] float least() const noexcept { return heap_.front().least; }
  // Those that are hardly better than the last need not be offered.
  [[nodiscard]] bool wants(float most) const noexcept {
    return !full() || most > heap_.front().most;
  }
  // Whether `least()` is there and another one.
  bool offer(const Entry& entry) {
    const auto better = [](const Entry& a, const Entry& b) { return a.least > b.least; };
    if (full()) {
      if (entry.least <= least()) return false;
      std::pop_heap(heap_.begin(), heap_.end(), better);
      heap_.back() = entry;
    } else {
      heap_.push_back(entry);
    }
    std::push_heap(heap_.begin(), heap_.end(), better);
    return full();
  }
  [[nodiscard]] std::span<const Entry> entries() const noexcept { return heap_; }

 private:
  std::size_t k_;
  std::vector<Entry> heap_;  // the worst in front
};

enum class Rank : std::uint8_t { kSimilarity, kScore };

class Scan {
 public:
  Scan(const View& view, std::span<const float> query, const ScoringOptions& options, std::size_t k,
       Rank rank, bool dot)
      : view_(view),
        options_(options),
        rank_(rank),
        query_(view.settings, query, dot),
        gate_(view, options, true),
        weights_(view, options),
        top_(std::min(k, view.n_vectors)),
        surest_(std::min(k, view.n_vectors)),
        lateral_(options.lateral_distance
                     ? std::min(std::max<std::size_t>(1, k / 3), view.n_vectors)
                     : 0),
        codes_(view.settings.storage == VectorStorage::kI8 ? view.settings.row_size() : 0),
        decoded_(codes_.size()) {
    for (Batch& batch : batches_) batch.overlaps.fill(1);  // without query tags (TAG-4)
  }

  Answer run() {
    if (view_.n_vectors > 0) {
      const Candidates candidates(options_);
      const std::size_t most = candidates.all() ? view_.n_rows : candidates.slots().size();
      // Of a list rows lie apart, and each is waited for.
      const std::size_t few = candidates.all() ? kFewBytes : kFewApart;
      whole_ = !puts_off() || most * view_.row_bytes <= few;
      if (!whole_) open_.reserve(most / 4);  // what is not used costs nothing
      if (candidates.all()) {
        sweep();
      } else {
        look_at(candidates);
      }
      flush();
      flush();
      if (!open_.empty()) settle();
    }
    Answer answer{top_.take(), lateral_.take(), counts_};
    for (Scored& hit : answer.hits) hit.decay = weights_.of(hit.slot).decay;
    for (Scored& hit : answer.lateral) hit.decay = weights_.of(hit.slot).decay;
    return answer;
  }

 private:
  using Words = HeaderGate::Words;

  // Survivors whose vectors are next.
  struct Batch {
    std::size_t n = 0;
    std::array<std::uint32_t, kBatch> slots{};
    std::array<const std::byte*, kBatch> rows{};
    std::array<float, kBatch> scales{};
    std::array<float, kBatch> squares{};
    std::array<float, kBatch> rests{};
    std::array<float, kBatch> overlaps{};
    std::array<float, kBatch> importances{};
    std::array<std::int32_t, kBatch> products{};
    std::array<float, kBatch> dots{};
    std::array<float, kBatch> distances{};  // the least they may be
  };

  // A record that may be among the best, by the high halves of its codes.
  struct Open {
    float most;  // that its score may be
    std::uint32_t slot;
    std::int32_t product;
  };

  // Where rows are.
  class Rows {
   public:
    explicit Rows(const View& view) noexcept
        : chunks_(view.chunks.data()),
          bits_(view.row_bits),
          mask_((std::size_t{1} << view.row_bits) - 1),
          bytes_(view.part_bytes) {}
    const std::byte* operator[](std::uint32_t row) const noexcept {
      return chunks_[row >> bits_] + (row & mask_) * bytes_;
    }

   private:
    const std::byte* const* chunks_;
    unsigned bits_;
    std::size_t mask_;
    std::size_t bytes_;
  };

  void sweep() {
    constexpr Words kAll{~std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0},
                         ~std::uint64_t{0}};
    for (std::size_t base = 0; base < view_.slots(); base += kBlock) {
      if (base + kBlocksAhead * kBlock < view_.slots()) {
        gate_.prefetch_block(base + kBlocksAhead * kBlock);
      }
      const Words words = gate_.pass_block(base, kAll, counts_);
      for (std::size_t w = 0; w < words.size(); ++w) {
        if (words[w] != 0) survive(base + w * 64, words[w]);
      }
    }
  }

  void look_at(const Candidates& candidates) {
    Slots slots = candidates.slots();
    const auto end = std::lower_bound(slots.begin(), slots.end(), view_.slots());
    slots = slots.first(static_cast<std::size_t>(end - slots.begin()));
    std::size_t asked = 0;
    for (std::size_t i = 0; i < slots.size();) {
      if (i + kAhead > asked) {
        const std::size_t until = std::min(asked + kAhead, slots.size());
        for (; asked < until; ++asked) {
          gate_.prefetch(slots[asked]);
          if (rank_ == Rank::kScore) view_.importances.prefetch(slots[asked]);
        }
      }
      const std::size_t base = slots[i] / kBlock * kBlock;
      std::size_t n = 1;
      while (i + n < slots.size() && slots[i + n] < base + kBlock) ++n;
      if (n >= kDense) {
        Words wanted{};
        for (std::size_t j = i; j < i + n; ++j) set(wanted, slots[j] - base);
        const Words words = gate_.pass_block(base, wanted, counts_);
        for (std::size_t j = i; j < i + n; ++j) {
          if (has(words, slots[j] - base)) survive(slots[j], candidates.overlap(j));
        }
      } else {
        const kernels::GateColumns columns = gate_.columns(base);
        for (std::size_t j = i; j < i + n; ++j) {
          if (gate_.pass(columns, base, slots[j], counts_)) {
            survive(slots[j], candidates.overlap(j));
          }
        }
      }
      i += n;
    }
  }

  static void set(Words& words, std::size_t i) noexcept {
    words[i / 64] |= std::uint64_t{1} << i % 64;
  }
  static bool has(const Words& words, std::size_t i) noexcept {
    return (words[i / 64] >> i % 64 & 1) != 0;
  }

  [[nodiscard]] bool codes() const noexcept { return view_.settings.storage == VectorStorage::kI8; }

  // Phases 1 to 4 are behind the record.
  void survive(std::size_t slot, float overlap) {
    const RecordStore::Place& place = view_.places[slot];
    if (place.row_after == 0) return;
    Batch& batch = *filled_;
    batch.overlaps[batch.n] = overlap;
    put(batch, batch.n, static_cast<std::uint32_t>(slot), place, Rows(view_));
    if (rank_ == Rank::kScore) batch.importances[batch.n] = view_.importances[slot];
    ask(batch.rows[batch.n]);
    if (whole_ && codes()) ask(batch.rows[batch.n] + view_.to_low());
    if (++batch.n == kBatch) flush();
  }
  // Of the 64 from `first` on those in `word`.
  void survive(std::size_t first, std::uint64_t word) {
    static_assert(CowArray<RecordStore::Place>::kPage % 64 == 0 &&
                  CowArray<float>::kPage % 64 == 0);
    const RecordStore::Place* const places = &view_.places[first];
    const float* const importances = rank_ == Rank::kScore ? &view_.importances[first] : nullptr;
    if (filled_->n + 64 > kBatch) flush();
    Batch& batch = *filled_;
    const Rows rows(view_);
    std::size_t n = batch.n;
    const auto add = [&](std::size_t bit) {
      // Of a record without a vector the row is never looked at: the next record takes its place.
      put(batch, n, static_cast<std::uint32_t>(first + bit), places[bit], rows);
      if (importances != nullptr) batch.importances[n] = importances[bit];
      n += places[bit].row_after != 0 ? 1 : 0;
    };
    if (word == ~std::uint64_t{0}) {
      if (in_order(places)) {
        put_in_order(batch, static_cast<std::uint32_t>(first), places, rows[places->row_after - 1]);
        if (importances != nullptr) std::copy_n(importances, 64, batch.importances.data());
        n = 64;
      } else {
        for (std::size_t bit = 0; bit < 64; ++bit) add(bit);
      }
    } else {
      for (; word != 0; word &= word - 1) add(static_cast<std::size_t>(__builtin_ctzll(word)));
    }
    batch.n = n;
  }
  // 64 records whose rows follow one another in one chunk, as they do where nothing was replaced.
  [[nodiscard]] bool in_order(const RecordStore::Place* places) const noexcept {
    const std::uint32_t first = places->row_after;
    std::uint32_t differ = 0;
    for (std::uint32_t i = 0; i < 64; ++i) differ |= places[i].row_after - first - i;
    return first != 0 && differ == 0 &&
           (first - 1) >> view_.row_bits == (first + 62) >> view_.row_bits;
  }
  void put_in_order(Batch& batch, std::uint32_t first, const RecordStore::Place* places,
                    const std::byte* row) const noexcept {
    static_assert(kBatch == 64);  // all of the batch
    for (std::uint32_t i = 0; i < 64; ++i) batch.slots[i] = first + i;
    for (std::size_t i = 0; i < 64; ++i) batch.rows[i] = row + i * view_.part_bytes;
    for (std::size_t i = 0; i < 64; ++i) {
      batch.scales[i] = places[i].scale;
      batch.squares[i] = places[i].square;
      batch.rests[i] = places[i].rest;
    }
  }
  static void put(Batch& batch, std::size_t i, std::uint32_t slot, const RecordStore::Place& place,
                  const Rows& rows) noexcept {
    batch.slots[i] = slot;
    if (place.row_after != 0) batch.rows[i] = rows[place.row_after - 1];
    batch.scales[i] = place.scale;
    batch.squares[i] = place.square;
    batch.rests[i] = place.rest;
  }
  // Asks for a row, which is measured when another batch is full: rows of a filter lie far apart,
  // and those that begin a batch would be waited for.
  void ask(const std::byte* row) const noexcept {
    for (std::size_t i = 0; i < view_.part_bytes; i += 64) __builtin_prefetch(row + i, 0, 2);
  }

  // The batch is full or the last one: the one before it is measured while its rows come.
  void flush() {
    measure();
    std::swap(filled_, measured_);
  }

  template <class T>
  static std::span<const T* const> rows_of(const Batch& batch, std::size_t n) noexcept {
    return {reinterpret_cast<const T* const*>(batch.rows.data()), n};
  }

  using Within = std::array<std::uint64_t, kBatch / 64>;  // a bit for each of the batch

  // Phase 5 of the batch.
  void measure() {
    const std::size_t n = std::exchange(measured_->n, 0);
    if (n == 0) return;
    counts_.vectors += n;
    if (puts_off()) {
      put_off(n);
      return;
    }
    const Within within = codes() ? measure_codes(n) : measure_floats(n);
    if (options_.lateral_distance) {
      for (std::size_t i = 0; i < n; ++i) {
        if (measured_->overlaps[i] >= 0.5F) {
          weigh_both(i, *options_.lateral_distance);
        } else if (measured_->distances[i] <= limit_) {
          weigh(i);
        }
      }
      return;
    }
    for_each(within, [this](std::size_t i) {
      if (measured_->distances[i] <= limit_) weigh(i);
    });
  }
  template <class F>
  static void for_each(const Within& within, const F& f) {
    for (std::size_t w = 0; w < within.size(); ++w) {
      for (std::uint64_t word = within[w]; word != 0; word &= word - 1) {
        f(w * 64 + static_cast<std::size_t>(__builtin_ctzll(word)));
      }
    }
  }

  Within measure_floats(std::size_t n) {
    kernels::active().dot_f32(query_.values().data(), rows_of<float>(*measured_, n),
                              rows_of<float>(*filled_, filled_->n), view_.settings.row_size(),
                              measured_->dots.data());
    return possible(n);
  }

  Within measure_codes(std::size_t n) {
    multiply(n);
    scale(0);
    return possible(n);
  }
  void multiply(std::size_t n) noexcept {
    kernels::active().dot_split(query_.codes().data(), rows_of<std::uint8_t>(*measured_, n),
                                rows_of<std::uint8_t>(*filled_, filled_->n), view_.to_low(),
                                view_.settings.row_size(), measured_->products.data());
    for (std::int32_t& product : measured_->products) product -= 128 * query_.sum();
  }
  // As if each low half were 8.
  void multiply_high(std::size_t n) noexcept {
    kernels::active().dot_halves(query_.codes().data(), rows_of<std::uint8_t>(*measured_, n),
                                 rows_of<std::uint8_t>(*filled_, filled_->n),
                                 view_.settings.row_size(), measured_->products.data());
    for (std::int32_t& product : measured_->products) product = 16 * product - 120 * query_.sum();
  }
  void scale(float reach) noexcept {
    kernels::active().scale_dots(measured_->products.data(), measured_->scales.data(),
                                 query_.scale(), measured_->rests.data(), reach, kBatch,
                                 measured_->dots.data());
  }
  void add_low(std::size_t n) {
    std::array<const std::uint8_t*, kBatch> rows{};
    std::array<std::int32_t, kBatch> products{};
    for (std::size_t i = 0; i < n; ++i) {
      rows[i] = reinterpret_cast<const std::uint8_t*>(measured_->rows[i] + view_.to_low());
    }
    kernels::active().dot_halves(query_.codes().data(), std::span(rows).first(n), {},
                                 view_.settings.row_size(), products.data());
    for (std::size_t i = 0; i < n; ++i) measured_->products[i] += products[i] - 8 * query_.sum();
  }

  static Within every(std::size_t n) noexcept {
    Within all{};
    for (std::size_t i = 0; i < n; ++i) all[i / 64] |= std::uint64_t{1} << i % 64;
    return all;
  }
  // Those that may enter, by their products.
  Within possible(std::size_t n) noexcept {
    Within within{};
    kernels::active().least_distances(query_.bounds(), measured_->dots.data(),
                                      measured_->squares.data(), kBatch, limit_,
                                      measured_->distances.data(), within.data());
    if (rank_ == Rank::kScore && !options_.lateral_distance) leave_possible(within);
    if (n < kBatch) {
      const Within all = every(n);
      for (std::size_t w = 0; w < within.size(); ++w) within[w] &= all[w];
    }
    return within;
  }

  // Records are measured exactly at the end: by then it is known how good the best are at least,
  // and few others may be among them. Of many records only the high halves of codes are read
  // before. (What overlaps is not kept until then.)
  [[nodiscard]] bool puts_off() const noexcept {
    return codes() && !options_.lateral_distance &&
           (rank_ == Rank::kSimilarity || options_.tags.empty());
  }
  void put_off(std::size_t n) {
    if (whole_) {
      multiply(n);
    } else {
      multiply_high(n);
    }
    const float reach = whole_ ? 0 : query_.reach();
    scale(reach);
    for_each(possible(n), [this, reach](std::size_t i) {
      Weights::Weight weight{};
      if (rank_ == Rank::kScore) weight = weights_.of(measured_->slots[i]);
      const float most = score(i, similarity(measured_->distances[i]), weight);
      if (surest_.full() && most < surest_.least()) return;
      open_.push_back({most, measured_->slots[i], measured_->products[i]});
      if (!surest_.wants(most)) return;
      const float far = most_distance(i, 2 * reach * measured_->rests[i]);
      const float least = score(i, similarity(far), weight);
      if (surest_.offer({least, most, open_.size() - 1})) enter_from(surest_.least());
    });
  }
  void settle() {
    for (const Surest::Entry& entry : surest_.entries()) {
      Open& open = open_[entry.place];
      fill(open);
      ask(filled_->rows[filled_->n - 1]);
      open.most = std::numeric_limits<float>::quiet_NaN();  // it is done
      if (filled_->n == kBatch) measure_surest();
    }
    measure_surest();
    const float least = top_.full() ? top_.least() : 0;
    std::erase_if(open_, [least](const Open& open) { return !(open.most >= least); });
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (i + kAhead < open_.size()) view_.places.prefetch(open_[i + kAhead].slot);
      fill(open_[i]);
      if (filled_->n == kBatch) finish();
    }
    finish();
    finish();
  }
  void fill(const Open& open) noexcept {
    Batch& batch = *filled_;
    put(batch, batch.n, open.slot, view_.places[open.slot], Rows(view_));
    batch.products[batch.n] = open.product;
    if (rank_ == Rank::kScore) batch.importances[batch.n] = view_.importances[open.slot];
    ask(batch.rows[batch.n] + view_.to_low());
    ++batch.n;
  }
  void measure_surest() {
    std::swap(filled_, measured_);
    for (std::size_t i = 0; i < measured_->n; ++i) {
      Weights::Weight weight{};
      if (rank_ == Rank::kScore) weight = weights_.of(measured_->slots[i]);
      offer(i, exact(i), weight);
    }
    measured_->n = 0;
  }
  // What is open of a batch; the one that was filled is next.
  void finish() {
    const std::size_t n = std::exchange(measured_->n, 0);
    if (n > 0) {
      if (!whole_) add_low(n);
      scale(0);
      for_each(possible(n), [this](std::size_t i) {
        if (measured_->distances[i] <= limit_) weigh(i);
      });
    }
    std::swap(filled_, measured_);
  }

  [[nodiscard]] float similarity(float distance) const noexcept {
    return 1 / (1 + options_.strictness * distance);
  }
  [[nodiscard]] float score(std::size_t i, float similarity,
                            const Weights::Weight& weight) const noexcept {
    return rank_ == Rank::kSimilarity
               ? similarity
               : weights_.score(measured_->slots[i], similarity, measured_->overlaps[i], weight);
  }
  void weigh(std::size_t i) {
    const std::uint32_t slot = measured_->slots[i];
    Weights::Weight weight{};
    if (rank_ == Rank::kScore) weight = weights_.of(slot);
    const float similarity = this->similarity(measured_->distances[i]);
    if (top_.takes(score(i, similarity, weight), slot)) offer(i, exact(i), weight);
  }

  // Takes out what cannot enter, as far as that can be told from its importance.
  void leave_possible(Within& within) const noexcept {
    if (!top_.full() && !surest_.full()) return;
    const float least = top_.full() ? top_.least() : surest_.least();
    constexpr std::size_t kGroup = 16;
    std::array<float, kBatch> scores{};
    weights_.most(*measured_, options_.strictness, scores);
    for (std::size_t first = 0; first < kBatch; first += kGroup) {
      std::uint64_t impossible = 0;
      for (std::size_t i = 0; i < kGroup; ++i) {
        impossible |= std::uint64_t{scores[first + i] < least} << i;
      }
      within[first / 64] &= ~(impossible << first % 64);
    }
  }

  // A record that may be lateral (SCO-15).
  void weigh_both(std::size_t i, float threshold) {
    const std::uint32_t slot = measured_->slots[i];
    const float least = measured_->distances[i];
    const float most = most_distance(i);
    const Weights::Weight weight = weights_.of(slot);
    const bool enters = least <= threshold && top_.takes(score(i, similarity(least), weight), slot);
    const auto lateral = [&](float distance) {
      return distance / (1 + distance) * measured_->overlaps[i] * weight.importance;
    };
    const bool enters_lateral =
        most > threshold && lateral_.takes(lateral(most) * (1 + 1e-5F), slot);
    if (!enters && !enters_lateral) return;
    const float distance = exact(i);
    if (distance > threshold) {
      lateral_.offer({slot, lateral(distance), similarity(distance), distance, 0});
    } else {
      offer(i, distance, weight);
    }
  }

  void offer(std::size_t i, float distance, const Weights::Weight& weight) {
    const float similarity = this->similarity(distance);
    top_.offer({measured_->slots[i], score(i, similarity, weight), similarity, distance, 0});
    if (top_.full()) enter_from(top_.least());
  }

  // Records enter from this score on, or one that is as good as equal.
  void enter_from(float score) noexcept {
    const double least = score * (1 - 1e-5);
    const double needed = rank_ == Rank::kSimilarity ? least : weights_.least_similarity(least);
    if (needed > 0) {
      limit_ = static_cast<float>((1 / needed - 1) / options_.strictness * (1 + 1e-6));
    }
  }

  [[nodiscard]] float exact(std::size_t i) {
    ++counts_.exact;
    if (!codes()) {
      return query_.distance(reinterpret_cast<const float*>(measured_->rows[i]));
    }
    const std::byte* const high = measured_->rows[i];
    join_codes(high, high + view_.to_low(), codes_);
    if (!query_.bounds().dot) return query_.distance(codes_.data(), measured_->scales[i]);
    for (std::size_t j = 0; j < decoded_.size(); ++j) {
      decoded_[j] = static_cast<float>(codes_[j]) * measured_->scales[i];
    }
    return query_.distance(decoded_.data());
  }

  // The other end of what `least_distances` gives, for a dot product that may be less by `less`.
  [[nodiscard]] float most_distance(std::size_t i, float less = 0) const noexcept {
    const kernels::DistanceBounds& bounds = query_.bounds();
    const float sum = bounds.query_square + measured_->squares[i];
    const float dot = measured_->dots[i] - less - bounds.margin * std::sqrt(measured_->squares[i]);
    if (bounds.dot) return Query::distance_of_dot(dot - bounds.slack * sum) * (1 + 1e-6F);
    return std::sqrt(std::max(0.0F, sum + bounds.slack * sum - 2 * dot)) * (1 + 1e-6F);
  }

  const View& view_;
  const ScoringOptions& options_;
  Rank rank_;
  bool whole_ = true;  // both halves of codes are read at once
  Query query_;
  HeaderGate gate_;
  Weights weights_;
  Top top_;
  Surest surest_;
  std::vector<Open> open_;  // as they came
  Top lateral_;
  std::vector<std::int8_t> codes_;  // of a record that is measured exactly
  std::vector<float> decoded_;
  PhaseCounts counts_;
  std::array<Batch, 2> batches_;
  Batch* filled_ = &batches_[0];
  Batch* measured_ = &batches_[1];
  float limit_ = std::numeric_limits<float>::infinity();
};

Answer scan(const View& view, std::span<const float> query, const ScoringOptions& options,
            std::size_t k, Rank rank, bool dot) {
  check(options);
  if (k < 1) throw std::invalid_argument("k must be at least 1, not 0");
  if (view.settings.dimensions == 0) {
    throw std::invalid_argument("query: the records have no vectors (0 dimensions)");
  }
  return Scan(view, query, options, k, rank, dot).run();
}

}  // namespace

Answer similar(const View& view, std::span<const float> query, const ScoringOptions& options,
               std::size_t k) {
  return scan(view, query, options, k, Rank::kSimilarity,
              view.settings.similarity == Similarity::kDot);
}

Answer search(const View& view, std::span<const float> query, const ScoringOptions& options,
              std::size_t k) {
  return scan(view, query, options, k, Rank::kScore, view.settings.similarity == Similarity::kDot);
}

std::vector<Factor> factors(const View& view, std::span<const std::uint32_t> slots,
                            const ScoringOptions& options) {
  check(options);
  const Weights weights(view, options);
  std::vector<Factor> found;
  found.reserve(slots.size());
  for (const std::uint32_t slot : slots) {
    view.check(slot);
    const bool focused = options.hyperfocus && contains(*options.hyperfocus, slot);
    const Weights::Weight weight = weights.of(slot, focused);
    found.push_back({weights.factor(weight), weight.decay});
  }
  return found;
}

Weighed weigh(const View& view, std::span<const std::int64_t> slots, std::span<const float> scores,
              const ScoringOptions& options, std::optional<float> share) {
  if (slots.size() != scores.size()) {
    throw std::invalid_argument("slots and scores must be equally many");
  }
  const std::vector<std::uint32_t> numbers(slots.begin(), slots.end());
  const std::vector<Factor> weights = factors(view, numbers, options);
  struct Entry {
    float score;
    std::int64_t slot;
  };
  std::vector<Entry> entries;
  entries.reserve(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const float factor = weights[i].factor;
    const float score = share ? *share * scores[i] + (factor - *share) : scores[i] * factor;
    entries.push_back({score, slots[i]});
  }
  sort_best(entries, [](const Entry& a, const Entry& b) {
    return a.score != b.score ? a.score > b.score : a.slot < b.slot;
  });
  Weighed weighed;
  weighed.slots.reserve(entries.size());
  weighed.scores.reserve(entries.size());
  for (const Entry& entry : entries) {
    weighed.slots.push_back(entry.slot);
    weighed.scores.push_back(entry.score);
  }
  return weighed;
}

std::vector<std::uint8_t> passes(const View& view, std::span<const std::uint32_t> slots,
                                 const ScoringOptions& options) {
  check(options);
  const HeaderGate gate(view, options, false);
  PhaseCounts counts;
  std::vector<std::uint8_t> passed(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::uint32_t slot = slots[i];
    if (!view.contains(slot)) continue;
    if (options.allow && !contains(*options.allow, slot)) continue;
    if (options.hyperfocus && !contains(*options.hyperfocus, slot)) continue;
    const auto has_tag = [slot](Slots tag) { return contains(tag, slot); };
    const std::vector<Slots>& tags = options.tags;
    const bool tagged = options.any_tag ? std::any_of(tags.begin(), tags.end(), has_tag)
                                        : std::all_of(tags.begin(), tags.end(), has_tag);
    if (!tags.empty() && !tagged) continue;
    const std::size_t base = slot / kBlock * kBlock;
    if (gate.pass(gate.columns(base), base, slot, counts)) passed[i] = 1;
  }
  return passed;
}

std::optional<Nearest> nearest(const View& view, std::span<const float> vector,
                               std::uint8_t types) {
  ScoringOptions options;
  options.include_contradictions = true;
  options.staleness = false;
  options.types = types;
  const Answer answer = scan(view, vector, options, 1, Rank::kSimilarity, false);
  if (answer.hits.empty()) return {};
  return Nearest{answer.hits[0].slot, answer.hits[0].distance};
}

}  // namespace spector
