#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/shared.hpp"
#include "bindings/arrays.hpp"
#include "bindings/bound.hpp"
#include "bindings/gil.hpp"
#include "bindings/register.hpp"
#include "bindings/strings.hpp"
#include "graph/entity_directory.hpp"
#include "graph/entity_spread.hpp"
#include "graph/traverse.hpp"

namespace py = pybind11;

namespace spector::bindings {
namespace {

using Directory = Shared<EntityDirectory>;
using View = EntityDirectory::View;
using Ids = Array<std::uint32_t>;

// With the GIL given up.
template <class F>
auto read(const Directory& directory, const F& f) {
  const GilRelease free;
  return directory.read(f);
}
template <class F>
auto write(Directory& directory, const F& f) {
  const GilRelease free;
  return directory.write(f);
}

// f(view of the directory, view of the hypergraph or null).
template <class F>
auto read_both(const Directory& directory, const Shared<HyperGraph>* hyper, const F& f) {
  const GilRelease free;
  return directory.read([&](const View& view) {
    if (hyper == nullptr) return f(view, static_cast<const HyperGraph::View*>(nullptr));
    return hyper->read([&](const HyperGraph::View& edges) { return f(view, &edges); });
  });
}

TypeFilter filter_of(const std::optional<Ids>& types) {
  return types ? TypeFilter(span_of(*types)) : std::nullopt;
}

py::str to_str(std::string_view text) { return {text.data(), text.size()}; }

py::tuple to_arrays(std::span<const EntityDirectory::Link> links) {
  const auto n = static_cast<py::ssize_t>(links.size());
  Ids memories(n);
  Array<float> weights(n);
  Array<bool> about(n);
  for (py::ssize_t i = 0; i < n; ++i) {
    const EntityDirectory::Link& link = links[static_cast<std::size_t>(i)];
    memories.mutable_data()[i] = link.memory;
    weights.mutable_data()[i] = link.strength();
    about.mutable_data()[i] = link.about();
  }
  return py::make_tuple(memories, weights, about);
}

py::tuple to_arrays(std::span<const EntityDirectory::Relation> relations) {
  const auto n = static_cast<py::ssize_t>(relations.size());
  Ids entities(n);
  Ids types(n);
  Array<float> weights(n);
  Array<std::uint16_t> cycles(n);
  Array<std::uint8_t> bridges(n);
  for (py::ssize_t i = 0; i < n; ++i) {
    const EntityDirectory::Relation& relation = relations[static_cast<std::size_t>(i)];
    entities.mutable_data()[i] = relation.target;
    types.mutable_data()[i] = relation.type;
    weights.mutable_data()[i] = relation.weight;
    cycles.mutable_data()[i] = relation.last_cycle;
    bridges.mutable_data()[i] = relation.bridge;
  }
  return py::make_tuple(entities, types, weights, cycles, bridges);
}

py::tuple to_arrays(std::span<const ActivatedMemory> found) {
  const auto n = static_cast<py::ssize_t>(found.size());
  Ids memories(n);
  Array<double> activations(n);
  Ids paths({n, static_cast<py::ssize_t>(found.empty() ? 0 : found[0].path.size())});
  std::uint32_t* path = paths.mutable_data();
  for (py::ssize_t i = 0; i < n; ++i) {
    const ActivatedMemory& one = found[static_cast<std::size_t>(i)];
    memories.mutable_data()[i] = one.memory;
    activations.mutable_data()[i] = one.activation;
    path = std::copy(one.path.begin(), one.path.end(), path);
  }
  return py::make_tuple(memories, activations, paths);
}

std::vector<std::uint32_t> intern_all(EntityDirectory& store, const std::vector<Utf8>& names,
                                      std::span<const std::uint32_t> types) {
  std::vector<std::uint32_t> ids;
  ids.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    try {
      ids.push_back(store.intern(names[i].view(), types[i]));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("name[" + std::to_string(i) + "]: " + error.what());
    }
  }
  return ids;
}

}  // namespace

void register_entity_directory(py::module_& module) {
  bound<Directory>(module, "EntityDirectory")
      .def(py::init([](std::uint32_t max_relations) {
             return std::make_unique<Directory>(max_relations);
           }),
           py::arg("max_relations"))
      .def(
          "intern",
          [](Directory& directory, const py::object& name, std::uint32_t type) {
            const Utf8 text(name, "name", Utf8::kStrict);
            return write(directory,
                         [&](EntityDirectory& store) { return store.intern(text.view(), type); });
          },
          py::arg("name"), py::arg("type"))
      .def(
          "intern_many",
          [](Directory& directory, const py::list& names, const Ids& types) {
            const auto type_span = span_of(types);
            if (type_span.size() != names.size()) {
              throw std::invalid_argument(
                  "type must be one, or one for each name: " + std::to_string(names.size()) +
                  ", not " + std::to_string(type_span.size()));
            }
            std::vector<Utf8> texts;
            texts.reserve(names.size());
            for (const py::handle name : names) texts.emplace_back(name, "name", Utf8::kStrict);
            return to_array(write(directory, [&](EntityDirectory& store) {
              return intern_all(store, texts, type_span);
            }));
          },
          py::arg("names"), py::arg("types").noconvert())
      .def(
          "recognise",
          [](Directory& directory, const py::list& names) {
            std::vector<Utf8> texts;
            texts.reserve(names.size());
            for (const py::handle name : names) texts.emplace_back(name, "name");
            Array<std::int64_t> found(static_cast<py::ssize_t>(texts.size()));
            std::int64_t* to = found.mutable_data();
            write(directory, [&](EntityDirectory& store) {
              for (const Utf8& text : texts) {
                const std::uint32_t entity = store.recognise(text.view());
                *to++ = entity == EntityDirectory::kNone ? -1 : std::int64_t{entity};
              }
            });
            return found;
          },
          py::arg("names"))
      .def(
          "link",
          [](Directory& directory, const Ids& entities, const Ids& memories,
             const Array<bool>& about) {
            const auto entity_span = span_of(entities);
            const auto memory_span = span_of(memories);
            const auto about_span = span_of(about);
            write(directory, [&](EntityDirectory& store) {
              for (std::size_t i = 0; i < entity_span.size(); ++i) {
                store.link(entity_span[i], memory_span[i], about_span[i]);
              }
            });
          },
          py::arg("entities").noconvert(), py::arg("memories").noconvert(),
          py::arg("about").noconvert())
      .def(
          "link_one",
          [](Directory& directory, std::uint32_t entity, std::uint32_t memory, bool about) {
            write(directory, [&](EntityDirectory& store) { store.link(entity, memory, about); });
          },
          py::arg("entity"), py::arg("memory"), py::arg("about"))
      .def(
          "remove_memories",
          [](Directory& directory, const Ids& memories) {
            const auto span = span_of(memories);
            return write(directory,
                         [&](EntityDirectory& store) { return store.remove_memories(span); });
          },
          py::arg("memories").noconvert())
      .def(
          "decay_links",
          [](Directory& directory, float factor, float threshold) {
            return write(directory, [&](EntityDirectory& store) {
              return store.decay_links(factor, threshold);
            });
          },
          py::arg("factor"), py::arg("threshold"))
      .def("compact_links",
           [](Directory& directory) {
             return write(directory, [](EntityDirectory& store) { return store.compact_links(); });
           })
      .def(
          "add_relation",
          [](Directory& directory, std::uint32_t source, std::uint32_t target, std::uint32_t type) {
            return write(directory, [&](EntityDirectory& store) {
              return store.add_relation(source, target, type);
            });
          },
          py::arg("source"), py::arg("target"), py::arg("type"))
      .def(
          "add_relations",
          [](Directory& directory, const Ids& sources, const Ids& targets, const Ids& types) {
            const auto source_span = span_of(sources);
            const auto target_span = span_of(targets);
            const auto type_span = span_of(types);
            return write(directory, [&](EntityDirectory& store) {
              std::size_t n = 0;
              for (std::size_t i = 0; i < source_span.size(); ++i) {
                n += store.add_relation(source_span[i], target_span[i], type_span[i]) ? 1 : 0;
              }
              return n;
            });
          },
          py::arg("sources").noconvert(), py::arg("targets").noconvert(),
          py::arg("types").noconvert())
      .def(
          "relation_states",
          [](const Directory& directory, const Ids& sources, const Ids& targets, const Ids& types) {
            const auto source_span = span_of(sources);
            const auto target_span = span_of(targets);
            const auto type_span = span_of(types);
            std::vector<float> weights(source_span.size());
            std::vector<std::uint16_t> cycles(source_span.size());
            read(directory, [&](const View& view) {
              for (std::size_t i = 0; i < source_span.size(); ++i) {
                const EntityDirectory::State state =
                    view.relation_state(source_span[i], target_span[i], type_span[i]);
                weights[i] = state.weight;
                cycles[i] = state.last_cycle;
              }
            });
            return py::make_tuple(adopt(std::move(weights)), adopt(std::move(cycles)));
          },
          py::arg("sources").noconvert(), py::arg("targets").noconvert(),
          py::arg("types").noconvert())
      .def(
          "restate_relations",
          [](Directory& directory, const Ids& sources, const Ids& targets, const Ids& types,
             const Array<float>& weights, const Array<std::uint16_t>& cycles) {
            const auto source_span = span_of(sources);
            const auto target_span = span_of(targets);
            const auto type_span = span_of(types);
            const auto weight_span = span_of(weights);
            const auto cycle_span = span_of(cycles);
            write(directory, [&](EntityDirectory& store) {
              for (std::size_t i = 0; i < source_span.size(); ++i) {
                store.restate_relation(source_span[i], target_span[i], type_span[i],
                                       {weight_span[i], cycle_span[i]});
              }
            });
          },
          py::arg("sources").noconvert(), py::arg("targets").noconvert(),
          py::arg("types").noconvert(), py::arg("weights").noconvert(),
          py::arg("cycles").noconvert())
      .def(
          "decay_relations",
          [](Directory& directory, float factor, float threshold) {
            return write(directory, [&](EntityDirectory& store) {
              return store.decay_relations(factor, threshold);
            });
          },
          py::arg("factor"), py::arg("threshold"))
      .def("merge_similar",
           [](Directory& directory) {
             // Names never change, so the search needs no turn among writers.
             const auto similar = read(directory, similar_entities);
             const auto merged =
                 write(directory, [&](EntityDirectory& store) { return store.merge(similar); });
             Ids pairs({static_cast<py::ssize_t>(merged.size()), py::ssize_t{2}});
             std::uint32_t* to = pairs.mutable_data();
             for (const auto& [from, survivor] : merged) {
               *to++ = from;
               *to++ = survivor;
             }
             return pairs;
           })
      .def(
          "unmerge",
          [](Directory& directory, std::uint32_t entity) {
            write(directory, [&](EntityDirectory& store) { store.unmerge(entity); });
          },
          py::arg("entity"))
      // Reads that take less than the GIL does keep it.
      .def(
          "find",
          [](const Directory& directory, const py::object& name) -> std::int64_t {
            const Utf8 text(name, "name");
            const std::uint32_t found =
                directory.read([&](const View& view) { return view.find(text.view()); });
            return found == EntityDirectory::kNone ? -1 : std::int64_t{found};
          },
          py::arg("name"))
      .def(
          "resolve",
          [](const Directory& directory, std::uint32_t entity) {
            return directory.read([&](const View& view) { return view.resolve(entity); });
          },
          py::arg("entity"))
      .def(
          "name",
          [](const Directory& directory, std::uint32_t entity) {
            return directory.read([&](const View& view) { return to_str(view.name(entity)); });
          },
          py::arg("entity"))
      .def(
          "name_hash",
          [](const Directory& directory, std::uint32_t entity) {
            return directory.read([&](const View& view) { return view.name_hash(entity); });
          },
          py::arg("entity"))
      .def(
          "type",
          [](const Directory& directory, std::uint32_t entity) {
            return directory.read([&](const View& view) { return view.type(entity); });
          },
          py::arg("entity"))
      .def(
          "ref_count",
          [](const Directory& directory, std::uint32_t entity) {
            return directory.read([&](const View& view) { return view.n_links(entity); });
          },
          py::arg("entity"))
      .def(
          "fan_factor",
          [](const Directory& directory, std::uint32_t entity) {
            return directory.read([&](const View& view) { return view.fan_factor(entity); });
          },
          py::arg("entity"))
      .def(
          "link_strength",
          [](const Directory& directory, std::uint32_t entity, std::int64_t index) {
            return directory.read(
                [&](const View& view) { return view.link_strength(entity, index); });
          },
          py::arg("entity"), py::arg("index"))
      .def(
          "memories",
          [](const Directory& directory, std::uint32_t entity) {
            const auto links =
                read(directory, [&](const View& view) { return view.links(entity); });
            Ids memories(static_cast<py::ssize_t>(links.size()));
            std::uint32_t* to = memories.mutable_data();
            for (const EntityDirectory::Link& link : links) *to++ = link.memory;
            return memories;
          },
          py::arg("entity"))
      .def(
          "links",
          [](const Directory& directory, std::uint32_t entity) {
            return to_arrays(read(directory, [&](const View& view) { return view.links(entity); }));
          },
          py::arg("entity"))
      .def(
          "entities",
          [](const Directory& directory, std::uint32_t memory) {
            return directory.read(
                [&](const View& view) { return to_array(view.entities_of(memory)); });
          },
          py::arg("memory"))
      .def(
          "relations",
          [](const Directory& directory, std::uint32_t entity, bool incoming) {
            return to_arrays(read(directory, [&](const View& view) {
              if (incoming) return view.relations_to(entity);
              const auto relations = view.relations(entity);
              return std::vector(relations.begin(), relations.end());
            }));
          },
          py::arg("entity"), py::arg("incoming"))
      .def(
          "traverse",
          [](const Directory& directory, const Ids& starts, const std::optional<Ids>& types,
             std::uint32_t max_hops, const Shared<HyperGraph>* hyper) {
            const auto start_span = span_of(starts);
            const TypeFilter filter = filter_of(types);
            const Reach reach = read_both(directory, hyper, [&](const View& view, auto* edges) {
              return traverse(view, edges, start_span, filter, max_hops);
            });
            return py::make_tuple(to_array(reach.entities), to_array(reach.hops));
          },
          py::arg("starts").noconvert(), py::arg("types").noconvert(), py::arg("max_hops"),
          py::arg("hyper").none(true))
      .def(
          "collect_memories",
          [](const Directory& directory, const Ids& starts, const std::optional<Ids>& types,
             std::uint32_t max_hops, const Shared<HyperGraph>* hyper) {
            const auto start_span = span_of(starts);
            const TypeFilter filter = filter_of(types);
            return adopt(read_both(directory, hyper, [&](const View& view, auto* edges) {
              return collect_memories(view, edges, start_span, filter, max_hops);
            }));
          },
          py::arg("starts").noconvert(), py::arg("types").noconvert(), py::arg("max_hops"),
          py::arg("hyper").none(true))
      .def(
          "spread",
          [](const Directory& directory, const Ids& starts, const Array<double>& strengths,
             std::uint32_t steps, double share, std::uint32_t most_links, double least,
             std::size_t most, const Shared<HyperGraph>* hyper) {
            const auto start_span = span_of(starts);
            const auto strength_span = span_of(strengths);
            const SpreadLimits limits{steps, share, most_links, least, most};
            const auto found = read_both(directory, hyper, [&](const View& view, auto* edges) {
              return spread_entities(view, edges, start_span, strength_span, limits);
            });
            return to_arrays(std::span(found));
          },
          py::arg("starts").noconvert(), py::arg("strengths").noconvert(), py::arg("steps"),
          py::arg("share"), py::arg("most_links"), py::arg("least"), py::arg("most"),
          py::arg("hyper").none(true))
      .def(
          "spread_each",
          [](const Directory& directory, const Ids& memories, const Array<double>& strengths,
             double few, std::uint32_t most_links, double least, std::size_t most) {
            const auto seeds = span_of(memories);
            const auto strength_span = span_of(strengths);
            for (const double strength : strength_span) {
              if (!(strength >= 0 && strength <= 1)) {
                throw std::invalid_argument("strengths must be in [0, 1]");
              }
            }
            const SpreadLimits limits{0, 0, most_links, least, most};
            const auto found = read(directory, [&](const View& view) {
              return spread_memories(view, seeds, strength_span, few, limits);
            });
            Ids places = new_array<std::uint32_t>(found.size());
            Ids slots = new_array<std::uint32_t>(found.size());
            Ids entities = new_array<std::uint32_t>(found.size());
            Array<double> activations = new_array<double>(found.size());
            std::uint32_t* place = places.mutable_data();
            std::uint32_t* slot = slots.mutable_data();
            std::uint32_t* entity = entities.mutable_data();
            double* activation = activations.mutable_data();
            for (const NamedTogether& one : found) {
              *place++ = one.seed;
              *slot++ = one.memory;
              *entity++ = one.entity;
              *activation++ = one.activation;
            }
            return py::make_tuple(places, slots, activations, entities);
          },
          py::arg("memories").noconvert(), py::arg("strengths").noconvert(), py::arg("few"),
          py::arg("most_links"), py::arg("least"), py::arg("most"))
      .def("memory_usage",
           [](const Directory& directory) {
             const auto memory = read(directory, [](const View& view) { return view.memory(); });
             py::dict usage;
             usage["nodes"] = memory.nodes;
             usage["links"] = memory.links;
             usage["dead"] = memory.dead;
             usage["names"] = memory.names;
             usage["overhead"] = memory.overhead;
             return usage;
           })
      .def("max_relations",
           [](const Directory& directory) {
             return directory.read([](const View& view) { return view.max_relations(); });
           })
      .def("cycle",
           [](const Directory& directory) {
             return directory.read([](const View& view) { return view.cycle(); });
           })
      .def("n_links",
           [](const Directory& directory) {
             return directory.read([](const View& view) { return view.n_links(); });
           })
      .def("n_relations",
           [](const Directory& directory) {
             return directory.read([](const View& view) { return view.n_relations(); });
           })
      .def("size",
           [](const Directory& directory) {
             return directory.read([](const View& view) { return view.size(); });
           })
      .def(
          "save",
          [](const Directory& directory, const std::string& path, bool hashed) {
            const GilRelease free;
            directory.read([&](const View& view) { return view.contents(hashed); }).save(path);
          },
          py::arg("path"), py::arg("hashed"))
      .def(
          "load",
          [](Directory& directory, const std::string& path) {
            write(directory, [&](EntityDirectory& store) { store.load(path); });
          },
          py::arg("path"));
}

}  // namespace spector::bindings
