// Several ranked lists of slots as one (specification, RRF-1 to RRF-4 and AM-4).
//
// A pure function: any thread may call it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace spector {

// One list, best first; a slot occurs once in it.
struct RankedList {
  std::span<const std::int64_t> slots;
  std::span<const float> scores;
  double weight = 1;
};

struct Fused {
  std::vector<std::int64_t> slots;
  std::vector<float> scores;  // the best is 1
};

// All slots of the lists of a positive weight. With an rrf_k a slot's score is the sum over its
// lists of weight / (rrf_k + rank), else of weight times its score stretched to [0, 1] over the
// list. Ties: in more lists, then the better best rank, then the lower slot.
[[nodiscard]] Fused fuse(std::span<const RankedList> lists, unsigned rrf_k);

// What one layer of the graph led to, any number of times to a slot: the strongest counts (AM-5).
struct Layer {
  std::span<const std::uint32_t> slots;
  std::span<const double> activations;  // of the same size
  std::uint32_t number = 0;             // several of a number are one layer
  double scale = 1;
};

struct Gains {
  std::vector<std::int64_t> slots;  // in the order in which the layers led to them
  std::vector<double> gains;
};

// For each slot the sum over layers of scale times the strongest activation above 0, in the order
// of their numbers.
[[nodiscard]] Gains add_layers(std::span<const Layer> layers);

// What seeds led to, side by side: slots[i] from the seed of number seeds[i].
struct Led {
  std::span<const std::uint32_t> seeds;
  std::span<const std::uint32_t> slots;
  std::span<const double> activations;
};
struct Bounds {
  double below = 1;   // of the strength of a seed
  double weight = 1;  // by which activations count
  double least = 0;   // weaker ones are left out
};
struct Bounded {
  std::vector<std::int64_t> places;  // in `led`, of what is left
  std::vector<double> activations;   // of these
};

// Activations lowered so that none lifts a slot above `below` times the strength of its seed, where
// `slots`, best first, have their share of the best score already; what leads back to its seed is
// left out.
[[nodiscard]] Bounded bound_by_seeds(const Led& led, std::span<const std::uint32_t> seeds,
                                     std::span<const double> strengths,
                                     std::span<const std::int64_t> slots,
                                     std::span<const float> scores, const Bounds& bounds);

struct Seeds {
  std::vector<std::uint32_t> slots;
  std::vector<double> strengths;  // the best has 1
};

// The first of a ranking, best first, from which the graph starts: at most so many, of a score
// above 0.
[[nodiscard]] Seeds seeds_of(std::span<const std::int64_t> slots, std::span<const float> scores,
                             std::size_t most);

// Scores by slot with gains added to them, best first, then by slot; either may have slots that the
// other has not, and has each once.
[[nodiscard]] Fused accumulate(std::span<const std::int64_t> slots, std::span<const float> scores,
                               std::span<const std::int64_t> extra, std::span<const double> gains);

}  // namespace spector
