#include "graph/traverse.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

namespace spector {
namespace {

constexpr std::size_t kAhead = 12;  // memory is asked for so many items before it is used

// use(value) for all values in order; for each, kStep values earlier, second(value) has asked for
// memory, and first(value) as much earlier again. Few values, so that no prefetch is dropped.
template <class First, class Second, class Use>
void for_each_ahead(std::span<const std::uint32_t> values, const First& first, const Second& second,
                    const Use& use) {
  constexpr std::size_t kStep = 8;
  const std::size_t n = values.size();
  for (std::size_t i = 0; i < n + 2 * kStep; ++i) {
    if (i < n) first(values[i]);
    if (i >= kStep && i - kStep < n) second(values[i - kStep]);
    if (i >= 2 * kStep) use(values[i - 2 * kStep]);
  }
}

// A set of numbers in one bit each, with a byte for each cache line of bits, so that emptying costs
// what was put in and a look at one byte for each 512.
class BitSet {
 public:
  // Takes numbers below n.
  void reserve(std::size_t n) {
    const std::size_t n_lines = (n + kLine * 8 - 1) / (kLine * 8) * 8;
    if (n_lines <= used_.size()) return;
    used_.resize(n_lines);
    words_.resize(n_lines * kLine / 64);
  }
  // False if it was in.
  bool insert(std::uint32_t value) noexcept {
    const bool is_new = (words_[value / 64] >> (value % 64) & 1) == 0;
    add(value);
    return is_new;
  }
  void add(std::uint32_t value) noexcept {
    words_[value / 64] |= std::uint64_t{1} << (value % 64);
    used_[value / kLine] = 1;
  }
  void add(std::span<const EntityDirectory::Link> links) noexcept {
    std::uint64_t* const words = words_.data();  // bytes written below could be anything's
    std::uint8_t* const used = used_.data();
    for (const EntityDirectory::Link& link : links) {
      words[link.memory / 64] |= std::uint64_t{1} << (link.memory % 64);
      used[link.memory / kLine] = 1;
    }
  }

  // Appends all to `out`, ascending.
  void copy_to(std::vector<std::uint32_t>& out) const {
    std::size_t n = 0;
    for_each_word([&](std::size_t, std::uint64_t word) {
      n += static_cast<std::size_t>(std::popcount(word));
    });
    const std::size_t before = out.size();
    out.resize(before + n);
    std::uint32_t* to = out.data() + before;
    for_each_word([&](std::size_t at, std::uint64_t word) {
      for (; word != 0; word &= word - 1) {
        *to++ =
            static_cast<std::uint32_t>(at * 64 + static_cast<std::size_t>(std::countr_zero(word)));
      }
    });
  }
  void clear() noexcept {
    for_each_word([&](std::size_t at, std::uint64_t) { words_[at] = 0; });
    std::fill(used_.begin(), used_.end(), 0);
  }
  void drain(std::vector<std::uint32_t>& out) {
    copy_to(out);
    clear();
  }

 private:
  static constexpr std::size_t kLine = 512;  // numbers

  template <class F>
  void for_each_word(const F& f) const {
    for (std::size_t first = 0; first < used_.size(); first += 8) {
      std::uint64_t used = 0;
      std::memcpy(&used, &used_[first], 8);
      for (; used != 0; used &= used - 1) {
        const std::size_t line = first + static_cast<std::size_t>(std::countr_zero(used)) / 8;
        for (std::size_t at = line * kLine / 64; at < (line + 1) * kLine / 64; ++at) {
          f(at, words_[at]);
        }
      }
    }
  }

  std::vector<std::uint64_t> words_;
  std::vector<std::uint8_t> used_;  // 1 for each line of words that are not all 0; eights of them
};

void sort_unique(std::vector<std::uint32_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

class Types {
 public:
  explicit Types(const TypeFilter& types) : all_(!types) {
    if (!types) return;
    for (const std::uint32_t type : *types) {
      if (type < 64) low_ |= std::uint64_t{1} << type;
    }
    high_.assign(types->begin(), types->end());
    sort_unique(high_);
  }
  [[nodiscard]] bool operator()(std::uint32_t type) const noexcept {
    if (all_) return true;
    if (type < 64) return (low_ >> type & 1) != 0;
    return std::binary_search(high_.begin(), high_.end(), type);
  }

 private:
  bool all_;
  std::uint64_t low_ = 0;  // types below 64
  std::vector<std::uint32_t> high_;
};

// One traversal after the other, in the same memory; it empties what the one before has left, which
// may have ended in an exception.
class Walk {
 public:
  // Leaves the entities in `reached`, level after level; each level ends at one of `ends`.
  void run(const EntityDirectory::View& directory, const HyperGraph::View* hyper,
           std::span<const std::uint32_t> starts, const TypeFilter& filter,
           std::uint32_t max_hops) {
    reached.clear();
    ends.clear();
    level_.clear();
    named_.clear();
    entities_.clear();
    edges_.clear();
    entities_.reserve(directory.size());
    if (hyper != nullptr) edges_.reserve(hyper->n_places());
    for (const std::uint32_t start : starts) reached.push_back(directory.resolve(start));
    sort_unique(reached);
    for (const std::uint32_t entity : reached) entities_.insert(entity);
    ends.push_back(reached.size());

    const Types types(filter);
    std::size_t begin = 0;
    for (std::uint32_t hop = 0; hop < max_hops && begin < ends.back(); ++hop) {
      const std::size_t end = ends.back();
      follow_relations(directory, types, begin, end);
      if (hyper != nullptr) follow_hyperedges(directory, *hyper, types, begin, end);
      begin = end;
      ends.push_back(reached.size());
    }
  }

  // The entities in the order of their nodes and, after compaction, their links; with them some
  // that are merged, which have no links.
  [[nodiscard]] std::span<const std::uint32_t> ascending() {
    level_.clear();
    entities_.copy_to(level_);
    return level_;
  }

  std::vector<std::uint32_t> reached;
  std::vector<std::size_t> ends;

 private:
  void meet(std::uint32_t entity) {
    if (entities_.insert(entity)) reached.push_back(entity);
  }

  void follow_relations(const EntityDirectory::View& directory, const Types& types,
                        std::size_t begin, std::size_t end) {
    if (directory.n_relations() == 0) return;
    for (std::size_t i = begin; i < end; ++i) {
      if (i + kAhead < end) directory.prefetch_relations(reached[i + kAhead]);
      const std::uint32_t entity = reached[i];
      for (const EntityDirectory::Relation& relation : directory.relations_of(entity)) {
        if (types(relation.type)) meet(relation.target);
      }
      for (const EntityDirectory::Incoming& in : directory.incoming(entity)) {
        if (types(in.type)) meet(in.source);
      }
    }
  }

  void follow_hyperedges(const EntityDirectory::View& directory, const HyperGraph::View& hyper,
                         const Types& types, std::size_t begin, std::size_t end) {
    // First which edges, then what they name: each step waits for memory once, not for each edge.
    level_.clear();
    for_each_ahead(
        std::span(reached).subspan(begin, end - begin),
        [&](std::uint32_t entity) { hyper.prefetch_entity(entity); },
        [&](std::uint32_t entity) { hyper.prefetch_hyperedges(entity); },
        [&](std::uint32_t entity) {
          for (const std::uint32_t edge : hyper.hyperedges_of(entity)) {
            if (edges_.insert(edge)) level_.push_back(edge);
          }
        });
    for_each_ahead(
        level_, [&](std::uint32_t edge) { hyper.prefetch_edge(edge); },
        [&](std::uint32_t edge) { hyper.prefetch_vertices(edge); },
        [&](std::uint32_t place) {
          const HyperGraph::Edge edge = hyper.edge(place);
          if (!types(edge.type)) return;
          for (const HyperGraph::Vertex& vertex : edge.vertices) {
            if (vertex.entity >= directory.size()) continue;
            if (entities_.insert(vertex.entity)) named_.push_back(vertex.entity);
          }
        });
    for_each_ahead(
        named_, [&](std::uint32_t entity) { directory.prefetch_node(entity); },
        [](std::uint32_t) {},
        [&](std::uint32_t named) {
          const std::uint32_t entity = directory.resolve_known(named);
          if (entity == named) {
            reached.push_back(entity);
          } else {
            meet(entity);
          }
        });
    named_.clear();
  }

  BitSet entities_;
  BitSet edges_;
  std::vector<std::uint32_t> level_;  // hyperedges to follow
  std::vector<std::uint32_t> named_;  // entities that they name for the first time
};

struct Scratch {
  Walk walk;
  BitSet numbers;
};

// Not inlined: in a shared library each use of a thread's own variable is a call, loops included.
[[gnu::noinline]] Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

// Few numbers are sorted, many go through the bits.
constexpr std::size_t kFew = 256;

}  // namespace

Reach traverse(const EntityDirectory::View& directory, const HyperGraph::View* hyper,
               std::span<const std::uint32_t> starts, const TypeFilter& types,
               std::uint32_t max_hops) {
  auto& [walk, numbers] = scratch();
  walk.run(directory, hyper, starts, types, max_hops);
  numbers.clear();
  numbers.reserve(directory.size());
  Reach reach;
  reach.entities.reserve(walk.reached.size());
  reach.hops.reserve(walk.reached.size());
  std::size_t begin = 0;
  for (std::uint32_t hop = 0; hop < walk.ends.size(); ++hop) {
    const auto level = std::span(walk.reached).subspan(begin, walk.ends[hop] - begin);
    if (level.size() <= kFew) {
      std::sort(level.begin(), level.end());
      reach.entities.insert(reach.entities.end(), level.begin(), level.end());
    } else {
      for (const std::uint32_t entity : level) numbers.add(entity);
      numbers.drain(reach.entities);
    }
    reach.hops.resize(walk.ends[hop], hop);
    begin = walk.ends[hop];
  }
  return reach;
}

std::vector<std::uint32_t> collect_memories(const EntityDirectory::View& directory,
                                            const HyperGraph::View* hyper,
                                            std::span<const std::uint32_t> starts,
                                            const TypeFilter& types, std::uint32_t max_hops) {
  auto& [walk, numbers] = scratch();
  walk.run(directory, hyper, starts, types, max_hops);
  std::vector<std::uint32_t> memories;
  if (walk.reached.size() == 1 && directory.node(walk.reached[0]).adj_count <= kFew) {
    for (const EntityDirectory::Link& link : directory.links(walk.reached[0])) {
      memories.push_back(link.memory);
    }
    std::sort(memories.begin(), memories.end());
    return memories;
  }
  numbers.clear();
  numbers.reserve(directory.n_memories());
  for_each_ahead(
      walk.ascending(), [&](std::uint32_t entity) { directory.prefetch_node(entity); },
      [&](std::uint32_t entity) { directory.prefetch_links(directory.node(entity)); },
      [&](std::uint32_t entity) {
        directory.for_each_piece(
            directory.node(entity),
            [&](std::span<const EntityDirectory::Link> piece) { numbers.add(piece); });
      });
  numbers.drain(memories);
  return memories;
}

}  // namespace spector
