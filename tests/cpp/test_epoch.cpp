#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/append_array.hpp"
#include "base/chunked_array.hpp"
#include "base/epoch.hpp"
#include "random.hpp"

using spector::AppendArray;
using spector::ChunkedArray;
using spector::EpochDomain;
using spector::Published;

namespace {

// Counts the objects that are alive.
class Counted {
 public:
  explicit Counted(int& alive) : alive_(&alive) { ++*alive_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  Counted(Counted&&) = delete;
  Counted& operator=(Counted&&) = delete;
  ~Counted() { --*alive_; }

 private:
  int* alive_;
};

// A pin that can be ended with reset().
using HeldPin = std::unique_ptr<EpochDomain::Pin>;
HeldPin held(const EpochDomain& domain) { return std::make_unique<EpochDomain::Pin>(domain.pin()); }

std::unique_ptr<Counted> counted(int& alive) { return std::make_unique<Counted>(alive); }

}  // namespace

TEST_CASE("the atomics that readers use are lock-free") {
  CHECK(std::atomic<std::uint32_t>().is_lock_free());
  CHECK(std::atomic<std::uint64_t>().is_lock_free());
  CHECK(std::atomic<std::size_t>().is_lock_free());
  CHECK(std::atomic<const int*>().is_lock_free());
}

TEST_CASE("what a pin may see stays, what was retired before it goes") {
  EpochDomain domain;
  int early = 0;
  int late = 0;
  domain.retire(counted(early), 100);
  CHECK(early == 1);
  domain.collect();
  CHECK(early == 0);
  CHECK(domain.retired_count() == 0);
  CHECK(domain.retired_bytes() == 0);

  auto pin = held(domain);
  domain.retire(counted(late), 100);
  domain.collect();
  auto later = held(domain);
  domain.collect();
  CHECK(late == 1);
  CHECK(domain.retired_count() == 1);
  CHECK(domain.retired_bytes() == 100);
  pin.reset();
  domain.collect();
  CHECK(late == 0);  // the later pin began after the retirement
  CHECK(domain.retired_bytes() == 0);
}

// The negative control of the tests that look for freed objects.
TEST_CASE("without a pin an object goes at once") {
  EpochDomain domain;
  int alive = 0;
  Published<Counted> published(counted(alive));
  {
    const EpochDomain::Pin pin = domain.pin();
    [[maybe_unused]] const Counted& seen = published.get(pin);
    published.publish(counted(alive), domain);
    domain.collect();
    CHECK(alive == 2);
  }
  domain.collect();
  CHECK(alive == 1);
  published.publish(counted(alive), domain);
  domain.collect();
  CHECK(alive == 1);
}

TEST_CASE("pins nest, move, end in any order and in any thread") {
  EpochDomain domain;
  EpochDomain other;
  int alive = 0;
  std::vector<EpochDomain::Pin> pins;
  pins.push_back(domain.pin());
  pins.push_back(other.pin());
  pins.push_back(domain.pin());
  domain.retire(counted(alive));
  pins.erase(pins.begin());  // moves the others
  domain.collect();
  CHECK(alive == 1);
  EpochDomain::Pin last = std::move(pins.back());
  pins.clear();
  domain.collect();
  CHECK(alive == 1);
  last = other.pin();  // the one it held ends
  domain.collect();
  CHECK(alive == 0);

  EpochDomain::Pin travelling = domain.pin();
  domain.retire(counted(alive));
  std::thread([pin = std::move(travelling)] {}).join();
  domain.collect();
  CHECK(alive == 0);
}

TEST_CASE("more pins than there are records all count") {
  EpochDomain domain;
  constexpr std::size_t kPins = 3 * EpochDomain::kRecords + 1;
  for (const std::size_t last : {std::size_t{0}, kPins / 2, kPins - 1}) {
    std::vector<HeldPin> pins(kPins);
    for (HeldPin& pin : pins) pin = held(domain);
    int alive = 0;
    domain.retire(counted(alive));
    for (std::size_t i = 0; i < kPins; ++i) {
      if (i != last) pins[i].reset();
    }
    domain.collect();
    CHECK(alive == 1);
    pins[last].reset();
    domain.collect();
    CHECK(alive == 0);
  }
}

TEST_CASE("a domain frees the rest when it goes") {
  int alive = 0;
  {
    EpochDomain domain;
    for (int i = 0; i < 5; ++i) domain.retire(counted(alive));
    CHECK(alive == 5);
  }
  CHECK(alive == 0);
}

TEST_CASE("deleters of any small kind") {
  EpochDomain domain;
  static int freed;
  freed = 0;
  domain.retire(std::unique_ptr<int[]>(new int[10]), 10 * sizeof(int));
  domain.retire(std::unique_ptr<const int>(new int(3)));
  domain.retire(std::unique_ptr<int, void (*)(int*)>(new int(3), [](int* object) {
    ++freed;
    std::default_delete<int>()(object);
  }));
  domain.retire(std::unique_ptr<int>());  // nothing
  CHECK(domain.retired_count() == 3);
  domain.collect();
  CHECK(domain.retired_count() == 0);
  CHECK(freed == 1);
}

TEST_CASE("retiring collects by itself, by number and by size") {
  EpochDomain domain;
  int alive = 0;
  int most = 0;
  for (int i = 0; i < 10000; ++i) {
    domain.retire(counted(alive));
    most = std::max(most, alive);
  }
  CHECK(most <= 64);
  domain.collect();
  domain.retire(counted(alive), std::size_t{1} << 20);
  CHECK(alive == 0);

  // A pin holds everything back; the domain catches up when it is gone.
  auto pin = held(domain);
  for (int i = 0; i < 10000; ++i) domain.retire(counted(alive));
  CHECK(alive == 10000);
  pin.reset();
  for (int i = 0; i < 64; ++i) domain.retire(counted(alive));
  CHECK(alive <= 64);
}

namespace {

// Retires a chain, one link from the destructor of the one before.
struct Link {
  EpochDomain& domain;
  int& alive;
  int left;

  Link(EpochDomain& d, int& a, int n) : domain(d), alive(a), left(n) { ++alive; }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  Link(Link&&) = delete;
  Link& operator=(Link&&) = delete;
  ~Link() {
    --alive;
    if (left > 0) domain.retire(std::make_unique<Link>(domain, alive, left - 1));
  }
};

}  // namespace

TEST_CASE("a destructor may retire further objects") {
  int alive = 0;
  {
    EpochDomain domain;
    domain.retire(std::make_unique<Link>(domain, alive, 100));
    for (int i = 0; i < 50; ++i) domain.collect();
    CHECK(alive == 1);
  }
  CHECK(alive == 0);
}

TEST_CASE("a domain agrees with a model over random pins, retirements and collections") {
  // An object goes at the first collection at which no pin is left from before the first
  // collection after its retirement.
  struct Object {
    int alive = 0;
    int collected_at = 0;  // the number of the first collection after it was retired
  };
  struct Held {
    EpochDomain::Pin pin;
    int made_at;
  };
  Random random(5);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<Object>> objects;
    EpochDomain domain;
    std::vector<Held> pins;
    int collections = 0;
    for (int step = 0; step < 300; ++step) {
      for (std::uint32_t i = random() % 4; i > 0; --i) {
        objects.push_back(std::make_unique<Object>());
        objects.back()->collected_at = collections + 1;
        domain.retire(counted(objects.back()->alive));
      }
      for (std::uint32_t i = random() % 3; i > 0; --i) pins.push_back({domain.pin(), collections});
      for (std::uint32_t i = random() % 4; i > 0 && !pins.empty(); --i) {
        std::swap(pins[random() % pins.size()], pins.back());
        pins.pop_back();
      }
      if (random() % 2 == 0 || step % 5 == 4) {  // before it would happen by itself
        domain.collect();
        ++collections;
        std::size_t n_alive = 0;
        for (const auto& object : objects) {
          bool visible = false;
          for (const Held& one : pins) visible = visible || one.made_at < object->collected_at;
          REQUIRE(object->alive == (visible ? 1 : 0));
          n_alive += visible ? 1 : 0;
        }
        REQUIRE(domain.retired_count() == n_alive);
      }
    }
    pins.clear();
    domain.collect();
    for (const auto& object : objects) REQUIRE(object->alive == 0);
  }
}

TEST_CASE("an append array agrees with a vector; views stay as they were") {
  EpochDomain domain;
  Random random(9);
  const EpochDomain::Pin pin = domain.pin();
  AppendArray<std::uint32_t> array;
  static_assert(sizeof(array) == sizeof(void*));
  CHECK(array.view(pin).empty());
  CHECK(array.view().empty());
  CHECK(array.memory_bytes() == 0);
  std::vector<std::uint32_t> model;
  std::vector<std::span<const std::uint32_t>> views;
  for (int step = 0; step < 300; ++step) {
    if (random() % 2 == 0) {
      model.push_back(random());
      array.append(model.back(), domain);
    } else {
      std::vector<std::uint32_t> more(random() % 20);
      for (std::uint32_t& value : more) value = random();
      model.insert(model.end(), more.begin(), more.end());
      array.append(std::span<const std::uint32_t>(more), domain);
    }
    REQUIRE(array.size() == model.size());
    REQUIRE(array.empty() == model.empty());
    views.push_back(array.view(pin));
    REQUIRE(views.back().size() == model.size());
    REQUIRE(array.view().data() == views.back().data());
  }
  for (const auto& view : views) REQUIRE(std::equal(view.begin(), view.end(), model.begin()));
  CHECK(domain.retired_count() > 5);  // the pin holds the outgrown blocks
  CHECK(array.memory_bytes() >= model.size() * sizeof(std::uint32_t));

  AppendArray<std::uint32_t> moved(std::move(array));
  CHECK(moved.view().size() == model.size());
  AppendArray<std::uint32_t> assigned;
  assigned = std::move(moved);
  CHECK(assigned.view(pin).size() == model.size());
}

TEST_CASE("an append array can take its own elements, and wide ones") {
  struct Wide {
    double a;
    std::uint8_t b;
  };
  EpochDomain domain;
  AppendArray<Wide> array;
  array.append({0.5, 1}, domain);
  for (int i = 0; i < 100; ++i) array.append(array.view().front(), domain);
  for (const Wide& wide : array.view()) REQUIRE(wide.a == 0.5);
  CHECK(array.size() == 101);
  CHECK(reinterpret_cast<std::uintptr_t>(array.view().data()) % alignof(Wide) == 0);
}

TEST_CASE("elements of a chunked array keep their address") {
  using Array = ChunkedArray<std::uint32_t>;
  Array array;
  CHECK(array.size() == 0);
  CHECK(array.memory_bytes() == 0);
  array.emplace_back(7U);
  const std::uint32_t* first = &array[0];
  // Past the first directory of 8 chunks, by both ways of growing.
  constexpr std::size_t kSize = 20 * Array::kChunk + 3;
  while (array.size() < kSize / 2) array.emplace_back(static_cast<std::uint32_t>(array.size()));
  array.grow_to(kSize, 5U);
  array.grow_to(10, 6U);  // is larger already
  CHECK(array.size() == kSize);
  CHECK(&array[0] == first);
  CHECK(array[0] == 7);
  for (std::size_t i = 1; i < kSize; i += 1009) {
    REQUIRE(array[i] == (i < kSize / 2 ? static_cast<std::uint32_t>(i) : 5));
  }
  CHECK(array[kSize - 1] == 5);
  CHECK(array.memory_bytes() >= kSize * sizeof(std::uint32_t));

  std::size_t runs = 0;
  for (std::size_t i = 0; i < kSize; i += array.run(i).size()) {
    CHECK(array.run(i).data() == &array[i]);
    ++runs;
  }
  CHECK(runs == 21);
  CHECK(array.run(Array::kChunk - 2).size() == 2);

  Array moved(std::move(array));
  CHECK(&moved[0] == first);
  array = Array();
  CHECK(array.size() == 0);
  array.grow_to(2, 1U);
  CHECK(array[1] == 1);
  array = std::move(moved);
  CHECK(array.size() == kSize);
  array.emplace_back(8U);
  CHECK(array[kSize] == 8);
}

TEST_CASE("a chunked array holds atomics") {
  ChunkedArray<std::atomic<std::uint32_t>> array;
  array.grow_to(70000, 9U);
  array.emplace_back(1U);
  array[69999].store(2, std::memory_order_relaxed);
  CHECK(array[0].load() == 9);
  CHECK(array[69999].load() == 2);
  CHECK(array[70000].load() == 1);
}
