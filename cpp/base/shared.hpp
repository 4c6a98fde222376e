// A store that is used on its own: readers look at its last published view without locks, writers
// take turns, and each write is one transaction that is seen whole or not at all.
//
// Store has: a constructor that takes an EpochDomain& first; View, a value that shows one state;
// view() const; reserve(), published() noexcept and rollback() noexcept as in base/cow.hpp.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "base/epoch.hpp"

namespace spector {

template <class Store>
class Shared {
 public:
  using View = typename Store::View;

  template <class... Args>
  explicit Shared(Args&&... args)
      : store_(epochs_, std::forward<Args>(args)...),
        view_(std::make_unique<const View>(store_.view())) {
    store_.published();
  }

  // f(view): nothing of the view may be kept.
  template <class F>
  decltype(auto) read(const F& f) const {
    const EpochDomain::Pin pin = epochs_.pin();
    return f(view_.get(pin));
  }

  // f(store): on an exception nothing has changed.
  template <class F>
  auto write(const F& f) {
    const std::scoped_lock lock(writer_);
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<const F&, Store&>>) {
        f(store_);
        publish();
      } else {
        auto result = f(store_);
        publish();
        return result;
      }
    } catch (...) {
      store_.rollback();
      throw;
    }
  }

 private:
  void publish() {
    auto view = std::make_unique<const View>(store_.view());
    store_.reserve();
    view_.publish(std::move(view), epochs_);
    store_.published();
  }

  mutable EpochDomain epochs_;  // outlives all that follows
  mutable std::mutex writer_;
  Store store_;
  Published<View> view_;
};

}  // namespace spector
