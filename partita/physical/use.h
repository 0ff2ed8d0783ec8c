// Summarises a step's use of devices and links, and when each operation runs. Readers want it for plans that have
// operations on different devices.
//
// Example: a (1 ms) on gpu0, b (2 ms) on gpu1, which reads a's result, 0.5 ms away. Devices: gpu0 computes for 1 ms,
// gpu1 for 2. One link, busy for 0.5 ms. Rows: a from 0 to 1 ms on gpu0, b from 1.5 to 3.5 on gpu1.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/physical/trace.h"

namespace partita {

struct DeviceUse {
  DeviceId device;
  int ops = 0;                             // that compute here
  int64_t compute_ns = 0, peak_bytes = 0;  // of them, and of conversions for them
};

struct LinkUse {
  std::string name;  // of its queue: "gpu0-gpu1"
  int transfers = 0;
  int64_t bytes = 0, busy_ns = 0;
};

// Operations whose names begin alike (partita/graph/name_groups.h). Those of one device are one row if possible.
struct RowUse {
  std::string name;
  int ops = 0;
  std::vector<int64_t> compute_ns;   // by device of StepUse::devices
  int64_t start_ns = 0, end_ns = 0;  // of its first begin and its last end
  struct Run {
    int device = 0;  // of StepUse::devices
    int64_t start_ns = 0, end_ns = 0;
  };
  std::vector<Run> runs;  // its times on a device, by start
};

struct StepUse {
  int64_t step_ns = 0;
  std::vector<DeviceUse> devices;  // all compute devices, and hosts that have kernels
  std::vector<LinkUse> links;      // with transfers, the busiest first
  std::vector<RowUse> rows;        // in the graph's order; at most `rows`
};

// Summarises a trace of one step of all devices. `rows` is at least 2.
StepUse use_of(const Trace& trace, const PhysicalGraph& physical, const Graph& graph, size_t rows);

// Returns the letter of a device in charts, by its place in StepUse::devices: '0' .. '9', 'a' .. 'z', '?' from the 36th
// on.
char letter_of(size_t place);

// Draws when a row is computed. The step is divided into `columns` equal spans. Each has the letter of the row's
// device, '*' if there are several, '.' if there is none.
std::string chart_of(const RowUse& row, int64_t step_ns, int columns);

}  // namespace partita
