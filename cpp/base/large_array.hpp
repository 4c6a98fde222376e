// Arrays of many megabytes that are written once and then shared.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace spector {

// Uninitialised. Arrays of 2 MiB and more ask for huge pages: random reads of them then miss the
// translation cache far less often, and fresh memory costs one fault in 512.
template <class T>
[[nodiscard]] std::shared_ptr<T[]> make_large_array(std::size_t n) {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  const std::size_t bytes = n * sizeof(T);
  const std::align_val_t alignment{bytes < kHuge ? std::size_t{64} : kHuge};
  void* const memory = ::operator new(bytes, alignment);
#ifdef MADV_HUGEPAGE
  // The kernel may decline; then pages are small. The last part of one stays small anyway.
  if (bytes >= kHuge) static_cast<void>(::madvise(memory, bytes, MADV_HUGEPAGE));
#endif
  return {static_cast<T*>(memory), [alignment](T* at) { ::operator delete(at, alignment); }};
}

}  // namespace spector
