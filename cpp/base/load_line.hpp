// Loads of memory that is needed soon. Where many lines are asked for at once, processors drop
// prefetches; loads that nothing waits for run side by side just as well, and none is dropped.
#pragma once

#include <type_traits>

namespace spector {

// Loads the cache line of *at, which is an object of a scalar type.
template <class T>
void load_line(const T* at) noexcept {
  static_assert(std::is_scalar_v<T>);
  static_cast<void>(*static_cast<const volatile T*>(at));
}

// Asks for the line of *at. The empty statement is there because gcc takes a function that only
// prefetches for one that does nothing, and with link-time optimisation removes calls of it.
inline void prefetch_line(const void* at) noexcept {
  __builtin_prefetch(at);
  asm volatile("");
}

}  // namespace spector
