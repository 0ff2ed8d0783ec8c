// Tests that lowered graphs of real plans, made wrong on purpose, are each refused by the verifier or by admission,
// which name a task or register. Every kind of mutation is wrong by construction: another task of the graph needs what
// it takes away, moves or changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/physical/passes.h"
#include "partita/physical/testing/mutate.h"
#include "partita/pipeline/pipeline.h"
#include "partita/schedule/lower.h"
#include "planned.h"

namespace partita {
namespace {

using testing::verdict;

// ---------------------------------------------------------------- where a mutation has its place

template <typename Work>
bool is(const Task& task) {
  return std::holds_alternative<Work>(task.work);
}

// The number of a task that holds(); -1: none.
template <typename F>
int any_task(const PhysicalGraph& graph, Rng& rng, F&& holds) {
  std::vector<int> fit;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t)
    if (holds(graph.tasks[t])) fit.push_back(static_cast<int>(t));
  return fit.empty() ? -1 : fit[rng.below(fit.size())];
}

// Tells whether another task than `except` reads what this step writes into the register.
bool is_read(const PhysicalGraph& graph, RegisterId id, const Task* except = nullptr) {
  const bool carried = graph.reg(id).carried;
  for (const Task& task : graph.tasks)
    for (const Access& read : task.reads)
      if (&task != except && read.reg == id && (!carried || read.fresh)) return true;
  return false;
}

bool has_elements(const PhysicalGraph& graph, const Access& access) {
  const Box& box = access.boxes.empty() ? graph.reg(access.reg).box(0) : access.boxes[0];
  return !box.empty() && !is_empty(box);
}

// Removes one element on one axis, at one of its ends. No box is left with nothing on that axis if there were two or
// more.
void shrink(const PhysicalGraph& graph, Access& access, Rng& rng) {
  if (access.boxes.empty()) access.boxes = graph.reg(access.reg).boxes;
  Box& box = access.boxes[rng.below(access.boxes.size())];
  Interval& axis = box[rng.below(box.size())];
  rng.below(2) == 0 ? ++axis.lo : --axis.hi;
}

const Box& box_of(const PhysicalGraph& graph, const Access& access) {
  return access.boxes.empty() ? graph.reg(access.reg).box(0) : access.boxes[0];
}

// A combine of several terms for the same elements, not one that puts pieces side by side.
bool reduces(const PhysicalGraph& graph, const Task& task) {
  if (!is<CombineWork>(task) || task.reads.size() < 2) return false;
  return box_of(graph, task.reads[0]) == box_of(graph, task.reads[1]) && has_elements(graph, task.reads[0]);
}

// A combine that leaves elements to the reducer's identity: it makes partial values of whole ones.
bool pads(const PhysicalGraph& graph, const Task& task) {
  if (!is<CombineWork>(task)) return false;
  int64_t covered = 0;
  for (const Access& read : task.reads) covered += volume(box_of(graph, read));
  return covered < volume(box_of(graph, task.writes[0]));
}

tdl::Reducer another(tdl::Reducer reducer, Rng& rng) {
  const tdl::Reducer all[] = {tdl::Reducer::kSum, tdl::Reducer::kMax, tdl::Reducer::kMin, tdl::Reducer::kProd};
  const auto at = std::find(std::begin(all), std::end(all), reducer) - std::begin(all);
  return all[(at + 1 + static_cast<int>(rng.below(3))) % 4];
}

// Tells whether a path of same-step edges joins the nodes without this edge.
bool is_implied(const PhysicalGraph& graph, std::size_t edge) {
  std::map<Node, std::vector<Node>> after;
  for (std::size_t e = 0; e < graph.edges.size(); ++e)
    if (e != edge && !graph.edges[e].next) after[graph.edges[e].from].push_back(graph.edges[e].to);
  std::vector<Node> open{graph.edges[edge].from};
  std::set<Node> seen;
  while (!open.empty()) {
    const Node node = open.back();
    open.pop_back();
    if (node == graph.edges[edge].to) return true;
    if (seen.insert(node).second) open.insert(open.end(), after[node].begin(), after[node].end());
  }
  return false;
}

// ---------------------------------------------------------------- mutations

// Names the change; empty if the graph has no place for it.
using Spoil = std::string (*)(PhysicalGraph& g, Rng& rng);

// Shrinks one access of a task that holds(): a read, or a write that another task reads.
template <typename F>
std::string shrink_one(PhysicalGraph& g, Rng& rng, F&& holds) {
  const int t = any_task(g, rng, holds);
  if (t < 0) return "";
  Task& task = g.tasks[t];
  std::vector<Access*> fit;
  for (Access& read : task.reads)
    if (has_elements(g, read)) fit.push_back(&read);
  for (Access& write : task.writes)
    if (has_elements(g, write) && is_read(g, write.reg)) fit.push_back(&write);
  if (fit.empty()) return "";
  shrink(g, *fit[rng.below(fit.size())], rng);
  return task.name;
}

const std::pair<const char*, Spoil> kSpoils[] = {
    {"a dropped fetch",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t = any_task(g, rng, [&](const Task& task) {
         return is<CopyWork>(task) && has_elements(g, task.writes[0]) && is_read(g, task.writes[0].reg);
       });
       if (t < 0) return "";
       const std::string name = g.tasks[t].name;
       testing::remove_task(g, TaskId(static_cast<std::size_t>(t)));
       return name;
     }},
    {"a dropped combine",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t = any_task(g, rng, [&](const Task& task) {
         return is<CombineWork>(task) && has_elements(g, task.writes[0]) && is_read(g, task.writes[0].reg);
       });
       if (t < 0) return "";
       const std::string name = g.tasks[t].name;
       testing::remove_task(g, TaskId(static_cast<std::size_t>(t)));
       return name;
     }},
    {"a participant that does not come",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t = any_task(g, rng, is<CollectiveWork>);
       if (t < 0) return "";
       const std::string name = g.tasks[t].name;
       testing::remove_task(g, TaskId(static_cast<std::size_t>(t)));
       return name;
     }},
    {"a kernel's box off by one", [](PhysicalGraph& g, Rng& rng) { return shrink_one(g, rng, is<KernelWork>); }},
    {"a kernel's range off by one",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t =
           any_task(g, rng, [&](const Task& task) { return is<KernelWork>(task) && has_elements(g, task.writes[0]); });
       auto& work = std::get<KernelWork>(g.tasks[t].work);
       auto& ranges = work.ranges[rng.below(work.ranges.size())];
       // If the last stage's left side runs along an index, another box would be written.
       std::vector<int> written;
       for (const tdl::Affine& form : work.bound->stages[work.last_stage - 1].lhs)
         if (form.plain_index() >= 0) written.push_back(form.plain_index());
       if (written.empty()) return "";
       Interval& range = ranges[written[rng.below(written.size())]];
       rng.below(2) == 0 ? ++range.lo : --range.hi;
       return g.tasks[t].name;
     }},
    {"a copy's box off by one, on one side",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t =
           any_task(g, rng, [&](const Task& task) { return is<CopyWork>(task) && has_elements(g, task.reads[0]); });
       if (t < 0) return "";
       shrink(g, rng.below(2) == 0 ? g.tasks[t].reads[0] : g.tasks[t].writes[0], rng);
       return g.tasks[t].name;
     }},
    {"a copy's box off by one, on both sides",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t = any_task(g, rng, [&](const Task& task) {
         return is<CopyWork>(task) && has_elements(g, task.reads[0]) && is_read(g, task.writes[0].reg);
       });
       if (t < 0) return "";
       Task& task = g.tasks[t];
       shrink(g, task.reads[0], rng);
       task.writes[0].boxes = task.reads[0].boxes;
       return task.name;
     }},
    {"a combine's box off by one",
     [](PhysicalGraph& g, Rng& rng) { return shrink_one(g, rng, [&](const Task& task) { return reduces(g, task); }); }},
    {"a padded combine short of an element",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t = any_task(g, rng, [&](const Task& task) {
         return pads(g, task) && !task.reads.empty() && is_read(g, task.writes[0].reg);
       });
       if (t < 0) return "";
       Task& task = g.tasks[t];
       shrink(g, task.reads[rng.below(task.reads.size())], rng);
       return task.name;
     }},
    {"a padded combine without one of its terms",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t = any_task(g, rng, [&](const Task& task) {
         return pads(g, task) && !task.reads.empty() && is_read(g, task.writes[0].reg);
       });
       if (t < 0) return "";
       Task& task = g.tasks[t];
       task.reads.erase(task.reads.begin() + static_cast<std::ptrdiff_t>(rng.below(task.reads.size())));
       return task.name;
     }},
    {"a combine without one of its terms and its fetch",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t =
           any_task(g, rng, [&](const Task& task) { return reduces(g, task) && is_read(g, task.writes[0].reg); });
       if (t < 0) return "";
       Task& task = g.tasks[t];
       const std::string name = task.name;
       const auto term = task.reads.begin() + static_cast<std::ptrdiff_t>(rng.below(task.reads.size()));
       const RegisterId lost = term->reg;
       task.reads.erase(term);
       if (is_read(g, lost)) return name;  // its own device's term: others read it too
       for (std::size_t c = 0; c < g.tasks.size(); ++c)
         if (is<CopyWork>(g.tasks[c]) && g.tasks[c].writes[0].reg == lost) {
           testing::remove_task(g, TaskId(c));
           break;
         }
       return name;
     }},
    {"a collective's box off by one",
     [](PhysicalGraph& g, Rng& rng) { return shrink_one(g, rng, is<CollectiveWork>); }},
    {"an output's box off by one", [](PhysicalGraph& g, Rng& rng) { return shrink_one(g, rng, is<OutputWork>); }},
    {"a load's box off by one",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t = any_task(g, rng, is<LoadWork>);
       Access& write = g.tasks[t].writes[0];
       const Box whole = g.reg(write.reg).box(0);
       if (is_empty(whole)) return "";
       shrink(g, write, rng);
       // A host of several devices holds more than they need, so the lost elements must be read.
       for (const Box& lost : subtract(whole, write.boxes[0]))
         for (const Task& task : g.tasks)
           for (const Access& read : task.reads)
             if (read.reg == write.reg && !is_empty(intersect(read.boxes.empty() ? whole : read.boxes[0], lost)))
               return g.tasks[t].name;
       return "";
     }},
    {"a wrong reducer of one participant",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t = any_task(g, rng, [](const Task& task) {
         return is<CollectiveWork>(task) && std::get<CollectiveWork>(task.work).partial;
       });
       if (t < 0) return "";
       auto& work = std::get<CollectiveWork>(g.tasks[t].work);
       work.reducer = another(work.reducer, rng);
       return g.tasks[t].name;
     }},
    {"a wrong reducer of all participants",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t = any_task(g, rng, [](const Task& task) {
         return is<CollectiveWork>(task) && std::get<CollectiveWork>(task.work).partial;
       });
       if (t < 0) return "";
       const CollectiveWork work = std::get<CollectiveWork>(g.tasks[t].work);
       const tdl::Reducer wrong = another(work.reducer, rng);
       for (Task& task : g.tasks)
         if (auto* part = std::get_if<CollectiveWork>(&task.work); part && part->collective == work.collective)
           part->reducer = wrong;
       return g.tasks[t].name;
     }},
    {"a wrong reducer of a combine",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t = any_task(g, rng, [&](const Task& task) { return reduces(g, task); });
       if (t < 0) return "";
       auto& work = std::get<CombineWork>(g.tasks[t].work);
       work.reducer = another(work.reducer, rng);
       return g.tasks[t].name;
     }},
    {"a rank twice",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t = any_task(g, rng, [](const Task& task) {
         return is<CollectiveWork>(task) && std::get<CollectiveWork>(task.work).size > 1;
       });
       if (t < 0) return "";
       auto& work = std::get<CollectiveWork>(g.tasks[t].work);
       work.rank = (work.rank + 1) % work.size;
       return g.tasks[t].name;
     }},
    {"an offset off its alignment",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       Register& reg = g.registers[rng.below(g.registers.size())];
       reg.offset += 4;
       return reg.name;
     }},
    {"an offset onto what the same task reads",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const auto size = [&](const Access& a) { return g.reg(a.reg).bytes; };
       const int t = any_task(g, rng, [&](const Task& task) {
         return task.reads.size() > 1 && task.reads[0].reg != task.reads[1].reg &&
                g.reg(task.reads[0].reg).device == g.reg(task.reads[1].reg).device && size(task.reads[0]) > 0 &&
                size(task.reads[1]) > 0;
       });
       if (t < 0) return "";
       g.reg(g.tasks[t].reads[0].reg).offset = g.reg(g.tasks[t].reads[1].reg).offset;
       return g.reg(g.tasks[t].reads[0].reg).name;
     }},
    {"a register too small",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       Register& reg = g.registers[rng.below(g.registers.size())];
       if (reg.boxes.empty() || reg.bytes == 0) return "";
       reg.bytes -= bytes_of(reg.dtype);
       return reg.name;
     }},
    {"a dropped data edge",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       for (int tries = 0; tries < 20; ++tries) {
         const std::size_t e = rng.below(g.edges.size());
         const Edge edge = g.edges[e];
         if (edge.next || edge.kind != EdgeKind::kData || is_implied(g, e)) continue;
         g.edges.erase(g.edges.begin() + static_cast<std::ptrdiff_t>(e));
         return to_string(g, edge.from);
       }
       return "";
     }},
    {"two nodes of an edge the other way round",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const Edge& edge = g.edges[rng.below(g.edges.size())];
       if (edge.next) return "";
       const auto from = std::find(g.order.begin(), g.order.end(), edge.from),
                  to = std::find(g.order.begin(), g.order.end(), edge.to);
       std::iter_swap(from, to);
       return to_string(g, edge.from);
     }},
    {"a task on another device",
     [](PhysicalGraph& g, Rng& rng) -> std::string {
       const int t = any_task(g, rng, [](const Task& task) { return !is<CopyWork>(task); });
       Task& task = g.tasks[t];
       task.device = DeviceId(static_cast<std::size_t>((task.device.value + 1) % g.device_count));
       return task.name;
     }},
};

TEST(WrongLowered, TwoHundredAreRefused) {
  std::vector<PhysicalGraph> graphs;
  for (const char* search : {"data-parallel", "model-parallel", "soybean", "soybean?tilings=all"}) {
    graphs.push_back(
        planned("zoo:mlp?layers=3,width=20,classes=7,batch=26,activation=relu", search, "local:4").physical);
    const Planned lenet = planned("zoo:lenet?batch=13", search, "local:3");
    graphs.push_back(lenet.physical);
    const Graph evaluation = evaluation_graph(lenet.forward);
    graphs.push_back(lower(evaluation, evaluation_plan(evaluation, lenet), lenet.cluster));
  }
  graphs.push_back(planned("zoo:resnet-18?image=32,width=4,classes=10,batch=5", "soybean", "local:3").physical);
  for (const PhysicalGraph& graph : graphs) ASSERT_EQ(verdict(graph), "accepted");
  std::map<std::string, int> refused;
  int done = 0;
  std::size_t kind = 0;
  for (uint64_t seed = 1; done < 200 + static_cast<int>(std::size(kSpoils)); ++seed) {
    ASSERT_LT(seed, 20000u) << "no place for: " << kSpoils[kind].first;
    Rng rng(seed);
    const std::size_t which = rng.below(graphs.size());
    PhysicalGraph graph = graphs[which];
    const auto& [name, spoil] = kSpoils[kind];
    const std::string where = spoil(graph, rng);
    if (where.empty()) continue;
    const std::string why = verdict(graph);
    EXPECT_NE(why, "accepted") << fmt::format("seed {}, {} at '{}' of graph {}", seed, name, where, which);
    EXPECT_TRUE(why == "accepted" || why.find('\'') != std::string::npos || why.find("->") != std::string::npos ||
                why.find('@') != std::string::npos)
        << "names nothing: " << why;
    refused[name] += why != "accepted";
    ++done;
    kind = (kind + 1) % std::size(kSpoils);
  }
  for (const auto& [name, spoil] : kSpoils) std::printf("%4d  %s\n", refused[name], name);
}

// One byte less than it needs, on each device in turn.
TEST(WrongLowered, OneByteLessDoesNotFit) {
  const Planned p = planned("zoo:lenet?batch=13", "soybean", "local:3");
  EXPECT_EQ(refuse(p.physical).value_or("admitted"), "admitted");
  check_capacity(p.physical, p.cluster);
  for (std::size_t d = 0; d < p.cluster.devices.size(); ++d) {
    Cluster small = p.cluster;
    small.devices[d].memory_bytes = p.physical.peak_bytes[d];
    check_capacity(p.physical, small);
    if (p.physical.peak_bytes[d] == 0) continue;
    --small.devices[d].memory_bytes;
    try {
      check_capacity(p.physical, small);
      ADD_FAILURE() << small.devices[d].name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kInfeasible);
      EXPECT_NE(std::string(error.what())
                    .find(fmt::format("{} needs {} bytes", small.devices[d].name, p.physical.peak_bytes[d])),
                std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find("(1 missing)"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace partita
