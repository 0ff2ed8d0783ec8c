// Compares the joint solver with elimination by itself, CBC on the usual integer program, and toulbar2, on the same
// cost networks in one run.
//
//   partita_search_bench [--limit SECONDS] [--gap G] PROBLEM.json[.gz].. FAMILY:SIZE:VALUES:SEED[:limited]..
//   MODEL@BATCH[@BYTES]..
//
// A model is the joint sharding problem of its training step on p2.8xlarge, 8 devices as 4x2, with so much memory a
// device. Each is given the limit to prove an optimum, or a solution within the gap (elimination finds optima only).
// The programs `cbc` and `toulbar2` are run on files; one that is not installed, or fails, is a dash. toulbar2 has no
// memory limit to keep, so it is asked only if there is none.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>

#include "models.h"
#include "partita/base/error.h"
#include "partita/network/problem.h"
#include "partita/network/testing/random_networks.h"
#include "partita/search/joint/joint.h"
#include "partita/solver/eliminate.h"
#include "partita/solver/model.h"
#include "partita/solver/solver.h"

namespace partita::solver {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Outcome {
  double seconds = 0;
  bool counts = true, proved = false;
  std::string cost;  // of the proved solution
};

// Tables over pairs and single variables, those over the same ones summed up; files are written from it.
struct Pairwise {
  std::vector<Table> unary;
  std::map<std::pair<int, int>, Table> pairs;  // [first][second]
};

std::optional<Pairwise> pairwise(const Network& n) {
  Pairwise p{n.costs, {}};
  for (const Network::Edge& e : n.edges) {
    if (e.variables.size() != 2 || e.variables[0] == e.variables[1]) return std::nullopt;
    const auto [a, b] = std::minmax(e.variables[0], e.variables[1]);
    const size_t rows = n.costs[a].size(), columns = n.costs[b].size();
    Table& t = p.pairs.try_emplace({a, b}, Table(rows * columns, 0)).first->second;
    for (size_t x = 0; x < rows; ++x)
      for (size_t y = 0; y < columns; ++y) {
        const int64_t cost = (*e.table)[e.variables[0] == a ? x * columns + y : y * rows + x];
        int64_t& to = t[x * columns + y];
        to = to >= kForbidden || cost >= kForbidden ? kForbidden : to + cost;
      }
  }
  return p;
}

// The 0/1 program with a variable per value and per pair of values: a pair's variables sum to those of its ends; a row
// per time of memory.
void write_lp(const Network& n, const Pairwise& p, const std::string& path) {
  std::ofstream out(path);
  std::string rows, zeros, binaries;
  out << "Minimize\nobj:";
  auto term = [&](int64_t cost, const std::string& name) {
    if (cost >= kForbidden) zeros += name + " = 0\n";
    else if (cost != 0) out << fmt::format(" {}{} {}\n", cost < 0 ? "" : "+", cost, name);
  };
  for (int v = 0; v < n.variables(); ++v) {
    rows += " ";
    for (int x = 0; x < n.domain(v); ++x) {
      const std::string name = fmt::format("x{}_{}", v, x);
      term(p.unary[v][x], name);
      rows += " + " + name;
      binaries += name + "\n";
    }
    rows += " = 1\n";
  }
  int number = 0;
  for (const auto& [ends, table] : p.pairs) {
    const auto [a, b] = ends;
    auto name = [&](int x, int y) { return fmt::format("y{}_{}_{}", number, x, y); };
    for (int x = 0; x < n.domain(a); ++x) {
      for (int y = 0; y < n.domain(b); ++y) {
        term(table[static_cast<size_t>(x) * n.costs[b].size() + y], name(x, y));
        rows += " + " + name(x, y);
      }
      rows += fmt::format(" - x{}_{} = 0\n", a, x);
    }
    for (int y = 0; y < n.domain(b); ++y) {
      for (int x = 0; x < n.domain(a); ++x) rows += " + " + name(x, y);
      rows += fmt::format(" - x{}_{} = 0\n", b, y);
    }
    ++number;
  }
  for (int64_t t : kept_times(n)) {
    std::map<int, std::vector<int64_t>> amounts;  // by variable; a row names each of its values once
    for (const Network::Use& u : n.uses)
      if (u.lower <= t && t < u.upper) {
        std::vector<int64_t>& sum = amounts.try_emplace(u.variable, u.amounts.size(), 0).first->second;
        std::transform(sum.begin(), sum.end(), u.amounts.begin(), sum.begin(), std::plus<>());
      }
    for (const auto& [variable, sum] : amounts)
      for (size_t x = 0; x < sum.size(); ++x)
        if (sum[x] > 0) rows += fmt::format(" + {} x{}_{}\n", sum[x], variable, x);
    rows += fmt::format(" <= {}\n", *n.limit);
  }
  out << "Subject To\n" << rows << "Bounds\n" << zeros << "Binary\n" << binaries << "End\n";
}

// toulbar2's format of weighted constraint problems: natural costs, from `top` on forbidden. Returns the amount
// subtracted from all costs.
Wide write_wcsp(const Network& n, const Pairwise& p, const std::string& path) {
  std::ofstream out(path);
  size_t widest = 0;
  Wide taken = 0, top = 1;
  auto least = [](const Table& t) { return std::min(int64_t{0}, *std::min_element(t.begin(), t.end())); };
  auto span = [&](const Table& t) {
    int64_t most = 0;
    for (int64_t c : t)
      if (c < kForbidden) most = std::max(most, c);
    return most - least(t);
  };
  for (const Table& t : p.unary) widest = std::max(widest, t.size()), top += span(t), taken += least(t);
  for (const auto& [ends, t] : p.pairs) top += span(t), taken += least(t);
  out << fmt::format("problem {} {} {} {}\n", n.variables(), widest, n.variables() + p.pairs.size(), to_string(top));
  for (int v = 0; v < n.variables(); ++v) out << n.domain(v) << ' ';
  auto line = [&](const std::string& values, int64_t cost, int64_t from) {
    out << values << ' ' << (cost >= kForbidden ? to_string(top) : std::to_string(cost - from)) << '\n';
  };
  for (int v = 0; v < n.variables(); ++v) {
    const int64_t from = least(p.unary[v]);
    out << fmt::format("\n1 {} 0 {}\n", v, n.domain(v));
    for (int x = 0; x < n.domain(v); ++x) line(std::to_string(x), p.unary[v][x], from);
  }
  for (const auto& [ends, t] : p.pairs) {
    const int64_t from = least(t);
    const size_t columns = n.costs[ends.second].size();
    out << fmt::format("2 {} {} 0 {}\n", ends.first, ends.second, t.size());
    for (size_t i = 0; i < t.size(); ++i) line(fmt::format("{} {}", i / columns, i % columns), t[i], from);
  }
  return taken;
}

// Runs a program. Its time counts, not that of writing its file. One that ends before the limit without a proof has
// failed, which is printed, and counts for nothing.
Outcome run(const std::string& program, const std::string& words, double limit, const std::regex& proof) {
  Outcome o;
  if (std::system(("command -v " + program + " >/dev/null").c_str()) != 0) return {0, false, false, ""};
  const auto start = Clock::now();
  FILE* pipe = popen(fmt::format("timeout {} {} {} 2>&1", limit + 5, program, words).c_str(), "r");
  std::string text;
  char piece[4096];
  while (size_t got = std::fread(piece, 1, sizeof piece, pipe)) text.append(piece, got);
  pclose(pipe);
  o.seconds = since(start);
  std::smatch match;
  o.proved = std::regex_search(text, match, proof);
  if (o.proved) o.cost = match[1];
  o.counts = o.proved || o.seconds >= 0.9 * limit;
  if (!o.counts)
    fmt::print(stderr, "{} ended after {:.1f} s without an answer: {}\n", program, o.seconds,
               text.substr(text.size() - std::min<size_t>(text.size(), 500)));
  return o;
}

Outcome joint(const Network& n, double limit, double gap) {
  const auto start = Clock::now();
  Options options;
  options.gap = gap;
  options.deadline = start + std::chrono::milliseconds(static_cast<int64_t>(1000 * limit));
  const Result r = solve(n, options);
  if (r.status == Status::kInfeasible) fail("there is no solution within the limit, and nothing to compare");
  return {since(start), true, r.certificate.bound && r.solution && is_within(gap, r.cost, *r.certificate.bound),
          to_string(r.cost)};
}

Outcome elimination(const Network& n, double limit) {
  const auto start = Clock::now();
  const auto plan = plan_elimination(n, int64_t{2} << 30);
  if (!plan) return {0, false, false, ""};
  const auto found = eliminate(n, *plan, [&] { return since(start) > limit; });
  if (found && !(found->solution && evaluate(n, *found->solution).feasible))
    return {0, false, false, ""};  // it leaves the limit aside
  return {since(start), true, found.has_value(), found ? to_string(found->cost) : ""};
}

// Their seconds, and how many times ours that is. A run without a proof in time took at least as long.
std::string beside(const Outcome& other, const Outcome& ours) {
  if (!other.counts) return fmt::format("{:>22}", "-");
  const bool bound = !other.proved;
  return fmt::format("{:>10} {:>11}", fmt::format("{}{:.3f}", bound ? ">" : "", other.seconds),
                     ours.proved ? fmt::format("{}{:.1f}x", bound ? ">" : "", other.seconds / ours.seconds) : "-");
}

// A problem file, FAMILY:SIZE:VALUES:SEED[:limited], or MODEL@BATCH[@BYTES].
Network network_of(const std::string& word) {
  if (names_model(word)) {
    const Asked asked = asked_for(word, "p2.8xlarge");
    return joint_problem({asked.graph, asked.cluster}, {joint_mesh(asked.cluster, 2), {}})->network;
  }
  std::smatch m;
  if (!std::regex_match(word, m, std::regex("([a-z-]+):(\\d+):(\\d+):(\\d+)(:limited)?"))) return read_problem(word);
  for (Family f : kFamilies)
    if (std::regex_replace(std::string(name_of(f)), std::regex(" "), "-") == m[1])
      return random_network({f, std::stoi(m[2]), std::stoi(m[3]), 0, 1'000'000, m[5].matched}, std::stoull(m[4]));
  fail("{}: no such family of networks", word);
}

void compare(const std::string& word, double limit, double gap) {
  const Network n = network_of(word);
  const Outcome ours = joint(n, limit, gap), eliminated = elimination(n, limit);
  Outcome cbc{0, false, false, ""}, toulbar2 = cbc;
  if (const auto p = pairwise(n)) {
    const std::string lp = "search_bench.lp", wcsp = "search_bench.wcsp";
    write_lp(n, *p, lp);
    cbc = run("cbc", fmt::format("{} ratio {} allow 0 sec {} solve", lp, gap, limit), limit,
              std::regex("Optimal solution found[^]*?Objective value: +(-?[0-9.]+)"));
    std::filesystem::remove(lp);
    if (kept_times(n).empty()) {
      const Wide taken = write_wcsp(n, *p, wcsp);
      toulbar2 = run("toulbar2", fmt::format("{} -rgap={} -timer={:.0f}", wcsp, gap, limit), limit,
                     std::regex("(?:Optimum|guaranteed primal bound): (\\d+)"));
      if (toulbar2.proved) toulbar2.cost = to_string(*parse_wide(toulbar2.cost) + taken);
      std::filesystem::remove(wcsp);
    }
  }
  fmt::print("{:<28}{:>10} {} {} {}\n", std::filesystem::path(word).filename().string(),
             fmt::format("{}{:.3f}", ours.proved ? "" : ">", ours.seconds), beside(eliminated, ours), beside(cbc, ours),
             beside(toulbar2, ours));
  for (const Outcome* o : std::initializer_list<const Outcome*>{&eliminated, &cbc, &toulbar2})
    if (const double mine = ours.proved && o->proved ? std::stod(ours.cost) : 0,
        theirs = mine != 0 ? std::stod(o->cost) : 0;
        std::abs(mine - theirs) > std::max(1e-6, gap) * std::max(std::abs(mine), std::abs(theirs)))
      fail("{}: optima of {} and {}", word, ours.cost, o->cost);
  std::fflush(stdout);
}

}  // namespace
}  // namespace partita::solver

int main(int argc, char** argv) try {
  std::vector<std::string> words(argv + 1, argv + argc);
  const double limit = std::stod(partita::taken(words, "--limit", "600")),
               gap = std::stod(partita::taken(words, "--gap", "0"));
  fmt::print("seconds, and times the joint solver's; limit {} s{}\n{:<28}{:>10} {:>22} {:>22} {:>22}\n", limit,
             gap > 0 ? fmt::format(", within {}%", 100 * gap) : "", "network", "joint", "elimination alone", "CBC",
             "toulbar2");
  for (const std::string& word : words) partita::solver::compare(word, limit, gap);
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 1;
}
