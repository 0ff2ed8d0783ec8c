// Walks through the plans of the SOAP space, for all local searches there. It keeps the current plan, simulates a move,
// checks that it fits, and remembers the best plan. The searches choose the moves.
//
// Worked example: at a plan of 10 ms, try_change({{3, 17}}, 10'100'000) asks for unit 3 in configuration 17 of its set.
// If the step then takes 10.05 ms and fits, the walk is there, and says so.
#pragma once
#include <cstdint>
#include <ctime>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "partita/search/search.h"
#include "partita/search/soap/op_order.h"
#include "partita/search/soap/simulated_proposals.h"

namespace partita {

// Tells whether the problem's local task graph is small enough for frequent simulation: a step without micro-batches,
// and not very many ops and devices.
bool is_for_a_walk(const Problem& problem);
// Returns the number of proposals of a walk without a budget: some ten seconds, more for small graphs.
int64_t default_steps(const Problem& problem);

struct SoapFound {
  SearchResult result;
  std::optional<int64_t> step_ns;  // of the lowered plan; none: there is no plan, or the watch has ended
};

class SoapWalk {
 public:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  using Units = std::vector<std::pair<int, int64_t>>;  // with the numbers of configurations of their sets

  // Starts at the first configuration of each set; whether that fits is not asked.
  SoapWalk(const Problem& problem, const SoapSpace& space, const CostModel& cost, SoapSimulator simulator,
           const Watch& watch);

  // Moves to this plan, of any time.
  void go_to(const std::vector<int64_t>& numbers);
  // Moves there if the step takes no longer than the threshold, whether it fits or not. Returns whether it did.
  bool go_to(const std::vector<int64_t>& numbers, int64_t threshold_ns);
  // Moves there if the step takes no longer than the threshold, and fits. From a plan that does not fit it moves to any
  // with a smaller deficit. Returns whether it did.
  bool try_change(const Units& units, int64_t threshold_ns);
  // Returns the step after a move of a plan that fits, without making it. It returns nothing if the step is longer than
  // the threshold or does not fit.
  std::optional<int64_t> look_at(const Units& units, int64_t threshold_ns);

  // Asks whether the best plan fits, if that was only assumed.
  void settle();
  // Tells whether a plan fits, by the memory planner if that is in doubt; nothing if the watch ends.
  std::optional<bool> fits(const std::vector<int64_t>& numbers);

  const std::vector<int64_t>& numbers() const { return tasks_.numbers(); }
  int64_t ns() const { return ns_; }
  bool fits() const { return memory_.fits; }
  const TaskGraph& task_graph() const { return tasks_.graph(); }

  int64_t best_ns() const { return best_ns_; }  // over all plans that fit; kNone: there is none
  const std::vector<int64_t>& best() const { return best_; }
  int64_t least_deficit_bytes() const { return least_deficit_bytes_; }  // of plans that do not fit
  const std::vector<SearchPoint>& trail() const { return trail_; }
  int64_t proposals() const { return proposals_; }
  int64_t accepted() const { return accepted_; }
  double seconds() const;  // since the walk began

  // Returns a plan in the better order (op_order.h), found within `watch`.
  OrderedPlan plan_of(const std::vector<int64_t>& numbers, std::string_view search, const Watch& watch);
  // Returns the best plan in the better order, found within `watch`, or the reason why there is none, and the counters.
  // Throws if the walk's watch has ended before there is a plan.
  SoapFound result(std::string_view search, const Watch& watch);
  // Calls Problem::progress if it has been quiet for a while.
  void tell();

 private:
  // Bytes that devices would exceed their memory by if no two registers shared bytes: all together, and the largest
  // (below 0: the least memory left).
  struct Over {
    int64_t all_bytes = 0, most_bytes = 0;
  };
  struct Memory {
    bool fits = false;
    bool is_sure = true;     // known, not assumed
    int64_t over_bytes = 0;  // Over::all_bytes
  };
  // The memory planner's last answer about a plan.
  struct Asked {
    int64_t deficit_bytes = 0;  // below 0: memory left
    int64_t over_bytes = 0;     // Over::most_bytes
  };
  Over over() const;
  std::optional<int64_t> deficit_of(const std::vector<int64_t>& numbers);
  Memory memory_of(const std::vector<int64_t>& numbers);
  std::vector<int64_t> changed(const Units& units) const;
  void take(int64_t ns, const Memory& memory);

  const Problem& problem_;
  const SoapSpace& space_;
  const Watch watch_;
  SoapTasks tasks_;
  ProposalSimulator simulator_;
  int64_t ns_ = 0;
  Memory memory_;
  std::optional<Asked> asked_;
  std::map<std::vector<int64_t>, int64_t> missing_;  // its answers
  int unsure_ = 0;                                   // plans assumed to fit since it was asked
  int64_t best_ns_ = kNone, sure_best_ns_ = kNone, least_deficit_bytes_ = kNone;
  bool best_is_sure_ = true;
  std::vector<int64_t> sure_best_;
  std::vector<int64_t> best_;
  int64_t proposals_ = 0, accepted_ = 0;
  Watch::Clock::time_point begun_, told_;
  std::clock_t cpu_begun_ = std::clock();
  std::vector<SearchPoint> trail_;
};

}  // namespace partita
