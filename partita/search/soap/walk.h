// A walk through the plans of the SOAP space: where it is, what the simulator says of a change, whether that fits, and
// the best plan so far. What searches share that go from plan to plan; where to go next is theirs.
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

// Whether there is a local task graph of the problem, small enough to be asked for often: a step of one part, and not
// very many ops and devices.
bool is_for_a_walk(const Problem& problem);
// Proposals that a walk may make where no budget is given: so many as take some ten seconds, more for small graphs.
int64_t default_steps(const Problem& problem);

struct SoapFound {
  SearchResult result;
  std::optional<int64_t> step_ns;  // of the lowered plan; none: there is no plan, or the watch has ended
};

class SoapWalk {
 public:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  using Units = std::vector<std::pair<int, int64_t>>;  // with the numbers of configurations of their sets

  // It is at the first configuration of each set; whether that fits is not asked.
  SoapWalk(const Problem& problem, const SoapSpace& space, const CostModel& cost, SoapSimulator simulator,
           const Watch& watch);

  // Puts it at this plan, whatever it takes.
  void go_to(const std::vector<int64_t>& numbers);
  // The same if the step takes no longer than this, fits or not. Whether it went.
  bool go_to(const std::vector<int64_t>& numbers, int64_t threshold_ns);
  // Goes there if the step takes no longer than this, and fits. A plan that does not fit gives way to any that is
  // nearer to fitting. Whether it went.
  bool try_change(const Units& units, int64_t threshold_ns);
  // The step after a change of a plan that fits, without going there; nothing where it is longer than this or does not
  // fit.
  std::optional<int64_t> look_at(const Units& units, int64_t threshold_ns);

  // Asks whether the best plan fits, where that was only taken to be so.
  void settle();
  // Whether a plan fits, by the memory planner where that is in doubt; nothing where the watch ends.
  std::optional<bool> fits(const std::vector<int64_t>& numbers);

  const std::vector<int64_t>& numbers() const { return tasks_.numbers(); }
  int64_t ns() const { return ns_; }
  bool fits() const { return memory_.fits; }
  const TaskGraph& graph() const { return tasks_.graph(); }

  // Of all plans that fit.
  int64_t best_ns() const { return best_ns_; }  // kNone: there is none
  const std::vector<int64_t>& best() const { return best_; }
  int64_t least_missing_bytes() const { return least_missing_bytes_; }  // of plans that do not fit
  const std::vector<SearchPoint>& trail() const { return trail_; }
  int64_t proposals() const { return proposals_; }
  int64_t accepted() const { return accepted_; }
  double seconds() const;  // since the walk began

  // A plan in the better order (op_order.h), which is found within `watch`.
  OrderedPlan plan_of(const std::vector<int64_t>& numbers, std::string_view search, const Watch& watch);
  // The best plan in the better order, which is found within `watch`, or the reason why there is none,
  // and the counters. Throws where the walk's watch has ended before there is a plan.
  SoapFound result(std::string_view search, const Watch& watch);
  // Calls Problem::progress where it has been quiet for a while.
  void tell();

 private:
  // By which devices would be over their memory if no two registers shared bytes: all together, and the one that is
  // most (below 0: that has least room).
  struct Over {
    int64_t all_bytes = 0, most_bytes = 0;
  };
  struct Memory {
    bool fits = false;
    bool is_sure = true;     // known, not taken to be so
    int64_t over_bytes = 0;  // Over::all_bytes
  };
  // What the memory planner said last of a plan.
  struct Asked {
    int64_t missing_bytes = 0;  // below 0: room
    int64_t over_bytes = 0;     // Over::most_bytes
  };
  Over over() const;
  std::optional<int64_t> missing_of(const std::vector<int64_t>& numbers);
  Memory memory_of(const std::vector<int64_t>& numbers);
  std::vector<int64_t> changed(const Units& units) const;
  void take(int64_t ns, const Memory& memory);

  const Problem& problem_;
  const SoapSpace& space_;
  const Watch watch_;
  SoapTasks tasks_;
  SoapJudge judge_;
  int64_t ns_ = 0;
  Memory memory_;
  std::optional<Asked> asked_;
  std::map<std::vector<int64_t>, int64_t> missing_;  // what it has said
  int unsure_ = 0;                                   // plans taken to fit since it was asked
  int64_t best_ns_ = kNone, sure_best_ns_ = kNone, least_missing_bytes_ = kNone;
  bool best_is_sure_ = true;
  std::vector<int64_t> sure_best_;
  std::vector<int64_t> best_;
  int64_t proposals_ = 0, accepted_ = 0;
  Watch::Clock::time_point begun_, told_;
  std::clock_t cpu_begun_ = std::clock();
  std::vector<SearchPoint> trail_;
};

}  // namespace partita
