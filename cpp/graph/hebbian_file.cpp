// HCSR 3 (PER-2) and the legacy format before it (PER-8); cpp/FORMATS.md has the bytes.
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/envelope.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/large_array.hpp"
#include "graph/hebbian.hpp"

namespace spector {
namespace {

enum Section : std::size_t { kSettings, kOffsets, kEdges };
constexpr std::array<std::string_view, 3> kSectionNames{"settings", "offsets", "edges"};

constexpr FileKind kKind{
    .magic = {'H', 'C', 'S', 'R'},
    .version = 3,
    .shape = 2,
    .stride = sizeof(HebbianEdge),
    .sections = kSectionNames,
    .remedy = "set it aside; the graph starts empty or from an older copy",
};

struct Settings {
  std::uint64_t cycle;
  std::uint32_t max_degree;
  std::uint32_t reserved;
};
static_assert(sizeof(Settings) == 16);

struct Fault {
  Section section;
  std::string what;
};

// A hash of the edge between two slots that nobody can aim at.
std::uint64_t edge_hash(std::uint32_t low, std::uint32_t high, const HebbianEdge& edge,
                        std::uint64_t seed) noexcept {
  std::uint64_t facts = 0;
  std::memcpy(&facts, &edge.weight, sizeof facts);  // all after the neighbour
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93U;
    return x ^ (x >> 29);
  };
  std::uint64_t hash = mix((static_cast<std::uint64_t>(high) << 32 | low) ^ seed);
  hash = mix(hash ^ facts);
  return hash * 0x9e3779b97f4a7c15U;
}

// Everything that the rows of a graph must be. Whether both directions of each edge are there and
// equal is seen from a sum in which they cancel, which takes one pass and no look-up.
std::optional<Fault> fault_of(std::span<const std::uint32_t> offsets,
                              std::span<const HebbianEdge> edges, std::uint32_t max_degree) {
  if (max_degree < 1 || max_degree > HebbianGraph::kMaxDegree) {
    return Fault{kSettings, "the greatest degree is not in [1, 256]"};
  }
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != edges.size()) {
    return Fault{kOffsets, "they do not begin with 0 and end with the number of edges"};
  }
  if (offsets.size() - 1 > std::numeric_limits<std::uint32_t>::max()) {
    return Fault{kOffsets, "there are more slots than can be"};
  }
  const auto slots = static_cast<std::uint32_t>(offsets.size() - 1);
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    if (offsets[slot] > offsets[slot + 1]) return Fault{kOffsets, "they descend"};
    if (offsets[slot + 1] - offsets[slot] > max_degree) {
      return Fault{kOffsets, "a row has more edges than the greatest degree"};
    }
  }
  const std::uint64_t seed = process_seed();
  std::uint64_t sum = 0;
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    for (std::uint32_t i = offsets[slot]; i < offsets[slot + 1]; ++i) {
      const HebbianEdge& edge = edges[i];
      if (edge.neighbour >= slots) return Fault{kEdges, "a slot that is not there"};
      if (edge.neighbour == slot) return Fault{kEdges, "an edge from a slot to itself"};
      if (i > offsets[slot] && edges[i - 1].neighbour >= edge.neighbour) {
        return Fault{kEdges, "a row does not ascend"};
      }
      if (!(edge.weight > 0 && edge.weight <= 1)) return Fault{kEdges, "a weight not in (0, 1]"};
      if (slot < edge.neighbour) {
        sum += edge_hash(slot, edge.neighbour, edge, seed);
      } else {
        sum -= edge_hash(edge.neighbour, slot, edge, seed);
      }
    }
  }
  if (sum != 0) return Fault{kEdges, "an edge that its other end has not, or otherwise"};
  return std::nullopt;
}

// The edges of a base without gaps as files have them.
std::shared_ptr<HebbianEdge[]> stored_edges(const HebbianBase& base) {
  auto edges = make_large_array<HebbianEdge>(base.entries);
  for (std::size_t i = 0; i < base.entries; ++i) {
    edges[i] = to_edge({base.neighbours[i], base.weights[i], base.meta[i]});
  }
  return edges;
}

std::span<const std::uint32_t> offsets_of(const HebbianBase& base) noexcept {
  static constexpr std::uint32_t kNone = 0;
  if (base.offsets == nullptr) return {&kNone, 1};
  return {base.offsets.get(), base.slots + 1};
}

HebbianBase make_base(std::span<const std::uint32_t> offsets, std::span<const HebbianEdge> edges) {
  const auto copied = make_large_array<std::uint32_t>(offsets.size());
  const auto neighbours = make_large_array<std::uint32_t>(edges.size());
  const auto weights = make_large_array<float>(edges.size());
  const auto meta = make_large_array<std::uint32_t>(edges.size());
  std::copy(offsets.begin(), offsets.end(), copied.get());
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const HebbianEntry entry = to_entry(edges[i]);
    neighbours[i] = entry.neighbour;
    weights[i] = entry.weight;
    meta[i] = entry.meta;
  }
  return {.slots = offsets.size() - 1,
          .entries = edges.size(),
          .dead = 0,
          .offsets = copied,
          .neighbours = neighbours,
          .weights = weights,
          .meta = meta};
}

// PER-8.
constexpr std::array<char, 4> kLegacyMagic{'H', 'G', 'P', 'H'};
constexpr std::uint32_t kLegacyDegree = 24;
struct LegacyHeader {
  std::array<char, 4> magic;
  std::uint32_t version;
  std::uint32_t capacity;
  std::uint32_t max_degree;
};
struct LegacyNode {
  std::uint32_t degree;
  std::array<HebbianEdge, kLegacyDegree> edges;
};
static_assert(sizeof(LegacyHeader) == 16 && sizeof(LegacyNode) == 292);

HebbianContents load_legacy(const std::string& path, std::ifstream& file) {
  const auto fail = [&](const std::string& what) {
    throw Corruption(path + " is damaged or no HGPH file: " + what + "; " +
                     std::string(kKind.remedy));
  };
  file.seekg(0, std::ios::end);
  const auto bytes = static_cast<std::uint64_t>(file.tellg());
  file.seekg(0);
  LegacyHeader header{};
  if (bytes < sizeof header) fail("it has " + std::to_string(bytes) + " bytes");
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  if (header.version != 2) {
    throw Version(path + ": version " + std::to_string(header.version) +
                  " of the legacy format; 2 is the one that is read");
  }
  if (header.max_degree < 1 || header.max_degree > kLegacyDegree) {
    fail("its greatest degree is " + std::to_string(header.max_degree));
  }
  if (header.capacity == std::numeric_limits<std::uint32_t>::max() ||
      bytes != sizeof header + std::uint64_t{header.capacity} * sizeof(LegacyNode)) {
    fail("its size is not that of its " + std::to_string(header.capacity) + " nodes");
  }

  std::vector<std::uint32_t> offsets{0};
  std::vector<HebbianEdge> edges;
  std::uint16_t newest = 0;
  for (std::uint32_t slot = 0; slot < header.capacity; ++slot) {
    LegacyNode node;
    file.read(reinterpret_cast<char*>(&node), sizeof node);
    if (!file) throw Storage(EIO, "cannot read", path);
    if (node.degree > header.max_degree)
      fail("a node has " + std::to_string(node.degree) + " edges");
    const auto first = edges.end() - edges.begin();
    for (std::uint32_t i = 0; i < node.degree; ++i) {
      HebbianEdge edge = node.edges[i];
      if (edge.neighbour >= header.capacity) fail("an edge to a node that is not there");
      if (!(edge.weight > 0 && std::isfinite(edge.weight))) fail("a weight that is not above 0");
      if (edge.weight > 1) {  // a count
        edge.weight = static_cast<float>(1 - std::pow(0.7, static_cast<double>(edge.weight)));
      }
      if (edge.neighbour == slot) continue;
      newest = std::max(newest, edge.last_cycle);
      edges.push_back(edge);
    }
    std::sort(edges.begin() + first, edges.end(), [](const HebbianEdge& x, const HebbianEdge& y) {
      return x.neighbour != y.neighbour ? x.neighbour < y.neighbour : x.weight > y.weight;
    });
    edges.erase(std::unique(edges.begin() + first, edges.end(),
                            [](const HebbianEdge& x, const HebbianEdge& y) {
                              return x.neighbour == y.neighbour;
                            }),
                edges.end());
    if (edges.size() > std::numeric_limits<std::uint32_t>::max()) fail("it has too many edges");
    offsets.push_back(static_cast<std::uint32_t>(edges.size()));
  }

  // The program that wrote it let an edge grow in one row where the other had no room. Such an edge
  // was refused by one of its ends, and goes; where both have it, the stronger one counts.
  std::vector<std::uint32_t> kept_offsets{0};
  std::vector<HebbianEdge> kept;
  for (std::uint32_t slot = 0; slot < header.capacity; ++slot) {
    for (std::uint32_t i = offsets[slot]; i < offsets[slot + 1]; ++i) {
      const auto last = edges.begin() + offsets[edges[i].neighbour + 1];
      const auto other =
          std::lower_bound(edges.begin() + offsets[edges[i].neighbour], last, slot,
                           [](const HebbianEdge& x, std::uint32_t to) { return x.neighbour < to; });
      if (other == last || other->neighbour != slot) continue;
      const auto rank = [](const HebbianEdge& x) {
        return std::tuple(x.weight, x.last_cycle, x.bridge_score, x.flags);
      };
      kept.push_back(rank(*other) > rank(edges[i]) ? *other : edges[i]);
      kept.back().neighbour = edges[i].neighbour;
    }
    kept_offsets.push_back(static_cast<std::uint32_t>(kept.size()));
  }
  if (const auto fault = fault_of(kept_offsets, kept, header.max_degree)) fail(fault->what);
  return {header.max_degree, newest, make_base(kept_offsets, kept)};
}

}  // namespace

std::optional<std::string> HebbianGraph::View::fault() const {
  const std::shared_ptr<const HebbianBase> base = folded();
  const auto edges = stored_edges(*base);
  const auto fault = fault_of(offsets_of(*base), {edges.get(), base->entries}, max_degree_);
  if (fault) return std::string(kSectionNames[fault->section]) + ": " + fault->what;
  return std::nullopt;
}

void save_hebbian(const std::string& path, const HebbianGraph::View& view) {
  const std::shared_ptr<const HebbianBase> base = view.folded();
  const auto edges = stored_edges(*base);
  const Settings settings{view.cycle(), view.max_degree(), 0};
  const std::array<std::span<const std::byte>, 3> sections{
      std::as_bytes(std::span(&settings, 1)), std::as_bytes(offsets_of(*base)),
      std::as_bytes(std::span<const HebbianEdge>(edges.get(), base->entries))};
  write_file(path, kKind, base->entries, sections);
}

HebbianContents load_hebbian(const std::string& path) {
  {
    std::ifstream file(path, std::ios::binary);
    std::array<char, 4> magic{};
    if (file.read(magic.data(), magic.size()) && magic == kLegacyMagic) {
      return load_legacy(path, file);
    }
  }
  const StoredFile file(path, kKind, false);
  const auto settings = file.array<Settings>(kSettings);
  if (settings.values.size() != 1 || settings.values[0].reserved != 0) {
    file.fail(kSettings, "there must be one, of this version");
  }
  const auto offsets = file.array<std::uint32_t>(kOffsets);
  const auto edges = file.array<HebbianEdge>(kEdges);
  if (edges.values.size() != file.count()) {
    file.fail(kEdges, "not as many as the header says");
  }
  const std::uint32_t max_degree = settings.values[0].max_degree;
  if (const auto fault = fault_of(offsets.values, edges.values, max_degree)) {
    file.fail(fault->section, fault->what);
  }
  return {max_degree, settings.values[0].cycle, make_base(offsets.values, edges.values)};
}

}  // namespace spector
