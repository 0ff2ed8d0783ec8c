// Defines the interface of every search: a Problem in, a plan and the facts about it out. A search is a free function;
// partita/search/all/searches.h lists them.
//
// Worked example: the plan of fewest bytes that `soybean` finds for a training step on four devices.
//
//   const SearchChoice choice = parse_search("soybean?tilings=all");
//   Rng rng(1);
//   const SearchResult found =
//       choice.entry->search({.graph = graph, .cluster = load_cluster("local:4"), .options = choice.options},
//                            {.seconds = 10}, rng);
//   if (!found.plan) fail("{}", found.reason);
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/rng.h"
#include "partita/base/watch.h"
#include "partita/plan/constraints.h"
#include "partita/plan/plan.h"

namespace partita {

struct BoundProof;

// The objective of a plan.
enum class Objective {
  kComm,  // bytes moved between devices, which the checker counts
  kTime,  // the ns of the step, which the simulator predicts
};
std::string text_of(Objective objective);  // "comm", "time": in plan files, proofs and on the command line
std::optional<Objective> objective_of(std::string_view text);  // empty: neither

// The progress that a search can report. Costs are bytes; for Objective::kTime, ns of a plan's parts one after another;
// for searches by time (SearchEntry::measure), ns of a step.
struct SearchProgress {
  std::optional<int64_t> cost;   // of the best plan so far
  std::optional<int64_t> bound;  // proved so far, for every plan of the search's space
  double seconds = 0;            // since the search began
};

struct Problem {
  const Graph& graph;
  const Cluster& cluster;
  Objective objective = Objective::kComm;
  Constraints constraints = {};
  std::map<std::string, std::string> options = {};  // from --search 'NAME?key=value,..', with defaults filled in
  // An initial plan, which the checker accepts. Only a search with SearchEntry::warm reads it. If it fits and
  // satisfies the constraints, no dearer plan is returned.
  const Plan* from = nullptr;
  bool prove = false;  // makes the proof of the lower bound
  // Called now and then, from the search's own thread.
  std::function<void(const SearchProgress&)> progress = nullptr;
  // Makes the same training step with another number of samples. Empty: impossible.
  std::function<Graph(int64_t samples)> with_batch = nullptr;
  // Hears the current stage of a search of several parts: one line each, from the search's own thread.
  std::function<void(const std::string&)> tell = nullptr;
  int64_t bucket_bytes = 0;  // Plan::bucket_bytes with which plans are simulated; 0 if they do not fit so

  bool in_time() const { return objective == Objective::kTime; }
};

// A search stops at whichever limit comes first, with the best plan so far. Without any limit it runs to its end. If it
// has no plan yet, it throws: exit code 130 after `stop`, else 5.
struct Budget {
  std::optional<double> seconds;
  std::optional<int64_t> steps;
  const std::atomic<bool>* stop = nullptr;  // becomes true when Ctrl-C is pressed, for example
  double gap = 0;                           // relative: a plan proved to be this near to the least cost is enough
  std::optional<Watch::Clock::time_point> deadline =
      std::nullopt;  // replaces `seconds`, which count from the beginning

  bool stopped() const { return stop && *stop; }
  // The part of the remaining time for the first solution, once there is a network to solve. All of it is used if that
  // time found no plan that fits. Only `exact` reads it.
  double share = 1;

  Watch watch() const;  // call it when the search begins
};

// A copy of Problem::from without its paper_cost, which is another search's. None: there is no such plan, or it does
// not keep the pins.
std::optional<Plan> initial_plan(const Problem& problem);

// The cost on the cluster, by the simulator, of a way of training that no Plan can express.
struct Estimate {
  int64_t batch = 0;  // samples a step, all devices together
  int64_t step_time_ns = 0;
  int64_t peak_memory_bytes = 0;  // on the device with the highest peak
  int64_t host_bytes = 0;  // moved between devices and their hosts in a step: all devices, both ways, without inputs
};

// A plan of another search, by name as the command line takes it.
struct Alternative {
  std::string search;
  int64_t step_time_ns = 0, comm_bytes = 0;
};

// The time at which a search had found a plan better than all before.
struct SearchPoint {
  int64_t proposals = 0;
  double cpu_seconds = 0;  // of the process, since the search began
  int64_t cost = 0;
};

struct SearchResult {
  std::optional<Plan> plan;
  std::optional<Estimate> estimate;  // in place of a plan
  std::string reason;                // why there is no plan
  // From auto, for Objective::kComm: among the rules' plans that fit, the one whose simulated step is the shortest.
  // They have two seconds in all; plans beyond these are not looked at.
  std::optional<Alternative> fastest_rule;
  // Lower bounds, proved for every plan of the search's space: one for each objective. The second bounds serial_ns
  // (partita/cost/isolated_costs.h), not the time of the step.
  std::optional<int64_t> lower_bound_comm_bytes, lower_bound_serial_ns;
  // From searches that place operations whole: no schedule of them takes less (partita/device_placement/bounds.h).
  std::optional<int64_t> lower_bound_step_ns;
  std::shared_ptr<BoundProof> proof;  // if Problem::prove requests one (partita/search/joint/bound_proof.h)
  std::vector<SearchPoint> trail;     // from searches that go from plan to plan: each time that the best became better
  std::map<std::string, double> counters;  // numbers of items that the search looked at, by name
  std::vector<std::string> notes;          // lines for the reader: "cut 1 over 2: delta 7.2 MB"
  // From searches by the local task graph (partita/task_graph/local_tasks.h): the plan's step by its own, and a lower
  // bound for every plan of the space, if known (partita/search/soap/bound.h).
  std::optional<int64_t> local_ns, local_lower_bound_ns;
  std::string local_lower_bound_note;  // the one of `notes` that says this bound
};

// Throws Error if the budget ends without a plan, or the problem cannot be one of this search.
using Searcher = SearchResult(const Problem& problem, const Budget& budget, Rng& rng);

}  // namespace partita
