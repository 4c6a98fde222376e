#include <pybind11/stl.h>

#include <cstdint>
#include <vector>

#include "base/shared.hpp"
#include "bindings/arrays.hpp"
#include "bindings/bound.hpp"
#include "bindings/gil.hpp"
#include "bindings/register.hpp"
#include "bindings/strings.hpp"
#include "graph/name_matcher.hpp"

namespace py = pybind11;

namespace spector::bindings {

using Matcher = Shared<NameMatcher>;

void register_name_matcher(py::module_& module) {
  bound<Matcher>(module, "NameMatcher")
      .def(py::init<>())
      .def(
          "add",
          [](Matcher& matcher, const py::object& name, std::uint32_t number) {
            const Utf8 text(name, "name");
            const GilRelease free;
            return matcher.write(
                [&](NameMatcher& store) { return store.add(text.view(), number); });
          },
          py::arg("name"), py::arg("number"))
      .def(
          "add_many",
          [](Matcher& matcher, const py::list& names, const Array<std::uint32_t>& numbers) {
            const auto span = span_of(numbers);
            if (span.size() != names.size()) {
              throw std::invalid_argument("names and numbers must have equal lengths");
            }
            std::vector<Utf8> texts;
            texts.reserve(names.size());
            for (const py::handle name : names) texts.emplace_back(name, "name");
            const GilRelease free;
            matcher.write([&](NameMatcher& store) {
              for (std::size_t i = 0; i < texts.size(); ++i) store.add(texts[i].view(), span[i]);
            });
          },
          py::arg("names"), py::arg("numbers").noconvert())
      .def(
          "find",
          [](const Matcher& matcher, const py::object& text) {
            const Utf8 utf8(text, "text");
            std::vector<NameMatcher::Match> matches;
            {
              const GilRelease free;
              matches = matcher.read(
                  [&](const NameMatcher::View& view) { return view.find(utf8.view()); });
            }
            py::list found(matches.size());
            for (std::size_t i = 0; i < matches.size(); ++i) {
              const NameMatcher::Match& match = matches[i];
              found[i] = py::make_tuple(match.name, match.numbers, match.begin, match.end);
            }
            return found;
          },
          py::arg("text"))
      .def("size",
           [](const Matcher& matcher) {
             return matcher.read([](const NameMatcher::View& view) { return view.size(); });
           })
      .def("memory_bytes", [](const Matcher& matcher) {
        return matcher.read([](const NameMatcher::View& view) { return view.memory_bytes(); });
      });
}

}  // namespace spector::bindings
