// place: places an operator graph on accelerators and CPUs.
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/base/interrupt.h"
#include "partita/base/output_file.h"
#include "partita/base/tell.h"
#include "partita/cli/commands.h"
#include "partita/cli/progress.h"
#include "partita/partitioning/solve.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// The part of the time limit kept for work after the search: printing.
constexpr double kToFinish_s = 0.2, kAtMost = 0.1;

struct Solved {
  partitioning::Instance instance;
  partitioning::Result result;
  bool latency = false;
  int q = 1;
  double gap() const {
    const double value = result.value;
    return value > 0 ? (value - result.bound) / value : 0;
  }
};

// {"maxLoad": .., "fpgas": [{"load": .., "nodes": [ids]}], "cpus": [..]}, as the authors' programs write and read it.
// For a latency: totalLatency, each accelerator's subgraphs one after another, and one entry of all CPUs.
Json placement_of(const Solved& s) {
  const partitioning::Instance& instance = s.instance;
  const auto& place = *s.result.place;
  const bool latency = s.latency;
  const int accelerators = instance.accelerators * (latency ? s.q : 1);
  Json fpgas = Json::array(), cpus = Json::array();
  const auto entry = [&](int which) {
    Json ids = Json::array();
    for (size_t v = 0; v < place.size(); ++v)
      if (place[v] == which) ids.push_back(instance.nodes[v].id);
    return Json{{"nodes", std::move(ids)}};
  };
  for (int a = 0; a < accelerators; ++a) fpgas.push_back(entry(a));
  if (latency) {
    cpus.push_back(entry(partitioning::kCpu));
    return {{"totalLatency", s.result.value}, {"fpgas", std::move(fpgas)}, {"cpus", std::move(cpus)}};
  }
  const auto loads = partitioning::loads_of(instance, place);
  for (int c = 0; c < instance.cpus; ++c) cpus.push_back(entry(accelerators + c));
  for (int d = 0; d < accelerators + instance.cpus; ++d)
    (d < accelerators ? fpgas[d] : cpus[d - accelerators])["load"] = loads[d].sum();
  return {{"maxLoad", s.result.value}, {"fpgas", std::move(fpgas)}, {"cpus", std::move(cpus)}};
}

struct Row {
  std::string name;
  int nodes = 0;
  double start = 0, compute = 0, in = 0, out = 0, size = 0;
  bool accelerator = false;
};

std::vector<Row> rows_of(const Solved& s) {
  const auto& [instance, result, latency, q] = s;
  std::vector<Row> rows;
  if (latency) {
    const auto found = partitioning::latency_of(instance, *result.place, q);
    for (size_t g = 0; g < found->runs.size(); ++g) {
      const auto& run = found->runs[g];
      const std::string name = fmt::format("accelerator {}{}", g / q, q > 1 ? fmt::format(", {}", g % q) : "");
      rows.push_back({name, run.nodes, run.start, run.compute, run.in, run.out, run.size, true});
    }
    Row cpus{"CPUs"};
    for (size_t v = 0; v < result.place->size(); ++v)
      if ((*result.place)[v] == partitioning::kCpu) ++cpus.nodes, cpus.compute += instance.nodes[v].cpu;
    rows.push_back(cpus);
    return rows;
  }
  const auto loads = partitioning::loads_of(instance, *result.place);
  for (int d = 0; d < static_cast<int>(loads.size()); ++d) {
    const bool accelerator = d < instance.accelerators;
    Row row{accelerator ? fmt::format("accelerator {}", d) : fmt::format("CPU {}", d - instance.accelerators)};
    row.compute = loads[d].compute;
    row.in = loads[d].communication;
    row.size = loads[d].size;
    row.accelerator = accelerator;
    for (const int of : *result.place) row.nodes += of == d;
    rows.push_back(row);
  }
  return rows;
}

Json json_of(const Row& row, const Solved& s) {
  Json json = {{"name", row.name}, {"nodes", row.nodes}, {"compute", row.compute}};
  if (s.latency && row.accelerator) {
    json.update({{"start", row.start}, {"in", row.in}, {"out", row.out}});
  } else if (!s.latency) {
    json.update({{"communication", row.in}, {"load", row.compute + row.in}});
  }
  if (row.accelerator) json["memory_bytes"] = row.size;
  return json;
}

void print_as_json(const Arguments& a, const Solved& s) {
  const auto& r = s.result;
  Json json = {{"graph", a.target}, {"objective", a.place_objective}};
  if (s.latency) json["subgraphs"] = s.q;
  else json["contiguous"] = a.contiguous;
  json["status"] = !r.place ? (r.proved ? "infeasible" : "unknown") : r.proved ? "optimal" : "feasible";
  if (r.place) json["value"] = r.value;
  if (r.bound < kInfinity) json["lower_bound"] = r.bound;
  if (r.place) json["gap"] = s.gap();
  json["proved"] = r.proved;
  if (r.ideals > 0) json["ideals"] = r.ideals;
  json["memory_limit_bytes"] = s.instance.max_size;
  json["seconds"] = seconds_of_process();
  if (r.place) {
    json["devices"] = Json::array();
    for (const Row& row : rows_of(s)) json["devices"].push_back(json_of(row, s));
    json["placement"] = placement_of(s);
  }
  print_json(std::move(json));
}

void print_as_text(const Arguments& a, const Solved& s) {
  const auto& r = s.result;
  if (r.place) {
    fmt::print("{:<10} {:.6f}{}\n", a.place_objective, r.value,
               s.latency      ? fmt::format(", {} subgraph{} an accelerator", s.q, s.q > 1 ? "s" : "")
               : a.contiguous ? ", contiguous"
                              : "");
    fmt::print("bound      {:.6f}, gap {:.4f}%\n", r.bound, 100 * s.gap());
    for (const Row& row : rows_of(s)) {
      if (s.latency && row.accelerator)
        fmt::print("{:<16} start {:.4f}, in {:.4f}, compute {:.4f}, out {:.4f}", row.name, row.start, row.in,
                   row.compute, row.out);
      else if (s.latency) fmt::print("{:<16} compute {:.4f}", row.name, row.compute);
      else
        fmt::print("{:<16} load {:.4f}: compute {:.4f}, communication {:.4f}", row.name, row.compute + row.in,
                   row.compute, row.in);
      if (row.accelerator) fmt::print(", memory {} of {}", megabytes(row.size), megabytes(s.instance.max_size));
      fmt::print(", {} nodes\n", row.nodes);
    }
  }
  fmt::print("{} after {:.1f} s\n",
             !r.place   ? (r.proved ? "no placement fits: proved," : "none found")
             : r.proved ? "proved optimal"
                        : "not proved optimal",
             seconds_of_process());
}

partitioning::Options options_of(const Arguments& a) {
  partitioning::Options options;
  options.contiguous = a.contiguous;
  options.subgraphs = a.subgraphs;
  options.seed = a.request.seed;
  const auto& budget = a.request.budget;
  if (budget.steps) options.steps = static_cast<int64_t>(std::min<uint64_t>(*budget.steps, INT64_MAX));
  options.gap = budget.gap;
  options.watch.stop = &interrupted;
  if (budget.seconds) {
    const double seconds = std::min(*budget.seconds, 1e9);
    options.watch.deadline = deadline_of_process(seconds - std::min(kToFinish_s, kAtMost * seconds));
  }
  options.progress = [last = -1.0](const std::string& doing, double best, double bound) mutable {
    const double now = seconds_of_process();
    if (now - last < 1) return;
    last = now;
    tell("{:7.1f} s  {}: best {}  bound {:.4f}", now, doing, best < kInfinity ? fmt::format("{:.4f}", best) : "-",
         bound);
  };
  return options;
}

}  // namespace

int place_command(const Arguments& a) {
  validate_writable(a.output);
  const auto options = options_of(a);
  Solved s{
      partitioning::parse_instance(read_file(a.target), a.target), {}, a.place_objective == "latency", a.subgraphs};
  if (s.latency)
    for (const auto& node : s.instance.nodes)
      if (node.backward)
        fail(
            "{}: node {} is a backward node, and a latency is of forward nodes alone; give the graph of an inference, "
            "or --objective max-load",
            a.target, node.id);
  std::optional<CatchInterrupt> caught(std::in_place);
  s.result = s.latency ? solve_latency(s.instance, options) : solve_max_load(s.instance, options);
  caught.reset();
  if (!a.output.empty() && s.result.place) write_file(a.output, placement_of(s).dump(1) + "\n");
  if (a.json) print_as_json(a, s);
  else print_as_text(a, s);
  if (s.result.place) return 0;
  if (s.result.proved) return static_cast<int>(ExitCode::kInfeasible);
  if (interrupted) return static_cast<int>(ExitCode::kInterrupted);
  return static_cast<int>(options.watch.ended() ? ExitCode::kTimeLimit : ExitCode::kInfeasible);
}

}  // namespace partita
