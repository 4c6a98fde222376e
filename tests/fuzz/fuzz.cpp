// What libFuzzer calls (R11). One program for each target, chosen by SPECTOR_FUZZ: each kind of
// stored file, and the analyzer. tests/fuzz/run builds and runs them all.
//
// A file is given as it is and with all its checksums made right, since no mutation gets past those
// of the envelope. Whatever the bytes are, a reader either throws one of spector's errors or gives
// a store of which all can be asked, that can be changed, and that reads the same once it is saved.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/shared.hpp"
#include "graph/entity_directory.hpp"
#include "graph/hebbian.hpp"
#include "graph/hyper_graph.hpp"
#include "graph/tag_coactivation.hpp"
#include "graph/temporal_chain.hpp"
#include "graph/type_registry.hpp"
#include "lexical/analyzer.hpp"
#include "records/record_store.hpp"
#include "try_file.hpp"

using namespace spector;

namespace {

constexpr std::uint32_t kMost = 40;  // of each thing that is tried

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// A file in memory, gone with the process.
class File {
 public:
  explicit File(const char* name)
      : path_("/dev/shm/spector-fuzz-" + std::to_string(::getpid()) + name) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  File(File&&) = delete;
  File& operator=(File&&) = delete;
  ~File() { std::remove(path_.c_str()); }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(std::string_view bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

 private:
  std::string path_;
};

const File given("");
const File saved("-saved");

template <class T>
T field(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

void set_field(std::string& bytes, std::size_t offset, std::uint32_t value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// All checksums of the envelope, as far as there is one (cpp/FORMATS.md).
[[maybe_unused]] std::string made_right(std::string bytes) {
  constexpr std::size_t kTable = 72, kEntry = 24;
  const auto checksum = [&](std::size_t offset, std::size_t n) {
    return crc32c(std::as_bytes(std::span(bytes).subspan(offset, n)));
  };
  if (bytes.size() < kTable) return bytes;
  const std::size_t room = (bytes.size() - kTable) / kEntry;
  const std::size_t n_sections = std::min<std::size_t>(field<std::uint32_t>(bytes, 64), room);
  for (std::size_t at = kTable; at < kTable + n_sections * kEntry; at += kEntry) {
    const auto offset = field<std::uint64_t>(bytes, at + 8);
    const auto size = field<std::uint64_t>(bytes, at + 16);
    if (offset > bytes.size() || size > bytes.size() - offset) continue;
    set_field(bytes, at + 4, checksum(offset, size));
  }
  set_field(bytes, 68, checksum(kTable, n_sections * kEntry));
  set_field(bytes, 56, checksum(64, bytes.size() - 64));
  set_field(bytes, 60, checksum(0, 60));
  return bytes;
}

std::vector<std::uint32_t> first_numbers(std::size_t n) {
  std::vector<std::uint32_t> numbers(std::min<std::size_t>(n, kMost));
  std::iota(numbers.begin(), numbers.end(), 0U);
  return numbers;
}

// The file of a store is the same once it is read and written again.
template <class Load, class Save>
void check_saved(const Load& load, const Save& save) {
  const std::string once = saved.read();
  given.write(once);
  auto store = load();
  save(store);
  // The header says when it was written.
  require(saved.read().substr(64) == once.substr(64), "a file that is saved is read as the same");
}

[[maybe_unused]] void try_hebbian() {
  const auto load = [] { return Shared<HebbianGraph>(load_hebbian(given.path())); };
  const auto save = [](Shared<HebbianGraph>& graph) {
    graph.read([](const HebbianGraph::View& view) { save_hebbian(saved.path(), view); });
  };
  auto graph = load();
  const auto ask = [&] {
    return graph.read([](const HebbianGraph::View& view) {
      require(!view.fault(), "a graph that was read has no fault");
      const auto slots = first_numbers(view.slots());
      for (const std::uint32_t slot : slots) static_cast<void>(view.neighbours(slot));
      static_cast<void>(view.spread(slots, 3, 0.01F, 100));
      static_cast<void>(view.bridge_scores());
      return slots;
    });
  };
  const auto slots = ask();
  save(graph);
  check_saved(load, save);
  graph.write([&](HebbianGraph& store) {
    store.resize(std::max<std::size_t>(slots.size(), 2));
    const std::vector<std::uint32_t> a{0}, b{1};
    const std::vector<float> deltas{0.5F};
    static_cast<void>(store.strengthen(a, b, deltas, false));
    return store.decay(0.9F, false);
  });
  ask();
  graph.write([&](HebbianGraph& store) { return store.remove(slots); });
  graph.write([](HebbianGraph& store) { store.compact(); });
  ask();
}

// Of stores that load into themselves and save a view.
template <class Store, class... Args>
struct Saving {
  static auto load(Args... args) {
    auto store = std::make_unique<Shared<Store>>(args...);
    store->write([](Store& empty) { empty.load(given.path()); });
    return store;
  }
  static void save(const std::unique_ptr<Shared<Store>>& store) {
    store->read([](const typename Store::View& view) { view.save(saved.path()); });
  }
};

[[maybe_unused]] void try_temporal() {
  using Kind = Saving<TemporalChain>;
  auto chain = Kind::load();
  Kind::save(chain);
  check_saved([] { return Kind::load(); }, Kind::save);
  const auto slots = chain->read([](const TemporalChain::View& view) {
    const auto numbers = first_numbers(view.size());
    for (const auto direction :
         {TemporalChain::Direction::kForward, TemporalChain::Direction::kBackward}) {
      static_cast<void>(view.followers(numbers, direction, 1000));
    }
    return numbers;
  });
  chain->write([&](TemporalChain& store) { return store.prune(5, slots); });
  chain->write([&](TemporalChain& store) { store.remove(slots); });
}

[[maybe_unused]] void try_hyper() {
  using Kind = Saving<HyperGraph, std::uint32_t>;
  auto graph = Kind::load(64);
  Kind::save(graph);
  check_saved([] { return Kind::load(64); }, Kind::save);
  const auto ask = [&] {
    graph->read([](const HyperGraph::View& view) {
      for (const std::uint32_t entity : first_numbers(view.n_entities())) {
        static_cast<void>(view.hyperedges_for(entity));
        const std::vector<std::uint32_t> both{entity, 0};
        static_cast<void>(view.common(both));
      }
      for (const std::uint32_t place : first_numbers(view.n_places())) {
        const auto edge = view.edge(place);
        require(edge.vertices.empty() || view.find(edge.id) == place, "an edge is at its place");
      }
      static_cast<void>(view.ids());
    });
  };
  ask();
  graph->write([](HyperGraph& store) { return store.decay(0.5F, 0.3F); });
  graph->write([](HyperGraph& store) { return store.merge(0, 1); });
  const auto memories = first_numbers(kMost);
  graph->write([&](HyperGraph& store) { return store.remove_memories(memories); });
  graph->write([](HyperGraph& store) { store.compact(); });
  ask();
}

[[maybe_unused]] void try_entities() {
  const auto load = [] {
    auto store = std::make_unique<Shared<EntityDirectory>>(std::uint32_t{16});
    store->write([](EntityDirectory& empty) { empty.load(given.path()); });
    return store;
  };
  const auto save = [](const std::unique_ptr<Shared<EntityDirectory>>& store) {
    store->read([](const EntityDirectory::View& view) { return view.contents(false); })
        .save(saved.path());
  };
  auto directory = load();
  save(directory);
  check_saved(load, save);
  const auto ask = [&] {
    directory->read([](const EntityDirectory::View& view) {
      for (const std::uint32_t entity : first_numbers(view.size())) {
        require(view.resolve(entity) < view.size(), "an entity is merged into one that there is");
        static_cast<void>(view.find(view.name(entity)));
        static_cast<void>(view.folded_name(entity));
        static_cast<void>(view.links(entity));
        static_cast<void>(view.relations(entity));
        static_cast<void>(view.relations_to(entity));
        static_cast<void>(view.fan_factor(entity));
      }
      for (const std::uint32_t memory : first_numbers(view.n_memories())) {
        static_cast<void>(view.entities_of(memory));
      }
    });
  };
  ask();
  directory->write([](EntityDirectory& store) { return store.decay_links(0.5F, 0.3F); });
  directory->write([](EntityDirectory& store) { return store.decay_relations(0.5F, 0.3F); });
  directory->write([](EntityDirectory& store) {
    const std::uint32_t a = store.intern("one", 1);
    const std::uint32_t b = store.intern("another", 1);
    store.link(a, 3, true);
    static_cast<void>(store.add_relation(a, b, 1));
    const std::vector<EntityDirectory::Pair> pairs{{a, b}};
    return store.merge(pairs);
  });
  const auto memories = first_numbers(kMost);
  directory->write([&](EntityDirectory& store) { return store.remove_memories(memories); });
  directory->write([](EntityDirectory& store) { return store.compact_links(); });
  ask();
}

[[maybe_unused]] void try_registry() {
  using Kind = Saving<TypeRegistry, TypeRegistry::Kind>;
  auto registry = Kind::load(TypeRegistry::Kind::kEntities);
  Kind::save(registry);
  check_saved([] { return Kind::load(TypeRegistry::Kind::kEntities); }, Kind::save);
  registry->write([](TypeRegistry& store) { return store.add("another"); });
  registry->read([](const TypeRegistry::View& view) {
    for (std::uint32_t number = 0; number < view.size(); ++number) {
      require(view.find(view.name(number)) == number, "a name has its number");
    }
  });
}

[[maybe_unused]] void try_tags() {
  const auto load = [] { return std::make_unique<Shared<TagCoActivation>>(given.path()); };
  const auto save = [](const std::unique_ptr<Shared<TagCoActivation>>& store) {
    store->read([](const TagCoActivation::View& view) { view.save(saved.path()); });
  };
  auto tags = load();
  save(tags);
  check_saved(load, save);
  const auto ask = [&] {
    tags->read([](const TagCoActivation::View& view) {
      for (const std::uint32_t tag : first_numbers(view.n_tags())) {
        require(view.find(view.name(tag)) != TagCoActivation::kNone, "a tag has its number");
        static_cast<void>(view.associated(tag, 5));
        static_cast<void>(view.predict(tag, 5));
      }
      static_cast<void>(view.pairs());
      static_cast<void>(view.edges());
    });
  };
  ask();
  const std::vector<std::string_view> one{"a", "b"}, other{"c"};
  tags->write([&](TagCoActivation& store) { store.observe(one); });
  tags->write([&](TagCoActivation& store) { return store.observe_sequence(one, other, 5.0); });
  tags->write([&](TagCoActivation& store) { store.forget(one); });
  ask();
}

[[maybe_unused]] void try_records() {
  const RecordFile file(given.path());
  Shared<RecordStore> store(file);
  const auto ask = [&] {
    return store.read([](const RecordStore::View& view) {
      std::vector<std::uint32_t> there;
      std::vector<float> row(view.settings.row_size());
      const auto end = std::min<std::size_t>(view.slots(), 1U << 20);  // there may be 2^32
      for (std::uint32_t slot = 0; slot < end && there.size() < kMost; ++slot) {
        if (!view.contains(slot)) continue;
        there.push_back(slot);
        static_cast<void>(view.header(slot));
        if (view.has_vector(slot)) view.vector(slot, row);
      }
      static_cast<void>(view.touch());
      return there;
    });
  };
  const auto slots = ask();
  store.write([&](RecordStore& records) { return records.remove(slots); });
  store.write([](RecordStore& records) { records.compact(); });
  ask();
}

[[maybe_unused]] void analyze_text(std::string_view text) {
  for (const auto kind : {AnalyzerKind::Code, AnalyzerKind::Standard, AnalyzerKind::Whitespace}) {
    TokenStream found;
    analyze(kind, text, found);
    std::uint64_t before = 0;
    for (const Compound& compound : found.compounds) {
      require(compound.source_begin <= compound.source_end && compound.source_end <= text.size(),
              "a compound is a part of the text");
      require(compound.first_token + compound.n_tokens <= found.tokens.size(),
              "its tokens are there");
      require(before <= compound.source_begin || kind != AnalyzerKind::Whitespace,
              "words come in their order");
      before = compound.source_begin;
    }
    for (const Token& token : found.tokens) {
      require(token.size > 0 && token.size <= 256, "no token is empty or longer than 256 bytes");
      require(token.begin + token.size <= found.chars.size(), "its bytes are there");
    }
  }
}

template <class F>
void tolerate(const F& f) {
  try {
    f();
  } catch (const Error&) {  // it said what is wrong
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
#if defined(SPECTOR_FUZZ_TEXT)
  SPECTOR_FUZZ(bytes);
#else
  for (const std::string& each : {bytes, made_right(bytes)}) {
#if defined(SPECTOR_FUZZ_INDEX)
    static_cast<void>(try_file(std::as_bytes(std::span(each))));
#else
    given.write(each);
    tolerate([] { SPECTOR_FUZZ(); });
#endif
  }
#endif
  return 0;
}
