#include "graph/temporal_chain.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "altered_file.hpp"
#include "base/error.hpp"
#include "base/shared.hpp"
#include "damage.hpp"
#include "random.hpp"

using namespace spector;

namespace {

using Chain = Shared<TemporalChain>;
using View = TemporalChain::View;

void fill(Chain& chain, std::uint32_t n) {
  chain.write([&](TemporalChain& store) {
    store.resize(n);
    for (std::uint32_t slot = 1; slot < n; ++slot) {
      if (slot % 5 != 0) store.link(slot, slot - 1, 1 + slot / 5, 100 + slot);
    }
  });
}

}  // namespace

TEST_CASE("TMP-4: a batch of starts gives the followers of each") {
  Chain chain;
  fill(chain, 1000);
  std::vector<std::uint32_t> starts;
  starts.reserve(1000);
  for (std::uint32_t i = 0; i < 1000; ++i) starts.push_back((i * 7) % 1000);
  chain.read([&](const View& view) {
    for (const auto direction :
         {TemporalChain::Direction::kForward, TemporalChain::Direction::kBackward}) {
      const bool forward = direction == TemporalChain::Direction::kForward;
      const TemporalChain::Lists lists = view.followers(starts, direction, 3);
      REQUIRE(lists.indptr.size() == 1001);
      for (std::size_t i = 0; i < starts.size(); ++i) {
        std::vector<std::uint32_t> expected;
        for (std::uint32_t hop = 1; hop <= 3; ++hop) {
          const std::uint32_t place = starts[i] % 5;
          if (forward ? place + hop < 5 : hop <= place) {
            expected.push_back(forward ? starts[i] + hop : starts[i] - hop);
          }
        }
        CHECK(std::vector(lists.slots.begin() + lists.indptr[i],
                          lists.slots.begin() + lists.indptr[i + 1]) == expected);
      }
    }
    CHECK_THROWS_AS(static_cast<void>(view.followers(std::array{0U, 1000U},
                                                     TemporalChain::Direction::kForward, 0)),
                    std::out_of_range);
  });
}

TEST_CASE("PER-4: a damaged TPCH file is noticed, wherever it is") {
  const TemporaryFile file;
  Chain chain;
  fill(chain, 13);
  chain.read([&](const View& view) { view.save(file.path()); });
  check_damage(file, [&] {
    Chain loaded;
    loaded.write([&](TemporalChain& store) { store.load(file.path()); });
  });
}

TEST_CASE("PER-4: numbers of a TPCH file with right checksums are not believed") {
  const TemporaryFile file;
  Chain chain;
  fill(chain, 10);  // 0-1-2-3-4 and 5-6-7-8-9
  chain.read([&](const View& view) { view.save(file.path()); });
  const auto load = [&] {
    Chain loaded;
    loaded.write([&](TemporalChain& store) { store.load(file.path()); });
    return loaded.read([](const View& view) { return view.n_links(); });
  };
  CHECK(load() == 8);
  const std::string whole = file.read();
  struct Change {
    std::size_t slot;
    std::size_t offset;
    std::int32_t value;
  };
  const auto crafted = [&](const std::vector<Change>& changes, const char* what) {
    std::string bytes = whole;
    for (const Change& change : changes) {
      set_field(bytes, section_offset(bytes, 0) + 16 * change.slot + change.offset, change.value);
    }
    check_crafted(file, bytes, what, load);
  };
  constexpr std::size_t kPrevious = 0;
  constexpr std::size_t kNext = 4;
  constexpr std::size_t kSession = 8;
  for (const std::int32_t number : {10, -2, 0x7fffffff, static_cast<std::int32_t>(0x80000000)}) {
    crafted({{4, kNext, number}}, "a slot that is not there");
    crafted({{0, kPrevious, number}}, "a slot that is not there");
  }
  crafted({{4, kNext, 0}}, "a link in one direction only");
  crafted({{0, kPrevious, 4}}, "a link in one direction only");
  crafted({{0, kNext, 2}}, "a link in one direction only");
  crafted({{4, kNext, 5}, {5, kPrevious, 4}}, "a link between two sessions");
  crafted({{2, kSession, 7}}, "a link between two sessions");
  crafted({{4, kNext, 0}, {0, kPrevious, 4}}, "a chain that closes");
  crafted({{0, kNext, 0}, {0, kPrevious, 0}, {1, kPrevious, -1}}, "a chain that closes");
}

TEST_CASE("readers beside a writer see chains that are whole") {
  constexpr std::uint32_t kSlots = 64;
  Chain chain;
  chain.write([](TemporalChain& store) {
    store.resize(kSlots);
    for (std::uint32_t slot = 1; slot < kSlots; ++slot) store.link(slot, slot - 1, 1, 0);
  });
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> faults{0};
  std::vector<std::jthread> readers;
  readers.reserve(4);
  for (unsigned reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&, reader] {
      Random random(reader);
      while (!stop.load()) {
        chain.read([&](const View& view) {
          // All slots are one chain at any time: forward from the first one, back from the last.
          std::uint32_t first = random() % kSlots;
          view.follow(first, TemporalChain::Direction::kBackward, kSlots,
                      [&](std::uint32_t slot) { first = slot; });
          std::uint32_t count = 1;
          std::uint32_t last = first;
          view.follow(first, TemporalChain::Direction::kForward, std::size_t{2} * kSlots,
                      [&](std::uint32_t slot) {
                        if (std::cmp_not_equal(view[slot].previous, last)) ++faults;
                        last = slot;
                        ++count;
                      });
          if (count != kSlots || view.n_links() != kSlots - 1) ++faults;
        });
      }
    });
  }
  Random random(5);
  for (std::uint32_t i = 0; i < 20000; ++i) {
    const std::uint32_t current = random() % kSlots;
    const std::uint32_t previous = (current + 1 + random() % (kSlots - 1)) % kSlots;
    chain.write([&](TemporalChain& store) { store.link(current, previous, 1, i); });
  }
  stop = true;
  readers.clear();
  CHECK(faults == 0);
}
