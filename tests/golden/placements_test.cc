// Tests searches of device placement by the steps of their lowered plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/physical/use.h"
#include "partita/pipeline/pipeline.h"
#include "partita/search/device_placement/placed_explain.h"
#include "partita/search/device_placement/placed_groups.h"

namespace partita {
namespace {

Planned planned(const std::string& model, const std::string& search, const std::string& cluster = "dgx-1",
                int64_t memory_bytes = 0) {
  Request request;
  request.model = model;
  request.cluster = cluster;
  request.devices = 2;
  request.search = search;
  request.objective = Objective::kTime;
  request.budget.steps = 3000;
  if (memory_bytes > 0) request.memory_limit_bytes = memory_bytes;
  Runner runner;
  return plan_model(request, runner);
}

// A kept schedule of a GPU cluster takes as long as the problem says, if memory suffices.
TEST(Placements, OursIsNoLongerThanARule) {
  for (const char* model : {"zoo:nmt?layers=2,steps=4,hidden=64,vocabulary=50,batch=8",
                            "zoo:inception-v3?image=75,blocks=2,classes=6,batch=4",
                            "zoo:transformer?hidden=64,steps=8,layers=2,vocabulary=40,batch=8"}) {
    SCOPED_TRACE(model);
    const int64_t ours = planned(model, "placement").predicted.step_time_ns;
    for (const char* rule : {"single", "expert-placement", "expert-placement?order=framework", "baechi-mtopo",
                             "baechi-metf", "baechi-metf?order=own"}) {
      SCOPED_TRACE(rule);
      EXPECT_LE(ours, planned(model, rule).predicted.step_time_ns);
    }
  }
}

// Plans under a limit that is far away, until `lines` lines of its progress, whatever the machine does meanwhile.
Planned after_lines(Request request, int lines, int& told) {
  std::atomic<bool> stop = false;
  told = 0;
  request.budget.seconds = 3600;
  request.budget.stop = &stop;
  request.tell = [&](const std::string&) { stop = ++told >= lines; };
  Runner runner;
  return plan_model(request, runner);
}

// Memory binds, and plans need more than their schedules. A plan found without a limit is not lost when the search goes
// on.
TEST(Placements, MoreRoundsFindNoLongerStep) {
  constexpr int64_t kBytes = 1'900'000;
  Request request;
  request.model = "zoo:rnnlm?steps=4,hidden=128,vocabulary=500,batch=16";
  request.cluster = "flexflow-p100";
  request.devices = 2;
  request.search = "placement";
  request.memory_limit_bytes = kBytes;
  int lines = 0, more = 0;
  request.tell = [&](const std::string&) { ++lines; };
  Runner runner;
  const Planned one = plan_model(request, runner);
  EXPECT_GT(lines, 3);
  const Planned longer = after_lines(request, 2 * lines, more);
  EXPECT_GE(more, 2 * lines);
  EXPECT_LE(longer.predicted.step_time_ns, one.predicted.step_time_ns);
  EXPECT_LE(longer.peak_memory_bytes(), kBytes);
}

// With a limit passes are made until it is over; without one the same seed gives the same plan.
TEST(Placements, PassesKeepATimeLimit) {
  Request request;
  request.model = "zoo:rnnlm?layers=2,steps=4,hidden=64,vocabulary=50,batch=16";
  request.cluster = "dgx-1";
  request.devices = 2;
  request.search = "placement";
  request.objective = Objective::kTime;
  Runner runner;
  const Planned one = plan_model(request, runner), again = plan_model(request, runner);
  EXPECT_EQ(one.plan, again.plan);
  const auto begin = Watch::Clock::now();
  request.budget.seconds = 3;
  const Planned limited = plan_model(request, runner);
  EXPECT_LT(Watch::Clock::now() - begin, std::chrono::seconds(6));
  EXPECT_TRUE(std::any_of(limited.search.notes.begin(), limited.search.notes.end(), [](const std::string& note) {
    return note.find("passes, the first to") != std::string::npos;
  }));
}

// If CBC is there, favourite children are a start too; without it the notes say so.
TEST(Placements, OursIsNoLongerThanFavouriteChildren) {
  for (const char* model : {"zoo:mlp", "zoo:nmt?layers=2,steps=4,hidden=64,vocabulary=50,batch=8"}) {
    SCOPED_TRACE(model);
    const Planned ours = planned(model, "placement");
    const bool without = std::any_of(ours.search.notes.begin(), ours.search.notes.end(), [](const std::string& note) {
      return note.find("baechi-msct is no start") != std::string::npos;
    });
    if (without) {
      EXPECT_THROW(planned(model, "baechi-msct"), Error);
      continue;
    }
    for (const char* rule : {"baechi-msct", "baechi-msct?order=own", "baechi-msct?order=framework"})
      EXPECT_LE(ours.predicted.step_time_ns, planned(model, rule).predicted.step_time_ns) << rule;
  }
}

// The program's placement is one of all operations, and keeps its schedule unless the order is the framework's. Notes
// say how it is coarsened. Without CBC the package is named.
TEST(Placements, Pesto) {
  const std::string model = "zoo:rnnlm?layers=2,steps=4,hidden=32,vocabulary=50,batch=8,fine=1";
  struct Row {
    const char *options, *note;
  };
  try {
    for (const Row& row :
         {Row{"", "by edges and heights, of at most 8% of the time and 12% of the memory"},
          Row{",coarsen=paper,order=own", "by edges alone, as the paper prints it, of at most 8%"},
          Row{",coarsen=paper,caps=no,order=critical", "by edges alone, as the paper prints it, without caps"},
          Row{",balance=yes,congestion=no,coarsen=parallel", "by what has room beside the longest path, of at most"}}) {
      SCOPED_TRACE(row.options);
      const std::string search = std::string("pesto?seconds=1") + row.options;
      const Planned p = planned(model, search);
      EXPECT_EQ(p.plan.transfers.has_value(), search.find("order=") != std::string::npos);
      EXPECT_GT(p.plan.paper_cost.value(), 0);
      EXPECT_TRUE(std::any_of(p.search.notes.begin(), p.search.notes.end(), [&](const std::string& note) {
        return note.find(row.note) != std::string::npos;
      })) << row.note;
      const double vertices = p.search.counters.at("vertices"), largest = p.search.counters.at("largest_vertex");
      EXPECT_GE(vertices, 200);
      EXPECT_LT(vertices, static_cast<double>(p.training.ops.size()));
      EXPECT_LE(largest, p.search.counters.at("longest_path"));
      EXPECT_LE(p.search.counters.at("longest_path"), 1);
    }
  } catch (const Error& error) {
    if (std::string(error.what()).find("coinor-cbc") == std::string::npos) throw;
    GTEST_SKIP() << error.what();
  }
}

// If the merges end above 200 vertices, notes say so; for a step with fewer operations they say that nothing is merged.
// The inputs of time steps, which the host loads, have no edge to each other.
TEST(Placements, PestoSaysWhatItCouldNotMerge) {
  const auto noted = [](const std::string& model, const std::string& search, const std::string& what) {
    const Planned p = planned(model, search);
    return std::any_of(p.search.notes.begin(), p.search.notes.end(),
                       [&](const std::string& note) { return note.find(what) != std::string::npos; });
  };
  try {
    EXPECT_TRUE(noted("zoo:mlp", "pesto?seconds=1", "nothing is merged: there are "));
    EXPECT_TRUE(noted("zoo:nasnet?cells=3,filters=96,image=64,batch=2", "pesto?seconds=1,coarsen=paper",
                      "vertices, as few as the rule allows, by edges alone"));
  } catch (const Error& error) {
    if (std::string(error.what()).find("coinor-cbc") == std::string::npos) throw;
    GTEST_SKIP() << error.what();
  }
}

// Devices are kept for favourite children. Steps of more than 2,000 operations are placed by vertices. Without CBC the
// package is named.
TEST(Placements, FavouriteChildren) {
  try {
    for (const char* search : {"baechi-msct", "baechi-msct?order=own"}) {
      const Planned p = planned("zoo:nmt?layers=2,steps=4,hidden=64,vocabulary=50,batch=8", search);
      EXPECT_EQ(p.plan.transfers.has_value(), std::string(search).ends_with("own")) << search;
      EXPECT_GT(p.search.notes.size(), 1u);
    }
    const Planned large = planned("zoo:rnnlm?layers=2,steps=60,hidden=32,vocabulary=50,batch=8", "baechi-msct");
    EXPECT_GT(large.training.ops.size(), 2000u);
  } catch (const Error& error) {
    if (std::string(error.what()).find("coinor-cbc") == std::string::npos) throw;
    GTEST_SKIP() << error.what();
  }
}

// If one device's memory does not hold the step, both do.
TEST(Placements, MemoryIsALimit) {
  const std::string model = "zoo:rnnlm?layers=2,steps=4,hidden=64,vocabulary=50,batch=16";
  const int64_t one = planned(model, "single").physical.peak_bytes[0], limit = one * 8 / 10;
  const Planned p = planned(model, "placement", "dgx-1", limit);
  EXPECT_LE(*std::max_element(p.physical.peak_bytes.begin(), p.physical.peak_bytes.begin() + 2), limit);
  // The plan holds the limit: opened again it takes the same order, and the same memory.
  const std::string file = testing::TempDir() + "/limited_plan.json";
  std::ofstream(file) << print(p.plan, p.training);
  Runner runner;
  const Planned again = open_plan(file, runner);
  EXPECT_EQ(again.physical.peak_bytes, p.physical.peak_bytes);
  EXPECT_EQ(again.predicted.step_time_ns, p.predicted.step_time_ns);
  try {
    planned(model, "placement", "dgx-1", one / 10);
    FAIL() << "a tenth is too little";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInfeasible) << error.what();
  }
}

// Results are counted while they are needed: a step that fits takes as long in the plan as in the problem.
TEST(Placements, AStepThatFitsDoesNotWaitForMemory) {
  for (const char* model : {"zoo:rnnlm?layers=2,steps=10,hidden=64,vocabulary=100,batch=256,fine=1",
                            "zoo:nmt?layers=2,steps=6,hidden=64,vocabulary=100,batch=256,fine=1"}) {
    SCOPED_TRACE(model);
    const int64_t one = planned(model, "single").physical.peak_bytes[0], limit = one * 65 / 100;
    const Planned p = planned(model, "placement", "dgx-1", limit);
    const auto peak = *std::max_element(p.physical.peak_bytes.begin(), p.physical.peak_bytes.begin() + 2);
    const int64_t ample = planned(model, "placement").predicted.step_time_ns;
    std::printf("%s: %.3f ms in %.1f MB of %.1f, %.3f in ample memory\n", model,
                static_cast<double>(p.predicted.step_time_ns) / 1e6, static_cast<double>(peak) / 1e6,
                static_cast<double>(limit) / 1e6, static_cast<double>(ample) / 1e6);
    EXPECT_LE(peak, limit);
    EXPECT_GT(peak * 10, limit * 8);
    EXPECT_LE(static_cast<double>(p.predicted.step_time_ns), 1.02 * static_cast<double>(ample));
  }
}

// A parameter, its states and all operations of its update are one group; parameters are apart from each other.
TEST(Placements, AWeightStaysWithItsUpdate) {
  for (const char* optimizer : {"sgd", "sgd?fine=1", "adam", "adam?fine=1", "adamw?fine=1", "adagrad?fine=1"}) {
    SCOPED_TRACE(optimizer);
    Request request;
    request.model = "zoo:mlp?layers=2,width=8,batch=4";
    request.optimizer.kind = optimizer;
    request.optimizer.momentum = std::string(optimizer).starts_with("sgd") ? 0.9 : 0;
    request.optimizer.clip_norm = 1;
    request.cluster = "dgx-1";
    request.devices = 2;
    request.search = "single";
    Runner runner;
    Graph graph = plan_model(request, runner).training;
    std::set<int> others;
    const auto groups_of = [&] {
      const std::vector<int> group = placed_groups(graph);
      std::map<std::string, std::set<int>> of_weight;
      others.clear();
      for (size_t i = 0; i < graph.ops.size(); ++i) {
        const std::string& name = graph.ops[i].name;
        const size_t at = name.find(".update");
        const bool is_number = volume(graph.tensor(graph.ops[i].results[0]).shape) == 1;
        if (at != std::string::npos && is_number && group[i] < 0) continue;  // a power that all updates read
        if (at != std::string::npos) of_weight[name.substr(0, at)].insert(group[i]);
        else if (graph.ops[i].phase != Phase::kUpdate) others.insert(group[i]);
      }
      return of_weight;
    };
    std::set<int> all;
    for (const auto& [weight, groups] : groups_of()) {
      if (weight == "optimizer.step") continue;
      EXPECT_EQ(groups.size(), 1u) << weight;
      EXPECT_GE(*groups.begin(), 0) << weight;
      EXPECT_TRUE(all.insert(*groups.begin()).second) << weight;
    }
    EXPECT_EQ(all.size(), 4u);
    EXPECT_EQ(others, std::set<int>{-1});
    // Ops of one name are joined, with the weight that one of them updates.
    graph.op(graph.find_op("fc1")).colocation = "here";
    for (Op& op : graph.ops)
      if (op.name.starts_with("fc2.weight.update")) op.colocation = "here";
    EXPECT_EQ(placed_groups(graph)[graph.find_op("fc1").index()], *groups_of().at("fc2.weight").begin());
  }
}

// Searches of device placement keep the pins of device types, auto does through these, and others refuse them.
TEST(Placements, DeviceTypesAndGroupsArePinned) {
  const auto pinned = [](const std::string& search, const std::string& pins) {
    const std::string file = testing::TempDir() + "/placement_pins.json";
    std::ofstream(file) << pins;
    Request request;
    request.model = "zoo:rnnlm?layers=1,steps=2,hidden=32,vocabulary=50,batch=8";
    request.cluster = "dgx-1";
    request.devices = 2;
    request.search = search;
    request.objective = Objective::kTime;
    request.pin_file = file;
    Runner runner;
    return plan_model(request, runner);
  };
  const std::string pins =
      R"({"device_types": {"embedding": "cpu", "embedding.grad.x": "cpu", "embedding.weight.update": "cpu",)"
      R"( "rnn_l0.0.hidden": "launch"}, "colocation": {"g": ["rnn_l0.0.hidden", "rnn_l0.1", "decoder"]}})";
  for (const char* search : {"expert-placement", "baechi-mtopo", "baechi-metf", "placement", "auto"}) {
    SCOPED_TRACE(search);
    const Planned p = pinned(search, pins);
    const auto device = [&](const char* op) { return p.plan.ops[p.training.find_op(op).index()].mesh.devices[0]; };
    for (const char* op : {"embedding", "embedding.grad.x", "embedding.weight.update"})
      EXPECT_EQ(device(op), DeviceId(2));
    EXPECT_EQ(device("rnn_l0.0.hidden"), device("decoder"));
    EXPECT_EQ(device("rnn_l0.1"), device("decoder"));
    EXPECT_EQ(p.plan.kept.at(p.training.find_tensor("embedding.weight")).mesh.devices[0], DeviceId(2));
  }
  const auto error = [&](const std::string& search, const std::string& what) {
    try {
      pinned(search, what);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(error("soybean", pins).find("has no way to keep device types and colocation groups"), std::string::npos);
  EXPECT_NE(error("placement", R"({"device_types": {"decoder": "launch"}})").find("it is in none"), std::string::npos);
  EXPECT_NE(error("placement", R"({"meshes": {"host": {"extents": [], "devices": [2]}},)"
                               R"( "ops": {"decoder": {"mesh": "host", "strategy": []}}})")
                .find("is a host: give it the device type cpu"),
            std::string::npos);
}

// Neither several hosts, nor micro-batches.
TEST(Placements, OthersAreRefused) {
  const auto refused = [](auto change) {
    Request request;
    request.model = "zoo:mlp";
    request.cluster = "flexflow-p100";
    request.search = "placement";
    change(request);
    try {
      Runner runner;
      plan_model(request, runner);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused([](Request& r) { r.devices = 5; }),
            "operations are placed whole on the devices of one host; 'node0.gpu0' and 'node1.gpu0' have different "
            "ones; give --devices");
  EXPECT_NE(refused([](Request& r) { r.devices = 2, r.micro_batches = 2; }).find("not in 2 micro-batches"),
            std::string::npos);
  EXPECT_EQ(refused([](Request& r) { r.devices = 4; }), "");
}

TEST(Placements, LayersAreOneAfterAnother) {
  const Planned p = planned("zoo:rnnlm?layers=4,steps=3,hidden=16,vocabulary=20,batch=4", "expert-placement");
  for (size_t i = 0; i < p.training.ops.size(); ++i) {
    const Op& op = p.training.ops[i];
    const int device = p.plan.ops[i].mesh.devices[0].value;
    if (op.cell >= 0 && op.phase == Phase::kForward) {
      EXPECT_EQ(device, op.cell >= 2) << op.name;
    }
    if (op.definition == "gather") {
      EXPECT_EQ(device, 0) << op.name;
    }
    if (op.name == "loss") {
      EXPECT_EQ(device, 1);
    }
  }
}

// Repeated layers of a Transformer are not cut, and devices have about the same work.
TEST(Placements, LayersOfATransformerAreWhole) {
  const std::string llama =
      std::string(PARTITA_SOURCE_DIR) + "/tests/data/llama.onnx";  // concatenates halves of rotated queries
  for (const std::string& model :
       {std::string("zoo:encoder-decoder?layers=3,heads=2,hidden=32,steps=8,vocabulary=40,batch=8,fine=1"),
        std::string("zoo:transformer?hidden=64,steps=8,layers=4,vocabulary=40,batch=8"), llama}) {
    SCOPED_TRACE(model);
    const Planned p = planned(model, "expert-placement");
    std::map<std::string, std::set<int>> devices;  // by layer, of its forward ops
    std::vector<double> flops(2, 0);
    for (size_t i = 0; i < p.training.ops.size(); ++i) {
      const Op& op = p.training.ops[i];
      const int device = p.plan.ops[i].mesh.devices[0].value;
      flops[static_cast<size_t>(device)] += op_flops(p.training.registry->find(op.definition), *op.bound);
      const size_t layers = op.name.find("layers.");
      if (op.phase != Phase::kForward || layers == std::string::npos) continue;
      devices[op.name.substr(0, op.name.find('.', layers + 7))].insert(device);
    }
    EXPECT_GE(devices.size(), 2u);
    std::set<int> used;
    for (const auto& [layer, of] : devices) {
      EXPECT_EQ(of.size(), 1u) << layer;
      used.insert(of.begin(), of.end());
    }
    EXPECT_EQ(used.size(), 2u);
    EXPECT_GT(3 * std::min(flops[0], flops[1]), 2 * std::max(flops[0], flops[1]));
    EXPECT_EQ(p.plan.ops[p.training.find_op("loss").index()].mesh.devices[0].value, 1);
  }
}

TEST(Placements, BranchesAreBesideEachOther) {
  const Planned p = planned("zoo:inception-v3?image=75,blocks=1,classes=6,batch=4", "expert-placement");
  int on[2] = {0, 0};
  for (const OpChoice& choice : p.plan.ops) ++on[choice.mesh.devices[0].value];
  EXPECT_GT(on[0], 20);
  EXPECT_GT(on[1], 20);
}

// The shown figures of a plan add up to those of the simulator and the plan.
TEST(Placements, WhatIsShownAddsUp) {
  for (const char* search : {"placement", "expert-placement", "baechi-metf"}) {
    SCOPED_TRACE(search);
    const Planned p = planned("zoo:nmt?layers=2,steps=4,hidden=64,vocabulary=50,batch=8", search);
    constexpr size_t kRows = 12;
    const StepUse use = use_of(p.predicted, p.physical, p.training, kRows);
    EXPECT_EQ(use.step_ns, p.step_time_ns());
    EXPECT_LE(use.rows.size(), kRows);
    ASSERT_EQ(use.devices.size(), 2u);
    std::vector<int64_t> of_rows(2, 0), busy(2, 0);
    int ops = 0;
    for (const RowUse& row : use.rows) {
      ops += row.ops;
      for (size_t d = 0; d < 2; ++d) of_rows[d] += row.compute_ns[d];
      const std::string chart = chart_of(row, use.step_ns, 50);
      for (char d : {'0', '1'})
        if (row.compute_ns[static_cast<size_t>(d - '0')] == 0) EXPECT_EQ(chart.find(d), std::string::npos) << chart;
      EXPECT_NE(chart.find_first_of("01*"), std::string::npos);
    }
    std::vector<int> placed(2, 0);
    for (const OpChoice& choice : p.plan.ops) ++placed[choice.mesh.devices[0].index()];
    for (const Event& e : p.predicted.events)
      if (const Queue& queue = p.physical.queues[p.physical.task(e.task).queue.index()];
          queue.kind == QueueKind::kCompute)
        busy[queue.device.index()] += e.end_ns - e.start_ns;
    EXPECT_EQ(ops, placed[0] + placed[1]);
    for (size_t d = 0; d < 2; ++d) {
      EXPECT_EQ(of_rows[d], busy[d]);
      EXPECT_EQ(use.devices[d].compute_ns, busy[d]);
      EXPECT_EQ(use.devices[d].ops, placed[d]);
    }
    int64_t crossing = 0;
    for (const LinkUse& link : use.links)
      if (link.name.find("gpu0=>") != std::string::npos || link.name.find("gpu1=>") != std::string::npos)
        crossing += link.bytes;
    EXPECT_EQ(crossing, p.report.comm_bytes);
  }
}

// An update may come before a reader on another device, which reads a copy: a bound that has it wait is above such
// steps.
TEST(Placements, NoStepIsBelowTheBound) {
  for (const auto& [model, devices] : {std::pair{"zoo:mlp?layers=9,width=33,batch=3", 5},
                                       {"zoo:mlp?layers=20,width=33,batch=3", 8},
                                       {"zoo:lenet?batch=64", 2}}) {
    SCOPED_TRACE(model);
    Request request;
    request.model = model;
    request.cluster = "dgx-1";
    request.devices = devices;
    request.search = "placement";
    request.optimizer = {.kind = "adam"};
    Runner runner;
    const Planned p = plan_model(request, runner);
    EXPECT_GE(p.step_time_ns(), p.search.lower_bound_step_ns.value());
    EXPECT_GT(p.search.lower_bound_step_ns.value(), p.step_time_ns() / 2);
  }
}

// The step of a plan whose transfers are sent as they come, planned and simulated as after every search.
int64_t step_without_transfers(const Planned& of, Plan plan) {
  Planned p = of;
  p.plan = std::move(plan);
  p.plan.transfers.reset();
  p.order.reset();
  Runner runner;
  finish(p, runner);
  return p.step_time_ns();
}

// The shown effect of an operation elsewhere is about the difference of the lowered plans.
TEST(Placements, AlternativesAreWhatTheirPlansTake) {
  const Planned p = planned("zoo:transformer?hidden=256,steps=32,layers=2,vocabulary=500,batch=16", "placement");
  const auto explainer = PlacedExplainer::of(p.training, p.cluster, p.plan);
  ASSERT_TRUE(explainer.has_value());
  EXPECT_EQ(explainer->bounds().ns(), p.search.lower_bound_step_ns);
  EXPECT_LE(explainer->bounds().ns(), p.step_time_ns());
  const int64_t now_ns = step_without_transfers(p, p.plan);
  int compared = 0, near = 0;
  for (size_t i = 0; i < p.training.ops.size(); i += 5) {
    if (explainer->together(OpId(i)).size() > 1) continue;
    const std::vector<PlacedAlternative> others = explainer->alternatives(OpId(i));
    ASSERT_EQ(others.size(), 1u);
    Plan plan = p.plan;
    plan.ops[i].mesh.devices = {others[0].device};
    const auto step_ns = static_cast<double>(step_without_transfers(p, plan));
    ++compared;
    near += std::abs(static_cast<double>(now_ns + others[0].change_ns) - step_ns) < 0.06 * step_ns;
  }
  EXPECT_GT(compared, 20);
  EXPECT_GE(near, 0.8 * compared) << near << " of " << compared;
}

}  // namespace
}  // namespace partita
