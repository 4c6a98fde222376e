// What a fuzzer calls with bytes that may be a bm25.idx, and what the test of crafted files calls.
#pragma once

#include <cstddef>
#include <span>

// Loads the bytes both ways, searches, explains, changes and merges what they give. Returns true if
// all of that went through; false if the file was refused, by one of spector's errors, on the way.
// Anything else that happens is a fault of the reader.
bool try_file(std::span<const std::byte> bytes);
