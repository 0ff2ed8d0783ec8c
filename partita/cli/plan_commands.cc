// plan, simulate.
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/output_file.h"
#include "partita/cli/commands.h"
#include "partita/in_file.h"
#include "partita/network/problem.h"
#include "partita/search/bound_proof.h"

namespace partita {

int plan_command(const Arguments& a) {
  for (const std::string& path : {a.output, a.write_bound}) expect_writable(path);
  Runner runner(true, a.dump);
  Planned p = plan_watched(a.request, runner);
  for (const std::string& note : p.search.notes) fmt::print(stderr, "{}\n", note);
  print_training_notes(p.findings);
  warn_of_profile(p.cluster);
  if (!a.output.empty()) write_file(a.output, print(p.plan, p.training));
  if (!a.write_bound.empty()) {
    if (!p.search.proof) {
      fmt::print(stderr, "no bound was proved: {} is not written\n", a.write_bound);
    } else {
      p.search.proof->model_sha256 = p.plan.model.sha256;
      solver::write_text(a.write_bound, print_proof(*p.search.proof));
    }
  }
  if (a.json) print_json(plan_json(p, a.output));
  else {
    print_plan(p);
    if (!a.output.empty()) fmt::print("plan           {}\n", a.output);
  }
  print_timings(runner, a);
  return 0;
}

namespace {

// A trace has every act of a step.
void expect_traceable(const Planned& p) {
  constexpr int64_t kMostActs = 2'000'000;  // a file of about 300 MB
  int64_t acts = 0;
  for (size_t i = 0; i < p.training.ops.size(); ++i)
    acts += p.training.acts(p.training.ops[i]) * static_cast<int64_t>(p.plan.ops[i].mesh.devices.size());
  if (acts > kMostActs)
    throw Error(ExitCode::kUsage,
                fmt::format("--trace: a step of this plan is {} acts of operations, more than the {} that a trace may "
                            "have; plan it with fewer micro-batches or devices, or leave --trace out",
                            acts, kMostActs));
}

}  // namespace

int simulate_command(const Arguments& a) {
  expect_writable(a.trace);
  Runner runner(true, a.dump);
  Planned p = open_plan(a.target, runner, Follow::kAll, a.request.profile_file);
  warn_of_profile(p.cluster);
  if (!a.trace.empty()) {
    in_file(a.target, [&] {
      expect_traceable(p);
      follow_whole(p, runner);
    });
    write_file(a.trace, chrome_trace(p.predicted, p.physical, p.cluster));
  }
  std::map<std::string, double> busy;  // by queue: share of the step
  for (const Event& e : p.predicted.events)
    busy[p.physical.queues[p.physical.task(e.task).queue.index()].name] += static_cast<double>(e.end_ns - e.start_ns);
  for (auto& [queue, ns] : busy) ns /= static_cast<double>(std::max<int64_t>(1, p.predicted.step_time_ns));
  double compute = 0;
  for (int d = 0; d < p.cluster.compute_count; ++d)
    compute += busy[p.cluster.devices[d].name + ".compute"] / p.cluster.compute_count;
  double seconds = 0;
  for (const Runner::Timing& t : runner.timings())
    if (t.name == "simulate") seconds = t.seconds;
  if (a.json) {
    nlohmann::ordered_json json = {{"step_time_us", static_cast<double>(p.step_time_ns()) / 1e3}};
    add_source_of_times(json, p);
    add_utilization(json, p);
    add_breakdown(json, p);
    json.update({{"comm_bytes", p.report.comm_bytes},
                 {"peak_memory_bytes", p.peak_memory_bytes()},
                 {"least_memory_bytes", p.least_memory_bytes()}});
    if (p.is_whole()) json.update({{"utilization", compute}, {"tasks", p.physical.tasks.size()}});
    json["simulate_seconds"] = seconds;
    print_json(json);
  } else {
    print_plan(p);
    if (p.is_whole())
      fmt::print("tasks          {}, compute queues busy {:.0f}% of the step\n", p.physical.tasks.size(),
                 100 * compute);
    if (!a.trace.empty()) fmt::print("trace          {}\n", a.trace);
  }
  print_timings(runner, a);
  return 0;
}

}  // namespace partita
