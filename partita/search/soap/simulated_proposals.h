// Returns the simulated time of proposals to a plan of the SOAP space, by one of three simulators of the local task
// graph, for searches. All of them agree.
#pragma once
#include <memory>
#include <optional>
#include <string_view>

#include "partita/search/soap/unit_tasks.h"
#include "partita/task_graph/algorithm2.h"
#include "partita/task_graph/first_come.h"
#include "partita/task_graph/replay.h"

namespace partita {

enum class SoapSimulator {
  kReplay,  // from the proposal's first change of the timeline, no further than the threshold
            // (partita/task_graph/replay.h)
  kFull,    // Algorithm 1, from the beginning
  kDelta,   // FlexFlow's Algorithm 2, corrected (partita/task_graph/algorithm2.h)
};
SoapSimulator parse_soap_simulator(std::string_view text);  // "replay", "full", "delta"

class ProposalSimulator {
 public:
  // Starts at the plan of `tasks`.
  ProposalSimulator(SoapSimulator simulator, const SoapTasks& tasks);

  // Returns the ns of the proposal; nothing if it is above the threshold.
  std::optional<int64_t> ns(const SoapTasks::Changes& changes, int64_t threshold_ns = Replay::kNoThreshold);
  // Accepts the last proposal.
  void keep();

 private:
  SoapSimulator simulator_;
  std::optional<Replay> replay_;
  std::optional<Algorithm2> delta_;
  bool proposed_ = false;  // kDelta: a proposal that has not been kept
  TaskGraph graph_;        // kFull: the current graph, and that of the last proposal
  SoapTasks::Changes before_;
  FlatTasks flat_;
  Timeline timeline_;
};

}  // namespace partita
