// Compiled once per instruction set with SPECTOR_ARCH naming it. It includes kernels and nothing
// else: a shared inline function built here with AVX could be the copy the linker keeps for all.
#include "kernels/bm25.inl"
#include "kernels/graph.inl"
#include "kernels/records.inl"
#include "kernels/sets.inl"

namespace spector::kernels {

using A = SPECTOR_ARCH;

template void Bm25Accumulate::operator()<A>(A, const Bm25Postings&, const std::uint32_t*,
                                            std::uint32_t, float*) const noexcept;
template void Bm25AccumulateWindow::operator()<A>(A, const Bm25WindowPostings&,
                                                  const std::uint32_t*, float*) const noexcept;
template std::size_t TakeAtLeast::operator()<A>(A, std::uint16_t*, std::size_t, std::uint16_t,
                                                std::uint16_t*, std::uint16_t*) const noexcept;
template std::size_t CollectBounds::operator()<A>(A, const std::uint8_t*, std::size_t, std::uint8_t,
                                                  std::uint16_t*) const noexcept;
template std::size_t FindOffsets::operator()<A>(A, const Bm25Offsets&, const std::uint16_t*,
                                                std::size_t, std::uint16_t*,
                                                std::uint16_t*) const noexcept;
template std::size_t CollectAtLeast::operator()<A>(A, const float*, std::size_t, float,
                                                   std::uint32_t*) const noexcept;
template DecayCounts DecayWeights::operator()<A>(A, const float*, const std::uint32_t*, std::size_t,
                                                 const DecayRule&, float*) const noexcept;
template std::size_t ExtendPaths::operator()<A>(A, const std::uint32_t*, const float*, std::size_t,
                                                const PathRule&, std::uint64_t*) const noexcept;
template std::size_t Intersect::operator()<A>(A, const std::uint32_t*, std::size_t,
                                              const std::uint32_t*, std::size_t,
                                              std::uint32_t*) const noexcept;

template void DotI8::operator()<A>(A, const std::int8_t*, std::span<const std::int8_t* const>,
                                   std::span<const std::int8_t* const>, std::size_t,
                                   std::int32_t*) const noexcept;
template void DotHalves::operator()<A>(A, const std::int8_t*, std::span<const std::uint8_t* const>,
                                       std::span<const std::uint8_t* const>, std::size_t,
                                       std::int32_t*) const noexcept;
template void DotSplit::operator()<A>(A, const std::int8_t*, std::span<const std::uint8_t* const>,
                                      std::span<const std::uint8_t* const>, std::size_t,
                                      std::size_t, std::int32_t*) const noexcept;
template void DotF32::operator()<A>(A, const float*, std::span<const float* const>,
                                    std::span<const float* const>, std::size_t,
                                    float*) const noexcept;
template float SquaredL2::operator()<A>(A, const float*, const float*, std::size_t) const noexcept;
template float SquaredL2I8::operator()<A>(A, const float*, const std::int8_t*, float,
                                          std::size_t) const noexcept;
template void ScaleDots::operator()<A>(A, const std::int32_t*, const float*, float, const float*,
                                       float, std::size_t, float*) const noexcept;
template void LeastDistances::operator()<A>(A, const DistanceBounds&, const float*, const float*,
                                            std::size_t, float, float*,
                                            std::uint64_t*) const noexcept;
template void Gate::operator()<A>(A, const GateLimits&, const GateColumns&,
                                  GateMasks&) const noexcept;

}  // namespace spector::kernels
