// Loaded before libstdc++: counts what C++ code allocates, and at the chosen allocation there is no
// memory. `fault_arm` says which, as in faults.c.
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

long wanted = 0;
long seen = 0;

void* allocated(std::size_t size, std::size_t alignment) {
  if (wanted != 0 && __atomic_add_fetch(&seen, 1, __ATOMIC_RELAXED) == wanted) {
    throw std::bad_alloc();
  }
  void* found = alignment <= alignof(std::max_align_t)
                    ? std::malloc(size == 0 ? 1 : size)
                    : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (found == nullptr) throw std::bad_alloc();
  return found;
}

}  // namespace

extern "C" void fault_arm(const char*, long step, int) {
  wanted = step;
  seen = 0;
}
extern "C" long fault_seen() { return seen; }

void* operator new(std::size_t size) { return allocated(size, 1); }
void* operator new[](std::size_t size) { return allocated(size, 1); }
void* operator new(std::size_t size, std::align_val_t to) {
  return allocated(size, static_cast<std::size_t>(to));
}
void* operator new[](std::size_t size, std::align_val_t to) {
  return allocated(size, static_cast<std::size_t>(to));
}
void operator delete(void* there) noexcept { std::free(there); }
void operator delete[](void* there) noexcept { std::free(there); }
void operator delete(void* there, std::size_t) noexcept { std::free(there); }
void operator delete[](void* there, std::size_t) noexcept { std::free(there); }
void operator delete(void* there, std::align_val_t) noexcept { std::free(there); }
void operator delete[](void* there, std::align_val_t) noexcept { std::free(there); }
void operator delete(void* there, std::size_t, std::align_val_t) noexcept { std::free(there); }
void operator delete[](void* there, std::size_t, std::align_val_t) noexcept { std::free(there); }
