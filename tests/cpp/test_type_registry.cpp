#include "graph/type_registry.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "altered_file.hpp"
#include "base/error.hpp"
#include "base/shared.hpp"
#include "damage.hpp"

using namespace spector;

namespace {

using Registry = Shared<TypeRegistry>;
using View = TypeRegistry::View;
constexpr auto kRoles = TypeRegistry::Kind::kRoles;

}  // namespace

TEST_CASE("PER-4: a damaged TREG file is noticed, wherever it is and whatever it says") {
  const TemporaryFile file;
  Registry registry(kRoles);
  registry.write([](TypeRegistry& store) { return store.add("WITNESS"); });
  registry.read([&](const View& view) { view.save(file.path()); });
  const auto load = [&] {
    Registry loaded(kRoles);
    loaded.write([&](TypeRegistry& store) { store.load(file.path()); });
    return loaded.read([](const View& view) { return view.size(); });
  };
  check_damage(file, load);
  CHECK(load() == 9);

  const std::string whole = file.read();
  const auto crafted = [&](std::size_t section, std::size_t offset, auto value, const char* what) {
    std::string bytes = whole;
    set_field(bytes, section_offset(bytes, section) + offset, value);
    check_crafted(file, bytes, what, load);
  };
  const std::uint32_t end = 11 + 5 + 6 + 7 + 10 + 8 + 4 + 9 + 7;  // of "WITNESS"
  crafted(0, 0, std::uint32_t{0}, "it holds other names than these");
  crafted(1, 0, std::uint32_t{0}, "a name without bytes");
  crafted(1, 4, std::uint32_t{11}, "a name without bytes");
  crafted(1, 32, std::uint32_t{end + 1}, "a name without bytes");
  crafted(1, 32, std::uint32_t{end - 1}, "bytes after the last name");
  crafted(1, 0, std::uint32_t{10}, "the names that are always there are not");
  crafted(2, 0, 'X', "the names that are always there are not");
  crafted(2, end - 7, '\xff', "a name is not UTF-8");
  std::string bytes = whole;
  bytes.replace(section_offset(bytes, 2) + end - 9, 9, "CONTEXT__");  // RECIPIENT without its end
  check_crafted(file, bytes, "the names that are always there are not", load);
}

TEST_CASE("a name twice in a TREG file is refused") {
  const TemporaryFile file;
  Registry registry(kRoles);
  registry.write([](TypeRegistry& store) { return store.add("OBJECU"); });
  registry.read([&](const View& view) { view.save(file.path()); });
  std::string bytes = file.read();
  bytes.back() = 'T';
  check_crafted(file, bytes, "a name twice", [&] {
    Registry loaded(kRoles);
    loaded.write([&](TypeRegistry& store) { store.load(file.path()); });
  });
}

TEST_CASE("readers beside a writer see each number with its name") {
  Registry registry(TypeRegistry::Kind::kRelations);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> faults{0};
  std::vector<std::jthread> readers;
  readers.reserve(4);
  for (unsigned reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&] {
      for (std::uint32_t number = 0; !stop.load(); ++number) {
        registry.read([&](const View& view) {
          const std::uint32_t known = number % view.size();
          if (view.find(view.name(known)) != known) ++faults;
        });
      }
    });
  }
  for (std::uint32_t i = 0; i < 20000; ++i) {
    const std::string name = "TYPE_" + std::to_string(i);
    CHECK(registry.write([&](TypeRegistry& store) { return store.add(name); }) == 21 + i);
  }
  stop = true;
  readers.clear();
  CHECK(faults == 0);
}
