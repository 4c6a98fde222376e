// Arguments of short calls, which must not cost more than the call. What has the usual form is read
// here; all else goes to spector.arguments, which converts it or says what is wrong with it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "bindings/arrays.hpp"

namespace spector::bindings {

// An int in [low, high].
inline std::int64_t whole(const char* name, pybind11::handle value, std::int64_t low,
                          std::int64_t high) {
  if (PyLong_CheckExact(value.ptr()) != 0) {
    int beyond = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &beyond);
    if (beyond == 0 && number >= low && number <= high) return number;
  }
  return pybind11::module_::import("spector.arguments")
      .attr("whole")(name, value, low, high)
      .cast<std::int64_t>();
}

// A finite float in [low, high].
inline double real(const char* name, pybind11::handle value, double low, double high) {
  if (PyFloat_CheckExact(value.ptr()) != 0) {
    const double number = PyFloat_AS_DOUBLE(value.ptr());
    if (number >= low && number <= high) return number;
  }
  return pybind11::module_::import("spector.arguments")
      .attr("real")(name, value, low, high)
      .cast<double>();
}

constexpr std::int64_t kMaxSlot = std::numeric_limits<std::uint32_t>::max() - 1;
inline std::uint32_t slot(const char* name, pybind11::handle value) {
  return static_cast<std::uint32_t>(whole(name, value, 0, kMaxSlot));
}

// A number or an array of them. A copy: the caller may change the array while the core reads it
// without the GIL. Whether the slots are there the core checks.
inline std::vector<std::uint32_t> slots(const char* name, pybind11::handle value) {
  using Slots = Array<std::uint32_t>;
  const auto copy = [](const Slots& array) {
    const auto values = span_of(array);
    return std::vector<std::uint32_t>(values.begin(), values.end());
  };
  if (Slots::check_(value)) {
    const auto array = pybind11::reinterpret_borrow<Slots>(value);
    if (array.ndim() == 1) return copy(array);
  }
  if (PyLong_CheckExact(value.ptr()) != 0) {
    int beyond = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &beyond);
    if (beyond == 0 && number >= 0 && number <= kMaxSlot) {
      return {static_cast<std::uint32_t>(number)};
    }
  }
  return copy(pybind11::module_::import("spector.arguments").attr("slot_array")(name, value));
}

}  // namespace spector::bindings
