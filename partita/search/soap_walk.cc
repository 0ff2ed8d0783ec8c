// Goes from plan to plan of the SOAP space.
#include "partita/search/soap_walk.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/search/refine.h"
#include "partita/search/soap_order.h"

namespace partita {

namespace {

constexpr double kTold = 0.5;  // seconds
// Kernels of a step, about: of a graph that is small enough, and of all proposals together.
constexpr int64_t kMostKernels = 300'000, kKernelsOfAWalk = 60'000'000;
constexpr int64_t kFewSteps = 200, kManySteps = 50'000;

int64_t kernels_of(const Problem& problem) {
  return static_cast<int64_t>(problem.graph.ops.size()) * problem.cluster.compute_count;
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
      judge_(simulator, tasks_),
      begun_(Watch::Clock::now()),
      told_(begun_) {
  go_to(tasks_.numbers());
}

double SoapWalk::seconds() const { return std::chrono::duration<double>(Watch::Clock::now() - begun_).count(); }

int64_t SoapWalk::over_bytes() const {
  const std::vector<int64_t> most = tasks_.most_bytes();
  int64_t over = 0;
  for (int d = 0; d < problem_.cluster.compute_count; ++d)
    over += std::max<int64_t>(
        0, most[static_cast<size_t>(d)] - problem_.cluster.devices[static_cast<size_t>(d)].memory_bytes);
  return over;
}

// Of the proposal, whose configurations these are. Where it is not certain, the memory planner is asked.
SoapWalk::Memory SoapWalk::memory_of(const std::vector<int64_t>& numbers) {
  Memory memory{true, over_bytes()};
  if (memory.over_bytes == 0) return memory;
  const int64_t missing = missing_bytes(problem_, tasks_.plan(numbers, "soap"), watch_);
  memory.fits = missing <= 0;
  if (!memory.fits) least_missing_bytes_ = std::min(least_missing_bytes_, missing);
  return memory;
}

void SoapWalk::take(int64_t ns, const Memory& memory) {
  tasks_.keep();
  judge_.keep();
  ns_ = ns;
  memory_ = memory;
  if (!memory.fits || ns >= best_ns_) return;
  best_ns_ = ns;
  best_ = tasks_.numbers();
  trail_.push_back({proposals_, static_cast<double>(std::clock() - cpu_begun_) / CLOCKS_PER_SEC, ns});
}

void SoapWalk::go_to(const std::vector<int64_t>& numbers) {
  Units all;
  for (size_t u = 0; u < numbers.size(); ++u) all.emplace_back(static_cast<int>(u), numbers[u]);
  const int64_t ns = *judge_.ns(tasks_.propose(all));
  take(ns, memory_of(numbers));
}

std::vector<int64_t> SoapWalk::changed(const Units& units) const {
  std::vector<int64_t> numbers = tasks_.numbers();
  for (const auto& [unit, number] : units) numbers[static_cast<size_t>(unit)] = number;
  return numbers;
}

std::optional<int64_t> SoapWalk::look_at(const Units& units, int64_t threshold_ns) {
  ensure(memory_.fits, "a change of a plan that does not fit");
  const std::optional<int64_t> ns = judge_.ns(tasks_.propose(units), threshold_ns);
  return ns && memory_of(changed(units)).fits ? ns : std::nullopt;
}

bool SoapWalk::try_change(const Units& units, int64_t threshold_ns) {
  ++proposals_;
  const SoapTasks::Changes& changes = tasks_.propose(units);
  if (!memory_.fits && over_bytes() >= memory_.over_bytes) return false;
  const std::optional<int64_t> ns = judge_.ns(changes, memory_.fits ? threshold_ns : Replay::kNoThreshold);
  if (!ns) return false;
  const Memory memory = memory_of(changed(units));
  if (memory_.fits && !memory.fits) return false;
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
  Units all;
  for (size_t u = 0; u < numbers.size(); ++u) all.emplace_back(static_cast<int>(u), numbers[u]);
  TaskGraph graph = tasks_.graph();
  for (const auto& [slot, fragment] : tasks_.propose(all)) graph.fragments[static_cast<size_t>(slot)] = fragment;
  return with_better_order(problem_, tasks_.plan(numbers, search), graph, over_bytes() == 0, watch);
}

SearchResult SoapWalk::result(std::string_view search, const Watch& watch) {
  SearchResult result;
  result.counters = {{"units", static_cast<double>(space_.units.size())},
                     {"proposals", static_cast<double>(proposals_)},
                     {"accepted", static_cast<double>(accepted_)},
                     {"op_fragments", static_cast<double>(tasks_.counters().op_fragments)},
                     {"tensor_fragments", static_cast<double>(tasks_.counters().tensor_fragments)}};
  if (best_ns_ == kNone) {
    if (watch_.ended()) watch_.give_up("before there was a plan that fits");
    result.reason = fmt::format("no plan that it looked at fits: the nearest has {} bytes missing on one device",
                                least_missing_bytes_);
    return result;
  }
  result.plan = plan_of(best_, search, watch).plan;
  result.plan->paper_cost = static_cast<double>(best_ns_) / 1e3;
  result.local_ns = best_ns_;
  result.trail = trail_;
  return result;
}

}  // namespace partita
