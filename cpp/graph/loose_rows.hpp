// The rows that one large change of a HebbianGraph touches, edited in place. They lie in one arena,
// so that a row costs no allocation and few cache lines; a row that outgrows its place moves and
// leaves a gap. Belongs to the writer and lives as long as the change.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/large_array.hpp"
#include "base/load_line.hpp"
#include "graph/hebbian.hpp"

namespace spector {

class LooseRows {
 public:
  explicit LooseRows(std::size_t slots) : places_(make_large_array<Place>(slots)) {
    std::fill_n(places_.get(), slots, Place{});
  }

  [[nodiscard]] bool has(std::size_t slot) const noexcept { return places_[slot].capacity != 0; }
  [[nodiscard]] std::span<HebbianEntry> edit(std::size_t slot) noexcept {
    return {at(places_[slot].line), places_[slot].size};
  }
  [[nodiscard]] std::span<const HebbianEntry> operator[](std::size_t slot) const noexcept {
    return {at(places_[slot].line), places_[slot].size};
  }

  // Of a slot that has no row here yet.
  void assign(std::size_t slot, std::span<const HebbianEntry> entries) {
    places_[slot] = take(entries.size() + 1);
    std::copy(entries.begin(), entries.end(), at(places_[slot].line));
    places_[slot].size = static_cast<std::uint16_t>(entries.size());
  }
  void push_back(std::size_t slot, const HebbianEntry& entry) {
    Place& place = places_[slot];
    if (place.size == place.capacity) {
      Place larger = take(2 * std::size_t{place.capacity});
      larger.size = place.size;
      std::copy_n(at(place.line), place.size, at(larger.line));
      place = larger;
    }
    at(place.line)[place.size++] = entry;
  }
  void erase(std::size_t slot, std::size_t index) noexcept {
    Place& place = places_[slot];
    HebbianEntry* const first = at(place.line);
    std::copy(first + index + 1, first + place.size, first + index);
    --place.size;
  }

  void prefetch_place(std::size_t slot) const noexcept { prefetch_line(&places_[slot]); }
  void prefetch(std::size_t slot) const noexcept {
    if (has(slot)) prefetch_line(at(places_[slot].line));
  }

 private:
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };
  struct Place {
    std::uint32_t line;
    std::uint16_t size;
    std::uint16_t capacity;  // 0: no row
  };
  static constexpr std::size_t kChunkBits = 15;  // of lines: 2 MiB
  static constexpr std::size_t kChunk = std::size_t{1} << kChunkBits;

  [[nodiscard]] HebbianEntry* at(std::uint32_t line) const noexcept {
    return reinterpret_cast<HebbianEntry*>(chunks_[line >> kChunkBits].get() + line % kChunk);
  }

  Place take(std::size_t capacity) {
    const std::size_t lines = (capacity * sizeof(HebbianEntry) + sizeof(Line) - 1) / sizeof(Line);
    if (chunks_.empty() || used_ + lines > kChunk) {
      chunks_.push_back(make_large_array<Line>(kChunk));
      used_ = 0;
    }
    const std::size_t line = (chunks_.size() - 1) * kChunk + used_;
    used_ += lines;
    return {static_cast<std::uint32_t>(line), 0,
            static_cast<std::uint16_t>(lines * sizeof(Line) / sizeof(HebbianEntry))};
  }

  std::shared_ptr<Place[]> places_;  // of each slot
  std::vector<std::shared_ptr<Line[]>> chunks_;
  std::size_t used_ = 0;  // lines of the last chunk
};

}  // namespace spector
