// Asks Linux how much memory there is.
#include "partita/base/machine_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "partita/base/error.h"

namespace partita {

namespace {

thread_local bool may = false;

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

struct Pages {
  int64_t addresses = 0, resident = 0;  // bytes
};
Pages pages_of_process() {
  Pages pages;
  std::ifstream file("/proc/self/statm");
  if (!(file >> pages.addresses >> pages.resident)) return {};
  const int64_t page = sysconf(_SC_PAGESIZE);
  return {pages.addresses * page, pages.resident * page};
}

// Reads the number that is a file's only content.
std::optional<int64_t> number_in(const char* path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

int64_t system_bytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string word; info >> word;)
    if (int64_t kib = 0; word == "MemAvailable:" && info >> kib) return kib * 1024;
  return kAll;
}

int64_t group_bytes() {
  const auto most = number_in("/sys/fs/cgroup/memory.max"), taken = number_in("/sys/fs/cgroup/memory.current");
  return most && taken ? *most - *taken : kAll;
}

int64_t address_bytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kAll;
  return static_cast<int64_t>(limit.rlim_cur) - pages_of_process().addresses;
}

}  // namespace

int64_t resident_bytes() { return pages_of_process().resident; }
int64_t available_bytes() { return std::max<int64_t>(0, std::min({system_bytes(), group_bytes(), address_bytes()})); }

void require_memory(int64_t bytes, std::string_view what) {
  constexpr int64_t kLittle = 1 << 28;  // too little to ask about
  if (bytes <= kLittle) return;
  if (const int64_t left = available_bytes(); bytes > left)
    throw Error(ExitCode::kInfeasible,
                fmt::format("{}: takes {} bytes of memory, and this machine has {} left", what, bytes, left));
}

OutOfMemoryScope::OutOfMemoryScope(bool may_now) : before_(may) { may = may_now; }
OutOfMemoryScope::~OutOfMemoryScope() { may = before_; }
bool may_run_out_of_memory() { return may; }

}  // namespace partita
