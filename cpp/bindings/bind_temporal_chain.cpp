#include <pybind11/numpy.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/shared.hpp"
#include "bindings/arrays.hpp"
#include "bindings/bound.hpp"
#include "bindings/gil.hpp"
#include "bindings/register.hpp"
#include "graph/temporal_chain.hpp"

namespace py = pybind11;

namespace spector::bindings {
namespace {

using Chain = Shared<TemporalChain>;
using View = TemporalChain::View;
using Numbers = Array<std::uint32_t>;

TemporalChain::Direction direction_of(bool backward) noexcept {
  return backward ? TemporalChain::Direction::kBackward : TemporalChain::Direction::kForward;
}

}  // namespace

void register_temporal_chain(py::module_& module) {
  bound<Chain>(module, "TemporalChain")
      .def(py::init<>())
      .def(
          "resize",
          [](Chain& chain, std::size_t n) {
            const GilRelease free;
            chain.write([&](TemporalChain& store) { store.resize(n); });
          },
          py::arg("n"))
      .def(
          "link",
          [](Chain& chain, const Numbers& current, const Numbers& prev, const Numbers& session,
             const Numbers& time) {
            const auto currents = span_of(current);
            const auto previous = span_of(prev);
            const auto sessions = span_of(session);
            const auto times = span_of(time);
            const std::size_t n = currents.size();
            if (previous.size() != n || sessions.size() != n || times.size() != n) {
              throw std::invalid_argument(
                  "prev, session and time must be one for each of current, " + std::to_string(n) +
                  ", not " + std::to_string(previous.size()) + ", " +
                  std::to_string(sessions.size()) + " and " + std::to_string(times.size()));
            }
            const GilRelease free;
            chain.write([&](TemporalChain& store) {
              for (std::size_t i = 0; i < n; ++i) {
                store.link(currents[i], previous[i], sessions[i], times[i]);
              }
            });
          },
          py::arg("current").noconvert(), py::arg("prev").noconvert(),
          py::arg("session").noconvert(), py::arg("time").noconvert())
      .def(
          "link_one",
          [](Chain& chain, std::uint32_t current, std::uint32_t prev, std::uint32_t session,
             std::uint32_t time) {
            const GilRelease free;
            chain.write([&](TemporalChain& store) { store.link(current, prev, session, time); });
          },
          py::arg("current"), py::arg("prev"), py::arg("session"), py::arg("time"))
      .def(
          "remove",
          [](Chain& chain, const Numbers& slots) {
            const auto span = span_of(slots);
            const GilRelease free;
            chain.write([&](TemporalChain& store) { store.remove(span); });
          },
          py::arg("slots").noconvert())
      .def(
          "prune",
          [](Chain& chain, std::uint32_t before, const Numbers& slots) {
            const auto span = span_of(slots);
            const GilRelease free;
            return chain.write([&](TemporalChain& store) { return store.prune(before, span); });
          },
          py::arg("before"), py::arg("slots").noconvert())
      .def(
          "followers",
          [](const Chain& chain, const Numbers& starts, bool backward, std::uint64_t max_hops) {
            const auto span = span_of(starts);
            TemporalChain::Lists lists;
            {
              const GilRelease free;
              lists = chain.read([&](const View& view) {
                return view.followers(span, direction_of(backward), max_hops);
              });
            }
            return std::pair(to_array(lists.indptr), to_array(lists.slots));
          },
          py::arg("starts").noconvert(), py::arg("backward"), py::arg("max_hops"))
      .def(
          "follow",
          [](const Chain& chain, std::uint32_t start, bool backward, std::uint64_t max_hops) {
            TemporalChain::Lists lists;
            {
              const GilRelease free;
              lists = chain.read([&](const View& view) {
                return view.followers({&start, 1}, direction_of(backward), max_hops);
              });
            }
            return to_array(lists.slots);
          },
          py::arg("start"), py::arg("backward"), py::arg("max_hops"))
      .def(
          "record",
          [](const Chain& chain, std::size_t slot) {
            const TemporalChain::Record record = chain.read([&](const View& view) {
              if (slot >= view.size()) {
                throw std::out_of_range("slot must be below the number of slots, " +
                                        std::to_string(view.size()) + ", not " +
                                        std::to_string(slot));
              }
              return view[slot];
            });
            return py::make_tuple(record.previous, record.next, record.session, record.time_s);
          },
          py::arg("slot"))
      .def("records",
           [](const Chain& chain) {
             std::vector<std::int32_t> previous;
             std::vector<std::int32_t> next;
             std::vector<std::uint32_t> sessions;
             std::vector<std::uint32_t> times;
             {
               const GilRelease free;
               chain.read([&](const View& view) {
                 for (std::size_t slot = 0; slot < view.size(); ++slot) {
                   const TemporalChain::Record& record = view[slot];
                   previous.push_back(record.previous);
                   next.push_back(record.next);
                   sessions.push_back(record.session);
                   times.push_back(record.time_s);
                 }
               });
             }
             return py::make_tuple(to_array(previous), to_array(next), to_array(sessions),
                                   to_array(times));
           })
      .def("size",
           [](const Chain& chain) {
             return chain.read([](const View& view) { return view.size(); });
           })
      .def("link_count",
           [](const Chain& chain) {
             return chain.read([](const View& view) { return view.n_links(); });
           })
      .def("memory_bytes",
           [](const Chain& chain) {
             return chain.read([](const View& view) { return view.memory_bytes(); });
           })
      .def(
          "save",
          [](const Chain& chain, const std::string& path) {
            const GilRelease free;
            chain.read([&](const View& view) { view.save(path); });
          },
          py::arg("path"))
      .def(
          "load",
          [](Chain& chain, const std::string& path) {
            const GilRelease free;
            chain.write([&](TemporalChain& store) { store.load(path); });
          },
          py::arg("path"));
}

}  // namespace spector::bindings
