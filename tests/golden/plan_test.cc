// Tests every representation of real plans, from the graph to the trace: printed and parsed it is the same. 200 plans
// and 200 lowered graphs made wrong on purpose are each refused, with the place and the rule.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "partita/base/error.h"
#include "partita/ops/ops.h"
#include "partita/physical/passes.h"
#include "partita/pipeline/pipeline.h"
#include "partita/plan/constraints.h"
#include "planned.h"

namespace partita {
namespace {

using Json = nlohmann::ordered_json;

const char* const kSearches[] = {"single", "data-parallel", "model-parallel", "soybean", "soybean?tilings=all"};

Planned make(const std::string& model, const std::string& search, const std::string& cluster) {
  return planned(model, search, cluster, {"sgd", 0.01, 0.9, 1e-4});
}

// ---------------------------------------------------------------- printed and parsed

void expect_same(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.inputs, b.inputs);
  EXPECT_EQ(a.outputs, b.outputs);
  EXPECT_EQ(a.loss, b.loss);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t t = 0; t < a.tensors.size(); ++t) {
    const Tensor &x = a.tensors[t], &y = b.tensors[t];
    EXPECT_TRUE(x.name == y.name && x.shape == y.shape && x.dtype == y.dtype && x.role == y.role &&
                x.producer == y.producer && x.replaces == y.replaces && x.sample_axis == y.sample_axis &&
                x.initial_bound == y.initial_bound && x.initial_fill == y.initial_fill)
        << "tensor " << x.name;
    ASSERT_EQ(x.values == nullptr, y.values == nullptr) << "tensor " << x.name;
    EXPECT_TRUE(!x.values || *x.values == *y.values) << "tensor " << x.name;
  }
  ASSERT_EQ(a.ops.size(), b.ops.size());
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    const Op &x = a.ops[i], &y = b.ops[i];
    EXPECT_TRUE(x.name == y.name && x.definition == y.definition && x.attributes == y.attributes &&
                x.operands == y.operands && x.results == y.results && x.phase == y.phase && x.forward == y.forward &&
                x.time_step == y.time_step && x.cell == y.cell && x.source == y.source && x.formula == y.formula)
        << "op " << x.name;
    EXPECT_EQ(tdl::to_text(*x.bound), tdl::to_text(*y.bound)) << "op " << x.name;
  }
}

void expect_same(const PhysicalGraph& a, const PhysicalGraph& b) {
  EXPECT_EQ(a.registers, b.registers);
  EXPECT_EQ(a.order, b.order);
  EXPECT_EQ(a.edges, b.edges);
  EXPECT_EQ(a.peak_bytes, b.peak_bytes);
  EXPECT_EQ(a.queues, b.queues);
  ASSERT_EQ(a.tasks.size(), b.tasks.size());
  for (std::size_t t = 0; t < a.tasks.size(); ++t) {
    const Task &x = a.tasks[t], &y = b.tasks[t];
    EXPECT_TRUE(x.name == y.name && x.op == y.op && x.phase == y.phase && x.device == y.device && x.queue == y.queue &&
                x.route == y.route && x.rate == y.rate && x.stage == y.stage && x.turn == y.turn &&
                x.reads == y.reads && x.writes == y.writes && x.scratch == y.scratch &&
                x.elementwise == y.elementwise && x.flops == y.flops && x.bytes == y.bytes &&
                x.work.index() == y.work.index())
        << "task " << x.name;
  }
}

void expect_round_trip(const std::string& model, const std::string& search, const std::string& cluster) {
  SCOPED_TRACE(fmt::format("{} with {} on {}", model, search, cluster));
  const Planned p = make(model, search, cluster);
  for (const Graph* graph : {&p.forward, &p.training}) {
    const Graph again = parse_graph(print(*graph), standard_ops());
    EXPECT_EQ(print(again), print(*graph));
    expect_same(again, *graph);
    verify(again);
  }
  const std::string plan = print(p.plan, p.training);
  EXPECT_TRUE(parse_plan(plan, p.training) == p.plan);
  EXPECT_EQ(print(parse_plan(plan, p.training), p.training), plan);
  // The same seed gives the same file, byte for byte.
  EXPECT_EQ(print(make(model, search, cluster).plan, p.training), plan);

  const std::string physical = print(p.physical);
  const PhysicalGraph again = parse_physical(physical);
  EXPECT_TRUE(print(again) == physical) << "the physical graph's text differs";
  expect_same(again, p.physical);
  verify(again);
  EXPECT_EQ(refuse(again).value_or("admitted"), "admitted");

  const std::string trace = print(p.predicted, p.physical);
  EXPECT_TRUE(parse_trace(trace, p.physical) == p.predicted);
  EXPECT_EQ(print(parse_trace(trace, p.physical), p.physical), trace);
  EXPECT_FALSE(p.predicted.events.empty());
}

TEST(RoundTrip, Optimizers) {
  for (const Optimizer& optimizer :
       {Optimizer{}, Optimizer{"adamw?beta2=0.95", 0.003, 0, 0.1, 1.5, "cosine?warmup=2,steps=9"},
        Optimizer{"adagrad", 0.1}}) {
    Request request;
    request.model = "zoo:mlp";
    request.cluster = "local:3";
    request.optimizer = optimizer;
    Runner runner(false);
    const Planned p = plan_model(request, runner);
    const std::string text = print(p.plan, p.training);
    EXPECT_TRUE(parse_plan(text, p.training) == p.plan);
    EXPECT_TRUE(request_of(parse_model_reference(text)).optimizer == optimizer);
    EXPECT_EQ(text.find("clip_norm") == std::string::npos, optimizer.clip_norm == 0);
    EXPECT_EQ(text.find("schedule\"") == std::string::npos, optimizer.schedule == "constant");
  }
}

TEST(RoundTrip, Mlp) {
  for (const char* model :
       {"zoo:mlp", "zoo:mlp?layers=3,width=20,batch=26,classes=7,loss=mse,activation=relu,dtype=float64",
        "zoo:mlp?layers=2,width=12,bias=0,loss=elementwise"})
    for (const char* search : kSearches) expect_round_trip(model, search, "local:8");
  for (const char* cluster : {"local:1", "local:3", "p2.8xlarge", "dgx-h100"})
    expect_round_trip("zoo:mlp", "soybean", cluster);
}
TEST(RoundTrip, LeNet) {
  for (const char* search : kSearches) expect_round_trip("zoo:lenet?batch=24", search, "local:3");
  expect_round_trip("zoo:lenet?image=32,channels=3,classes=5,dtype=float64", "soybean", "p2.8xlarge");
}
TEST(ManyRoundTrip, ResNet18) {
  for (const char* search : kSearches) expect_round_trip("zoo:resnet-18?image=32", search, "local:3");
  expect_round_trip("zoo:resnet-18?image=32,stem=cifar,width=8,classes=10,batch=8", "soybean?tilings=all", "local:4");
}

// ---------------------------------------------------------------- plan files that are not for this model, or not plans

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
    return error.what();
  }
  return "accepted";
}

std::string open_error(const std::string& text) {
  // The file is the test's own, since tests run side by side.
  const std::string path = fmt::format("{}/plan_test_{}.json", PARTITA_BINARY_DIR,
                                       ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::ofstream(path, std::ios::binary) << text;
  const std::string error = error_of([&] {
    Runner runner(false);
    open_plan(path, runner);
  });
  EXPECT_TRUE(error == "accepted" || error.starts_with(path + ": ")) << "does not name the file: " << error;
  return error;
}

void expect_says(const std::string& error, const std::string& what) {
  EXPECT_NE(error.find(what), std::string::npos) << what << "\nis not in: " << error;
}

TEST(PlanFile, ForAnotherModelIsRefused) {
  const Planned p = make("zoo:mlp?layers=2,width=12", "soybean", "local:2");
  const Json plan = Json::parse(print(p.plan, p.training));
  EXPECT_EQ(open_error(plan.dump()), "accepted");
  Json changed = plan;
  changed["model"]["model"] = "zoo:lenet";
  expect_says(open_error(changed.dump()), "the plan is for another model");
  // The same ops and tensors in other shapes, with another optimizer, rate or dtype: only the fingerprint tells.
  const std::pair<const char*, Json> edits[] = {
      {"model", "zoo:mlp?layers=2,width=14"}, {"loss", "mse"}, {"lr", 0.5}, {"dtype", "float64"}};
  for (const auto& [field, value] : edits) {
    changed = plan;
    changed["model"][field] = value;
    const std::string error = open_error(changed.dump());
    EXPECT_NE(error, "accepted") << field;
    EXPECT_TRUE(error.find("SHA-256") != std::string::npos || error.find("another model") != std::string::npos)
        << error;
  }
  changed = plan;
  changed["model"]["model"] = "zoo:mlp?layers=2,width=14";
  expect_says(open_error(changed.dump()), "SHA-256");
}

TEST(PlanFile, OfAModelFileThatHasChangedIsRefused) {
  const std::string path = std::string(PARTITA_BINARY_DIR) + "/plan_test.onnx",
                    data = std::string(PARTITA_SOURCE_DIR) + "/tests/data/";
  const auto put = [&](const char* name) {
    std::filesystem::copy_file(data + name, path, std::filesystem::copy_options::overwrite_existing);
  };
  put("lenet-optimized.onnx");
  const Planned p = make(path, "data-parallel", "local:2");
  const std::string plan = print(p.plan, p.training);
  EXPECT_EQ(open_error(plan), "accepted");
  put("mixed-optimized.onnx");
  expect_says(open_error(plan), "another model");
  std::filesystem::remove(path);
  expect_says(open_error(plan), "cannot be read");
}

TEST(PlanFile, FieldsAreReadStrictly) {
  const Planned p = make("zoo:mlp?layers=2,width=12", "data-parallel", "local:2");
  const Json plan = Json::parse(print(p.plan, p.training));
  const std::string op = p.training.ops[0].name, tensor = plan["kept"].begin().key();
  using Path = std::vector<std::string>;
  const auto edited = [&](const Path& path, const Json& value) {
    Json json = plan;
    Json* at = &json;
    for (const std::string& key : path) at = &(*at)[key];
    *at = value;
    return open_error(json.dump());
  };
  for (const Path& place :
       std::vector<Path>{{}, {"model"}, {"cluster"}, {"meshes", "m0"}, {"ops", op}, {"kept", tensor}}) {
    Path path = place;
    path.push_back("colour");
    expect_says(edited(path, "red"), "unknown field 'colour'");
  }
  for (const Json& version : std::vector<Json>{0, 3, 99})
    expect_says(edited({"schema_version"}, version),
                fmt::format("schema_version {} is not one that this program reads", version.dump()));
  for (const Json& version : std::vector<Json>{"1", 1.5, true, nullptr})
    expect_says(edited({"schema_version"}, version), "'schema_version' has the wrong type");
  // A file of a later version may have other fields: the message names the version.
  Json later = plan;
  later["schema_version"] = 3;
  later["model"]["colour"] = "red";
  expect_says(open_error(later.dump()), "schema_version 3 is not one that this program reads");
  // A file of schema 1, in which the model says what is recomputed.
  Json earlier = plan;
  earlier["schema_version"] = 1;
  EXPECT_EQ(open_error(earlier.dump()), "accepted");
  expect_says(edited({"meshes", "m0", "devices"}, Json::array({0, 0.5})), "'devices' has the wrong type");
  expect_says(edited({"meshes", "m0", "extents"}, Json::array({4294967298})), "'extents' has the wrong type");
  expect_says(edited({"meshes", "m0", "extents"}, "2"), "'extents' has the wrong type");
  expect_says(edited({"ops"}, 3), "'ops'");
  expect_says(edited({"kept"}, Json::array()), "'kept'");
  for (const auto& [key, value] : plan.items()) {
    if (key == "paper_cost" || key == "bucket_bytes") continue;
    Json without = plan;
    without.erase(key);
    expect_says(open_error(without.dump()), fmt::format("'{}' is missing", key));
  }
  // A name that stands twice: which of the two is meant?
  std::string text = print(p.plan, p.training);
  const std::size_t at = text.find("\"ops\": {") + 8;
  text.insert(at, text.substr(at, text.find('\n', at + 1) - at));
  expect_says(open_error(text), fmt::format("'{}' stands twice", op));
  for (const char* garbage : {"", "x", "[]", "{}", "{\"schema_version\": 1", "\xff\xfe"})
    EXPECT_NE(open_error(garbage), "accepted") << garbage;
}

TEST(PlanFile, ItsBucketsAreRead) {
  Planned p = make("zoo:mlp?layers=2,width=12", "data-parallel", "local:2");
  EXPECT_EQ(p.plan.bucket_bytes, kBucketBytes);
  const Json plan = Json::parse(print(p.plan, p.training));
  EXPECT_EQ(plan["bucket_bytes"], 25 * 1024 * 1024);
  Json without = plan;
  without.erase("bucket_bytes");  // as plans were before there were buckets
  EXPECT_EQ(parse_plan(without.dump(), p.training).bucket_bytes, 0);
  EXPECT_EQ(open_error(without.dump()), "accepted");
  p.plan.bucket_bytes = 0;
  EXPECT_EQ(Json::parse(print(p.plan, p.training)).count("bucket_bytes"), 0u);
  p.plan.bucket_bytes = 4096;
  EXPECT_EQ(parse_plan(print(p.plan, p.training), p.training), p.plan);
  EXPECT_EQ(error_of([&] { parse_pins(plan.dump(), p.training); }), "accepted");
  const auto edited = [&](const Json& value) {
    Json json = plan;
    json["bucket_bytes"] = value;
    return open_error(json.dump());
  };
  expect_says(edited(-1), "bucket_bytes is -1: write 0 or more");
  expect_says(edited("25MB"), "'bucket_bytes' has the wrong type");
  expect_says(edited(0.5), "'bucket_bytes' has the wrong type");
}

TEST(PlanFile, ItsPipelineIsJudged) {
  const Planned p =
      make("zoo:mlp?layers=5,width=12", "pipeline?stages=2,schedule=interleaved,micro-batches=4", "local:4");
  const Json plan = Json::parse(print(p.plan, p.training));
  EXPECT_EQ(open_error(plan.dump()), "accepted");
  EXPECT_EQ(plan["pipeline"], (Json{{"schedule", "interleaved"}, {"virtual", 2}}));
  const auto edited = [&](const Json& pipeline) {
    Json json = plan;
    json["pipeline"] = pipeline;
    return open_error(json.dump());
  };
  expect_says(edited({{"schedule", "zigzag"}}), "there is no schedule 'zigzag'; there are: default, gpipe, 1f1b");
  expect_says(edited({{"schedule", "interleaved"}, {"virtual", 3}}), "3 virtual stages a device do not divide its 4");
  expect_says(edited({{"schedule", "interleaved"}, {"virtual", 0}}), "0 virtual stages a device");
  expect_says(edited({{"schedule", "1f1b"}, {"virtual", 2}}), "'1f1b' has one stage a device, and not 2 virtual ones");
  Json json = plan;
  for (auto& [name, op] : json["ops"].items())
    if (op.value("stage", 0) == 1) op["stage"] = 7;
  expect_says(open_error(json.dump()), "stages are numbered from 0, without a gap");
  json = plan;
  for (auto& [name, op] : json["ops"].items()) {  // stage 1 is then on rank 0's devices
    const int stage = op.value("stage", 0);
    if (stage == 1 || stage == 2) op["stage"] = 3 - stage;
  }
  expect_says(open_error(json.dump()), "which has stages of pipeline rank");
}

TEST(Pins, AreReadStrictly) {
  const Planned p = make("zoo:mlp?layers=2,width=12", "data-parallel", "local:2");
  const Json plan = Json::parse(print(p.plan, p.training));
  const auto error = [&](const Json& json) { return error_of([&] { parse_pins(json.dump(), p.training); }); };
  EXPECT_EQ(error({{"meshes", plan["meshes"]}, {"ops", plan["ops"]}}), "accepted");
  EXPECT_EQ(error(plan), "accepted");
  expect_says(error({{"meshes", plan["meshes"]}, {"kept", plan["kept"]}, {"op", plan["ops"]}}), "unknown field 'op'");
  expect_says(error(Json::object()), "pins anything");
  Json later = plan;
  later["schema_version"] = 3;
  expect_says(error(later), "schema_version 3 is not one that this program reads");
  later.erase("schema_version");
  expect_says(error(later), "'schema_version' is missing");
  const std::string op = p.training.ops[0].name, other = p.training.ops[1].name;
  EXPECT_EQ(error({{"device_types", {{op, "cpu"}}}, {"colocation", {{"g", {op, other}}}}}), "accepted");
  expect_says(error({{"device_types", {{op, "tpu"}}}}), "device type 'tpu' is none of gpu, cpu, launch");
  expect_says(error({{"device_types", {{op, 3}}}}), "device type '3' is none of gpu, cpu, launch");
  expect_says(error({{"device_types", {{"none", "cpu"}}}}), "op 'none' is not in model");
  expect_says(error({{"colocation", {{"g", op}}}}), "colocation group 'g' is a list of ops");
  expect_says(error({{"colocation", {{"g", {op, 3}}}}}), "colocation group 'g' is a list of ops; 3 is no name");
  expect_says(error({{"colocation", {{"g", {op}}, {"h", {op}}}}}), "is in two colocation groups, 'g' and 'h'");
}

// ---------------------------------------------------------------- plans made wrong

// The message that refuses a wrong plan: the op or tensor, and the rule.
struct Wrong {
  std::string who, rule;
};

// A plan as a person edits it.
struct Edit {
  Json json;
  const Planned& planned;
  Rng& rng;

  const Graph& graph() const { return planned.training; }
  int devices() const { return planned.cluster.compute_count; }
  const Op& any_op() { return graph().ops[rng.below(graph().ops.size())]; }
  Json& entry(const Op& op) { return json["ops"][op.name]; }
  Json mesh_of(const Json& entry) { return json["meshes"][entry["mesh"].get<std::string>()]; }
  // Only the entry gets another mesh.
  void give_mesh(Json& entry, const Json& mesh) {
    json["meshes"]["mine"] = mesh;
    entry["mesh"] = "mine";
  }
  Json order() const {
    Json names = Json::array();
    for (const Op& op : graph().ops) names.push_back(op.name);
    return names;
  }
  Json all_devices(const std::vector<int>& extents) const {
    Json list = Json::array();
    for (int d = 0; d < devices(); ++d) list.push_back(d);
    return {{"extents", extents}, {"devices", list}};
  }
  // A tensor that holds(); empty: none.
  template <typename F>
  std::string any_tensor(F&& holds) {
    std::vector<std::string> fit;
    for (const Tensor& t : graph().tensors)
      if (holds(t)) fit.push_back(t.name);
    return fit.empty() ? "" : fit[rng.below(fit.size())];
  }
  std::string any_kept() {
    return any_tensor([&](const Tensor& t) { return json["kept"].contains(t.name); });
  }
  std::string any_made() {
    return any_tensor([](const Tensor& t) { return t.producer.valid() && !t.replaces.valid() && !t.shape.empty(); });
  }
  // All of it on every device, along one mesh axis.
  Json& keep(const std::string& tensor, const std::string& sbp) {
    json["meshes"]["mine"] = all_devices({devices()});
    return json["kept"][tensor] = {{"mesh", "mine"}, {"sbp", Json::array({sbp})}};
  }
  const Tensor& tensor(const std::string& name) const { return graph().tensor(graph().find_tensor(name)); }
};

using SpoilPlan = std::optional<Wrong> (*)(Edit& e);

const std::pair<const char*, SpoilPlan> kWrongPlans[] = {
    {"a strategy name that the op lacks",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       Json& strategies = e.entry(op)["strategy"];
       strategies[e.rng.below(strategies.size())] = "nowhere";
       return Wrong{op.name, "no index 'nowhere'"};
     }},
    {"a partial operand that the op lacks",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       Json& strategies = e.entry(op)["strategy"];
       strategies[e.rng.below(strategies.size())] = "partial{nothing}";
       return Wrong{op.name, "no operand 'nothing' can be partial"};
     }},
    {"partial values into what is not linear",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       if (op.definition != "tanh" && op.definition != "relu" && op.definition != "sigmoid") return {};
       Json& strategies = e.entry(op)["strategy"];
       strategies[e.rng.below(strategies.size())] = fmt::format("partial{{{}}}", op.bound->tensors[0].name);
       return Wrong{op.name, "does not exist"};
     }},
    {"more parts than the extent",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       for (const tdl::Index& index : op.bound->indices)
         if (index.extent < e.devices()) {
           e.give_mesh(e.entry(op), e.all_devices({e.devices()}));
           e.entry(op)["strategy"] = {index.name};
           return Wrong{op.name, fmt::format("can't be split in {} parts", e.devices())};
         }
       return {};
     }},
    {"a kept tensor in more parts than its extent",
     [](Edit& e) -> std::optional<Wrong> {
       const std::string name = e.any_tensor(
           [&](const Tensor& t) { return !t.replaces.valid() && !t.shape.empty() && t.shape[0] < e.devices(); });
       if (name.empty()) return {};
       e.keep(name, "S(0)");
       return Wrong{name, fmt::format("can't be split in {} parts", e.devices())};
     }},
    {"two reducers on one value",
     [](Edit& e) -> std::optional<Wrong> {
       const std::string name = e.any_made();
       e.json["meshes"]["mine"] = e.all_devices({2, e.devices() / 2});
       const char* const reducers[] = {"P(sum)", "P(max)", "P(min)", "P(prod)"};
       const uint64_t one = e.rng.below(4), other = (one + 1 + e.rng.below(3)) % 4;
       e.json["kept"][name] = {{"mesh", "mine"}, {"sbp", {reducers[one], reducers[other]}}};
       return Wrong{name, "two reducers on one value"};
     }},
    {"a device twice",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       Json mesh = e.mesh_of(e.entry(op));
       if (mesh["devices"].size() < 2) return {};
       const uint64_t one = e.rng.below(mesh["devices"].size()),
                      other = (one + 1 + e.rng.below(mesh["devices"].size() - 1)) % mesh["devices"].size();
       mesh["devices"][one] = mesh["devices"][other];
       e.give_mesh(e.entry(op), mesh);
       return Wrong{op.name, "is listed twice"};
     }},
    {"an unknown device",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       Json mesh = e.mesh_of(e.entry(op));
       const int unknown =
           e.rng.below(2) == 0 ? -1 : e.devices() + static_cast<int>(e.rng.below(3));  // the first of these are hosts
       mesh["devices"][e.rng.below(mesh["devices"].size())] = unknown;
       e.give_mesh(e.entry(op), mesh);
       return Wrong{op.name, fmt::format("device {} is unknown", unknown)};
     }},
    {"extents and devices that disagree",
     [](Edit& e) -> std::optional<Wrong> {
       const std::string kept = e.any_kept();
       const Op& op = e.any_op();
       const bool of_op = e.rng.below(2) == 0;
       Json& entry = of_op ? e.entry(op) : e.json["kept"][kept];
       Json mesh = e.mesh_of(entry);
       if (e.rng.below(2) == 0) mesh["extents"].push_back(2);
       else mesh["devices"].erase(mesh["devices"].size() - 1);
       e.give_mesh(entry, mesh);
       return Wrong{of_op ? op.name : kept, "positions lists"};
     }},
    {"an extent that is not positive",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       Json mesh = e.mesh_of(e.entry(op));
       mesh["extents"][0] = -static_cast<int>(e.rng.below(3));
       e.give_mesh(e.entry(op), mesh);
       return Wrong{op.name, "is not positive"};
     }},
    {"an unknown mesh",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       e.entry(op)["mesh"] = "m99";
       return Wrong{op.name, "unknown mesh 'm99'"};
     }},
    {"strategies for more axes than the mesh has",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       e.entry(op)["strategy"].push_back("replicate");
       return Wrong{op.name, "strategies for a mesh of"};
     }},
    {"a strategy that is none",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       Json& strategies = e.entry(op)["strategy"];
       const char* const texts[] = {"", "{i", "partial{", "partial:mean{a}", "i j k"};
       strategies[e.rng.below(strategies.size())] = texts[e.rng.below(5)];
       return Wrong{op.name, "strategy '"};
     }},
    {"a missing op",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       e.json["ops"].erase(op.name);
       return Wrong{op.name, "has no entry"};
     }},
    {"an op that the model lacks",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       const std::string name = op.name + "_";
       e.json["ops"][name] = e.entry(op);
       return Wrong{name, "is not in model"};
     }},
    {"a tensor that the model lacks",
     [](Edit& e) -> std::optional<Wrong> {
       const std::string kept = e.any_kept(), name = kept + "_";
       e.json["kept"][name] = Json(e.json["kept"][kept]);
       return Wrong{name, "is not in model"};
     }},
    {"no place for what has no producer",
     [](Edit& e) -> std::optional<Wrong> {
       const std::string name = e.any_tensor([](const Tensor& t) { return !t.producer.valid(); });
       e.json["kept"].erase(name);
       return Wrong{name, "has no kept layout"};
     }},
    {"a kept layout for what replaces a tensor",
     [](Edit& e) -> std::optional<Wrong> {
       const std::string name = e.any_tensor([](const Tensor& t) { return t.replaces.valid(); });
       e.json["kept"][name] = Json(e.json["kept"][e.graph().tensor(e.tensor(name).replaces).name]);
       return Wrong{name, "and can't be kept elsewhere"};
     }},
    {"a parameter kept partial",
     [](Edit& e) -> std::optional<Wrong> {
       const std::string name =
           e.any_tensor([](const Tensor& t) { return t.role == Role::kParameter || t.role == Role::kInput; });
       e.keep(name, "P(sum)");
       return Wrong{name, "can't be kept partial"};
     }},
    {"a split of an axis that the tensor lacks",
     [](Edit& e) -> std::optional<Wrong> {
       const std::string name = e.any_made();
       e.keep(name, fmt::format("S({})", e.tensor(name).shape.size() + e.rng.below(2)));
       return Wrong{name, "names an axis that shape"};
     }},
    {"radices that are not the extent's",
     [](Edit& e) -> std::optional<Wrong> {
       const std::string name = e.any_made();
       Json radices = Json::array();
       for (int64_t extent : e.tensor(name).shape) radices.push_back({extent});
       radices[e.rng.below(radices.size())].push_back(2);
       e.keep(name, "B")["radices"] = radices;
       return Wrong{name, "the radices of axis"};
     }},
    {"a part that is none",
     [](Edit& e) -> std::optional<Wrong> {
       const std::string name = e.any_made();
       const char* const texts[] = {"", "S", "S(-1)", "P(mean)", "Q(0)"};
       e.keep(name, texts[e.rng.below(5)]);
       return Wrong{name, "is not a part"};
     }},
    {"a cyclic order",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       for (TensorId t : op.operands) {
         if (!e.graph().tensor(t).producer.valid()) continue;
         Json order = e.order();
         const auto at = std::find(order.begin(), order.end(), Json(op.name)),
                    producer =
                        std::find(order.begin(), order.end(), Json(e.graph().op(e.graph().tensor(t).producer).name));
         std::swap(*at, *producer);
         e.json["order"] = order;
         return Wrong{"", "a cycle"};
       }
       return std::nullopt;
     }},
    {"an update before what reads the old value",
     [](Edit& e) -> std::optional<Wrong> {
       const std::string name = e.any_tensor([](const Tensor& t) { return t.replaces.valid(); });
       const Op& update = e.graph().op(e.tensor(name).producer);
       Json order = Json::array({update.name});
       for (const Json& other : e.order())
         if (other != Json(update.name)) order.push_back(other);
       e.json["order"] = order;
       return Wrong{update.name, "a cycle"};
     }},
    {"an order that lacks an op",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       Json order = Json::array();
       for (const Json& other : e.order())
         if (other != Json(op.name)) order.push_back(other);
       e.json["order"] = order;
       return Wrong{op.name, "is missing; the order names all ops or none"};
     }},
    {"an order with an op twice",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       Json order = e.order();
       order.push_back(op.name);
       e.json["order"] = order;
       return Wrong{op.name, "stands twice"};
     }},
    {"an unknown field",
     [](Edit& e) -> std::optional<Wrong> {
       const Op& op = e.any_op();
       e.entry(op)["strategies"] = e.entry(op)["strategy"];
       return Wrong{op.name, "unknown field 'strategies'"};
     }},
};

// Rules of whole plans: pins may lack what these require, and their order is not read.
const std::set<std::string> kNotOfPins = {"has no entry", "has no kept layout", "a cycle",
                                          "is missing; the order names all ops or none", "stands twice"};

// 24 sequences in 2 groups: the batch is 2 x 12 to all ops along it, and 3 devices take 4 of each 12.
TEST(DataParallel, SplitsSamplesWhoseAxisIsFactored) {
  const Planned planned = make("zoo:moe?groups=2,layers=1,batch=24", "data-parallel", "local:3");
  for (const char* name : {"embedding", "layers.0.attention", "layers.0.norm2", "head"}) {
    const OpId op = planned.training.find_op(name);
    ASSERT_TRUE(op.valid()) << name;
    const std::vector<tdl::AxisStrategy>& strategies = planned.plan.ops[op.index()].strategies;
    ASSERT_EQ(strategies.size(), 1u);
    EXPECT_EQ(strategies[0].names.size(), 1u) << name;
  }
}

TEST(WrongPlans, TwoHundredAreRefusedWithPlaceAndRule) {
  std::vector<Planned> plans;
  for (const char* search : kSearches)
    plans.push_back(make("zoo:mlp?layers=3,width=20,classes=3,batch=12,activation=relu", search, "local:4"));
  for (const char* search : {"data-parallel", "soybean"}) plans.push_back(make("zoo:lenet?batch=8", search, "local:4"));
  plans.push_back(make("zoo:resnet-18?image=32,width=8,classes=10,batch=8", "soybean", "p2.8xlarge"));
  std::map<std::string, int> refused;
  std::size_t kind = 0;
  int done = 0;
  for (uint64_t seed = 1; done < 200; ++seed) {
    ASSERT_LT(seed, 20000u) << "no place for: " << kWrongPlans[kind].first;
    Rng rng(seed);
    const Planned& planned = plans[rng.below(plans.size())];
    Edit edit{Json::parse(print(planned.plan, planned.training)), planned, rng};
    const auto& [name, spoil] = kWrongPlans[kind];
    if (planned.plan.ops[0].mesh.extents.empty()) continue;
    const std::optional<Wrong> wrong = spoil(edit);
    if (!wrong) continue;
    SCOPED_TRACE(fmt::format("seed {}, {} in {}", seed, name, planned.plan.search));
    const std::string error =
        error_of([&] { check(planned.training, parse_plan(edit.json.dump(), planned.training), planned.cluster); });
    ASSERT_NE(error, "accepted");
    if (!wrong->who.empty()) expect_says(error, fmt::format("'{}'", wrong->who));
    expect_says(error, wrong->rule);
    const std::string as_pins =
        error_of([&] { constrain(planned.training, parse_pins(edit.json.dump(), planned.training), planned.cluster); });
    if (kNotOfPins.contains(wrong->rule)) {
      EXPECT_EQ(as_pins, "accepted");
    } else {
      expect_says(as_pins, fmt::format("'{}'", wrong->who));
      expect_says(as_pins, wrong->rule);
    }
    ++refused[name];
    ++done;
    kind = (kind + 1) % std::size(kWrongPlans);
  }
  for (const auto& [name, spoil] : kWrongPlans) {
    std::printf("%4d  %s\n", refused[name], name);
    EXPECT_GT(refused[name], 0) << name;
  }
}

}  // namespace
}  // namespace partita
