// Errors of the core. Arguments out of range are std::invalid_argument (ValueError in Python);
// the classes here are spector's own. cpp/bindings/errors.cpp maps them.
#pragma once

#include <stdexcept>

namespace spector {

// SpectorError: something the caller could not have prevented by other arguments.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// CapacityError: an id space is used up (architecture.md, section 5).
class Capacity : public Error {
 public:
  using Error::Error;
};

}  // namespace spector
