// Which device runs each operation of a step, and when; and when each tensor crosses each link (Pesto, section 3.2).
//
// An operation runs once, without interruption, on one device. A value that is read on another device than it is made
// on crosses the way between the two once, however many operations read it there. Devices and links are queues: each
// does one thing at a time. The step ends when everything has. What a device holds at any time has to fit its memory.
//
// Example: a (3 ns on gpu0 or gpu1), then b and c (4 and 5 ns), which read a's value of 100 bytes; the way from gpu0 to
// gpu1 takes 1 ns + 0.01 ns a byte. All on gpu0: 12 ns. With c on gpu1: c starts at 3 + 2 and ends at 10, b ends at 7.
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
  int group = -1;           // of operations that stay together; -1: none
  std::vector<int> reads;   // values, each once
  int64_t scratch = 0;      // bytes of its device's memory while it runs, besides its results
};

constexpr int64_t kOrderAlone = -1;

// With kOrderAlone bytes it moves nothing: its readers start after its producer has ended, wherever both are. An update
// comes so after what reads the weight.
struct PlacedValue {
  int64_t bytes = 0;
  int producer = 0;
  std::vector<int> readers;  // operations, each once
  int result = -1;           // that it is all or a part of; -1: it takes no memory (kOrderAlone, or footprints have it)
  bool moves() const { return bytes >= 0; }
};

// What an operation makes. Its device holds it from the operation's start until the last operation there has ended that
// reads a value of it, and the last transfer of one is over. Another device holds a value from the start of its
// transfer until the last operation there that reads it has ended.
struct PlacedResult {
  int64_t bytes = 0;
  int producer = 0;
};

struct PlacedDevice {
  std::string name;
  int64_t memory_bytes = 0;
};

// From a device to another one.
struct Way {
  int queue = -1;  // of those that it shares a link with; -1: there is no way
  double latency_ns = 0, ns_per_byte = 0;
  // Further protocols, as latency and ns a byte: a transfer takes the one that is fastest for its bytes.
  std::vector<std::pair<double, double>> others = {};
  bool operator==(const Way&) const = default;
};

struct PlacementProblem {
  std::vector<PlacedOp> ops;  // each after the producers of what it reads: the framework's order
  std::vector<PlacedValue> values;
  std::vector<PlacedResult> results;
  std::vector<PlacedDevice> devices;
  std::vector<std::vector<Way>> ways;  // [from][to]
  int queues = 0;                      // that ways name, 0 .. queues - 1

  // At least 1 ns.
  int64_t transfer_ns(const Way& way, int64_t bytes) const;
};

// Where it is fastest, ns.
int64_t least_ns(const PlacedOp& op);
// By operation: the values that it makes.
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

// Throws, naming operation, value and rule, unless the problem is what the above says.
void verify(const PlacementProblem& problem);

// Why a schedule is none, naming what: an operation where it cannot run, a group apart, two at once on a device or
// link, a start before something that is read has come, a transfer that is missing or made twice, an end that is
// another, memory that is exceeded at some time. Empty: it is one. Shares no code with what makes schedules.
std::string why_not(const PlacementProblem& problem, const PlacedSchedule& schedule);

}  // namespace partita
