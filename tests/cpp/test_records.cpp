#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/shared.hpp"
#include "random.hpp"
#include "records/record_store.hpp"
#include "records/scorer.hpp"
#include "temporary_file.hpp"

using namespace spector;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::int64_t kNow = 1'900'000'000'000;
constexpr std::array<std::uint64_t, 2> kTags{0x06b3ad3149ad2458, 77};
constexpr std::array<std::int64_t, 3> kEnds{0, 2, 3};
constexpr std::array<std::uint32_t, 3> kTagged{1, 4, 9};
constexpr TagLists kLists{kTags, kEnds, kTagged};

// Five records, one of them without a vector, one updated, one removed again.
void fill(RecordStore& store) {
  const std::vector<std::uint32_t> slots{1, 3, 4, 9, 12};
  std::vector<RecordHeader> headers(slots.size());
  std::vector<float> vectors(slots.size() * store.settings().dimensions);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    headers[i].timestamp = kNow - static_cast<std::int64_t>(i) * 1'000'000'000;
    headers[i].importance = static_cast<float>(i + 1);
    headers[i].valence = static_cast<std::int8_t>(-20 * static_cast<int>(i));
    headers[i].flags = static_cast<std::uint8_t>(kResolved | (i % 4) << kTypeShift);
  }
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    vectors[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5) / 4 + 0.125F;
  }
  store.put(slots, headers, vectors);
  store.remove(std::array<std::uint32_t, 1>{12});
  store.put(std::array<std::uint32_t, 1>{3}, std::span(headers).first(1), {});
}

std::string saved(const VectorSettings& settings) {
  Shared<RecordStore> store(settings);
  store.write(fill);
  const TemporaryFile file;
  store.read([&](const RecordStore::View& view) { save_records(view, file.path(), kLists); });
  return file.read();
}

// Everything of a file, loaded and used: true if it was accepted. Only Corruption, Version and
// Storage may be thrown.
bool use(const std::string& bytes) {
  const TemporaryFile at;
  at.write(bytes);
  try {
    const RecordFile file(at.path());
    Shared<RecordStore> store(file);
    store.read([&](const RecordStore::View& view) {
      std::vector<float> values(view.settings.row_size());
      for (std::uint32_t slot = 0; slot < std::min<std::size_t>(view.slots(), 5000); ++slot) {
        if (!view.contains(slot)) continue;
        static_cast<void>(view.header(slot));
        if (view.has_vector(slot)) view.vector(slot, values);
      }
      if (view.settings.dimensions == 0) return;
      const std::vector<float> query(view.settings.dimensions, 0.5F);
      ScoringOptions options;
      options.now = kNow;
      options.lateral_distance = 1.2F;
      if (view.slots() < 100'000) static_cast<void>(search(view, query, options, 3));
    });
    store.write([](RecordStore& writer) {
      writer.put(std::array<std::uint32_t, 1>{5}, std::array<RecordHeader, 1>{}, {});
      writer.compact();
    });
    return true;
  } catch (const Corruption&) {
    return false;
  } catch (const Version&) {
    return false;
  }
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

constexpr std::size_t kTable = kHeaderBytes + 8;  // of sections, 24 bytes each

std::size_t section_offset(const std::string& bytes, std::size_t section) {
  return static_cast<std::size_t>(field<std::uint64_t>(bytes, kTable + section * 24 + 8));
}

// The checksums that the contents should have.
void sign(std::string& bytes) {
  const auto all = std::as_bytes(std::span(bytes));
  const auto n = field<std::uint32_t>(bytes, kHeaderBytes);
  for (std::size_t i = 0; i < n; ++i) {
    const auto size = static_cast<std::size_t>(field<std::uint64_t>(bytes, kTable + i * 24 + 16));
    set_field(bytes, kTable + i * 24 + 4, crc32c(all.subspan(section_offset(bytes, i), size)));
  }
  set_field(bytes, kHeaderBytes + 4, crc32c(all.subspan(kTable, n * std::size_t{24})));
  set_field(bytes, 56, crc32c(all.subspan(kHeaderBytes)));
  set_field(bytes, 60, crc32c(all.first(60)));
}

const VectorSettings kCodes{3, Similarity::kCosine, VectorStorage::kI8};
const VectorSettings kFloats{3, Similarity::kEuclidean, VectorStorage::kF32};

}  // namespace

TEST_CASE("DEN-4: codes come back from their halves") {
  std::vector<std::int8_t> codes(256);
  for (int i = 0; i < 256; ++i) codes[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(i);
  std::vector<std::byte> halves(codes.size());
  split_codes(codes, halves.data(), halves.data() + 128);
  std::vector<std::int8_t> joined(codes.size());
  join_codes(halves.data(), halves.data() + 128, joined);
  CHECK(joined == codes);
}

// Of many records the high halves of codes are read first, of few both halves at once.
TEST_CASE("DEN-4, GEN-4: a scan of many records finds what scans of their parts find") {
  Random random(5);
  const auto value = [&] { return static_cast<float>(random() % 2001) / 1000 - 1; };
  struct Case {
    std::uint32_t dimensions;
    std::size_t n;
    std::size_t different;  // vectors; the others are equal to one of them
  };
  for (const Case& each : {Case{64, 70'000, 300}, Case{64, 70'000, 70'000}, Case{384, 12'000, 40},
                           Case{384, 12'000, 12'000}, Case{700, 6'500, 6'500}}) {
    for (const Similarity similarity : {Similarity::kCosine, Similarity::kDot}) {
      CAPTURE(each.dimensions);
      CAPTURE(each.different);
      Shared<RecordStore> store(VectorSettings{each.dimensions, similarity, VectorStorage::kI8});
      std::vector<std::uint32_t> slots(each.n);
      std::vector<float> vectors(each.n * each.dimensions);
      for (std::uint32_t i = 0; i < each.n; ++i) slots[i] = i;
      for (std::size_t i = 0; i < each.n; ++i) {
        const auto row = vectors.begin() + static_cast<std::ptrdiff_t>(i * each.dimensions);
        if (i < each.different) {
          std::generate_n(row, each.dimensions, value);
        } else {
          std::copy_n(vectors.begin() +
                          static_cast<std::ptrdiff_t>(random() % each.different * each.dimensions),
                      each.dimensions, row);
        }
      }
      std::vector<RecordHeader> headers(each.n);
      for (RecordHeader& header : headers) {
        header.importance = static_cast<float>(random() % 100 + 1) / 10;
        header.timestamp = kNow - static_cast<std::int64_t>(random() % 1000) * 86'400'000;
        header.valence = static_cast<std::int8_t>(random() % 256);
        header.flags = static_cast<std::uint8_t>(random() % 2 == 0 ? kResolved : 0);
      }
      store.write([&](RecordStore& writer) {
        writer.put(slots, headers, vectors);
        const auto some = std::span(slots).subspan(each.n / 3, each.n / 20);
        writer.remove(some);
        writer.put(some.first(100), std::span(headers).first(100),
                   std::span(vectors).first(100 * each.dimensions));
      });
      store.read([&](const RecordStore::View& view) {
        for (const auto scan : {&similar, &search}) {
          for (const std::size_t k : {1U, 10U, 60U, 1000U}) {
            CAPTURE(k);
            std::vector<float> query(each.dimensions);
            std::generate(query.begin(), query.end(), value);
            ScoringOptions options;
            options.now = kNow;
            options.strictness = k == 10 ? 3.0F : 1.0F;
            options.additive = k == 60;
            if (k == 10) options.query_valence = std::int8_t{50};
            const std::vector<Scored> found = scan(view, query, options, k).hits;
            std::vector<Scored> parts;
            for (std::size_t first = 0; first < each.n; first += 3000) {
              options.allow =
                  std::span(slots).subspan(first, std::min<std::size_t>(3000, each.n - first));
              const std::vector<Scored> part = scan(view, query, options, k).hits;
              parts.insert(parts.end(), part.begin(), part.end());
            }
            std::sort(parts.begin(), parts.end(), [](const Scored& a, const Scored& b) {
              return a.score != b.score ? a.score > b.score : a.slot < b.slot;
            });
            parts.resize(std::min(parts.size(), k));
            REQUIRE(found.size() == parts.size());
            for (std::size_t i = 0; i < found.size(); ++i) {
              CHECK(found[i].slot == parts[i].slot);
              CHECK(found[i].score == parts[i].score);
              CHECK(found[i].distance == parts[i].distance);
            }
          }
        }
      });
    }
  }
}

TEST_CASE("TAG-1, HDR-1: a file has the 64 bytes of each header") {
  const std::string bytes = saved(kCodes);
  CHECK(bytes.substr(0, 4) == "SREC");
  CHECK(field<std::uint32_t>(bytes, 4) == 1);
  CHECK(field<std::uint16_t>(bytes, 10) == 0);
  CHECK(field<std::uint32_t>(bytes, 12) == 64);
  CHECK(field<std::uint64_t>(bytes, 16) == 4);
  const std::size_t first = section_offset(bytes, 2);
  CHECK(field<std::uint8_t>(bytes, first) == 1);
  CHECK(field<std::uint64_t>(bytes, first + 24) ==
        (std::uint64_t{1} << 35 | std::uint64_t{1} << 4 | std::uint64_t{1} << 37));
  CHECK(field<std::uint64_t>(bytes, first + 64 + 24) == 0);
  CHECK(field<std::int64_t>(bytes, first + 2 * 64 + 8) == kNow - 2'000'000'000);
  CHECK(field<float>(bytes, first + 3 * 64 + 4) == 4.0F);
  CHECK(use(bytes));
}

TEST_CASE("PER-2: the files of this release are read byte for byte") {
  for (const auto& [name, settings] :
       {std::pair("records-1-int8.seg", kCodes), std::pair("records-1-f32.seg", kFloats)}) {
    const std::string path = std::string(SPECTOR_TEST_DATA) + "/" + name;
    std::ifstream stored(path, std::ios::binary);
    std::string golden{std::istreambuf_iterator<char>(stored), {}};
    std::string made = saved(settings);
    REQUIRE(golden.size() == made.size());
    // Times of writing, and the checksum over them.
    for (std::string* bytes : {&golden, &made}) std::fill_n(bytes->begin() + 40, 24, '\0');
    CHECK(golden == made);
    Shared<RecordStore> store{RecordFile(path)};
    Shared<RecordStore> same(settings);
    same.write(fill);
    store.read([&](const RecordStore::View& loaded) {
      same.read([&](const RecordStore::View& expected) {
        REQUIRE(loaded.n_records == expected.n_records);
        std::vector<float> a(settings.row_size());
        std::vector<float> b(settings.row_size());
        for (std::uint32_t slot = 0; slot < 12; ++slot) {
          REQUIRE(loaded.contains(slot) == expected.contains(slot));
          if (!loaded.contains(slot)) continue;
          const RecordHeader one = loaded.header(slot);
          const RecordHeader other = expected.header(slot);
          CHECK(std::memcmp(&one, &other, sizeof one) == 0);
          REQUIRE(loaded.has_vector(slot) == expected.has_vector(slot));
          if (!loaded.has_vector(slot)) continue;
          loaded.vector(slot, a);
          expected.vector(slot, b);
          CHECK(a == b);
          CHECK(loaded.places[slot].square == expected.places[slot].square);
        }
      });
    });
  }
}

TEST_CASE("PER-4: a file that is cut anywhere, or has any byte changed, is refused") {
  for (const VectorSettings& settings : {kCodes, kFloats}) {
    const std::string bytes = saved(settings);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      CAPTURE(size);
      REQUIRE_FALSE(use(bytes.substr(0, size)));
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      CAPTURE(i);
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ 0x10);
      REQUIRE_FALSE(use(changed));
    }
    CHECK_FALSE(use(bytes + '\0'));
  }
}

TEST_CASE("PER-4: altered files with right checksums are refused or used without harm") {
  for (const VectorSettings& settings : {kCodes, kFloats}) {
    const std::string bytes = saved(settings);
    std::size_t accepted = 0;
    for (std::size_t i = kTable + 6 * std::size_t{24}; i < bytes.size(); ++i) {
      for (const char value : {'\0', '\x7f', '\x80', '\xff'}) {
        CAPTURE(i);
        std::string changed = bytes;
        changed[i] = value;
        sign(changed);
        accepted += use(changed) ? 1 : 0;
      }
    }
    CHECK(accepted > 0);
    const auto refused = [&](std::size_t section, std::size_t offset, auto value) {
      std::string changed = bytes;
      set_field(changed, section_offset(bytes, section) + offset, value);
      sign(changed);
      return !use(changed);
    };
    CHECK(refused(0, 0, std::uint32_t{65'537}));       // dimensions
    CHECK(refused(0, 0, std::uint32_t{300}));          // rows of another size
    CHECK(refused(0, 4, std::uint8_t{3}));             // similarity
    CHECK(refused(0, 5, std::uint8_t{2}));             // storage
    CHECK(refused(1, 0, std::uint32_t{3}));            // a slot twice
    CHECK(refused(1, 12, std::uint32_t{0xffffffff}));  // no slot
    CHECK(refused(2, 0, std::uint8_t{2}));             // version of a header
    CHECK(refused(2, 1, std::uint8_t{kTombstone}));    // a record that is not there
    CHECK(refused(2, 4, 11.0F));                       // importance
    CHECK(refused(2, 4, std::numeric_limits<float>::quiet_NaN()));
    CHECK(refused(2, 8, std::int64_t{1} << 60));  // timestamp
    CHECK(refused(2, 20, -1.0F));                 // norm
    CHECK(refused(2, 32, std::uint16_t{1}));      // not used
    CHECK(refused(2, 34, std::uint8_t{2}));       // state
    CHECK(refused(2, 36, 6.0F));                  // strength
    CHECK(refused(2, 56, std::numeric_limits<float>::infinity()));
    CHECK(refused(2, 61, std::uint8_t{1}));  // reserved
    CHECK(refused(3, 8, std::uint32_t{4}));  // a vector of no record
    CHECK(refused(3, 4, std::uint32_t{0}));  // two vectors of one
    CHECK(refused(5, 12, std::uint8_t{1}));  // after the last dimension
    if (settings.storage == VectorStorage::kI8) {
      CHECK(refused(4, 0, std::numeric_limits<float>::infinity()));
      CHECK(refused(4, 0, -1.0F));
      CHECK(refused(5, 0, std::int8_t{-128}));
    } else {
      CHECK(refused(5, 0, std::numeric_limits<float>::quiet_NaN()));
      CHECK(refused(5, 0, 1e30F));
    }
    std::string newer = bytes;
    set_field(newer, 4, std::uint32_t{2});
    sign(newer);
    const TemporaryFile file;
    file.write(newer);
    CHECK_THROWS_AS(RecordFile{file.path()}, Version);
  }
}

TEST_CASE("an exception leaves the store as it was") {
  Shared<RecordStore> store(kFloats);
  store.write(fill);
  const auto count = [&] {
    return store.read([](const RecordStore::View& view) { return view.n_rows; });
  };
  const std::size_t rows = count();
  std::vector<std::uint32_t> slots(100'000);  // more than a chunk
  for (std::uint32_t i = 0; i < slots.size(); ++i) slots[i] = i;
  const std::vector<RecordHeader> headers(slots.size());
  std::vector<float> vectors(slots.size() * 3, 1.0F);
  vectors.back() = std::numeric_limits<float>::infinity();
  CHECK_THROWS_AS(store.write([&](RecordStore& s) { s.put(slots, headers, vectors); }),
                  std::invalid_argument);
  CHECK(count() == rows);
  CHECK_FALSE(store.read([](const RecordStore::View& view) { return view.contains(50); }));
  vectors.back() = 1.0F;
  store.write([&](RecordStore& s) { s.put(slots, headers, vectors); });
  CHECK(store.read([](const RecordStore::View& view) { return view.contains(99'999); }));
}

TEST_CASE("records beside a writer: a change is seen whole or not at all") {
  // All records of a state have the same vector and importance, whose value is the state's number.
  constexpr std::uint32_t kSlots = 300;
  constexpr std::size_t kChanges = 600;
  const VectorSettings settings{16, Similarity::kEuclidean, VectorStorage::kI8};
  Shared<RecordStore> store(settings);
  std::vector<std::uint32_t> slots(kSlots);
  for (std::uint32_t i = 0; i < kSlots; ++i) slots[i] = i;
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> wrong{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 4; ++r) {
    readers.emplace_back([&] {
      const std::vector<float> query(16, 0.0F);
      ScoringOptions options;
      options.now = kNow;
      while (!stop.load(std::memory_order_relaxed)) {
        store.read([&](const RecordStore::View& view) {
          const Answer answer = search(view, query, options, kSlots);
          for (const Scored& hit : answer.hits) {
            if (hit.distance != answer.hits[0].distance ||
                view.header(hit.slot).importance != view.header(0).importance) {
              wrong.fetch_add(1);
            }
          }
          if (answer.hits.size() != view.n_records) wrong.fetch_add(1);
        });
      }
    });
  }
  for (std::size_t change = 0; change < kChanges; ++change) {
    RecordHeader header;
    header.timestamp = kNow;
    header.importance = 1 + static_cast<float>(change % 90) / 10;
    const std::vector<RecordHeader> headers(kSlots, header);
    const std::vector<float> vectors(kSlots * std::size_t{16}, static_cast<float>(change % 97));
    store.write([&](RecordStore& writer) {
      if (change % 5 == 0) writer.remove(slots);
      writer.put(slots, headers, vectors);
      if (change % 11 == 0) writer.compact();
    });
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong.load() == 0);
}
