// A shared mutex whose writer is not starved by readers that never pause (glibc's prefers readers):
// both pass one gate, which a waiting writer keeps.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace spector {

class FairMutex {
 public:
  [[nodiscard]] std::shared_lock<std::shared_mutex> read() const {
    const std::scoped_lock gate(gate_);
    return std::shared_lock(mutex_);
  }
  [[nodiscard]] std::unique_lock<std::shared_mutex> write() const {
    const std::scoped_lock gate(gate_);
    return std::unique_lock(mutex_);
  }

 private:
  mutable std::mutex gate_;
  mutable std::shared_mutex mutex_;
};

}  // namespace spector
