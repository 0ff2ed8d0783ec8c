// Tests that with keep_gradients nothing lies on a gradient until the last update on its device, whatever the plan. The
// test finds these registers by the graph's updates and not by their attributes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "partita/physical/uses.h"
#include "partita/pipeline/pipeline.h"

namespace partita {
namespace {

struct Case {
  const char *model, *search, *cluster;
  int devices = 4;
  double clip_norm = 0;
  DType dtype = DType::kFloat32;
  std::optional<int> micro_batches = std::nullopt;
};

Planned planned(const Case& c, const std::string& optimizer) {
  Request request;
  request.model = c.model, request.search = c.search, request.cluster = c.cluster, request.devices = c.devices;
  request.optimizer.kind = optimizer, request.optimizer.clip_norm = c.clip_norm;
  request.dtype = c.dtype;
  request.micro_batches = c.micro_batches;
  request.bucket_bytes = 0;
  request.budget.steps = 500;
  Runner runner(false);
  return plan_model(request, runner);
}

struct Life {
  int first = 1 << 30, last = -1;
};

struct Found {
  int gradients = 0;
  int64_t bytes = 0;       // of gradients on the device that has most
  std::string lies_on_it;  // something that should not; empty: nothing
};

Found look_at(const Planned& p) {
  const PhysicalGraph& graph = p.physical;
  const NodeTable table = number_nodes(graph);
  const std::vector<int> place = places(graph, table);
  const Uses uses(graph, table);
  std::vector<char> is_gradient(graph.registers.size(), false);
  std::vector<int> end(static_cast<size_t>(graph.device_count), -1);
  for (size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    if (!std::holds_alternative<KernelWork>(task.work)) continue;
    const OpDefinition* definition = p.training.registry->find(p.training.op(task.op).definition);
    if (!definition || !definition->update) continue;
    for (const Access& read : task.reads)
      if (read.tensor == 1) is_gradient[read.reg.index()] = true;
    int& last = end[task.device.index()];
    last = std::max(last, place[static_cast<size_t>(table.number(TaskId(t), 0))]);
  }
  const auto life = [&](const Use& use) {
    Life l;
    for (const auto* nodes : {&use.writers, &use.readers})
      for (const Node& n : *nodes) {
        const int at = place[static_cast<size_t>(table.number(n))];
        l = {std::min(l.first, at), std::max(l.last, at)};
      }
    return l;
  };
  Found found;
  std::vector<int64_t> bytes(end.size(), 0);
  for (size_t g = 0; g < graph.registers.size(); ++g) {
    const Register& gradient = graph.registers[g];
    if (!is_gradient[g]) continue;
    ++found.gradients;
    bytes[gradient.device.index()] += gradient.bytes;
    const int from = life(uses[g][0]).first;
    for (size_t r = 0; r < graph.registers.size(); ++r) {
      const Register& other = graph.registers[r];
      if (r == g || other.device != gradient.device || other.bytes == 0) continue;
      for (const Use& use : uses[r]) {
        const int64_t at = other.slot_offset(other.slot(use.number));
        if (at + other.bytes <= gradient.offset || gradient.offset + gradient.bytes <= at) continue;
        const Life l = life(use);
        if (is_gradient[r] || (l.last > from && l.first <= end[gradient.device.index()]))
          found.lies_on_it = fmt::format("{} lies on {}", other.name, gradient.name);
      }
    }
  }
  found.bytes = *std::max_element(bytes.begin(), bytes.end());
  return found;
}

constexpr const char* kMlp = "zoo:mlp?layers=3,width=64,input=64,classes=64,bias=0,loss=mse,batch=8";
constexpr const char* kGpt = "zoo:gpt2?layers=2,hidden=32,heads=4,vocabulary=64,steps=16,batch=8";

TEST(KeptGradients, NothingLiesOnThem) {
  for (const Case& c : {Case{kMlp, "single", "local:4"},
                        {kMlp, "data-parallel", "dgx-1"},
                        {kMlp, "zero?stage=2", "dgx-1"},
                        {kMlp, "fsdp", "dgx-1", 4, 1.0},
                        {kGpt, "data-parallel", "dgx-1", 4, 1.0},
                        {kGpt, "data-parallel", "dgx-1", 4, 0, DType::kBFloat16},
                        {kGpt, "fsdp", "dgx-1", 4, 0, DType::kFloat16},
                        {kGpt, "megatron?tensor=2,pipeline=2", "dgx-1", 4, 0, DType::kFloat32, 2},
                        {kGpt, "pipeline?stages=2", "dgx-1", 4, 1.0, DType::kFloat32, 4},
                        {kGpt, "tofu", "p2.8xlarge"},
                        {kGpt, "exact?axes=1", "p2.8xlarge"},
                        {kGpt, "expert-placement", "dgx-1", 2},
                        {kGpt, "placement", "dgx-1", 2},
                        {kGpt, "soap", "flexflow-p100", 2},
                        {"zoo:lenet?batch=8", "tofu", "p2.8xlarge", 3}}) {
    for (const char* optimizer : {"sgd?keep_gradients=1", "adagrad?keep_gradients=1"}) {
      const Planned p = planned(c, optimizer);
      const Found found = look_at(p);
      EXPECT_GT(found.gradients, 0) << c.model << " " << c.search;
      EXPECT_EQ(found.lies_on_it, "") << c.model << " " << c.search << " " << optimizer;
      EXPECT_GE(p.peak_memory_bytes(), found.bytes);
    }
  }
}

TEST(KeptGradients, SomethingLiesOnThoseThatAreFreed) {
  EXPECT_NE(look_at(planned({kMlp, "single", "local:4"}, "sgd")).lies_on_it, "");
}

// By hand: three gradients of 64 x 64 numbers.
TEST(KeptGradients, AreThoseOfAllParameters) {
  const Found found = look_at(planned({kMlp, "single", "local:1", 1}, "sgd?keep_gradients=1"));
  EXPECT_EQ(found.gradients, 3);
  EXPECT_EQ(found.bytes, 3 * 64 * 64 * 4);
}

}  // namespace
}  // namespace partita
