// The reference: each kernel as the plain loop that defines it.
#include "kernels/dispatch.hpp"

namespace spector::kernels {
namespace {

void bm25_accumulate(const Bm25Postings& postings, const std::uint32_t* lengths,
                     std::uint32_t window, float* sums) noexcept {
  for (std::size_t i = 0; i < postings.count; ++i) {
    const std::uint32_t document = postings.documents[i];
    const auto length = static_cast<float>(static_cast<std::int32_t>(lengths[document]));
    const auto f = static_cast<float>(static_cast<std::int32_t>(postings.frequencies[i]));
    sums[document - window] += postings.weight * f / (f + (postings.c0 + postings.c1 * length));
  }
}

std::size_t collect_at_least(const float* sums, std::size_t count, float threshold,
                             std::uint32_t* indices) noexcept {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (sums[i] >= threshold) indices[found++] = static_cast<std::uint32_t>(i);
  }
  return found;
}

}  // namespace

const Table kScalar{"scalar", bm25_accumulate, collect_at_least};

}  // namespace spector::kernels
