// Tests plans that keep a schedule: the requirements on the list of transfers, and its control edges.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/device_placement/baechi.h"
#include "partita/device_placement/decode.h"
#include "partita/physical/passes.h"
#include "partita/physical/transfer_turns.h"
#include "partita/pipeline/pipeline.h"
#include "partita/plan/check.h"
#include "partita/schedule/lower.h"
#include "partita/schedule/orders.h"
#include "partita/search/device_placement/placed_graph.h"
#include "partita/sim/simulate.h"

namespace partita {
namespace {

struct Made {
  Planned planned;
  Plan plan;
};
Made on_two_devices(const std::string& model = "zoo:mlp?layers=3,width=8,batch=4") {
  Request request;
  request.model = model;
  request.cluster = "flexflow-p100";
  request.devices = 2;
  request.search = "single";
  Runner runner;
  Made made{plan_model(request, runner), {}};
  const Problem problem{made.planned.training, made.planned.cluster};
  const PlacedGraph placed = placed_graph(problem, CostModel(made.planned.cluster), {});
  const PlacementProblem& p = placed.problem;
  // Operations in turn, groups where their last is.
  std::vector<int> device(p.ops.size()), group(made.planned.training.ops.size(), 0), rank(p.ops.size());
  for (size_t o = 0; o < p.ops.size(); ++o) {
    device[o] = static_cast<int>(o % 2);
    if (p.ops[o].ns[0] < 0) device[o] = static_cast<int>(p.devices.size()) - 1;
    while (p.ops[o].ns[static_cast<size_t>(device[o])] < 0) --device[o];
    if (p.ops[o].group >= 0) device[o] = p.ops[o].group % 2;
    rank[o] = static_cast<int>(o);
  }
  const PlacedSchedule schedule = first_come(p, device, rank);
  EXPECT_EQ(schedule_error(p, schedule), "");
  made.plan = plan_of(problem, placed, schedule, true, "drawn");
  return made;
}

std::string refused(const Made& made, const Plan& plan) {
  try {
    check_choices(made.planned.training, plan, made.planned.cluster);
    lower(made.planned.training, plan, made.planned.cluster);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(KeptSchedule, EachQueueFollowsThePlan) {
  const Made made = on_two_devices();
  const Graph& graph = made.planned.training;
  ASSERT_GT(made.plan.transfers->size(), 6u);
  const PhysicalGraph lowered = lower(graph, made.plan, made.planned.cluster);
  // The transfers of each link, as the plan has them.
  std::map<QueueId, std::vector<PlannedTransfer>> sent;
  std::map<QueueId, std::vector<Node>> turns;
  for (const Node& node : lowered.order) {
    const Task& task = lowered.task(node.task);
    turns[task.queue].push_back(node);
    if (lowered.queues[task.queue.index()].kind == QueueKind::kLink)
      sent[task.queue].push_back(transfer_of(graph, task));
  }
  ASSERT_GT(sent.size(), 2u);
  for (const auto& [queue, transfers] : sent) {
    std::vector<PlannedTransfer> planned;
    for (const PlannedTransfer& t : *made.plan.transfers)
      if (std::find(transfers.begin(), transfers.end(), t) != transfers.end()) planned.push_back(t);
    EXPECT_EQ(transfers, planned) << lowered.queues[queue.index()].name;
  }
  EXPECT_NO_THROW(transfer_places(graph, lowered, *made.plan.transfers)) << "not the plan's transfers";
  // Neighbours on a queue are joined, by an edge or by a path.
  std::map<Node, std::set<Node>> after;
  for (const Node& node : std::vector<Node>(lowered.order.rbegin(), lowered.order.rend()))
    for (const Edge& e : lowered.edges)
      if (!e.next && e.from == node) {
        after[node].insert(e.to);
        after[node].insert(after[e.to].begin(), after[e.to].end());
      }
  for (const auto& [queue, nodes] : turns) {
    const QueueKind kind = lowered.queues[queue.index()].kind;
    for (size_t i = 1; (kind == QueueKind::kCompute || kind == QueueKind::kLink) && i < nodes.size(); ++i)
      EXPECT_TRUE(after[nodes[i - 1]].contains(nodes[i])) << lowered.task(nodes[i].task).name;
  }
}

TEST(KeptSchedule, TheListHasAllTransfersOnce) {
  const Made made = on_two_devices();
  EXPECT_EQ(refused(made, made.plan), "");
  Plan plan = made.plan;
  const PlannedTransfer last = plan.transfers->back();
  const std::string name = made.planned.training.tensor(last.tensor).name,
                    reader = made.planned.training.op(last.reader).name;
  plan.transfers->pop_back();
  EXPECT_EQ(refused(made, plan), fmt::format("plan: transfers: '{}' to device {} for '{}' is missing; the list "
                                             "has all transfers over links, or is left out",
                                             name, last.to.value, reader));
  plan.transfers->push_back(last);
  plan.transfers->push_back(last);
  EXPECT_EQ(refused(made, plan), fmt::format("plan: transfers: '{}' to device {} stands twice", name, last.to.value));
  plan.transfers->back() = {made.planned.training.find_tensor("lr"), DeviceId(0), OpId()};
  EXPECT_EQ(refused(made, plan), "plan: transfers: 'lr' to device 0 does not cross a link in this plan");
  plan.transfers->back() = {last.tensor, DeviceId(99), OpId()};
  EXPECT_NE(refused(made, plan).find("goes to device 99; cluster 'flexflow-p100' has"), std::string::npos)
      << refused(made, plan);
  plan = made.plan;
  plan.order.clear();
  EXPECT_EQ(refused(made, plan), "plan: transfers: a schedule is kept with the order of ops alone: give `order` too");
}

// The order by time takes as long as that in which registers are apart, with a fraction of its memory.
TEST(KeptSchedule, NobodyWaitsForBytesInTheOrderByTime) {
  for (const char* model : {"zoo:inception-v3?image=75,blocks=2,classes=6,batch=4",
                            "zoo:rnnlm?layers=2,steps=4,hidden=64,vocabulary=50,batch=8"}) {
    SCOPED_TRACE(model);
    const Made made = on_two_devices(model);
    const Graph& graph = made.planned.training;
    const Cluster& cluster = made.planned.cluster;
    const CostModel cost(cluster);
    const Resolved resolved = resolve(graph, made.plan, cluster);
    Orders orders(graph, resolved, cluster);
    const size_t apart = orders.wants_times().value(), by_time = apart - 1;
    const auto step_ns = [&](size_t order) { return simulate(orders.with_edges(order), cost).step_time_ns; };
    const auto peak = [&](size_t order) {
      const std::vector<int64_t>& peaks = orders.planned(order).peak_bytes;
      return *std::max_element(peaks.begin(), peaks.begin() + cluster.compute_count);
    };
    const int64_t apart_ns = step_ns(apart);
    orders.take_times(simulate(orders.with_edges(apart), cost).events);
    EXPECT_FALSE(orders.wants_times().has_value());
    EXPECT_EQ(step_ns(by_time), apart_ns);
    EXPECT_GT(step_ns(0), apart_ns);
    EXPECT_LT(peak(by_time), peak(apart) * 3 / 4);
    EXPECT_LE(peak(0), peak(by_time));
    std::printf("%s: apart %.3f ms, %ld bytes; by time %.3f, %ld; tightest %.3f, %ld\n", model,
                static_cast<double>(apart_ns) / 1e6, static_cast<long>(peak(apart)),
                static_cast<double>(step_ns(by_time)) / 1e6, static_cast<long>(peak(by_time)),
                static_cast<double>(step_ns(0)) / 1e6, static_cast<long>(peak(0)));
    EXPECT_EQ(refuse(orders.lowered(by_time)), std::nullopt);
  }
}

// A list in which a transfer stands before one that it depends on, over the same link.
TEST(KeptSchedule, AnOrderThatNothingCanFollowIsRefused) {
  const Made made = on_two_devices();
  Plan plan = made.plan;
  std::reverse(plan.transfers->begin(), plan.transfers->end());
  EXPECT_NE(refused(made, plan).find("tasks wait for each other"), std::string::npos) << refused(made, plan);
}

TEST(KeptSchedule, FilesNameWhatIsWrong) {
  const Made made = on_two_devices();
  const std::string text = print(made.plan, made.planned.training);
  const auto with = [&](const std::string& transfers) {
    const size_t at = text.find("\"transfers\"");
    try {
      parse_plan(text.substr(0, at) + "\"transfers\": " + transfers + "}", made.planned.training);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(with("3"), "plan: transfers is a list of [tensor, device, reader], not number");
  EXPECT_EQ(with("[[1, 2]]"), "plan: transfers: an entry is [tensor, device] or [tensor, device, reader], not [1,2]");
  EXPECT_EQ(with("[[\"nothing\", 0]]"),
            fmt::format("plan: transfers: tensor 'nothing' is not in model '{}'", made.planned.training.name));
}

}  // namespace
}  // namespace partita
