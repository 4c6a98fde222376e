#include "records/token_vectors.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels/dispatch.hpp"

namespace spector {
namespace {

constexpr std::size_t kMaxDimensions = 65'536;
constexpr float kHighestCode = 127;

std::size_t row_size(std::size_t dimensions) noexcept { return (dimensions + 63) / 64 * 64; }

}  // namespace

TokenVectors::TokenVectors(EpochDomain& epochs, std::size_t dimensions)
    : dimensions_(dimensions), heap_(epochs), codes_(heap_), scales_(heap_) {
  if (dimensions < 1 || dimensions > kMaxDimensions) {
    throw std::invalid_argument("dimensions must be in [1, 65536], not " +
                                std::to_string(dimensions));
  }
}

std::vector<ScoredSlot> TokenVectors::View::search(
    std::span<const float> query, std::size_t k,
    std::optional<std::span<const std::uint32_t>> among) const {
  const std::size_t n_tokens = query.size() / dimensions_;
  if (n_tokens == 0) return {};
  const std::size_t size = row_size(dimensions_);
  std::vector<std::int8_t> codes(n_tokens * size);
  std::vector<float> scales(n_tokens);
  for (std::size_t token = 0; token < n_tokens; ++token) {
    const std::span<const float> vector = query.subspan(token * dimensions_, dimensions_);
    float highest = 0;
    for (const float value : vector) highest = std::max(highest, std::abs(value));
    scales[token] = highest / kHighestCode;
    if (highest == 0) continue;
    for (std::size_t i = 0; i < dimensions_; ++i) {
      codes[token * size + i] = static_cast<std::int8_t>(std::lround(vector[i] / scales[token]));
    }
  }

  const kernels::Table& simd = kernels::active();
  std::vector<const std::int8_t*> rows;
  std::vector<std::int32_t> dots;
  std::vector<ScoredSlot> found;
  const auto score = [&](std::uint32_t slot) {
    const std::span<const float> row_scales = scales_[slot];
    const std::int8_t* first = codes_[slot].data();
    rows.resize(row_scales.size());
    dots.resize(row_scales.size());
    for (std::size_t row = 0; row < rows.size(); ++row) rows[row] = first + row * size;
    float sum = 0;
    for (std::size_t token = 0; token < n_tokens; ++token) {
      simd.dot_i8(codes.data() + token * size, rows, {}, size, dots.data());
      float best = static_cast<float>(dots[0]) * row_scales[0];
      for (std::size_t row = 1; row < rows.size(); ++row) {
        best = std::max(best, static_cast<float>(dots[row]) * row_scales[row]);
      }
      sum += best * scales[token];
    }
    found.push_back({sum, slot});
  };
  if (among) {
    for (const std::uint32_t slot : *among) {
      if (contains(slot)) score(slot);
    }
  } else {
    for (std::uint32_t slot = 0; slot < codes_.size(); ++slot) {
      if (contains(slot)) score(slot);
    }
  }
  const auto better = [](const ScoredSlot& a, const ScoredSlot& b) {
    return a.score != b.score ? a.score > b.score : a.slot < b.slot;
  };
  if (found.size() > k) {
    std::nth_element(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(k), found.end(),
                     better);
    found.resize(k);
  }
  std::sort(found.begin(), found.end(), better);
  return found;
}

void TokenVectors::put(std::span<const std::uint32_t> slots, std::span<const std::uint64_t> ends,
                       std::span<const std::int8_t> codes, std::span<const float> scales) {
  for (const float scale : scales) {
    if (!std::isfinite(scale) || scale < 0) {
      throw std::invalid_argument("a scale must be finite and not negative, not " +
                                  std::to_string(scale));
    }
  }
  const std::size_t size = row_size(dimensions_);
  std::vector<std::int8_t> padded;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    drop(slots[i]);
    const auto begin = static_cast<std::size_t>(ends[i]);
    const std::size_t n = static_cast<std::size_t>(ends[i + 1]) - begin;
    if (n == 0) continue;
    padded.assign(n * size, 0);
    for (std::size_t row = 0; row < n; ++row) {
      std::copy_n(codes.data() + (begin + row) * dimensions_, dimensions_,
                  padded.data() + row * size);
    }
    codes_.resize(slots[i] + std::size_t{1});
    scales_.resize(slots[i] + std::size_t{1});
    codes_.assign(slots[i], padded);
    scales_.assign(slots[i], scales.subspan(begin, n));
    ++n_;
  }
}

std::size_t TokenVectors::erase(std::span<const std::uint32_t> slots) {
  std::size_t erased = 0;
  for (const std::uint32_t slot : slots) erased += drop(slot) ? 1 : 0;
  return erased;
}

bool TokenVectors::drop(std::uint32_t slot) {
  if (slot >= codes_.size() || codes_[slot].empty()) return false;
  codes_.truncate(slot, 0);
  scales_.truncate(slot, 0);
  --n_;
  return true;
}

TokenVectors::View TokenVectors::view() const {
  View view;
  view.codes_ = codes_.view();
  view.scales_ = scales_.view();
  view.dimensions_ = dimensions_;
  view.n_ = n_;
  view.bytes_ = heap_.next_bytes();
  return view;
}

void TokenVectors::published() noexcept {
  codes_.published();
  scales_.published();
  heap_.published();
  n_published_ = n_;
}

void TokenVectors::rollback() noexcept {
  codes_.rollback();
  scales_.rollback();
  heap_.rollback();
  n_ = n_published_;
}

}  // namespace spector
