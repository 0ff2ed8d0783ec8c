// Tests the units of FlexFlow's space, and the place of data parallelism in it.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "partita/base/error.h"
#include "partita/models/testing/training.h"
#include "partita/plan/check.h"
#include "partita/plan/rules.h"
#include "partita/search/soap/initial_plans.h"
#include "tests/golden/soap_draws.h"

namespace partita {
namespace {

// A line for each unit: its leader, its indices; each op with the indices that it splits with these, "-" for none.
std::string text_of(const Graph& graph) {
  std::string text;
  for (const SoapUnit& unit : soap_units(graph)) {
    const Op& leader = graph.op(unit.leader);
    text += leader.name;
    for (size_t d = 0; d < unit.indices.size(); ++d)
      text += fmt::format(" {}:{}", leader.bound->indices[static_cast<size_t>(unit.indices[d])].name,
                          name_of(unit.dimensions[d]));
    text += "\n";
    for (size_t i = 0; i < unit.ops.size(); ++i) {
      const Op& op = graph.op(unit.ops[i]);
      text += "   ";
      text += op.name;
      for (const int index : unit.follows[i])
        text += " " + (index < 0 ? "-" : op.bound->indices[static_cast<size_t>(index)].name);
      text += "\n";
    }
  }
  return text;
}

TEST(SoapUnits, OfDenseLayers) {
  EXPECT_EQ(text_of(training("mlp?layers=2,width=8,batch=16")), R"(fc1 n.0:sample o:parameter
   fc1 n.0 o
   tanh1 i.0 i.1
   tanh1.grad.x i.0 i.1
   fc1.grad.w n.0 o
   fc1.grad.b n.0 o
   fc1.weight.update - i.1
   fc1.bias.update - i.0
fc2 n.0:sample o:parameter
   fc2 n.0 o
   fc2.grad.x n.0 o
   fc2.grad.w n.0 o
   fc2.grad.b n.0 o
   fc2.weight.update - i.1
   fc2.bias.update - i.0
loss b.0:sample
   loss b.0
   loss.grad.x b.0
)");
}

TEST(SoapUnits, OfAConvolution) {
  EXPECT_EQ(text_of(training("cnn?layers=2,image=6,filters=4,batch=8,loss=cross_entropy")),
            R"(conv1 y:attribute z:attribute n:sample o:parameter
   conv1 y z n o
   relu1 i.2 i.3 i.0 i.1
   relu1.grad.x i.2 i.3 i.0 i.1
   conv1.grad.w y z n o
   conv1.weight.update - - - i.0
conv2 y:attribute z:attribute n:sample o:parameter
   conv2 y z n o
   conv2.grad.x x_2 x_3 n o
   conv2.grad.w y z n o
   conv2.weight.update - - - i.0
pool y:attribute z:attribute n:sample c:attribute
   pool y z n c
   pool.flatten - - i0 i1
   pool.flatten.grad.x - - i0 i1
   pool.grad.x y z n c
loss b.0:sample
   loss b.0
   loss.grad.x b.0
)");
}

TEST(SoapUnits, OfAnUnrolledCell) {
  EXPECT_EQ(text_of(training("rnntc?steps=2,layers=1,hidden=8,vocabulary=6,classes=4,batch=8")),
            R"(embedding i1:parameter b0:sample b1:attribute
   embedding i1 b0 b1
   word.0 i2 i0 -
   word.1 i2 i0 -
   word.1.grad.x i2 i0 x_1
   word.0.grad.x i2 i0 x_1
   embedding.grad i.2 i.0 i.1
   embedding.grad.x i1 b0 b1
   embedding.weight.update i.1 - -
rnn_l0.0.input n.0:sample j:parameter
   zeros i0 i1
   rnn_l0.0.input n.0 j
   rnn_l0.0.hidden n.0 j
   rnn_l0.0.gates i.0 i.2
   rnn_l0.0 n.0 j
   rnn_l0.0.grad.z n.0 j
   rnn_l0.0.gates.grad.a i.0 i.2
   rnn_l0.0.gates.grad.b i.0 i.2
   rnn_l0.0.hidden.grad.w n.0 j
   rnn.weight_hh_l0.grad - i.1
   rnn_l0.0.input.grad.x n.0 j
   rnn_l0.0.input.grad.w n.0 j
   rnn.weight_ih_l0.grad - i.1
   rnn_l0.0.input.grad.b n.0 j
   rnn.bias_ih_l0.grad - i.1
   rnn.weight_ih_l0.update - i.1
   rnn.weight_hh_l0.update - i.1
   rnn.bias_ih_l0.update - i.1
rnn_l0.1.input n.0:sample j:parameter
   rnn_l0.1.input n.0 j
   rnn_l0.1.hidden n.0 j
   rnn_l0.1.gates i.0 i.2
   rnn_l0.1 n.0 j
   rnn_l0.1.grad.z n.0 j
   rnn_l0.1.grad.c n.0 j
   rnn_l0.1.gates.grad.a i.0 i.2
   rnn_l0.1.gates.grad.b i.0 i.2
   rnn_l0.1.hidden.grad.x n.0 j
   rnn_l0.1.hidden.grad.w n.0 j
   rnn_l0.1.input.grad.x n.0 j
   rnn_l0.1.input.grad.w n.0 j
   rnn_l0.1.input.grad.b n.0 j
classifier n.0:sample o:parameter
   classifier n.0 o
   classifier.grad.x n.0 o
   classifier.grad.w n.0 o
   classifier.grad.b n.0 o
   classifier.weight.update - i.0
   classifier.bias.update - i.0
loss b.0:sample
   loss b.0
   loss.grad.x b.0
)");
}

TEST(SoapUnits, HaveEachOpOnce) {
  for (const char* model :
       {"alexnet?batch=8", "inception-v3?batch=8", "resnet-101?batch=8", "rnntc?steps=4", "rnnlm?steps=4",
        "nmt?steps=4", "transformer", "moe", "gpt2?layers=2", "wide-deep?vocabulary=100,batch=16"}) {
    const Graph graph = training(model);
    const auto units = soap_units(graph);
    std::set<OpId> seen;
    for (const SoapUnit& unit : units)
      for (const OpId id : unit.ops) EXPECT_TRUE(seen.insert(id).second) << model << ": " << graph.op(id).name;
    EXPECT_EQ(seen.size(), graph.ops.size()) << model;
    std::printf("%s: %zu ops, %zu units\n", model, graph.ops.size(), units.size());
  }
}

// A linear layer of 16 samples and 8 outputs on 4 devices: n and o in 1, 2 or 4 shards.
TEST(SoapUnits, AreDrawnFromTheDimensionsThatAreAsked) {
  const Graph graph = training("mlp?layers=2,width=8,batch=16");
  const std::vector<SoapUnit> units = soap_units(graph);
  const std::vector<DeviceId> devices = slowest_link_first(load_cluster("local:4"));
  for (const auto& [dimensions, size] : {std::pair("s", 3), {"p", 3}, {"o", 4}, {"sap", 6}, {"soap", 4 + 2 * 4 + 3}}) {
    const AllowedSoapDimensions asked = parse_soap_dimensions(dimensions);
    const SoapSet set = soap_set(graph, units[0], devices, asked);
    EXPECT_EQ(set.size(), size) << dimensions;
    for (int64_t i = 0; i < set.size(); ++i) {
      const SoapConfiguration c = set.at(i);
      EXPECT_TRUE(c.degrees[0] == 1 || asked.sample) << dimensions;
      EXPECT_TRUE(c.degrees[1] == 1 || asked.parameter) << dimensions;
      EXPECT_TRUE(c.devices[0] == devices[0] || asked.operation) << dimensions;
    }
  }
}

// All samples in equal shards on all devices, and nothing else: data parallelism, byte for byte. A weight that the
// steps of an unrolled network share is synchronised once.
TEST(SoapPlans, DataParallelismIsOneOfThem) {
  for (const char* model :
       {"alexnet?image=67,hidden=96,classes=12,batch=8", "inception-v3?image=75,blocks=2,classes=6,batch=8",
        "resnet-101?image=32,blocks=1,width=12,classes=6,batch=8",
        "rnntc?steps=3,layers=2,hidden=12,vocabulary=20,classes=4,batch=8",
        "rnnlm?steps=3,layers=2,hidden=12,vocabulary=24,batch=8",
        "nmt?steps=3,layers=1,hidden=12,vocabulary=24,batch=8"}) {
    const Graph graph = training(model);
    const Cluster cluster = load_cluster("local:4");
    const std::vector<SoapUnit> units = soap_units(graph);
    const std::vector<SoapConfiguration> configurations = data_parallel_configurations(graph, cluster, units);
    for (size_t u = 0; u < units.size(); ++u)
      EXPECT_EQ(configurations[u].devices, slowest_link_first(cluster))
          << model << ": " << graph.op(units[u].leader).name;
    const Plan plan = soap_plan(graph, cluster, units, configurations, "soap");
    const Plan rule = data_parallel_plan(graph, cluster);
    EXPECT_EQ(check(graph, plan, cluster).comm_bytes, check(graph, rule, cluster).comm_bytes) << model;
    for (size_t i = 0; i < graph.ops.size(); ++i)  // the rule replicates what has no samples by name
      if (!rule.ops[i].strategies[0].replicate()) {
        EXPECT_EQ(plan.ops[i], rule.ops[i]) << model << ": " << graph.ops[i].name;
      }
  }
}

// Shards and devices of each unit, by its leader.
std::map<std::string, std::string> expert(const Graph& graph, const Cluster& cluster) {
  const std::vector<SoapUnit> units = soap_units(graph);
  const std::vector<SoapConfiguration> configurations = expert_configurations(graph, cluster, units);
  std::map<std::string, std::string> out;
  for (size_t u = 0; u < units.size(); ++u) {
    const Op& leader = graph.op(units[u].leader);
    std::string& text = out[leader.name];
    for (size_t d = 0; d < units[u].indices.size(); ++d)
      if (configurations[u].degrees[d] > 1)
        text += fmt::format("{}:{} ", leader.bound->indices[static_cast<size_t>(units[u].indices[d])].name,
                            configurations[u].degrees[d]);
    std::vector<int> devices;
    for (const DeviceId device : configurations[u].devices) devices.push_back(device.value);
    text += fmt::format("[{}]", fmt::join(devices, " "));
  }
  return out;
}

// Krizhevsky 2014: each device has a fourth of the samples in convolutions, and a fourth of the units in other
// products. Ten classes are in two shards.
TEST(SoapPlans, ExpertOfAConvolutionalNetwork) {
  const Graph graph = training("alexnet?image=67,hidden=96,classes=10,batch=8");
  const auto of = expert(graph, load_cluster("local:4"));
  int convolutions = 0, products = 0, last_ones = 0;
  for (const auto& [leader, text] : of) {
    const Op& op = graph.op(graph.find_op(leader));
    const bool product = op.definition == "linear";
    const bool last = product && graph.tensor(op.results[0]).shape.back() == 10;
    convolutions += op.definition.starts_with("conv"), products += product, last_ones += last;
    const std::string expected = last               ? "o:2 [0 1]"
                                 : product          ? "o:4 [0 1 2 3]"
                                 : leader == "loss" ? "b.0:4 [0 1 2 3]"
                                                    : "n:4 [0 1 2 3]";
    EXPECT_EQ(text, expected) << leader;
  }
  EXPECT_EQ(convolutions, 5);
  EXPECT_EQ(products, 3);
  EXPECT_EQ(last_ones, 1);
}

// Wu et al. 2016: embeddings, two layers of cells, attention and the projection with the loss are five layers. The
// decoder's cells are as deep as the encoder's. Each of four nodes has a fourth of the samples.
TEST(SoapPlans, ExpertOfARecurrentNetwork) {
  const Graph graph = training("nmt?steps=3,layers=2,hidden=12,vocabulary=24,batch=8");
  const auto of = expert(graph, load_cluster("flexflow-p100"));
  auto expect = [&](const char* leader, int device) {
    ASSERT_TRUE(of.contains(leader)) << leader;
    const std::string& text = of.at(leader);
    EXPECT_EQ(text.substr(text.find(' ') + 1),
              fmt::format("[{} {} {} {}]", device, device + 4, device + 8, device + 12))
        << leader;
    EXPECT_NE(text.find(":4 "), std::string::npos) << leader << ": " << text;
  };
  for (const char* leader : {"encoder.embedding", "decoder.embedding", "decoder.projection", "loss"}) expect(leader, 0);
  for (const char* leader : {"encoder.rnn_l0.0.input", "encoder.rnn_l0.2.input", "decoder.rnn_l0.1.input"})
    expect(leader, 1);
  for (const char* leader : {"encoder.rnn_l1.0.input", "decoder.rnn_l1.0.input", "decoder.rnn_l1.2.input"})
    expect(leader, 2);
  for (const char* leader : {"attention.scores", "attention.weights", "attention.context", "attention.output"})
    expect(leader, 3);
}

// One node: nothing is split. If there are fewer samples than nodes, some nodes have none.
TEST(SoapPlans, ExpertOfFewNodesAndSamples) {
  const Graph graph = training("rnnlm?steps=2,layers=2,hidden=12,vocabulary=24,batch=2");
  const auto alone = expert(graph, load_cluster("local:4"));
  EXPECT_EQ(alone.at("embedding"), "[0]");
  EXPECT_EQ(alone.at("rnn_l1.1.input"), "[2]");
  EXPECT_EQ(alone.at("decoder"), "[3]");
  const auto four = expert(graph, load_cluster("flexflow-p100"));
  EXPECT_EQ(four.at("rnn_l1.1.input"), "n.0:2 [2 10]");
}

// A search may begin with them.
TEST(SoapPlans, StartsAreOfTheirUnitsSets) {
  for (const char* model : {"alexnet?image=67,hidden=96,classes=10,batch=6", "nmt?steps=2,layers=1,hidden=6,batch=10",
                            "wide-deep?vocabulary=100,batch=16"})
    for (const char* name : {"local:4", "local:6", "flexflow-p100"}) {
      const Graph graph = training(model);
      const Cluster cluster = load_cluster(name);
      const std::vector<SoapUnit> units = soap_units(graph);
      std::vector<SoapSet> sets;
      for (const SoapUnit& unit : units) sets.push_back(soap_set(graph, unit, slowest_link_first(cluster), {}));
      Rng rng(1);
      for (const auto& start : {data_parallel_configurations(graph, cluster, units),
                                expert_configurations(graph, cluster, units), random_configurations(sets, rng)}) {
        ASSERT_EQ(start.size(), units.size());
        for (size_t u = 0; u < units.size(); ++u) {
          bool found = false;
          for (int64_t i = 0; i < sets[u].size(); ++i) found |= sets[u].at(i) == start[u];
          EXPECT_TRUE(found) << model << " on " << name << ": " << graph.op(units[u].leader).name;
        }
      }
    }
}

}  // namespace
}  // namespace partita
