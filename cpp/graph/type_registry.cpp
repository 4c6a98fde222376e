#include "graph/type_registry.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/envelope.hpp"
#include "base/error.hpp"
#include "lexical/unicode.hpp"

namespace spector {
namespace {

constexpr std::array<std::string_view, 22> kEntityTypes{
    "PERSON",  "ORGANIZATION", "TEAM",     "ROLE",  "PROJECT",  "PRODUCT",
    "TASK",    "CONCEPT",      "TOPIC",    "SKILL", "DECISION", "TECHNOLOGY",
    "TOOL",    "API",          "ARTIFACT", "EVENT", "LOCATION", "DATE_TIME",
    "PROCESS", "METRIC",       "DOCUMENT", "OTHER"};
constexpr std::array<std::string_view, 21> kRelationTypes{
    "MANAGES", "REPORTS_TO", "KNOWS",    "ASSIGNED_TO", "AUTHORED",   "WORKS_ON",   "CREATED_BY",
    "OWNS",    "IMPLEMENTS", "PART_OF",  "CONTAINS",    "DEPENDS_ON", "USES",       "CAUSES",
    "BLOCKS",  "SUPERSEDES", "PRECEDES", "FOLLOWS",     "LOCATED_AT", "RELATED_TO", "OTHER"};
constexpr std::array<std::string_view, 8> kRoles{"UNSPECIFIED", "AGENT",    "OBJECT", "CONTEXT",
                                                 "INSTRUMENT",  "LOCATION", "TIME",   "RECIPIENT"};

std::span<const std::string_view> built_in(TypeRegistry::Kind kind) noexcept {
  switch (kind) {
    case TypeRegistry::Kind::kEntities:
      return kEntityTypes;
    case TypeRegistry::Kind::kRelations:
      return kRelationTypes;
    case TypeRegistry::Kind::kRoles:
      return kRoles;
  }
  return {};
}

enum Section : std::size_t { kKindSection, kEnds, kBytes };
constexpr std::array<std::string_view, 3> kSectionNames{"kind", "names: ends", "names: bytes"};
constexpr FileKind kFile{
    .magic = {'T', 'R', 'E', 'G'},
    .version = 1,
    .shape = 5,
    .stride = 0,
    .sections = kSectionNames,
    .remedy = "restore it from a copy: stored graphs have the numbers that it gives names to",
};

bool is_utf8(std::string_view text) noexcept {
  constexpr std::string_view kSpelled = "\xef\xbf\xbd";  // U+FFFD itself
  const char* const last = text.data() + text.size();
  for (const char* at = text.data(); at < last;) {
    const Decoded decoded = decode_utf8(at, last);
    if (decoded.code == kReplacement && std::string_view(at, decoded.size) != kSpelled) {
      return false;
    }
    at += decoded.size;
  }
  return true;
}

}  // namespace

std::optional<std::uint32_t> TypeRegistry::View::find(std::string_view name) const noexcept {
  const std::uint32_t number = names_->find(name);
  return number < size_ ? std::optional(number) : std::nullopt;  // kNone is above all
}

TypeRegistry::TypeRegistry(EpochDomain& epochs, Kind kind) : kind_(kind), names_(epochs) {
  for (const std::string_view name : built_in(kind)) names_.intern(name);
}

TypeRegistry::View TypeRegistry::view() const noexcept {
  View view;
  view.names_ = &names_;
  view.size_ = static_cast<std::uint32_t>(names_.size());
  view.kind_ = kind_;
  return view;
}

void TypeRegistry::View::save(const std::string& path) const {
  std::vector<std::uint32_t> ends;
  std::string bytes;
  for (std::uint32_t number = 0; number < size_; ++number) {
    bytes.append(name(number));
    if (bytes.size() > UINT32_MAX) throw Capacity("names of more than 4 GiB");
    ends.push_back(static_cast<std::uint32_t>(bytes.size()));
  }
  const std::array<std::span<const std::byte>, kSectionNames.size()> sections{
      std::as_bytes(std::span(&kind_, 1)), std::as_bytes(std::span(ends)),
      std::as_bytes(std::span(bytes))};
  write_file(path, kFile, size_, sections);
}

void TypeRegistry::load(const std::string& path) {
  const StoredFile file(path, kFile, false);
  const auto kind = file.array<std::uint32_t>(kKindSection);
  const auto ends = file.array<std::uint32_t>(kEnds);
  const auto bytes = file.array<char>(kBytes);
  if (kind.values.size() != 1 || kind.values[0] != static_cast<std::uint32_t>(kind_)) {
    file.fail(kKindSection, "it holds other names than these");
  }
  if (ends.values.size() != file.count()) file.fail(kEnds, "not as many as the header says");
  std::vector<std::string_view> names;
  std::uint32_t begin = 0;
  for (const std::uint32_t end : ends.values) {
    if (end <= begin || end > bytes.values.size()) file.fail(kEnds, "a name without bytes");
    names.emplace_back(bytes.values.data() + begin, end - begin);
    if (!is_utf8(names.back())) file.fail(kBytes, "a name is not UTF-8");
    begin = end;
  }
  if (begin != bytes.values.size()) file.fail(kBytes, "bytes after the last name");
  const std::span<const std::string_view> first = built_in(kind_);
  if (names.size() < first.size() || !std::equal(first.begin(), first.end(), names.begin())) {
    file.fail(kBytes, "the names that are always there are not");
  }
  std::vector<std::string_view> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    file.fail(kBytes, "a name twice");
  }
  for (const std::string_view name : names) names_.intern(name);
}

}  // namespace spector
