// Tests that the local task graph of a plan equals its lowered graph before order, reuse of bytes and control edges.
#include "partita/task_graph/local_tasks.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/models/testing/training.h"
#include "partita/physical/lower_local.h"
#include "partita/physical/passes.h"
#include "partita/plan/rules.h"
#include "partita/search/soap/units_of_ops.h"
#include "partita/sim/nodes.h"
#include "tests/golden/direct_cluster.h"
#include "tests/golden/soap_draws.h"
#include "tests/golden/uneven_cluster.h"

namespace partita {
namespace {

struct TaskFacts {
  int64_t duration_ns = 0;
  std::vector<int> queues;
  std::set<uint64_t> after;  // keys of what it waits for
  bool operator==(const TaskFacts&) const = default;
};
using Facts = std::map<uint64_t, TaskFacts>;

// Facts of the tasks that lowering makes, with the queues and times of the simulator of a whole plan.
Facts lowered_facts(const Graph& graph, const Plan& plan, const Cluster& cluster,
                    std::map<uint64_t, std::string>& names) {
  PhysicalGraph physical = lower_local(graph, resolve(graph, plan, cluster), cluster).graph;
  make_order(physical);
  const NodeTable table = number_nodes(physical);
  const Uses uses(physical, table);
  std::vector<uint64_t> key(static_cast<size_t>(table.size()));
  for (int v = 0; v < table.size(); ++v) {
    std::optional<TaskKey> least;
    for (const TaskId t : table.members[static_cast<size_t>(v)])
      least = least ? std::min(*least, physical.task(t).key) : physical.task(t).key;
    const Task& task = physical.task(table.nodes[static_cast<size_t>(v)].task);
    key[static_cast<size_t>(v)] = static_cast<uint64_t>(task.op.value) << kKeyBits | packed(*least);
    names[key[static_cast<size_t>(v)]] = task.name;
  }
  Facts facts;
  const std::vector<SimNode> nodes = sim_nodes(physical, CostModel(cluster));
  for (size_t i = 0; i < nodes.size(); ++i) {
    TaskFacts& of = facts[key[static_cast<size_t>(table.number(physical.order[i]))]];
    of.duration_ns = nodes[i].duration_ns;
    of.queues = nodes[i].queues;
  }
  for (const Use& use : uses.all())
    for (const Node& writer : use.writers)
      for (const Node& reader : use.readers)
        if (writer != reader)
          facts[key[static_cast<size_t>(table.number(reader))]].after.insert(
              key[static_cast<size_t>(table.number(writer))]);
  EXPECT_EQ(facts.size(), nodes.size()) << "keys are unique";
  return facts;
}

Facts facts_of(const TaskGraph& graph) {
  Facts facts;
  size_t tasks = 0;
  for (size_t s = 0; s < graph.fragments.size(); ++s) {
    const Fragment& fragment = *graph.fragments[s];
    const std::vector<int>& parties = graph.wires[s].parties;
    const auto key = [&](const TaskOf& task) {
      return graph.key_of(task.party == 0 ? static_cast<int>(s) : parties[static_cast<size_t>(task.party)], task.task);
    };
    for (int t = 0; t < fragment.size(); ++t, ++tasks) {
      TaskFacts& of = facts[graph.key_of(static_cast<int>(s), t)];
      of.duration_ns = fragment.duration_ns[static_cast<size_t>(t)];
      const int begin = t == 0 ? 0 : fragment.queue_ends[static_cast<size_t>(t) - 1];
      of.queues.assign(fragment.queues.begin() + begin,
                       fragment.queues.begin() + fragment.queue_ends[static_cast<size_t>(t)]);
    }
    std::set<std::pair<TaskOf, TaskOf>> forward, backward;
    for (size_t p = 0; p < fragment.after.size(); ++p)
      for (const bool after : {true, false}) {
        const TaskLists& lists = after ? fragment.after[p] : fragment.before[p];
        for (int t = 0, at = 0; t < static_cast<int>(lists.ends.size()); ++t)
          for (; at < lists.ends[static_cast<size_t>(t)]; ++at) {
            const TaskOf own{static_cast<int>(p), t}, other = lists.tasks[static_cast<size_t>(at)];
            (after ? forward : backward).insert(after ? std::pair(own, other) : std::pair(other, own));
          }
      }
    EXPECT_EQ(forward, backward);
    for (const auto& [from, to] : forward) facts[key(to)].after.insert(key(from));
  }
  EXPECT_EQ(facts.size(), tasks) << "keys are unique";
  return facts;
}

std::string text_of(const TaskFacts& facts, const std::map<uint64_t, std::string>& names) {
  std::string text = fmt::format("{} ns on {} after", facts.duration_ns, fmt::join(facts.queues, ","));
  for (const uint64_t key : facts.after) text += " " + (names.contains(key) ? names.at(key) : fmt::format("{:x}", key));
  return text;
}

void expect_equal(const Graph& graph, const Plan& plan, const Cluster& cluster, LocalTasks& tasks) {
  std::map<uint64_t, std::string> names;
  const Facts lowered = lowered_facts(graph, plan, cluster, names);
  const Facts local = facts_of(local_task_graph(graph, plan, tasks));
  int shown = 0;
  for (const auto& [key, facts] : lowered) {
    const auto found = local.find(key);
    if (found != local.end() && found->second == facts) continue;
    ADD_FAILURE() << names[key] << ": " << text_of(facts, names)
                  << "; local: " << (found == local.end() ? "missing" : text_of(found->second, names));
    if (++shown == 5) return;
  }
  for (const auto& [key, facts] : local)
    if (!lowered.contains(key)) {
      ADD_FAILURE() << fmt::format("{:x}", key) << " is not lowered: " << text_of(facts, names);
      if (++shown == 5) return;
    }
}

void expect_random_plans_are_equal(int plans) {
  const char* text = std::getenv("PARTITA_SEED");
  const uint64_t seed = text ? std::strtoull(text, nullptr, 10) : 36;
  std::printf("seed %llu (PARTITA_SEED)\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  int plans_drawn = 0;
  std::map<std::pair<int, int>, int> of;
  for (int i = 0; i < plans; ++i) ++of[{i % 6, 2 + static_cast<int>(rng.below(7))}];
  for (const auto& [which, count] : of) {
    const auto [model, devices] = which;
    const Graph graph = training(fmt::format("{},batch=12", kSoapModels[model]));
    const Cluster cluster = load_cluster(model % 2 == 0 ? "local:8" : "flexflow-k80", devices);
    SCOPED_TRACE(fmt::format("{} on {}", kSoapModels[model], cluster.name));
    const CostModel cost(cluster);
    LocalTasks tasks(graph, cost);
    const std::vector<SoapUnit> together = soap_units(graph), ops = units_of_single_ops(graph, together);
    for (int n = 0; n < count; ++n) {
      std::vector<SoapConfiguration> drawn;
      const std::vector<SoapUnit>& units = plans_drawn++ % 3 == 2 ? ops : together;
      for (const SoapUnit& unit : units)
        drawn.push_back(n % 2 == 0 || &units == &ops
                            ? soap_set(graph, unit, slowest_link_first(cluster), {}).draw(rng)
                            : any_configuration(*graph.op(unit.leader).bound, unit, slowest_link_first(cluster), rng));
      expect_equal(graph, soap_plan(graph, cluster, units, drawn, "soap"), cluster, tasks);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(LocalTasks, AreWhatRandomPlansAreLoweredTo) { expect_random_plans_are_equal(24); }
TEST(ManyLocalTasks, AreWhatRandomPlansAreLoweredTo) { expect_random_plans_are_equal(200); }

// Kernels are made once for all devices of a type: not for those of others.
TEST(LocalTasks, AreThoseOfTheirDevices) {
  const Cluster cluster = uneven_cluster({50, 2, "{bandwidth_gbytes_per_s: 20, latency_us: 2}", "count: 2, "});
  Rng rng(36);
  for (const char* model : {"mlp?layers=3,width=16,batch=8", "cnn?layers=2,image=6,filters=4,batch=8"}) {
    const Graph graph = training(model);
    const CostModel cost(cluster);
    LocalTasks tasks(graph, cost);
    const std::vector<SoapUnit> units = soap_units(graph);
    for (int n = 0; n < 12; ++n) {
      std::vector<SoapConfiguration> drawn;
      for (const SoapUnit& unit : units)
        drawn.push_back(any_configuration(*graph.op(unit.leader).bound, unit, slowest_link_first(cluster), rng));
      expect_equal(graph, soap_plan(graph, cluster, units, drawn, "soap"), cluster, tasks);
      if (HasFailure()) return;
    }
  }
}

TEST(LocalTasks, AreWhatRulesAreLoweredTo) {
  for (const char* model :
       {"mlp?layers=3,width=16,batch=8", "gpt2?layers=1,hidden=16,heads=4,vocabulary=32,steps=8,batch=8",
        "rnnlm?steps=3,layers=1,hidden=12,vocabulary=24,batch=8"}) {
    const Graph graph = training(model);
    for (const Cluster& cluster : {load_cluster("dgx-1", 4), direct_cluster("flexflow-k80", 8)}) {
      const CostModel cost(cluster);
      LocalTasks tasks(graph, cost);
      expect_equal(graph, single_plan(graph, cluster), cluster, tasks);
      expect_equal(graph, data_parallel_plan(graph, cluster), cluster, tasks);
      expect_equal(graph, model_parallel_plan(graph, cluster), cluster, tasks);
    }
  }
}

}  // namespace
}  // namespace partita
