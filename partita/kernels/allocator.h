// ATen's CPU allocator, replaced by one that counts, and that serves a running kernel's temporaries from its scratch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>

namespace partita {

// Once a process.
void install_allocator();
// Allocated outside any scratch: now, and at most since the last reset.
int64_t outside_bytes();
int64_t outside_peak_bytes();
void reset_outside_peak();

// While it lives, what this thread allocates through ATen comes from `memory`: first fit, aligned to 64 bytes. All of it must be
// freed before the end.
class ScratchScope {
 public:
  ScratchScope(std::byte* memory, std::size_t bytes);
  ~ScratchScope();
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

  void* allocate(std::size_t bytes);  // null: no gap is large enough
  bool free(void* pointer);           // false: not ours
  int64_t peak_bytes() const { return peak_; }  // live bytes, at most, with what did not fit
  void count_outside(int64_t bytes);            // of this scope's thread, beside its memory

 private:
  void note(int64_t change);
  std::byte* memory_;
  std::size_t bytes_;
  std::map<std::size_t, std::size_t> used_;  // offset -> end
  int64_t live_ = 0, peak_ = 0;
  ScratchScope* outer_;
};

}  // namespace partita
