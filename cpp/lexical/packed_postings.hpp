// Posting lists as files hold them: cpp/FORMATS.md has the bits.
//
// A list is blocks of 128 postings, the last one shorter: the width of its gaps and of its
// frequencies (a byte each), then the gaps, then the frequencies, each of that many bits. A gap is
// the number of rows that are left out before the row; a frequency is stored less 1. Small terms
// cost little and large ones about two bits more a posting than they must.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spector {

// Packed lists must be followed by so many bytes, whatever they are: numbers are read by the word.
inline constexpr std::size_t kPackedSlack = 8;

// Appends the list. `rows` ascend; frequencies, as many, are 1 to 2^31.
void pack_postings(std::span<const std::uint32_t> rows, std::span<const std::uint32_t> frequencies,
                   std::vector<std::uint8_t>& packed);

// False, with anything in `rows` and `frequencies`, unless `packed` is a list of rows.size() rows
// (not 0) below `n_rows`; no byte after the slack is read, whatever the list says.
[[nodiscard]] bool unpack_postings(std::span<const std::uint8_t> packed, std::uint32_t n_rows,
                                   std::span<std::uint32_t> rows,
                                   std::span<std::uint32_t> frequencies) noexcept;

}  // namespace spector
