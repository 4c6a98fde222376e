#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/shared.hpp"
#include "bindings/bound.hpp"
#include "bindings/gil.hpp"
#include "bindings/register.hpp"
#include "graph/type_registry.hpp"

namespace py = pybind11;

namespace spector::bindings {
namespace {

using Registry = Shared<TypeRegistry>;
using View = TypeRegistry::View;

}  // namespace

void register_type_registry(py::module_& module) {
  bound<Registry>(module, "TypeRegistry")
      .def(py::init([](std::uint32_t kind) {
             return std::make_unique<Registry>(static_cast<TypeRegistry::Kind>(kind));
           }),
           py::arg("kind"))
      .def(
          "add",
          [](Registry& registry, const std::string& name) {
            const GilRelease free;
            return registry.write([&](TypeRegistry& store) { return store.add(name); });
          },
          py::arg("name"))
      .def(
          "find",
          [](const Registry& registry, std::string_view name) {
            return registry.read([&](const View& view) { return view.find(name); });
          },
          py::arg("name"))
      .def(
          "name",
          [](const Registry& registry, std::uint32_t number) {
            return registry.read([&](const View& view) {
              return number < view.size() ? std::optional(std::string(view.name(number)))
                                          : std::nullopt;
            });
          },
          py::arg("number"))
      .def("size",
           [](const Registry& registry) {
             return registry.read([](const View& view) { return view.size(); });
           })
      .def("memory_bytes",
           [](const Registry& registry) {
             return registry.read([](const View& view) { return view.memory_bytes(); });
           })
      .def(
          "save",
          [](const Registry& registry, const std::string& path) {
            const GilRelease free;
            registry.read([&](const View& view) { view.save(path); });
          },
          py::arg("path"))
      .def(
          "load",
          [](Registry& registry, const std::string& path) {
            const GilRelease free;
            registry.write([&](TypeRegistry& store) { store.load(path); });
          },
          py::arg("path"));
}

}  // namespace spector::bindings
