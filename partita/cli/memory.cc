// Replaces the program's operator new. Without memory the program ends, or OutOfMemoryScope's guard acts, whatever the
// allocator would do (mimalloc aborts). Part of the program itself, not of a library, so that the shared libraries that
// it loads use it too.
#include <cstdlib>
#include <new>

#include "partita/base/machine_memory.h"
#include "partita/cli/environment.h"

// Sanitizers bring their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

void* or_end(void* memory) {
  if (memory) return memory;
  if (partita::may_run_out_of_memory()) throw std::bad_alloc();
  partita::end_without_memory();
}

std::size_t at_least_one(std::size_t bytes) { return bytes > 0 ? bytes : 1; }

// aligned_alloc takes multiples of the alignment.
void* aligned(std::size_t bytes, std::align_val_t align) {
  const std::size_t unit = static_cast<std::size_t>(align);
  return or_end(std::aligned_alloc(unit, (at_least_one(bytes) + unit - 1) / unit * unit));
}

}  // namespace

void* operator new(std::size_t bytes) { return or_end(std::malloc(at_least_one(bytes))); }
void* operator new[](std::size_t bytes) { return or_end(std::malloc(at_least_one(bytes))); }
void* operator new(std::size_t bytes, std::align_val_t align) { return aligned(bytes, align); }
void* operator new[](std::size_t bytes, std::align_val_t align) { return aligned(bytes, align); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#endif
