// Follows the nodes that run now, and when each ends, internal to sim/. A node's speed depends on the others that run.
//
// If each device has its own processor, a kernel keeps `overlapped_speed` of its speed while any collective runs on its
// device. The kernels of the collective's library occupy multiprocessors and memory there (SimNode).
//
// Example: overlapped_speed = 0.5, a kernel of 100 ns, and a collective from 20 to 60 ns. 20 + 40 / 2 are done at 60,
// and it ends at 120.
//
// If all devices share a machine's cores (Machine, profile.h), with `busy` threads on `cores` cores, a node's isolated
// time is multiplied by
//     (1 + (together - 1) (min(busy, cores) - 1) / (cores - 1)) max(1, busy / cores),
// over the same for its own threads. `together` was measured with all cores busy: caches and memory are shared.
//
// Example: two cores, three kernels that are bound by arithmetic (together = 1): each takes 1.5 times as long.
#pragma once
#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "partita/sim/nodes.h"

namespace partita {

// Bad input if it is more than three years: so long a step follows from wrong figures.
void validate_step_time(double step_ns);

class Running {
 public:
  explicit Running(int cores) : cores_(cores) {}
  void start(int64_t run, const SimNode& node, int64_t now);
  // When the first of them ends, as far as is known. There is one.
  int64_t next_end() const;
  bool empty() const { return ends_.empty() && sharing_.empty(); }
  // Moves on to a time, at most next_end(). Returns the runs that end then, by number.
  std::vector<int64_t> ended(int64_t now);

 private:
  struct Sharing {
    int64_t run = 0;
    double left_ns = 0;  // isolated
    int threads = 1;
    double together = 1;
  };
  double slowdown(const Sharing& s, int busy) const;
  int busy() const;

  // The kernel of a device's compute queue, which collectives slow down.
  struct SlowedKernel {
    int64_t run = -1;    // none
    double left_ns = 0;  // at `since`, at full speed
    int64_t since = 0, end = 0;
    double overlapped_speed = 1;
    int collectives = 0;  // that run on the device
    double speed() const { return collectives > 0 ? overlapped_speed : 1; }
  };
  SlowedKernel& slowed_kernel(DeviceId device);
  void begin_slowed(int64_t run, const SimNode& node);
  void count_collective(const std::vector<DeviceId>& devices, int more);
  void leave(const std::vector<int64_t>& runs);

  int cores_;                               // 0: each device has its own processor
  using End = std::pair<int64_t, int64_t>;  // time and run
  std::set<End> ends_;
  std::vector<SlowedKernel> slowed_;                     // by device
  std::unordered_map<int64_t, const SimNode*> slowing_;  // runs that count on their devices: kernels and collectives
  std::vector<Sharing> sharing_;
  int64_t now_ = 0;
};

}  // namespace partita
