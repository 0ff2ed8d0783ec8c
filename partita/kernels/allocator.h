// Replaces ATen's CPU allocator by one that counts, and that serves a running kernel's temporaries from its scratch.
#pragma once
#include <cstddef>
#include <cstdint>

#include "partita/kernel_plan/first_fit.h"

namespace partita {

// Installs it; once a process.
void install_allocator();
// Bytes outside any scratch: now, and at most since the last reset.
int64_t outside_bytes();
int64_t outside_peak_bytes();
void reset_outside_peak();

// While it lives, this thread's allocations through ATen come from `memory` (64-byte aligned), at the offsets of
// kernel_plan/first_fit.h. All of it must be freed before the end.
class ScratchScope {
 public:
  ScratchScope(std::byte* memory, std::size_t bytes);
  ~ScratchScope();
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

  void* allocate(std::size_t bytes);                    // null if no gap is large enough
  bool free(void* pointer);                             // false if it is not ours
  int64_t used_bytes() const { return places_.end(); }  // the end of the highest byte ever used

 private:
  std::byte* memory_;
  int64_t bytes_;
  FirstFit places_;
  ScratchScope* outer_;
};

}  // namespace partita
