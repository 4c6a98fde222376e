#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <span>
#include <string>

#include "base/hash.hpp"
#include "bindings/arrays.hpp"
#include "bindings/register.hpp"
#include "kernels/dispatch.hpp"

namespace py = pybind11;

namespace spector::bindings {

namespace {

// The columns of a row of the table `memories` that its checksum covers (spector.store.model).
enum Column : std::uint8_t {
  kSlot,
  kId,
  kText,
  kContext,
  kType,
  kSource,
  kSession,
  kAuthor,
  kTimestamp,
  kCreated,
  kUpdated,
  kTags,
  kMetadata,
  kAbout,
  kImportance,
  kSurprise,
  kValence,
  kArousal,
  kFlags,
  kEntities,
  kRecalls,
  kStrength,
  kPassive,
  kLastPassive,
  kSuppressed,
  kColumns
};

// A row as the text that its checksum is of: numbers and lengths first (-1 for NULL), then texts.
class RowText {
 public:
  explicit RowText(const py::tuple& row) : row_(row) {
    if (row.size() < kColumns) throw py::type_error("a row has too few columns");
  }

  void number(Column column) {
    PyObject* const value = at(column);
    if (!PyLong_Check(value)) throw py::type_error("a column must be int");
    const long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    add(number);
  }
  void real(Column column) {
    PyObject* const value = at(column);
    if (!PyFloat_Check(value)) throw py::type_error("a column must be float");
    char* const shown =
        PyOS_double_to_string(PyFloat_AS_DOUBLE(value), 'r', 0, Py_DTSF_ADD_DOT_0, nullptr);
    if (shown == nullptr) throw py::error_already_set();
    text_ += shown;
    text_ += ',';
    PyMem_Free(shown);
  }
  void length(Column column, char after = ',') {
    PyObject* const value = at(column);
    add(is_null(column) ? -1 : static_cast<long long>(PyUnicode_GetLength(string(value))));
    text_.back() = after;
  }
  void text(Column column) {
    if (is_null(column)) return;
    PyObject* const value = string(at(column));
    // An ASCII str is its own UTF-8; of others the bytes are not kept.
    if (PyUnicode_IS_COMPACT_ASCII(value)) {
      text_.append(static_cast<const char*>(PyUnicode_DATA(value)),
                   static_cast<std::size_t>(PyUnicode_GET_LENGTH(value)));
      return;
    }
    const auto bytes = py::reinterpret_steal<py::object>(PyUnicode_AsUTF8String(value));
    if (!bytes) throw py::error_already_set();
    text_.append(PyBytes_AS_STRING(bytes.ptr()),
                 static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr())));
  }
  [[nodiscard]] const std::string& get() const noexcept { return text_; }

 private:
  [[nodiscard]] PyObject* at(Column column) const { return PyTuple_GET_ITEM(row_.ptr(), column); }
  [[nodiscard]] bool is_null(Column column) const {
    const bool may_be =
        column == kContext || column == kSession || column == kAuthor || column == kSuppressed;
    return may_be && at(column) == Py_None;
  }
  static PyObject* string(PyObject* value) {
    if (!PyUnicode_Check(value)) throw py::type_error("a column must be str");
    return value;
  }
  void add(long long number) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    text_.append(digits.data(), end);
    text_ += ',';
  }

  const py::tuple& row_;
  std::string text_;
};

std::uint32_t memory_crc(const py::tuple& row) {
  RowText text(row);
  for (const Column column : {kSlot, kTimestamp, kCreated, kUpdated}) text.number(column);
  text.real(kImportance);
  text.real(kSurprise);
  for (const Column column : {kValence, kArousal, kFlags, kRecalls}) text.number(column);
  text.real(kStrength);
  for (const Column column : {kPassive, kLastPassive}) text.number(column);
  for (const Column column : {kId, kText, kContext, kType, kSource, kSession, kAuthor, kTags,
                              kMetadata, kAbout, kEntities}) {
    text.length(column);
  }
  text.length(kSuppressed, ';');
  for (const Column column : {kId, kText, kContext, kType, kSource, kSession, kAuthor, kTags,
                              kMetadata, kAbout, kEntities, kSuppressed}) {
    text.text(column);
  }
  return crc32c(std::as_bytes(std::span(text.get())));
}

}  // namespace

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
  module.def("memory_crc", &memory_crc, py::arg("row"));
}

}  // namespace spector::bindings
