// Four readers beside a writer, for ThreadSanitizer and AddressSanitizer above all; what the
// readers check holds without them, too.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/append_array.hpp"
#include "base/chunked_array.hpp"
#include "base/epoch.hpp"
#include "base/string_table.hpp"
#include "base/u32_map.hpp"
#include "random.hpp"

using spector::AppendArray;
using spector::ChunkedArray;
using spector::EpochDomain;
using spector::Published;
using spector::StringTable;
using spector::U32Map;

namespace {

constexpr unsigned kReaders = 4;

struct Outcome {
  std::uint64_t reads;
  std::uint64_t failures;
};

// Runs `write` while each reader calls `read(random)`, which says whether all was well, at least
// once while the writer works and once when it is done.
template <class Write, class Read>
Outcome run_beside(const Write& write, const Read& read) {
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> failures{0};
  std::latch begun(kReaders + 1);
  std::vector<std::thread> readers;
  readers.reserve(kReaders);
  for (unsigned i = 0; i < kReaders; ++i) {
    readers.emplace_back([&, i] {
      Random random(i);
      std::uint64_t n_reads = 0;
      std::uint64_t n_failures = 0;
      begun.arrive_and_wait();
      for (bool last = false; !last; ++n_reads) {
        last = done.load();
        n_failures += read(random) ? 0 : 1;
      }
      reads += n_reads;
      failures += n_failures;
    });
  }
  begun.arrive_and_wait();
  write();
  done.store(true);
  for (std::thread& reader : readers) reader.join();
  return {reads.load(), failures.load()};
}

// An object that knows whether it was freed, without being freed: its deleter only marks it.
struct Canary {
  std::atomic<std::uint64_t> state;
};
constexpr std::uint64_t kFreed = 0;

struct MarkFreed {
  void operator()(Canary* canary) const noexcept {
    canary->state.store(kFreed, std::memory_order_release);
  }
};

std::uint32_t mixed(std::size_t i) { return static_cast<std::uint32_t>(i * 2654435761U); }

}  // namespace

TEST_CASE("an object under a pin is never freed beside a writer") {
  constexpr std::size_t kObjects = 50000;
  std::vector<Canary> canaries(kObjects);
  for (std::size_t i = 0; i < kObjects; ++i) canaries[i].state.store(i + 1);
  EpochDomain domain;
  std::atomic<Canary*> current{canaries.data()};
  const Outcome outcome = run_beside(
      [&] {
        for (std::size_t i = 1; i < kObjects; ++i) {
          std::unique_ptr<Canary, MarkFreed> old(current.load());
          current.store(&canaries[i], std::memory_order_release);
          domain.retire(std::move(old));
          if (i % 7 == 0) domain.collect();
          if (i % 64 == 0) std::this_thread::yield();
        }
      },
      [&](Random& random) {
        const EpochDomain::Pin pin = domain.pin();
        const Canary* seen = current.load(std::memory_order_acquire);
        const std::uint64_t state = seen->state.load(std::memory_order_acquire);
        if (random() % 16 == 0) std::this_thread::yield();
        return state != kFreed && seen->state.load(std::memory_order_acquire) == state;
      });
  CHECK(outcome.failures == 0);
  CHECK(outcome.reads >= kReaders);
  domain.collect();
  CHECK(domain.retired_count() == 0);
  std::size_t alive = 0;
  for (const Canary& canary : canaries) alive += canary.state.load() == kFreed ? 0 : 1;
  CHECK(alive == 1);  // all but the current one were freed
}

TEST_CASE("published objects are whole beside a writer, with more pins than records") {
  struct Version {
    std::uint64_t number;
    std::array<std::uint64_t, 8> copies;
  };
  const auto version = [](std::uint64_t number) {
    auto made = std::make_unique<Version>();
    made->number = number;
    made->copies.fill(number);
    return made;
  };
  EpochDomain domain;
  Published<Version> published(version(0));
  const Outcome outcome = run_beside(
      [&] {
        for (std::uint64_t i = 1; i <= 5000; ++i) {
          published.publish(version(i), domain);
          if (i % 64 == 0) std::this_thread::yield();
        }
      },
      [&](Random& random) {
        std::vector<EpochDomain::Pin> pins;
        std::vector<const Version*> versions;
        for (std::uint32_t i = random() % 40; i > 0; --i) {
          pins.push_back(domain.pin());
          versions.push_back(&published.get(pins.back()));
        }
        std::uint64_t before = 0;
        bool well = true;
        for (const Version* seen : versions) {
          well = well && seen->number >= before;  // never back to an older one
          before = seen->number;
          for (const std::uint64_t copy : seen->copies) well = well && copy == seen->number;
        }
        return well;
      });
  CHECK(outcome.failures == 0);
  domain.collect();
  CHECK(domain.retired_count() == 0);
}

TEST_CASE("views of append arrays are growing prefixes beside a writer") {
  constexpr std::size_t kArrays = 50;
  constexpr std::size_t kLength = 3000;
  EpochDomain domain;
  std::vector<AppendArray<std::uint32_t>> arrays(kArrays);
  const Outcome outcome = run_beside(
      [&] {
        for (std::size_t i = 0; i < kLength; ++i) {
          for (auto& array : arrays) {
            if (i % 10 < 8) {
              array.append(mixed(i), domain);
            } else if (i % 10 == 8) {
              const std::array<std::uint32_t, 2> both{mixed(i), mixed(i + 1)};
              array.append(std::span<const std::uint32_t>(both), domain);
            }
          }
        }
      },
      [&](Random& random) {
        const EpochDomain::Pin pin = domain.pin();
        const AppendArray<std::uint32_t>& array = arrays[random() % kArrays];
        const std::span<const std::uint32_t> first = array.view(pin);
        const std::span<const std::uint32_t> second = array.view(pin);
        bool well = first.size() <= second.size() && second.size() <= kLength;
        for (std::size_t i = 0; i < second.size(); i += 1 + random() % 64) {
          well = well && second[i] == mixed(i);
        }
        for (const std::span<const std::uint32_t> view : {first, second}) {
          if (!view.empty()) well = well && view.back() == mixed(view.size() - 1);
        }
        return well;
      });
  CHECK(outcome.failures == 0);
  for (const auto& array : arrays) CHECK(array.size() == kLength);
  domain.collect();
  CHECK(domain.retired_count() == 0);
}

TEST_CASE("elements of chunked arrays are there beside a writer") {
  using Array = ChunkedArray<std::atomic<std::uint32_t>>;
  constexpr std::size_t kLength = 9 * Array::kChunk + 5;  // a second directory
  Array array;
  ChunkedArray<std::uint64_t> plain;
  const Outcome outcome = run_beside(
      [&] {
        while (array.size() < kLength) {
          const std::size_t size = array.size();
          array.grow_to(std::min(kLength, size + 1000), 1U);
          // The writer changes what readers look at: 1 becomes 2, never anything else.
          array[mixed(size) % array.size()].store(2, std::memory_order_relaxed);
          plain.emplace_back(size);
        }
      },
      [&](Random& random) {
        bool well = true;
        if (const std::size_t size = array.size(); size > 0) {
          for (const std::size_t i : {std::size_t{0}, random() % size, size - 1}) {
            const std::uint32_t value = array[i].load(std::memory_order_relaxed);
            well = well && (value == 1 || value == 2);
          }
        }
        if (const std::size_t size = plain.size(); size > 0) {
          for (const std::size_t i : {std::size_t{0}, random() % size, size - 1}) {
            well = well && plain[i] == i * 1000;
          }
        }
        return well;
      });
  CHECK(outcome.failures == 0);
  CHECK(array.size() == kLength);
}

TEST_CASE("strings found beside a writer are the strings asked for") {
  constexpr std::uint32_t kStrings = 30000;
  const auto key = [](std::uint32_t i) {
    std::string made = "key " + std::to_string(i);
    if (i % 97 == 0) made.append(200 + i % 300, 'x');  // of all ways of storing a length
    return made;
  };
  EpochDomain domain;
  StringTable table(domain);
  const Outcome outcome = run_beside(
      [&] {
        for (std::uint32_t i = 0; i < kStrings; ++i) {
          table.intern(key(i));
          if (i % 8 == 0) table.intern(key(i / 2));
        }
      },
      [&](Random& random) {
        const EpochDomain::Pin pin = domain.pin();
        const auto size = static_cast<std::uint32_t>(table.size());
        bool well = table.find("never") == StringTable::kNone;
        if (size > 0) {
          const std::uint32_t old = random() % size;
          well = well && table.find(key(old)) == old && table[old] == key(old);
          well = well && table.find(key(size - 1)) == size - 1;
        }
        // One that may be coming just now.
        const std::uint32_t next = size + random() % 4;
        const std::uint32_t found = table.find(key(next));
        if (found != StringTable::kNone) well = well && found == next && table[found] == key(next);
        return well && table.memory_bytes() >= size;
      });
  CHECK(outcome.failures == 0);
  CHECK(table.size() == kStrings);
  domain.collect();
  CHECK(domain.retired_count() == 0);
}

TEST_CASE("entries of a u32 map are whole beside a writer") {
  constexpr std::uint32_t kEntries = 100000;
  EpochDomain domain;
  U32Map map(domain);
  const Outcome outcome = run_beside(
      [&] {
        for (std::uint32_t i = 0; i < kEntries; ++i) map.insert(mixed(i), i);
      },
      [&](Random& random) {
        const EpochDomain::Pin pin = domain.pin();
        const auto size = static_cast<std::uint32_t>(map.size());
        bool well = true;
        if (size > 0) {
          const std::uint32_t old = random() % size;
          well = map.find(mixed(old)) == old && map.find(mixed(size - 1)) == size - 1;
        }
        const std::uint32_t next = size + random() % 4;
        const std::uint32_t found = map.find(mixed(next));
        well = well && (found == U32Map::kNone || found == next);
        if (random() % 1024 == 0) {
          std::uint32_t visited = 0;
          map.for_each([&](std::uint32_t k, std::uint32_t value) {
            well = well && k == mixed(value);
            ++visited;
          });
          well = well && visited >= size;
        }
        return well;
      });
  CHECK(outcome.failures == 0);
  CHECK(map.size() == kEntries);
}
