#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/cow.hpp"
#include "base/shared.hpp"
#include "random.hpp"

using spector::CowArray;
using spector::CowHeap;
using spector::CowLists;
using spector::EpochDomain;
using spector::Shared;

namespace {

struct alignas(64) Line {
  std::uint32_t value;
};

// Numbers, wide elements and lists that all say the same.
class Store {
 public:
  struct View {
    CowArray<std::uint32_t>::View numbers;
    CowArray<Line>::View lines;
    CowLists<std::uint32_t>::View lists;
  };

  explicit Store(EpochDomain& epochs) : heap(epochs), numbers(heap), lines(heap), lists(heap) {}

  [[nodiscard]] View view() const { return {numbers.view(), lines.view(), lists.view()}; }
  void reserve() { heap.reserve(); }
  void published() noexcept {
    numbers.published();
    lines.published();
    lists.published();
    heap.published();
  }
  void rollback() noexcept {
    numbers.rollback();
    lines.rollback();
    lists.rollback();
    heap.rollback();
  }

  void set(std::size_t i, std::uint32_t value) {
    numbers.edit(i) = value;
    lines.edit(i).value = value;
    lists.push_back(i, value);
  }
  void resize(std::size_t n) {
    numbers.resize(n);
    lines.resize(n);
    lists.resize(n);
  }

  CowHeap heap;
  CowArray<std::uint32_t> numbers;
  CowArray<Line> lines;
  CowLists<std::uint32_t> lists;
};

using Model = std::vector<std::vector<std::uint32_t>>;

void check_equal(const Store::View& view, const Model& model) {
  REQUIRE(view.numbers.size() == model.size());
  REQUIRE(view.lists.size() == model.size());
  for (std::size_t i = 0; i < model.size(); ++i) {
    const auto list = view.lists[i];
    REQUIRE(std::vector(list.begin(), list.end()) == model[i]);
    const std::uint32_t last = model[i].empty() ? 0 : model[i].back();
    REQUIRE(view.numbers[i] == last);
    REQUIRE(view.lines[i].value == last);
    REQUIRE(reinterpret_cast<std::uintptr_t>(&view.lines[i]) % 64 == 0);
  }
}

}  // namespace

TEST_CASE("copy on write agrees with a model under any history, old views stay") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Random random(seed);
    EpochDomain epochs;
    const auto pin = epochs.pin();  // nothing is freed: all views stay valid
    Store store(epochs);
    store.published();
    Model published;
    std::vector<std::pair<Store::View, Model>> seen;
    for (int transaction = 0; transaction < 40; ++transaction) {
      Model model = published;
      const std::uint32_t edits = random() % 30;
      for (std::uint32_t edit = 0; edit < edits; ++edit) {
        if (model.empty() || random() % 10 == 0) {
          model.resize(model.size() + random() % 1000 + 1);
          store.resize(model.size());
        }
        const std::size_t i = random() % model.size();
        const std::uint32_t value = random();
        auto& list = model[i];
        switch (random() % 4) {
          case 0:
          case 1:
            for (std::uint32_t n = random() % 9; n > 0; --n) {
              list.push_back(value + n);
              store.set(i, value + n);
            }
            break;
          case 2:
            if (list.size() > 1) {
              const std::size_t at = random() % (list.size() - 1);
              list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
              store.lists.erase(i, at);
            }
            break;
          default: {
            std::vector<std::uint32_t> fresh(random() % 20, value);
            list = fresh;
            store.lists.assign(i, fresh);
            store.numbers.edit(i) = list.empty() ? 0 : value;
            store.lines.edit(i).value = list.empty() ? 0 : value;
          }
        }
      }
      if (random() % 3 == 0) {
        store.rollback();
      } else {
        seen.emplace_back(store.view(), model);
        store.reserve();
        store.published();
        published = std::move(model);
      }
      check_equal(store.view(), published);
    }
    for (const auto& [view, model] : seen) check_equal(view, model);
    store.numbers.clear();
    store.lines.clear();
    store.lists.clear();
    store.reserve();
    store.published();
    CHECK(store.heap.bytes() == 0);
    CHECK(store.numbers.size() == 0);
    for (const auto& [view, model] : seen) check_equal(view, model);
  }
}

TEST_CASE("pages that were never edited have no memory") {
  EpochDomain epochs;
  Store store(epochs);
  store.resize(10'000'000);
  store.set(9'999'999, 7);
  CHECK(store.view().numbers[9'999'998] == 0);
  CHECK(store.view().numbers[0] == 0);
  CHECK(store.view().lists[5'000'000].empty());
  CHECK(store.heap.bytes() < 200'000);
}

TEST_CASE("a write that throws changes nothing") {
  Shared<Store> shared;
  shared.write([](Store& store) {
    store.resize(10);
    store.set(3, 1);
  });
  CHECK_THROWS_AS(shared.write([](Store& store) {
    store.resize(2000);
    store.set(3, 2);
    throw std::invalid_argument("no");
  }),
                  std::invalid_argument);
  shared.read([](const Store::View& view) {
    CHECK(view.numbers.size() == 10);
    CHECK(view.numbers[3] == 1);
    CHECK(view.lists[3].size() == 1);
  });
  CHECK(shared.write([](Store& store) { return store.numbers[3]; }) == 1);
}

TEST_CASE("readers beside a writer see whole transactions") {
  constexpr std::size_t kSize = 3000;
  Shared<Store> shared;
  shared.write([](Store& store) { store.resize(kSize); });
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::vector<std::thread> readers;
  for (unsigned reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&, reader] {
      Random random(reader);
      std::uint32_t newest = 0;
      while (!stop) {
        shared.read([&](const Store::View& view) {
          // Each transaction writes its number at a place and at its mirror image.
          const std::size_t i = random() % kSize;
          const std::uint32_t here = view.numbers[i];
          const auto list = view.lists[kSize - 1 - i];
          if (here != view.numbers[kSize - 1 - i] || here != view.lines[i].value ||
              here != (list.empty() ? 0 : list.back())) {
            ++torn;
          }
          if (view.numbers[0] < newest) ++torn;  // views only get newer
          newest = view.numbers[0];
        });
      }
    });
  }
  Random random(99);
  for (std::uint32_t number = 1; number <= 5000; ++number) {
    const std::size_t i = random() % 4 == 0 ? 0 : random() % kSize;
    shared.write([&](Store& store) {
      store.set(i, number);
      if (i != kSize - 1 - i) store.set(kSize - 1 - i, number);
      if (store.lists[i].size() > 8) {
        store.lists.assign(i, std::array{number});
        store.lists.assign(kSize - 1 - i, std::array{number});
      }
    });
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(torn == 0);
}
