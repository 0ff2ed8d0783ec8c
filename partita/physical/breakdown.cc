// Divides a step's time by the activity of the busiest device.
#include "partita/physical/breakdown.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/sharding/step.h"

namespace partita {

namespace {

struct Span {
  int64_t from = 0, to = 0;
};

// Spans in ascending order, without overlaps.
std::vector<Span> joined(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.from < b.from; });
  std::vector<Span> out;
  for (const Span& s : spans) {
    if (s.to <= s.from) continue;
    if (!out.empty() && s.from <= out.back().to) out.back().to = std::max(out.back().to, s.to);
    else out.push_back(s);
  }
  return out;
}

int64_t length(const std::vector<Span>& spans) {
  int64_t sum = 0;
  for (const Span& s : spans) sum += s.to - s.from;
  return sum;
}

// Returns the time of `spans` that is in none of `others`; both are joined.
std::vector<Span> without(const std::vector<Span>& spans, const std::vector<Span>& others) {
  std::vector<Span> out;
  size_t o = 0;
  for (Span s : spans) {
    while (o < others.size() && others[o].to <= s.from) ++o;
    for (size_t i = o; i < others.size() && others[i].from < s.to; ++i) {
      if (others[i].from > s.from) out.push_back({s.from, others[i].from});
      s.from = std::max(s.from, std::min(others[i].to, s.to));
    }
    if (s.from < s.to) out.push_back(s);
  }
  return out;
}

bool computes(const PhysicalGraph& graph, const Task& task) {
  return graph.queues[task.queue.index()].kind == QueueKind::kCompute;
}

// "all-reduce", "fetch", "load", "output"; empty: no communication.
std::string kind_of(const PhysicalGraph& graph, const Task& task) {
  if (const auto* participant = std::get_if<CollectiveWork>(&task.work)) return std::string(name_of(participant->kind));
  if (std::holds_alternative<LoadWork>(task.work)) return "load";
  if (std::holds_alternative<OutputWork>(task.work)) return "output";
  if (task.route.empty()) return "";
  const bool to_host = task.device.value >= graph.compute_count;
  const bool from_host = !task.reads.empty() && graph.reg(task.reads[0].reg).device.value >= graph.compute_count;
  return to_host ? "output" : from_host ? "load" : "fetch";
}

// The spans of a step in which each device computes, and those in which it communicates.
struct Times {
  std::vector<std::vector<Span>> compute;                               // by device
  std::vector<std::map<std::string, std::vector<Span>>> communication;  // by device
};

Times times_of(const Trace& trace, const PhysicalGraph& graph) {
  Times times;
  times.compute.resize(static_cast<size_t>(graph.device_count));
  times.communication.resize(static_cast<size_t>(graph.device_count));
  for (const Event& e : trace.events) {
    const Task& task = graph.task(e.task);
    if (computes(graph, task)) {
      times.compute[task.device.index()].push_back({e.start_ns, e.end_ns});
      continue;
    }
    const std::string kind = kind_of(graph, task);
    std::set<DeviceId> ends = {task.device};
    if (std::holds_alternative<CopyWork>(task.work))
      for (const Access& read : task.reads) ends.insert(graph.reg(read.reg).device);
    for (DeviceId d : ends) times.communication[d.index()][kind].push_back({e.start_ns, e.end_ns});
  }
  for (std::vector<Span>& spans : times.compute) spans = joined(std::move(spans));
  return times;
}

// A rank of a pipeline: the virtual stages that are on the same devices.
struct Rank {
  std::vector<DeviceId> devices;
  std::set<int> stages;
};

// Goes by the backward pass, if there is one, since forward results of constants are made on the devices of several
// stages.
std::vector<Rank> ranks_of(const PhysicalGraph& graph) {
  const auto is_backward = [](const Task& task) { return task.phase == Phase::kBackward; };
  const bool trains = std::any_of(graph.tasks.begin(), graph.tasks.end(), is_backward);
  std::vector<std::set<DeviceId>> devices, others;  // by virtual stage
  for (const Task& task : graph.tasks) {
    if (!std::holds_alternative<KernelWork>(task.work)) continue;
    const auto stage = static_cast<size_t>(task.stage);
    if (devices.size() <= stage) devices.resize(stage + 1), others.resize(stage + 1);
    (trains && !is_backward(task) ? others : devices)[stage].insert(task.device);
  }
  for (size_t stage = 0; stage < devices.size(); ++stage)  // a stage without a backward pass
    if (devices[stage].empty()) devices[stage] = others[stage];
  std::vector<Rank> ranks;
  for (size_t stage = 0; stage < devices.size(); ++stage) {
    if (devices[stage].empty()) continue;
    const std::vector<DeviceId> its(devices[stage].begin(), devices[stage].end());
    auto same = std::find_if(ranks.begin(), ranks.end(), [&](const Rank& rank) { return rank.devices == its; });
    if (same == ranks.end()) same = ranks.insert(same, Rank{its, {}});
    same->stages.insert(static_cast<int>(stage));
  }
  return ranks;
}

// Forwards begun less backwards done, at its highest, over all virtual stages of the rank. It is taken on the rank's
// first device, since its devices need not begin and end at the same moments.
int in_flight(const Trace& trace, const PhysicalGraph& graph, const Rank& rank) {
  // By virtual stage and micro-batch: from the first forward kernel's begin to the last backward one's end.
  std::map<std::pair<int, int>, Span> lives;
  for (const Event& e : trace.events) {
    const Task& task = graph.task(e.task);
    if (task.device != rank.devices.front() || task.rate == 1 || !std::holds_alternative<KernelWork>(task.work))
      continue;
    const std::pair what(task.stage, e.firing);
    if (task.phase == Phase::kForward) {
      const auto [at, fresh] = lives.try_emplace(what, Span{e.start_ns, e.end_ns});
      if (!fresh) at->second.from = std::min(at->second.from, e.start_ns);
    }
    if (task.phase != Phase::kUpdate) {
      Span& life = lives.try_emplace(what, Span{e.start_ns, e.end_ns}).first->second;
      life.to = std::max(life.to, e.end_ns);
    }
  }
  int most = 0;
  for (const auto& [what, life] : lives) {
    int now = 0;
    for (const auto& [other, its] : lives) now += its.from <= life.from && life.from < its.to;
    most = std::max(most, now);
  }
  return most;
}

// The device of these that computes longest; the first of equals.
DeviceId busiest(const Times& times, const std::vector<DeviceId>& devices) {
  return *std::max_element(devices.begin(), devices.end(), [&](DeviceId a, DeviceId b) {
    return length(times.compute[a.index()]) < length(times.compute[b.index()]);
  });
}

// `ranks`: of the graph. While another rank than the device's own computes, its idle time is a bubble.
TimeParts parts_of(const Times& times, const std::vector<Rank>& ranks, DeviceId device, int64_t step_ns) {
  TimeParts out{device, length(times.compute[device.index()]), {}, 0, 0};
  std::vector<Span> idle = without({{0, step_ns}}, times.compute[device.index()]);
  for (const auto& [kind, spans] : times.communication[device.index()]) {
    const std::vector<Span> left = without(idle, joined(spans));
    if (const int64_t covered = length(idle) - length(left); covered > 0) out.exposed_ns[kind] = covered;
    idle = left;
  }
  std::vector<Span> others;
  for (const Rank& rank : ranks) {
    if (std::find(rank.devices.begin(), rank.devices.end(), device) != rank.devices.end()) continue;
    for (DeviceId d : rank.devices)
      others.insert(others.end(), times.compute[d.index()].begin(), times.compute[d.index()].end());
  }
  out.waiting_ns = length(without(idle, joined(std::move(others))));
  out.bubble_ns = length(idle) - out.waiting_ns;
  return out;
}

TimeParts extrapolate_time_parts(TimeParts last, const TimeParts& one_fewer, int64_t more, int64_t growth) {
  const int64_t computes = std::max<int64_t>(0, last.compute_ns - one_fewer.compute_ns);
  int64_t left = more * (growth - computes);
  std::vector<std::pair<int64_t*, int64_t>> grown;  // the other terms, and by how much
  int64_t of = 0;
  const auto look = [&](int64_t& ns, int64_t fewer) {
    if (ns > fewer) grown.emplace_back(&ns, ns - fewer), of += ns - fewer;
  };
  for (auto& [kind, ns] : last.exposed_ns) {
    const auto fewer = one_fewer.exposed_ns.find(kind);
    look(ns, fewer == one_fewer.exposed_ns.end() ? 0 : fewer->second);
  }
  look(last.bubble_ns, one_fewer.bubble_ns);
  look(last.waiting_ns, one_fewer.waiting_ns);
  last.compute_ns += more * computes;
  for (const auto& [ns, by] : grown) {  // the last gets the remainder: nothing is lost to rounding
    const double share = static_cast<double>(by) / static_cast<double>(of);
    const int64_t add = by == of ? left : std::llround(static_cast<double>(left) * share);
    *ns += add, left -= add, of -= by;
  }
  if (grown.empty()) last.waiting_ns += left;
  return last;
}

}  // namespace

int64_t TimeParts::step_ns() const {
  int64_t sum = compute_ns + bubble_ns + waiting_ns;
  for (const auto& [kind, ns] : exposed_ns) sum += ns;
  return sum;
}

StepBreakdown breakdown_of(const Trace& trace, const PhysicalGraph& graph) {
  const Times times = times_of(trace, graph);
  const std::vector<Rank> ranks = ranks_of(graph);
  std::vector<DeviceId> all;
  for (int d = 0; d < graph.compute_count; ++d) all.emplace_back(static_cast<size_t>(d));
  StepBreakdown out{parts_of(times, ranks, busiest(times, all), trace.step_time_ns), {}};
  for (const Rank& rank : ranks) {
    StageFigures figures{rank.devices, 0, graph.micro_batches > 1 ? in_flight(trace, graph, rank) : 1,
                         parts_of(times, ranks, busiest(times, rank.devices), trace.step_time_ns)};
    for (DeviceId d : rank.devices)
      figures.peak_memory_bytes = std::max(figures.peak_memory_bytes, graph.peak_bytes[d.index()]);
    out.stages.push_back(std::move(figures));
  }
  return out;
}

StepBreakdown extrapolate_breakdown(StepBreakdown last, const StepBreakdown& one_fewer, int64_t more) {
  ensure(!last.stages.empty() && last.stages.size() == one_fewer.stages.size(), "stages of no kernels, or of others");
  // The step grows by as much as it did, and by no less than a stage computes.
  int64_t growth = std::max<int64_t>(0, last.step_ns() - one_fewer.step_ns());
  for (size_t s = 0; s < last.stages.size(); ++s)
    growth = std::max(growth, last.stages[s].time.compute_ns - one_fewer.stages[s].time.compute_ns);
  for (size_t s = 0; s < last.stages.size(); ++s) {
    StageFigures& stage = last.stages[s];
    stage.time = extrapolate_time_parts(std::move(stage.time), one_fewer.stages[s].time, more, growth);
    stage.in_flight += static_cast<int>(more) * std::max(0, stage.in_flight - one_fewer.stages[s].in_flight);
  }
  const auto longest = std::max_element(
      last.stages.begin(), last.stages.end(),
      [](const StageFigures& a, const StageFigures& b) { return a.time.compute_ns < b.time.compute_ns; });
  static_cast<TimeParts&>(last) = longest->time;
  return last;
}

}  // namespace partita
