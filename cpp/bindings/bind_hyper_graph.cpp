#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/shared.hpp"
#include "bindings/arrays.hpp"
#include "bindings/bound.hpp"
#include "bindings/gil.hpp"
#include "bindings/register.hpp"
#include "graph/hyper_graph.hpp"

namespace py = pybind11;

namespace spector::bindings {
namespace {

using Graph = Shared<HyperGraph>;
using View = HyperGraph::View;
using Ids = Array<std::uint32_t>;

// Edges one after the other, as Python has them.
struct Columns {
  std::vector<std::uint32_t> ids;
  std::vector<std::uint32_t> types;
  std::vector<float> weights;
  std::vector<std::int64_t> memories;  // -1: none
  std::vector<std::int64_t> timestamps;
  std::vector<std::int64_t> indptr{0};
  std::vector<std::uint32_t> entities;
  std::vector<std::uint32_t> roles;

  void add(const HyperGraph::Edge& edge) {
    ids.push_back(edge.id);
    types.push_back(edge.type);
    weights.push_back(edge.weight);
    memories.push_back(edge.memory == HyperGraph::kNone ? -1 : std::int64_t{edge.memory});
    timestamps.push_back(edge.timestamp);
    for (const HyperGraph::Vertex& vertex : edge.vertices) {
      entities.push_back(vertex.entity);
      roles.push_back(vertex.role);
    }
    indptr.push_back(static_cast<std::int64_t>(entities.size()));
  }
  [[nodiscard]] py::tuple arrays() const {
    return py::make_tuple(to_array(ids), to_array(types), to_array(weights), to_array(memories),
                          to_array(timestamps), to_array(indptr), to_array(entities),
                          to_array(roles));
  }
};

// Edges without vertices were removed.
void read_edges(const View& view, std::optional<std::span<const std::uint32_t>> ids,
                Columns& columns) {
  if (!ids) {
    for (std::uint32_t place = 0; place < view.n_places(); ++place) {
      const HyperGraph::Edge edge = view.edge(place);
      if (!edge.vertices.empty()) columns.add(edge);
    }
    return;
  }
  for (const std::uint32_t id : *ids) {
    const std::uint32_t place = view.find(id);
    if (place == HyperGraph::kNone) {
      throw std::out_of_range("there is no hyperedge of the id " + std::to_string(id));
    }
    columns.add(view.edge(place));
  }
}

std::vector<std::uint32_t> add_many(HyperGraph& graph, std::span<const std::uint32_t> types,
                                    std::span<const std::int64_t> indptr,
                                    std::span<const std::uint32_t> entities,
                                    std::span<const std::uint32_t> roles,
                                    std::span<const std::uint32_t> memories,
                                    std::span<const std::int64_t> timestamps,
                                    std::span<const float> weights) {
  std::vector<std::uint32_t> ids;
  ids.reserve(types.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto begin = static_cast<std::size_t>(indptr[i]);
    const auto n = static_cast<std::size_t>(indptr[i + 1]) - begin;
    try {
      ids.push_back(graph.add({types[i], entities.subspan(begin, n), roles.subspan(begin, n),
                               memories[i], timestamps[i], weights[i]}));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("hyperedge " + std::to_string(i) + ": " + error.what());
    }
  }
  return ids;
}

void check_many(std::size_t n, std::span<const std::int64_t> indptr, std::size_t n_entities,
                std::size_t n_roles, std::size_t n_memories, std::size_t n_timestamps,
                std::size_t n_weights) {
  if (n_memories != n || n_timestamps != n || n_weights != n || n_roles != n_entities) {
    throw std::invalid_argument(
        "memories, timestamps and weights must be one for each of types, roles one for each of "
        "entities");
  }
  bool fits = indptr.size() == n + 1 && indptr.front() == 0 &&
              indptr.back() == static_cast<std::int64_t>(n_entities);
  for (std::size_t i = 0; fits && i < n; ++i) fits = indptr[i] <= indptr[i + 1];
  if (!fits) {
    throw std::invalid_argument("indptr must rise from 0 to the number of entities, " +
                                std::to_string(n_entities) +
                                ", one for each of types and one more");
  }
}

}  // namespace

void register_hyper_graph(py::module_& module) {
  bound<Graph>(module, "HyperGraph")
      .def(py::init([](std::uint32_t max_per_entity) {
             return std::make_unique<Graph>(max_per_entity);
           }),
           py::arg("max_per_entity"))
      .def(
          "add",
          [](Graph& graph, std::uint32_t type, const Ids& entities, const Ids& roles,
             std::uint32_t memory, std::int64_t timestamp, float weight) {
            const HyperGraph::Event event{type,   span_of(entities), span_of(roles),
                                          memory, timestamp,         weight};
            const GilRelease free;
            return graph.write([&](HyperGraph& store) { return store.add(event); });
          },
          py::arg("type"), py::arg("entities").noconvert(), py::arg("roles").noconvert(),
          py::arg("memory"), py::arg("timestamp"), py::arg("weight"))
      .def(
          "add_event",
          [](Graph& graph, std::uint32_t type, const Ids& entities, const Ids& roles,
             std::uint32_t memory, std::int64_t timestamp, float weight) {
            const HyperGraph::Event event{type,   span_of(entities), span_of(roles),
                                          memory, timestamp,         weight};
            std::vector<std::uint32_t> ids;
            {
              const GilRelease free;
              ids = graph.write([&](HyperGraph& store) { return store.add_event(event); });
            }
            return to_array(ids);
          },
          py::arg("type"), py::arg("entities").noconvert(), py::arg("roles").noconvert(),
          py::arg("memory"), py::arg("timestamp"), py::arg("weight"))
      .def(
          "add_many",
          [](Graph& graph, const Ids& types, const Array<std::int64_t>& indptr, const Ids& entities,
             const Ids& roles, const Ids& memories, const Array<std::int64_t>& timestamps,
             const Array<float>& weights) {
            const auto type_span = span_of(types);
            const auto indptr_span = span_of(indptr);
            const auto entity_span = span_of(entities);
            const auto role_span = span_of(roles);
            const auto memory_span = span_of(memories);
            const auto timestamp_span = span_of(timestamps);
            const auto weight_span = span_of(weights);
            check_many(type_span.size(), indptr_span, entity_span.size(), role_span.size(),
                       memory_span.size(), timestamp_span.size(), weight_span.size());
            std::vector<std::uint32_t> ids;
            {
              const GilRelease free;
              ids = graph.write([&](HyperGraph& store) {
                return add_many(store, type_span, indptr_span, entity_span, role_span, memory_span,
                                timestamp_span, weight_span);
              });
            }
            return to_array(ids);
          },
          py::arg("types").noconvert(), py::arg("indptr").noconvert(),
          py::arg("entities").noconvert(), py::arg("roles").noconvert(),
          py::arg("memories").noconvert(), py::arg("timestamps").noconvert(),
          py::arg("weights").noconvert())
      .def(
          "hyperedges_for",
          [](const Graph& graph, std::uint32_t entity) {
            std::vector<std::uint32_t> ids;
            {
              const GilRelease free;
              ids = graph.read([&](const View& view) { return view.hyperedges_for(entity); });
            }
            return to_array(ids);
          },
          py::arg("entity"))
      .def(
          "common",
          [](const Graph& graph, const Ids& entities) {
            const auto span = span_of(entities);
            std::vector<std::uint32_t> ids;
            {
              const GilRelease free;
              ids = graph.read([&](const View& view) { return view.common(span); });
            }
            return to_array(ids);
          },
          py::arg("entities").noconvert())
      .def(
          "edges",
          [](const Graph& graph, const std::optional<Ids>& ids) {
            std::optional<std::span<const std::uint32_t>> span;
            if (ids) span = span_of(*ids);
            Columns columns;
            {
              const GilRelease free;
              graph.read([&](const View& view) { read_edges(view, span, columns); });
            }
            return columns.arrays();
          },
          py::arg("ids").noconvert())
      .def(
          "touch",
          [](Graph& graph, const Ids& ids, std::int64_t timestamp) {
            const auto span = span_of(ids);
            const GilRelease free;
            return graph.write([&](HyperGraph& store) { return store.touch(span, timestamp); });
          },
          py::arg("ids").noconvert(), py::arg("timestamp"))
      .def(
          "decay",
          [](Graph& graph, float factor, float threshold) {
            const GilRelease free;
            return graph.write([&](HyperGraph& store) { return store.decay(factor, threshold); });
          },
          py::arg("factor"), py::arg("threshold"))
      .def(
          "remove_memories",
          [](Graph& graph, const Ids& memories) {
            const auto span = span_of(memories);
            const GilRelease free;
            return graph.write([&](HyperGraph& store) { return store.remove_memories(span); });
          },
          py::arg("memories").noconvert())
      .def(
          "merge",
          [](Graph& graph, std::uint32_t from, std::uint32_t to) {
            std::vector<HyperGraph::Remnant> remnants;
            {
              const GilRelease free;
              remnants = graph.write([&](HyperGraph& store) { return store.merge(from, to); });
            }
            Columns columns;
            for (const HyperGraph::Remnant& left : remnants) {
              columns.add(
                  {left.id, left.type, left.weight, left.memory, left.timestamp, left.vertices});
            }
            return columns.arrays();
          },
          py::arg("source"), py::arg("target"))
      .def("compact",
           [](Graph& graph) {
             const GilRelease free;
             graph.write([](HyperGraph& store) { store.compact(); });
           })
      .def("atom_counts",
           [](const Graph& graph) {
             return graph.read([](const View& view) {
               return std::pair(view.hyperedge_atoms(), view.pairwise_atoms());
             });
           })
      .def("size",
           [](const Graph& graph) {
             return graph.read([](const View& view) { return view.size(); });
           })
      .def("max_per_entity",
           [](const Graph& graph) {
             return graph.read([](const View& view) { return view.max_per_entity(); });
           })
      .def("memory_usage",
           [](const Graph& graph) {
             const HyperGraph::Memory memory =
                 graph.read([](const View& view) { return view.memory(); });
             py::dict parts;
             parts["nodes"] = memory.nodes;
             parts["vertices"] = memory.vertices;
             parts["incidence"] = memory.incidence;
             parts["overhead"] = memory.overhead;
             parts["indexes"] = memory.indexes;
             return parts;
           })
      .def(
          "save",
          [](const Graph& graph, const std::string& path) {
            const GilRelease free;
            graph.read([&](const View& view) { view.save(path); });
          },
          py::arg("path"))
      .def(
          "load",
          [](Graph& graph, const std::string& path) {
            const GilRelease free;
            graph.write([&](HyperGraph& store) { store.load(path); });
          },
          py::arg("path"));
}

}  // namespace spector::bindings
