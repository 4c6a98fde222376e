// Hashes and checksums that stored files depend on. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace spector {

// H64 (GEN-7): FNV-1a over the bytes; the result 0 becomes 1.
[[nodiscard]] std::uint64_t hash64(std::string_view bytes) noexcept;

// CRC-32C (Castagnoli), as in iSCSI and ext4. `seed` is the checksum of what came before.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes,
                                   std::uint32_t seed = 0) noexcept;

// The same without the processor's instruction for it.
[[nodiscard]] std::uint32_t crc32c_portable(std::span<const std::byte> bytes,
                                            std::uint32_t seed = 0) noexcept;

// The checksum of two stretches from the checksums of each.
[[nodiscard]] std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second,
                                          std::uint64_t second_bytes) noexcept;

// For hash tables: fast, and seeded so that stored text cannot aim at collisions. Stored tables
// depend on it, with a seed of their own.
[[nodiscard]] std::uint64_t table_hash(std::string_view bytes, std::uint64_t seed) noexcept;

// One seed per process for `table_hash`. Nothing visible depends on it.
[[nodiscard]] std::uint64_t process_seed() noexcept;

// A seed nobody has seen.
[[nodiscard]] std::uint64_t random_seed();

}  // namespace spector
