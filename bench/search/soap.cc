// Compares `soap` with `flexflow` with full simulation, as FlexFlow's paper has it: the CPU time of each to the cost at
// which flexflow ends, and the final costs of both.
//
//     partita_soap_bench                              # all of the list
//     partita_soap_bench nmt 16 20000 inception-v3 4 5000   # model, devices, proposals
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/models/models.h"
#include "partita/ops/ops.h"
#include "partita/search/all/search_text.h"
#include "words.h"

namespace partita {
namespace {

struct Case {
  std::string model;
  int devices = 4;
  int64_t proposals = 20'000;
};

// Up to 16 devices flexflow-p100, beyond flexflow-k80. Each weight is exchanged by itself, as in the paper.
SearchResult found(const Case& of, const Graph& graph, const Cluster& cluster, const std::string& search) {
  const SearchChoice choice = parse_search(search);
  Problem problem{.graph = graph, .cluster = cluster};
  problem.objective = Objective::kTime;
  problem.options = choice.options;
  Budget budget;
  budget.steps = of.proposals;
  Rng rng(1);
  return choice.entry->search(problem, budget, rng);
}

double ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

void compare(const Case& of) {
  const Model model = build_model(fmt::format("zoo:{}?batch=64", of.model), {}, standard_ops());
  const Graph graph = add_backward(model.graph, model.loss, {.kind = "sgd", .lr = 0.01});
  const Cluster cluster = load_cluster(of.devices <= 16 ? "flexflow-p100" : "flexflow-k80", of.devices);
  const SearchResult paper = found(of, graph, cluster, "flexflow?simulator=full"),
                     ours = found(of, graph, cluster, "soap");
  if (!paper.plan || !ours.plan) fail("{} on {}: no plan: {}{}", of.model, of.devices, paper.reason, ours.reason);
  const SearchPoint &end = paper.trail.back(), &best = ours.trail.back();
  std::string reached = "never";
  for (const SearchPoint& point : ours.trail)
    if (point.cost <= end.cost) {
      reached = fmt::format("{:.1f} s, {:.1f} x less", point.cpu_seconds,
                            end.cpu_seconds / std::max(point.cpu_seconds, 1e-3));
      break;
    }
  std::printf("%s\n",
              fmt::format("{} on {}: flexflow {:.2f} ms after {:.1f} s of CPU and {} proposals; soap there after {}; "
                          "soap ends at {:.2f} ms, {:.1f} s",
                          of.model, of.devices, ms(end.cost), end.cpu_seconds, end.proposals, reached, ms(best.cost),
                          best.cpu_seconds)
                  .c_str());
  std::fflush(stdout);
}

constexpr const char* kUsage =
    "usage: partita_soap_bench [MODEL DEVICES PROPOSALS]..\n"
    "of the zoo's models with batch 64, as nmt 16 20000; without any, of a list\n";

void benchmark(int argc, char** argv) {
  if ((argc - 1) % 3 != 0) bad_word(fmt::format("{} words, not three for each case", argc - 1));
  std::vector<Case> cases;
  for (int i = 1; i < argc; i += 3) cases.push_back({argv[i], int_of(argv[i + 1]), count_of(argv[i + 2])});
  if (cases.empty())
    cases = {{"inception-v3", 4},         {"nmt", 4},        {"rnnlm", 4},
             {"inception-v3", 16},        {"nmt", 16},       {"rnnlm", 16},
             {"inception-v3", 64, 3'000}, {"nmt", 64, 3'000}};
  for (const Case& of : cases) compare(of);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) { return partita::exit_code_of({partita::kUsage, partita::benchmark}, argc, argv); }
