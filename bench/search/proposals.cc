// Times a proposal by each simulator of local task graphs, on one chain of FlexFlow's search from data parallelism
// (FlexFlow, Table 4): its first proposals, and as many late in it.
//
//     partita_proposal_bench                        # the six networks on 4, 16 and 64 devices
//     partita_proposal_bench nmt 16 20000 500       # model, devices, proposals before the late ones, those measured
//
// Up to 16 devices flexflow-p100, beyond flexflow-k80. Each simulator has a chain of its own, and all chains go the
// same way; they take turns, some proposals each. Columns, in microseconds a proposal: making the fragments that
// change, which all need; Algorithm 1 with building its arrays, and only building them; Algorithm 2, with taking a
// rejected proposal back; replay, up to acceptance, and taking over accepted ones, shared among all proposals.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/models/models.h"
#include "partita/ops/ops.h"
#include "partita/search/soap/initial_plans.h"
#include "partita/search/soap/simulated_proposals.h"
#include "words.h"

namespace partita {
namespace {

struct Case {
  std::string model;
  int devices = 4;
  int before = 10'000, measured = 500;
};

double seconds_of(auto&& work) {
  const auto begun = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

std::unique_ptr<SoapTasks> tasks_at(const Problem& problem, const CostModel& cost, const SoapSpace& space,
                                    const std::vector<int64_t>& numbers) {
  auto tasks = std::make_unique<SoapTasks>(problem, cost, space);
  std::vector<std::pair<int, int64_t>> all;
  for (size_t unit = 0; unit < numbers.size(); ++unit) all.emplace_back(static_cast<int>(unit), numbers[unit]);
  tasks->propose(all);
  tasks->keep();
  return tasks;
}

struct Chain {
  std::unique_ptr<SoapTasks> tasks;
  std::unique_ptr<ProposalSimulator> proposal_simulator;
  Rng rng{1};
  int64_t start_ns = 0, ns = 0;
  double fragments_s = 0, simulate_s = 0, keep_s = 0;
};

Chain chain_at(std::unique_ptr<SoapTasks> tasks, SoapSimulator simulator, int64_t start_ns, const Rng& rng) {
  auto proposal_simulator = std::make_unique<ProposalSimulator>(simulator, *tasks);
  const int64_t ns = *proposal_simulator->ns({});
  return {std::move(tasks), std::move(proposal_simulator), rng, start_ns > 0 ? start_ns : ns, ns};
}

// beta = 1000, as `flexflow` has it.
void propose(Chain& chain, const SoapSpace& space) {
  const size_t unit = chain.rng.below(space.units.size());
  const auto number = static_cast<int64_t>(chain.rng.below(static_cast<uint64_t>(space.sets[unit].size())));
  const double more_ns = -std::log(1 - chain.rng.uniform()) / 1000 * static_cast<double>(chain.start_ns);
  const SoapTasks::Changes* changes = nullptr;
  chain.fragments_s += seconds_of([&] { changes = &chain.tasks->propose({{static_cast<int>(unit), number}}); });
  std::optional<int64_t> ns;
  chain.simulate_s +=
      seconds_of([&] { ns = chain.proposal_simulator->ns(*changes, chain.ns + static_cast<int64_t>(more_ns)); });
  if (!ns) return;
  chain.ns = *ns;
  chain.keep_s += seconds_of([&] { chain.proposal_simulator->keep(); });
  chain.tasks->keep();
}

struct Measured {
  double fragments_s = 0, arrays_s = 0, full_s = 0, delta_s = 0, replay_s = 0, keep_s = 0;
};

// Goes on with the replay's chain, and with the others from where that is.
Measured measure(const Problem& problem, const CostModel& cost, const SoapSpace& space, Chain& replay, int proposals) {
  std::vector<Chain> chains;
  for (const SoapSimulator simulator : {SoapSimulator::kFull, SoapSimulator::kDelta})
    chains.push_back(
        chain_at(tasks_at(problem, cost, space, replay.tasks->numbers()), simulator, replay.start_ns, replay.rng));
  replay.fragments_s = replay.simulate_s = replay.keep_s = 0;
  constexpr int kTurn = 20;
  Measured measured;
  FlatTasks flat;
  for (int done = 0; done < proposals; done += kTurn) {
    const int turn = std::min(kTurn, proposals - done);
    for (Chain* const chain : {&chains[0], &chains[1], &replay})
      for (int i = 0; i < turn; ++i) propose(*chain, space);
    ensure(chains[0].ns == replay.ns && chains[1].ns == replay.ns, "the simulators differ");
    for (int i = 0; i < turn; ++i) measured.arrays_s += seconds_of([&] { flatten(replay.tasks->graph(), flat); });
  }
  measured.fragments_s = replay.fragments_s;
  measured.full_s = chains[0].simulate_s;
  measured.delta_s = chains[1].simulate_s;
  measured.replay_s = replay.simulate_s;
  measured.keep_s = replay.keep_s;
  return measured;
}

void print(const Case& of, const char* when, const Chain& chain, const Measured& m) {
  const double us = 1e6 / of.measured;
  std::printf("%s\n", fmt::format("{:<12} {:>3} {:<5} {:>6} {:>8.1f} {:>9.0f} {:>7.0f} {:>7.0f} {:>7.0f} {:>7.0f} "
                                  "{:>7.0f} {:>11.2f} {:>12.1f} {:>13.1f}",
                                  of.model, of.devices, when, flatten(chain.tasks->graph()).size(),
                                  static_cast<double>(chain.ns) / 1e6, m.fragments_s * us, m.arrays_s * us,
                                  m.full_s * us, m.delta_s * us, m.replay_s * us, m.keep_s * us, m.full_s / m.delta_s,
                                  m.full_s / m.replay_s, m.delta_s / m.replay_s)
                          .c_str());
  std::fflush(stdout);
}

void bench(const Case& of) {
  const int batch = of.model == "alexnet" ? 256 : 64;
  const Model model = build_model(fmt::format("zoo:{}?batch={}", of.model, batch), {}, standard_ops());
  const Graph graph = add_backward(model.graph, model.loss, {.kind = "sgd", .lr = 0.01});
  const Cluster cluster = load_cluster(of.devices <= 16 ? "flexflow-p100" : "flexflow-k80", of.devices);
  Problem problem{.graph = graph, .cluster = cluster};
  problem.objective = Objective::kTime;
  const CostModel cost(cluster);
  const SoapSpace space = soap_space(problem, {});
  const std::vector<int64_t> start = numbers_of(space, data_parallel_configurations(graph, cluster, space.units));
  Chain chain = chain_at(tasks_at(problem, cost, space, start), SoapSimulator::kReplay, 0, Rng(1));
  print(of, "early", chain, measure(problem, cost, space, chain, of.measured));
  for (int i = of.measured; i < of.before; ++i) propose(chain, space);
  print(of, "late", chain, measure(problem, cost, space, chain, of.measured));
}

constexpr const char* kUsage =
    "usage: partita_proposal_bench [MODEL DEVICES BEFORE MEASURED]..\n"
    "of the zoo's models, as nmt 16 20000 500: proposals before the late ones, and how many are measured; without any, "
    "of the six networks on 4, 16 and 64 devices\n";

void benchmark(int argc, char** argv) {
  if ((argc - 1) % 4 != 0) bad_word(fmt::format("{} words, not four for each case", argc - 1));
  std::vector<Case> cases;
  for (int i = 1; i < argc; i += 4)
    cases.push_back({argv[i], int_of(argv[i + 1]), int_of(argv[i + 2]), int_of(argv[i + 3])});
  if (cases.empty())
    for (const int devices : {4, 16, 64})
      for (const char* const model : {"alexnet", "inception-v3", "resnet-101", "rnntc", "rnnlm", "nmt"})
        cases.push_back({model, devices, devices == 64 ? 1'000 : 10'000, devices == 64 ? 20 : 100});
  std::printf("%-12s %3s %-5s %6s %8s %9s %7s %7s %7s %7s %7s %11s %12s %13s\n", "us", "", "", "tasks", "step ms",
              "fragments", "arrays", "full", "delta", "replay", "accept", "full/delta", "full/replay", "delta/replay");
  for (const Case& of : cases) bench(of);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) { return partita::exit_code_of({partita::kUsage, partita::benchmark}, argc, argv); }
