// What every stored file promises (PER-4): damage is noticed, whatever it is.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include "altered_file.hpp"
#include "base/error.hpp"

// Cuts the file at every length and flips bits of every byte: load() must throw Corruption. Leaves
// the file as it was, and then load() must not throw.
template <class Load>
void check_damage(const TemporaryFile& file, const Load& load) {
  const std::string whole = file.read();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    CAPTURE(n);
    file.write(whole.substr(0, n));
    CHECK_THROWS_AS(load(), spector::Corruption);
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int bits : {0x01, 0x80, 0xff}) {
      CAPTURE(at);
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ bits);
      file.write(flipped);
      CHECK_THROWS_AS(load(), spector::Corruption);
    }
  }
  file.write(whole + '\0');
  CHECK_THROWS_AS(load(), spector::Corruption);
  file.write(whole);
  CHECK_NOTHROW(load());
}

// Loads the file with the altered bytes, all checksums right: load() must throw Corruption that
// says what is wrong.
template <class Load>
void check_crafted(const TemporaryFile& file, std::string bytes, const char* fault,
                   const Load& load) {
  CAPTURE(fault);
  sign(bytes);
  const std::string whole = file.read();
  file.write(bytes);
  CHECK_THROWS_WITH_AS(load(), doctest::Contains(fault), spector::Corruption);
  file.write(whole);
}
