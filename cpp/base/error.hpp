// Errors of the core. Arguments out of range are std::invalid_argument (ValueError in Python);
// the classes here are spector's own. cpp/bindings/errors.cpp maps them.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

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

// CorruptionError: a stored file is damaged or something else than it should be. The message names
// the file, the place and the remedy.
class Corruption : public Error {
 public:
  using Error::Error;
};

// What to do about a damaged file of an index.
inline constexpr char kRebuildIndex[] = "rebuild the index from the texts and save it again";

// VersionError: a stored file is of a version that this release does not know.
class Version : public Error {
 public:
  using Error::Error;
};

// StorageError: the operating system refused.
class Storage : public Error {
 public:
  // `error_number` as errno has it; `doing` reads before the path: "cannot write".
  Storage(int error_number, const std::string& doing, std::string path)
      : Error(doing), error_number_(error_number), path_(std::move(path)) {}

  [[nodiscard]] int error_number() const noexcept { return error_number_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  int error_number_;
  std::string path_;
};

}  // namespace spector
