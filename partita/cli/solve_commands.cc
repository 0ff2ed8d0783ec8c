// solve, and check --bound: solve a network, and check a certificate on it.
#include <chrono>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/interrupt.h"
#include "partita/base/output_file.h"
#include "partita/base/tell.h"
#include "partita/base/writes.h"
#include "partita/cli/commands.h"
#include "partita/cli/progress.h"
#include "partita/network/problem.h"
#include "partita/solver/solver.h"

namespace partita {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// The parts of the time limit kept for work after the search: printing, and writing the proof.
constexpr double kToFinish_s = 0.5, kToWrite = 0.1, kAtMost = 0.1;

std::string list_of(const std::optional<solver::Assignment>& solution) {
  return solution ? fmt::format("[{}]", fmt::join(*solution, ", ")) : "[]";
}

// A number of JSON if it fits one, else its digits.
Json number(const solver::Wide& value) {
  if (value >= INT64_MIN && value <= INT64_MAX) return static_cast<int64_t>(value);
  return solver::to_string(value);
}

void print_result(const Arguments& a, const solver::Network& network, const solver::Result& r) {
  const bool found = r.solution.has_value();
  std::optional<solver::Wide> peak;
  double gap = kInfinity;
  if (found) {
    peak = solver::evaluate(network, *r.solution).peak;
    gap = gap_of(r.cost, r.bound);
  }
  if (a.json) {
    Json json = {{"problem", a.target}, {"status", std::string(name_of(r.status))}};
    if (found) json["cost"] = number(r.cost);
    if (peak) json["peak_usage"] = number(*peak);
    if (network.limit) json["usage_limit"] = *network.limit;
    if (r.bound) json["lower_bound"] = number(*r.bound);
    if (gap < kInfinity) json["gap"] = gap;
    json["seconds"] = seconds_of_process();
    json["counters"] = r.counters;
    json["solution"] = r.solution.value_or(solver::Assignment{});
    print_json(std::move(json));
    return;
  }
  if (found) {
    fmt::print("cost   {}\n", solver::to_string(r.cost));
    if (peak)
      fmt::print("peak   {}{}\n", solver::to_string(*peak), network.limit ? fmt::format(" of {}", *network.limit) : "");
  }
  if (r.bound)
    fmt::print("bound  {}{}\n", solver::to_string(*r.bound),
               gap < kInfinity ? fmt::format(", gap {:.4f}%", 100 * gap) : "");
  fmt::print("{} after {:.1f} s\n{}\n", name_of(r.status), seconds_of_process(), list_of(r.solution));
}

}  // namespace

int solve_command(const Arguments& a) {
  for (const std::string& path : {a.output, a.write_bound}) validate_writable(path);
  solver::Options options;
  const auto& budget = a.request.budget;
  if (budget.seconds) {
    const double seconds = std::min(*budget.seconds, 1e9),
                 rest = std::min(kToFinish_s, kAtMost * seconds) + (a.write_bound.empty() ? 0 : kToWrite * seconds);
    options.deadline = kProcessStart + std::chrono::microseconds(static_cast<int64_t>(1e6 * (seconds - rest)));
  }
  const solver::Network network = solver::read_problem(a.target, {options.deadline, nullptr});
  std::optional<CatchInterrupt> caught(std::in_place);
  options.max_steps = budget.steps;
  options.gap = budget.gap;
  options.seed = a.request.seed;
  options.stop = &interrupted;
  options.progress = [lines = ProgressLines("cost", solver::to_string)](const solver::Progress& p) mutable {
    lines(p.cost, p.bound);
  };
  options.tell = [](const std::string& line) { tell("{}", line); };
  options.certify = !a.write_bound.empty();
  const solver::Result r = solver::solve(network, options);
  caught.reset();
  Writes writes;
  if (!a.output.empty()) writes.add([&] { write_file(a.output, list_of(r.solution) + "\n"); });
  if (!a.write_bound.empty()) {
    if (r.certificate.empty()) tell("no bound was proved: {} is not written", a.write_bound);
    else writes.add([&] { solver::write_text(a.write_bound, print_certificate(r.certificate)); });
    if (r.certificate.bound && r.bound && *r.certificate.bound < *r.bound)
      tell("{} proves {}; the rest was computed by elimination", a.write_bound,
           solver::to_string(*r.certificate.bound));
  }
  writes.end();
  print_result(a, network, r);
  if (r.solution) return 0;
  if (r.status == solver::Status::kInfeasible) return static_cast<int>(ExitCode::kInfeasible);
  return static_cast<int>(interrupted ? ExitCode::kInterrupted : ExitCode::kTimeLimit);
}

int check_bound_command(const Arguments& a) {
  const solver::Network network = solver::read_problem(a.target);
  const auto bound = solver::check(network, solver::parse_certificate(solver::read_text(a.bound), a.bound));
  if (a.json) {
    Json json = {{"problem", a.target}, {"infeasible", !bound}};
    if (bound) json["lower_bound"] = number(*bound);
    print_json(std::move(json));
  } else if (bound) {
    fmt::print("{}: proved; no solution of {} costs less than {}\n", a.bound, a.target, solver::to_string(*bound));
  } else {
    fmt::print("{}: proved; {} has no solution\n", a.bound, a.target);
  }
  return 0;
}

}  // namespace partita
