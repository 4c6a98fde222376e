#include <doctest/doctest.h>

#include <span>
#include <string>
#include <string_view>

#include "base/hash.hpp"

using spector::crc32c;
using spector::hash64;

namespace {
std::uint32_t crc(std::string_view text, std::uint32_t seed = 0) {
  return crc32c(std::as_bytes(std::span(text)), seed);
}
}  // namespace

TEST_CASE("GEN-7: H64 is FNV-1a over bytes") {
  CHECK(hash64("") == 0xcbf29ce484222325ULL);
  CHECK(hash64("database") == 0x06b3ad3149ad2458ULL);
  CHECK(hash64("a") == 0xaf63dc4c8601ec8cULL);  // published test vector of FNV-1a
}

TEST_CASE("CRC-32C of the published vectors") {
  CHECK(crc("") == 0);
  CHECK(crc("123456789") == 0xe3069283U);
  CHECK(crc(std::string(32, '\0')) == 0x8a9136aaU);
  CHECK(crc(std::string(32, '\xff')) == 0x62a8ab43U);
}

TEST_CASE("CRC-32C goes on from a seed, at every split") {
  const std::string text = "the checksum of a file that is read in two pieces";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    CHECK(crc(text.substr(cut), crc(text.substr(0, cut))) == crc(text));
  }
}
