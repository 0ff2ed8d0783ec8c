#include "partita/cost/alone.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "partita/base/error.h"
#include "partita/physical/lower.h"
#include "partita/physical/segments.h"
#include "partita/plan/resolve.h"

namespace partita {

namespace {

bool meet(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int x) { return std::binary_search(b.begin(), b.end(), x); });
}

bool any_meet(const std::vector<Job>& jobs) {
  std::set<int> occupied;
  for (const Job& job : jobs)
    for (int x : job.occupies)
      if (!occupied.insert(x).second) return true;
  return false;
}

Duration times(const Duration& d, double n) { return {n * d.fixed_ns, n * d.moving_ns}; }

// Of jobs that take equally long, in how many rounds they run: each takes, in order, all that do not meet those that it
// has taken.
int rounds_of(std::vector<Job> jobs) {
  int rounds = 0;
  for (; !jobs.empty(); ++rounds) {
    std::vector<Job> waiting;
    std::set<int> occupied;
    for (Job& job : jobs)
      if (std::any_of(job.occupies.begin(), job.occupies.end(), [&](int x) { return occupied.contains(x); }))
        waiting.push_back(std::move(job));
      else occupied.insert(job.occupies.begin(), job.occupies.end());
    jobs = std::move(waiting);
  }
  return rounds;
}

// What only lengthens the rest is left out; jobs that meet and take equally long become one.
void simplify(std::vector<Job>& jobs) {
  if (jobs.empty()) return;
  const bool meeting = any_meet(jobs);
  auto equal = [&](const Job& j) {
    return j.duration.fixed_ns == jobs[0].duration.fixed_ns && j.duration.moving_ns == jobs[0].duration.moving_ns;
  };
  if (meeting && !std::all_of(jobs.begin(), jobs.end(), equal)) return;
  if (meeting) jobs[0].duration = times(jobs[0].duration, rounds_of(jobs));
  else
    std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
      return a.duration.moving_ns != b.duration.moving_ns ? a.duration.moving_ns > b.duration.moving_ns
                                                          : a.duration.fixed_ns > b.duration.fixed_ns;
    });
  std::vector<Job> longest;
  for (Job& job : jobs)
    if (longest.empty() || job.duration.fixed_ns > longest.back().duration.fixed_ns)
      longest.push_back({{}, job.duration});
  if (meeting) longest.resize(1);
  jobs = std::move(longest);
}

double ns(const Job& job, double element_bytes) {
  return job.duration.fixed_ns + element_bytes * job.duration.moving_ns;
}

// Until the last has ended, as the simulator runs them: whenever one ends, all that can start do, in order.
double makespan(const std::vector<Job>& jobs, double element_bytes) {
  if (!any_meet(jobs)) {
    double longest = 0;
    for (const Job& job : jobs) longest = std::max(longest, ns(job, element_bytes));
    return longest;
  }
  std::vector<const Job*> waiting;
  for (const Job& job : jobs) waiting.push_back(&job);
  std::vector<std::pair<double, const Job*>> running;
  double now = 0;
  while (!waiting.empty() || !running.empty()) {
    std::vector<const Job*> later;
    for (const Job* job : waiting)
      if (std::any_of(running.begin(), running.end(),
                      [&](const auto& r) { return meet(r.second->occupies, job->occupies); }))
        later.push_back(job);
      else running.emplace_back(now + ns(*job, element_bytes), job);
    waiting = std::move(later);
    now = std::min_element(running.begin(), running.end())->first;
    std::erase_if(running, [&](const auto& r) { return r.first <= now; });
  }
  return now;
}

// Over as few factors an axis as it can be: layouts that place alike are then the same.
Layout coarse(const Layout& layout) {
  Layout out = layout;
  const Shape shape = layout.shape();
  for (size_t a = 0; a < shape.size(); ++a) {
    if (out.radices[a].size() == 1) continue;
    std::vector<Shape> radices = out.radices;
    radices[a] = {shape[a]};
    if (auto fewer = over_radices(out, radices)) out = std::move(*fewer);
  }
  return out;
}

uint64_t both(int a, int b) { return static_cast<uint64_t>(a) << 32 | static_cast<uint32_t>(b); }

int64_t whole(double ns) { return std::llround(ns); }

}  // namespace

StepTime::StepTime(const Step& step, const CostModel& cost) {
  if (step.kind == StepKind::kLocal || step.kind == StepKind::kFetch) add_pieces(step, cost);
  else add_rings(step, cost);
  simplify(jobs_);
  simplify(after_);
  straight_ = jobs_.size() <= 1 && after_.size() <= 1;
  for (const std::vector<Job>* jobs : {&jobs_, &after_})
    if (straight_ && !jobs->empty()) {
      line_.fixed_ns += jobs->front().duration.fixed_ns;
      line_.moving_ns += jobs->front().duration.moving_ns;
    }
}

double StepTime::ns(double element_bytes) const {
  return makespan(jobs_, element_bytes) + makespan(after_, element_bytes);
}

void StepTime::add_pieces(const Step& step, const CostModel& cost) {
  const Cluster& cluster = cost.cluster();
  std::map<int, Duration> links, devices;
  auto add = [](Duration& sum, const Duration& d) {
    sum.fixed_ns += d.fixed_ns;
    sum.moving_ns += d.moving_ns;
  };
  const std::vector<Target> targets = targets_of(step);
  for (size_t p = 0; p < targets.size(); ++p) {
    const Target& target = targets[p];
    if (target.view) continue;
    const DeviceId device = step.to.mesh.devices[p];
    for (const Piece* piece : target.pieces) {
      const DeviceId source = step.from.mesh.devices[piece->source];
      const auto bytes = static_cast<double>(volume(piece->box));
      if (source != device)
        add(links[cluster.narrowest(source, device).value], cost.transfer(cluster.route(source, device), bytes));
      else if (!target.combine) add(devices[device.value], cost.copy(device, 2 * bytes));
    }
    if (!target.combine) continue;
    after_.push_back({{device.value},
                      cost.copy(device, static_cast<double>(volume(step.to.boxes[p])) *
                                            static_cast<double>(1 + target.pieces.size()))});
  }
  for (const auto& [link, duration] : links) jobs_.push_back({{link}, duration});
  const int links_end = static_cast<int>(cluster.links.size());
  for (const auto& [device, duration] : devices) jobs_.push_back({{links_end + device}, duration});
}

void StepTime::add_rings(const Step& step, const CostModel& cost) {
  const Cluster& cluster = cost.cluster();
  for (const std::vector<int>& group : step.groups) {
    const double bytes = static_cast<double>(step.bytes) / static_cast<double>(step.groups.size() * group.size());
    std::vector<std::vector<LinkId>> routes;
    std::vector<Hop> hops;
    std::set<int> narrowest;
    for (size_t r = 0; r < group.size(); ++r) {
      const DeviceId device = step.to.mesh.devices[group[r]],
                     after = step.to.mesh.devices[group[(r + 1) % group.size()]];
      routes.push_back(cluster.route(device, after));
      if (device != after) narrowest.insert(cluster.narrowest(device, after).value);
    }
    for (const std::vector<LinkId>& route : routes) hops.push_back({&route, bytes});
    jobs_.push_back({{narrowest.begin(), narrowest.end()}, cost.ring(step.kind, hops)});
  }
}

ConversionTimes::ConversionTimes(const Cluster& cluster) : cost_(cluster), converter_(cluster) {}

int64_t ConversionTimes::Time::ns(double scale) const {
  double sum = line.fixed_ns + scale * line.moving_ns;
  for (const auto& step : steps) sum += step->ns(scale);
  return whole(sum);
}

std::shared_ptr<const StepTime> ConversionTimes::step(int from, int to) {
  std::shared_ptr<const StepTime>& known = steps_[both(from, to)];
  if (!known) known = std::make_shared<const StepTime>(converter_.step(from, to, 1), cost_);
  return known;
}

const ConversionTimes::Time& ConversionTimes::time(int from, int to) {
  const auto [found, fresh] = times_.try_emplace(both(from, to));
  Time& time = found->second;
  if (!fresh) return time;
  const std::vector<int> through = converter_.through(from, to);
  for (size_t i = 1; i < through.size(); ++i) {
    std::shared_ptr<const StepTime> one = step(through[i - 1], through[i]);
    if (const Duration* line = one->straight()) {
      time.line.fixed_ns += line->fixed_ns;
      time.line.moving_ns += line->moving_ns;
    } else {
      time.steps.push_back(std::move(one));
    }
  }
  return time;
}

int64_t ConversionTimes::ns(const Layout& from, const Layout& to, int64_t element_bytes) {
  std::vector<Layout> ends = {coarse(from), coarse(to)};
  const int64_t scale = ends[0].mesh == ends[1].mesh && ends[0].radices == ends[1].radices ? shorten(ends) : 1;
  const int f = converter_.number(ends[0]), t = converter_.number(ends[1]);
  return time(f, t).ns(static_cast<double>(scale * element_bytes));
}

std::vector<int64_t> ConversionTimes::table(const std::vector<Layout>& layouts, const std::vector<int>& from,
                                            const std::vector<int>& to, int64_t element_bytes) {
  std::vector<int64_t> out;
  if (from.empty() || to.empty()) return out;
  out.reserve(from.size() * to.size());
  std::vector<Layout> all;
  for (const Layout& l : layouts) all.push_back(coarse(l));
  const bool alike = std::all_of(all.begin(), all.end(),
                                 [&](const Layout& l) { return l.radices == all[0].radices && l.mesh == all[0].mesh; });
  if (!alike) {
    for (int f : from)
      for (int t : to) out.push_back(ns(all[f], all[t], element_bytes));
    return out;
  }
  const auto scale = static_cast<double>(shorten(all) * element_bytes);
  std::vector<int> numbers;
  for (const Layout& l : all) numbers.push_back(converter_.number(l));
  for (int f : from)
    for (int t : to) out.push_back(time(numbers[f], numbers[t]).ns(scale));
  return out;
}

int64_t ConversionTimes::inner_ns(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                                  int64_t element_bytes) {
  int64_t sum = 0;
  for_each_inner_conversion(bound, derived, mesh,
                            [&](size_t, const Layout& from, const Layout& to) { sum += ns(from, to, element_bytes); });
  return sum;
}

int64_t ConversionTimes::load_ns(const Layout& home, int64_t element_bytes) const {
  return with_hosts_ns(layout_on_hosts(home, cost_.cluster()), home, element_bytes);
}
int64_t ConversionTimes::give_ns(const Layout& home, int64_t element_bytes) const {
  return with_hosts_ns(home, layout_on_first_host(home, cost_.cluster()), element_bytes);
}

int64_t ConversionTimes::with_hosts_ns(const Layout& from, const Layout& to, int64_t element_bytes) const {
  double on_host = 0;
  for (const Layout* layout : {&from, &to})
    for (int p = 0; p < layout->mesh.positions(); ++p)
      if (const DeviceId device = layout->mesh.devices[p]; device.value >= cost_.cluster().compute_count) {
        const Duration copy = cost_.copy(device, static_cast<double>(layout->elements(p) * element_bytes));
        on_host = std::max(on_host, copy.fixed_ns + copy.moving_ns);
      }
  return whole(on_host + StepTime(fetch(from, to, 1, cost_.cluster()), cost_).ns(static_cast<double>(element_bytes)));
}

namespace {

// All that kernels and inner steps of an op depend on: equal layers have them alike.
using Likeness =
    std::tuple<std::string, const tdl::Bound*, const tdl::Derived*, std::vector<DeviceId>, std::vector<DType>>;

Likeness likeness_of(const Graph& graph, const Op& op, const tdl::Derived& derived, const Mesh& mesh) {
  std::vector<DType> dtypes;
  for (const auto* tensors : {&op.operands, &op.results})
    for (TensorId t : *tensors) dtypes.push_back(graph.tensor(t).dtype);
  return {op.definition, op.bound.get(), &derived, mesh.devices, std::move(dtypes)};
}

}  // namespace

int64_t serial_ns(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  const Resolved resolved = resolve(graph, plan, cluster);
  const CostModel cost(cluster);
  ConversionTimes times(cluster);
  std::map<Likeness, int64_t> known;
  int64_t sum = 0;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const tdl::Derived& derived = *resolved.ops[i].derived;
    const Mesh& mesh = plan.ops[i].mesh;
    const auto [found, fresh] = known.emplace(likeness_of(graph, op, derived, mesh), 0);
    if (fresh)
      found->second = kernels_ns(cost, graph, op, derived, mesh) +
                      times.inner_ns(*op.bound, derived, mesh, bytes_of(inner_dtype(graph, op)));
    sum += found->second;
  }
  for (const ResolvedConversion& c : resolved.conversions)
    sum += times.ns(c.conversion.from, c.conversion.to, bytes_of(graph.tensor(c.tensor).dtype));
  for (size_t t = 0; t < graph.tensors.size(); ++t)
    if (graph.tensors[t].role == Role::kInput) sum += times.load_ns(resolved.home[t], bytes_of(graph.tensors[t].dtype));
  for (TensorId output : graph.outputs)
    sum += times.give_ns(resolved.home[output.index()], bytes_of(graph.tensor(output).dtype));
  return sum;
}

int64_t kernels_ns(const CostModel& cost, const Graph& graph, const Op& op, const tdl::Derived& derived,
                   const Mesh& mesh) {
  const tdl::Bound& bound = *op.bound;
  const std::vector<Segment> segments = segments_of(bound, derived);
  const OpDefinition* definition = graph.registry->find(op.definition);
  const DType inner = inner_dtype(graph, op);
  auto dtype_of = [&](int tensor) {
    if (static_cast<size_t>(tensor) < op.operands.size()) return graph.tensor(op.operands[tensor]).dtype;
    const auto result = std::find(bound.results.begin(), bound.results.end(), tensor);
    return result == bound.results.end()
               ? inner
               : graph.tensor(op.results[static_cast<size_t>(result - bound.results.begin())]).dtype;
  };
  std::vector<DType> rates;
  for (const Segment& segment : segments) {
    std::vector<int> touched = segment.reads;
    touched.insert(touched.end(), segment.writes.begin(), segment.writes.end());
    rates.push_back(rate_dtype(bound, segment.first, segment.last, touched, dtype_of));
  }
  std::vector<int64_t> slowest(segments.size(), 0);
  for (int p = 0; p < derived.positions(); ++p) {
    const std::vector<double> flops = segment_flops(definition, bound, segments, derived.ranges[p]);
    for (size_t g = 0; g < segments.size(); ++g) {
      const Segment& segment = segments[g];
      auto box = [&](int tensor) {
        for (const tdl::InnerStep& step : derived.inner)
          if (step.tensor == tensor && step.before_stage == segment.first && !step.needed.empty())
            return step.needed[p];
        return derived.boxes[tensor][p];
      };
      int64_t bytes = 0;
      for (int t : segment.reads) bytes += volume(box(t)) * bytes_of(dtype_of(t));
      for (int t : segment.writes) bytes += volume(derived.boxes[t][p]) * bytes_of(dtype_of(t));
      slowest[g] = std::max(slowest[g], cost.kernel_ns(mesh.devices[p], rates[g], flops[g], bytes));
    }
  }
  int64_t sum = 0;
  for (int64_t ns : slowest) sum += ns;
  return sum;
}

}  // namespace partita
