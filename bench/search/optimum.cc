// Finds the best plan of a small model's SOAP space by branch and bound (partita/search/soap/optimum.h), and counts the
// searches that find it.
//
//   partita_optimum_bench lenet@32 'rnnlm?steps=2@64' devices 4 cluster flexflow-p100 minutes 15 seeds 10 steps 20000
//
// prints the optimum, how many plans there are, how many parts and plans were bounded and how many simulated; and in
// how many seeds `soap` and `flexflow` find it in so many steps.
#include "partita/search/soap/optimum.h"

#include <cmath>

#include "models.h"
#include "partita/base/units.h"
#include "partita/search/all/search_text.h"
#include "words.h"

namespace partita {

namespace {

int64_t found_ns(Problem problem, const std::string& search, int64_t steps, uint64_t seed) {
  const SearchChoice choice = parse_search(search);
  problem.options = choice.options;
  Budget budget;
  budget.steps = steps;
  Rng rng(seed);
  return std::llround(choice.entry->search(problem, budget, rng).plan->paper_cost.value() * 1e3);
}

struct Settings {
  Cluster cluster;
  double seconds = 900;
  int seeds = 10;
  int64_t steps = 20'000;
};

void measure(const std::string& word, const Settings& settings) {
  const Asked asked = asked_for(word, settings.cluster.name);
  Problem problem{.graph = asked.graph, .cluster = settings.cluster};
  problem.objective = Objective::kTime;
  const CostModel cost(settings.cluster);
  const SoapSpace space = soap_space(problem, {});
  const int64_t known_ns = found_ns(problem, "soap?bound=no", settings.steps, 1);
  const Watch watch{.deadline = Watch::Clock::now() + std::chrono::duration_cast<Watch::Clock::duration>(
                                                          std::chrono::duration<double>(settings.seconds))};
  const SoapOptimum best = soap_optimum(problem, space, cost, known_ns, watch);
  fmt::print("{}: {} units, {:.3g} plans; {} {}, {} nodes, {} simulated, {:.1f} s\n", word, space.units.size(),
             best.plans, best.proved ? "the optimum is" : "not proved, the best is",
             time_text(static_cast<double>(best.ns)), best.nodes, best.simulated, best.seconds);
  for (const char* search : {"soap?bound=no", "flexflow?bound=no"}) {
    int optimal = 0;
    std::vector<std::string> all;
    for (int seed = 1; seed <= settings.seeds; ++seed) {
      const int64_t ns = found_ns(problem, search, settings.steps, static_cast<uint64_t>(seed));
      optimal += ns <= best.ns;
      all.push_back(time_text(static_cast<double>(ns)));
    }
    fmt::print("  {} finds it in {} of {} seeds: {}\n", search, optimal, settings.seeds, fmt::join(all, ", "));
  }
  std::fflush(stdout);
}

constexpr const char* kUsage =
    "usage: partita_optimum_bench [devices N] [cluster C] [minutes M] [seeds N] [steps N] MODEL@BATCH..\n"
    "of the zoo's models, as lenet@32 'rnnlm?steps=2@64'; 4 devices of flexflow-p100, 15 minutes a proof, 10 seeds, "
    "20000 steps where nothing is said\n";

void benchmark(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const int devices = int_of(taken(words, "devices", "4"));
  const std::string cluster = taken(words, "cluster", "flexflow-p100");
  const double minutes = positive_of(taken(words, "minutes", "15"));
  const int seeds = int_of(taken(words, "seeds", "10"));
  const int64_t steps = count_of(taken(words, "steps", "20000"));
  if (words.empty()) bad_word("no model is named");
  for (const std::string& word : words)
    if (!names_model(word)) bad_word(fmt::format("'{}' is not MODEL@BATCH", word));
  const Settings settings{load_cluster(cluster, devices), 60 * minutes, seeds, steps};
  for (const std::string& word : words) measure(word, settings);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) { return partita::exit_code_of({partita::kUsage, partita::benchmark}, argc, argv); }
