// Computes the isolated time of one step of a conversion, from the jobs that lowering makes of it.
#include "partita/cost/step_time.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace partita {

namespace {

// Tells whether two jobs occupy anything in common.
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

// Tells whether a takes no less than b, algorithm by algorithm, whatever the bytes.
bool outlasts(const AlgorithmCosts& a, const AlgorithmCosts& b) {
  if (a.durations.size() != b.durations.size()) return false;
  for (size_t w = 0; w < a.durations.size(); ++w)
    if (a.durations[w].fixed_ns < b.durations[w].fixed_ns || a.durations[w].moving_ns < b.durations[w].moving_ns)
      return false;
  return true;
}

// Counts the rounds in which jobs of equal time run. A round takes, in order, every job that does not meet one that it
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

// Leaves out jobs that end before another whatever the bytes, and makes one of jobs that meet and take equally long.
void simplify(std::vector<Job>& jobs) {
  if (jobs.empty()) return;
  const bool meeting = any_meet(jobs);
  auto equal = [&](const Job& j) { return j.costs == jobs[0].costs; };
  if (meeting && !std::all_of(jobs.begin(), jobs.end(), equal)) return;
  if (meeting) {
    jobs[0].costs.repeat(rounds_of(jobs));
    jobs[0].occupies.clear();
    jobs.resize(1);
    return;
  }
  std::vector<Job> longest;
  for (Job& job : jobs) {
    job.occupies.clear();
    if (std::any_of(longest.begin(), longest.end(), [&](const Job& j) { return outlasts(j.costs, job.costs); }))
      continue;
    std::erase_if(longest, [&](const Job& j) { return outlasts(job.costs, j.costs); });
    longest.push_back(std::move(job));
  }
  jobs = std::move(longest);
}

double ns(const Job& job, double element_bytes) { return job.costs.ns(element_bytes); }

// The time until the last job has ended, as the simulator runs them. Whenever one ends, all that can start do, in
// order.
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

}  // namespace

StepTime::StepTime(const Step& step, const CostModel& cost) {
  if (step.kind == StepKind::kLocal || step.kind == StepKind::kFetch) add_pieces(step, cost);
  else add_collectives(step, cost);
  simplify(jobs_);
  simplify(after_);
  auto one_way = [](const std::vector<Job>& jobs) {
    return jobs.empty() || (jobs.size() == 1 && jobs[0].costs.durations.size() == 1);
  };
  straight_ = one_way(jobs_) && one_way(after_);
  for (const std::vector<Job>* jobs : {&jobs_, &after_})
    if (straight_ && !jobs->empty()) {
      line_.fixed_ns += jobs->front().costs.durations[0].fixed_ns;
      line_.moving_ns += jobs->front().costs.durations[0].moving_ns;
    }
}

double StepTime::ns(double element_bytes) const {
  return makespan(jobs_, element_bytes) + makespan(after_, element_bytes);
}

void StepTime::add_pieces(const Step& step, const CostModel& cost) {
  const Cluster& cluster = cost.cluster();
  std::map<int, AlgorithmCosts> links, devices;
  const std::vector<Target> targets = targets_of(step);
  for (size_t p = 0; p < targets.size(); ++p) {
    const Target& target = targets[p];
    if (target.view) continue;
    const DeviceId device = step.to.mesh.devices[p];
    for (const Piece* piece : target.pieces) {
      const DeviceId source = step.from.mesh.devices[piece->source];
      const auto bytes = static_cast<double>(volume(piece->box));
      if (source != device)
        links[cluster.narrowest(source, device).value].add(
            cost.transfer(source, device, cluster.route(source, device), bytes));
      else if (!target.combine) devices[device.value].add({{cost.copy(device, 2 * bytes)}});
    }
    if (!target.combine) continue;
    after_.push_back({{device.value},
                      {{cost.copy(device, static_cast<double>(volume(step.to.boxes[p])) *
                                              static_cast<double>(1 + target.pieces.size()))}}});
  }
  for (const auto& [link, costs] : links) jobs_.push_back({{link}, costs});
  const int links_end = static_cast<int>(cluster.links.size());
  for (const auto& [device, costs] : devices) jobs_.push_back({{links_end + device}, costs});
}

void StepTime::add_collectives(const Step& step, const CostModel& cost) {
  for (const std::vector<int>& group : step.groups) {
    const double bytes = static_cast<double>(step.bytes) / static_cast<double>(step.groups.size() * group.size());
    std::vector<DeviceId> devices;
    for (int position : group) devices.push_back(step.to.mesh.devices[position]);
    const Collective& found = cost.collective(step.kind, devices);
    Job job{{}, found.costs};
    for (LinkId l : found.occupies) job.occupies.push_back(l.value);
    for (Duration& d : job.costs.durations) d.moving_ns *= bytes;
    jobs_.push_back(std::move(job));
  }
}

}  // namespace partita
