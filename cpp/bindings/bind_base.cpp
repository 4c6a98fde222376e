#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "base/hash.hpp"
#include "bindings/arrays.hpp"
#include "bindings/register.hpp"
#include "kernels/dispatch.hpp"

namespace py = pybind11;

namespace spector::bindings {

void register_base(py::module_& module) {
  module.def("simd_level", [] { return kernels::active().name; });
  module.def("available_simd_levels", [] {
    py::list names;
    for (const std::string_view name : kernels::available_isas()) names.append(py::str(name));
    return names;
  });
  module.def(
      "set_simd_level", [](const std::string& name) { kernels::set_isa(name); }, py::arg("name"));

  module.def(
      "highest",
      [](const Array<std::uint32_t>& numbers) {
        std::uint32_t highest = 0;
        for (const std::uint32_t number : span_of(numbers)) highest = std::max(highest, number);
        return highest;
      },
      py::arg("numbers").noconvert());
  module.def("hash64", [](std::string_view text) { return hash64(text); }, py::arg("text"));
  module.def(
      "crc32c",
      [](const py::bytes& data, std::uint32_t seed) {
        const auto view = static_cast<std::string_view>(data);
        return crc32c(std::as_bytes(std::span(view)), seed);
      },
      py::arg("data"), py::arg("seed") = 0);
}

}  // namespace spector::bindings
