// Tests the integer program against schedules, against all schedules of small problems, and by hand.
#include "partita/device_placement/program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <sstream>
#include <thread>

#include "partita/base/error.h"
#include "partita/device_placement/cbc.h"
#include "partita/device_placement/decode.h"
#include "partita/device_placement/solve_program.h"
#include "partita/device_placement/testing/brute_force.h"
#include "partita/device_placement/testing/no_cbc.h"
#include "partita/device_placement/testing/random_problem.h"
#include "partita/device_placement/units.h"

namespace partita {
namespace {

// Returns in words the first row or column that the values violate by more than the tolerance; empty: none.
std::string find_violation(const PlacementProgram& program, const std::vector<double>& values, double tolerance) {
  for (size_t c = 0; c < program.columns.size(); ++c) {
    const ProgramColumn& column = program.columns[c];
    if (values[c] < column.lower - tolerance || values[c] > column.upper + tolerance)
      return fmt::format("column {} is {}, not {} to {}", column.name, values[c], column.lower, column.upper);
    if (column.whole && std::abs(values[c] - std::round(values[c])) > tolerance)
      return fmt::format("column {} is {}", column.name, values[c]);
  }
  for (size_t r = 0; r < program.rows.size(); ++r) {
    const ProgramRow& row = program.rows[r];
    double sum = 0;
    for (size_t i = row.terms; i < row.terms_end; ++i)
      sum += program.terms[i].factor * values[static_cast<size_t>(program.terms[i].column)];
    if (sum >= row.lower - tolerance && sum <= row.upper + tolerance) continue;
    std::string text;
    for (size_t i = row.terms; i < row.terms_end; ++i)
      text += fmt::format(" {:+} {}", program.terms[i].factor,
                          program.columns[static_cast<size_t>(program.terms[i].column)].name);
    return fmt::format("row {} of rule ({}):{} is {}, not {} to {}", r, row.rule, text, sum, row.lower, row.upper);
  }
  return {};
}

// A random problem with all kinds of properties; memory allows the placement.
struct Case {
  PlacementProblem problem;
  std::vector<int> placement;
};
Case random_case(Rng& rng, int least_ops, int most_ops) {
  const RandomShape shape{.ops = static_cast<int>(rng.between(least_ops, most_ops)),
                          .devices = 2 + static_cast<int>(rng.below(3)),
                          .host = rng.below(3) == 0,
                          .groups = static_cast<int>(rng.below(3))};
  Case c{random_problem(rng, shape), {}};
  PlacementProblem& p = c.problem;
  if (rng.below(2) == 0)  // devices of unequal speed
    for (PlacedOp& op : p.ops)
      for (int64_t& ns : op.ns)
        if (ns > 0) ns = rng.between(1, 9);
  if (rng.below(3) == 0)  // one link for all, of unequal speed
    for (size_t a = 0; a < p.routes.size(); ++a)
      for (size_t b = 0; b < p.routes.size(); ++b)
        if (a != b) p.routes[a][b] = {0, static_cast<double>(rng.below(4)), 0.5};
  if (rng.below(2) == 0)  // equal links
    for (std::vector<Route>& row : p.routes)
      for (Route& route : row)
        if (route.queue >= 0) route.latency_ns = 1;
  if (rng.below(2) == 0) {  // a second value for the same readers
    const auto v = static_cast<size_t>(rng.below(p.values.size()));
    for (int reader : p.values[v].readers)
      p.ops[static_cast<size_t>(reader)].reads.push_back(static_cast<int>(p.values.size()));
    p.values.push_back({static_cast<int64_t>(rng.below(12)), p.values[v].producer, p.values[v].readers});
  }
  c.placement = random_placement(rng, p);
  if (rng.below(2) == 0) {
    std::vector<int64_t> used(p.devices.size(), 0);
    for (size_t o = 0; o < p.ops.size(); ++o) used[static_cast<size_t>(c.placement[o])] += p.ops[o].bytes;
    const int64_t most = *std::max_element(used.begin(), used.end());
    for (PlacedDevice& device : p.devices) device.memory_bytes = most + static_cast<int64_t>(rng.below(4));
  }
  return c;
}

PlacedSchedule start_of(const Case& c) {
  std::string why;
  const auto start = best_list_schedule(c.problem, {c.placement}, why);
  EXPECT_TRUE(start) << why;
  return *start;
}

// A schedule's column values satisfy all rows, with and without congestion, and give the schedule back.
TEST(PlacementProgram, HoldsEverySchedule) {
  constexpr uint64_t kSeed = 39;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  for (int round = 0; round < 1500; ++round) {
    const Case c = random_case(rng, 1, 14);
    const PlacementProblem& p = c.problem;
    for (bool congestion : {true, false}) {
      std::vector<int> plain(p.ops.size());
      std::iota(plain.begin(), plain.end(), 0);
      PlacedSchedule s = canonical_schedule(p, first_come(p, c.placement, plain));
      ASSERT_EQ(schedule_error(p, s), "") << round;
      s = earliest_schedule(p, s, congestion);
      const PlacementProgram program = make_program(p, s.end + static_cast<int64_t>(rng.below(3)), congestion);
      const std::vector<double> values = program_values(p, program, s);
      ASSERT_EQ(find_violation(program, values, 1e-9), "") << round;
      ASSERT_EQ(values[0], static_cast<double>(s.end));
      const PlacedSchedule back = schedule_of(p, program, values);
      ASSERT_EQ(back.device, s.device) << round;
      if (!congestion) continue;
      ASSERT_EQ(back.start, s.start) << round;
      ASSERT_EQ(back.transfers, s.transfers) << round;
    }
  }
}

// With columns fixed, the reduced program holds the other values. With all fixed no row is left but for C.
TEST(PlacementProgram, IsReducedToWhatIsFree) {
  constexpr uint64_t kSeed = 43;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  for (int round = 0; round < 300; ++round) {
    const Case c = random_case(rng, 2, 14);
    const PlacedSchedule s = earliest_schedule(c.problem, canonical_schedule(c.problem, start_of(c)), true);
    PlacementProgram program = make_program(c.problem, s.end, true);
    const std::vector<double> values = program_values(c.problem, program, s);
    const auto check = [&](uint64_t of_four) {
      for (size_t i = 0; i < values.size(); ++i)
        if (rng.below(4) < of_four) program.columns[i].lower = program.columns[i].upper = values[i];
      PresolvedProgram part = presolve(program);
      std::vector<double> rest;
      for (int column : part.column) rest.push_back(values[static_cast<size_t>(column)]);
      EXPECT_EQ(find_violation(part.program, rest, 1e-9), "") << round;
      return part;
    };
    const PresolvedProgram half = check(2), none = check(4);
    EXPECT_LE(half.program.rows.size(), program.rows.size());
    ASSERT_EQ(none.program.columns.size(), 1u);
    ASSERT_EQ(none.program.rows.size(), 0u) << round;
    program.columns[0].lower -= 1;
    for (const ProgramRow& row : presolve(program).program.rows) ASSERT_EQ(row.terms_end - row.terms, 1u);
  }
}

// Counts the random cases of each kind.
struct Kinds {
  int better = 0, pairs = 0, hosts = 0, groups = 0, memory = 0;
};

void expect_the_best(const Case& c, bool congestion, int round, Kinds& kinds) {
  const PlacementProblem& p = c.problem;
  const PlacedSchedule start = start_of(c);
  const int64_t best = BruteForce(p, congestion).best();
  const ProgramResult result = solve_program(p, start, {.congestion = congestion}, {});
  ASSERT_EQ(result.objective_ns, best) << round << " from " << start.end;
  ASSERT_TRUE(result.proved) << round;
  ASSERT_EQ(result.bound_ns, best) << round;
  ASSERT_EQ(schedule_error(p, result.schedule), "") << round;
  if (congestion) {
    ASSERT_EQ(result.schedule.end, best) << round;
    ASSERT_EQ(result.only_start, start.end == best) << round;
  }
  const PlacementProgram program = make_program(p, start.end, congestion);
  const auto any = [](const auto& of, const auto& what) { return std::any_of(of.begin(), of.end(), what); };
  kinds.better += !result.only_start;
  kinds.pairs += any(program.columns, [](const ProgramColumn& column) { return column.name[0] == 'y'; });
  kinds.hosts += any(p.ops, [](const PlacedOp& op) { return op.ns[0] < 0; });
  kinds.groups += program.units.size() < p.ops.size();
  kinds.memory += any(program.rows, [](const ProgramRow& row) { return row.rule == 8; });
}

void expect_the_best(uint64_t seed, int rounds, int least_ops, int most_ops) {
  SCOPED_TRACE(seed);
  Rng rng(seed);
  Kinds kinds;
  for (int round = 0; round < rounds; ++round) {
    expect_the_best(random_case(rng, least_ops, most_ops), round % 8 != 0, round, kinds);
    if (testing::Test::HasFatalFailure()) return;
  }
  for (int of : {kinds.better, kinds.pairs, kinds.hosts, kinds.groups, kinds.memory}) EXPECT_GE(of, rounds / 10);
}

TEST(PlacementProgram, FindsTheBestOfAll) {
  if (no_cbc()) GTEST_SKIP() << "the package coinor-cbc is not installed";
  expect_the_best(40, 30, 3, 6);
}

TEST(ManyPlacementPrograms, FindTheBestOfAll) {
  if (no_cbc()) GTEST_SKIP() << "the package coinor-cbc is not installed";
  expect_the_best(41, 300, 4, 7);
}

PlacementProblem equal_devices_problem(int devices, int ops, int64_t ns) {
  PlacementProblem p;
  for (int d = 0; d < devices; ++d) p.devices.push_back({"gpu" + std::to_string(d), 1000});
  p.routes.assign(static_cast<size_t>(devices), std::vector<Route>(static_cast<size_t>(devices)));
  for (size_t a = 0; a < p.routes.size(); ++a)
    for (size_t b = 0; b < p.routes.size(); ++b)
      if (a != b) p.routes[a][b] = {p.queues++, 0, 1};
  for (int o = 0; o < ops; ++o)
    p.ops.push_back(
        {std::to_string(o), std::vector<int64_t>(static_cast<size_t>(devices), ns), 10, -1, std::vector<int>()});
  return p;
}

std::string text(const PlacementProgram& p) {
  std::string all;
  for (const ProgramRow& row : p.rows) {
    all += fmt::format("({})", row.rule);
    for (size_t i = row.terms; i < row.terms_end; ++i)
      all += fmt::format(" {:+} {}", p.terms[i].factor, p.columns[static_cast<size_t>(p.terms[i].column)].name);
    all += fmt::format(" in {} .. {}\n", row.lower, row.upper);
  }
  return all;
}

// The example of program.h, and two operations that two devices can run.
TEST(PlacementProgram, IsWhatThePaperSays) {
  EXPECT_EQ(text(make_program(equal_devices_problem(1, 2, 3), 8, true)),
            "(3) +1 C -1 S_0 in 3 .. inf\n"
            "(3) +1 C -1 S_1 in 3 .. inf\n"
            "(4) +1 S_0 -1 S_1 +8 d_0_1 in 3 .. inf\n"
            "(4) -1 S_0 +1 S_1 -8 d_0_1 in -5 .. inf\n"
            "(0) +1 C in 6 .. inf\n");
  // The first is on gpu0 without loss; x_1 = 1: the second is on gpu1.
  EXPECT_EQ(text(make_program(equal_devices_problem(2, 2, 3), 8, true)),
            "(3) +1 C -1 S_0 in 3 .. inf\n"
            "(3) +1 C -1 S_1 in 3 .. inf\n"
            "(10) +8 x_1 +1 S_0 -1 S_1 +8 d_0_1 in 3 .. inf\n"
            "(10) +8 x_1 -1 S_0 +1 S_1 -8 d_0_1 in -5 .. inf\n"
            "(0) +1 C +3 x_1 in 6 .. inf\n");
  // Under this horizon they cannot be on one device.
  EXPECT_NE(text(make_program(equal_devices_problem(2, 2, 3), 5, true)).find("(10) +1 x_1 in 1 .. inf\n"),
            std::string::npos);
}

// With the sign that the paper prints in (10) no two operations can be on one device.
TEST(PlacementProgram, ThePrintedSignAllowsNothing) {
  if (no_cbc()) GTEST_SKIP() << "the package coinor-cbc is not installed";
  const PlacementProblem p = equal_devices_problem(2, 3, 3);
  PlacementProgram program = make_program(p, 8, true);
  const std::string cbc = find_cbc(std::getenv("PATH"));
  const CbcAnswer right = run_cbc(cbc, program, {}, 0.9, 60, {});
  EXPECT_EQ(right.status, CbcAnswer::Status::kOptimal);
  EXPECT_NEAR(right.objective, 6, 1e-6);
  int changed = 0;
  for (ProgramRow& row : program.rows)
    for (size_t i = row.terms; i < row.terms_end; ++i) {
      ProgramTerm& term = program.terms[i];
      if (row.rule != 10 || program.columns[static_cast<size_t>(term.column)].name[0] != 'd') continue;
      if (term.factor < 0) row.lower -= 2 * term.factor;  // + M (1 - delta)
      term.factor = -term.factor;
      ++changed;
    }
  EXPECT_GT(changed, 4);
  EXPECT_EQ(run_cbc(cbc, program, {}, 0.9, 60, {}).status, CbcAnswer::Status::kInfeasible);
}

// As the paper's Figure 2: A to E are small, F and G take most of the time. The longest path in operations is A, C, E
// or B, D, E, so a schedule that knows no times begins with these. F and G first is a quarter shorter.
TEST(PlacementProgram, BeatsListSchedulesJointly) {
  if (no_cbc()) GTEST_SKIP() << "the package coinor-cbc is not installed";
  PlacementProblem p = equal_devices_problem(2, 7, 1);
  p.ops[5].ns = p.ops[6].ns = {3, 3};
  const auto reads = [&](int reader, int producer) {
    p.ops[static_cast<size_t>(reader)].reads.push_back(static_cast<int>(p.values.size()));
    p.values.push_back({1, producer, {reader}});
  };
  reads(2, 0), reads(3, 1), reads(4, 2), reads(4, 3), reads(6, 5);
  const std::vector<int> in_operations = {0, 1, 2, 3, 5, 4, 6};  // A, B, C, D, F, E, G
  const std::vector<int> device = {0, 1, 0, 1, 0, 1, 1};
  const PlacedSchedule naive = first_come(p, device, in_operations);
  EXPECT_EQ(naive.end, 8);
  EXPECT_GE(first_come(p, device, critical_ranks(p, device)).end, 8);
  // With G on the other device it also waits for F's value.
  EXPECT_EQ(first_come(p, {0, 1, 0, 1, 0, 1, 0}, in_operations).end, 9);
  const ProgramResult best = solve_program(p, naive, {}, {});
  EXPECT_EQ(best.schedule.end, 6);
  EXPECT_TRUE(best.proved);
  EXPECT_FALSE(best.only_start);
  EXPECT_EQ(BruteForce(p, true).best(), 6);
}

// Two values of 4 ns on one link: without congestion both arrive at once.
TEST(PlacementProgram, WithoutCongestionTransfersOverlap) {
  if (no_cbc()) GTEST_SKIP() << "the package coinor-cbc is not installed";
  PlacementProblem p = equal_devices_problem(2, 4, 1);
  for (int o : {2, 3}) {
    p.ops[static_cast<size_t>(o)].reads = {o - 2};
    p.ops[static_cast<size_t>(o)].ns = {-1, 5};
    p.ops[static_cast<size_t>(o) - 2].ns = {1, -1};
    p.values.push_back({4, o - 2, {o}});
  }
  std::string why;
  const auto start = best_list_schedule(p, {}, why);
  ASSERT_TRUE(start);
  EXPECT_EQ(solve_program(p, *start, {.congestion = true}, {}).objective_ns, 15);
  p.ops[3].ns = {-1, 1};  // first: 2 + 4 + 1, and then the other
  const ProgramResult off = solve_program(p, *best_list_schedule(p, {}, why, false), {.congestion = false}, {});
  EXPECT_EQ(off.objective_ns, 11);
  EXPECT_TRUE(off.proved);
  EXPECT_EQ(schedule_error(p, off.schedule), "");
  EXPECT_GE(off.schedule.end, 11);
}

TEST(PlacementProgram, BalancedMemoryHalvesBytes) {
  if (no_cbc()) GTEST_SKIP() << "the package coinor-cbc is not installed";
  PlacementProblem p = equal_devices_problem(2, 4, 1);
  for (int o : {1, 2, 3}) {  // a chain that is best on one device
    p.ops[static_cast<size_t>(o)].reads = {o - 1};
    p.values.push_back({5, o - 1, {o}});
  }
  std::string why;
  EXPECT_EQ(best_list_schedule(p, {}, why)->end, 4);
  const PlacementProblem b = with_balanced_memory(p);
  EXPECT_EQ(b.devices[0].memory_bytes, 25);
  EXPECT_EQ(solve_program(b, *best_list_schedule(b, {{0, 1, 0, 1}}, why), {}, {}).schedule.end, 9);
}

TEST(PlacementUnits, EqualDevicesAreFound) {
  PlacementProblem p = equal_devices_problem(3, 5, 4);
  EXPECT_EQ(equal_devices(p), (std::vector<std::vector<int>>{{0, 1, 2}}));
  p.ops[2].group = p.ops[4].group = 7;
  std::vector<PlacementUnit> units = placement_units(p);
  ASSERT_EQ(units.size(), 4u);
  EXPECT_EQ(units[2].ops, (std::vector<int>{2, 4}));
  EXPECT_EQ(unit_of_op(p, units), (std::vector<int>{0, 1, 2, 3, 2}));
  break_device_symmetry(p, units);  // the group is the longest
  EXPECT_EQ(units[2].devices, (std::vector<int>{0}));
  EXPECT_EQ(units[0].devices, (std::vector<int>{0, 1}));
  EXPECT_EQ(units[1].devices, (std::vector<int>{0, 1, 2}));
  PlacementProblem other = p;
  other.routes[0][2].latency_ns = 1;
  EXPECT_EQ(equal_devices(other), (std::vector<std::vector<int>>()));
  other = p;
  other.routes[0][2].others = {{0, 2}};
  EXPECT_EQ(equal_devices(other), (std::vector<std::vector<int>>()));
  other = p;
  other.ops[0].ns[2] = 5;
  EXPECT_EQ(equal_devices(other), (std::vector<std::vector<int>>{{0, 1}}));
  other = p;
  other.routes[0][1].queue = other.routes[0][2].queue;  // one route out of gpu0
  EXPECT_EQ(equal_devices(other), (std::vector<std::vector<int>>{{1, 2}}));
}

// A program in the place of cbc.
std::string script(const std::string& name, const std::string& what) {
  std::string file = testing::TempDir() + "partita_" + name + "_" + std::to_string(getpid());
  std::ofstream(file) << "#!/bin/sh\n" << what << "\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  return file;
}

TEST(Cbc, IsNamedWhereItIsMissing) {
  try {
    find_cbc("/nowhere:/dev");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("coinor-cbc"), std::string::npos);
  }
  EXPECT_THROW(find_cbc(nullptr), Error);
}

double seconds_of(const std::function<void()>& work) {
  const auto begun = Watch::Clock::now();
  work();
  return std::chrono::duration<double>(Watch::Clock::now() - begun).count();
}

// Stops a watch after so long, from a thread of its own.
class Stopper {
 public:
  explicit Stopper(std::chrono::milliseconds after)
      : thread_([this, after] {
          std::this_thread::sleep_for(after);
          stop_ = true;
        }) {}
  ~Stopper() { thread_.join(); }
  const std::atomic<bool>* stop() const { return &stop_; }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;  // last: it sets what is before
};

// A problem that is drawn, and its best list schedule.
struct Started {
  explicit Started(uint64_t seed, const RandomShape& what) {
    Rng rng(seed);
    p = random_problem(rng, what);
    std::string why;
    start = best_list_schedule(p, {}, why);
  }
  PlacementProblem p;
  std::optional<PlacedSchedule> start;
};

TEST(Cbc, IsKilledWhenItsTimeHasPassed) {
  const std::string sleeper = script("sleeper", "echo Continuous objective value is 5.5 - 0.1 seconds\nexec sleep 60");
  const PlacementProgram program = make_program(equal_devices_problem(2, 3, 3), 8, true);
  CbcAnswer answer;
  EXPECT_LT(seconds_of([&] { answer = run_cbc(sleeper, program, {}, 0.9, 0.2, {}); }), 10);
  EXPECT_EQ(answer.status, CbcAnswer::Status::kStopped);
  EXPECT_TRUE(answer.values.empty());
  EXPECT_EQ(answer.bound, 5.5);
  Watch watch;
  watch.deadline = Watch::Clock::now() + std::chrono::milliseconds(200);
  EXPECT_LT(seconds_of([&] { answer = run_cbc(sleeper, program, {}, 0.9, 60, watch); }), 10);
  EXPECT_EQ(answer.status, CbcAnswer::Status::kStopped);
}

TEST(Cbc, IsKilledWhenTheWatchIsStopped) {
  const std::string sleeper = script("sleeper", "exec sleep 60");
  const PlacementProgram program = make_program(equal_devices_problem(2, 3, 3), 8, true);
  const Stopper soon(std::chrono::milliseconds(100));
  Watch watch;
  watch.stop = soon.stop();
  CbcAnswer answer;
  EXPECT_LT(seconds_of([&] { answer = run_cbc(sleeper, program, {}, 0.9, 60, watch); }), 10);
  EXPECT_TRUE(answer.values.empty());
  EXPECT_EQ(answer.status, CbcAnswer::Status::kStopped);
  EXPECT_TRUE(run_cbc("/nowhere/cbc", program, {}, 0.9, 60, watch).values.empty()) << "begun after it was stopped";
}

// A solver deaf to the request to end is killed at the deadline, even if it was to have longer.
TEST(Cbc, IsKilledAtTheDeadline) {
  const std::string deaf = script("deaf", "trap '' INT\nexec sleep 60");
  const PlacementProgram program = make_program(equal_devices_problem(2, 3, 3), 8, true);
  for (const double seconds : {0.1, 60.}) {
    Watch watch;
    watch.deadline = Watch::Clock::now() + std::chrono::milliseconds(500);
    CbcAnswer answer;
    EXPECT_LT(seconds_of([&] { answer = run_cbc(deaf, program, {}, 0.9, seconds, watch); }), 1.5);
    EXPECT_TRUE(answer.values.empty());
  }
}

// After an interrupt or a deadline the solver's start comes back. A deadline before the program is made shows in its
// rows.
TEST(Cbc, KeepsItsStartWhenItIsToEnd) {
  if (no_cbc()) GTEST_SKIP() << "the package coinor-cbc is not installed";
  constexpr uint64_t kSeed = 48;
  SCOPED_TRACE(kSeed);
  const Started drawn(kSeed, {.ops = 60, .devices = 2, .most_ns = 1000000});
  ASSERT_TRUE(drawn.start);
  const PlacementProblem& p = drawn.p;
  const PlacedSchedule& start = *drawn.start;
  const Stopper soon(std::chrono::milliseconds(300));
  Watch watch;
  watch.stop = soon.stop();
  ProgramResult result;
  EXPECT_LT(seconds_of([&] { result = solve_program(p, start, {}, watch); }), 10);
  EXPECT_EQ(schedule_error(p, result.schedule), "");
  EXPECT_LE(result.schedule.end, start.end);
  EXPECT_GT(result.rows, 0U);
  watch.stop = nullptr;
  watch.deadline = Watch::Clock::now();
  result = solve_program(p, start, {}, watch);
  EXPECT_EQ(result.schedule.end, start.end);
  EXPECT_EQ(result.rows, 0U);
}

TEST(Cbc, ItsFailureIsTold) {
  const PlacementProgram program = make_program(equal_devices_problem(2, 3, 3), 8, true);
  for (const char* what : {"echo out of paper; exit 3", "echo out of paper"}) try {
      run_cbc(script("failing", what), program, {}, 0.9, 5, {});
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("out of paper"), std::string::npos) << error.what();
    }
}

TEST(Cbc, AFolderThatIsNoneIsNamed) {
  const PlacementProgram program = make_program(equal_devices_problem(2, 3, 3), 8, true);
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  setenv("TMPDIR", "/nowhere/at/all", 1);
  try {
    run_cbc("/bin/true", program, {}, 0.9, 5, {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("TMPDIR is '/nowhere/at/all', which is no folder"), std::string::npos)
        << error.what();
  }
  if (before) setenv("TMPDIR", kept.c_str(), 1);
  else unsetenv("TMPDIR");
}

TEST(Cbc, WhatCannotBeStartedIsTold) {
  const PlacementProgram program = make_program(equal_devices_problem(2, 3, 3), 8, true);
  try {
    run_cbc("/nowhere/cbc", program, {}, 0.9, 5, {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "/nowhere/cbc cannot be started (error 2)");
  }
}

// The solver's process is gone soon after ours is killed, which has no chance to end it.
TEST(Cbc, DiesWithItsParent) {
  const std::string folder = testing::TempDir() + "partita_orphan_of_" + std::to_string(getpid());
  const std::string file = folder + "/pid";
  std::filesystem::create_directories(folder);
  const std::string sleeper = script(
      "orphan", "echo $$ > " + file + ".part; mv " + file + ".part " + file + "; trap '' INT HUP TERM; exec sleep 60");
  const PlacementProgram program = make_program(equal_devices_problem(2, 3, 3), 8, true);
  const pid_t ours = fork();
  if (ours == 0) {
    setenv("TMPDIR", folder.c_str(), 1);  // files left there are removed below
    run_cbc(sleeper, program, {}, 0.9, 60, {});
    _exit(0);
  }
  const auto within_seconds = [](const std::function<bool()>& holds) {
    for (int i = 0; i < 1000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return holds();
  };
  const bool begun = within_seconds([&] { return std::filesystem::exists(file); });
  kill(ours, SIGKILL);
  waitpid(ours, nullptr, 0);
  ASSERT_TRUE(begun);
  pid_t solver = 0;
  ASSERT_TRUE(std::ifstream(file) >> solver);
  // If nobody waits for orphans, it stays as a zombie.
  EXPECT_TRUE(within_seconds([&] {
    std::ifstream in("/proc/" + std::to_string(solver) + "/stat");
    std::string word;
    return !(in >> word >> word >> word) || word == "Z" || word == "X";
  }));
  std::filesystem::remove_all(folder);
  std::filesystem::remove(sleeper);
}

// Some 100,000 rows, which take longer to be made than half of the time, or to be read than the rest: the start comes
// back soon, with rows that say how far it came.
TEST(Cbc, AProgramTooLargeForTheTimeIsNotHanded) {
  if (no_cbc()) GTEST_SKIP() << "the package coinor-cbc is not installed";
  constexpr uint64_t kSeed = 49;
  SCOPED_TRACE(kSeed);
  const Started drawn(kSeed, {.ops = 400, .devices = 4, .most_ns = 1000000});
  ASSERT_TRUE(drawn.start);
  const PlacementProblem& p = drawn.p;
  const PlacedSchedule& start = *drawn.start;
  std::vector<std::string> told;
  ProgramResult result;
  const ProgramOptions options{.seconds = 0.05, .tell = [&](const std::string& what) { told.push_back(what); }};
  EXPECT_LT(seconds_of([&] { result = solve_program(p, start, options, {}); }), 1);
  EXPECT_EQ(told, (std::vector<std::string>{"makes the integer program"}));
  EXPECT_FALSE(result.made);
  EXPECT_FALSE(result.solved);
  EXPECT_TRUE(result.only_start);
  EXPECT_GT(result.rows, 0U);
  EXPECT_EQ(result.schedule.end, start.end);
  EXPECT_LT(result.rows, make_program(p, start.end, true).rows.size());
}

// The watch ends while its columns are written.
TEST(Cbc, WritingBreaksOffAtTheDeadline) {
  constexpr uint64_t kSeed = 50;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  const PlacementProblem p = random_problem(rng, {.ops = 160, .devices = 4, .most_ns = 1000000});
  std::string why;
  const PlacementProgram program = make_program(p, best_list_schedule(p, {}, why)->end, true);
  std::ostringstream all, part;
  write_mps(all, program);
  Watch watch;
  watch.deadline = Watch::Clock::now() + std::chrono::milliseconds(5);
  EXPECT_LT(seconds_of([&] { write_mps(part, program, watch); }), 1);
  EXPECT_LT(part.str().size(), all.str().size() / 2);
  EXPECT_THROW(presolve(program, watch), Error);
}

// More operations than one window has; as long as any window is better, it goes on. A busy machine needs more seconds.
TEST(Cbc, ImprovesWindows) {
  if (no_cbc()) GTEST_SKIP() << "the package coinor-cbc is not installed";
  constexpr uint64_t kSeed = 47;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  int better = 0;
  for (int round = 0; round < 12 && (round < 3 || better == 0); ++round) {
    const PlacementProblem p = random_problem(rng, {.ops = 30, .devices = 2, .most_reads = 2, .most_ns = 20});
    std::string why;
    const auto start = best_list_schedule(p, {}, why);
    ASSERT_TRUE(start);
    const ProgramResult result = solve_program(p, *start, {.seconds = round < 3 ? 1.0 : 10.0}, {});
    EXPECT_EQ(schedule_error(p, result.schedule), "") << round;
    EXPECT_LE(result.schedule.end, start->end) << round;
    EXPECT_LE(result.bound_ns, result.schedule.end) << round;
    EXPECT_EQ(result.only_start, result.schedule.end == start->end) << round;
    better += result.schedule.end < start->end;
  }
  EXPECT_GE(better, 1);
}

// More than CBC solves in a second: it returns a schedule no worse than the start, with a bound.
TEST(Cbc, StopsInTime) {
  if (no_cbc()) GTEST_SKIP() << "the package coinor-cbc is not installed";
  constexpr uint64_t kSeed = 42;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  const PlacementProblem p = random_problem(rng, {.ops = 40, .devices = 2, .most_ns = 1000000});
  std::string why;
  const auto start = best_list_schedule(p, {}, why);
  ASSERT_TRUE(start);
  ProgramResult result;
  EXPECT_LT(seconds_of([&] { result = solve_program(p, *start, {.seconds = 1}, {}); }), 60);
  EXPECT_EQ(schedule_error(p, result.schedule), "");
  EXPECT_LE(result.schedule.end, start->end);
  EXPECT_LE(result.bound_ns, result.objective_ns);
  EXPECT_GT(result.bound_ns, start->end / 3);
}

}  // namespace
}  // namespace partita
