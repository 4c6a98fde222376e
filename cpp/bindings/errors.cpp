// The only place where C++ exceptions become Python ones. std::invalid_argument is a ValueError and
// std::bad_alloc a MemoryError by pybind11's own rules.
#include "base/error.hpp"

#include "bindings/register.hpp"

namespace py = pybind11;

namespace spector::bindings {

void register_errors(py::module_& module) {
  auto& base = py::register_exception<Error>(module, "SpectorError");
  py::register_exception<Capacity>(module, "CapacityError", base);
}

}  // namespace spector::bindings
