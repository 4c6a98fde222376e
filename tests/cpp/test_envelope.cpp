#include "base/envelope.hpp"

#include <doctest/doctest.h>

#include <sys/resource.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/frozen_strings.hpp"
#include "base/hash.hpp"
#include "base/string_table.hpp"
#include "base/u32_map.hpp"
#include "random.hpp"
#include "temporary_file.hpp"

using namespace spector;

namespace {

constexpr std::array<std::string_view, 3> kNames{"numbers", "nothing", "bytes"};
constexpr FileKind kKind{
    .magic = {'T', 'E', 'S', 'T'},
    .version = 3,
    .shape = 4,
    .stride = 12,
    .sections = kNames,
    .remedy = "make it anew",
};

const std::vector<std::uint32_t> kNumbers{1, 2, 3, 0xffffffffU, 5};
const std::string kBytes(1000, 'x');

void write_sample(const std::string& path) {
  const std::array<std::span<const std::byte>, 3> sections{
      std::as_bytes(std::span(kNumbers)), {}, std::as_bytes(std::span(kBytes))};
  write_file(path, kKind, 5, sections);
}

bool is_sample(const StoredFile& file) {
  const auto numbers = file.array<std::uint32_t>(0).values;
  const auto bytes = file.array<char>(2).values;
  return file.count() == 5 &&
         std::equal(numbers.begin(), numbers.end(), kNumbers.begin(), kNumbers.end()) &&
         file.array<std::uint64_t>(1).values.empty() &&
         std::string_view(bytes.data(), bytes.size()) == kBytes;
}

template <class T>
T field(const std::string& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class T>
void set_field(std::string& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

void sign_header(std::string& bytes) {
  set_field(bytes, 60, crc32c(std::as_bytes(std::span(bytes).first(60))));
}

}  // namespace

TEST_CASE("a file gives back its sections, mapped or copied") {
  const TemporaryFile file;
  write_sample(file.path());
  for (const bool mapped : {false, true}) {
    const StoredFile stored(file.path(), kKind, mapped);
    CHECK(is_sample(stored));
    CHECK(reinterpret_cast<std::uintptr_t>(stored.array<char>(2).values.data()) % 64 == 0);
    CHECK_THROWS_AS(static_cast<void>(stored.array<std::array<char, 3>>(0)), Corruption);
  }
}

TEST_CASE("sections stay as long as their owner, not as the file") {
  const TemporaryFile file;
  write_sample(file.path());
  for (const bool mapped : {false, true}) {
    SharedSpan<char> bytes;
    {
      const StoredFile stored(file.path(), kKind, mapped);
      bytes = stored.array<char>(2);
    }
    write_file(file.path(), kKind, 0, std::array<std::span<const std::byte>, 3>{});
    CHECK(std::string_view(bytes.values.data(), bytes.values.size()) == kBytes);
    write_sample(file.path());
  }
}

TEST_CASE("the header is as FORMATS.md says") {
  const TemporaryFile file;
  write_sample(file.path());
  const std::string bytes = file.read();
  CHECK(bytes.substr(0, 4) == "TEST");
  CHECK(field<std::uint32_t>(bytes, 4) == 3);
  CHECK(field<std::uint16_t>(bytes, 8) == 0);
  CHECK(field<std::uint16_t>(bytes, 10) == 4);
  CHECK(field<std::uint32_t>(bytes, 12) == 12);
  CHECK(field<std::uint64_t>(bytes, 16) == 5);
  CHECK(field<std::uint64_t>(bytes, 24) == 5);
  CHECK(field<std::uint64_t>(bytes, 32) == bytes.size() - 64);
  CHECK(field<std::int64_t>(bytes, 40) > 1'600'000'000'000);
  CHECK(field<std::int64_t>(bytes, 48) == field<std::int64_t>(bytes, 40));
  // The payload's checksum is made of those of its parts.
  CHECK(field<std::uint32_t>(bytes, 56) == crc32c(std::as_bytes(std::span(bytes).subspan(64))));
  CHECK(field<std::uint32_t>(bytes, 60) == crc32c(std::as_bytes(std::span(bytes).first(60))));
}

TEST_CASE("every changed byte and every length is noticed") {
  const TemporaryFile file;
  write_sample(file.path());
  const std::string good = file.read();
  for (const bool mapped : {false, true}) {
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
      file.write(bad);
      INFO("byte " << i);
      CHECK_THROWS_AS(StoredFile(file.path(), kKind, mapped), Corruption);
    }
    for (std::size_t size = 0; size < good.size(); ++size) {
      file.write(good.substr(0, size));
      INFO("length " << size);
      CHECK_THROWS_AS(StoredFile(file.path(), kKind, mapped), Corruption);
    }
    file.write(good + '\0');
    CHECK_THROWS_AS(StoredFile(file.path(), kKind, mapped), Corruption);
  }
}

TEST_CASE("numbers in a header and a table with right checksums are not believed") {
  const TemporaryFile file;
  write_sample(file.path());
  const std::string good = file.read();
  constexpr std::array<std::uint64_t, 7> kValues{
      0, 1, 0x7fffffff, 0x80000000, 0xffffffff, std::uint64_t{1} << 63, ~std::uint64_t{0}};
  const auto refused = [&](std::string bad, std::size_t offset, std::uint64_t value) {
    if (bad == good) return;
    sign_header(bad);
    file.write(bad);
    INFO("offset " << offset << " value " << value);
    CHECK_THROWS_AS(StoredFile(file.path(), kKind, true), Error);
  };
  for (const std::uint64_t value : kValues) {
    for (std::size_t offset = 4; offset < 60; offset += 4) {
      if (offset >= 40 && offset < 56) continue;  // times
      std::string bad = good;
      set_field(bad, offset, static_cast<std::uint32_t>(value));
      refused(bad, offset, value);
    }
    for (const std::size_t offset : {16, 24, 32}) {
      std::string bad = good;
      set_field(bad, offset, value);
      if (offset == 16) set_field(bad, 24, value);  // count and capacity agree
      if (offset == 16) continue;                   // a count is for whoever knows the sections
      refused(bad, offset, value);
    }
    for (std::size_t offset = 72; offset < 72 + 3 * 24; offset += 8) {
      std::string bad = good;
      set_field(bad, offset, value);
      set_field(bad, 68, crc32c(std::as_bytes(std::span(bad).subspan(72, std::size_t{3} * 24))));
      set_field(bad, 56, crc32c(std::as_bytes(std::span(bad).subspan(64))));
      refused(bad, offset, value);
    }
  }
}

TEST_CASE("a newer version is told apart from damage") {
  const TemporaryFile file;
  write_sample(file.path());
  std::string newer = file.read();
  set_field(newer, 4, std::uint32_t{4});
  file.write(newer);
  CHECK_THROWS_AS(StoredFile(file.path(), kKind, false), Corruption);
  sign_header(newer);
  file.write(newer);
  CHECK_THROWS_AS(StoredFile(file.path(), kKind, false), Version);
}

TEST_CASE("a write that fails leaves the old file and nothing else") {
  const TemporaryFile file;
  write_sample(file.path());
  const std::string before = file.read();
  const std::string big(1 << 20, 'y');
  const std::array<std::span<const std::byte>, 3> sections{std::as_bytes(std::span(big)), {}, {}};
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{4096, old.rlim_max};
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  int error_number = 0;
  try {
    write_file(file.path(), kKind, 0, sections);
  } catch (const Storage& error) {
    error_number = error.error_number();
  }
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  CHECK(error_number == EFBIG);
  CHECK(file.read() == before);
}

TEST_CASE("checksums: instruction and tables agree, and parts join") {
  Random random(5);
  std::vector<std::byte> bytes(300'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  std::vector<std::size_t> sizes{49'151, 49'152, 49'153, 98'304, 150'001, bytes.size()};
  for (std::size_t size = 0; size < 70; ++size) sizes.push_back(size);
  for (const std::size_t size : sizes) {
    for (const std::size_t begin : {0, 1, 7}) {
      const auto part = std::span(bytes).subspan(begin, std::min(size, bytes.size() - begin));
      const std::uint32_t seed = random();
      CHECK(crc32c(part, seed) == crc32c_portable(part, seed));
      const std::size_t cut = part.empty() ? 0 : random() % part.size();
      CHECK(crc32c_joined(crc32c(part.first(cut)), crc32c(part.subspan(cut)), part.size() - cut) ==
            crc32c(part));
    }
  }
  // RFC 3720, appendix B.4: 32 zero bytes.
  const std::vector<std::byte> zeros(32);
  CHECK(crc32c(zeros) == 0x8a9136aa);
  CHECK(crc32c_portable(zeros) == 0x8a9136aa);
}

TEST_CASE("tables that begin with stored strings or keys") {
  StringFreezer freezer;
  std::vector<std::uint32_t> keys;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    freezer.add("s" + std::to_string(i));
    keys.push_back(i * 2654435761U);
  }
  const FrozenStrings::Arrays arrays = freezer.finish(42);
  CHECK(FrozenStrings::fault(arrays) == nullptr);
  const std::vector<std::uint32_t> buckets = FrozenKeys::make_buckets(keys);
  EpochDomain epochs;
  StringTable strings(epochs, FrozenStrings(arrays, {}));
  U32Map map(epochs, FrozenKeys{keys, buckets, {}});
  for (std::uint32_t round = 0; round < 2; ++round) {
    for (std::uint32_t i = 0; i < 3000; ++i) {
      const std::string key = "s" + std::to_string(i);
      if (round == 0 && i >= 1000) {
        CHECK(strings.find(key) == StringTable::kNone);
        CHECK(map.find(i * 2654435761U) == U32Map::kNone);
      }
      CHECK(strings.intern(key) == i);
      CHECK(strings[i] == key);
      CHECK(map.insert(i * 2654435761U, i) == i);
      CHECK(map.find(i * 2654435761U) == i);
    }
  }
  CHECK(strings.size() == 3000);
  CHECK(map.size() == 3000);
  std::size_t seen = 0;
  map.for_each(
      [&](std::uint32_t key, std::uint32_t value) { seen += key == value * 2654435761U ? 1 : 0; });
  CHECK(seen == 3000);
  CHECK(FrozenStrings().find("s1") == FrozenStrings::kNone);
  CHECK(FrozenStrings(StringFreezer().finish(1), {}).size() == 0);
}

TEST_CASE("faults of stored hash tables") {
  const std::vector<std::uint32_t> full{1, 2, 1, 2};
  const std::vector<std::uint32_t> high{1, 3, 0, 0};
  const std::vector<std::uint32_t> odd{1, 2, 0};
  const std::vector<std::uint32_t> good{1, 2, 0, 0};
  CHECK(bucket_fault(full, 2) != nullptr);
  CHECK(bucket_fault(high, 2) != nullptr);
  CHECK(bucket_fault(odd, 2) != nullptr);
  CHECK(bucket_fault({}, 2) != nullptr);
  CHECK(bucket_fault(good, 2) == nullptr);
  CHECK(bucket_fault({}, 0) == nullptr);
}
