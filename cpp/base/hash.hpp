// Hashes and checksums that are stored on disk, and one that is not. Pure functions.
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

// For hash tables in memory only: fast, and seeded so that stored text cannot aim at collisions.
[[nodiscard]] std::uint64_t table_hash(std::string_view bytes, std::uint64_t seed) noexcept;

// One seed per process for `table_hash`. Nothing visible depends on it.
[[nodiscard]] std::uint64_t process_seed() noexcept;

}  // namespace spector
