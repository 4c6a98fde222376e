// numpy arrays in and out of the core.
#pragma once

#include <pybind11/numpy.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace spector::bindings {

template <class T>
using Array = pybind11::array_t<T, pybind11::array::c_style>;

// Valid as long as the array. Arguments of this type are bound with noconvert(): Python has made
// them what they must be.
template <class T>
std::span<const T> span_of(const Array<T>& array) {
  if (array.ndim() != 1) {
    throw std::invalid_argument("expected a 1-dimensional array, not one of " +
                                std::to_string(array.ndim()) + " dimensions");
  }
  return {array.data(), static_cast<std::size_t>(array.size())};
}

// Uninitialised. pybind11's own constructor first makes lists of the shape and the strides, which
// costs more than all the rest of a short call.
template <class T>
Array<T> new_array(std::size_t n) {
  const auto& numpy = pybind11::detail::npy_api::get();
  auto shape = static_cast<Py_intptr_t>(n);
  PyObject* const made =
      numpy.PyArray_NewFromDescr_(numpy.PyArray_Type_, pybind11::dtype::of<T>().release().ptr(), 1,
                                  &shape, nullptr, nullptr, 0, nullptr);
  if (made == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<Array<T>>(made);
}

template <class T>
Array<T> to_array(std::span<const T> values) {
  Array<T> array = new_array<T>(values.size());
  std::copy(values.begin(), values.end(), array.mutable_data());
  return array;
}
template <class T>
Array<T> to_array(const std::vector<T>& values) {
  return to_array(std::span<const T>(values));
}
// Keeps the vector's memory, for answers that may be large.
template <class T>
Array<T> adopt(std::vector<T> values) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  const pybind11::capsule owner(kept.get(),
                                [](void* vector) { delete static_cast<std::vector<T>*>(vector); });
  const std::vector<T>& held = *kept.release();
  return Array<T>(static_cast<pybind11::ssize_t>(held.size()), held.data(), owner);
}
// Whichever of the two costs less.
template <class T>
Array<T> to_array(std::vector<T>&& values) {
  constexpr std::size_t kFew = 4096;  // bytes
  if (values.size() * sizeof(T) > kFew) return adopt(std::move(values));
  return to_array(std::span<const T>(values));
}

}  // namespace spector::bindings
