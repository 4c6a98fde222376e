// Python str to UTF-8 for the core, and the argument errors that go with it.
#pragma once

#include <pybind11/pybind11.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace spector::bindings {

// A str and its UTF-8 bytes. Keeps alive what the view points into; make and destroy it with the
// GIL, read it without. Lone surrogates become three ill-formed bytes each, which the analyzer
// reads as U+FFFD.
class Utf8 {
 public:
  static constexpr bool kStrict = true;

  // Throws TypeError naming `what` unless `object` is a str; `strict` also refuses lone surrogates
  // and the empty str with ValueError (ids).
  Utf8(pybind11::handle object, const char* what, bool strict = false) {
    if (!PyUnicode_Check(object.ptr())) {
      std::string shown = pybind11::cast<std::string>(
          pybind11::reinterpret_steal<pybind11::object>(PyObject_ASCII(object.ptr())));
      if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
      throw pybind11::type_error(std::string(what) + " must be str, not " +
                                 Py_TYPE(object.ptr())->tp_name + " (" + shown + ")");
    }
    object_ = pybind11::reinterpret_borrow<pybind11::object>(object);
    Py_ssize_t size = 0;
    const char* chars = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
    if (chars != nullptr) {
      if (strict && size == 0) {
        throw std::invalid_argument(std::string(what) + " must be a non-empty str, not ''");
      }
      owner_ = pybind11::reinterpret_borrow<pybind11::object>(object);
    } else {
      PyErr_Clear();
      if (strict) {
        throw std::invalid_argument(std::string(what) +
                                    " must be valid Unicode, but has a lone "
                                    "surrogate");
      }
      owner_ = pybind11::reinterpret_steal<pybind11::object>(
          PyUnicode_AsEncodedString(object.ptr(), "utf-8", "surrogatepass"));
      if (!owner_) throw pybind11::error_already_set();
      chars = PyBytes_AS_STRING(owner_.ptr());
      size = PyBytes_GET_SIZE(owner_.ptr());
    }
    view_ = {chars, static_cast<std::size_t>(size)};
  }

  [[nodiscard]] pybind11::handle object() const noexcept { return object_; }
  [[nodiscard]] std::string_view view() const noexcept { return view_; }

 private:
  pybind11::object owner_;   // holds the bytes
  pybind11::object object_;  // the str itself
  std::string_view view_;
};

}  // namespace spector::bindings
