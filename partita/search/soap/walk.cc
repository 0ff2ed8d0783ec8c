// Walks from plan to plan of the SOAP space.
#include "partita/search/soap/walk.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/cluster/memory_deficit.h"
#include "partita/search/evaluate.h"
#include "partita/search/soap/op_order.h"

namespace partita {

namespace {

constexpr double kTold = 0.5;                  // seconds
constexpr size_t kMostRemembered = 8'000'000;  // numbers of configurations, of plans that the planner was asked of
constexpr int kMostUnsure = 64;                // plans assumed to fit, one after another
// Kernels of a step, about: for a graph that is small enough, and for all proposals together.
constexpr int64_t kMostKernels = 300'000, kKernelsOfAWalk = 60'000'000;
constexpr int64_t kFewSteps = 200, kManySteps = 50'000;

int64_t kernels_of(const Problem& problem) {
  return static_cast<int64_t>(problem.graph.ops.size()) * problem.cluster.compute_count;
}

SoapWalk::Units all_of(const std::vector<int64_t>& numbers) {
  SoapWalk::Units all;
  for (size_t u = 0; u < numbers.size(); ++u) all.emplace_back(static_cast<int>(u), numbers[u]);
  return all;
}

}  // namespace

bool is_for_a_walk(const Problem& problem) {
  return problem.graph.micro_batches() == 1 && kernels_of(problem) <= kMostKernels;
}

int64_t default_steps(const Problem& problem) {
  return std::clamp(kKernelsOfAWalk / std::max<int64_t>(1, kernels_of(problem)), kFewSteps, kManySteps);
}

SoapWalk::SoapWalk(const Problem& problem, const SoapSpace& space, const CostModel& cost, SoapSimulator simulator,
                   const Watch& watch)
    : problem_(problem),
      space_(space),
      watch_(watch),
      tasks_(problem, cost, space),
      simulator_(simulator, tasks_),
      begun_(Watch::Clock::now()),
      told_(begun_) {
  ns_ = *simulator_.ns({});
  memory_.over_bytes = over().all_bytes;
}

double SoapWalk::seconds() const { return std::chrono::duration<double>(Watch::Clock::now() - begun_).count(); }

SoapWalk::Over SoapWalk::over() const {
  const std::vector<int64_t> most = tasks_.most_bytes();
  Over over{0, std::numeric_limits<int64_t>::min()};
  for (int d = 0; d < problem_.cluster.compute_count; ++d) {
    const int64_t bytes =
        memory_deficit(most[static_cast<size_t>(d)], problem_.cluster.devices[static_cast<size_t>(d)]);
    over.all_bytes += std::max<int64_t>(0, bytes);
    over.most_bytes = std::max(over.most_bytes, bytes);
  }
  return over;
}

// The memory of the proposal with these configurations. If it is uncertain, the memory planner is asked, which takes a
// tenth of a second or more. But as long as its last answer left more memory than all registers have grown by since,
// the plan is assumed to fit, so many times.
SoapWalk::Memory SoapWalk::memory_of(const std::vector<int64_t>& numbers) {
  const Over now = over();
  if (now.all_bytes == 0) return {true, true, 0};
  if (asked_ && memory_.fits && unsure_ < kMostUnsure &&
      asked_->deficit_bytes + now.most_bytes - asked_->over_bytes < 0)
    return {true, false, now.all_bytes};
  const std::optional<int64_t> missing = deficit_of(numbers);
  if (missing) asked_ = {*missing, now.most_bytes};
  return {missing && *missing <= 0, true, now.all_bytes};
}

// Asks the memory planner; nothing if the watch ends.
std::optional<int64_t> SoapWalk::deficit_of(const std::vector<int64_t>& numbers) {
  if (const auto known = missing_.find(numbers); known != missing_.end()) return known->second;
  try {
    const int64_t missing = memory_deficit(problem_, tasks_.plan(numbers, "soap"), watch_);
    if (missing_.size() * numbers.size() >= kMostRemembered) missing_.clear();
    missing_.emplace(numbers, missing);
    if (missing > 0) least_deficit_bytes_ = std::min(least_deficit_bytes_, missing);
    return missing;
  } catch (const Error& error) {
    if (!is_end(error)) throw;
    return std::nullopt;
  }
}

std::optional<bool> SoapWalk::fits(const std::vector<int64_t>& numbers) {
  tasks_.propose(all_of(numbers));
  if (over().all_bytes == 0) return true;
  const std::optional<int64_t> missing = deficit_of(numbers);
  if (!missing) return std::nullopt;
  return *missing <= 0;
}

// Asks about the best plan, if it was only assumed to fit. If it does not, the walk goes back to the last one that is
// known to.
void SoapWalk::settle() {
  if (best_is_sure_ || best_ns_ == kNone) return;
  const std::optional<int64_t> missing = deficit_of(best_);
  best_is_sure_ = true;
  if (missing && *missing <= 0) {
    sure_best_ = best_;
    sure_best_ns_ = best_ns_;
    return;
  }
  best_ = sure_best_;
  best_ns_ = sure_best_ns_;
  while (!trail_.empty() && trail_.back().cost < best_ns_) trail_.pop_back();
  memory_.fits = false;
  if (best_ns_ == kNone) return;
  const int64_t ns = *simulator_.ns(tasks_.propose(all_of(best_)));
  take(ns, {true, true, over().all_bytes});
}

void SoapWalk::take(int64_t ns, const Memory& memory) {
  tasks_.keep();
  simulator_.keep();
  ns_ = ns;
  memory_ = memory;
  unsure_ = memory.is_sure ? 0 : unsure_ + 1;
  if (!memory.fits || ns >= best_ns_) return;
  best_ns_ = ns;
  best_ = tasks_.numbers();
  best_is_sure_ = memory.is_sure;
  if (best_is_sure_) sure_best_ns_ = ns, sure_best_ = best_;
  trail_.push_back({proposals_, static_cast<double>(std::clock() - cpu_begun_) / CLOCKS_PER_SEC, ns});
}

void SoapWalk::go_to(const std::vector<int64_t>& numbers) {
  const int64_t ns = *simulator_.ns(tasks_.propose(all_of(numbers)));
  take(ns, memory_of(numbers));
}

bool SoapWalk::go_to(const std::vector<int64_t>& numbers, int64_t threshold_ns) {
  const SoapTasks::Changes* const changes = tasks_.propose_within(all_of(numbers), threshold_ns);
  const std::optional<int64_t> ns = changes ? simulator_.ns(*changes, threshold_ns) : std::nullopt;
  if (!ns) return false;
  take(*ns, memory_of(numbers));
  return true;
}

std::vector<int64_t> SoapWalk::changed(const Units& units) const {
  std::vector<int64_t> numbers = tasks_.numbers();
  for (const auto& [unit, number] : units) numbers[static_cast<size_t>(unit)] = number;
  return numbers;
}

std::optional<int64_t> SoapWalk::look_at(const Units& units, int64_t threshold_ns) {
  ensure(memory_.fits, "a change of a plan that does not fit");
  const std::optional<int64_t> ns = simulator_.ns(tasks_.propose(units), threshold_ns);
  return ns && memory_of(changed(units)).fits ? ns : std::nullopt;
}

bool SoapWalk::try_change(const Units& units, int64_t threshold_ns) {
  ++proposals_;
  const SoapTasks::Changes& changes = tasks_.propose(units);
  if (!memory_.fits && over().all_bytes >= memory_.over_bytes) return false;
  const std::optional<int64_t> ns = simulator_.ns(changes, memory_.fits ? threshold_ns : Replay::kNoThreshold);
  if (!ns) return false;
  const Memory memory = memory_of(changed(units));
  if (memory_.fits && !memory.fits) {
    if (!memory_.is_sure) settle();
    return false;
  }
  ++accepted_;
  take(*ns, memory);
  return true;
}

void SoapWalk::tell() {
  if (!problem_.progress) return;
  const auto now = Watch::Clock::now();
  if (std::chrono::duration<double>(now - told_).count() < kTold) return;
  told_ = now;
  problem_.progress({.cost = best_ns_ == kNone ? std::nullopt : std::optional(best_ns_),
                     .bound = std::nullopt,
                     .seconds = seconds()});
}

OrderedPlan SoapWalk::plan_of(const std::vector<int64_t>& numbers, std::string_view search, const Watch& watch) {
  TaskGraph graph = tasks_.graph();
  for (const auto& [slot, fragment] : tasks_.propose(all_of(numbers)))
    graph.fragments[static_cast<size_t>(slot)] = fragment;
  return with_better_order(problem_, tasks_.plan(numbers, search), graph, over().all_bytes == 0, watch);
}

SoapFound SoapWalk::result(std::string_view search, const Watch& watch) {
  settle();
  SoapFound found;
  SearchResult& result = found.result;
  result.counters = {{"units", static_cast<double>(space_.units.size())},
                     {"proposals", static_cast<double>(proposals_)},
                     {"accepted", static_cast<double>(accepted_)},
                     {"op_fragments", static_cast<double>(tasks_.counters().op_fragments)},
                     {"tensor_fragments", static_cast<double>(tasks_.counters().tensor_fragments)}};
  if (best_ns_ == kNone) {
    if (watch_.ended()) watch_.give_up("before there was a plan that fits");
    result.reason = fmt::format("no plan that it looked at fits: the nearest has {} missing on one device",
                                megabytes(static_cast<double>(least_deficit_bytes_)));
    return found;
  }
  OrderedPlan ordered = plan_of(best_, search, watch);
  found.step_ns = ordered.step_ns;
  result.plan = std::move(ordered.plan);
  result.plan->paper_cost = static_cast<double>(best_ns_) / 1e3;
  result.local_ns = best_ns_;
  result.trail = trail_;
  return found;
}

}  // namespace partita
