// The generated tables behind unicode.cpp. A code point's value is
// Stage2[Stage1[code >> 6] << 6 | (code & 63)]; for decompositions and foldings it is a position in
// kPool, where the length of the mapping is followed by its code points (0: maps to itself).
#pragma once

#include <cstddef>
#include <cstdint>

#include "lexical/unicode.hpp"

namespace spector::unicode_tables {

extern const CharProperties kRecords[];
extern const std::uint16_t kPropertyStage1[];
extern const std::uint8_t kPropertyStage2[];
extern const std::uint8_t kDecompositionStage1[];
extern const std::uint16_t kDecompositionStage2[];
extern const std::uint8_t kFoldingStage1[];
extern const std::uint16_t kFoldingStage2[];
extern const std::uint32_t kPool[];

// Canonical compositions, sorted by key = first << 32 | second.
extern const std::size_t kCompositions;
extern const std::uint64_t kComposeKey[];
extern const std::uint32_t kComposeResult[];

}  // namespace spector::unicode_tables
