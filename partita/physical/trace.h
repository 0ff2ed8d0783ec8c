// Defines traces: when each task ran, and how memory and links were used. The simulator and the runtime both make one.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

struct Event {
  TaskId task;
  int step = 0, firing = 0;
  int64_t start_ns = 0, end_ns = 0;
  bool operator==(const Event&) const = default;
};

struct MemorySample {
  DeviceId device;
  int64_t time_ns = 0, bytes = 0;
  bool operator==(const MemorySample&) const = default;
};

struct Trace {
  std::vector<Event> events;         // by start, then task
  std::vector<MemorySample> memory;  // bytes of registers between first write and last release
  std::vector<int64_t> link_bytes;   // by LinkId, a step
  int steps = 1;
  int64_t step_time_ns = 0;  // of one step: the mean over the steps
  // The algorithm of predicted collectives, by participant, such as "ring LL128".
  std::map<TaskId, std::string> algorithms;
  // Tasks whose time was not measured but estimated from others, if the prediction has a profile.
  std::set<TaskId> estimated;

  bool operator==(const Trace&) const = default;
};

// Writes Chrome trace JSON (opens in Perfetto): one complete event ("ph":"X") a task firing, and memory as counter
// events. pid is the device, tid the queue; ts and dur are in microseconds.
std::string chrome_trace(const Trace& trace, const PhysicalGraph& graph, const Cluster& cluster);

// Several traces on one time line, each with processes of its own, named NAME: DEVICE.
struct NamedTrace {
  std::string name;  // "predicted"
  Trace trace;
  PhysicalGraph graph;
};
std::string chrome_trace(const std::vector<NamedTrace>& traces, const Cluster& cluster);
std::string print(const Trace& trace, const PhysicalGraph& graph);
Trace parse_trace(std::string_view text, const PhysicalGraph& graph);

}  // namespace partita
