#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/shared.hpp"
#include "bindings/arrays.hpp"
#include "bindings/bound.hpp"
#include "bindings/gil.hpp"
#include "bindings/register.hpp"
#include "bindings/strings.hpp"
#include "graph/cross_capture.hpp"
#include "graph/tag_coactivation.hpp"

namespace py = pybind11;

namespace spector::bindings {
namespace {

using Slots = Array<std::uint32_t>;

// The tags of a sequence of str, for the core.
class Tags {
 public:
  explicit Tags(const py::sequence& given) {
    const py::tuple tags(given);  // holds what a sequence may make only when it is asked
    owned_.reserve(py::len(tags));
    for (const py::handle tag : tags) owned_.emplace_back(tag, "a tag", Utf8::kStrict);
    for (const Utf8& tag : owned_) views_.push_back(tag.view());
  }
  [[nodiscard]] std::span<const std::string_view> views() const noexcept { return views_; }

 private:
  std::vector<Utf8> owned_;
  std::vector<std::string_view> views_;
};

template <class Partners>
auto named(const TagCoActivation::View& view, const Partners& partners) {
  using Value = decltype(partners.begin()->value);
  std::vector<std::pair<std::string, Value>> found;
  found.reserve(partners.size());
  for (const auto& partner : partners) {
    found.emplace_back(view.name(partner.tag), partner.value);
  }
  return found;
}
template <class Entries>
auto named_pairs(const TagCoActivation::View& view, const Entries& entries) {
  using Value = decltype(entries.begin()->value);
  std::vector<std::tuple<std::string, std::string, Value>> found;
  found.reserve(entries.size());
  for (const auto& entry : entries) {
    found.emplace_back(view.name(entry.first), view.name(entry.second), entry.value);
  }
  return found;
}

class PyTagCoActivation {
 public:
  explicit PyTagCoActivation(std::size_t capacity) : store_(capacity) {}
  explicit PyTagCoActivation(const std::string& path) : store_(path) {}

  void observe(const py::sequence& tags) {
    const Tags given(tags);
    const GilRelease release;
    store_.write([&](TagCoActivation& store) { store.observe(given.views()); });
  }
  void observe_many(const py::sequence& memories) {
    std::vector<Tags> given;
    given.reserve(py::len(memories));
    for (const py::handle tags : py::tuple(memories))
      given.emplace_back(py::cast<py::sequence>(tags));
    const GilRelease release;
    store_.write([&](TagCoActivation& store) {
      for (const Tags& tags : given) store.observe(tags.views());
    });
  }
  void forget(const py::sequence& tags) {
    const Tags given(tags);
    const GilRelease release;
    store_.write([&](TagCoActivation& store) { store.forget(given.views()); });
  }
  void update(const py::sequence& before, const py::sequence& after) {
    const Tags old(before);
    const Tags given(after);
    const GilRelease release;
    store_.write([&](TagCoActivation& store) { store.update(old.views(), given.views()); });
  }
  bool observe_sequence(const py::sequence& earlier, const py::sequence& later, double dt_ms) {
    const Tags first(earlier);
    const Tags second(later);
    const GilRelease release;
    return store_.write([&](TagCoActivation& store) {
      return store.observe_sequence(first.views(), second.views(), dt_ms);
    });
  }

  [[nodiscard]] std::uint32_t n(std::string_view tag) const {
    return store_.read([&](const auto& view) { return view.n(view.find(tag)); });
  }
  [[nodiscard]] std::uint32_t co_activation(std::string_view a, std::string_view b) const {
    return store_.read(
        [&](const auto& view) { return view.co_activation(view.find(a), view.find(b)); });
  }
  [[nodiscard]] float weight(std::string_view from, std::string_view to) const {
    return store_.read(
        [&](const auto& view) { return view.weight(view.find(from), view.find(to)); });
  }
  [[nodiscard]] std::size_t degree(std::string_view tag) const {
    return store_.read([&](const auto& view) { return view.degree(view.find(tag)); });
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::uint32_t>> associated(
      std::string_view tag, std::size_t limit) const {
    const GilRelease release;
    return store_.read(
        [&](const auto& view) { return named(view, view.associated(view.find(tag), limit)); });
  }
  [[nodiscard]] std::vector<std::pair<std::string, float>> predict(std::string_view tag,
                                                                   std::size_t limit) const {
    const GilRelease release;
    return store_.read(
        [&](const auto& view) { return named(view, view.predict(view.find(tag), limit)); });
  }
  // Tags with their memories, those that are in none left out.
  [[nodiscard]] std::vector<std::pair<std::string, std::uint32_t>> tags() const {
    const GilRelease release;
    return store_.read([&](const auto& view) {
      std::vector<std::pair<std::string, std::uint32_t>> found;
      for (std::uint32_t tag = 0; tag < view.n_tags(); ++tag) {
        if (view.n(tag) > 0) found.emplace_back(view.name(tag), view.n(tag));
      }
      std::sort(found.begin(), found.end());
      return found;
    });
  }
  [[nodiscard]] auto pairs() const {
    const GilRelease release;
    return store_.read([&](const auto& view) { return named_pairs(view, view.pairs()); });
  }
  [[nodiscard]] auto edges() const {
    const GilRelease release;
    return store_.read([&](const auto& view) { return named_pairs(view, view.edges()); });
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> collisions() const {
    return store_.read([&](const auto& view) {
      std::vector<std::pair<std::string, std::string>> found;
      for (const auto& [first, second] : view.collisions()) {
        found.emplace_back(view.name(first), view.name(second));
      }
      return found;
    });
  }
  [[nodiscard]] py::dict stats() const {
    return store_.read([&](const auto& view) {
      py::dict stats;
      stats["pairs"] = view.n_pairs();
      stats["edges"] = view.n_edges();
      stats["capacity"] = view.capacity();
      stats["observations"] = view.n_observations();
      return stats;
    });
  }
  [[nodiscard]] py::dict memory_usage() const {
    return store_.read([&](const auto& view) {
      const TagCoActivation::Memory memory = view.memory();
      py::dict usage;
      usage["tables"] = memory.tables;
      usage["names"] = memory.names;
      return usage;
    });
  }
  void save(const std::string& path) const {
    const GilRelease release;
    store_.read([&](const auto& view) { view.save(path); });
  }

  [[nodiscard]] const Shared<TagCoActivation>& store() const noexcept { return store_; }

 private:
  Shared<TagCoActivation> store_;
};

class PyCrossCapture {
 public:
  void add(std::uint32_t slot, const py::sequence& tags) {
    const Tags given(tags);
    const GilRelease release;
    store_.write([&](CrossCapture& store) { store.add(slot, given.views()); });
  }
  void add_many(const Slots& slots, const py::sequence& tags) {
    const std::span<const std::uint32_t> all = span_of(slots);
    if (all.size() != py::len(tags)) {
      throw std::invalid_argument("tags has " + std::to_string(py::len(tags)) + " entries for " +
                                  std::to_string(all.size()) + " slots");
    }
    std::vector<Tags> given;
    given.reserve(all.size());
    for (const py::handle own : py::tuple(tags)) given.emplace_back(py::cast<py::sequence>(own));
    const GilRelease release;
    store_.write([&](CrossCapture& store) {
      for (std::size_t i = 0; i < all.size(); ++i) store.add(all[i], given[i].views());
    });
  }
  void restore(const py::sequence& names, const Slots& slots, const Array<std::uint64_t>& ends,
               const Slots& tags) {
    const Tags given(names);
    const GilRelease release;
    store_.write([&](CrossCapture& store) {
      store.restore(given.views(), span_of(slots), span_of(ends), span_of(tags));
    });
  }
  void update(std::uint32_t slot, const py::sequence& tags) {
    const Tags given(tags);
    const GilRelease release;
    store_.write([&](CrossCapture& store) { store.update(slot, given.views()); });
  }
  bool remove(std::uint32_t slot) {
    const GilRelease release;
    return store_.write([&](CrossCapture& store) { return store.remove(slot); });
  }

  [[nodiscard]] std::uint32_t n(std::string_view tag) const {
    return store_.read([&](const auto& view) { return view.n(view.find(tag)); });
  }
  // The tags of memories among `most` or fewer of these words in a row, without what is `around`
  // them, each once.
  [[nodiscard]] std::vector<std::string> among(const py::list& words, std::size_t most,
                                               std::string_view around) const {
    std::vector<Utf8> owned;
    owned.reserve(words.size());
    for (const py::handle word : words) owned.emplace_back(word, "a word");
    return store_.read([&](const CrossCapture::View& view) {
      std::vector<std::string> found;
      std::string joined;
      for (std::size_t first = 0; first < owned.size(); ++first) {
        joined.clear();
        for (std::size_t i = first; i < std::min(first + most, owned.size()); ++i) {
          if (i > first) joined += ' ';
          joined += owned[i].view();
          const std::size_t begin = joined.find_first_not_of(around);
          if (begin == std::string::npos) continue;
          const std::size_t end = joined.find_last_not_of(around) + 1;
          const std::string_view tag = std::string_view(joined).substr(begin, end - begin);
          if (view.n(view.find(tag)) > 0 &&
              std::find(found.begin(), found.end(), tag) == found.end()) {
            found.emplace_back(tag);
          }
        }
      }
      return found;
    });
  }
  [[nodiscard]] Slots slots(std::string_view tag) const {
    std::vector<std::uint32_t> found;
    {
      const GilRelease release;
      found = store_.read([&](const auto& view) { return view.slots(view.find(tag)); });
      std::reverse(found.begin(), found.end());
    }
    return to_array(found);
  }
  [[nodiscard]] std::vector<std::string> tags(std::uint32_t slot) const {
    return store_.read([&](const auto& view) {
      std::vector<std::string> found;
      for (const std::uint32_t tag : view.tags(slot)) found.emplace_back(view.name(tag));
      return found;
    });
  }
  // All tags with their memories.
  [[nodiscard]] std::vector<std::pair<std::string, std::uint32_t>> all_tags() const {
    const GilRelease release;
    return store_.read([&](const auto& view) {
      std::vector<std::pair<std::string, std::uint32_t>> found;
      for (std::uint32_t tag = 0; tag < view.n_tags(); ++tag) {
        if (view.n(tag) > 0) found.emplace_back(view.name(tag), view.n(tag));
      }
      std::sort(found.begin(), found.end());
      return found;
    });
  }
  // All memories with their tags: names by name, slots ascending, and for slot i the places in
  // names of its tags, which end at ends[i].
  [[nodiscard]] auto table() const {
    std::vector<std::pair<std::string, std::uint32_t>> named;
    std::vector<std::string> names;
    std::vector<std::uint32_t> slots;
    std::vector<std::uint64_t> ends;
    std::vector<std::uint32_t> tags;
    {
      const GilRelease release;
      store_.read([&](const auto& view) {
        for (std::uint32_t tag = 0; tag < view.n_tags(); ++tag) {
          if (view.n(tag) == 0) continue;
          named.emplace_back(view.name(tag), tag);
          const std::vector<std::uint32_t> of_tag = view.slots(tag);
          slots.insert(slots.end(), of_tag.begin(), of_tag.end());
        }
        std::sort(named.begin(), named.end());
        std::sort(slots.begin(), slots.end());
        slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
        std::vector<std::uint32_t> place(view.n_tags());
        for (std::uint32_t i = 0; i < named.size(); ++i) {
          place[named[i].second] = i;
          names.push_back(std::move(named[i].first));
        }
        ends.reserve(slots.size());
        tags.reserve(view.n_entries());
        for (const std::uint32_t slot : slots) {
          for (const std::uint32_t tag : view.tags(slot)) tags.push_back(place[tag]);
          ends.push_back(tags.size());
        }
      });
    }
    return std::tuple(std::move(names), to_array(slots), to_array(ends), to_array(tags));
  }
  [[nodiscard]] Slots match(const py::sequence& tags, bool all) const {
    const Tags given(tags);
    std::vector<std::uint32_t> found;
    {
      const GilRelease release;
      found = store_.read([&](const auto& view) {
        return all ? view.match_all(given.views()) : view.match_any(given.views());
      });
    }
    return to_array(found);
  }
  [[nodiscard]] auto expand(const py::sequence& query_tags, float best_score,
                            const PyTagCoActivation& coactivation, float attenuation,
                            std::size_t max_tag_neighbors, std::size_t max_memories_per_tag,
                            const std::optional<Slots>& allow, bool with_pairs) const {
    const Tags given(query_tags);
    std::optional<std::span<const std::uint32_t>> allowed;
    if (allow) allowed = span_of(*allow);
    CrossCapture::Expansion found;
    std::vector<std::pair<std::string, std::string>> pairs;
    {
      const GilRelease release;
      std::vector<std::uint32_t> ascending;
      if (allowed && !std::is_sorted(allowed->begin(), allowed->end())) {
        ascending.assign(allowed->begin(), allowed->end());
        std::sort(ascending.begin(), ascending.end());
        allowed = ascending;
      }
      coactivation.store().read([&](const TagCoActivation::View& tags) {
        found = store_.read([&](const CrossCapture::View& view) {
          return view.expand(given.views(), best_score, tags,
                             {attenuation, max_tag_neighbors, max_memories_per_tag}, allowed);
        });
        for (std::size_t i = 0; with_pairs && i < found.slots.size(); ++i) {
          pairs.emplace_back(tags.name(found.from[i]), tags.name(found.to[i]));
        }
      });
    }
    return std::tuple(to_array(found.slots), to_array(found.scores), std::move(pairs));
  }
  [[nodiscard]] py::dict stats() const {
    return store_.read([&](const auto& view) {
      py::dict stats;
      stats["memories"] = view.n_memories();
      stats["entries"] = view.n_entries();
      return stats;
    });
  }
  [[nodiscard]] py::dict memory_usage() const {
    return store_.read([&](const auto& view) {
      const CrossCapture::Memory memory = view.memory();
      py::dict usage;
      usage["slots"] = memory.slots;
      usage["tags"] = memory.tags;
      usage["names"] = memory.names;
      return usage;
    });
  }

 private:
  Shared<CrossCapture> store_;
};

}  // namespace

void register_tags(py::module_& module) {
  bound<PyTagCoActivation>(module, "TagCoActivation")
      .def(py::init<std::size_t>(), py::arg("capacity"))
      .def_static(
          "load",
          [](const py::bytes& path) {
            const auto name = path.cast<std::string>();
            const GilRelease release;
            return std::make_unique<PyTagCoActivation>(name);
          },
          py::arg("path"))
      .def("observe", &PyTagCoActivation::observe, py::arg("tags"))
      .def("observe_many", &PyTagCoActivation::observe_many, py::arg("memories"))
      .def("forget", &PyTagCoActivation::forget, py::arg("tags"))
      .def("update", &PyTagCoActivation::update, py::arg("before"), py::arg("after"))
      .def("observe_sequence", &PyTagCoActivation::observe_sequence, py::arg("earlier"),
           py::arg("later"), py::arg("dt_ms"))
      .def("n", &PyTagCoActivation::n, py::arg("tag"))
      .def("co_activation", &PyTagCoActivation::co_activation, py::arg("a"), py::arg("b"))
      .def("weight", &PyTagCoActivation::weight, py::arg("a"), py::arg("b"))
      .def("degree", &PyTagCoActivation::degree, py::arg("tag"))
      .def("associated", &PyTagCoActivation::associated, py::arg("tag"), py::arg("n"))
      .def("predict", &PyTagCoActivation::predict, py::arg("tag"), py::arg("n"))
      .def("tags", &PyTagCoActivation::tags)
      .def("pairs", &PyTagCoActivation::pairs)
      .def("edges", &PyTagCoActivation::edges)
      .def("collisions", &PyTagCoActivation::collisions)
      .def("stats", &PyTagCoActivation::stats)
      .def("memory_usage", &PyTagCoActivation::memory_usage)
      .def(
          "save",
          [](const PyTagCoActivation& self, const py::bytes& path) {
            self.save(path.cast<std::string>());
          },
          py::arg("path"));

  bound<PyCrossCapture>(module, "CrossCapture")
      .def(py::init<>())
      .def("add", &PyCrossCapture::add, py::arg("slot"), py::arg("tags"))
      .def("add_many", &PyCrossCapture::add_many, py::arg("slots").noconvert(), py::arg("tags"))
      .def("update", &PyCrossCapture::update, py::arg("slot"), py::arg("tags"))
      .def("remove", &PyCrossCapture::remove, py::arg("slot"))
      .def("n", &PyCrossCapture::n, py::arg("tag"))
      .def("among", &PyCrossCapture::among, py::arg("words"), py::arg("most"), py::arg("around"))
      .def("slots", &PyCrossCapture::slots, py::arg("tag"))
      .def("tags", &PyCrossCapture::tags, py::arg("slot"))
      .def("all_tags", &PyCrossCapture::all_tags)
      .def("table", &PyCrossCapture::table)
      .def("restore", &PyCrossCapture::restore, py::arg("names"), py::arg("slots").noconvert(),
           py::arg("ends").noconvert(), py::arg("tags").noconvert())
      .def("match", &PyCrossCapture::match, py::arg("tags"), py::arg("all"))
      .def("expand", &PyCrossCapture::expand, py::arg("query_tags"), py::arg("best_score"),
           py::arg("coactivation"), py::arg("attenuation"), py::arg("max_tag_neighbors"),
           py::arg("max_memories_per_tag"), py::arg("allow").noconvert(), py::arg("with_pairs"))
      .def("stats", &PyCrossCapture::stats)
      .def("memory_usage", &PyCrossCapture::memory_usage);
}

}  // namespace spector::bindings
