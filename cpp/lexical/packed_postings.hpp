// Posting lists as files hold them: cpp/FORMATS.md has the bits.
//
// A list of 128 postings or more is blocks, the last one shorter: the width of its gaps and of its
// frequencies (a byte each), then the gaps, then the frequencies, each of that many bits. A gap is
// the number of rows that are left out before the row; a frequency is stored less 1. Small terms
// cost little and large ones about two bits more a posting than they must.
//
// A shorter list is one string of bits without any header: gaps as Rice codes, whose parameter
// follows from the number of rows and of postings, and frequencies as Elias gamma codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lexical/packed_numbers.hpp"

namespace spector {

// Appends the list. `rows` ascend and are below `n_rows`; frequencies, as many, are 1 to 2^31.
void pack_postings(std::span<const std::uint32_t> rows, std::span<const std::uint32_t> frequencies,
                   std::uint32_t n_rows, std::vector<std::uint8_t>& packed);

// False, with anything in `rows` and `frequencies`, unless `packed` is a list of rows.size() rows
// (not 0) below `n_rows`; no byte after the slack is read, whatever the list says. `all_blocks`:
// short lists are a block, too, as files had them before.
[[nodiscard]] bool unpack_postings(std::span<const std::uint8_t> packed, std::uint32_t n_rows,
                                   bool all_blocks, std::span<std::uint32_t> rows,
                                   std::span<std::uint32_t> frequencies) noexcept;

}  // namespace spector
