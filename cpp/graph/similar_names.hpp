// Names that differ by a slip of the pen: within one edit of another from 5 characters on, within
// two from 10 (the shorter counts), and never where a number differs (ENT-9).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace spector {

// Of names[a] and names[b], a < b. By distance, then a, then b. Costs about the square of a name's
// length for each, up to 42 characters, and what the pairs cost; never all pairs of names.
struct SimilarNames {
  std::uint32_t a;
  std::uint32_t b;
  std::uint32_t distance;
};
[[nodiscard]] std::vector<SimilarNames> similar_names(std::span<const std::u32string> names);

}  // namespace spector
