// Tests configurations and their estimates (estimator/) by words and numbers by hand.
#include <gtest/gtest.h>

#include "partita/base/error.h"
#include "partita/estimator/space.h"
#include "partita/estimator/state_costs.h"
#include "partita/models/models.h"
#include "partita/ops/ops.h"
#include "partita/plan/plan.h"

namespace partita {
namespace {

Estimator estimator_of(const std::string& model, const Cluster& cluster) {
  const Model built = build_model(model, {}, standard_ops());
  Optimizer optimizer;
  optimizer.kind = "adamw";
  optimizer.clip_norm = 1;
  return {mixed_precision(built.graph, DType::kBFloat16), built.loss, optimizer, cluster, kBucketBytes};
}

Configuration configuration(int data, int micro_batches) {
  Configuration c;
  c.data = data, c.micro_batches = micro_batches;
  return c;
}

TEST(Configurations, AreSaidInTheFieldsWords) {
  Configuration c = configuration(4, 64);
  c.tensor = c.pipeline = 4, c.sequence = true, c.zero = 1, c.recompute = "cheap", c.schedule = Schedule::k1F1B;
  EXPECT_EQ(words(c),
            "tp 4 x pp 4 x dp 4, 1F1B with 64 micro-batches of 1, sequence parallel, ZeRO-1, recompute cheap");
  EXPECT_EQ(search_text(c),
            "megatron?tensor=4,pipeline=4,layers=even,sequence=1,zero=1,recompute=cheap,micro-batch-size=1");
  c.layers = {19, 21, 21, 19};
  c.context = 2;
  EXPECT_EQ(search_text(c),
            "megatron?tensor=4,pipeline=4,layers=19-21-21-19,context=2,sequence=1,zero=1,recompute=cheap,"
            "micro-batch-size=1");
  EXPECT_EQ(words(configuration(1, 8)), "dp 1, 8 micro-batches of 1");
  EXPECT_EQ(c.devices(), 4 * 2 * 4 * 4);
}

// Megatron's distributed optimizer with d replicas: 2 bytes of a bfloat16 weight, 4 of its float32 gradient, 12/d of
// master, and moments. 8.03 billion parameters on 8 devices: 7.5 bytes each, 60.2 GB. ZeRO-3 splits all: 16/8 bytes,
// and 2/8 of the copies in bfloat16. The embedding's table has no such copy: it is whole in float32, 9 bytes each.
TEST(Configurations, StatesOfLlamaOnEightReplicas) {
  const Cluster cluster = load_cluster("dgx-h100");
  Estimator estimator = estimator_of("zoo:llama-3-8b?batch=16", cluster);
  Configuration c = configuration(8, 2);
  const double parameters = 8.03e9, table = 128256.0 * 4096;
  c.zero = 1;
  EXPECT_NEAR(static_cast<double>(estimator.estimate(c).ranks[0].states_bytes), 7.5 * parameters + 1.5 * table, 1e8);
  c.zero = 3;
  EXPECT_NEAR(static_cast<double>(estimator.estimate(c).ranks[0].states_bytes), 2.25 * parameters, 3e8);
}

// What is extrapolated from two and four replicas is that of a plan for eight.
TEST(Configurations, ReplicasAreExtrapolated) {
  const Cluster cluster = load_cluster("dgx-h100");
  Estimator estimator = estimator_of("zoo:llama-3-8b?batch=64,layers=3,vocabulary=4096", cluster);
  Configuration c = configuration(8, 8);
  for (c.zero = 0; c.zero <= 3; ++c.zero) {
    const RankEstimate few = estimator.estimate(c).ranks[0];
    EXPECT_GT(few.states_bytes, 0);
    EXPECT_GE(few.gradients_ns, 0);
    if (c.zero == 0) continue;
    Configuration whole = c;
    whole.zero = 0;
    EXPECT_LT(few.states_bytes, estimator.estimate(whole).ranks[0].states_bytes) << "ZeRO-" << c.zero;
  }
}

// 64 nodes of one device on a switch of 50 GB/s, without latency.
Cluster ring_cluster() {
  return parse_cluster(R"(name: ring
device_types:
  A: {kind: gpu, peak_tflop_per_s: {float32: 4, float64: 1}, memory_gibytes: 80, memory_bandwidth_gbytes_per_s: 1000, efficiency: 1, launch_overhead_us: 0}
  H: {kind: cpu, peak_tflop_per_s: {float32: 1, float64: 1}, memory_gibytes: 64, memory_bandwidth_gbytes_per_s: 50, efficiency: 1, launch_overhead_us: 1}
topology:
  link: {bandwidth_gbytes_per_s: 6400, latency_us: 0}
  children:
    - name: node
      count: 64
      link: {bandwidth_gbytes_per_s: 50, latency_us: 0}
      host: {type: H, link: {bandwidth_gbytes_per_s: 8, latency_us: 5}}
      children: [{name: gpu, type: A}]
)",
                       "test");
}

// A ring's all-reduce of 10^9 float32 over 64 replicas: 2 x 63/64 x 4 GB at 50 GB/s.
TEST(Configurations, GradientsAreReducedInARing) {
  const Cluster cluster = ring_cluster();
  StageCollectives collectives(cluster, 64);
  const BlockStates::Collectives gradients{{{StepKind::kAllReduce, DType::kFloat32, {0}, true}, {7.875e9, 4e9, 1}}};
  EXPECT_NEAR(static_cast<double>(collectives.ns(gradients, 0)) / 1e9, 0.1575, 1e-3);
}

// A model without repeated layers goes to the searches.
TEST(Configurations, NeedRepeatedLayers) {
  const Cluster cluster = load_cluster("local:4");
  EXPECT_THROW(estimator_of("zoo:lenet?batch=8", cluster), DoesNotApply);
}

// The space of a small model on 4 devices: every configuration is on all devices and takes the whole batch.
TEST(Configurations, SpaceIsWhole) {
  const Cluster cluster = load_cluster("dgx-h100", 4);
  Estimator estimator = estimator_of("zoo:llama-3-8b?batch=8,layers=4,vocabulary=4096", cluster);
  const EstimatedSpace space = estimate_space(estimator, cluster);
  EXPECT_TRUE(space.whole);
  EXPECT_EQ(space.fitting, space.all.size());
  std::set<std::string> texts;
  for (const EstimatedConfiguration& c : space.all) {
    const Configuration& of = c.configuration;
    EXPECT_EQ(of.devices(), 4);
    EXPECT_EQ(of.replicas() * of.micro_batch_size * of.micro_batches, 8);
    EXPECT_TRUE(texts.insert(search_text(of)).second) << search_text(of);
  }
  for (size_t i = 1; i < space.all.size(); ++i) EXPECT_GE(space.all[i].step_ns, space.all[i - 1].step_ns);
}

}  // namespace
}  // namespace partita
