// The only place where C++ exceptions become Python ones. std::invalid_argument is a ValueError and
// std::bad_alloc a MemoryError by pybind11's own rules.
#include "base/error.hpp"

#include <pybind11/pybind11.h>

#include <cstring>
#include <exception>
#include <string>

#include "bindings/register.hpp"

namespace py = pybind11;

namespace spector::bindings {
namespace {

// Messages that hold paths: bytes that are no text in the encoding of file names are kept as
// surrogates, as Python keeps them.
py::str message(const std::string& bytes) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<py::ssize_t>(bytes.size())));
}

// StorageError is also an OSError, which is beyond register_exception, so it is defined in Python.
// Not imported before it is needed: spector.errors imports this module.
void raise_storage(const Storage& error) {
  const py::object type = py::module_::import("spector.errors").attr("StorageError");
  const std::string why = std::string(error.what()) + " (" + std::strerror(error.error_number()) +
                          ")";  // NOLINT(concurrency-mt-unsafe)
  const py::object value = type(error.error_number(), why, message(error.path()));
  PyErr_SetObject(type.ptr(), value.ptr());
}

template <class T>
void register_with_path(py::module_& module, const char* name, const char* doc, py::handle base) {
  py::exception<T> made(module, name, base);
  made.attr("__doc__") = doc;
  static PyObject* type = nullptr;  // lives as long as the process
  type = made.release().ptr();
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const T& error) {
      PyErr_SetObject(type, message(error.what()).ptr());
    }
  });
}

}  // namespace

void register_errors(py::module_& module) {
  auto& base = py::register_exception<Error>(module, "SpectorError");
  py::register_exception<Capacity>(module, "CapacityError", base);
  register_with_path<Corruption>(
      module, "CorruptionError",
      "A stored file is damaged or not spector's; the message names it and the remedy.", base);
  register_with_path<Version>(
      module, "VersionError",
      "A stored file is of a version this release does not know; it was left untouched.", base);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Storage& error) {
      raise_storage(error);
    }
  });
}

}  // namespace spector::bindings
