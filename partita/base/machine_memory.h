// Tells how much memory this process has and can get, and guards against running out.
#pragma once
#include <cstdint>
#include <string_view>

namespace partita {

// Bytes of this process in memory now; 0 if the system does not tell.
int64_t resident_bytes();
// Bytes that this process can get besides: the free memory, within the limits of its addresses (ulimit -v) and of its
// control group. The largest number if nothing tells.
int64_t available_bytes();

// Exit code 4 if this process cannot get so many bytes: `what` is "FILE, array 'x'". Memory that is taken without
// asking first may end another program.
void require_memory(int64_t bytes, std::string_view what);

// While one lives, failing to get memory throws std::bad_alloc, on this thread and on those that it starts by
// run_async() and parallel_for(). Elsewhere the program itself ends then (partita/cli/memory.cc).
class OutOfMemoryScope {
 public:
  explicit OutOfMemoryScope(bool may = true);
  ~OutOfMemoryScope();
  OutOfMemoryScope(const OutOfMemoryScope&) = delete;
  OutOfMemoryScope& operator=(const OutOfMemoryScope&) = delete;

 private:
  const bool before_;
};
bool may_run_out_of_memory();  // whether one lives for this thread

}  // namespace partita
