// Tests that random plans of FlexFlow's space compute the same as one device.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/pipeline/pipeline.h"
#include "partita/plan/check.h"
#include "partita/search/soap/op_order.h"
#include "partita/search/soap/units_of_ops.h"
#include "partita/task_graph/local_tasks.h"
#include "tests/e2e/runs.h"
#include "tests/golden/soap_draws.h"

namespace partita {
namespace {

constexpr int64_t kSteps = 2;

// A model's step on so many devices, without a real plan, and the results of one device.
struct Model {
  Planned planned;
  std::vector<SoapUnit> units;
};
Model model_on(const std::string& model, int devices, Runner& runner) {
  Request request;
  request.model = model;
  request.bindings["batch"] = "12";
  request.optimizer = {"sgd", 0.01, 0.9, 0.0};
  request.dtype = DType::kFloat64;
  request.cluster = fmt::format("local:{}", devices);
  request.search = "single";
  Model made{plan_model(request, runner), {}};
  made.units = soap_units(made.planned.training);
  return made;
}
const SerialRun& serial(const std::string& model, const Graph& training, const TrainOptions& options) {
  static std::map<std::string, SerialRun> known;
  const auto [found, fresh] = known.try_emplace(model);
  if (fresh) found->second = train_serial(training, options, kernels());
  return found->second;
}

// Counts of random plans.
struct Tally {
  int plans = 0;
  std::set<int> sizes;              // of meshes
  std::set<SoapDimension> split;    // dimensions that were
  int elsewhere = 0, unsorted = 0;  // plans with ops on several meshes, and with lists that do not ascend
  int uneven = 0;                   // degrees that do not divide their index's extent
};

enum class Draw { kSet, kAny, kOps };
const char* const kNames[] = {"set", "any", "ops"};

// A configuration for each unit, from its set; or, for kAny, from all that a plan takes.
std::vector<SoapConfiguration> drawn(const Model& model, Draw from, Rng& rng, Tally& tally) {
  const std::vector<DeviceId> devices = slowest_link_first(model.planned.cluster);
  const Graph& graph = model.planned.training;
  std::vector<SoapConfiguration> out;
  std::set<std::vector<DeviceId>> lists;
  bool unsorted = false;
  for (const SoapUnit& unit : model.units) {
    const tdl::Bound& bound = *graph.op(unit.leader).bound;
    out.push_back(from == Draw::kAny ? any_configuration(bound, unit, devices, rng)
                                     : soap_set(graph, unit, devices, {}).draw(rng));
    const SoapConfiguration& c = out.back();
    for (size_t d = 0; d < c.degrees.size(); ++d) {
      if (unit.indices[d] == kSoapCopies) continue;
      if (c.degrees[d] > 1) tally.split.insert(unit.dimensions[d]);
      tally.uneven += bound.indices[static_cast<size_t>(unit.indices[d])].extent % c.degrees[d] != 0;
    }
    tally.sizes.insert(static_cast<int>(c.devices.size()));
    lists.insert(c.devices);
    unsorted |= !std::ranges::is_sorted(c.devices);
  }
  tally.elsewhere += lists.size() > 1;
  tally.unsorted += unsorted;
  return out;
}

// The plan is in the graph's order, or in that in which its tasks begin.
void expect_serial(const std::string& name, int devices, Draw from, bool in_order, Rng& rng, Tally& tally) {
  SCOPED_TRACE(fmt::format("{} on {} devices, {}{}", name, devices, kNames[static_cast<int>(from)],
                           in_order ? ", in order" : ""));
  Runner runner;
  Model model = model_on(name, devices, runner);
  Planned& planned = model.planned;
  if (from == Draw::kOps) model.units = units_of_single_ops(planned.training, model.units);
  planned.plan = soap_plan(planned.training, planned.cluster, model.units, drawn(model, from, rng, tally), "soap");
  if (in_order) {
    const CostModel cost(planned.cluster);
    LocalTasks tasks(planned.training, cost);
    planned.plan.order = first_come_order(planned.training, local_task_graph(planned.training, planned.plan, tasks));
  }
  EXPECT_EQ(parse_plan(print(planned.plan, planned.training), planned.training), planned.plan);
  finish(planned, runner);
  TrainOptions options;
  options.steps = kSteps;
  TrainReport report = train(planned, options, kernels());
  compare_with(serial(name, planned.training, options), report);
  std::printf("%-62s %d devices, %-3s: weights %.1e, losses %.1e\n", name.c_str(), devices,
              kNames[static_cast<int>(from)], *report.max_error_vs_serial, *report.max_loss_error_vs_serial);
  EXPECT_LE(*report.max_error_vs_serial, 1e-10);
  EXPECT_LE(*report.max_loss_error_vs_serial, 1e-10);
  EXPECT_NE(report.losses.front(), report.losses.back());
  ++tally.plans;
}

// Takes models and device counts in turn. A model has three plans: one from the sets of units, one of any degrees and
// lists for units, and one from the sets of single ops.
void expect_random_plans_are_serial(int plans) {
  const char* text = std::getenv("PARTITA_SEED");
  const uint64_t seed = text ? std::strtoull(text, nullptr, 10) : 36;
  std::printf("seed %llu (PARTITA_SEED)\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  Tally tally;
  for (int i = 0; i < plans; ++i)
    expect_serial(fmt::format("zoo:{}", kSoapModels[i % 6]), static_cast<int>(rng.between(2, 8)),
                  static_cast<Draw>(i / 6 % 3), (i + i / 6) % 2 == 1, rng, tally);
  std::printf(
      "%d plans, %d on several meshes, %d with lists that do not ascend, %d uneven degrees, meshes of %s devices\n",
      tally.plans, tally.elsewhere, tally.unsorted, tally.uneven,
      fmt::format("{}", fmt::join(tally.sizes, ", ")).c_str());
  EXPECT_EQ(tally.split.size(), 3u);
  EXPECT_EQ(tally.elsewhere, plans);
  EXPECT_GT(4 * tally.unsorted, plans);
  EXPECT_GT(tally.uneven, 0);
}

TEST(Soap, RandomPlansEqualSerial) { expect_random_plans_are_serial(18); }
TEST(ManySoap, RandomPlansEqualSerial) { expect_random_plans_are_serial(60); }

}  // namespace
}  // namespace partita
