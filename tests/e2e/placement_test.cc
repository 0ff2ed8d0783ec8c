// Tests random device placements with random orders: they compute the same as one device, in exactly that order,
// however long kernels take.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <numeric>
#include <thread>

#include "partita/device_placement/decode.h"
#include "partita/pipeline/pipeline.h"
#include "partita/search/device_placement/placed_graph.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

constexpr const char* kModels[] = {
    "rnnlm?layers=2,steps=3,hidden=10,vocabulary=11",
    "nmt?layers=1,steps=2,hidden=8,vocabulary=11",
    "transformer?hidden=16,heads=2,steps=4,vocabulary=12,layers=1",
    "inception-v3?image=75,blocks=1,classes=5",
    "mlp?layers=3,width=8",
};

Request request_of_step(const std::string& model, const std::string& cluster, int devices) {
  Request request;
  request.devices = devices;
  request.model = "zoo:" + model;
  request.bindings["batch"] = "4";
  request.optimizer = {"adam", 0.01};
  request.dtype = DType::kFloat64;
  request.cluster = cluster;
  request.search = "single";
  return request;
}

Planned step_of(const std::string& model, const std::string& cluster, int devices) {
  Runner runner;
  return plan_model(request_of_step(model, cluster, devices), runner);
}

// Each group, and each operation of none, on a device of its own choice.
std::vector<int> drawn_devices(const PlacementProblem& p, Rng& rng) {
  std::map<int, int> of_group;
  std::vector<int> device(p.ops.size());
  for (size_t o = 0; o < p.ops.size(); ++o) {
    const auto draw = [&] {
      int d = 0;
      do d = static_cast<int>(rng.below(p.devices.size()));
      while (p.ops[o].ns[static_cast<size_t>(d)] < 0);
      return d;
    };
    device[o] = p.ops[o].group < 0 ? draw() : of_group.try_emplace(p.ops[o].group, draw()).first->second;
  }
  return device;
}

std::vector<int> drawn_ranks(size_t ops, Rng& rng) {
  std::vector<int> rank(ops);
  std::iota(rank.begin(), rank.end(), 0);
  for (size_t i = ops; i > 1; --i) std::swap(rank[i - 1], rank[rng.below(i)]);
  return rank;
}

// Kernels that take up to so long more, drawn.
class Delayed final : public Kernels {
 public:
  Delayed(Kernels& inner, uint64_t seed) : inner_(inner), seed_(seed) {}
  std::shared_ptr<const PreparedCall> prepare_call(const KernelCall& call) override {
    return inner_.prepare_call(call);
  }
  void run(const KernelCall& call) override {
    constexpr uint64_t kMostUs = 300;
    Rng rng(seed_ + std::hash<std::string>()(call.task->name));
    std::this_thread::sleep_for(std::chrono::microseconds(rng.below(kMostUs)));
    inner_.run(call);
  }
  int64_t live_bytes() const override { return inner_.live_bytes(); }
  int64_t peak_bytes() const override { return inner_.peak_bytes(); }
  void reset_peak() override { inner_.reset_peak(); }

 private:
  Kernels& inner_;
  uint64_t seed_;
};

// Expects that each queue of computation, each link and a host's kernels ran in the trace as they stand in `order`.
void expect_in_order(const PhysicalGraph& graph, const Trace& trace) {
  const auto ordered = [&](TaskId task) {
    const QueueKind kind = graph.queues[graph.task(task).queue.index()].kind;
    const bool computes = std::holds_alternative<KernelWork>(graph.task(task).work);
    return kind == QueueKind::kCompute || kind == QueueKind::kLink || computes;
  };
  std::map<QueueId, std::vector<TaskId>> planned;
  for (const Node& node : graph.order)
    if (ordered(node.task)) planned[graph.task(node.task).queue].push_back(node.task);
  std::map<std::pair<int, QueueId>, std::vector<TaskId>> ran;
  for (const Event& e : trace.events)
    if (ordered(e.task)) ran[{e.step, graph.task(e.task).queue}].push_back(e.task);
  for (const auto& [at, tasks] : ran) EXPECT_EQ(tasks, planned[at.second]) << "step " << at.first;
}

uint64_t seed_of_tests() {
  const char* text = std::getenv("PARTITA_SEED");
  const uint64_t seed = text ? std::strtoull(text, nullptr, 10) : 37;
  std::printf("seed %llu (PARTITA_SEED)\n", static_cast<unsigned long long>(seed));
  return seed;
}

// Two steps with kernels that are late: in the plan's order if it is kept, and with one device's numbers.
TrainReport expect_serial(const Planned& planned, uint64_t seed) {
  Delayed delayed(kernels(), seed);
  TrainOptions options;
  options.steps = 2;
  options.trace = true;
  TrainReport report = train(planned, options, delayed);
  if (planned.plan.transfers) expect_in_order(planned.physical, report.trace);
  compare_with(train_serial(planned.training, options, kernels()), report);
  EXPECT_LE(*report.max_error_vs_serial, 1e-10);
  EXPECT_LE(*report.max_loss_error_vs_serial, 1e-10);
  return report;
}

// Runs a schedule with kernels that are late, and compares its order with the plan's and its numbers with one device's.
void expect_kept(Planned& planned, const Problem& problem, const PlacedGraph& placed, const PlacedSchedule& schedule,
                 uint64_t seed) {
  ASSERT_EQ(schedule_error(placed.problem, schedule), "");
  Runner runner;
  planned.plan = plan_of(problem, placed, schedule, true, "drawn");
  EXPECT_EQ(parse_plan(print(planned.plan, planned.training), planned.training), planned.plan);
  planned.order.reset();  // that of the plan before
  finish(planned, runner);
  const TrainReport report = expect_serial(planned, seed);
  std::printf("%-66s %d devices, %3zu transfers: weights %.1e, losses %.1e; step %.3f ms, lowered %.3f\n",
              planned.training.name.c_str(), planned.cluster.compute_count, schedule.transfers.size(),
              *report.max_error_vs_serial, *report.max_loss_error_vs_serial, static_cast<double>(schedule.end) / 1e6,
              static_cast<double>(planned.predicted.step_time_ns) / 1e6);
}

TEST(Placement, RandomSchedulesAreKeptAndEqualSerial) {
  const uint64_t seed = seed_of_tests();
  Rng rng(seed);
  for (int i = 0; i < 15; ++i) {
    const std::string model = kModels[i % 5];
    const int devices = 2 + i / 5;
    SCOPED_TRACE(fmt::format("{} on {} devices", model, devices));
    Planned planned = step_of(model, fmt::format("local:{}", devices), devices);
    const Problem problem{planned.training, planned.cluster};
    const CostModel cost(planned.cluster);
    const PlacedGraph placed = placed_graph(problem, cost, {});
    const PlacedSchedule schedule =
        first_come(placed.problem, drawn_devices(placed.problem, rng), drawn_ranks(placed.problem.ops.size(), rng));
    expect_kept(planned, problem, placed, schedule, seed + static_cast<uint64_t>(i));
    // The problem does not have loads, nor registers that wait for their last reader of the step before.
    EXPECT_NEAR(static_cast<double>(planned.predicted.step_time_ns) / static_cast<double>(schedule.end), 1, 0.1);
  }
}

// Draws for each ten ops one on the host, one launched ahead of the next, and two in one group.
void draw_types(Graph& graph, Rng& rng) {
  constexpr uint64_t kEvery = 10;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    Op& op = graph.ops[i];
    const uint64_t drawn = rng.below(kEvery);
    if (!op.colocation.empty()) continue;
    if (drawn == 0) op.device_type = DeviceType::kCpu;
    if (drawn > 2 || drawn == 0 || i + 1 == graph.ops.size()) continue;
    if (drawn == 1) op.device_type = DeviceType::kLaunch;
    op.colocation = graph.ops[i + 1].colocation = fmt::format("group {}", i);
  }
  verify(graph);
}

// On GPUs with their host.
TEST(Placement, DeviceTypesAndGroupsAreKeptAndEqualSerial) {
  const uint64_t seed = seed_of_tests();
  Rng rng(seed);
  for (int i = 0; i < 10; ++i) {
    const std::string model = kModels[i % 5];
    const int devices = 2 + i / 5;
    SCOPED_TRACE(fmt::format("{} on {} devices", model, devices));
    Planned planned = step_of(model, "dgx-1", devices);
    draw_types(planned.training, rng);
    const Problem problem{planned.training, planned.cluster};
    const CostModel cost(planned.cluster);
    const PlacedGraph placed = placed_graph(problem, cost, {});
    const PlacedSchedule schedule =
        first_come(placed.problem, drawn_devices(placed.problem, rng), drawn_ranks(placed.problem.ops.size(), rng));
    expect_kept(planned, problem, placed, schedule, seed + static_cast<uint64_t>(i));
    std::map<std::string, DeviceId> of_group;
    for (size_t k = 0; k < planned.training.ops.size(); ++k) {
      const Op& op = planned.training.ops[k];
      const DeviceId d = planned.plan.ops[k].mesh.devices[0];
      EXPECT_EQ(d.value >= devices, op.device_type == DeviceType::kCpu) << op.name;
      if (!op.colocation.empty()) {
        EXPECT_EQ(of_group.try_emplace(op.colocation, d).first->second, d) << op.name;
      }
    }
  }
}

// Pesto's models (section 5.2), cut down, as searches place them.
TEST(Placement, PestosModelsCutDownAreKeptAndEqualSerial) {
  constexpr const char* kVariants[] = {
      "rnnlm?layers=2,steps=3,hidden=64,vocabulary=40,fine=1",
      "nmt?layers=1,steps=2,hidden=64,vocabulary=40,fine=1",
      "encoder-decoder?layers=1,heads=2,hidden=64,inner=64,steps=4,vocabulary=40,fine=1",
      "nasnet?cells=1,filters=96,image=32,stem=4,classes=5",
      "rnnlm?layers=1,steps=4,hidden=64,vocabulary=40,cell=gru,fine=1",
      "nasnet?cells=1,filters=96,image=32,stem=4,classes=5,fine=1",
  };
  constexpr const char* kSearches[] = {"placement", "baechi-metf?order=own", "expert-placement",
                                       "baechi-mtopo?order=critical"};
  const uint64_t seed = seed_of_tests();
  for (int i = 0; i < 24; ++i) {
    const std::string model = kVariants[i % 6], search = kSearches[i / 6];
    const int devices = 2 + i % 3;
    SCOPED_TRACE(fmt::format("{} on {} devices by {}", model, devices, search));
    Request request = request_of_step(model, fmt::format("local:{}", devices), devices);
    request.optimizer = {.kind = "sgd?momentum=0.9,fine=1", .lr = 0.01};
    request.search = search;
    request.objective = Objective::kTime;
    request.budget.steps = 500;
    request.seed = seed + static_cast<uint64_t>(i);
    Runner runner;
    const Planned planned = plan_model(request, runner);
    const TrainReport report = expect_serial(planned, request.seed);
    std::printf("%-84s %d devices, %-28s weights %.1e, losses %.1e\n", model.c_str(), devices, search.c_str(),
                *report.max_error_vs_serial, *report.max_loss_error_vs_serial);
  }
}

}  // namespace
}  // namespace partita
