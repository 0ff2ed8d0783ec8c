// Finds how much work stands before ops and behind communication, in seconds at peak rates.
#include "partita/schedule/overlap_budget.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "partita/physical/of_parameters.h"

namespace partita {

namespace {

// An op in a pass, on the device on which it takes longest.
struct Worked {
  int place = 0;
  double seconds = 0, before = 0;  // of itself, and of those before it in the pass
};

// The passes of the stages, as their ops are placed.
using Passes = std::map<std::pair<int, Phase>, std::vector<Worked>>;

int place_of(const Task& task, const std::vector<int>& places) {
  return places.empty() ? task.op.value : places[task.op.index()];
}

Passes passes_of(const PhysicalGraph& graph, const PeakTimes& times, const std::vector<int>& places) {
  std::map<std::tuple<int, Phase, int, DeviceId>, double> of_op;  // by stage, phase, place and device
  for (size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    if (times.kernels[t] == 0 || !task.op.valid()) continue;
    of_op[{task.stage, task.phase, place_of(task, places), task.device}] += times.kernels[t];
  }
  Passes passes;
  for (const auto& [key, s] : of_op) {
    const auto& [stage, phase, place, device] = key;
    std::vector<Worked>& pass = passes[{stage, phase}];
    if (pass.empty() || pass.back().place != place) pass.push_back({place, 0, 0});
    pass.back().seconds = std::max(pass.back().seconds, s);
  }
  for (auto& [key, pass] : passes)
    for (size_t i = 1; i < pass.size(); ++i) pass[i].before = pass[i - 1].before + pass[i - 1].seconds;
  return passes;
}

// Sums the kernels of each device, and returns the longest sum.
double longest_s(const PhysicalGraph& graph, const PeakTimes& times) {
  std::map<DeviceId, double> sums;
  for (size_t t = 0; t < graph.tasks.size(); ++t) sums[graph.tasks[t].device] += times.kernels[t];
  double longest = 0;
  for (const auto& [device, sum] : sums) longest = std::max(longest, sum);
  return longest;
}

// A gather is over when its reader begins, and when the next one of the device begins. But if gathers take longer than
// kernels, kernels wait for them however early they stand. So none is ahead by more than kMostAhead of the kernels, or
// than it takes itself.
constexpr double kMostAhead = 1.0 / 16;

void place_gathers(OverlapBudget& budget, const PhysicalGraph& graph, double all_s, const std::vector<int>& places) {
  budget.ahead.assign(graph.tasks.size(), -1);
  const Passes passes = passes_of(graph, budget.times, places);
  std::map<std::tuple<int, Phase, DeviceId>, std::vector<std::pair<int, size_t>>> gathers;  // place of the reader, task
  for (size_t t = 0; t < graph.tasks.size(); ++t)
    if (const Task& task = graph.tasks[t]; is_gather_of_parameters(graph, task) && task.op.valid())
      gathers[{task.stage, task.phase, task.device}].emplace_back(place_of(task, places), t);
  for (auto& [key, its] : gathers) {
    const auto pass = passes.find({std::get<0>(key), std::get<1>(key)});
    if (pass == passes.end()) continue;
    std::sort(its.begin(), its.end());
    auto before = pass->second.end();                       // stands the next one
    double next = std::numeric_limits<double>::infinity();  // begins
    for (size_t i = its.size(); i-- > 0;) {
      const auto& [place, t] = its[i];
      auto reader = std::lower_bound(pass->second.begin(), pass->second.end(), place,
                                     [](const Worked& op, int at) { return op.place < at; });
      if (reader == pass->second.end()) continue;
      const double takes = budget.times.overlap[t];
      next = std::max(std::min(next, reader->before) - takes, reader->before - std::max(takes, kMostAhead * all_s));
      const double begin = std::max(next - budget.spare_s, reader->before - budget.most_s);
      while (reader != pass->second.begin() && reader->before > begin) --reader;
      before = std::min(before, reader);
      budget.ahead[t] = before->place;
    }
  }
}

// A device's kernels, one after the other. Each waits for gathers that it reads.
struct Clock {
  std::vector<double> after;  // seconds, at the end of each of them
  std::vector<int> place;     // of each of them in `order`
  double now() const { return after.empty() ? 0 : after.back(); }
};

// Communication that overlaps kernels, on one of its devices. It begins and ends at these times of the device's clock.
struct Overlapping {
  int place = 0;
  DeviceId device;
  double begin = 0, end = 0;
};

struct Timeline {
  std::vector<Clock> clocks;  // by device
  std::vector<Overlapping> overlapping;
};

Timeline timeline_of(const PhysicalGraph& graph, const NodeTable& table, const OverlapBudget& budget) {
  Timeline line;
  line.clocks.resize(static_cast<size_t>(graph.device_count));
  std::vector<double> free(graph.queues.size(), 0), gathered(graph.registers.size(), 0);
  for (size_t i = 0; i < graph.order.size(); ++i)
    for (const TaskId t : table.members[static_cast<size_t>(table.number(graph.order[i]))]) {
      const Task& task = graph.task(t);
      Clock& clock = line.clocks[task.device.index()];
      const int place = static_cast<int>(i);
      if (const double s = budget.times.kernels[t.index()]; s > 0) {
        double begin = clock.now();
        for (const Access& read : task.reads) begin = std::max(begin, gathered[read.reg.index()]);
        clock.after.push_back(begin + s);
        clock.place.push_back(place);
      }
      const double s = budget.times.overlap[t.index()];
      if (s == 0) continue;
      if (is_of_parameters(graph, task)) {
        double& over = free[task.queue.index()];
        over = std::max(over, clock.now()) + s;
        if (is_gather_of_parameters(graph, task))
          for (const Access& write : task.writes) gathered[write.reg.index()] = over;
        line.overlapping.push_back(
            {place, task.device, clock.now(), std::min(over + budget.spare_s, clock.now() + budget.most_s)});
        continue;
      }
      const double whole = std::min(s + budget.spare_s, budget.most_s);
      line.overlapping.push_back({place, task.device, clock.now() - whole, clock.now() + whole});
      for (const Access& read : task.reads)
        if (const DeviceId from = graph.reg(read.reg).device; from != task.device) {
          const double now = line.clocks[from.index()].now();
          line.overlapping.push_back({place, from, now, now + whole});
        }
    }
  return line;
}

// Holds bytes from the last kernel that has begun by the communication's begin to the first that ends at its end or
// later.
Held overlapped_kernels(const PhysicalGraph& graph, const Timeline& line) {
  Held held(graph.order.size());
  for (const Overlapping& it : line.overlapping) {
    const Clock& clock = line.clocks[it.device.index()];
    HeldBytes bytes{it.device, it.place, it.place};
    if (!clock.place.empty()) {
      const auto last = std::lower_bound(clock.after.begin(), clock.after.end(), it.end);
      bytes.until = std::max(
          it.place, last == clock.after.end() ? clock.place.back() : clock.place[size_t(last - clock.after.begin())]);
      const auto first = std::upper_bound(clock.after.begin(), clock.after.end(), it.begin);
      if (first != clock.after.end())
        bytes.from = std::min(it.place, clock.place[static_cast<size_t>(first - clock.after.begin())]);
    }
    held[static_cast<size_t>(it.place)].push_back(bytes);
  }
  return held;
}

}  // namespace

OverlapBudget overlap_budget(const PhysicalGraph& graph, const PeakTimes& times, double fraction,
                             const std::vector<int>& places) {
  const double all_s = longest_s(graph, times);
  OverlapBudget budget{fraction * all_s, std::min(fraction, kSpareFraction) * all_s, times, {}};
  place_gathers(budget, graph, all_s, places);
  return budget;
}

Held held_bytes(const PhysicalGraph& graph, const NodeTable& table, const OverlapBudget& budget) {
  if (budget.most_s <= 0) return {};
  Held held = overlapped_kernels(graph, timeline_of(graph, table, budget));
  // A task that waits for a reduction, such as an update, is as late as it is.
  std::vector<int> late(graph.registers.size(), -1);
  for (size_t i = 0; i < graph.order.size(); ++i)
    for (const TaskId t : table.members[static_cast<size_t>(table.number(graph.order[i]))]) {
      const Task& task = graph.task(t);
      HeldBytes bytes = held_at(held, static_cast<int>(i), task.device);
      int latest = bytes.until;
      for (const Access& read : task.reads) latest = std::max(latest, late[read.reg.index()]);
      if (latest > bytes.until) {
        std::erase_if(held[i], [&](const HeldBytes& other) { return other.device == task.device; });
        bytes.until = latest;
        held[i].push_back(bytes);
      } else if (!is_reduction_of_parameters(graph, task)) {
        continue;
      }
      for (const Access& write : task.writes) late[write.reg.index()] = latest;
    }
  return held;
}

void set_overlap_budget(LowerOptions& options, OverlapBudget budget) {
  options.gathers_ahead = std::move(budget.ahead);
  options.held = [budget = std::move(budget)](const PhysicalGraph& graph, const NodeTable& table) {
    return held_bytes(graph, table, budget);
  };
}

}  // namespace partita
