// Compares `auto` with the published searches, and shows the joint problem's proof: bytes a step by the checker, and
// seconds of search, in one run.
//
//   partita_sharding_bench [--cluster C] [--limit SECONDS] [--gap G] MODEL@BATCH[@BYTES]..
//
// BYTES: the memory of a device; without them no plan is too large. `exact` goes on until it is certified to be within
// G of the optimum (0), or the limit; its gap is that to the bound of its certificate, which is checked here.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "models.h"
#include "partita/search/all/search_text.h"
#include "partita/search/evaluate.h"
#include "partita/search/joint/bound_proof.h"
#include "partita/search/joint/refine.h"

namespace partita {
namespace {

using Clock = std::chrono::steady_clock;

struct Outcome {
  double seconds = 0;
  std::optional<int64_t> bytes;  // of a plan that fits
  std::optional<double> gap;     // to its own certified bound
};

Outcome run(const std::string& search, const Graph& graph, const Cluster& cluster, const Budget& budget,
            bool prove = false) {
  const SearchChoice choice = parse_search(search);
  Problem problem{graph, cluster, Objective::kComm, {}, choice.options};
  problem.prove = prove;
  Rng rng(1);
  const auto start = Clock::now();
  SearchResult found;
  try {
    found = choice.entry->search(problem, budget, rng);
  } catch (const Error& e) {
    if (e.code() == ExitCode::kBug) throw;
  }
  Outcome o{std::chrono::duration<double>(Clock::now() - start).count(), {}, {}};
  if (!found.plan || memory_deficit(problem, *found.plan) > 0) return o;
  o.bytes = check(graph, *found.plan, cluster).comm_bytes;
  if (found.proof)
    o.gap = *o.bytes == 0 ? 0
                          : 1 - static_cast<double>(check_proof(*found.proof, graph, cluster, *found.plan)) /
                                    static_cast<double>(*o.bytes);
  return o;
}

std::string cell(const Outcome& o, const Outcome& ours) {
  if (!o.bytes) return fmt::format("{:>32}", fmt::format("does not fit {:7.2f} s", o.seconds));
  return fmt::format("{:>32}",
                     fmt::format("{:.3f} GB {:+6.1f}% {:7.2f} s", static_cast<double>(*o.bytes) / 1e9,
                                 ours.bytes && *ours.bytes > 0
                                     ? 100 * (static_cast<double>(*o.bytes) / static_cast<double>(*ours.bytes) - 1)
                                     : 0.0,
                                 o.seconds));
}

void compare(const std::string& word, const std::string& cluster_name, double limit, double gap) {
  const auto [graph, cluster] = asked_for(word, cluster_name);
  const Outcome ours = run("auto", graph, cluster, {}),
                exact = run("exact", graph, cluster, {.seconds = limit, .gap = gap}, true);
  std::string row = fmt::format("{:<32}", word) + cell(ours, ours);
  for (const char* search : {"tofu", "soybean?tilings=all"}) row += cell(run(search, graph, cluster, {}), ours);
  fmt::print("{}{}{:>9}\n", row, cell(exact, ours), exact.gap ? fmt::format("{:.3f}%", 100 * *exact.gap) : "-");
  std::fflush(stdout);
}

int main_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const std::string cluster = taken(words, "--cluster", "p2.8xlarge");
  const double limit = std::stod(taken(words, "--limit", "60")), gap = std::stod(taken(words, "--gap", "0"));
  fmt::print("bytes a step, more than auto's, seconds of search; {}; exact stops after {:.0f} s, or within {}%\n",
             cluster, limit, 100 * gap);
  fmt::print("{:<32}{:>32}{:>32}{:>32}{:>32}{:>9}\n", "model@batch", "auto", "tofu", "soybean?tilings=all", "exact",
             "its gap");
  for (const std::string& word : words) compare(word, cluster, limit, gap);
  return 0;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) { return partita::exit_code_of(partita::main_of, argc, argv); }
