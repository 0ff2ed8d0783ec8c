// The machine's memory: what this process has, what more it can have, and what happens where there is none.
#pragma once
#include <cstdint>
#include <string_view>

namespace partita {

// Of this process, in memory now; 0 where the system does not tell.
int64_t resident_bytes();
// That this process can have besides: what the system says is free, and what the limit of its addresses (ulimit -v)
// and of its control group leave. The largest number where nothing tells.
int64_t available_bytes();

// Exit code 4 if so many bytes are more than this process can have: `what` is "FILE, array 'x'". Memory that is taken
// without asking first is another program's end.
void expect_available(int64_t bytes, std::string_view what);

// While one lives, memory that is not to be had is std::bad_alloc, on this thread and on those that it begins by
// begun() and shared_out(). Elsewhere the program itself ends then (partita/cli/memory.cc).
class MayRunOut {
 public:
  explicit MayRunOut(bool may = true);
  ~MayRunOut();
  MayRunOut(const MayRunOut&) = delete;
  MayRunOut& operator=(const MayRunOut&) = delete;

 private:
  const bool before_;
};
bool may_run_out();  // whether one lives for this thread

}  // namespace partita
