// Tests groups of devices by rule: the bytes that sequence parallelism, experts and ZeRO inside tensor groups keep and
// move, against figures worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/pipeline/pipeline.h"
#include "partita/plan/resolve.h"

namespace partita {
namespace {

Planned made(const std::string& model, const std::string& search, int devices, int batch = 8, Optimizer optimizer = {},
             DType dtype = DType::kFloat32) {
  Request request;
  request.model = model;
  request.dtype = dtype;
  request.bindings["batch"] = std::to_string(batch);
  request.search = search;
  request.cluster = fmt::format("local:{}", devices);
  request.optimizer = optimizer;
  Runner runner;
  return plan_model(request, runner);
}

std::string kept(const Planned& p, const std::string& tensor) {
  return to_string(p.plan.kept.at(p.training.find_tensor(tensor)).sbp);
}
// The strategies of an op: "[b, s]".
std::string strategies(const Planned& p, const std::string& op) {
  std::vector<std::string> names;
  for (const tdl::AxisStrategy& s : p.plan.ops[p.training.find_op(op).index()].strategies)
    names.push_back(tdl::to_string(s));
  return fmt::format("[{}]", fmt::join(names, ", "));
}
// Bytes of all steps of a kind in conversions of tensors that `is` says.
template <typename Is>
int64_t moved(const Planned& p, StepKind kind, const Is& is) {
  int64_t bytes = 0;
  for (const ResolvedConversion& c : p.resolved->conversions)
    for (const Step& step : c.conversion.steps)
      if (step.kind == kind && is(p.training.tensor(c.tensor))) bytes += c.firings * step.bytes;
  return bytes;
}

// Returns the reason why there is no such plan.
std::string reason(const std::string& model, const std::string& search, int devices, int batch = 8) {
  try {
    made(model, search, devices, batch);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInfeasible) << error.what();
    return error.what();
  }
  return "a plan";
}

// ---------------------------------------------------------------- the sequence

// Korthikanti et al., section 4.2.2. An all-reduce of x [batch, steps, hidden] moved 2 (p-1) T; in its place a
// reduce-scatter and an all-gather move (p-1) T each. The operand of a column product is gathered once more in the
// backward pass: (p-1) T for the input of attention, of the feed-forward layer, and of the head. Weights of norms have
// gradients that are sums over the group.
TEST(Sequence, MovesWhatAllReducesMoved) {
  const int64_t p = 4, batch = 8, steps = 16, hidden = 48, layers = 3, one = batch * steps * hidden * 4;
  const std::string model = fmt::format("zoo:transformer?layers={},hidden={},steps={}", layers, hidden, steps);
  const Planned whole = made(model, "megatron?tensor=4", p, batch),
                split = made(model, "megatron?tensor=4,sequence=1", p, batch);
  const auto large = [&](const Tensor& t) { return t.bytes() == one; };
  const auto small = [&](const Tensor& t) { return t.bytes() != one; };
  EXPECT_EQ(moved(whole, StepKind::kAllReduce, large), (4 * layers + 2) * 2 * (p - 1) * one);
  EXPECT_EQ(moved(split, StepKind::kAllReduce, large), 0);
  EXPECT_EQ(moved(split, StepKind::kReduceScatter, large), (4 * layers + 2) * (p - 1) * one);
  EXPECT_EQ(moved(split, StepKind::kAllGather, large), (4 * layers + 2 + 2 * layers + 1) * (p - 1) * one);
  // The biases of row products, weights and biases of norms.
  EXPECT_EQ(moved(split, StepKind::kAllReduce, small), (2 * layers + 2 * (2 * layers + 1)) * 2 * (p - 1) * hidden * 4);
  EXPECT_EQ(split.report.inner_bytes, whole.report.inner_bytes);  // the loss over split classes
  EXPECT_EQ(split.resolved->conversion_bytes(), moved(split, StepKind::kReduceScatter, large) +
                                                    moved(split, StepKind::kAllGather, large) +
                                                    moved(split, StepKind::kAllReduce, small));
}

TEST(Sequence, SplitsNormsDropoutAndResidualAdditions) {
  const Planned p = made("zoo:transformer?layers=2,hidden=48,steps=16,dropout=0.1", "megatron?tensor=4,sequence=1", 8);
  for (const char* op : {"layers.0.norm1", "layers.1.norm2", "layers.0.dropout1", "layers.1.dropout2", "layers.0.add1",
                         "layers.1.add2", "norm", "layers.0.norm1.grad", "layers.1.dropout2.grad.x"}) {
    ASSERT_TRUE(p.training.find_op(op).valid()) << op;
    const Op& o = p.training.op(p.training.find_op(op));
    const OpChoice& choice = p.plan.ops[p.training.find_op(op).index()];
    const Layout& result = p.resolved->ops[p.training.find_op(op).index()].layouts.results[0];
    EXPECT_EQ(result.elements(0) * 8, volume(p.training.tensor(o.results[0]).shape)) << op << strategies(p, op);
    EXPECT_EQ(choice.strategies.size(), 2u);
  }
  EXPECT_EQ(kept(p, "layers.0.attention.out"), "[S(0), S(1)]");
  EXPECT_EQ(kept(p, "layers.1.feed_forward.down"), "[S(0), S(1)]");
  EXPECT_EQ(kept(p, "position.weight"), "[B, S(0)]");
  EXPECT_EQ(kept(p, "layers.0.norm1.weight"), "[B, B]");
}

// Section 4.2: a layer keeps for its backward pass, in units of s b h and 2 bytes each, 10 + 24 / t without and 34 / t
// with it (attention's 5 a s^2 b / t aside). Our own layer keeps less than the undivided 10 s b h: two norms' inputs
// and outputs and two dropout masks less. So the test says only that nothing of these sizes is whole.
TEST(Sequence, DividesActivations) {
  const std::string model = "zoo:transformer?layers=6,hidden=48,heads=8,steps=32,vocabulary=64,dropout=0.1";
  const int64_t one = int64_t{16} * 32 * 48 * 4;
  const auto weights = [](const Planned& p) {
    int64_t bytes = 0;
    for (const auto& [id, placement] : p.plan.kept)
      if (p.training.tensor(id).role == Role::kParameter || p.training.tensor(id).role == Role::kState)
        bytes += layout_of(placement, p.training.tensor(id).shape).elements(0) * 4;
    return bytes;
  };
  const Planned whole = made(model, "megatron?tensor=8", 8, 16),
                split = made(model, "megatron?tensor=8,sequence=1", 8, 16);
  const int64_t before = whole.peak_memory_bytes() - weights(whole), after = split.peak_memory_bytes() - weights(split);
  EXPECT_GT(before, 6 * 4 * one);  // the inputs and outputs of two norms a layer
  EXPECT_LT(after, before / 2);
}

TEST(Sequence, SaysWhatIsMissing) {
  const auto error = [](const std::string& model, const std::string& search) { return reason(model, search, 4); };
  EXPECT_EQ(error("zoo:transformer?heads=6,hidden=96", "megatron?tensor=4"),
            "megatron: tensor=4 does not divide the 6 heads of 'layers.0.attention.q'; choose a divisor");
  EXPECT_EQ(error("zoo:transformer", "megatron?tensor=1,sequence=1"),
            "megatron: sequence=1 splits over the tensor groups, and with tensor=1 there are none; choose tensor=2 or "
            "more, or leave sequence out");
}

// ---------------------------------------------------------------- the context

// All keys and values [batch, heads, steps, size] are gathered for the forward pass and again for the backward pass,
// (p-1) T each: a device lacks (p-1)/p of them. Their gradients are reduce-scattered. Weights have gradients that are
// sums over the group; a table of positions is split.
TEST(Context, GathersKeysAndValues) {
  const int64_t p = 4, batch = 8, steps = 16, hidden = 48, layers = 3, one = batch * steps * hidden * 4;
  const Planned split =
      made(fmt::format("zoo:bert-base?layers={},hidden={},heads=4,steps={},vocabulary=40", layers, hidden, steps),
           "megatron?tensor=1,context=4", p, batch);
  EXPECT_EQ(split.plan.ops[0].mesh.extents, std::vector<int>{4});
  const auto of_attention = [&](const Tensor& t) { return t.bytes() == one && t.shape.size() == 4; };
  EXPECT_EQ(moved(split, StepKind::kAllGather, of_attention), 2 * 2 * layers * (p - 1) * one);
  EXPECT_EQ(moved(split, StepKind::kReduceScatter, of_attention), 2 * layers * (p - 1) * one);
  EXPECT_EQ(moved(split, StepKind::kFetch, of_attention), 0);
}

// Causal attention needs of T keys, p shards of T/p, r of the others on device r: (p-1)/2 T in all.
TEST(Context, FetchesTheKeysThatItsQueriesSee) {
  const int64_t p = 4, batch = 8, steps = 16, layers = 3, keys = batch * steps * 2 * 6 * 4;
  const std::string model = fmt::format(
      "zoo:llama-3-8b?layers={},hidden=24,heads=4,key_heads=2,inner=40,vocabulary=20,steps={}", layers, steps);
  const Planned split = made(model, "megatron?tensor=1,context=4", p, batch);
  const auto of_keys = [&](const Tensor& t) { return t.bytes() == keys && t.shape.size() == 4; };
  EXPECT_EQ(moved(split, StepKind::kFetch, of_keys), 2 * 2 * layers * (p - 1) * keys / 2);
  EXPECT_EQ(moved(split, StepKind::kReduceScatter, of_keys), 2 * layers * (p - 1) * keys);
  int64_t weights = 0;
  for (const Tensor& t : split.training.tensors)
    if (t.role == Role::kParameter) weights += t.bytes();
  const auto any = [](const Tensor&) { return true; };
  EXPECT_EQ(moved(split, StepKind::kAllReduce, any), 2 * (p - 1) * weights);
  EXPECT_EQ(split.resolved->conversion_bytes(), moved(split, StepKind::kFetch, of_keys) +
                                                    moved(split, StepKind::kReduceScatter, of_keys) +
                                                    2 * (p - 1) * weights);
  EXPECT_EQ(split.report.inner_bytes, 0);
  EXPECT_EQ(split.plan.resharded.size(), static_cast<size_t>(2 * layers));
}

// Every activation of the forward pass is split, and so is the loss.
TEST(Context, SplitsAllActivations) {
  const Planned p = made("zoo:llama-3-8b?layers=2,hidden=24,heads=4,key_heads=2,inner=40,vocabulary=64,steps=8",
                         "megatron?tensor=2,context=2,sequence=1,zero=1", 8, 8, {"adamw", 0.01});
  EXPECT_EQ(p.plan.ops[0].mesh.extents, (std::vector<int>{2, 2, 2}));
  for (size_t i = 0; i < p.training.ops.size(); ++i) {
    const Op& op = p.training.ops[i];
    if (op.phase != Phase::kForward) continue;
    EXPECT_FALSE(p.plan.ops[i].strategies[1].names.empty()) << op.name << " " << strategies(p, op.name);
  }
  EXPECT_EQ(kept(p, "tokens"), "[S(0), S(1), B]");
  EXPECT_EQ(kept(p, "model.layers.0.self_attn.o_proj"), "[S(0), S(1), S(1)]");
  EXPECT_EQ(kept(p, "model.layers.0.self_attn.q_proj.weight"), "[B, B, S(0)]");
  EXPECT_EQ(kept(p, "model.layers.0.self_attn.q_proj.weight.exp_avg"), "[S(1), S(1), S(0)]");
  EXPECT_EQ(kept(p, "model.norm.weight"), "[B, B, B]");
}

// Places of experts are split: tokens on their way to them are partial sums, which are reduce-scattered, and what comes
// back is gathered, again for the backward pass. The gradients go the other way. Each moves (p-1) T.
TEST(Context, SplitsPlacesOfExperts) {
  const int64_t p = 2, layers = 2;
  const Planned split =
      made("zoo:mixtral-8x7b?layers=2,hidden=32,heads=4,key_heads=2,inner=40,vocabulary=50,steps=8,experts=4",
           "megatron?tensor=1,context=2", p, 8);
  const int64_t sent = split.training.tensor(split.training.find_tensor("model.layers.1.mlp.dispatch")).bytes();
  const auto of_experts = [&](const Tensor& t) { return t.bytes() == sent; };
  EXPECT_EQ(moved(split, StepKind::kReduceScatter, of_experts), 2 * layers * (p - 1) * sent);
  EXPECT_EQ(moved(split, StepKind::kAllGather, of_experts), 3 * layers * (p - 1) * sent);
  const OpId product = split.training.find_op("model.layers.1.mlp.experts.down_proj.product");
  EXPECT_EQ(to_string(*name_of(split.resolved->ops[product.index()].layouts.results[0])), "[S(2)]");
}

// Device r of p has (2r+1)/p^2 of the pairs of causal attention, and its kernel takes as long. The step waits for the
// last device.
TEST(Context, OfCausalAttentionIsUneven) {
  const int p = 4;
  Request request;
  request.model = "zoo:llama-3-8b?layers=1,steps=32768,vocabulary=128";
  request.search = "megatron?tensor=1,context=4";
  request.cluster = "dgx-h100", request.devices = p;
  request.dtype = DType::kBFloat16;
  Runner runner;
  const Planned planned = plan_model(request, runner);
  ASSERT_TRUE(planned.is_whole());
  for (const char* name : {"model.layers.0.self_attn", "model.layers.0.self_attn.grad"}) {
    const OpId attention = planned.training.find_op(name);
    ASSERT_TRUE(attention.valid()) << name;
    std::vector<double> ns(p), busy(p);
    for (const Event& e : planned.predicted.events) {
      const Task& task = planned.physical.task(e.task);
      if (!std::holds_alternative<KernelWork>(task.work)) continue;
      busy[task.device.index()] += static_cast<double>(e.end_ns - e.start_ns);
      if (task.op == attention) ns[task.device.index()] += static_cast<double>(e.end_ns - e.start_ns);
    }
    for (int r = 0; r < p; ++r)
      EXPECT_NEAR(ns[static_cast<size_t>(r)] / ns.back(), (2 * r + 1.0) / (2 * p - 1), 0.03) << name << " " << r;
    EXPECT_GT(busy.back() - busy[0], ns.back() - ns[0]);
    EXPECT_GT(static_cast<double>(planned.step_time_ns()), busy.back());
  }
}

TEST(Context, IsRefusedByName) {
  const auto error = [](const std::string& model, const std::string& search) { return reason(model, search, 6, 12); };
  EXPECT_EQ(error("zoo:transformer?steps=16", "megatron?tensor=1,context=3"),
            "megatron: context=3 does not divide the 16 queries of 'layers.0.attention'; choose a divisor");
  EXPECT_EQ(error("zoo:transformer?steps=2", "megatron?tensor=1,context=3"),
            "megatron: context=3 does not divide the 2 queries of 'layers.0.attention'; choose a divisor");
  EXPECT_EQ(error("zoo:transformer", "megatron?tensor=2,context=2"),
            "megatron: 6 devices are not a multiple of tensor=2 x context=2; choose degrees whose product divides 6");
  EXPECT_EQ(error("zoo:transformer", "megatron?tensor=65536,context=65536"),
            "megatron: 6 devices are not a multiple of tensor=65536 x context=65536; choose degrees whose product "
            "divides 6");
  EXPECT_EQ(error("zoo:transformer", "megatron?tensor=1,context=2,pipeline=2"),
            "megatron: 6 devices are not a multiple of tensor=1 x context=2 x expert=1 x pipeline=2; choose degrees "
            "whose product divides 6");
  EXPECT_EQ(error("zoo:mlp", "megatron?tensor=1,context=2"),
            "megatron: context=2: model 'mlp' has no attention whose queries could be split; leave context out");
  EXPECT_EQ(error("zoo:mlp", "fsdp?context=2"),
            "zero: context=2: model 'mlp' has no attention whose queries could be split; leave context out");
  EXPECT_EQ(error("zoo:transformer?heads=2,steps=9,hidden=24", "megatron?tensor=2,context=3,sequence=1"),
            "megatron: sequence=1 with tensor=2 x context=3 does not divide the 9 queries of 'layers.0.attention'; "
            "choose degrees whose product divides them, or leave sequence out");
  EXPECT_EQ(
      error("zoo:moe?layers=1,hidden=16,heads=2,steps=6,experts=4,groups=24", "megatron?tensor=1,context=2"),
      "megatron: context=2: 'layers.0.moe.gate' (linear) of model 'moe' cannot be split along the sequence; leave "
      "context out");
}

// ---------------------------------------------------------------- experts

constexpr const char* kExperts = "zoo:moe?layers=2,hidden=32,heads=2,steps=8,vocabulary=20,experts=4,groups=16";

// Tokens go to the experts' devices and back by all-to-all, (p-1)/p of [groups, experts, capacity, hidden] over p
// devices, four times a layer of experts: dispatch and combine, and their gradients.
TEST(Experts, AreSplitOverTheirGroup) {
  const Planned p = made(kExperts, "megatron?tensor=1,expert=4", 8, 16);
  EXPECT_EQ(p.plan.ops[0].mesh.extents, (std::vector<int>{2, 4}));
  for (const char* weight : {"layers.1.moe.experts.up_proj", "layers.1.moe.experts.down_proj"})
    EXPECT_EQ(kept(p, weight), "[B, S(0)]");
  EXPECT_EQ(kept(p, "layers.0.attention.q.weight"), "[B, B]");
  EXPECT_EQ(kept(p, "tokens"), "[S(0), S(0)]");
  const Tensor& sent = p.training.tensor(p.training.find_tensor("layers.1.moe.dispatch"));
  const int layers = 2;  // every=1
  const auto any = [](const Tensor&) { return true; };
  EXPECT_EQ(moved(p, StepKind::kAllToAll, any), layers * 4 * sent.bytes() * 3 / 4);
}

// If no token is dropped, tokens x choices move at an even load, and `imbalance` times as much.
TEST(Experts, WithoutCapacityMoveWhatTheirTokensChoose) {
  const std::string model =
      "zoo:mixtral-8x7b?layers=1,hidden=32,heads=4,key_heads=2,inner=40,steps=8,vocabulary=50,experts=4,choices=2";
  const auto any = [](const Tensor&) { return true; };
  const int64_t tokens = 16 * 8, bytes = 4 * (tokens * 2 * 32 * 4) * 3 / 4;  // to experts and back, and their gradients
  EXPECT_EQ(moved(made(model, "megatron?tensor=1,expert=4", 4, 16), StepKind::kAllToAll, any), bytes);
  EXPECT_EQ(moved(made(model + ",imbalance=1.5", "megatron?tensor=1,expert=4", 4, 16), StepKind::kAllToAll, any),
            bytes * 3 / 2);
}

TEST(Experts, InsideTensorGroupsAndWithZero) {
  const Planned p = made(kExperts, "megatron?tensor=2,expert=2,zero=3", 8, 16, {"adam", 0.01});
  EXPECT_EQ(p.plan.ops[0].mesh.extents, (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(kept(p, "layers.1.moe.experts.up_proj"), "[S(2), S(0), S(1)]");
  EXPECT_EQ(kept(p, "layers.1.moe.experts.down_proj"), "[S(1), S(0), S(2)]");
  EXPECT_EQ(kept(p, "layers.0.attention.q.weight"), "[S(1), S(1), S(0)]");
  EXPECT_EQ(kept(p, "layers.0.norm1.weight"), "[S(0), S(0), B]");
}

TEST(Experts, AreRefusedByName) {
  const auto error = [](const std::string& model, const std::string& search) { return reason(model, search, 6, 12); };
  EXPECT_EQ(error("zoo:transformer", "megatron?tensor=1,expert=2"),
            "megatron: expert=2: model 'transformer' has no products of experts; leave expert out");
  EXPECT_EQ(error("zoo:moe?experts=4,groups=12", "megatron?tensor=1,expert=3"),
            "megatron: expert=3 does not divide the 4 experts of model 'moe'; choose a divisor");
  EXPECT_EQ(error("zoo:moe?experts=4,groups=12", "megatron?tensor=2,expert=2"),
            "megatron: 6 devices are not a multiple of tensor=2 x expert=2; choose degrees whose product divides 6");
}

// ---------------------------------------------------------------- ZeRO inside tensor groups

// On [data 4, tensor 2] each device keeps an eighth of weights split over tensor, and a quarter of the rest, along
// another axis than tensor's. The gathers are all-gathers of the data group, one a pass.
TEST(FullySharded, WithTensorGroupsInside) {
  const Planned p = made("zoo:llama-3-8b?layers=2,hidden=32,heads=8,key_heads=4,inner=48,vocabulary=64,steps=8",
                         "fsdp?tensor=2", 8, 8, {"adamw", 0.01});
  EXPECT_EQ(p.plan.ops[0].mesh.extents, (std::vector<int>{4, 2}));
  EXPECT_EQ(kept(p, "model.layers.0.self_attn.q_proj.weight"), "[S(1), S(0)]");
  EXPECT_EQ(kept(p, "model.layers.0.self_attn.o_proj.weight"), "[S(0), S(1)]");
  EXPECT_EQ(kept(p, "model.layers.1.mlp.down_proj.weight"), "[S(0), S(1)]");
  EXPECT_EQ(kept(p, "model.layers.1.input_layernorm.weight"), "[S(0), B]");
  EXPECT_EQ(kept(p, "lm_head.weight"), "[S(1), S(0)]");
  int64_t split = 0, whole = 0;
  for (const Tensor& t : p.training.tensors)
    if (t.role == Role::kParameter) (kept(p, t.name).ends_with(", B]") ? whole : split) += t.bytes();
  // Forward and backward: 2 (p-1) T over 4 groups. Weights that tensor does not split move twice as much, as both
  // devices of a group have them.
  const auto weight = [](const Tensor& t) { return t.role == Role::kParameter; };
  // The embedding's backward op reads no weight.
  const int64_t embedding = p.training.tensor(p.training.find_tensor("model.embed_tokens.weight")).bytes();
  EXPECT_EQ(moved(p, StepKind::kAllGather, weight), 3 * (2 * split - embedding + 2 * 2 * whole));
  EXPECT_EQ(moved(p, StepKind::kFetch, weight), 0);
}

// ---------------------------------------------------------------- stages

// Clipping sends numbers from stage to stage, and no gradient.
TEST(Stages, ClipGradientsWhereTheyAre) {
  const std::string model = "zoo:gpt2?layers=4,hidden=64,heads=4,vocabulary=96,steps=16";
  Optimizer clipping{.kind = "adamw"};
  clipping.clip_norm = 1;
  for (const char* search : {"pipeline?stages=4,micro-batches=8", "megatron?tensor=2,pipeline=2,zero=1"}) {
    const Planned plain = made(model, search, 4, 16, {.kind = "adamw"}), clipped = made(model, search, 4, 16, clipping);
    int on_later = 0;
    for (size_t i = 0; i < clipped.training.ops.size(); ++i) {
      const Op& op = clipped.training.ops[i];
      if (!op.name.ends_with(".grad.clipped")) continue;
      const int of_gradient = clipped.plan.ops[clipped.training.tensor(op.operands[0]).producer.index()].stage;
      EXPECT_EQ(clipped.plan.ops[i].stage, of_gradient) << op.name;
      on_later += of_gradient > 0;
    }
    EXPECT_GT(on_later, 10);
    EXPECT_LT(clipped.report.comm_bytes - plain.report.comm_bytes, 20000);
  }
}

// A stage recomputes results for itself. Another one has the results that it was sent in the forward pass.
TEST(Stages, SendNothingAgainThatIsMadeAgain) {
  for (const char* model :
       {"zoo:nmt?steps=6,hidden=32,vocabulary=128", "zoo:bert-base?layers=4,hidden=32,heads=4,vocabulary=64,steps=16"})
    for (const char* recompute : {"cheap", "pointwise", "layer", "attention"}) {
      const auto bytes = [&](const std::string& kind) {
        return made(model, "pipeline?stages=2,micro-batches=4,recompute=" + kind, 2, 16).report.comm_bytes;
      };
      EXPECT_EQ(bytes(recompute), bytes("none")) << model << " " << recompute;
    }
}

}  // namespace
}  // namespace partita
