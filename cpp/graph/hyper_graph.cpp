#include "graph/hyper_graph.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/envelope.hpp"
#include "base/error.hpp"
#include "kernels/dispatch.hpp"

namespace spector {
namespace {

using Vertex = HyperGraph::Vertex;
using Node = HyperGraph::Node;

// A quarter of the space, and at least this much, belongs to removed edges before all are moved.
constexpr std::size_t kFewPlaces = 1024;
constexpr std::size_t kMaxVertices = 0xffffff00U;  // offsets are u32

constexpr std::uint64_t mixed(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

constexpr std::uint64_t hash_of_memory(std::uint32_t memory) noexcept {
  return mixed(memory + 0x9e3779b97f4a7c15U);
}

// The same for any order of the entities.
class EventHash {
 public:
  EventHash(std::uint32_t type, std::uint32_t memory) noexcept
      : head_(std::uint64_t{type} << 32 | memory) {}
  void add(std::uint32_t entity) noexcept { sum_ += mixed(entity + 0x9e3779b97f4a7c15U); }
  [[nodiscard]] std::uint64_t value() const noexcept { return mixed(head_ ^ mixed(sum_)); }

 private:
  std::uint64_t head_;
  std::uint64_t sum_ = 0;
};

constexpr std::uint64_t pairs(std::uint64_t n) noexcept { return n * (n - 1) / 2; }

// Where n vertices can begin from `at` on: those of an edge lie in one page.
constexpr std::size_t first_place(std::size_t at, std::size_t n) noexcept {
  constexpr std::size_t kPage = CowArray<Vertex>::kPage;
  return at % kPage + n > kPage ? (at / kPage + 1) * kPage : at;
}

bool names(std::span<const Vertex> vertices, std::uint32_t entity) noexcept {
  return std::any_of(vertices.begin(), vertices.end(),
                     [entity](const Vertex& vertex) { return vertex.entity == entity; });
}

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

// Numbers of sections.
enum Section : std::size_t { kSettings, kNodes, kVertices, kListEnds, kLists };
constexpr std::array<std::string_view, 5> kSectionNames{"settings", "hyperedges", "vertices",
                                                        "incidence index", "incidence lists"};
constexpr FileKind kKind{
    .magic = {'H', 'Y', 'E', 'G'},
    .version = 2,
    .shape = 2,
    .stride = sizeof(Node),
    .sections = kSectionNames,
    .remedy = "restore it from a copy, or start with an empty graph",
};

struct Settings {
  std::uint32_t max_per_entity;
  std::uint32_t next_id;
};
static_assert(sizeof(Settings) == 8);

// The incidence lists: of entity i the places from ends[i - 1] to ends[i].
struct Lists {
  std::vector<std::uint32_t> ends;
  std::vector<std::uint32_t> places;

  // vertices as in Contents.
  Lists(std::span<const Node> nodes, std::span<const Vertex> vertices, std::size_t n_entities)
      : ends(n_entities), places(vertices.size()) {
    for (const Vertex& vertex : vertices) ++ends[vertex.entity];
    std::uint32_t begin = 0;
    for (std::uint32_t& end : ends) begin += std::exchange(end, begin);
    const Vertex* vertex = vertices.data();
    for (std::uint32_t place = 0; place < nodes.size(); ++place) {
      for (std::uint32_t i = 0; i < nodes[place].n_vertices; ++i) {
        places[ends[(vertex++)->entity]++] = place;
      }
    }
  }
};

}  // namespace

// --- Reading ---------------------------------------------------------------------------------

std::uint32_t HyperGraph::View::find(std::uint32_t id) const noexcept {
  if (id >= numbers_.next_id || nodes_.size() == 0) return kNone;
  // Ids rise by at least one from place to place, so the place is not above the id, and not
  // further below it than there are ids without a place.
  const std::size_t gone = numbers_.next_id - nodes_.size();
  std::size_t low = id > gone ? id - gone : 0;
  std::size_t high = std::min<std::size_t>(id, nodes_.size() - 1);
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (nodes_[middle].id < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low >= nodes_.size() || nodes_[low].id != id || nodes_[low].n_vertices == 0) return kNone;
  return static_cast<std::uint32_t>(low);
}

std::vector<std::uint32_t> HyperGraph::View::ids_by_weight(
    std::vector<std::uint32_t> places) const {
  std::sort(places.begin(), places.end(), [this](std::uint32_t a, std::uint32_t b) {
    const float weight_a = nodes_[a].weight;
    const float weight_b = nodes_[b].weight;
    return weight_a != weight_b ? weight_a > weight_b : a < b;
  });
  for (std::uint32_t& place : places) place = nodes_[place].id;
  return places;
}

std::vector<std::uint32_t> HyperGraph::View::hyperedges_for(std::uint32_t entity) const {
  const std::span<const std::uint32_t> places = hyperedges_of(entity);
  return ids_by_weight({places.begin(), places.end()});
}

std::vector<std::uint32_t> HyperGraph::View::common(std::span<const std::uint32_t> entities) const {
  if (entities.empty()) refuse("entities must hold one at least, not none");
  std::vector<std::span<const std::uint32_t>> lists;
  lists.reserve(entities.size());
  for (const std::uint32_t entity : entities) lists.push_back(hyperedges_of(entity));
  std::sort(lists.begin(), lists.end(),
            [](const auto& a, const auto& b) { return a.size() < b.size(); });
  std::vector<std::uint32_t> found(lists[0].begin(), lists[0].end());
  const auto intersect = kernels::active().intersect;
  for (std::size_t i = 1; i < lists.size() && !found.empty(); ++i) {
    // What is found is never ahead of what is read.
    found.resize(
        intersect(found.data(), found.size(), lists[i].data(), lists[i].size(), found.data()));
  }
  return ids_by_weight(std::move(found));
}

std::vector<std::uint32_t> HyperGraph::View::ids() const {
  std::vector<std::uint32_t> ids;
  ids.reserve(size());
  for (std::size_t place = 0; place < nodes_.size(); ++place) {
    if (nodes_[place].n_vertices != 0) ids.push_back(nodes_[place].id);
  }
  return ids;
}

// --- Writing ---------------------------------------------------------------------------------

HyperGraph::HyperGraph(EpochDomain& epochs, std::uint32_t max_per_entity)
    : heap_(epochs), nodes_(heap_), vertices_(heap_), lists_(heap_) {
  if (max_per_entity == 0) refuse("max_per_entity must be at least 1, not 0");
  now_.max_per_entity = max_per_entity;
}

HyperGraph::View HyperGraph::view() const noexcept {
  View view;
  view.nodes_ = nodes_.view();
  view.vertices_ = vertices_.view();
  view.lists_ = lists_.view();
  view.numbers_ = now_;
  Memory& memory = view.memory_;
  memory.nodes = now_.size * sizeof(Node);
  memory.vertices = now_.n_vertices * sizeof(Vertex);
  memory.incidence = now_.n_vertices * sizeof(std::uint32_t);
  const std::size_t used = memory.nodes + memory.vertices + memory.incidence;
  memory.overhead = heap_.next_bytes() - std::min(heap_.next_bytes(), used);
  memory.indexes = by_event_.memory_bytes() + by_memory_.memory_bytes();
  return view;
}

void HyperGraph::published() noexcept {
  nodes_.published();
  vertices_.published();
  lists_.published();
  published_ = now_;
  index_ahead_ = false;
  heap_.published();
}

void HyperGraph::rollback() noexcept {
  nodes_.rollback();
  vertices_.rollback();
  lists_.rollback();
  now_ = published_;
  if (index_ahead_) indexed_ = false;
  index_ahead_ = false;
  heap_.rollback();
}

void HyperGraph::check(const Event& event, std::size_t most) const {
  const std::size_t n = event.entities.size();
  if (n < kLeastEntities || n > most) {
    refuse("entities must be " + std::to_string(kLeastEntities) + " to " + std::to_string(most) +
           ", not " + std::to_string(n));
  }
  if (event.roles.size() != n) {
    refuse("roles must be one for each of the " + std::to_string(n) + " entities, not " +
           std::to_string(event.roles.size()));
  }
  if (!(event.weight > 0 && event.weight <= kMaxWeight)) {
    refuse("weight must be above 0 and at most 3, not " + std::to_string(event.weight));
  }
  const auto refuse_twice = [](std::uint32_t entity) {
    refuse("entities must be distinct, but " + std::to_string(entity) + " comes twice");
  };
  for (const std::uint32_t entity : event.entities) {
    if (entity > kMaxEntity) {
      refuse("entities must be at most " + std::to_string(kMaxEntity) + ", not " +
             std::to_string(entity));
    }
  }
  if (n > kMostEntities) {
    std::vector<std::uint32_t> sorted(event.entities.begin(), event.entities.end());
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) refuse_twice(*twice);
    return;
  }
  for (std::size_t i = 1; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (event.entities[i] == event.entities[j]) refuse_twice(event.entities[i]);
    }
  }
}

std::uint32_t HyperGraph::add(const Event& event) {
  check(event, kMostEntities);
  ready_index();
  const std::uint32_t place = find_same(event);
  if (place != kNone) {
    reinforce(place, event.timestamp);
    return nodes_[place].id;
  }
  for (const std::uint32_t entity : event.entities) make_room(entity, 1);
  const std::uint32_t id = insert(event);
  compact_if_due();
  return id;
}

std::vector<std::uint32_t> HyperGraph::add_event(const Event& event) {
  check(event, 1 + (kMostEntities - 1) * std::size_t{now_.max_per_entity});
  if (event.entities.size() <= kMostEntities) return {add(event)};
  ready_index();

  const std::size_t others = event.entities.size() - 1;
  const std::size_t n = (others + kMostEntities - 2) / (kMostEntities - 1);
  struct Part {
    std::array<std::uint32_t, kMostEntities> entities;
    std::array<std::uint32_t, kMostEntities> roles;
    std::size_t size;
  };
  std::vector<Part> parts(n);
  std::size_t next = 1;
  for (std::size_t i = 0; i < n; ++i) {
    Part& part = parts[i];
    part.entities[0] = event.entities[0];
    part.roles[0] = event.roles[0];
    part.size = 1 + others / n + (i < others % n ? 1 : 0);
    for (std::size_t j = 1; j < part.size; ++j, ++next) {
      part.entities[j] = event.entities[next];
      part.roles[j] = event.roles[next];
    }
  }
  const auto event_of = [&event](const Part& part) {
    Event one = event;
    one.entities = std::span(part.entities).first(part.size);
    one.roles = std::span(part.roles).first(part.size);
    return one;
  };

  std::vector<std::uint32_t> ids(n, kNone);
  std::size_t missing = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t place = find_same(event_of(parts[i]));
    if (place == kNone) {
      ++missing;
    } else {
      reinforce(place, event.timestamp);
      ids[i] = nodes_[place].id;
    }
  }
  make_room(event.entities[0], missing);
  for (std::size_t i = 0; i < n; ++i) {
    if (ids[i] != kNone) continue;
    const Event one = event_of(parts[i]);
    for (const std::uint32_t entity : one.entities.subspan(1)) make_room(entity, 1);
    ids[i] = insert(one);
  }
  compact_if_due();
  return ids;
}

std::size_t HyperGraph::touch(std::span<const std::uint32_t> ids, std::int64_t timestamp) {
  for (const std::uint32_t id : ids) {
    if (id >= now_.next_id) {
      throw std::out_of_range("ids must be of edges that were added, below " +
                              std::to_string(now_.next_id) + ", not " + std::to_string(id));
    }
  }
  const View before = view();  // ids and places stay as they are
  std::size_t there = 0;
  for (const std::uint32_t id : ids) {
    const std::uint32_t place = before.find(id);
    if (place == kNone) continue;
    ++there;
    if (nodes_[place].timestamp < timestamp) nodes_.edit(place).timestamp = timestamp;
  }
  return there;
}

std::size_t HyperGraph::decay(float factor, float threshold) {
  if (!(factor > 0 && factor <= 1)) {
    refuse("factor must be above 0 and at most 1, not " + std::to_string(factor));
  }
  if (!(threshold >= 0 && threshold <= kMaxWeight)) {
    refuse("threshold must be in [0, 3], not " + std::to_string(threshold));
  }
  std::size_t removed = 0;
  for (std::uint32_t place = 0; place < nodes_.size(); ++place) {
    if (nodes_[place].n_vertices == 0) continue;
    const float weight = nodes_[place].weight * factor;
    if (weight < threshold) {
      remove(place);
      ++removed;
    } else {
      nodes_.edit(place).weight = weight;
    }
  }
  compact_if_due();
  return removed;
}

std::size_t HyperGraph::remove_memories(std::span<const std::uint32_t> memories) {
  ready_index();
  const std::size_t before = now_.size;
  for (const std::uint32_t memory : memories) {
    if (memory == kNone) continue;
    for (std::uint32_t place = by_memory_.first(hash_of_memory(memory)); place != kNone;
         place = by_memory_.after(place)) {
      const Node& node = nodes_[place];
      if (node.n_vertices != 0 && node.memory == memory) remove(place);
    }
  }
  const std::size_t removed = before - now_.size;
  compact_if_due();
  return removed;
}

std::vector<HyperGraph::Remnant> HyperGraph::merge(std::uint32_t from, std::uint32_t to) {
  if (from == to) refuse("from and to must be two entities, not twice " + std::to_string(to));
  if (to > kMaxEntity) {
    refuse("to must be at most " + std::to_string(kMaxEntity) + ", not " + std::to_string(to));
  }
  std::vector<Remnant> remnants;
  if (from >= lists_.size() || lists_[from].empty()) return remnants;
  ready_index();
  if (to >= lists_.size()) lists_.resize(std::size_t{to} + 1);
  const std::vector<std::uint32_t> places(lists_[from].begin(), lists_[from].end());
  lists_.truncate(from, 0);

  for (const std::uint32_t place : places) {
    const std::uint64_t hash = hash_of(nodes_[place]);
    const std::uint32_t first = nodes_[place].first_vertex;
    const std::uint32_t n = nodes_[place].n_vertices;
    if (names(vertices_of(nodes_[place]), to)) {
      std::uint32_t kept = 0;
      bool met = false;
      for (std::uint32_t i = 0; i < n; ++i) {
        Vertex vertex = vertices_[first + i];
        if (vertex.entity == from || vertex.entity == to) {
          if (std::exchange(met, true)) continue;
          vertex.entity = to;
        }
        vertices_.edit(first + kept++) = vertex;
      }
      nodes_.edit(place).n_vertices = kept;
      now_.n_vertices -= 1;
      now_.n_pairs -= n - 1;
    } else {
      for (std::uint32_t i = 0; i < n; ++i) {
        if (vertices_[first + i].entity == from) vertices_.edit(first + i).entity = to;
      }
      lists_.push_back(to, place);
      const std::span<std::uint32_t> list = lists_.edit(to);
      std::rotate(std::upper_bound(list.begin(), list.end() - 1, place), list.end() - 1,
                  list.end());
    }
    index_ahead_ = true;
    by_event_.move(hash, hash_of(nodes_[place]), place);

    const Node& node = nodes_[place];
    if (node.n_vertices < kLeastEntities) {
      remnants.push_back({node.id,
                          node.type,
                          node.weight,
                          node.memory,
                          node.timestamp,
                          {vertices_[first], vertices_[first + 1]}});
      remove(place);
      continue;
    }
    const std::uint32_t other = find_same(place);
    if (other == kNone) continue;
    const std::uint32_t stays = std::min(place, other);
    const std::uint32_t goes = std::max(place, other);
    Node& joined = nodes_.edit(stays);
    joined.weight = std::max(joined.weight, nodes_[goes].weight);
    reinforce(stays, nodes_[goes].timestamp);
    remove(goes);
  }
  make_room(to, 0);
  compact_if_due();
  return remnants;
}

std::span<const Vertex> HyperGraph::vertices_of(const Node& node) const noexcept {
  return {&vertices_[node.first_vertex], node.n_vertices};
}

std::uint64_t HyperGraph::hash_of(const Event& event) noexcept {
  EventHash hash(event.type, event.memory);
  for (const std::uint32_t entity : event.entities) hash.add(entity);
  return hash.value();
}

std::uint64_t HyperGraph::hash_of(const Node& node) const noexcept {
  EventHash hash(node.type, node.memory);
  for (const Vertex& vertex : vertices_of(node)) hash.add(vertex.entity);
  return hash.value();
}

std::uint32_t HyperGraph::find_same(const Event& event) const noexcept {
  for (std::uint32_t place = by_event_.first(hash_of(event)); place != kNone;
       place = by_event_.after(place)) {
    const Node& node = nodes_[place];
    if (node.type != event.type || node.memory != event.memory ||
        node.n_vertices != event.entities.size()) {
      continue;
    }
    const std::span<const Vertex> vertices = vertices_of(node);
    if (std::all_of(event.entities.begin(), event.entities.end(),
                    [&](std::uint32_t entity) { return names(vertices, entity); })) {
      return place;
    }
  }
  return kNone;
}

std::uint32_t HyperGraph::find_same(std::uint32_t place) const noexcept {
  const Node& node = nodes_[place];
  const std::span<const Vertex> vertices = vertices_of(node);
  for (std::uint32_t other = by_event_.first(hash_of(node)); other != kNone;
       other = by_event_.after(other)) {
    const Node& found = nodes_[other];
    if (other == place || found.type != node.type || found.memory != node.memory ||
        found.n_vertices != node.n_vertices) {
      continue;
    }
    const std::span<const Vertex> theirs = vertices_of(found);
    if (std::all_of(vertices.begin(), vertices.end(),
                    [&](const Vertex& vertex) { return names(theirs, vertex.entity); })) {
      return other;
    }
  }
  return kNone;
}

std::uint32_t HyperGraph::insert(const Event& event) {
  const std::size_t n = event.entities.size();
  if (now_.next_id == kNone) throw Capacity("4,294,967,295 hyperedges were added, which is all");
  const std::size_t first = first_place(vertices_.size(), n);
  if (first > kMaxVertices) throw Capacity("4,294,967,040 vertices of hyperedges, which is all");

  if (nodes_.size() >= by_event_.capacity()) index_places();
  const auto place = static_cast<std::uint32_t>(nodes_.size());
  vertices_.resize(first + n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t entity = event.entities[i];
    vertices_.edit(first + i) = {entity, event.roles[i]};
    if (entity >= lists_.size()) lists_.resize(std::size_t{entity} + 1);
    lists_.push_back(entity, place);
  }
  nodes_.push_back({now_.next_id, event.type, event.weight, static_cast<std::uint32_t>(n),
                    static_cast<std::uint32_t>(first), event.memory, event.timestamp});
  index_ahead_ = true;
  by_event_.add(hash_of(event), place);
  by_memory_.add(hash_of_memory(event.memory), place);
  ++now_.size;
  now_.n_vertices += n;
  now_.n_pairs += pairs(n);
  return now_.next_id++;
}

void HyperGraph::reinforce(std::uint32_t place, std::int64_t timestamp) {
  Node& node = nodes_.edit(place);
  node.weight = std::min(node.weight + kReinforcement, kMaxWeight);
  node.timestamp = std::max(node.timestamp, timestamp);
}

void HyperGraph::make_room(std::uint32_t entity, std::size_t n) {
  if (entity >= lists_.size()) return;
  while (lists_[entity].size() + n > now_.max_per_entity) {
    const CowArray<Node>::View nodes = nodes_.view();
    const auto age = [](const Node& node) { return std::tuple(node.timestamp, node.weight); };
    const std::span<const std::uint32_t> list = lists_[entity];
    std::uint32_t oldest = list[0];
    const Node* found = &nodes[oldest];
    for (const std::uint32_t place : list.subspan(1)) {  // of equal ones the lowest id
      const Node& node = nodes[place];
      if (age(node) < age(*found)) {
        oldest = place;
        found = &node;
      }
    }
    remove(oldest);
  }
}

void HyperGraph::remove(std::uint32_t place) {
  const std::uint64_t n = nodes_[place].n_vertices;
  for (const Vertex& vertex : vertices_of(nodes_[place])) {
    const std::span<const std::uint32_t> list = lists_[vertex.entity];
    const auto found = std::lower_bound(list.begin(), list.end(), place);
    lists_.erase(vertex.entity, static_cast<std::size_t>(found - list.begin()));
  }
  nodes_.edit(place).n_vertices = 0;
  --now_.size;
  now_.n_vertices -= n;
  now_.n_pairs -= pairs(n);
}

void HyperGraph::compact_if_due() {
  const auto due = [](std::size_t all, std::size_t used) {
    return all > kFewPlaces && (all - used) * 4 > all;
  };
  if (due(nodes_.size(), now_.size) || due(vertices_.size(), now_.n_vertices)) compact();
}

void HyperGraph::compact() {
  std::vector<std::uint32_t> moved(nodes_.size());  // to which place
  std::uint32_t next = 0;
  for (std::size_t place = 0; place < moved.size(); ++place) {
    moved[place] = next;
    if (nodes_[place].n_vertices != 0) ++next;
  }
  const Contents dense = view().contents();
  assign_edges(dense.nodes, dense.vertices);
  for (std::size_t entity = 0; entity < lists_.size(); ++entity) {
    const std::span<const std::uint32_t> list = lists_[entity];
    if (list.empty() || moved[list.back()] == list.back()) continue;  // so did those before it
    for (std::uint32_t& place : lists_.edit(entity)) place = moved[place];
  }
  index_places();
}

void HyperGraph::assign_edges(std::span<const Node> nodes, std::span<const Vertex> vertices) {
  nodes_.clear();
  vertices_.clear();
  now_.size = nodes.size();
  now_.n_vertices = vertices.size();
  now_.n_pairs = 0;

  nodes_.resize(nodes.size());
  std::size_t first = 0;
  for (std::size_t place = 0; place < nodes.size(); ++place) {
    const Node& node = nodes[place];
    first = first_place(first, node.n_vertices);
    vertices_.resize(first + node.n_vertices);
    for (std::size_t i = 0; i < node.n_vertices; ++i) {
      vertices_.edit(first + i) = vertices[node.first_vertex + i];
    }
    Node& copy = nodes_.edit(place);
    copy = node;
    copy.first_vertex = static_cast<std::uint32_t>(first);
    first += node.n_vertices;
    now_.n_pairs += pairs(node.n_vertices);
  }
}

void HyperGraph::index_places() {
  indexed_ = false;
  const std::size_t capacity = std::max<std::size_t>(256, nodes_.size() + nodes_.size() / 2);
  by_event_.clear(capacity);
  by_memory_.clear(capacity);
  for (std::uint32_t place = 0; place < nodes_.size(); ++place) {
    const Node& node = nodes_[place];
    by_event_.add(hash_of(node), place);
    by_memory_.add(hash_of_memory(node.memory), place);
  }
  indexed_ = true;
  index_ahead_ = true;
}

void HyperGraph::ready_index() {
  if (!indexed_) index_places();
}

void HyperGraph::Chains::clear(std::size_t capacity) {
  heads_ = {};
  next_ = {};
  heads_.resize(capacity / 2, kNone);
  next_.reserve(capacity);
}

std::uint32_t& HyperGraph::Chains::head(std::uint64_t hash) noexcept {
  return heads_[(hash >> 32) * heads_.size() >> 32];
}

std::uint32_t HyperGraph::Chains::first(std::uint64_t hash) const noexcept {
  return heads_[(hash >> 32) * heads_.size() >> 32];
}

void HyperGraph::Chains::add(std::uint64_t hash, std::uint32_t place) noexcept {
  next_.push_back(std::exchange(head(hash), place));  // within its capacity
}

void HyperGraph::Chains::move(std::uint64_t from, std::uint64_t to, std::uint32_t place) noexcept {
  std::uint32_t* link = &head(from);
  while (*link != place) link = &next_[*link];
  *link = next_[place];
  next_[place] = std::exchange(head(to), place);
}

// --- The file --------------------------------------------------------------------------------

HyperGraph::Contents HyperGraph::View::contents() const {
  Contents dense;
  dense.nodes.reserve(size());
  dense.vertices.reserve(n_vertices());
  for (std::size_t place = 0; place < nodes_.size(); ++place) {
    Node node = nodes_[place];
    if (node.n_vertices == 0) continue;
    const Vertex* const vertices = &vertices_[node.first_vertex];
    node.first_vertex = static_cast<std::uint32_t>(dense.vertices.size());
    dense.nodes.push_back(node);
    dense.vertices.insert(dense.vertices.end(), vertices, vertices + node.n_vertices);
  }
  return dense;
}

void HyperGraph::View::save(const std::string& path) const {
  const Contents dense = contents();
  Lists lists(dense.nodes, dense.vertices, n_entities());
  for (std::uint32_t& place : lists.places) place = dense.nodes[place].id;
  const Settings settings{max_per_entity(), next_id()};
  const std::array<std::span<const std::byte>, kSectionNames.size()> sections{
      std::as_bytes(std::span(&settings, 1)), std::as_bytes(std::span(dense.nodes)),
      std::as_bytes(std::span(dense.vertices)), std::as_bytes(std::span(lists.ends)),
      std::as_bytes(std::span(lists.places))};
  write_file(path, kKind, dense.nodes.size(), sections);
}

void HyperGraph::load(const std::string& path) {
  const StoredFile file(path, kKind, false);
  const auto settings = file.array<Settings>(kSettings);
  const auto nodes = file.array<Node>(kNodes);
  const auto vertices = file.array<Vertex>(kVertices);
  const auto ends = file.array<std::uint32_t>(kListEnds);
  const auto ids = file.array<std::uint32_t>(kLists);
  if (settings.values.size() != 1) file.fail(kSettings, "there must be one");
  const auto [max_per_entity, next_id] = settings.values[0];
  if (max_per_entity == 0) file.fail(kSettings, "no hyperedge per entity");
  if (nodes.values.size() != file.count()) file.fail(kNodes, "not as many as the header says");
  if (vertices.values.size() > kMaxVertices) file.fail(kVertices, "too many");
  if (ends.values.size() > std::size_t{kMaxEntity} + 1) file.fail(kListEnds, "too many entities");

  std::size_t first = 0;
  std::uint64_t least_id = 0;
  for (const Node& node : nodes.values) {
    if (node.id < least_id || node.id >= next_id) file.fail(kNodes, "ids are not ascending");
    least_id = std::uint64_t{node.id} + 1;
    if (!(node.weight >= 0 && node.weight <= kMaxWeight)) {
      file.fail(kNodes, "a weight is not in [0, 3]");
    }
    if (node.n_vertices < kLeastEntities || node.n_vertices > kMostEntities) {
      file.fail(kNodes, "a number of vertices is not 3 to 8");
    }
    if (node.first_vertex != first || vertices.values.size() - first < node.n_vertices) {
      file.fail(kNodes, "vertices do not follow one another");
    }
    for (std::size_t i = 0; i < node.n_vertices; ++i) {
      const std::uint32_t entity = vertices.values[first + i].entity;
      if (entity >= ends.values.size()) file.fail(kVertices, "an entity that is not there");
      if (names(vertices.values.subspan(first, i), entity)) {
        file.fail(kVertices, "an entity twice in one hyperedge");
      }
    }
    first += node.n_vertices;
  }
  if (first != vertices.values.size()) file.fail(kVertices, "one belongs to no hyperedge");

  // The lists say what the vertices say.
  const Lists lists(nodes.values, vertices.values, ends.values.size());
  if (!std::equal(ends.values.begin(), ends.values.end(), lists.ends.begin())) {
    file.fail(kListEnds, "it does not fit the vertices");
  }
  if (!std::equal(
          ids.values.begin(), ids.values.end(), lists.places.begin(), lists.places.end(),
          [&](std::uint32_t id, std::uint32_t place) { return id == nodes.values[place].id; })) {
    file.fail(kLists, "they do not fit the vertices");
  }
  std::uint32_t begin = 0;
  for (const std::uint32_t end : lists.ends) {
    if (end - begin > max_per_entity) file.fail(kLists, "an entity has too many hyperedges");
    begin = end;
  }

  assign_edges(nodes.values, vertices.values);
  lists_.clear();
  lists_.resize(lists.ends.size());
  begin = 0;
  for (std::size_t entity = 0; entity < lists.ends.size(); ++entity) {
    const std::uint32_t end = lists.ends[entity];
    lists_.assign(entity, std::span(lists.places).subspan(begin, end - begin));
    begin = end;
  }
  index_places();
  now_.max_per_entity = max_per_entity;
  now_.next_id = next_id;
}

}  // namespace spector
