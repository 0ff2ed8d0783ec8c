// Computes the cost of an assignment of a placement instance, and whether it is allowed; shares no code with solvers.
//
// Max-load (Tarnawski et al. 2020, section 3): the load of an accelerator is the sum of fpgaLatency of its nodes, plus
// cost(u) once for each node u outside that one of its nodes reads, plus cost(u) once for each own node u that is read
// outside. The load of a CPU is the sum of cpuLatency. With a on accelerator 0, b and c on accelerator 1, a -> b and
// a -> c, both loads have cost(a) once.
//
// Latency (appendix A): each accelerator runs up to q subgraphs, one after another. A subgraph starts when all its
// inputs are there and the one before it is done. It takes the cost of its inputs + compute + the cost of its outputs
// that are read, and only then its outputs are there. A node on a CPU runs as soon as all its inputs are there: CPUs
// are unlimited.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/partitioning/instance.h"

namespace partita::partitioning {

// device[v]: 0 .. accelerators-1, then the CPUs.
using Devices = std::vector<int>;
// place[v]: kCpu, or accelerator * q + the subgraph's number on it, 0 .. q-1, in which order they run.
using Subgraphs = std::vector<int>;
constexpr int kCpu = -1;

struct Load {
  double compute = 0, communication = 0, size = 0;
  double sum() const { return compute + communication; }
};

std::vector<Load> loads_of(const Instance& instance, const Devices& devices);
double max_load(const Instance& instance, const Devices& devices);

struct Run {
  double start = 0, in = 0, compute = 0, out = 0, size = 0;
  int nodes = 0;
  double end() const { return start + in + compute + out; }
};
struct Latency {
  double total = 0;
  std::vector<Run> runs;  // of each subgraph
};
// Nothing if subgraphs wait for each other in a circle.
std::optional<Latency> latency_of(const Instance& instance, const Subgraphs& place, int q);

// Returns the first violation, in words; nothing if all is well. `contiguous`: no path of forward nodes between two of
// a device leaves it.
std::optional<std::string> wrong_devices(const Instance& instance, const Devices& devices, bool contiguous);
std::optional<std::string> wrong_subgraphs(const Instance& instance, const Subgraphs& place, int q);

}  // namespace partita::partitioning
