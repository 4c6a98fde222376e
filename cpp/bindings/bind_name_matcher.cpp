#include <pybind11/stl.h>

#include <cstdint>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/gil.hpp"
#include "bindings/register.hpp"
#include "bindings/strings.hpp"
#include "graph/name_matcher.hpp"

namespace py = pybind11;

namespace spector::bindings {

void register_name_matcher(py::module_& module) {
  py::class_<NameMatcher>(module, "NameMatcher")
      .def(py::init<>())
      .def(
          "add",
          [](NameMatcher& matcher, const py::object& name, std::uint32_t number) {
            const Utf8 text(name, "name");
            const GilRelease free;
            return matcher.add(text.view(), number);
          },
          py::arg("name"), py::arg("number"))
      .def(
          "add_many",
          [](NameMatcher& matcher, const py::list& names, const Array<std::uint32_t>& numbers) {
            const auto span = span_of(numbers);
            if (span.size() != names.size()) {
              throw std::invalid_argument("names and numbers must have equal lengths");
            }
            std::vector<Utf8> texts;
            texts.reserve(names.size());
            for (const py::handle name : names) texts.emplace_back(name, "name");
            const GilRelease free;
            for (std::size_t i = 0; i < texts.size(); ++i) matcher.add(texts[i].view(), span[i]);
          },
          py::arg("names"), py::arg("numbers").noconvert())
      .def(
          "find",
          [](const NameMatcher& matcher, const py::object& text) {
            const Utf8 utf8(text, "text");
            std::vector<NameMatcher::Match> matches;
            {
              const GilRelease free;
              matches = matcher.find(utf8.view());
            }
            py::list found(matches.size());
            for (std::size_t i = 0; i < matches.size(); ++i) {
              const NameMatcher::Match& match = matches[i];
              found[i] = py::make_tuple(match.name, match.numbers, match.begin, match.end);
            }
            return found;
          },
          py::arg("text"))
      .def("size", &NameMatcher::size)
      .def("memory_bytes", &NameMatcher::memory_bytes);
}

}  // namespace spector::bindings
