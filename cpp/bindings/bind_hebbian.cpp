#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/shared.hpp"
#include "bindings/arguments.hpp"
#include "bindings/arrays.hpp"
#include "bindings/bound.hpp"
#include "bindings/gil.hpp"
#include "bindings/register.hpp"
#include "graph/hebbian.hpp"

namespace py = pybind11;

namespace spector::bindings {
namespace {

using Graph = Shared<HebbianGraph>;
using View = HebbianGraph::View;
using Slots = Array<std::uint32_t>;
using Floats = Array<float>;
using EdgeTuple = std::tuple<float, std::uint16_t, std::uint8_t, std::uint8_t>;
using SignalsTuple = std::tuple<float, float, std::uint8_t, std::int8_t, bool>;

Array<bool> to_bools(const std::vector<std::uint8_t>& values) {
  Array<bool> array(static_cast<py::ssize_t>(values.size()));
  std::copy(values.begin(), values.end(), array.mutable_data());
  return array;
}

bool strengthen(Graph& graph, std::uint32_t a, std::uint32_t b, float delta, bool hinted) {
  const GilRelease release;
  return graph.write([&](HebbianGraph& store) {
    return store.strengthen(std::span(&a, 1), std::span(&b, 1), std::span(&delta, 1), hinted)[0] !=
           0;
  });
}

Array<bool> strengthen_many(Graph& graph, const Slots& a, const Slots& b, const Floats& delta,
                            bool hinted) {
  const auto from = span_of(a);
  const auto to = span_of(b);
  const auto deltas = span_of(delta);
  const auto done = [&] {
    const GilRelease release;
    return graph.write(
        [&](HebbianGraph& store) { return store.strengthen(from, to, deltas, hinted); });
  }();
  return to_bools(done);
}

py::tuple neighbors(const Graph& graph, py::handle of) {
  const std::uint32_t at = slot("slot", of);
  const auto edges = graph.read([&](const View& view) { return view.neighbours(at); });
  auto slots = new_array<std::uint32_t>(edges.size());
  auto weights = new_array<float>(edges.size());
  for (std::size_t i = 0; i < edges.size(); ++i) {
    slots.mutable_data()[i] = edges[i].neighbour;
    weights.mutable_data()[i] = edges[i].weight;
  }
  return py::make_tuple(std::move(slots), std::move(weights));
}

std::optional<EdgeTuple> edge(const Graph& graph, py::handle a, py::handle b) {
  const std::uint32_t from = slot("a", a);
  const std::uint32_t to = slot("b", b);
  const auto found = graph.read([&](const View& view) { return view.edge(from, to); });
  if (!found) return std::nullopt;
  return EdgeTuple{found->weight, found->last_cycle, found->bridge_score, found->flags};
}

// Each edge once, a < b, in order.
py::tuple edges(const Graph& graph) {
  std::vector<std::uint32_t> a;
  std::vector<std::uint32_t> b;
  std::vector<float> weights;
  std::vector<std::uint16_t> cycles;
  std::vector<std::uint8_t> bridges;
  std::vector<std::uint8_t> flags;
  {
    const GilRelease release;
    graph.read([&](const View& view) {
      for (std::uint32_t slot = 0; slot < view.slots(); ++slot) {
        const HebbianRow row = view.row(slot);
        for (std::size_t i = 0; i < row.size(); ++i) {
          if (!(row.weight(i) > 0) || row.neighbour(i) < slot) continue;
          const HebbianEdge found = to_edge(row.entry(i));
          a.push_back(slot);
          b.push_back(found.neighbour);
          weights.push_back(found.weight);
          cycles.push_back(found.last_cycle);
          bridges.push_back(found.bridge_score);
          flags.push_back(found.flags);
        }
      }
    });
  }
  return py::make_tuple(to_array(a), to_array(b), to_array(weights), to_array(cycles),
                        to_array(bridges), to_array(flags));
}

constexpr std::int64_t kMaxDepth = 16;
constexpr double kLeastStrength = 1e-6;

// What both ways of spreading are given.
struct Spreading {
  std::vector<std::uint32_t> seeds;
  std::size_t depth;
  float min_strength;

  Spreading(py::handle from, py::handle hops, py::handle least)
      : seeds(slots("seeds", from)),
        depth(static_cast<std::size_t>(whole("depth", hops, 1, kMaxDepth))),
        min_strength(static_cast<float>(real("min_strength", least, kLeastStrength, 1))) {}
};

// `spread` from each seed by itself: where each one's ends, and all of them.
py::tuple spread_each(const Graph& graph, py::handle seeds, py::handle depth,
                      py::handle min_strength, py::handle most) {
  const Spreading given(seeds, depth, min_strength);
  const auto limit = static_cast<std::size_t>(whole("limit", most, 1, kMaxSlot));
  std::vector<std::uint64_t> ends;
  std::vector<std::uint32_t> slots;
  std::vector<float> strengths;
  {
    const GilRelease release;
    graph.read([&](const View& view) {
      for (const std::uint32_t seed : given.seeds) {
        const Activations found = view.spread({&seed, 1}, given.depth, given.min_strength, limit);
        slots.insert(slots.end(), found.slots.begin(), found.slots.end());
        strengths.insert(strengths.end(), found.strengths.begin(), found.strengths.end());
        ends.push_back(slots.size());
      }
    });
  }
  return py::make_tuple(to_array(ends), to_array(slots), to_array(strengths));
}

py::tuple spread(const Graph& graph, py::handle seeds, py::handle depth, py::handle min_strength,
                 py::handle most) {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  const std::int64_t limit = most.is_none() ? kAll : whole("limit", most, 1, kAll);
  const Spreading given(seeds, depth, min_strength);
  Activations found = [&] {
    const GilRelease release;
    return graph.read([&](const View& view) {
      return view.spread(given.seeds, given.depth, given.min_strength,
                         static_cast<std::size_t>(limit));
    });
  }();
  return py::make_tuple(to_array(std::move(found.slots)), to_array(std::move(found.strengths)));
}

std::tuple<std::uint64_t, std::size_t, std::size_t, std::size_t> decay(Graph& graph, float factor,
                                                                       bool by_arousal) {
  const GilRelease release;
  const auto report =
      graph.write([&](HebbianGraph& store) { return store.decay(factor, by_arousal); });
  return {report.cycle, report.edges, report.removed, report.floored};
}

// The pass reads one state while writers go on; what it finds is applied in a short write.
std::size_t recompute_bridges(Graph& graph) {
  const GilRelease release;
  return graph.read([&](const View& view) {
    const HebbianGraph::BridgeScores scores = view.bridge_scores();
    return graph.write([&](HebbianGraph& store) { return store.apply(scores); });
  });
}

void set_signals(Graph& graph, const Slots& slots, const Floats& importance, const Floats& storage,
                 const Array<std::uint8_t>& arousal, const Array<std::int8_t>& valence,
                 const Array<bool>& open) {
  const auto at = span_of(slots);
  const std::array<std::size_t, 5> sizes{span_of(importance).size(), span_of(storage).size(),
                                         span_of(arousal).size(), span_of(valence).size(),
                                         span_of(open).size()};
  for (const std::size_t size : sizes) {
    if (size != at.size()) throw std::invalid_argument("the signals must be as many as the slots");
  }
  std::vector<MemorySignals> signals(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    signals[i] = {.importance = span_of(importance)[i],
                  .storage_strength = span_of(storage)[i],
                  .arousal = span_of(arousal)[i],
                  .valence = span_of(valence)[i],
                  .open = static_cast<std::uint8_t>(span_of(open)[i] ? 1 : 0),
                  .known = 1};
  }
  const GilRelease release;
  graph.write([&](HebbianGraph& store) { store.set_signals(at, signals); });
}

MemorySignals to_signals(const std::optional<SignalsTuple>& given) {
  if (!given) return {};
  const auto& [importance, storage, arousal, valence, open] = *given;
  return {importance, storage, arousal, valence, static_cast<std::uint8_t>(open ? 1 : 0), 1};
}

}  // namespace

void register_hebbian(py::module_& module) {
  module.def(
      "edge_importance",
      [](float weight, std::uint32_t age, std::uint32_t bridge_score, std::uint32_t shared,
         const std::optional<SignalsTuple>& a, const std::optional<SignalsTuple>& b) {
        return edge_importance({weight, age, bridge_score, shared}, to_signals(a), to_signals(b));
      },
      py::arg("weight"), py::arg("age"), py::arg("bridge_score"), py::arg("shared"), py::arg("a"),
      py::arg("b"));

  bound<Graph>(module, "HebbianGraph")
      .def(py::init<std::uint32_t>(), py::arg("max_degree"))
      .def_static(
          "load",
          [](const py::bytes& path) {
            const std::string name = path;
            const GilRelease release;
            return std::make_unique<Graph>(load_hebbian(name));
          },
          py::arg("path"))
      .def(
          "resize",
          [](Graph& graph, std::size_t n) {
            const GilRelease release;
            graph.write([&](HebbianGraph& store) { store.resize(n); });
          },
          py::arg("n"))
      .def("strengthen", &strengthen, py::arg("a"), py::arg("b"), py::arg("delta"),
           py::arg("hinted"))
      .def("strengthen_many", &strengthen_many, py::arg("a").noconvert(), py::arg("b").noconvert(),
           py::arg("delta").noconvert(), py::arg("hinted"))
      .def("neighbors", &neighbors, py::arg("slot"))
      .def("edge", &edge, py::arg("a"), py::arg("b"))
      .def("edges", &edges)
      .def("spread", &spread, py::arg("seeds"), py::arg("depth"), py::arg("min_strength"),
           py::arg("limit"))
      .def("spread_each", &spread_each, py::arg("seeds"), py::arg("depth"), py::arg("min_strength"),
           py::arg("limit"))
      .def("decay", &decay, py::arg("factor"), py::arg("by_arousal"))
      .def(
          "remove",
          [](Graph& graph, const Slots& slots) {
            const auto gone = span_of(slots);
            const GilRelease release;
            return graph.write([&](HebbianGraph& store) { return store.remove(gone); });
          },
          py::arg("slots").noconvert())
      .def("recompute_bridges", &recompute_bridges)
      .def("set_signals", &set_signals, py::arg("slots").noconvert(),
           py::arg("importance").noconvert(), py::arg("storage_strength").noconvert(),
           py::arg("arousal").noconvert(), py::arg("valence").noconvert(),
           py::arg("open").noconvert())
      .def("compact",
           [](Graph& graph) {
             const GilRelease release;
             graph.write([](HebbianGraph& store) { store.compact(); });
           })
      .def(
          "save",
          [](const Graph& graph, const py::bytes& path) {
            const std::string name = path;
            const GilRelease release;
            graph.read([&](const View& view) { save_hebbian(name, view); });
          },
          py::arg("path"))
      .def("fault",
           [](const Graph& graph) {
             const GilRelease release;
             return graph.read([](const View& view) { return view.fault(); });
           })
      .def("memory_usage",
           [](Graph& graph) {
             const GilRelease release;
             return graph.write([](HebbianGraph& store) { return store.memory_bytes(); });
           })
      .def_property_readonly(
          "max_degree",
          [](const Graph& graph) {
            return graph.read([](const View& view) { return view.max_degree(); });
          })
      .def_property_readonly(
          "edge_count",
          [](const Graph& graph) {
            return graph.read([](const View& view) { return view.edge_count(); });
          })
      .def_property_readonly("cycle",
                             [](const Graph& graph) {
                               return graph.read([](const View& view) { return view.cycle(); });
                             })
      .def("__len__", [](const Graph& graph) {
        return graph.read([](const View& view) { return view.slots(); });
      });
}

}  // namespace spector::bindings
