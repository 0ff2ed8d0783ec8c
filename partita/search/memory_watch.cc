// Measures the memory of the process many times a second.
#include "partita/search/memory_watch.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>

#include "partita/base/machine_memory.h"

namespace partita {

namespace {

constexpr int64_t kParts = 3;  // the limit is one part of so many of all memory that the process has and can have
constexpr int64_t kBeyond = int64_t{64} << 20;     // bytes, for a part that begins at the limit
constexpr std::chrono::milliseconds kBetween{20};  // looks: memory grows by about a gigabyte a second

int64_t limit_now() {
  const int64_t available = available_bytes();
  return available == std::numeric_limits<int64_t>::max() ? available : (resident_bytes() + available) / kParts;
}

}  // namespace

struct MemoryWatch::Inside {
  const std::atomic<bool>* passed_on = nullptr;
  const int64_t limit = limit_now();
  std::mutex lock;
  std::condition_variable_any ends;
  int64_t most = limit;  // for the part that is watched now
  std::atomic<bool> stop = false, over = false;
  std::jthread looking;

  bool is_stopped() const { return passed_on && *passed_on; }
  void begin() {
    const std::lock_guard held(lock);
    most = std::max(limit, std::min(resident_bytes(), std::numeric_limits<int64_t>::max() - kBeyond) + kBeyond);
    over = false;
    stop = is_stopped();
  }
  void look(const std::stop_token& end) {
    std::unique_lock held(lock);
    while (!end.stop_requested()) {
      ends.wait_for(held, end, kBetween, [] { return false; });
      if (resident_bytes() > most) over = true;
      if (over || is_stopped()) stop = true;
    }
  }
};

// If the machine gives no thread, `stop` alone is read.
MemoryWatch::MemoryWatch(const std::atomic<bool>* stop) : inside_(std::make_unique<Inside>()) {
  inside_->passed_on = stop;
  begin();
  try {
    inside_->looking = std::jthread([this](const std::stop_token& end) { inside_->look(end); });
  } catch (const std::system_error&) {
  }
}
MemoryWatch::~MemoryWatch() = default;

void MemoryWatch::begin() { inside_->begin(); }
const std::atomic<bool>* MemoryWatch::stop() const {
  return inside_->looking.joinable() ? &inside_->stop : inside_->passed_on;
}
bool MemoryWatch::over() const { return inside_->over; }
int64_t MemoryWatch::limit_bytes() const { return inside_->limit; }

}  // namespace partita
