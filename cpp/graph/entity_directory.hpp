// The entities that memories speak of (ENT-1 to ENT-10): their names, which memories are about them
// or mention them, and facts that relate two of them (EEE-1 to EEE-3).
//
// An entity is a number, dense from 0, that is never used again. Merging (ENT-9) makes one entity
// another name of a second: wherever its number or its name is given, the second is meant.
//
// A directory can be stored without its names: what is loaded then knows only their hashes, until
// `intern` or `recognise` meets them.
//
// Links lie in one segment, each entity's in a block; a block that is full is copied to a larger
// one and becomes dead space, which `compact_links` frees. For each memory its entities are kept as
// well, ascending, so that both directions cost what they return.
//
// EntityDirectory is the writer's side, without a lock of its own; View is one state, for readers
// under a Pin (base/shared.hpp brings both together). Functions of both throw std::out_of_range for
// an entity that is not there and std::invalid_argument for other bad arguments, before anything is
// changed; the writer's also Capacity.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cow.hpp"
#include "base/epoch.hpp"
#include "base/load_line.hpp"
#include "base/string_table.hpp"

namespace spector {

class EntityDirectory {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;  // no entity; not a memory
  static constexpr std::uint32_t kOther = 21;          // the type OTHER (TYP-1)
  static constexpr float kMaxWeight = 3.0F;
  static constexpr float kReinforcement = 0.2F;     // of a link or relation that comes again
  static constexpr float kLeastThreshold = 0.001F;  // of a decay: no weight is ever next to nothing
  static constexpr std::uint32_t kFirstBlock = 8;
  static constexpr std::uint32_t kMostRelations = 256;  // upper limit of max_relations

  // Stored forms.
  struct alignas(64) Node {
    std::uint32_t type = 0;
    std::uint32_t pad_4 = 0;
    std::uint64_t name_hash = 0;   // hash64 of the folded name
    std::int32_t adj_offset = -1;  // of its block in the segment, in links; -1: no block
    std::uint32_t adj_count = 0;
    std::uint32_t adj_capacity = 0;
    std::uint32_t merged_into = 0;  // entity + 1; 0: none; kApart
    std::uint32_t pad_32 = 0;
    std::uint32_t degree = 0;      // relations from it
    std::uint32_t edge_start = 0;  // in a file: its first relation; else 0
    std::uint32_t pad_44[5] = {};
  };
  static_assert(sizeof(Node) == 64 && alignof(Node) == 64);
  static_assert(offsetof(Node, type) == 0 && offsetof(Node, pad_4) == 4 &&
                offsetof(Node, name_hash) == 8 && offsetof(Node, adj_offset) == 16 &&
                offsetof(Node, adj_count) == 20 && offsetof(Node, adj_capacity) == 24 &&
                offsetof(Node, merged_into) == 28 && offsetof(Node, pad_32) == 32 &&
                offsetof(Node, degree) == 36 && offsetof(Node, edge_start) == 40 &&
                offsetof(Node, pad_44) == 44);
  // Of an entity whose merging was undone: merge_similar leaves it alone.
  static constexpr std::uint32_t kApart = 0xffffffffU;

  struct Link {
    std::uint32_t memory;
    float weight;  // with the sign set: the memory is about the entity; else it mentions it

    [[nodiscard]] bool about() const noexcept { return std::signbit(weight); }
    [[nodiscard]] float strength() const noexcept { return std::fabs(weight); }
  };
  static_assert(sizeof(Link) == 8 && offsetof(Link, memory) == 0 && offsetof(Link, weight) == 4);

  struct Relation {
    std::uint32_t target;
    std::uint32_t type;
    float weight;
    std::uint16_t last_cycle;
    std::uint8_t bridge;  // 0 to 255; from kBridge on decay stops at the threshold
    std::uint8_t flags;   // kFloored
  };
  static_assert(sizeof(Relation) == 16 && offsetof(Relation, target) == 0 &&
                offsetof(Relation, type) == 4 && offsetof(Relation, weight) == 8 &&
                offsetof(Relation, last_cycle) == 12 && offsetof(Relation, bridge) == 14 &&
                offsetof(Relation, flags) == 15);
  static constexpr std::uint8_t kBridge = 224;
  static constexpr std::uint8_t kFloored = 2;           // held by the last decay
  static constexpr std::uint32_t kFlooredCycles = 365;  // without strengthening; then it goes

  // A relation seen from its target.
  struct Incoming {
    std::uint32_t source;
    std::uint32_t type;
  };

  // In the tables of names; `spelling` is kNone where it is the folded name.
  struct NameNumbers {
    std::uint32_t folded;
    std::uint32_t spelling;
  };

  // A relation in brief; without weight: none.
  struct State {
    float weight;
    std::uint16_t last_cycle;
  };

  // In bytes.
  struct Memory {
    std::size_t nodes = 0;     // BUD-4: 64 for each entity
    std::size_t links = 0;     // BUD-4: 8 for each link
    std::size_t dead = 0;      // of the segment, not in use: compact_links frees it
    std::size_t names = 0;     // spellings, folded names and their index
    std::size_t overhead = 0;  // entities of memories, relations, pages and lists partly used
  };

  class View {
   public:
    [[nodiscard]] std::uint32_t size() const noexcept {
      return static_cast<std::uint32_t>(nodes_.size());
    }
    [[nodiscard]] std::size_t n_links() const noexcept { return numbers_.links; }
    [[nodiscard]] std::size_t n_relations() const noexcept { return numbers_.relations; }
    // Memories with links are below it.
    [[nodiscard]] std::size_t n_memories() const noexcept { return entities_of_.size(); }
    [[nodiscard]] std::uint32_t max_relations() const noexcept { return numbers_.max_relations; }
    [[nodiscard]] std::uint32_t cycle() const noexcept { return numbers_.cycle; }

    // The entity of that name, case and white space apart, or kNone (ENT-3).
    [[nodiscard]] std::uint32_t find(std::string_view name) const;
    // The entity that `entity` was merged into in the end, or itself.
    [[nodiscard]] std::uint32_t resolve(std::uint32_t entity) const;
    // Its own, also of an entity that was merged: as first spelled, and folded; a blank and the
    // hash in hexadecimal if only that is known.
    [[nodiscard]] std::string_view name(std::uint32_t entity) const;
    [[nodiscard]] std::string_view folded_name(std::uint32_t entity) const;
    [[nodiscard]] std::uint64_t name_hash(std::uint32_t entity) const;
    [[nodiscard]] std::uint32_t type(std::uint32_t entity) const;

    // In order of the first link.
    [[nodiscard]] std::vector<Link> links(std::uint32_t entity) const;
    // 0 for an index out of range.
    [[nodiscard]] float link_strength(std::uint32_t entity, std::int64_t index) const;
    [[nodiscard]] std::uint32_t n_links(std::uint32_t entity) const {
      return nodes_[resolve(entity)].adj_count;
    }
    // ENT-6.
    [[nodiscard]] float fan_factor(std::uint32_t entity) const;
    // Ascending; none for a memory without links.
    [[nodiscard]] std::span<const std::uint32_t> entities_of(std::uint32_t memory) const noexcept {
      if (memory >= entities_of_.size()) return {};
      return entities_of_[memory];
    }
    // In order of the first mention.
    [[nodiscard]] std::span<const Relation> relations(std::uint32_t entity) const {
      return relations_[resolve(entity)];
    }
    // By source, then type; `target` is the source.
    [[nodiscard]] std::vector<Relation> relations_to(std::uint32_t entity) const;
    [[nodiscard]] State relation_state(std::uint32_t source, std::uint32_t target,
                                       std::uint32_t type) const;

    [[nodiscard]] Memory memory() const noexcept;

    // For traversal: entities are known to be there, and but for the first function resolved.
    [[nodiscard]] std::uint32_t resolve_known(std::uint32_t entity) const noexcept {
      return resolve_in(nodes_, entity);
    }
    [[nodiscard]] const Node& node(std::uint32_t entity) const noexcept { return nodes_[entity]; }
    [[nodiscard]] std::span<const Relation> relations_of(std::uint32_t entity) const noexcept {
      return relations_[entity];
    }
    [[nodiscard]] std::span<const Incoming> incoming(std::uint32_t entity) const noexcept {
      return incoming_[entity];
    }
    // f(span<const Link>) for the links in order, piece by piece.
    template <class F>
    void for_each_piece(const Node& node, const F& f) const {
      auto at = static_cast<std::size_t>(node.adj_offset);
      for (std::size_t left = node.adj_count; left > 0;) {
        std::span<const Link> piece = segment_.run(at);
        if (piece.size() > left) piece = piece.first(left);
        f(piece);
        at += piece.size();
        left -= piece.size();
      }
    }
    void prefetch_relations(std::uint32_t entity) const noexcept {
      relations_.prefetch(entity);
      incoming_.prefetch(entity);
    }
    // Asks for the first links, as many as 32.
    void prefetch_links(const Node& node) const noexcept {
      if (node.adj_count == 0) return;
      const std::span<const Link> run = segment_.run(static_cast<std::size_t>(node.adj_offset));
      const std::size_t last = std::min(std::size_t{node.adj_count}, run.size()) - 1;
      // Without a loop, whose end would be guessed wrong.
      for (const std::size_t i : {0, 8, 16, 24, 31}) prefetch_line(&run[std::min(i, last)]);
    }
    void prefetch_node(std::uint32_t entity) const noexcept { nodes_.prefetch(entity); }

    // EDIR file (cpp/FORMATS.md), with names or with their hashes alone.
    struct Contents;
    [[nodiscard]] Contents contents(bool hashed) const;

   private:
    friend class EntityDirectory;
    struct Numbers {
      std::size_t links = 0;
      std::size_t relations = 0;
      std::uint32_t cycle = 0;
      std::uint32_t max_relations = 0;
      std::uint32_t unnamed = 0;  // entities of which only the hash of the name is known
    };

    static std::uint32_t resolve_in(const CowArray<Node>::View& nodes,
                                    std::uint32_t entity) noexcept {
      while (true) {
        const std::uint32_t into = nodes[entity].merged_into;
        if (into == 0 || into == kApart) return entity;
        entity = into - 1;
      }
    }

    const StringTable* names_ = nullptr;
    const StringTable* spellings_ = nullptr;
    CowArray<std::uint32_t>::View entity_of_name_;
    CowArray<NameNumbers>::View name_of_;
    CowArray<Node>::View nodes_;
    CowArray<Link>::View segment_;
    CowLists<std::uint32_t>::View entities_of_;
    CowLists<Relation>::View relations_;
    CowLists<Incoming>::View incoming_;
    Numbers numbers_;
    std::size_t heap_bytes_ = 0;
  };

  using Pair = std::pair<std::uint32_t, std::uint32_t>;

  // max_relations from one entity, 1 to kMostRelations (EEE-2).
  EntityDirectory(EpochDomain& epochs, std::uint32_t max_relations);

  [[nodiscard]] View view() const noexcept;
  void reserve() { heap_.reserve(); }
  void published() noexcept;
  void rollback() noexcept;

  // The rest changes the directory.

  // The entity of that name, a new one if there is none (ENT-3). A blank name is refused.
  std::uint32_t intern(std::string_view name, std::uint32_t type);
  // The entity whose own name that is, not the one that it was merged into, or kNone. If only the
  // hash of it was known, the name is from now on.
  std::uint32_t recognise(std::string_view name);

  // ENT-4. `about`: a link that is once about its entity stays so (AM-10).
  void link(std::uint32_t entity, std::uint32_t memory, bool about);
  // Forgets memories: all their links go (ENT-5). Returns how many.
  std::size_t remove_memories(std::span<const std::uint32_t> memories);
  // ENT-7; returns how many links went. factor in [0, 1], threshold in [kLeastThreshold,
  // kMaxWeight].
  std::size_t decay_links(float factor, float threshold);
  // ENT-8; returns the bytes freed.
  std::size_t compact_links();

  // False if the relation is too weak for a full list (EEE-2).
  bool add_relation(std::uint32_t source, std::uint32_t target, std::uint32_t type);
  // What a relation is from now on, whatever it was: with a weight of 0 it goes, and one that is
  // not there comes, unless it is too weak for a full list (EEE-2). At most kMaxWeight.
  void restate_relation(std::uint32_t source, std::uint32_t target, std::uint32_t type,
                        State state);
  // Counts one cycle, multiplies all weights, removes relations below the threshold but for bridges
  // (EEE-3), and scores bridges anew. Returns how many went. Limits as for links.
  std::size_t decay_relations(float factor, float threshold);

  // Merges the pairs of similar_entities in their order, each if both are still there and their
  // types allow it. Returns (merged, survivor) in the order in which it was done, which is what
  // other stores have to follow.
  std::vector<Pair> merge(std::span<const Pair> similar);
  // The entity has its name for itself again, and is left alone from now on; what was linked to it
  // stays with the survivor (ENT-9).
  void unmerge(std::uint32_t entity);

  // Replaces everything by what an EDIR file holds. Throws Corruption, Version and Storage; after
  // an exception `rollback` restores what was.
  void load(const std::string& path);

 private:
  using Numbers = View::Numbers;

  // As `recognise`, of a name that is not blank.
  std::uint32_t known(std::string_view folded, std::string_view name);
  [[nodiscard]] std::uint32_t resolve(std::uint32_t entity) const;
  [[nodiscard]] std::span<const std::uint32_t> entities_of(std::uint32_t memory) const noexcept;
  // The place in the segment of a link that is there.
  [[nodiscard]] std::size_t find_link(const Node& node, std::uint32_t memory) const noexcept;
  void append_link(std::uint32_t entity, Link link);
  // Removes the entity's links for which drop(link) holds, not from the memories; returns how many.
  template <class Drop>
  std::size_t drop_links(std::uint32_t entity, const Drop& drop);
  void add_entity_of(std::uint32_t memory, std::uint32_t entity);
  void remove_entity_of(std::uint32_t memory, std::uint32_t entity);

  // Adds a relation that is not there; false if it is too weak.
  bool place_relation(std::uint32_t source, const Relation& relation);
  // Joins a relation with another of the same source, target and type; false if there is none.
  bool unite_relation(std::uint32_t source, const Relation& relation);
  // The place in the source's list, or kNone.
  [[nodiscard]] std::uint32_t find_relation(std::uint32_t source, std::uint32_t target,
                                            std::uint32_t type) const noexcept;
  void remove_relation(std::uint32_t source, std::size_t place);
  void remove_incoming(std::uint32_t target, std::uint32_t source, std::uint32_t type);
  [[nodiscard]] std::size_t degree(std::uint32_t entity) const noexcept;
  [[nodiscard]] bool related(std::uint32_t a, std::uint32_t b) const noexcept;
  [[nodiscard]] std::uint32_t n_shared(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] double importance(std::uint32_t source, const Relation& relation) const;
  [[nodiscard]] std::uint32_t age(const Relation& relation) const noexcept {
    return static_cast<std::uint16_t>(now_.cycle - relation.last_cycle);
  }
  void score_bridges();

  void merge_links(std::uint32_t from, std::uint32_t to);
  void merge_relations(std::uint32_t from, std::uint32_t to);

  CowHeap heap_;
  StringTable names_;                       // folded
  StringTable spellings_;                   // those that differ from the folded name
  CowArray<std::uint32_t> entity_of_name_;  // entity + 1, 0: none; by number in names_
  CowArray<NameNumbers> name_of_;
  CowArray<Node> nodes_;
  CowArray<Link> segment_;
  CowLists<std::uint32_t> entities_of_;  // by memory, ascending
  CowLists<Relation> relations_;         // by source
  CowLists<Incoming> incoming_;          // by target, in no order
  Numbers now_;
  Numbers published_;
};

// What a file of a directory holds, apart from it and from whoever changes it.
struct EntityDirectory::View::Contents {
  std::uint32_t cycle;
  std::uint32_t max_relations;
  std::vector<Node> nodes;
  std::vector<Link> links;
  std::vector<Relation> relations;
  std::vector<std::uint32_t> name_ends;
  std::vector<char> names;
  std::vector<std::uint32_t> spelling_ends;
  std::vector<char> spellings;  // empty where it is the folded name, and where there is no name

  // Throws Storage.
  void save(const std::string& path) const;
};

// Pairs of entities whose names are one thing written differently (ENT-9): by distance, then the
// lower entity, then the higher. Only entities that may be merged, whatever their types, and whose
// names are known.
[[nodiscard]] std::vector<EntityDirectory::Pair> similar_entities(
    const EntityDirectory::View& view);

}  // namespace spector
