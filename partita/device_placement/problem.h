// Defines the problem of placing and scheduling a step's operations and transfers on devices and links, for searches
// and solvers (Pesto, section 3.2).
//
// An operation runs once, without interruption, on one device. A value that is read on another device than its
// producer's crosses the route between the two once, however many operations read it there. Devices and links are
// queues: each does one thing at a time. The step ends when all is done. A device's memory has to hold its bytes at any
// time.
//
// Example: a (3 ns on gpu0 or gpu1), then b and c (4 and 5 ns), which read a's value of 100 bytes; the route from gpu0
// to gpu1 takes 1 ns + 0.01 ns a byte. All on gpu0: 12 ns. With c on gpu1: c starts at 3 + 2 and ends at 10, b ends
// at 7.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace partita {

struct PlacedOp {
  std::string name;
  std::vector<int64_t> ns;  // by device, at least 1; -1: it cannot run there
  int64_t bytes = 0;        // of its device's memory, all through the step
  int group = -1;           // operations of one group stay together; -1: none
  std::vector<int> reads;   // values, each once
  int64_t scratch = 0;      // bytes of its device's memory while it runs, besides its results
};

constexpr int64_t kOrderAlone = -1;

// With kOrderAlone bytes it moves nothing: its readers start after its producer has ended, on any devices. So an update
// comes after the readers of its weight.
struct PlacedValue {
  int64_t bytes = 0;
  int producer = 0;
  std::vector<int> readers;  // operations, each once
  int result = -1;  // the result that it is all or a part of; -1: it takes no memory (kOrderAlone, or footprints have
                    // it)
  bool moves() const { return bytes >= 0; }
};

// A buffer that an operation makes. Its device holds it from the operation's start until its last reader there has
// ended and its last transfer is over. Another device holds a value from the start of its transfer until its last
// reader there has ended.
struct PlacedResult {
  int64_t bytes = 0;
  int producer = 0;
};

struct PlacedDevice {
  std::string name;
  int64_t memory_bytes = 0;
};

// The connection from one device to another.
struct Route {
  int queue = -1;  // the queue of all routes that share a link; -1: there is no route
  double latency_ns = 0, ns_per_byte = 0;
  // Further protocols, as latency and ns a byte: a transfer takes the fastest for its bytes.
  std::vector<std::pair<double, double>> others = {};
  bool operator==(const Route&) const = default;
};

struct PlacementProblem {
  std::vector<PlacedOp> ops;  // each after the producers of its inputs: the framework's order
  std::vector<PlacedValue> values;
  std::vector<PlacedResult> results;
  std::vector<PlacedDevice> devices;
  std::vector<std::vector<Route>> routes;  // [from][to]
  int queues = 0;                          // routes name 0 .. queues - 1

  // Returns the time of a transfer, at least 1 ns.
  int64_t transfer_ns(const Route& route, int64_t bytes) const;
};

// Returns the operation's time on its fastest device (ns).
int64_t least_ns(const PlacedOp& op);
// Tells whether some device runs both operations.
bool share_a_device(const PlacedOp& a, const PlacedOp& b);
// Returns the least time (ns) in which a value of so many bytes crosses between two different devices, one that runs
// `from` and one that runs `to`; 0 if it cannot.
int64_t least_crossing_ns(const PlacementProblem& problem, const PlacedOp& from, const PlacedOp& to, int64_t bytes);
// Returns by operation the values that it makes.
std::vector<std::vector<int>> made_by(const PlacementProblem& problem);

// One value on its way to one device.
struct PlacedTransfer {
  int value = 0, to = 0;
  int64_t start = 0;  // ns
  bool operator==(const PlacedTransfer&) const = default;
};

void sort_by_start(std::vector<PlacedTransfer>& transfers);

struct PlacedSchedule {
  std::vector<int> device;                // by operation
  std::vector<int64_t> start;             // by operation, ns
  std::vector<PlacedTransfer> transfers;  // by start
  int64_t end = 0;                        // of the step, ns
};

// Validates the problem against the definitions above. Throws, naming operation, value and rule.
void validate(const PlacementProblem& problem);

// Checks a schedule: returns the first violation in words, or an empty string if there is none. Violations are: an
// operation on a device that cannot run it, a divided group, two at once on a device or link, a start before an input
// has come, a transfer missing or made twice, a wrong end, exceeded memory. Shares no code with schedulers.
std::string schedule_error(const PlacementProblem& problem, const PlacedSchedule& schedule);

}  // namespace partita
