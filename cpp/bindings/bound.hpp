// How classes are made known to Python.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace spector::bindings {

// A class of the module. Its objects are left out of pybind11's table of pointers and their Python
// objects: nobody here asks whether a pointer has one already, and pybind11 writes into that table
// where no memory for it ends the process, or destroys the object twice.
template <class T>
pybind11::class_<T> bound(pybind11::module_& module, const char* name) {
  using Holder = typename pybind11::class_<T>::holder_type;
  static_assert(std::is_same_v<Holder, std::unique_ptr<T>>);
  pybind11::class_<T> made(module, name);
  pybind11::detail::type_info* info = pybind11::detail::get_type_info(typeid(T), true);
  info->init_instance = [](pybind11::detail::instance* object, const void* holder) {
    auto place = object->get_value_and_holder(pybind11::detail::get_type_info(typeid(T)));
    void* at = std::addressof(place.template holder<Holder>());
    if (holder != nullptr) {
      new (at) Holder(std::move(*static_cast<Holder*>(const_cast<void*>(holder))));
    } else if (object->owned) {
      new (at) Holder(place.template value_ptr<T>());
    } else {
      return;  // it is part of another object
    }
    place.set_holder_constructed();
  };
  return made;
}

}  // namespace spector::bindings
