// Gives up the GIL for the time of a scope.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>

#include <unistd.h>

namespace spector::bindings {

// As pybind11::gil_scoped_release, but safe in a daemon thread when the interpreter ends: before
// Python 3.14 taking the GIL back then unwinds the thread, which must not pass through C++ frames
// that hold Python objects. Such a thread stays here until the process is gone.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  GilRelease(GilRelease&&) = delete;
  GilRelease& operator=(GilRelease&&) = delete;
  ~GilRelease() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      while (true) pause();
    }
  }

 private:
  PyThreadState* state_;
};

}  // namespace spector::bindings
