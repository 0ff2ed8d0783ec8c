// Tests plans made by a rule: the bytes that they move against figures worked out by hand, and that they exist for
// every model and device count.
#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/graph/layers.h"
#include "partita/pipeline/pipeline.h"
#include "partita/plan/resolve.h"

namespace partita {
namespace {

struct Made {
  Planned planned;
  Resolved resolved;

  const Graph& graph() const { return planned.training; }
  std::string kept(const std::string& tensor) const {
    return to_string(planned.plan.kept.at(graph().find_tensor(tensor)).sbp);
  }
  int64_t bytes(const std::string& tensor) const { return graph().tensor(graph().find_tensor(tensor)).bytes(); }
  // Conversions that move something and contain such a step, by their bytes.
  std::vector<int64_t> moved(StepKind kind, Role role) const {
    std::vector<int64_t> out;
    for (const ResolvedConversion& c : resolved.conversions)
      if (graph().tensor(c.tensor).role == role && c.conversion.bytes > 0 && c.conversion.steps.back().kind == kind)
        out.push_back(c.conversion.bytes);
    return out;
  }
};

Made make(const std::string& model, const std::string& search, const std::string& cluster, int batch = 0,
          Optimizer optimizer = {}, DType dtype = DType::kFloat32, std::optional<int64_t> memory_limit_bytes = {}) {
  Request request;
  request.memory_limit_bytes = memory_limit_bytes;
  request.model = model;
  request.dtype = dtype;
  if (batch > 0) request.bindings["batch"] = std::to_string(batch);
  request.search = search;
  request.cluster = cluster;
  request.optimizer = optimizer;
  Runner runner;
  Made made{plan_model(request, runner), {}};
  made.resolved = resolve(made.graph(), made.planned.plan, made.planned.cluster);
  return made;
}

// Convolutions: their weights and biases are all-reduced, 2 (p-1) T. Fully connected layers: every device that has some
// of the units gathers their input, (p-1) T. Its gradient is added up where it is used, (p-1) T again. Their weights
// move nowhere.
TEST(OneWeirdTrick, AlexNetMovesConvolutionsWeightsAndTheOthersInputs) {
  for (int p : {2, 4, 8}) {
    const Made made = make("zoo:alexnet", "owt", "local:" + std::to_string(p), 64);
    int64_t convolutions = 0;
    for (const Tensor& t : made.graph().tensors)
      if (t.role == Role::kParameter && t.name.starts_with("features")) convolutions += t.bytes();
    const int64_t inputs = 4 * 64 * (256 * 6 * 6 + 4096 + 4096);
    EXPECT_EQ(convolutions, 4 * 2469696);
    EXPECT_EQ(made.planned.report.comm_bytes - made.planned.report.inner_bytes, 2 * (p - 1) * (convolutions + inputs))
        << p;
    EXPECT_LT(made.planned.report.inner_bytes, 64 * 16 * p * 4);  // the loss over split classes: some numbers a sample
    EXPECT_EQ(made.kept("classifier.1.weight"), "[S(0)]");
    EXPECT_EQ(made.kept("features.0.weight"), "[B]");
  }
}

// The same in mixed precision: weights of convolutions and all inputs in half as many bytes. A fully connected layer's
// float32 weight is split, and its shard cast.
TEST(OneWeirdTrick, InMixedPrecisionWeightsMoveNowhereToo) {
  const int p = 4;
  const Made whole = make("zoo:alexnet", "owt", "local:4", 64),
             made = make("zoo:alexnet", "owt", "local:4", 64, {}, DType::kBFloat16);
  const int64_t outer = whole.planned.report.comm_bytes - whole.planned.report.inner_bytes;
  EXPECT_LE(made.planned.report.comm_bytes - made.planned.report.inner_bytes, outer / 2 + 2 * (p - 1) * 4 * 64 * 1000);
  EXPECT_EQ(made.kept("classifier.1.weight"), "[S(0)]");
  EXPECT_EQ(made.kept("features.0.weight"), "[B]");
}

// Each parameter's gradient is all-reduced once, 2 (p-1) T, however often the parameter is used: at every time step, or
// as a table for inputs and outputs.
TEST(DataParallel, ReducesGradientsOfSharedWeightsOnce) {
  for (const char* model : {"zoo:mlp?layers=2,width=12", "zoo:rnnlm?steps=5,hidden=10,vocabulary=17",
                            "zoo:gpt2?layers=2,hidden=24,heads=6,steps=8,positions=8,vocabulary=50",
                            "zoo:bert-base?layers=1,hidden=24,heads=4,steps=8,positions=8,vocabulary=50"})
    for (int p : {2, 3}) {
      const std::string cluster = "local:" + std::to_string(p);
      const Made made = make(model, "data-parallel", cluster, 6);
      int64_t parameters = 0;
      for (const Tensor& t : made.graph().tensors)
        if (t.role == Role::kParameter) parameters += t.bytes();
      EXPECT_EQ(made.planned.report.comm_bytes - made.planned.report.inner_bytes, 2 * (p - 1) * parameters)
          << model << " on " << p;
      EXPECT_EQ(make(model, "megatron?tensor=1", cluster, 6).planned.report.comm_bytes, made.planned.report.comm_bytes)
          << model;
      for (const char* alike : {"zero?stage=1", "zero?stage=2"})
        EXPECT_LE(make(model, alike, cluster, 6).planned.report.comm_bytes, 1.1 * made.planned.report.comm_bytes)
            << model << " with " << alike;
    }
}

TEST(OneWeirdTrick, NeedsASampleADevice) {
  try {
    make("zoo:lenet", "owt", "local:4", 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInfeasible);
    EXPECT_NE(std::string(error.what()).find("3 samples, too few for 4 devices"), std::string::npos) << error.what();
  }
}

// Megatron-LM section 3: two all-reduces of [batch, steps, hidden] a layer forward, two backward. Besides: one for the
// embedding split along the vocabulary, one for the gradient that comes out of the head.
TEST(Megatron, FourAllReducesALayer) {
  for (int layers : {1, 3}) {
    const int64_t p = 4, batch = 8, steps = 16, hidden = 48;
    const Made made = make(fmt::format("zoo:transformer?layers={},hidden={},steps={}", layers, hidden, steps),
                           "megatron?tensor=4", "local:4", batch);
    const int64_t one = 2 * (p - 1) * batch * steps * hidden * 4;
    std::vector<int64_t> forward = made.moved(StepKind::kAllReduce, Role::kActivation),
                         backward = made.moved(StepKind::kAllReduce, Role::kGradient);
    EXPECT_EQ(forward, std::vector<int64_t>(2 * layers + 1, one));
    EXPECT_EQ(backward, std::vector<int64_t>(2 * layers + 1, one));
    EXPECT_EQ(made.planned.report.comm_bytes - made.planned.report.inner_bytes, (4 * layers + 2) * one);
    // A number for each token is all-reduced in three stages of the loss.
    EXPECT_EQ(made.planned.report.inner_bytes, 3 * 2 * (p - 1) * batch * steps * 4);
    EXPECT_EQ(made.kept("layers.0.attention.q.weight"), "[S(0)]");
    EXPECT_EQ(made.kept("layers.0.attention.out.weight"), "[S(1)]");
    EXPECT_EQ(made.kept("layers.0.feed_forward.up.bias"), "[S(0)]");
    EXPECT_EQ(made.kept("layers.0.feed_forward.down.weight"), "[S(1)]");
    EXPECT_EQ(made.kept("layers.0.feed_forward.down.bias"), "[B]");
    EXPECT_EQ(made.kept("layers.0.norm1.weight"), "[B]");
    EXPECT_EQ(made.kept("embedding.weight"), "[S(0)]");
    EXPECT_EQ(made.kept("head.weight"), "[S(0)]");
    EXPECT_EQ(made.kept("position.weight"), "[B]");
  }
}

// Four nodes of four: in each node the tensor group, over the nodes the gradients of each device's weights.
TEST(Megatron, DataParallelOutside) {
  const Made made = make("zoo:transformer?layers=2,hidden=64,heads=8", "megatron", "flexflow-p100", 8);
  const Mesh& mesh = made.planned.plan.ops[0].mesh;
  EXPECT_EQ(mesh.extents, (std::vector<int>{4, 4}));
  for (int r = 0; r < 16; ++r)
    EXPECT_EQ(made.planned.cluster.device(mesh.devices[r]).host,
              made.planned.cluster.device(mesh.devices[r / 4 * 4]).host);
  EXPECT_EQ(made.kept("layers.1.attention.v.weight"), "[B, S(0)]");
  EXPECT_EQ(made.kept("tokens"), "[S(0), B]");
  // Over 4 nodes, 2 (p-1) T of gradients split in 4 (a shard in each of 4 groups: T in all). Gradients that each of 4
  // has whole are all-reduced in shards too, and then gathered inside the nodes: 2 (p-1) T + 4 (p-1) T.
  int64_t gradients = 0, split = 0;
  for (const Tensor& t : made.graph().tensors)
    if (t.role == Role::kParameter) {
      const bool whole = made.kept(t.name) == "[B, B]";
      gradients += (2 * 3 + (whole ? 4 * 3 : 0)) * t.bytes();
      split += whole ? 0 : t.bytes();
    }
  const int64_t activations = 4 * 2 + 2, one = 2 * 3 * 8 * 32 * 64 * 4;
  EXPECT_EQ(made.planned.report.comm_bytes - made.planned.report.inner_bytes, gradients + activations * one);
  EXPECT_GT(split, 100000);
}

// GPT-2 as PyTorch exports it: one product for q, k and v. Every device has its heads of all three.
TEST(Megatron, Gpt2AsExported) {
  for (const char* file : {"gpt2.onnx", "gpt2-optimized.onnx"}) {
    const Made made = make(std::string(PARTITA_SOURCE_DIR) + "/tests/data/" + file, "megatron?tensor=2", "local:2");
    int fused = 0;
    for (const auto& [id, placement] : made.planned.plan.kept) {
      const Tensor& t = made.graph().tensor(id);
      if (t.role != Role::kParameter || placement.radices.empty()) continue;
      EXPECT_EQ(placement.sbp.size(), 1u);
      EXPECT_EQ(placement.sbp[0].kind, Sbp::Kind::kSplit) << t.name;
      EXPECT_EQ(placement.radices[placement.sbp[0].axis][0], 3) << t.name;
      EXPECT_EQ(placement.sbp[0].sub_axis, 1) << t.name;  // a cut in each of q, k and v
      ++fused;
    }
    EXPECT_EQ(fused, 4) << file;  // weight and bias of two layers
    const Tensor& tokens = made.graph().tensor(made.graph().inputs[0]);
    const int64_t one = 2 * volume(tokens.shape) * 16 * 4;  // hidden = 16
    EXPECT_EQ(made.moved(StepKind::kAllReduce, Role::kActivation), std::vector<int64_t>(5, one)) << file;
    EXPECT_EQ(made.moved(StepKind::kAllReduce, Role::kGradient), std::vector<int64_t>(5, one)) << file;
  }
}

std::string reason(const std::string& model, const std::string& search, const std::string& cluster) {
  try {
    make(model, search, cluster, 8);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInfeasible) << error.what();
    return error.what();
  }
  return "a plan";
}

TEST(Megatron, SaysWhatIsMissing) {
  EXPECT_NE(reason("zoo:transformer", "megatron?tensor=3", "local:4").find("4 devices are not a multiple of tensor=3"),
            std::string::npos);
  EXPECT_NE(reason("zoo:mlp?layers=2,width=3", "megatron?tensor=4", "local:4")
                .find("no weight products that can be split in 4"),
            std::string::npos);
}

// Rajbhandari et al., section 7: as much as data parallelism, 2 (p-1) T of parameters, for stages 1 and 2; for stage 3
// half as much again, except for the first product, whose weight no op of the backward pass reads.
TEST(Zero, MovesWhatThePaperSays) {
  for (int p : {2, 4}) {
    const std::string cluster = "local:" + std::to_string(p), model = "zoo:mlp?layers=4,width=32,bias=0";
    int64_t parameters = 0;
    const Made data_parallel = make(model, "data-parallel", cluster, 16, {"adam", 0.01});
    for (const Tensor& t : data_parallel.graph().tensors) parameters += t.role == Role::kParameter ? t.bytes() : 0;
    ASSERT_EQ(parameters, 4 * 4 * 32 * 32);
    const int64_t others = data_parallel.planned.report.comm_bytes - 2 * (p - 1) * parameters;  // the loss, for the log
    EXPECT_LE(others, 2 * (p - 1) * 4);
    for (int stage : {1, 2}) {
      const Made made = make(model, fmt::format("zero?stage={}", stage), cluster, 16, {"adam", 0.01});
      EXPECT_EQ(made.planned.report.comm_bytes - others, 2 * (p - 1) * parameters) << stage;
    }
    const Made made = make(model, "zero?stage=3", cluster, 16, {"adam", 0.01});
    EXPECT_EQ(made.planned.report.comm_bytes - others, 3 * (p - 1) * parameters - (p - 1) * parameters / 4);
  }
}

// In mixed precision gradients are reduced, and weights gathered, in the shorter type: each half of float32's bytes.
// The float32 weights lie with the states: 2 bytes a weight whole (and 2 of its gradient in stage 1), 12 of it divided
// by the devices. With no more memory than that, there is no overlap budget.
TEST(Zero, MovesTheShorterTypeInMixedPrecision) {
  const int p = 4;
  const int64_t width = 256, layers = 8, parameters = layers * width * width, one = 4 * width * width;
  const auto moved = [&](const std::string& search, DType dtype, std::optional<int64_t> memory_limit_bytes = {}) {
    return make(fmt::format("zoo:mlp?layers={},width={},bias=0", layers, width), search, "local:4", p, {"adam", 0.01},
                dtype, memory_limit_bytes);
  };
  const int64_t loss = moved("data-parallel", DType::kFloat32).planned.report.comm_bytes - 2 * (p - 1) * 4 * parameters;
  for (const char* search : {"data-parallel", "zero", "zero?stage=2"}) {
    const Made made = moved(search, DType::kBFloat16);
    EXPECT_EQ(made.planned.report.comm_bytes - loss, 2 * (p - 1) * 2 * parameters) << search;
    if (search != std::string("data-parallel")) {
      EXPECT_EQ(made.kept("fc3.weight"), "[S(0)]");
    }
  }
  const int64_t formula = 2 * parameters + (2 + 12) * parameters / p;
  const int64_t peak = moved("zero?stage=2", DType::kBFloat16, formula + 4 * one).planned.peak_memory_bytes();
  EXPECT_GE(peak, formula - one);
  EXPECT_LE(peak, formula + 4 * one);
}

// 16 bytes a parameter with Adam in float32: itself, its gradient and two moments. A stage divides its share by the
// devices. Clipping needs all gradients at once; none waits for others in a bucket. The activations, and the buffers of
// one layer's product and its reduction, are added. Each stage fits into no more. Stage 1 holds whole gradients no
// longer than stage 2 if that makes its step no longer.
TEST(Zero, MemoryIsTheFormulas) {
  const int p = 4;
  const int64_t width = 256, layers = 8, parameters = layers * width * width, one = 4 * width * width;
  int64_t before = 0;
  for (int stage = 0; stage <= 3; ++stage) {
    const int64_t formula = 4 * parameters / (stage >= 3 ? p : 1) + 4 * parameters / (stage >= 2 ? p : 1) +
                            8 * parameters / (stage >= 1 ? p : 1);
    const Made made = make(fmt::format("zoo:mlp?layers={},width={},bias=0", layers, width),
                           stage == 0 ? "data-parallel?bucket=0" : fmt::format("zero?stage={},bucket=0", stage),
                           "local:4", p, {"adam", 0.01, 0, 0, 1.0}, DType::kFloat32, formula + 4 * one);
    const int64_t peak = made.planned.peak_memory_bytes();
    EXPECT_GE(peak, formula - one - (stage == 1 ? 4 * parameters * (p - 1) / p : 0)) << stage;
    EXPECT_LE(peak, formula + 4 * one) << stage;
    EXPECT_TRUE(stage == 0 || peak < before + (stage == 2 ? one : 0)) << stage << ": " << peak << ", before " << before;
    before = peak;
  }
}

TEST(Zero, KeepsWhatItsStageSays) {
  for (int stage : {1, 2, 3}) {
    const Made made =
        make("zoo:mlp?layers=3,width=20", fmt::format("zero?stage={}", stage), "local:4", 8, {"adam", 0.01});
    EXPECT_EQ(made.kept("fc2.weight"), stage == 3 ? "[S(0)]" : "[B]");
    int states = 0, gradients = 0;
    for (const auto& [id, placement] : made.planned.plan.kept) {
      const Tensor& t = made.graph().tensor(id);
      if (t.role == Role::kState && !t.shape.empty()) {
        EXPECT_EQ(placement.sbp[0].kind, Sbp::Kind::kSplit) << t.name;
        ++states;
      }
      if (t.role == Role::kGradient) ++gradients;
    }
    EXPECT_EQ(states, 12);  // two moments of three weights and three biases
    EXPECT_EQ(gradients, stage >= 2 ? 6 : 0);
    EXPECT_EQ(made.planned.plan.resharded.size(), stage == 3 ? 2u : 0u);
    EXPECT_EQ(parse_plan(print(made.planned.plan, made.graph()), made.graph()), made.planned.plan);
  }
}

// The forward pass and the backward pass each convert a resharded tensor. One that nothing in the backward pass reads
// is refused.
TEST(Refetched, IsConvertedOnceMore) {
  Made made = make("zoo:mlp?layers=3,width=20", "zero?stage=3", "local:4", 8);
  Plan plan = made.planned.plan;
  const TensorId w = made.graph().find_tensor("fc2.weight");
  const int64_t twice = check(made.graph(), plan, made.planned.cluster).comm_bytes;
  plan.resharded.erase(w);
  EXPECT_EQ(check(made.graph(), plan, made.planned.cluster).comm_bytes, twice - 3 * made.bytes("fc2.weight"));
  plan.resharded.insert(made.graph().inputs[1]);  // the labels
  plan.resharded.insert(made.graph().find_tensor("fc1.bias"));
  try {
    check(made.graph(), plan, made.planned.cluster);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "plan: refetched: no op of the backward pass reads tensor 'fc1.bias'");
  }
}

// Layer l of an unrolled network is on device l modulo the devices, at all time steps, backward ops and updates with
// it.
TEST(LayerPlacement, LayersOfARecurrentNetwork) {
  const Made made =
      make("zoo:rnnlm?layers=3,steps=4,hidden=10,vocabulary=17", "layer-placement", "local:2", 4, {"adam", 0.01});
  const std::vector<int> layer = layers_of(made.graph());
  for (size_t i = 0; i < layer.size(); ++i) {
    const Op& op = made.graph().ops[i];
    EXPECT_TRUE(op.cell < 0 || layer[i] == op.cell) << op.name;
    EXPECT_TRUE(!op.forward.valid() || layer[i] == layer[op.forward.index()]) << op.name;
    EXPECT_EQ(made.planned.plan.ops[i].mesh.devices, (std::vector<DeviceId>{DeviceId(layer[i] % 2)})) << op.name;
  }
  EXPECT_EQ(layer[made.graph().find_op("embedding").index()], 0);
  EXPECT_EQ(layer[made.graph().find_op("loss").index()], 2);
  // Activations and their gradients cross between layers, never a weight.
  for (const ResolvedConversion& c : made.resolved.conversions)
    EXPECT_TRUE(c.conversion.bytes == 0 || made.graph().tensor(c.tensor).role != Role::kParameter)
        << made.graph().tensor(c.tensor).name;
}

const char* const kModels[] = {
    "zoo:mlp?layers=4,width=20",
    "zoo:lenet",
    "zoo:resnet-18?image=32,width=8",
    "zoo:rnnlm?steps=3,hidden=10,vocabulary=17",
    "zoo:transformer?layers=1,hidden=24,steps=10,vocabulary=40",
    "zoo:moe?layers=1,hidden=24,steps=5,vocabulary=40,experts=3,groups=3",
    "zoo:gpt2?layers=1,hidden=24,heads=6,steps=8,vocabulary=50",
    "zoo:bert-base?layers=1,hidden=24,heads=4,steps=8,vocabulary=50",
    "zoo:llama-3-8b?layers=1,hidden=32,heads=4,key_heads=2,inner=40,steps=8,vocabulary=50",
    "zoo:mixtral-8x7b?layers=1,hidden=32,heads=4,key_heads=2,inner=40,steps=8,vocabulary=50,experts=3",
    "zoo:vit-b16?layers=1,hidden=24,heads=4,image=32,classes=11"};
const char* const kRules[] = {"owt",          "megatron",     "megatron?tensor=2", "zero?stage=1",
                              "zero?stage=2", "zero?stage=3", "layer-placement",   "layer-placement?assign=contiguous"};

// Every rule gives a plan that the checker takes, whatever the extents.
TEST(ManyRules, EveryModelOnThreeAndEightDevices) {
  for (const char* model : kModels) {
    const Graph graph = make(model, "single", "local:1", 9).planned.training;
    for (const char* devices : {"local:3", "local:8"})
      for (const char* search : kRules) {
        SCOPED_TRACE(fmt::format("{} with {} on {}", model, search, devices));
        const Cluster cluster = load_cluster(devices);
        const SearchChoice choice = parse_search(search);
        if (cluster.compute_count % 2 && search == std::string("megatron?tensor=2")) continue;
        Rng rng(1);
        const SearchResult result =
            choice.entry->search({graph, cluster, Objective::kComm, {}, choice.options}, {}, rng);
        ASSERT_TRUE(result.plan);
        EXPECT_NO_THROW(check(graph, *result.plan, cluster));
      }
  }
}

// And that can be lowered and run.
TEST(LongRules, EveryModelAndDeviceCount) {
  for (const char* model : kModels)
    for (int devices : {1, 2, 3, 4, 6, 8})
      for (const char* search : kRules) {
        SCOPED_TRACE(fmt::format("{} with {} on {}", model, search, devices));
        try {
          const Made made = make(model, search, "local:" + std::to_string(devices), 9);
          EXPECT_EQ(made.planned.plan.search, search);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ExitCode::kInfeasible) << error.what();
          EXPECT_NE(std::string(error.what()).find("not a multiple"), std::string::npos) << error.what();
        }
      }
}

}  // namespace
}  // namespace partita
