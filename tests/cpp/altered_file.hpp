// Stored files that a test writes, alters, and signs again.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "base/hash.hpp"
#include "temporary_file.hpp"

template <class T>
T field(const std::string& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class T>
void set_field(std::string& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// Where a section begins (base/envelope.hpp).
inline std::size_t section_offset(const std::string& bytes, std::size_t section) {
  return static_cast<std::size_t>(field<std::uint64_t>(bytes, 72 + section * 24 + 8));
}

// All checksums, for what the bytes are now.
inline void sign(std::string& bytes) {
  const auto checksum = [&](std::size_t offset, std::size_t n) {
    return spector::crc32c(std::as_bytes(std::span(bytes).subspan(offset, n)));
  };
  const auto n_sections = field<std::uint32_t>(bytes, 64);
  for (std::size_t i = 0; i < n_sections; ++i) {
    const auto n = static_cast<std::size_t>(field<std::uint64_t>(bytes, 72 + i * 24 + 16));
    set_field(bytes, 72 + i * 24 + 4, checksum(section_offset(bytes, i), n));
  }
  set_field(bytes, 68, checksum(72, n_sections * std::size_t{24}));
  set_field(bytes, 56, checksum(64, bytes.size() - 64));
  set_field(bytes, 60, checksum(0, 60));
}
