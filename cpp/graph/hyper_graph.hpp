// Events of three or more entities as hyperedges (HYP-1 to HYP-9): which entities took part, in
// which roles, and the memory that tells of it.
//
// An edge has an id, which is never used again, and lies at a place, which may change with any
// write: within one View, lists hold places and everything is found through them. Places and ids
// have the same order. Removed edges keep their place until their share exceeds a quarter; then all
// edges move together, so that space follows what is there while no id ever means two events.
//
// The lists of entities (incidence lists) are ascending and hold exactly the edges that name the
// entity; an edge that goes leaves all of them in the same transaction.
//
// HyperGraph is the writer's side, without a lock of its own; View is one state, for readers under
// a Pin (base/shared.hpp brings both together).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/cow.hpp"
#include "base/epoch.hpp"

namespace spector {

class HyperGraph {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;  // no memory, no place
  static constexpr std::size_t kLeastEntities = 3;     // HYP-2
  static constexpr std::size_t kMostEntities = 8;
  static constexpr std::uint32_t kMaxEntity = (1U << 28) - 1;  // a file has 4 bytes for each below
  static constexpr float kMaxWeight = 3.0F;
  static constexpr float kReinforcement = 0.2F;

  // Stored forms (HYP-1).
  struct Vertex {
    std::uint32_t entity;
    std::uint32_t role;
  };
  struct Node {
    std::uint32_t id;
    std::uint32_t type;
    float weight;
    std::uint32_t n_vertices;  // 0: removed
    std::uint32_t first_vertex;
    std::uint32_t memory;  // kNone is the label's -1
    std::int64_t timestamp;
  };
  static_assert(sizeof(Vertex) == 8 && offsetof(Vertex, role) == 4);
  static_assert(sizeof(Node) == 32 && offsetof(Node, type) == 4 && offsetof(Node, weight) == 8 &&
                offsetof(Node, n_vertices) == 12 && offsetof(Node, first_vertex) == 16 &&
                offsetof(Node, memory) == 20 && offsetof(Node, timestamp) == 24);

  struct Edge {
    std::uint32_t id;
    std::uint32_t type;
    float weight;
    std::uint32_t memory;
    std::int64_t timestamp;            // of creation, or of the latest reinforcement or use
    std::span<const Vertex> vertices;  // in the order they were given; empty: removed
  };

  // In bytes. The first three are what the edges that are there need (BUD-5).
  struct Memory {
    std::size_t nodes = 0;
    std::size_t vertices = 0;
    std::size_t incidence = 0;
    std::size_t overhead = 0;  // removed edges, pages and lists partly used, heads of lists
    std::size_t indexes = 0;   // to find edges by what they say and by memory
  };

 private:
  struct Numbers {
    std::size_t size = 0;
    std::uint64_t n_vertices = 0;  // of the edges that are there
    std::uint64_t n_pairs = 0;
    std::uint32_t next_id = 0;
    std::uint32_t max_per_entity = 0;
  };

  // Edges that are there, by id, with their vertices one after the other.
  struct Contents {
    std::vector<Node> nodes;
    std::vector<Vertex> vertices;
  };

 public:
  class View {
   public:
    [[nodiscard]] std::size_t size() const noexcept { return numbers_.size; }
    // Places are below it.
    [[nodiscard]] std::size_t n_places() const noexcept { return nodes_.size(); }
    // Entities of all edges, past and present, are below it.
    [[nodiscard]] std::size_t n_entities() const noexcept { return lists_.size(); }
    [[nodiscard]] std::uint32_t next_id() const noexcept { return numbers_.next_id; }
    [[nodiscard]] std::uint32_t max_per_entity() const noexcept { return numbers_.max_per_entity; }

    // Places of the edges that name the entity, ascending; none for an unknown one.
    [[nodiscard]] std::span<const std::uint32_t> hyperedges_of(
        std::uint32_t entity) const noexcept {
      if (entity >= lists_.size()) return {};
      return lists_[entity];
    }
    // place < n_places().
    [[nodiscard]] Edge edge(std::uint32_t place) const noexcept {
      const Node& node = nodes_[place];
      if (node.n_vertices == 0) return {node.id, node.type, 0, kNone, 0, {}};
      return {node.id,     node.type,      node.weight,
              node.memory, node.timestamp, {&vertices_[node.first_vertex], node.n_vertices}};
    }
    // Ask for the memory that `hyperedges_of` or `edge` will need, first the one, then the other.
    void prefetch_entity(std::uint32_t entity) const noexcept {
      if (entity < lists_.size()) lists_.prefetch_place(entity);
    }
    void prefetch_hyperedges(std::uint32_t entity) const noexcept {
      if (entity < lists_.size()) lists_.prefetch(entity);
    }
    void prefetch_edge(std::uint32_t place) const noexcept { nodes_.prefetch(place); }
    void prefetch_vertices(std::uint32_t place) const noexcept {
      const Node& node = nodes_[place];
      if (node.n_vertices == 0) return;
      vertices_.prefetch(node.first_vertex);
      vertices_.prefetch(node.first_vertex + node.n_vertices - 1);
    }

    // The place of an edge by its id, or kNone.
    [[nodiscard]] std::uint32_t find(std::uint32_t id) const noexcept;

    // Ids by weight, highest first, then id (HYP-7).
    [[nodiscard]] std::vector<std::uint32_t> hyperedges_for(std::uint32_t entity) const;
    // Ids of the edges that name all the entities, in the same order.
    [[nodiscard]] std::vector<std::uint32_t> common(std::span<const std::uint32_t> entities) const;
    // All ids, ascending.
    [[nodiscard]] std::vector<std::uint32_t> ids() const;

    // HYP-8: what the edges take as nodes and links, and what pairs of entities would take.
    [[nodiscard]] std::uint64_t hyperedge_atoms() const noexcept {
      return numbers_.size + numbers_.n_vertices;
    }
    [[nodiscard]] std::uint64_t pairwise_atoms() const noexcept { return 3 * numbers_.n_pairs; }
    [[nodiscard]] std::uint64_t n_vertices() const noexcept { return numbers_.n_vertices; }

    [[nodiscard]] Memory memory() const noexcept { return memory_; }

    // HYEG file (cpp/FORMATS.md). Throws Storage.
    void save(const std::string& path) const;

   private:
    friend class HyperGraph;
    [[nodiscard]] Contents contents() const;
    [[nodiscard]] std::vector<std::uint32_t> ids_by_weight(std::vector<std::uint32_t> places) const;

    CowArray<Node>::View nodes_;
    CowArray<Vertex>::View vertices_;
    CowLists<std::uint32_t>::View lists_;
    Numbers numbers_;
    Memory memory_;
  };

  // What an event says. Entities are distinct; a role for each.
  struct Event {
    std::uint32_t type;
    std::span<const std::uint32_t> entities;
    std::span<const std::uint32_t> roles;
    std::uint32_t memory;
    std::int64_t timestamp;
    float weight;  // in (0, kMaxWeight]
  };

  // What is left of an edge that names only two entities after a merge.
  struct Remnant {
    std::uint32_t id;
    std::uint32_t type;
    float weight;
    std::uint32_t memory;
    std::int64_t timestamp;
    std::array<Vertex, 2> vertices;
  };

  // max_per_entity > 0: HYP-6.
  HyperGraph(EpochDomain& epochs, std::uint32_t max_per_entity);

  [[nodiscard]] View view() const noexcept;
  void reserve() { heap_.reserve(); }
  void published() noexcept;
  void rollback() noexcept;

  // The rest changes the graph. Throws std::invalid_argument for an event that is not as described
  // above, and Capacity when there are no more ids.

  // The id of the new edge. If an edge of the same type, entities (in any order) and memory is
  // there, it is reinforced instead and its id returned: its weight rises by kReinforcement and
  // its timestamp to the event's, if that is later; its roles stay (HYP-5). In the order of the
  // entities, each that has max_per_entity edges first loses the one with the lowest timestamp,
  // then weight, then id (HYP-6); the new edge does not compete.
  std::uint32_t add(const Event& event);
  // An event of any number of entities from 3 on (HYP-3): one edge, or several that share the first
  // entity, over which the others are spread in their order, the larger shares first. Edges that
  // are there are reinforced before others are added.
  std::vector<std::uint32_t> add_event(const Event& event);

  // The edges were used at that time (HYP-6). Ids of removed edges are passed over, those that
  // never were throw std::out_of_range. Returns how many there were.
  std::size_t touch(std::span<const std::uint32_t> ids, std::int64_t timestamp);
  // Multiplies all weights and removes edges below the threshold; returns how many (HYP-5).
  std::size_t decay(float factor, float threshold);
  // Removes the edges of the memories; returns how many.
  std::size_t remove_memories(std::span<const std::uint32_t> memories);
  // Entity `from` becomes `to` in all edges (ENT-9). An edge that names both keeps the first of the
  // two vertices; one that is left with two entities is removed, since such facts are entity edges
  // (HYP-2), and returned, so that the caller can store it as one. An edge that comes to say the
  // same as another joins it: the one of the lower id stays, with the higher weight +
  // kReinforcement and the later timestamp (HYP-5). What is too much for `to` is evicted last.
  std::vector<Remnant> merge(std::uint32_t from, std::uint32_t to);
  // Frees the space of removed edges; happens by itself as well.
  void compact();

  // Replaces everything by what a HYEG file holds. Throws Corruption, Version and Storage.
  void load(const std::string& path);

 private:
  // Places by a hash, chained. Removed edges stay in until the next rebuilding.
  class Chains {
   public:
    // None, with room for `capacity` places.
    void clear(std::size_t capacity);
    [[nodiscard]] std::size_t capacity() const noexcept { return next_.capacity(); }
    // Places come in order.
    void add(std::uint64_t hash, std::uint32_t place) noexcept;
    // The place is in the chain of the one hash and comes into that of the other.
    void move(std::uint64_t from, std::uint64_t to, std::uint32_t place) noexcept;
    // Of a chain; kNone is the end.
    [[nodiscard]] std::uint32_t first(std::uint64_t hash) const noexcept;
    [[nodiscard]] std::uint32_t after(std::uint32_t place) const noexcept { return next_[place]; }
    [[nodiscard]] std::size_t memory_bytes() const noexcept {
      return (heads_.capacity() + next_.capacity()) * sizeof(std::uint32_t);
    }

   private:
    [[nodiscard]] std::uint32_t& head(std::uint64_t hash) noexcept;

    std::vector<std::uint32_t> heads_;
    std::vector<std::uint32_t> next_;  // by place
  };

  void check(const Event& event, std::size_t most) const;
  [[nodiscard]] std::span<const Vertex> vertices_of(const Node& node) const noexcept;
  [[nodiscard]] static std::uint64_t hash_of(const Event& event) noexcept;
  [[nodiscard]] std::uint64_t hash_of(const Node& node) const noexcept;
  [[nodiscard]] std::uint32_t find_same(const Event& event) const noexcept;
  [[nodiscard]] std::uint32_t find_same(std::uint32_t place) const noexcept;
  std::uint32_t insert(const Event& event);
  void reinforce(std::uint32_t place, std::int64_t timestamp);
  void make_room(std::uint32_t entity, std::size_t n);
  void remove(std::uint32_t place);
  void compact_if_due();
  // All edges, in place of those there are: as in Contents.
  void assign_edges(std::span<const Node> nodes, std::span<const Vertex> vertices);
  void index_places();
  void ready_index();

  CowHeap heap_;
  CowArray<Node> nodes_;
  CowArray<Vertex> vertices_;
  CowLists<std::uint32_t> lists_;
  Numbers now_;
  Numbers published_;
  Chains by_event_;
  Chains by_memory_;
  bool indexed_ = false;
  bool index_ahead_ = false;  // the chains have what is not published
};

}  // namespace spector
