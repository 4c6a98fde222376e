// What a header and a row may hold, the same for arguments and files.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "records/record_store.hpp"

namespace spector {

inline constexpr std::int64_t kFirstMillisecond = -62'135'596'800'000;  // of the year 1
inline constexpr std::int64_t kLastMillisecond = 253'402'300'799'999;   // of the year 9999

[[nodiscard]] inline bool is_time(std::int64_t milliseconds) noexcept {
  return milliseconds >= kFirstMillisecond && milliseconds <= kLastMillisecond;
}

// What is wrong with it, "FIELD must be ..., not VALUE"; `norm` and `tag_filter` are not looked at.
[[nodiscard]] inline std::optional<std::string> header_fault(const RecordHeader& header) {
  const auto real = [](float value) { return std::to_string(value); };
  if (header.version != 1) return "version must be 1, not " + std::to_string(header.version);
  if ((header.flags & kTombstone) != 0) return "flags must not have the tombstone";
  if (!(header.importance >= 0.05F && header.importance <= 10)) {
    return "importance must be in [0.05, 10], not " + real(header.importance);
  }
  if (!(header.strength >= 0.01F && header.strength <= 5)) {
    return "strength must be in [0.01, 5], not " + real(header.strength);
  }
  if (!is_time(header.timestamp)) {
    return "timestamp must be in the years 1 to 9999, not " + std::to_string(header.timestamp);
  }
  if (!is_time(header.last_passive_ltp)) {
    return "last_passive_ltp must be in the years 1 to 9999, not " +
           std::to_string(header.last_passive_ltp);
  }
  if (!std::isfinite(header.surprise)) {
    return "surprise must be finite, not " + real(header.surprise);
  }
  if ((header.state & ~kContradicted) != 0) {
    return "state must be 0 or 1, not " + std::to_string(header.state);
  }
  if (header.centroid != 0 || header.reserved != 0 ||
      header.reserved_end != std::array<std::uint8_t, 3>{}) {
    return std::string("bytes that are not used must be 0");
  }
  return {};
}

inline void check_header(const RecordHeader& header, std::uint32_t slot) {
  if (const auto fault = header_fault(header)) {
    throw std::invalid_argument(*fault + " (slot " + std::to_string(slot) + ")");
  }
}

inline void check_slot(std::uint32_t slot) {
  if (slot == 0xffffffffU) throw std::invalid_argument("slots must be at most 4294967294");
}

// The squared length of a stored row.
[[nodiscard]] float stored_square(const VectorSettings& settings, const std::byte* row,
                                  float scale) noexcept;

}  // namespace spector
