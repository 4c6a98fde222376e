#include "graph/entity_directory.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "graph/edge_importance.hpp"
#include "graph/folded_name.hpp"
#include "graph/hashed_name.hpp"
#include "graph/similar_names.hpp"
#include "lexical/unicode.hpp"

namespace spector {
namespace {

constexpr std::size_t kMostLinks = std::numeric_limits<std::int32_t>::max();  // offsets are i32

EntityDirectory::Link make_link(std::uint32_t memory, float strength, bool about) noexcept {
  return {memory, about ? -strength : strength};
}

float reinforced(float weight) noexcept {
  return std::min(EntityDirectory::kMaxWeight, weight + EntityDirectory::kReinforcement);
}

// HEB-10 without sampling: 255 for an only connection. The relation itself counts in the degree.
std::uint8_t bridge_score(std::uint32_t shared, std::size_t least_degree) noexcept {
  const double share = static_cast<double>(shared) / static_cast<double>(least_degree);
  return static_cast<std::uint8_t>(std::lround(255 * (1 - share)));
}

void check_decay(float factor, float threshold) {
  if (!(factor >= 0 && factor <= 1)) {
    throw std::invalid_argument("factor must be in [0, 1], not " + std::to_string(factor));
  }
  if (!(threshold >= EntityDirectory::kLeastThreshold &&
        threshold <= EntityDirectory::kMaxWeight)) {
    throw std::invalid_argument("threshold must be in [0.001, 3], not " +
                                std::to_string(threshold));
  }
}

void require(std::uint32_t entity, std::size_t n) {
  if (entity >= n) {
    throw std::out_of_range("entity " + std::to_string(entity) + " is not known: there are " +
                            std::to_string(n));
  }
}

std::u32string decoded(std::string_view utf8) {
  std::u32string out;
  const char* const end = utf8.data() + utf8.size();
  for (const char* at = utf8.data(); at != end;) {
    const Decoded next = decode_utf8(at, end);
    out.push_back(next.code);
    at += next.size;
  }
  return out;
}

}  // namespace

std::uint32_t EntityDirectory::View::find(std::string_view name) const {
  const FoldedName folded(name);
  const std::uint32_t number = names_->find(folded.view());
  // The table may have names that are newer than this state, or of a change that was undone.
  if (number >= entity_of_name_.size()) return kNone;
  const std::uint32_t entity = entity_of_name_[number];
  return entity == 0 ? kNone : resolve_known(entity - 1);
}

std::uint32_t EntityDirectory::View::resolve(std::uint32_t entity) const {
  require(entity, nodes_.size());
  return resolve_known(entity);
}

std::string_view EntityDirectory::View::name(std::uint32_t entity) const {
  require(entity, nodes_.size());
  const NameNumbers numbers = name_of_[entity];
  return numbers.spelling == kNone ? (*names_)[numbers.folded] : (*spellings_)[numbers.spelling];
}

std::string_view EntityDirectory::View::folded_name(std::uint32_t entity) const {
  require(entity, nodes_.size());
  return (*names_)[name_of_[entity].folded];
}

std::uint64_t EntityDirectory::View::name_hash(std::uint32_t entity) const {
  require(entity, nodes_.size());
  return nodes_[entity].name_hash;
}

std::uint32_t EntityDirectory::View::type(std::uint32_t entity) const {
  require(entity, nodes_.size());
  return nodes_[entity].type;
}

std::vector<EntityDirectory::Link> EntityDirectory::View::links(std::uint32_t entity) const {
  const Node& node = nodes_[resolve(entity)];
  std::vector<Link> links;
  links.reserve(node.adj_count);
  for_each_piece(node, [&](std::span<const Link> piece) {
    links.insert(links.end(), piece.begin(), piece.end());
  });
  return links;
}

float EntityDirectory::View::link_strength(std::uint32_t entity, std::int64_t index) const {
  const Node& node = nodes_[resolve(entity)];
  if (index < 0 || index >= std::int64_t{node.adj_count}) return 0;
  return segment_[static_cast<std::size_t>(node.adj_offset + index)].strength();
}

float EntityDirectory::View::fan_factor(std::uint32_t entity) const {
  const std::uint32_t n = n_links(entity);
  return n == 0 ? 1 : 1 / std::sqrt(static_cast<float>(n));
}

std::vector<EntityDirectory::Relation> EntityDirectory::View::relations_to(
    std::uint32_t entity) const {
  entity = resolve(entity);
  std::vector<Relation> found;
  for (const Incoming& in : incoming_[entity]) {
    const std::span<const Relation> list = relations_[in.source];
    const auto relation = std::find_if(list.begin(), list.end(), [&](const Relation& other) {
      return other.target == entity && other.type == in.type;
    });
    found.push_back(*relation);
    found.back().target = in.source;
  }
  std::sort(found.begin(), found.end(), [](const Relation& a, const Relation& b) {
    return std::pair(a.target, a.type) < std::pair(b.target, b.type);
  });
  return found;
}

EntityDirectory::State EntityDirectory::View::relation_state(std::uint32_t source,
                                                             std::uint32_t target,
                                                             std::uint32_t type) const {
  target = resolve(target);
  for (const Relation& relation : relations_[resolve(source)]) {
    if (relation.target == target && relation.type == type) {
      return {relation.weight, relation.last_cycle};
    }
  }
  return {0, 0};
}

EntityDirectory::Memory EntityDirectory::View::memory() const noexcept {
  Memory memory;
  memory.nodes = nodes_.size() * sizeof(Node);
  memory.links = numbers_.links * sizeof(Link);
  memory.dead = segment_.size() * sizeof(Link) - memory.links;
  memory.names = names_->memory_bytes() + spellings_->memory_bytes() +
                 name_of_.size() * sizeof(NameNumbers) +
                 entity_of_name_.size() * sizeof(std::uint32_t);
  const std::size_t in_heap = memory.nodes + memory.links + memory.dead +
                              name_of_.size() * sizeof(NameNumbers) +
                              entity_of_name_.size() * sizeof(std::uint32_t);
  memory.overhead = heap_bytes_ > in_heap ? heap_bytes_ - in_heap : 0;
  return memory;
}

EntityDirectory::View::Contents EntityDirectory::View::contents(bool hashed) const {
  Contents contents{};
  contents.cycle = numbers_.cycle;
  contents.max_relations = numbers_.max_relations;
  contents.nodes.reserve(nodes_.size());
  contents.links.resize(segment_.size());  // zeros where no link is
  contents.relations.reserve(numbers_.relations);
  const auto add = [](std::vector<std::uint32_t>& ends, std::vector<char>& all,
                      std::string_view text) {
    if (all.size() + text.size() > std::numeric_limits<std::uint32_t>::max()) {
      throw Capacity("more than 4 GiB of names cannot be stored");
    }
    all.insert(all.end(), text.begin(), text.end());
    ends.push_back(static_cast<std::uint32_t>(all.size()));
  };
  for (std::uint32_t entity = 0; entity < nodes_.size(); ++entity) {
    const Node& node = nodes_[entity];
    contents.nodes.push_back(node);
    contents.nodes.back().edge_start = static_cast<std::uint32_t>(contents.relations.size());
    Link* to = contents.links.data() + std::max(node.adj_offset, 0);
    for_each_piece(
        node, [&](std::span<const Link> piece) { to = std::copy(piece.begin(), piece.end(), to); });
    const std::span<const Relation> relations = relations_[entity];
    contents.relations.insert(contents.relations.end(), relations.begin(), relations.end());
    const NameNumbers numbers = name_of_[entity];
    if (hashed) {
      add(contents.name_ends, contents.names, HashedName(node.name_hash).view());
      add(contents.spelling_ends, contents.spellings, {});
      continue;
    }
    add(contents.name_ends, contents.names, (*names_)[numbers.folded]);
    add(contents.spelling_ends, contents.spellings,
        numbers.spelling == kNone ? std::string_view() : (*spellings_)[numbers.spelling]);
  }
  return contents;
}

EntityDirectory::EntityDirectory(EpochDomain& epochs, std::uint32_t max_relations)
    : heap_(epochs),
      names_(epochs),
      spellings_(epochs),
      entity_of_name_(heap_),
      name_of_(heap_),
      nodes_(heap_),
      segment_(heap_),
      entities_of_(heap_),
      relations_(heap_),
      incoming_(heap_) {
  if (max_relations < 1 || max_relations > kMostRelations) {
    throw std::invalid_argument("max_entity_edges must be in [1, 256], not " +
                                std::to_string(max_relations));
  }
  now_.max_relations = max_relations;
}

EntityDirectory::View EntityDirectory::view() const noexcept {
  View view;
  view.names_ = &names_;
  view.spellings_ = &spellings_;
  view.entity_of_name_ = entity_of_name_.view();
  view.name_of_ = name_of_.view();
  view.nodes_ = nodes_.view();
  view.segment_ = segment_.view();
  view.entities_of_ = entities_of_.view();
  view.relations_ = relations_.view();
  view.incoming_ = incoming_.view();
  view.numbers_ = now_;
  view.heap_bytes_ = heap_.next_bytes();
  return view;
}

void EntityDirectory::published() noexcept {
  entity_of_name_.published();
  name_of_.published();
  nodes_.published();
  segment_.published();
  entities_of_.published();
  relations_.published();
  incoming_.published();
  heap_.published();
  published_ = now_;
}

void EntityDirectory::rollback() noexcept {
  entity_of_name_.rollback();
  name_of_.rollback();
  nodes_.rollback();
  segment_.rollback();
  entities_of_.rollback();
  relations_.rollback();
  incoming_.rollback();
  heap_.rollback();
  now_ = published_;
}

std::uint32_t EntityDirectory::intern(std::string_view name, std::uint32_t type) {
  const FoldedName folded(name);
  if (folded.view().empty()) {
    throw std::invalid_argument("name must hold something other than white space");
  }
  if (const std::uint32_t own = known(folded.view(), name); own != kNone) {
    const std::uint32_t entity = resolve(own);
    if (type != kOther && nodes_[entity].type == kOther) nodes_.edit(entity).type = type;
    return entity;
  }
  const std::uint32_t number = names_.intern(folded.view());
  // The table of names ends before there are too many entities.
  const auto entity = static_cast<std::uint32_t>(nodes_.size());
  entity_of_name_.resize(names_.size());
  entity_of_name_.edit(number) = entity + 1;
  name_of_.push_back({number, name == folded.view() ? kNone : spellings_.intern(name)});
  Node node;
  node.type = type;
  node.name_hash = hash64(folded.view());
  nodes_.push_back(node);
  relations_.resize(nodes_.size());
  incoming_.resize(nodes_.size());
  return entity;
}

std::uint32_t EntityDirectory::recognise(std::string_view name) {
  const FoldedName folded(name);
  return folded.view().empty() ? kNone : known(folded.view(), name);
}

std::uint32_t EntityDirectory::known(std::string_view folded, std::string_view name) {
  const std::uint32_t there = names_.find(folded);
  if (there < entity_of_name_.size() && entity_of_name_[there] != 0) {
    return entity_of_name_[there] - 1;
  }
  if (now_.unnamed == 0) return kNone;
  const std::uint32_t hashed = names_.find(HashedName(hash64(folded)).view());
  if (hashed >= entity_of_name_.size() || entity_of_name_[hashed] == 0) return kNone;
  const std::uint32_t entity = entity_of_name_[hashed] - 1;
  const NameNumbers numbers{names_.intern(folded),
                            name == folded ? kNone : spellings_.intern(name)};
  entity_of_name_.resize(names_.size());
  entity_of_name_.edit(numbers.folded) = entity + 1;
  entity_of_name_.edit(hashed) = 0;
  name_of_.edit(entity) = numbers;
  --now_.unnamed;
  return entity;
}

std::uint32_t EntityDirectory::resolve(std::uint32_t entity) const {
  require(entity, nodes_.size());
  return View::resolve_in(nodes_.view(), entity);
}

std::span<const std::uint32_t> EntityDirectory::entities_of(std::uint32_t memory) const noexcept {
  if (memory >= entities_of_.size()) return {};
  return entities_of_[memory];
}

std::size_t EntityDirectory::find_link(const Node& node, std::uint32_t memory) const noexcept {
  auto at = static_cast<std::size_t>(node.adj_offset);
  while (true) {
    const std::span<const Link> run = segment_.view().run(at);
    const auto link = std::find_if(run.begin(), run.end(),
                                   [&](const Link& other) { return other.memory == memory; });
    at += static_cast<std::size_t>(link - run.begin());
    if (link != run.end()) return at;
  }
}

void EntityDirectory::append_link(std::uint32_t entity, Link link) {
  Node& node = nodes_.edit(entity);
  if (node.adj_count == node.adj_capacity) {
    const std::uint32_t capacity = std::max(kFirstBlock, std::bit_ceil(node.adj_count + 1));
    const std::size_t begin = segment_.size();
    if (begin + capacity > kMostLinks) {
      throw Capacity("the segment of links is full; compact_adjacency() frees its dead space");
    }
    segment_.resize(begin + capacity);
    for (std::uint32_t i = 0; i < node.adj_count; ++i) {
      segment_.edit(begin + i) = segment_[static_cast<std::size_t>(node.adj_offset) + i];
    }
    node.adj_offset = static_cast<std::int32_t>(begin);
    node.adj_capacity = capacity;
  }
  segment_.edit(static_cast<std::size_t>(node.adj_offset) + node.adj_count) = link;
  ++node.adj_count;
  ++now_.links;
}

void EntityDirectory::add_entity_of(std::uint32_t memory, std::uint32_t entity) {
  entities_of_.resize(std::size_t{memory} + 1);
  entities_of_.push_back(memory, entity);
  const std::span<const std::uint32_t> list = entities_of_[memory];
  const auto at = std::upper_bound(list.begin(), list.end() - 1, entity) - list.begin();
  if (static_cast<std::size_t>(at) + 1 == list.size()) return;
  const std::span<std::uint32_t> edited = entities_of_.edit(memory);
  std::rotate(edited.begin() + at, edited.end() - 1, edited.end());
}

void EntityDirectory::remove_entity_of(std::uint32_t memory, std::uint32_t entity) {
  const std::span<const std::uint32_t> list = entities_of_[memory];
  const auto at = std::lower_bound(list.begin(), list.end(), entity) - list.begin();
  entities_of_.erase(memory, static_cast<std::size_t>(at));
}

void EntityDirectory::link(std::uint32_t entity, std::uint32_t memory, bool about) {
  entity = resolve(entity);
  if (memory == kNone) throw std::invalid_argument("memory must be at most 4294967294");
  const std::span<const std::uint32_t> entities = entities_of(memory);
  if (std::binary_search(entities.begin(), entities.end(), entity)) {
    Link& link = segment_.edit(find_link(nodes_[entity], memory));
    link = make_link(memory, reinforced(link.strength()), about || link.about());
    return;
  }
  append_link(entity, make_link(memory, 1, about));
  add_entity_of(memory, entity);
}

template <class Drop>
std::size_t EntityDirectory::drop_links(std::uint32_t entity, const Drop& drop) {
  const Node& node = nodes_[entity];
  const auto begin = static_cast<std::size_t>(node.adj_offset);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < node.adj_count; ++i) {
    const Link link = segment_[begin + i];
    if (drop(link)) continue;
    if (kept != i) segment_.edit(begin + kept) = link;
    ++kept;
  }
  const std::size_t dropped = node.adj_count - kept;
  if (dropped > 0) {
    nodes_.edit(entity).adj_count = static_cast<std::uint32_t>(kept);
    now_.links -= dropped;
  }
  return dropped;
}

std::size_t EntityDirectory::remove_memories(std::span<const std::uint32_t> memories) {
  std::vector<std::uint32_t> gone(memories.begin(), memories.end());
  std::sort(gone.begin(), gone.end());
  std::vector<std::uint32_t> entities;
  for (const std::uint32_t memory : gone) {
    const std::span<const std::uint32_t> list = entities_of(memory);
    if (list.empty()) continue;
    entities.insert(entities.end(), list.begin(), list.end());
    entities_of_.truncate(memory, 0);
  }
  std::sort(entities.begin(), entities.end());
  entities.erase(std::unique(entities.begin(), entities.end()), entities.end());
  std::size_t n = 0;
  for (const std::uint32_t entity : entities) {
    n += drop_links(entity, [&](const Link& link) {
      return std::binary_search(gone.begin(), gone.end(), link.memory);
    });
  }
  return n;
}

std::size_t EntityDirectory::decay_links(float factor, float threshold) {
  check_decay(factor, threshold);
  std::vector<std::uint64_t> gone;  // memory << 32 | entity
  for (std::uint32_t entity = 0; entity < nodes_.size(); ++entity) {
    const Node& node = nodes_[entity];
    const auto begin = static_cast<std::size_t>(node.adj_offset);
    std::size_t n_weak = 0;
    for (std::size_t i = 0; i < node.adj_count;) {
      const std::size_t n =
          std::min(segment_.view().run(begin + i).size(), std::size_t{node.adj_count} - i);
      for (Link& link : std::span(&segment_.edit(begin + i), n)) {
        link.weight *= factor;
        n_weak += link.strength() < threshold ? 1 : 0;
      }
      i += n;
    }
    if (n_weak == 0) continue;
    drop_links(entity, [&](const Link& link) {
      if (link.strength() >= threshold) return false;
      gone.push_back(std::uint64_t{link.memory} << 32 | entity);
      return true;
    });
  }
  std::sort(gone.begin(), gone.end());
  std::vector<std::uint32_t> left;
  for (std::size_t begin = 0; begin < gone.size();) {
    const auto memory = static_cast<std::uint32_t>(gone[begin] >> 32);
    std::size_t next = begin;
    left.clear();
    for (const std::uint32_t entity : entities_of_[memory]) {  // ascending, as `gone`
      if (next < gone.size() && gone[next] == (std::uint64_t{memory} << 32 | entity)) {
        ++next;
      } else {
        left.push_back(entity);
      }
    }
    entities_of_.assign(memory, left);
    begin = next;
  }
  return gone.size();
}

std::size_t EntityDirectory::compact_links() {
  const std::size_t before = segment_.size();
  if (before == now_.links) return 0;
  std::vector<Link> links;
  links.reserve(now_.links);
  for (std::uint32_t entity = 0; entity < nodes_.size(); ++entity) {
    if (nodes_[entity].adj_capacity == 0) continue;
    Node& node = nodes_.edit(entity);
    const std::size_t begin = links.size();
    view().for_each_piece(node, [&](std::span<const Link> piece) {
      links.insert(links.end(), piece.begin(), piece.end());
    });
    node.adj_offset = node.adj_count == 0 ? -1 : static_cast<std::int32_t>(begin);
    node.adj_capacity = node.adj_count;
  }
  segment_.assign(links);
  return (before - links.size()) * sizeof(Link);
}

std::size_t EntityDirectory::degree(std::uint32_t entity) const noexcept {
  return relations_[entity].size() + incoming_[entity].size();
}

bool EntityDirectory::related(std::uint32_t a, std::uint32_t b) const noexcept {
  const auto leads = [this](std::uint32_t source, std::uint32_t target) {
    const std::span<const Relation> list = relations_[source];
    return std::any_of(list.begin(), list.end(),
                       [&](const Relation& relation) { return relation.target == target; });
  };
  return leads(a, b) || leads(b, a);
}

// Entities that are related to both.
std::uint32_t EntityDirectory::n_shared(std::uint32_t a, std::uint32_t b) const {
  if (degree(a) > degree(b)) std::swap(a, b);
  std::vector<std::uint32_t> around;
  for (const Relation& relation : relations_[a]) around.push_back(relation.target);
  for (const Incoming& in : incoming_[a]) around.push_back(in.source);
  std::sort(around.begin(), around.end());
  around.erase(std::unique(around.begin(), around.end()), around.end());
  return static_cast<std::uint32_t>(
      std::count_if(around.begin(), around.end(),
                    [&](std::uint32_t other) { return other != b && related(other, b); }));
}

double EntityDirectory::importance(std::uint32_t source, const Relation& relation) const {
  return edge_importance({relation.weight / kMaxWeight, age(relation), relation.bridge,
                          n_shared(source, relation.target)},
                         {}, {});
}

std::uint32_t EntityDirectory::find_relation(std::uint32_t source, std::uint32_t target,
                                             std::uint32_t type) const noexcept {
  const std::span<const Relation> list = relations_[source];
  for (std::uint32_t i = 0; i < list.size(); ++i) {
    if (list[i].target == target && list[i].type == type) return i;
  }
  return kNone;
}

void EntityDirectory::remove_incoming(std::uint32_t target, std::uint32_t source,
                                      std::uint32_t type) {
  const std::span<Incoming> list = incoming_.edit(target);
  const auto found = std::find_if(list.begin(), list.end(), [&](const Incoming& in) {
    return in.source == source && in.type == type;
  });
  *found = list.back();
  incoming_.truncate(target, list.size() - 1);
}

void EntityDirectory::remove_relation(std::uint32_t source, std::size_t place) {
  const Relation relation = relations_[source][place];
  remove_incoming(relation.target, source, relation.type);
  relations_.erase(source, place);
  --nodes_.edit(source).degree;
  --now_.relations;
}

bool EntityDirectory::place_relation(std::uint32_t source, const Relation& relation) {
  if (relations_[source].size() >= now_.max_relations) {
    // The least important makes room; of equals, the one longest unused, then the lower target.
    const auto rank = [this](const Relation& r, double value) {
      return std::tuple(value, -static_cast<int>(age(r)), r.target, r.type);
    };
    const std::span<const Relation> list = relations_[source];
    std::size_t lowest = 0;
    auto lowest_rank = rank(list[0], importance(source, list[0]));
    for (std::size_t i = 1; i < list.size(); ++i) {
      const auto next = rank(list[i], importance(source, list[i]));
      if (next < lowest_rank) {
        lowest = i;
        lowest_rank = next;
      }
    }
    if (importance(source, relation) < std::get<0>(lowest_rank)) return false;
    remove_relation(source, lowest);
  }
  relations_.push_back(source, relation);
  incoming_.push_back(relation.target, {source, relation.type});
  ++nodes_.edit(source).degree;
  ++now_.relations;
  return true;
}

bool EntityDirectory::unite_relation(std::uint32_t source, const Relation& relation) {
  const std::uint32_t place = find_relation(source, relation.target, relation.type);
  if (place == kNone) return false;
  Relation& there = relations_.edit(source)[place];
  there.weight = reinforced(std::max(there.weight, relation.weight));
  if (age(relation) < age(there)) there.last_cycle = relation.last_cycle;
  there.bridge = std::max(there.bridge, relation.bridge);
  there.flags |= relation.flags;
  return true;
}

bool EntityDirectory::add_relation(std::uint32_t source, std::uint32_t target, std::uint32_t type) {
  source = resolve(source);
  target = resolve(target);
  if (source == target) {
    throw std::invalid_argument("source and target must be two entities, but both are entity " +
                                std::to_string(source));
  }
  const auto cycle = static_cast<std::uint16_t>(now_.cycle);
  const std::uint32_t place = find_relation(source, target, type);
  if (place != kNone) {
    Relation& relation = relations_.edit(source)[place];
    relation.weight = reinforced(relation.weight);
    relation.last_cycle = cycle;
    return true;
  }
  const std::size_t least_degree = std::min(degree(source), degree(target)) + 1;
  return place_relation(
      source, {target, type, 1, cycle, bridge_score(n_shared(source, target), least_degree), 0});
}

void EntityDirectory::restate_relation(std::uint32_t source, std::uint32_t target,
                                       std::uint32_t type, State state) {
  source = resolve(source);
  target = resolve(target);
  if (source == target) {
    throw std::invalid_argument("source and target must be two entities, but both are entity " +
                                std::to_string(source));
  }
  const std::uint32_t place = find_relation(source, target, type);
  if (!(state.weight > 0)) {
    if (place != kNone) remove_relation(source, place);
    return;
  }
  const float weight = std::min(kMaxWeight, state.weight);
  if (place == kNone) {
    const std::size_t least_degree = std::min(degree(source), degree(target)) + 1;
    place_relation(source, {target, type, weight, state.last_cycle,
                            bridge_score(n_shared(source, target), least_degree), 0});
    return;
  }
  Relation& relation = relations_.edit(source)[place];
  relation.weight = weight;
  relation.last_cycle = state.last_cycle;
}

std::size_t EntityDirectory::decay_relations(float factor, float threshold) {
  check_decay(factor, threshold);
  ++now_.cycle;
  std::size_t n = 0;
  std::vector<std::uint32_t> targets;  // that lost a relation
  std::vector<Relation> left;
  for (std::uint32_t source = 0; source < nodes_.size(); ++source) {
    if (relations_[source].empty()) continue;
    left.clear();
    for (Relation relation : relations_[source]) {
      relation.weight *= factor;
      relation.flags &= static_cast<std::uint8_t>(~kFloored);
      if (relation.weight < threshold) {
        if (relation.bridge < kBridge || age(relation) >= kFlooredCycles) {
          targets.push_back(relation.target);
          continue;
        }
        relation.weight = threshold;
        relation.flags |= kFloored;
      }
      left.push_back(relation);
    }
    n += relations_[source].size() - left.size();
    if (left.size() < relations_[source].size()) {
      nodes_.edit(source).degree = static_cast<std::uint32_t>(left.size());
    }
    relations_.assign(source, left);
  }
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  std::vector<Incoming> incoming;
  for (const std::uint32_t target : targets) {
    incoming.clear();
    const std::span<const Incoming> list = incoming_[target];
    std::copy_if(list.begin(), list.end(), std::back_inserter(incoming), [&](const Incoming& in) {
      return find_relation(in.source, target, in.type) != kNone;
    });
    incoming_.assign(target, incoming);
  }
  now_.relations -= n;
  score_bridges();
  return n;
}

void EntityDirectory::score_bridges() {
  for (std::uint32_t source = 0; source < nodes_.size(); ++source) {
    for (std::size_t i = 0; i < relations_[source].size(); ++i) {
      const Relation& relation = relations_[source][i];
      const std::uint8_t score = bridge_score(n_shared(source, relation.target),
                                              std::min(degree(source), degree(relation.target)));
      if (score != relation.bridge) relations_.edit(source)[i].bridge = score;
    }
  }
}

void EntityDirectory::merge_links(std::uint32_t from, std::uint32_t to) {
  const std::vector<Link> links = view().links(from);
  Node& node = nodes_.edit(from);
  node.adj_offset = -1;
  node.adj_count = 0;
  node.adj_capacity = 0;
  now_.links -= links.size();
  for (const Link& link : links) {
    remove_entity_of(link.memory, from);
    const std::span<const std::uint32_t> entities = entities_of(link.memory);
    if (std::binary_search(entities.begin(), entities.end(), to)) {
      Link& there = segment_.edit(find_link(nodes_[to], link.memory));
      there = make_link(link.memory, reinforced(std::max(there.strength(), link.strength())),
                        there.about() || link.about());
    } else {
      append_link(to, link);
      add_entity_of(link.memory, to);
    }
  }
}

void EntityDirectory::merge_relations(std::uint32_t from, std::uint32_t to) {
  const auto list = incoming_[from];
  std::vector<Incoming> incoming(list.begin(), list.end());
  std::sort(incoming.begin(), incoming.end(), [](const Incoming& a, const Incoming& b) {
    return std::pair(a.source, a.type) < std::pair(b.source, b.type);
  });
  for (const Incoming& in : incoming) {
    const std::uint32_t place = find_relation(in.source, from, in.type);
    Relation relation = relations_[in.source][place];
    relation.target = to;
    if (in.source == to || unite_relation(in.source, relation)) {
      remove_relation(in.source, place);
    } else {
      remove_incoming(from, in.source, in.type);
      relations_.edit(in.source)[place] = relation;
      incoming_.push_back(to, in);
    }
  }
  const auto from_list = relations_[from];
  const std::vector<Relation> outgoing(from_list.begin(), from_list.end());
  for (std::size_t i = outgoing.size(); i > 0; --i) remove_relation(from, i - 1);
  for (const Relation& relation : outgoing) {
    if (relation.target != to && !unite_relation(to, relation)) place_relation(to, relation);
  }
}

std::vector<EntityDirectory::Pair> EntityDirectory::merge(std::span<const Pair> similar) {
  std::vector<Pair> merged;
  // What others were merged into stays, so that no name is merged by way of another.
  std::vector<bool> stays(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const std::uint32_t into = nodes_[i].merged_into;
    if (into != 0 && into != kApart) stays[into - 1] = true;
  }
  for (const auto& [a, b] : similar) {
    const Node& first = nodes_[a];
    const Node& second = nodes_[b];
    if (first.merged_into != 0 || second.merged_into != 0) continue;
    if (first.type != second.type && first.type != kOther && second.type != kOther) continue;
    if (stays[a] && stays[b]) continue;
    const bool more_links =
        first.adj_count != second.adj_count ? first.adj_count > second.adj_count : a < b;
    const bool first_stays = stays[a] || (!stays[b] && more_links);
    const std::uint32_t from = first_stays ? b : a;
    const std::uint32_t to = first_stays ? a : b;
    merge_links(from, to);
    merge_relations(from, to);
    if (nodes_[to].type == kOther) nodes_.edit(to).type = nodes_[from].type;
    nodes_.edit(from).merged_into = to + 1;
    stays[to] = true;
    merged.emplace_back(from, to);
  }
  return merged;
}

void EntityDirectory::unmerge(std::uint32_t entity) {
  if (resolve(entity) == entity) {
    throw std::invalid_argument("entity " + std::to_string(entity) + " is not merged");
  }
  nodes_.edit(entity).merged_into = kApart;
}

std::vector<EntityDirectory::Pair> similar_entities(const EntityDirectory::View& view) {
  std::vector<std::uint32_t> entities;
  std::vector<std::u32string> names;
  for (std::uint32_t entity = 0; entity < view.size(); ++entity) {
    const std::string_view name = view.folded_name(entity);
    if (view.node(entity).merged_into != 0 || HashedName::is(name)) continue;
    entities.push_back(entity);
    names.push_back(decoded(name));
  }
  std::vector<EntityDirectory::Pair> pairs;
  for (const SimilarNames& similar : similar_names(names)) {
    pairs.emplace_back(entities[similar.a], entities[similar.b]);
  }
  return pairs;
}

}  // namespace spector
