// Measures the joint problem of a large model on a large mesh: the time to build its network, its size, and the
// solver's result. The plan is not lowered.
//
//   partita_large_bench MODEL BATCH CLUSTER MESH [--bind NAME=VALUE].. [--limit SECONDS] [--steps N] [--memory BYTES]
//   [--recompute KIND] [--certify on|off] [--check on|off] [--copies on|off]
//
// In bfloat16 with AdamW. Without a limit and steps nothing is solved; the limit is the solver's, which without
// --certify computes its bound.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "models.h"
#include "partita/plan/check.h"
#include "partita/schedule/plan_evaluation.h"
#include "partita/search/all/search_text.h"
#include "partita/search/joint/joint.h"
#include "partita/solver/solver.h"

namespace partita {
namespace {

using Clock = std::chrono::steady_clock;

// Seconds since the last call, and the most memory so far.
std::string mark() {
  static Clock::time_point last = Clock::now();
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - last).count();
  last = now;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return fmt::format("{:.3f} s, {:.0f} MB", seconds, static_cast<double>(usage.ru_maxrss) / 1024);
}

double gigabytes(solver::Wide bytes) { return static_cast<double>(bytes) / 1e9; }

int main_of(int argc, char** argv) {
  if (argc < 5) fail("MODEL BATCH CLUSTER MESH");
  Request request;
  request.model = argv[1];
  request.bindings["batch"] = argv[2];
  request.dtype = DType::kBFloat16;
  request.optimizer.kind = "adamw";
  solver::Options options;
  options.certify = false;
  bool solves = false, checks = false;
  JointLimits limits;
  std::optional<double> limit;
  std::optional<int64_t> memory;
  for (int i = 5; i + 1 < argc; i += 2) {
    const std::string option = argv[i], value = argv[i + 1];
    if (option == "--bind") request.bindings[value.substr(0, value.find('='))] = value.substr(value.find('=') + 1);
    else if (option == "--limit") limit = std::stod(value), solves = true;
    else if (option == "--steps") options.max_steps = std::stoll(value), solves = true;
    else if (option == "--recompute") request.recompute = value;
    else if (option == "--memory") memory = std::stoll(value);
    else if (option == "--certify") options.certify = value == "on";
    else if (option == "--check") checks = value == "on";
    else if (option == "--copies") limits.counts_copies = value == "on";
    else fail("{}: unknown option", option);
  }
  mark();
  Runner runner;
  const Graph graph = training_graph(load_model(request, runner), request, runner);
  fmt::print("graph: {} ops, {} tensors: {}\n", graph.ops.size(), graph.tensors.size(), mark());
  const Cluster cluster = load_cluster(argv[3]);
  const Mesh mesh{extents_of(argv[4]), slowest_link_first(cluster)};
  fmt::print("cluster: {} devices: {}\n", cluster.compute_count, mark());
  std::fflush(stdout);
  const Problem problem{graph, cluster};
  if (!limits.counts_copies) limits.tensor_entries = JointLimits::kManyEntries;  // as exact does
  JointProblem joint = std::move(*joint_problem(problem, {mesh, {}}, limits));
  if (memory) joint.network.limit = *memory;
  size_t strategies = 0, entries = 0;
  std::map<const OpSpace*, size_t> spaces;
  std::map<const solver::Table*, size_t> tables;
  for (const auto& op : joint.ops) strategies += op->strategies.size(), spaces[op.get()] = op->strategies.size();
  for (const solver::Network::Edge& e : joint.network.edges) tables[e.table.get()] = e.table->size();
  for (const auto& [table, size] : tables) entries += size;
  fmt::print("network: {} variables, {} edges, {} strategies in {} spaces, {} tables of {} entries: {}\n",
             joint.network.variables(), joint.network.edges.size(), strategies, spaces.size(), tables.size(), entries,
             mark());
  solver::Network least = joint.network;  // as little of each tensor as possible
  for (solver::Network::Use& use : least.uses)
    use.amounts.assign(use.amounts.size(), *std::min_element(use.amounts.begin(), use.amounts.end()));
  fmt::print("at least {:.1f} of {:.1f} GB certain to lie on a device\n",
             gigabytes(*solver::evaluate(least, solver::Assignment(least.costs.size(), 0)).peak),
             gigabytes(*joint.network.limit));
  std::fflush(stdout);
  if (!solves) return 0;
  options.tell = [](const std::string& said) { fmt::print("  {}: {}\n", said, mark()), std::fflush(stdout); };
  if (limit) options.deadline = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(1e3 * *limit));
  const solver::Result solved = solver::solve(joint.network, options);
  const double gap =
      solved.solution && solved.bound ? 1 - static_cast<double>(*solved.bound) / static_cast<double>(solved.cost) : 1;
  fmt::print("solver: {}, {} GB, bound {} GB, gap {:.2f}%: {}\n", solver::name_of(solved.status),
             solved.solution ? fmt::format("{:.3f}", gigabytes(solved.cost)) : "-",
             solved.bound ? fmt::format("{:.3f}", gigabytes(*solved.bound)) : "-", 100 * gap, mark());
  if (options.certify) {
    const auto proved = solver::check(joint.network, solved.certificate);
    fmt::print("certificate: {} leaves, {} parts, accepted: {} GB: {}\n", solved.certificate.leaves.size(),
               solved.certificate.parts.size(), proved ? fmt::format("{:.3f}", gigabytes(*proved)) : "-", mark());
  }
  std::fflush(stdout);
  if (!solved.solution) return 0;
  fmt::print("of the plan, {:.1f} GB\n", gigabytes(*solver::evaluate(joint.network, *solved.solution).peak));
  const Plan plan = plan_of(joint, graph, *solved.solution);
  fmt::print("plan: {}\n", mark());
  if (!checks) return 0;
  const int64_t bytes = check(graph, plan, cluster).comm_bytes;
  fmt::print("check: {:.3f} GB: {}\n", gigabytes(bytes), mark());
  std::fflush(stdout);
  const std::vector<DeviceId> ends = {mesh.devices[0], mesh.devices.back()};
  const std::vector<int64_t> peaks = evaluate_memory(graph, plan, cluster, {}, ends).peak_bytes;
  for (DeviceId d : ends)
    fmt::print("planned for device {}: {:.3f} GB\n", cluster.device(d).name, gigabytes(peaks[d.index()]));
  fmt::print("memory planner: {}\n", mark());
  return 0;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) { return partita::exit_code_of(partita::main_of, argc, argv); }
