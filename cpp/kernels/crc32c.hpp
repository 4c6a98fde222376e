// CRC-32C with the processor's instruction for it. base/hash.hpp has the function to call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spector::kernels {

#ifdef SPECTOR_X86
// True if this machine has the instruction (SSE4.2).
[[nodiscard]] bool has_crc32c() noexcept;

// Advances the checksum's inner state, which is the complement of the checksum.
[[nodiscard]] std::uint32_t crc32c_sse42(const void* bytes, std::size_t size,
                                         std::uint32_t state) noexcept;
#endif

}  // namespace spector::kernels
