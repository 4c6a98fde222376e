// entity-directory.graph: a directory in one stored file (cpp/FORMATS.md has the bytes).
#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/envelope.hpp"
#include "base/hash.hpp"
#include "graph/entity_directory.hpp"
#include "graph/folded_name.hpp"
#include "graph/hashed_name.hpp"

namespace spector {
namespace {

enum Section : std::size_t {
  kSettings,
  kNodes,
  kLinks,
  kRelations,
  kNameEnds,
  kNames,
  kSpellingEnds,
  kSpellings,
};

constexpr std::array<std::string_view, 8> kSectionNames{
    "settings",    "entities",     "links",           "relations",
    "names: ends", "names: bytes", "spellings: ends", "spellings: bytes",
};

constexpr FileKind kKind{
    .magic = {'E', 'D', 'I', 'R'},
    .version = 2,
    .shape = 2,
    .stride = sizeof(EntityDirectory::Node),
    .sections = kSectionNames,
    .remedy = "save the directory again, or build it again from what it was built from",
};

struct Settings {
  std::uint32_t cycle;
  std::uint32_t max_relations;
};
static_assert(sizeof(Settings) == 8);

using Node = EntityDirectory::Node;
using Link = EntityDirectory::Link;
using Relation = EntityDirectory::Relation;

bool is_weight(float weight) noexcept {
  return weight > 0 && weight <= EntityDirectory::kMaxWeight;  // NaN is not
}

// A file's sections, checked but for the names.
class EntityFile {
 public:
  explicit EntityFile(const std::string& path)
      : file_(path, kKind, false),
        nodes_(file_.array<Node>(kNodes)),
        links_(file_.array<Link>(kLinks)),
        relations_(file_.array<Relation>(kRelations)) {
    const SharedSpan<Settings> settings = file_.array<Settings>(kSettings);
    if (settings.values.size() != 1) file_.fail(kSettings, "there must be one");
    settings_ = settings.values[0];
    if (settings_.max_relations < 1 || settings_.max_relations > EntityDirectory::kMostRelations) {
      file_.fail(kSettings, "the most relations of an entity are not in [1, 256]");
    }
    if (nodes().size() != file_.count() || nodes().size() >= EntityDirectory::kNone) {
      file_.fail(kNodes, "not as many as the header says");
    }
    check_nodes();
    check_blocks();
    check_merges();
    check_links();
    check_relations();
  }

  [[nodiscard]] Settings settings() const noexcept { return settings_; }
  [[nodiscard]] std::span<const Node> nodes() const noexcept { return nodes_.values; }
  [[nodiscard]] std::span<const Link> links() const noexcept { return links_.values; }
  [[nodiscard]] std::span<const Link> links(const Node& node) const noexcept {
    if (node.adj_count == 0) return {};
    return links().subspan(static_cast<std::size_t>(node.adj_offset), node.adj_count);
  }
  [[nodiscard]] std::span<const Relation> relations(const Node& node) const noexcept {
    return relations_.values.subspan(node.edge_start, node.degree);
  }

  // f(string) for each of the strings, which are as many as entities.
  template <class F>
  void for_each_string(std::size_t ends_section, const F& f) const {
    const auto ends = file_.array<std::uint32_t>(ends_section);
    const auto chars = file_.array<char>(ends_section + 1);
    if (ends.values.size() != nodes().size()) {
      file_.fail(ends_section, "not one for each entity");
    }
    std::size_t begin = 0;
    for (const std::uint32_t end : ends.values) {
      if (end < begin || end > chars.values.size()) {
        file_.fail(ends_section, "a string ends before it begins or beyond the last byte");
      }
      f(std::string_view(chars.values.data() + begin, end - begin));
      begin = end;
    }
    if (begin != chars.values.size()) file_.fail(ends_section, "the last is not the last byte");
  }

  [[noreturn]] void fail(std::size_t section, const char* what) const { file_.fail(section, what); }

 private:
  void check_nodes() const {
    std::size_t n_relations = 0;
    for (const Node& node : nodes()) {
      if (node.pad_4 != 0 || node.pad_32 != 0 ||
          std::any_of(std::begin(node.pad_44), std::end(node.pad_44),
                      [](std::uint32_t pad) { return pad != 0; })) {
        file_.fail(kNodes, "unused bytes are not 0");
      }
      if (node.degree > settings_.max_relations || node.edge_start != n_relations) {
        file_.fail(kNodes, "relations are not one entity's after the other's");
      }
      n_relations += node.degree;
      if (node.adj_count > node.adj_capacity || node.adj_offset < -1 ||
          (node.adj_offset == -1) != (node.adj_capacity == 0)) {
        file_.fail(kNodes, "a block of links is not possible");
      }
      if (node.adj_capacity > 0 &&
          std::size_t{node.adj_capacity} + static_cast<std::size_t>(node.adj_offset) >
              links().size()) {
        file_.fail(kNodes, "a block of links is beyond the segment");
      }
    }
    if (n_relations != relations_.values.size()) {
      file_.fail(kRelations, "not as many as the entities have");
    }
  }

  void check_blocks() const {
    std::vector<std::pair<std::int32_t, std::uint32_t>> blocks;
    for (const Node& node : nodes()) {
      if (node.adj_capacity > 0) blocks.emplace_back(node.adj_offset, node.adj_capacity);
    }
    std::sort(blocks.begin(), blocks.end());
    std::uint64_t end = 0;
    for (const auto& [offset, capacity] : blocks) {
      const auto begin = static_cast<std::uint64_t>(offset);
      if (begin < end) file_.fail(kNodes, "two blocks of links overlap");
      end = begin + capacity;
    }
  }

  void check_merges() const {
    // Each way from one entity to the next ends at one that is not merged.
    std::vector<std::uint8_t> state(nodes().size());  // 1: on the present way, 2: it ends
    std::vector<std::uint32_t> way;
    for (std::uint32_t i = 0; i < nodes().size(); ++i) {
      for (std::uint32_t at = i; state[at] != 2;) {
        if (state[at] == 1) file_.fail(kNodes, "an entity is merged into itself");
        state[at] = 1;
        way.push_back(at);
        const Node& node = nodes()[at];
        if (node.merged_into == 0 || node.merged_into == EntityDirectory::kApart) break;
        if (node.merged_into > nodes().size()) {
          file_.fail(kNodes, "an entity is merged into one that is not there");
        }
        if (node.adj_count != 0 || node.degree != 0) {
          file_.fail(kNodes, "a merged entity has links or relations of its own");
        }
        at = node.merged_into - 1;
      }
      for (const std::uint32_t at : way) state[at] = 2;
      way.clear();
    }
  }

  void check_links() const {
    for (const Node& node : nodes()) {
      for (const Link& link : links(node)) {
        if (link.memory == EntityDirectory::kNone || !is_weight(link.strength())) {
          file_.fail(kLinks, "a memory or weight is not possible");
        }
      }
    }
  }

  void check_relations() const {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> seen;
    for (std::uint32_t source = 0; source < nodes().size(); ++source) {
      seen.clear();
      for (const Relation& relation : relations(nodes()[source])) {
        if (relation.target >= nodes().size() || relation.target == source) {
          file_.fail(kRelations, "one leads to its own source or to nothing");
        }
        const std::uint32_t into = nodes()[relation.target].merged_into;
        if (into != 0 && into != EntityDirectory::kApart) {
          file_.fail(kRelations, "one leads to an entity that is merged");
        }
        if (!is_weight(relation.weight)) file_.fail(kRelations, "a weight is not possible");
        seen.emplace_back(relation.target, relation.type);
      }
      std::sort(seen.begin(), seen.end());
      if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) {
        file_.fail(kRelations, "one is there twice");
      }
    }
  }

  StoredFile file_;
  SharedSpan<Node> nodes_;
  SharedSpan<Link> links_;
  SharedSpan<Relation> relations_;
  Settings settings_{};
};

struct LinkOfMemory {
  std::uint32_t memory;
  std::uint32_t entity;
};

// Sorts by memory, without changing the order of entities: digit by digit, the lowest first.
void sort_by_memory(std::vector<LinkOfMemory>& links, std::uint32_t last_memory) {
  constexpr unsigned kBits = 11;
  constexpr std::uint32_t kDigit = (1U << kBits) - 1;
  std::vector<LinkOfMemory> sorted(links.size());
  for (unsigned shift = 0; shift < 32 && last_memory >> shift != 0; shift += kBits) {
    std::array<std::size_t, kDigit + 1> begin{};
    for (const LinkOfMemory& link : links) ++begin[link.memory >> shift & kDigit];
    std::exclusive_scan(begin.begin(), begin.end(), begin.begin(), std::size_t{0});
    for (const LinkOfMemory& link : links) sorted[begin[link.memory >> shift & kDigit]++] = link;
    links.swap(sorted);
  }
}

}  // namespace

void EntityDirectory::View::Contents::save(const std::string& path) const {
  const Settings settings{cycle, max_relations};
  const std::array<std::span<const std::byte>, kSectionNames.size()> sections{
      std::as_bytes(std::span(&settings, 1)),  std::as_bytes(std::span(nodes)),
      std::as_bytes(std::span(links)),         std::as_bytes(std::span(relations)),
      std::as_bytes(std::span(name_ends)),     std::as_bytes(std::span(names)),
      std::as_bytes(std::span(spelling_ends)), std::as_bytes(std::span(spellings)),
  };
  write_file(path, kKind, nodes.size(), sections);
}

void EntityDirectory::load(const std::string& path) {
  const EntityFile file(path);
  entity_of_name_.clear();
  name_of_.clear();
  entities_of_.clear();
  relations_.clear();
  incoming_.clear();
  now_ = {};
  now_.cycle = file.settings().cycle;
  now_.max_relations = file.settings().max_relations;
  nodes_.assign(file.nodes());
  segment_.assign(file.links());

  std::uint32_t entity = 0;
  file.for_each_string(kNameEnds, [&](std::string_view name) {
    if (HashedName::is(name)) {
      if (HashedName(nodes_[entity].name_hash).view() != name) {
        file.fail(kNodes, "the hash of a name is not that in its place");
      }
      ++now_.unnamed;
    } else if (name.empty() || FoldedName(name).view() != name) {
      file.fail(kNames, "one is not folded");
    } else if (hash64(name) != nodes_[entity].name_hash) {
      file.fail(kNodes, "the hash of a name is wrong");
    }
    const std::uint32_t number = names_.intern(name);
    entity_of_name_.resize(names_.size());
    if (entity_of_name_[number] != 0) file.fail(kNames, "one is there twice");
    entity_of_name_.edit(number) = ++entity;
    name_of_.push_back({number, kNone});
  });
  entity = 0;
  file.for_each_string(kSpellingEnds, [&](std::string_view spelling) {
    NameNumbers& numbers = name_of_.edit(entity++);
    if (spelling.empty()) return;
    const std::string_view name = names_[numbers.folded];
    if (spelling == name || FoldedName(spelling).view() != name) {
      file.fail(kSpellings, "one is of another name");
    }
    numbers.spelling = spellings_.intern(spelling);
  });

  relations_.resize(nodes_.size());
  incoming_.resize(nodes_.size());
  std::uint32_t last_memory = 0;
  for (const Node& node : file.nodes()) {
    for (const Link& link : file.links(node)) last_memory = std::max(last_memory, link.memory);
  }
  if (!file.links().empty()) {
    // In the order of the lists first, so that each is made once, at its size.
    std::vector<LinkOfMemory> links;
    links.reserve(file.links().size());
    entity = 0;
    for (const Node& node : file.nodes()) {
      for (const Link& link : file.links(node)) links.push_back({link.memory, entity});
      ++entity;
    }
    sort_by_memory(links, last_memory);
    entities_of_.resize(std::size_t{last_memory} + 1);
    std::vector<std::uint32_t> list;
    for (std::size_t i = 0; i < links.size(); ++i) {
      const auto [memory, one] = links[i];
      if (!list.empty() && list.back() == one) file.fail(kLinks, "one is there twice");
      list.push_back(one);
      if (i + 1 < links.size() && links[i + 1].memory == memory) continue;
      entities_of_.assign(memory, list);
      list.clear();
    }
  }
  entity = 0;
  for (const Node& node : file.nodes()) {
    now_.links += node.adj_count;
    const std::span<const Relation> relations = file.relations(node);
    relations_.assign(entity, relations);
    for (const Relation& relation : relations) {
      incoming_.push_back(relation.target, {entity, relation.type});
    }
    now_.relations += relations.size();
    if (node.edge_start != 0) nodes_.edit(entity).edge_start = 0;
    ++entity;
  }
}

}  // namespace spector
