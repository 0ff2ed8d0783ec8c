// Shares a loop among threads of its own.
#include "partita/base/threads.h"

#include <atomic>
#include <future>
#include <system_error>
#include <vector>

#include "partita/base/machine_memory.h"

namespace partita {

void parallel_for(int threads, std::size_t count, const std::function<void(std::size_t i, int thread)>& go) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  auto run = [&, may = may_run_out_of_memory()](int thread) {
    const OutOfMemoryScope same(may);
    try {
      for (std::size_t i = next++; i < count && !failed; i = next++) go(i, thread);
    } catch (...) {
      failed = true;
      throw;
    }
  };
  std::vector<std::future<void>> others;  // each waits when it is left
  try {
    for (int thread = 1; thread < threads && static_cast<std::size_t>(thread) < count; ++thread)
      others.push_back(std::async(std::launch::async, run, thread));
  } catch (const std::system_error&) {
    // The machine gives no further thread: the existing ones do the work.
  }
  run(0);
  for (std::future<void>& other : others) other.get();
}

}  // namespace partita
