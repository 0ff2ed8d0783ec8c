// The program as a user meets it: what it prints, what it writes, how it ends.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "partita/base/error.h"
#include "partita/models/models.h"
#include "partita/network/problem.h"
#include "partita/ops/ops.h"
#include "partita/physical/physical.h"
#include "partita/runtime/npz.h"
#include "partita/runtime/safetensors.h"
#include "program.h"

namespace partita {
namespace {

// ---------------------------------------------------------------- ONNX files by hand

// Protocol buffers' wire format: a number, and bytes with their length.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
std::string number(int field, uint64_t value) { return varint(static_cast<uint64_t>(field) << 3) + varint(value); }
std::string block(int field, const std::string& bytes) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}

// Fields as onnx.proto numbers them. A dimension is an extent, or a name.
std::string onnx_value(int field, const std::string& name, const Words& dimensions) {
  std::string shape;
  for (const std::string& d : dimensions)
    shape += block(1, std::isdigit(static_cast<unsigned char>(d[0])) ? number(1, std::stoull(d)) : block(2, d));
  return block(field, block(1, name) + block(2, block(1, number(1, 1) + block(2, shape))));  // float32
}
std::string onnx_node(const std::string& operation, const Words& inputs, const std::string& output) {
  std::string node;
  for (const std::string& input : inputs) node += block(1, input);
  return block(1, node + block(2, output) + block(3, "node_" + output) + block(4, operation));
}
std::string onnx_file(const std::string& name, const Words& dimensions, const std::string& nodes) {
  const std::string graph =
      nodes + block(2, "made_by_hand") + onnx_value(11, "x", dimensions) + onnx_value(12, "y", dimensions);
  return put(name, number(1, 10) + block(8, number(2, 20)) + block(7, graph));
}

// ---------------------------------------------------------------- wrong input

TEST(CliErrors, ModelFiles) {
  expect_error({"show", "no/such.onnx"}, 3, {"no/such.onnx", "cannot be read"});
  const std::string garbage = put("garbage.onnx", std::string(500, '\xfe') + "not a model");
  for (const char* command : {"show", "plan", "train"})
    expect_error({command, garbage}, 3, {garbage, "not an ONNX file"});
  expect_error({"show", put("empty.onnx", "")}, 3, {"empty.onnx", "not an ONNX file"});

  const std::string unsupported = onnx_file("unsupported.onnx", {"2", "3"},
                                            onnx_node("Relu", {"x"}, "h") + onnx_node("NoSuchOperator", {"h"}, "y"));
  expect_error({"plan", unsupported}, 3, {unsupported, "node_y", "NoSuchOperator", "opset 20"});
  const std::string unknown = onnx_file("unknown.onnx", {"rows", "3"}, onnx_node("Relu", {"x"}, "y"));
  expect_error({"show", unknown}, 3, {unknown, "'x'", "'rows'", "--bind rows=N"});
  expect_error({"show", unknown, "--bind", "rows=some"}, 3, {"rows=some", "positive integer"});
  expect_error({"show", unknown, "--bind", "rows=4", "--bind", "columns=2"}, 3, {unknown, "columns=2"});
  expect_error({"show", data("mlp.onnx")}, 3, {"mlp.onnx", "'batch'", "--bind batch=N"});
  const std::string cyclic =
      onnx_file("cyclic.onnx", {"2", "3"},
                onnx_node("Add", {"x", "b"}, "a") + onnx_node("Relu", {"a"}, "b") + onnx_node("Tanh", {"b"}, "y"));
  expect_error({"show", cyclic}, 3, {cyclic, "cycle", "node_a", "node_b"});

  // Hugging Face's configurations, by their file or its folder.
  expect_error({"plan", put("broken.json", "{\"model_type\": ")}, 3, {"broken.json", "not JSON"});
  expect_error({"show", put("other.json", R"({"model_type": "t5"})")}, 3,
               {"other.json", "model_type='t5'", "there are: bert, ", "llama"});
  expect_error({"train", put("none.json", R"({"architectures": [], "hidden_size": 8})")}, 3,
               {"none.json", "model_type is missing"});
  expect_error(
      {"train",
       put("sizes.json",
           R"({"model_type": "llama", "hidden_size": 10, "num_attention_heads": 4, "num_key_value_heads": 3, "hidden_act": "no"})")},
      3, {"sizes.json", "hidden_size=10", "num_key_value_heads=3", "hidden_act=\"no\"", "3 fields"});
  expect_error({"plan", std::string(PARTITA_SOURCE_DIR) + "/tests"}, 3, {"/tests", "no config.json"});
  expect_error({"simulate", data("huggingface/gpt2/config.json")}, 3,
               {"gpt2/config.json", "model's configuration", "partita plan"});

  expect_error({"show", "zoo:nothing"}, 3, {"zoo:nothing", "zoo:nmt", "partita models"});
  expect_error({"show", "zoo:mlp?depth=3"}, 3, {"depth", "layers"});
  expect_error({"show", "zoo:mlp", "--batch", "0"}, 3, {"batch=0", "at least 1"});
}

TEST(CliErrors, Plans) {
  const std::string file = scratch("plan.json");
  ASSERT_EQ(partita({"plan", "zoo:mlp", "--devices", "2", "-o", file}).code, 0);
  Json other = Json::parse(contents(file));
  other["model"]["model"] = "zoo:mlp?width=32";
  const std::string for_other = put("other.json", other.dump());
  for (const char* command : {"simulate", "check", "train"})
    expect_error({command, for_other}, 3, {for_other, "zoo:mlp?width=32", "plan again"});
  other = Json::parse(contents(file));
  other["ops"].erase(other["ops"].begin());
  expect_error({"check", put("cut.json", other.dump())}, 3, {"cut.json", "'fc1'", "has no entry"});
  other = Json::parse(contents(file));
  other["meshes"]["m0"]["devices"] = {0, 0};
  expect_error({"check", put("twice.json", other.dump())}, 3, {"twice.json", "device 0 is listed twice"});
  expect_error({"simulate", put("text.json", "hello")}, 3, {"text.json", "not JSON"});
  expect_error({"simulate", "none.json"}, 3, {"none.json", "cannot be read"});
  expect_error({"plan", "zoo:mlp", "--pin", put("pins.json", R"({"ops": {"fc99": {}}})")}, 3, {"pins.json", "'fc99'"});
  expect_error({"plan", "zoo:mlp", "-o", "/no/such/folder/plan.json"}, 3,
               {"/no/such/folder/plan.json", "cannot be written"});
  // What a plan has fixed can't be changed beside it.
  expect_error({"train", file, "--devices", "3"}, 2, {"--devices", file, "plan again"});
  expect_error({"train", file, "--lr", "0.5"}, 2, {"--lr", file});
}

TEST(CliErrors, Clusters) {
  const std::string text =
      "name: mine\n"
      "device_types:\n"
      "  core:\n"
      "    kind: cpu\n"
      "    peak_tflop_per_s: {float32: 1, float64: 0.5}\n"
      "    memory_gibytes: 1.5\n"
      "    memory_bandwidth_gbytes_per_s: 10\n"
      "    efficiency: 0.5\n"
      "    launch_overhead_us: 0\n"
      "topology:\n"
      "  link: {bandwidth_gbytes_per_s: 2, latency_us: 5}\n"
      "  children:\n"
      "    - {name: cpu, count: 3, type: core}\n";
  const std::string file = put("mine.yaml", text);
  EXPECT_EQ(json_of({"plan", "zoo:mlp", "--cluster", file}).value("devices", 0), 3);
  std::string typo = text;
  typo.replace(typo.find("efficiency"), 10, "eficiency");
  const std::string wrong = put("typo.yaml", typo);
  expect_error({"plan", "zoo:mlp", "--cluster", wrong}, 3, {wrong + ":8", "'eficiency'", "did you mean 'efficiency'?"});
  expect_error({"plan", "zoo:mlp", "--cluster", put("broken.yaml", "name: [mine\n")}, 3, {"broken.yaml:"});
  expect_error({"plan", "zoo:mlp", "--cluster", "no-such-machine"}, 3, {"no-such-machine", "p2.8xlarge", "local:N"});
  expect_error({"plan", "zoo:mlp", "--cluster", "p2.8xlarge", "--devices", "99"}, 3, {"99", "8"});
}

TEST(CliErrors, Descriptions) {
  expect_error(
      {"tdl", "f(a, b)[i, j] = a[i*j] + b[i, j]"}, 3,
      {"line 1, column 20: a product of two indices\n    f(a, b)[i, j] = a[i*j] + b[i, j]\n                       ^"});
  expect_error({"tdl", "f(a, b)[i] =\n  sum(k) a[i*k] * b[k]"}, 3,
               {"line 2, column 13: a product of two indices\n      sum(k) a[i*k] * b[k]\n                ^"});
  expect_error({"tdl", "f(a)[i] = a[i"}, 3, {"line 1, column"});
  expect_error({"ops", "matmull"}, 3, {"'matmull'", "matmul"});
}

TEST(CliErrors, DescribedOperators) {
  const std::string model = std::string(PARTITA_SOURCE_DIR) + "/examples/custom_op.onnx";
  expect_error({"plan", model}, 3, {"custom_op.onnx", "examples::swish_gate", "--tdl", "'swish_gate'"});
  expect_error({"plan", model, "--tdl", "none.tdl"}, 3, {"none.tdl", "cannot be read"});
  const std::string broken =
      put("broken.tdl", "# two lines of comment\n\nswish_gate(a, g)[..i] =\n  a[..i] * * g[..i]\n");
  expect_error({"plan", model, "--tdl", broken}, 3, {broken, "in line 3", "line 2, column"});
  const std::string taken = put("taken.tdl", "relu(x)[..i] = max(x[..i], 0)\n");
  expect_error({"plan", model, "--tdl", taken}, 3, {taken, "line 1", "'relu'", "another name"});
  const std::string other = put("other.tdl", "swish_gate(a, g)[..i] = a[..i] * g[..i] ^ power\n");
  expect_error({"plan", model, "--tdl", other}, 3, {"swish_gate", "'beta'", "power"});
  const std::string fewer = put("fewer.tdl", "swish_gate(a)[..i] = a[..i] * beta\n");
  expect_error({"plan", model, "--tdl", fewer}, 3, {"swish_gate"});
}

TEST(CliErrors, Data) {
  expect_error({"train", "zoo:mlp", "--data", "none.npz", "--steps", "1"}, 3, {"none.npz", "cannot be read"});
  expect_error({"train", "zoo:mlp", "--data", put("garbage.npz", "hello"), "--steps", "1"}, 3, {"garbage.npz"});
  expect_error({"train", "zoo:mlp", "--data", data("lenet-reference.npz"), "--steps", "1"}, 3,
               {"lenet-reference.npz", "'x'", "shape"});
  const std::string other = scratch("other.npz");
  write_npz(other, {{"inputs", Values{DType::kFloat32, {2}, {1, 2}, {}}}});
  expect_error({"train", "zoo:mlp", "--data", other, "--steps", "1"}, 3, {other, "no array 'x'", "inputs"});
  expect_error({"run", "zoo:mlp", "--inputs", other}, 3, {"'x'"});
  const std::string labels = scratch("labels.npz");
  write_npz(labels, {{"x", Values{DType::kFloat32, {2, 4}, std::vector<double>(8), {}}},
                     {"labels", Values{DType::kInt64, {2}, {}, {0, 9}}}});
  expect_error({"train", "zoo:mlp?width=4,batch=2", "--data", labels, "--steps", "1"}, 3,
               {labels, "'labels'", "has 9 at [1]; the model takes 0 to 3"});
  expect_error({"train", "zoo:mlp?width=4,batch=8", "--data", labels, "--steps", "1"}, 3, {"labels"});
  expect_error({"train", "zoo:mlp", "--weights", put("garbage.safetensors", "hello"), "--steps", "1"}, 3,
               {"garbage.safetensors"});
  expect_error({"train", "zoo:mlp", "--steps", "1", "--log", "/no/such/folder/log"}, 3,
               {"/no/such/folder/log", "cannot be written"});
}

TEST(CliErrors, Weights) {
  namespace fs = std::filesystem;
  const std::string model = data("huggingface/tiny-llama"), index = model + "/model.safetensors.index.json";
  const auto refused = [&](const std::string& weights, const Words& parts, const std::string& of = "") {
    expect_error({"train", of.empty() ? model : of, "--bind", "steps=4", "--steps", "1", "--weights", weights}, 3,
                 parts);
  };
  refused(std::string(PARTITA_SOURCE_DIR) + "/tests", {"/tests", "neither model.safetensors nor"});
  refused("no/such.safetensors", {"no/such.safetensors", "cannot be read"});
  refused(put("a.index.json", "{}"), {"a.index.json", "weight_map"});
  for (const char* outside : {"../w.safetensors", "/tmp/w.safetensors", "a/../../w.safetensors", ""})
    refused(put("b.index.json", Json{{"weight_map", {{"model.norm.weight", outside}}}}.dump()),
            {"b.index.json", "'model.norm.weight'", "in the index's folder"});
  // Two of three files are missing, and one lacks an array that the index names.
  const std::string part = "model-00001-of-00003.safetensors";
  fs::copy_file(index, scratch("c.index.json"), fs::copy_options::overwrite_existing);
  fs::copy_file(model + "/" + part, scratch(part), fs::copy_options::overwrite_existing);
  refused(scratch("c.index.json"),
          {"files are missing", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"});
  Json one = Json::parse(contents(index));
  for (auto& [name, file] : one["weight_map"].items()) file = part;
  refused(put("d.index.json", one.dump()), {"'model.norm.weight' in", "not where the index says"});
  // What is missing, superfluous and of another shape, all at once.
  Arrays arrays;
  for (const char* file : {"1", "2", "3"})
    for (auto& [name, values] : read_safetensors(fmt::format("{}/model-0000{}-of-00003.safetensors", model, file)))
      arrays[name] = values;
  arrays["model.layers.7.extra.weight"] = arrays.at("model.norm.weight");
  arrays["model.layers.1.self_attn.rotary_emb.inv_freq"] = arrays.at("model.norm.weight");  // nothing that matters
  arrays.at("lm_head.weight").shape = {16, 40};
  arrays.erase("model.norm.weight");
  arrays.erase("model.layers.1.mlp.up_proj.weight");
  write_safetensors(scratch("e.safetensors"), arrays);
  refused(scratch("e.safetensors"),
          {"e.safetensors", "missing: model.layers.1.mlp.up_proj.weight, model.norm.weight",
           "not in the model: model.layers.7.extra.weight\n", "lm_head.weight [40, 16], not [16, 40]"});
  Arrays tied = read_safetensors(data("huggingface/tiny-llama-tied/model.safetensors"));
  tied["lm_head.weight"] = tied.at("model.embed_tokens.weight");
  write_safetensors(scratch("f.safetensors"), tied);
  EXPECT_EQ(partita({"train", data("huggingface/tiny-llama-tied"), "--bind", "steps=4", "--steps", "1", "--weights",
                     scratch("f.safetensors")})
                .code,
            0);
  tied.at("lm_head.weight").real[3] += 1;
  write_safetensors(scratch("f.safetensors"), tied);
  refused(scratch("f.safetensors"), {"'model.embed_tokens.weight'", "'lm_head.weight'", "differ"},
          data("huggingface/tiny-llama-tied"));
}

TEST(CliErrors, Usage) {
  for (const Words& words : std::vector<Words>{{},
                                               {"dance"},
                                               {"plan"},
                                               {"plan", "zoo:mlp", "--no-such-option"},
                                               {"plan", "zoo:mlp", "--search"},
                                               {"train", "zoo:mlp", "--steps", "many"},
                                               {"train", "zoo:mlp", "--steps", "0"},
                                               {"train", "zoo:mlp", "--steps", "1", "--epochs", "1"},
                                               {"train", "zoo:mlp", "--lr", "nan"},
                                               {"train", "zoo:mlp", "--epochs", "-1"},
                                               {"train", "zoo:mlp", "--engine", "threads"},
                                               {"compare", "zoo:mlp", "--search", "single", "--dump", "d"},
                                               {"plan", "zoo:mlp", "--dump", ""},
                                               {"plan", "zoo:mlp", "--bind", "batch"},
                                               {"plan", "zoo:mlp", "--devices", "0"}})
    expect_error(words, 2, {});
  expect_error({"plan", "zoo:mlp", "--search", "sideways"}, 2, {"'sideways'", "soybean", "data-parallel"});
  expect_error({"plan", "zoo:mlp", "--search", "soybean?tilings=some"}, 2, {"'tilings'", "paper or all"});
  expect_error({"plan", "zoo:mlp", "--search", "megatron?tensor=0"}, 2,
               {"'tensor'", "node or a whole number from 1 to 999999"});
  for (const char* beta : {"0.5", "1e9", "0", "1000000"})
    expect_error({"plan", "zoo:mlp", "--search", std::string("flexflow?beta=") + beta}, 2,
                 {fmt::format("option 'beta' is a whole number from 1 to 999999, not '{}'", beta)});
  for (const char* search : {"flexflow", "soap"})
    expect_error({"plan", "zoo:mlp", "--devices", "2", "--search", search, "--micro-batches", "2"}, 2,
                 {fmt::format("'{}'", search), "not in 2 micro-batches", "auto"});
  expect_error({"plan", "zoo:mlp", "--search", "single?tilings=all"}, 2, {"'single'", "'tilings'"});
  expect_error({"plan", "zoo:mlp", "--search", "small-batch", "-o", scratch("none.json")}, 2,
               {"'small-batch'", "no plan"});
  expect_error({"train", "zoo:mlp", "--steps", "1", "--search", "small-batch"}, 2, {"'small-batch'", "no plan"});
  expect_error({"compare", "zoo:mlp", "--search", "single,sideways"}, 2, {"'sideways'"});
  expect_error({"train", "zoo:mlp", "--loss", "regret"}, 2, {"'regret'", "cross_entropy"});
  expect_error({"train", "zoo:mlp", "--optimizer", "hope"}, 2, {"'hope'", "sgd"});
  expect_error({"train", "zoo:mlp", "--optimizer", "adam", "--momentum", "0.9"}, 2, {"'adam'", "beta1"});
  expect_error({"train", "zoo:mlp", "--clip-norm", "0"}, 2, {"--clip-norm"});
  expect_error({"plan", "zoo:mlp", "--schedule", "cosine"}, 2, {"'cosine'", "steps"});
  expect_error({"train", "zoo:mlp", "--schedule", "jump"}, 2, {"'jump'", "linear"});
  expect_error({"train", "zoo:mlp", "--dtype", "int64"}, 2, {"'int64'", "float32"});
}

TEST(CliErrors, AmountsOfMemory) {
  const std::string without =
      json_of({"plan", "zoo:mlp", "--devices", "2", "--search", "data-parallel"}).at("comm_bytes").dump();
  for (const char* limit : {"80GB", "80g", "80 GiB", "512MB", "4000000"})
    EXPECT_EQ(json_of({"plan", "zoo:mlp", "--devices", "2", "--search", "data-parallel", "--memory-limit",
                       limit})["comm_bytes"]
                  .dump(),
              without)
        << limit;
  expect_error({"plan", "zoo:mlp", "--devices", "2", "--memory-limit", "80"}, 2, {"80 bytes a device", "80GB", "80B"});
  expect_error({"plan", "zoo:mlp", "--devices", "2", "--memory-limit", "40000"}, 2,
               {"40000 bytes a device", "40000MB"});
  expect_error({"plan", "zoo:mlp", "--devices", "2", "--memory-limit", "80XB"}, 2, {"'80XB'", "80GB"});
  expect_error({"plan", "zoo:mlp", "--devices", "16", "--cluster", "dgx-h100"}, 3, {"dgx-h100:2"});
  for (const char* bucket : {"5XB", "-5MB", "-1", "", "1e99GB"})
    expect_error({"plan", "zoo:mlp", "--devices", "2", "--bucket", bucket}, 2,
                 {"--bucket takes an amount of memory, as 25MB", fmt::format("not '{}'", bucket)});
  expect_error({"plan", "zoo:mlp", "--devices", "2", "--bucket", "25"}, 2, {"--bucket 25 is 25 bytes", "25MB", "25B"});
  expect_error({"plan", "zoo:mlp", "--devices", "2", "--search", "data-parallel?bucket=5XB"}, 2,
               {"search 'data-parallel': option 'bucket' takes an amount of memory", "'5XB'"});
}

// The option, the search's own, and without either.
TEST(Cli, BucketsArePartOfThePlan) {
  const auto bucket = [](Words words) -> int64_t {
    const std::string path = scratch("plan.json");
    words.insert(words.begin(), {"plan", "zoo:mlp", "--devices", "2", "-o", path});
    EXPECT_EQ(partita(words).code, 0);
    return Json::parse(contents(path)).value("bucket_bytes", int64_t{0});
  };
  EXPECT_EQ(bucket({"--search", "data-parallel"}), 25 * 1024 * 1024);
  EXPECT_EQ(bucket({"--search", "data-parallel", "--bucket", "5MB"}), 5'000'000);
  EXPECT_EQ(bucket({"--search", "data-parallel", "--bucket", "0"}), 0);
  EXPECT_EQ(bucket({"--search", "data-parallel?bucket=100KiB", "--bucket", "5MB"}), 102'400);
  EXPECT_EQ(bucket({"--search", "data-parallel?bucket=0"}), 0);
}

TEST(Cli, OtherNamesOfDtypesAndSearches) {
  const Words model = {"plan", "zoo:mlp?layers=2,width=16", "--devices", "2", "--search"};
  auto planned = [&](const char* search, const char* dtype) {
    Words words = model;
    words.insert(words.end(), {search, "--dtype", dtype});
    Json json = json_of(words);
    for (const char* key : {"search", "search_seconds"}) json.erase(key);
    return json.dump();
  };
  EXPECT_EQ(planned("fsdp", "bf16"), planned("zero?stage=3", "bfloat16"));
  EXPECT_EQ(planned("fsdp?stage=2", "fp16"), planned("zero?stage=2", "float16"));
  EXPECT_EQ(planned("zero", "fp32"), planned("zero", "float32"));
  EXPECT_EQ(planned("zero", "fp64"), planned("zero", "float64"));
  expect_error({"plan", "zoo:mlp", "--search", "fspd"}, 2, {"'fspd'", "fsdp"});
}

// What is said to help does; what does not is not said to.
TEST(CliErrors, WhatWouldMakeAPlanFit) {
  const Words asked = {"plan", "zoo:mlp?layers=6,width=64", "--batch", "64", "--devices", "4"};
  auto with = [&](const Words& more) {
    Words words = asked;
    words.insert(words.end(), more.begin(), more.end());
    return partita(words);
  };
  std::regex offer("(--[a-z][^(]*) \\([0-9.]+ [kM]?B a device, [0-9.]+ [num]?s a step\\)");
  int offers = 0;
  for (const char* limit : {"88kB", "120kB", "160kB"}) {
    const Outcome o = with({"--search", "data-parallel", "--memory-limit", limit});
    ASSERT_EQ(o.code, 4) << o.err;
    for (std::sregex_iterator it(o.err.begin(), o.err.end(), offer), end; it != end; ++it, ++offers) {
      Words words = {"--memory-limit", limit};
      std::istringstream text((*it)[1].str());
      for (std::string word; text >> word;) words.push_back(word);
      if (std::find(words.begin(), words.end(), "--search") == words.end())
        words.insert(words.end(), {"--search", "data-parallel"});
      Words command = asked;
      for (size_t w = 0; w + 1 < words.size(); w += 2) {  // what the offer gives takes the place of what was asked
        if (words[w] == "--cluster")
          command.erase(std::find(command.begin(), command.end(), "--devices"),
                        std::find(command.begin(), command.end(), "--devices") + 2);
        const auto given = std::find(command.begin(), command.end(), words[w]);
        if (given != command.end()) *std::next(given) = words[w + 1];
        else command.insert(command.end(), {words[w], words[w + 1]});
      }
      EXPECT_EQ(partita(command).code, 0) << (*it)[1].str();
    }
  }
  EXPECT_GT(offers, 0);
  const Outcome none = with({"--search", "data-parallel", "--memory-limit", "2kB"});
  EXPECT_EQ(none.code, 4);
  EXPECT_EQ(none.err.find("it fits with"), std::string::npos) << none.err;
}

// One sample a device cannot be cut further; of several micro-batches that fit the largest is offered, and the fastest
// change first.
TEST(CliErrors, OffersWhatChangesSomethingAndTheFastestFirst) {
  const auto refused = [](const char* batch, const char* limit) {
    const Outcome o = partita({"plan", "zoo:gpt2?layers=4,hidden=256,heads=4,vocabulary=1000,steps=256", "--batch",
                               batch, "--cluster", "dgx-a100", "--search", "fsdp", "--memory-limit", limit});
    EXPECT_EQ(o.code, 4) << o.err;
    return o.err;
  };
  const std::string one = refused("8", "18MB");
  EXPECT_EQ(one.find("--micro-batch-size"), std::string::npos) << one;
  const std::string several = refused("128", "150MB");
  std::smatch size;
  ASSERT_TRUE(std::regex_search(several, size, std::regex("--micro-batch-size ([0-9]+) \\("))) << several;
  EXPECT_GT(std::stoi(size[1].str()), 1) << several;
  std::vector<double> times;
  const std::regex offer("a device, ([0-9.]+) ms a step");
  for (std::sregex_iterator it(several.begin(), several.end(), offer), end; it != end && times.size() < 2; ++it)
    times.push_back(std::stod((*it)[1].str()));
  ASSERT_EQ(times.size(), 2u) << several;
  EXPECT_LE(times[0], times[1]);
}

// How many micro-batches there are is said where nobody gave them.
TEST(CliCompare, SaysMicroBatchesThatWereNotGiven) {
  const Words mlp = {"compare", "zoo:mlp?layers=4,width=64", "--batch", "64", "--devices", "2"};
  const auto said = [&](const Words& more) {
    Words words = mlp;
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = partita(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.err.find(" micro-batches\n") != std::string::npos;
  };
  EXPECT_TRUE(said({"--search", "pipeline?stages=2"}));
  EXPECT_FALSE(said({"--search", "pipeline?stages=2,micro-batches=8"}));
  EXPECT_FALSE(said({"--search", "pipeline?stages=2", "--micro-batches", "8"}));
}

TEST(CliErrors, NoPlanFits) {
  for (const char* search : {"single", "data-parallel", "model-parallel"})
    expect_error({"plan", "zoo:lenet", "--devices", "2", "--search", search, "--memory-limit", "100kB"}, 4,
                 {"has 100.0 kB", "missing", "weights", "activations"});
  const Outcome o = partita({"plan", "zoo:lenet", "--devices", "2", "--memory-limit", "100000B"});
  EXPECT_EQ(o.code, 4);
  EXPECT_NE(o.err.find("missing"), std::string::npos) << o.err;
  // What is missing is exact: with so much more it fits. With the least that fits, there is no room for overlap.
  const int64_t peak = json_of({"plan", "zoo:lenet", "--devices", "2", "--search", "soybean"})["peak_memory_bytes"];
  auto limited = [](int64_t bytes) {
    return partita(
        {"plan", "zoo:lenet", "--devices", "2", "--search", "soybean", "--memory-limit", std::to_string(bytes) + "B"});
  };
  int64_t refused = 100000, fits = peak;
  EXPECT_EQ(limited(peak).code, 0);
  while (fits - refused > 1) {
    const int64_t middle = (refused + fits) / 2;
    (limited(middle).code == 0 ? fits : refused) = middle;
  }
  const Outcome least = limited(fits - 1);
  EXPECT_EQ(least.code, 4);
  EXPECT_NE(least.err.find("(1 bytes missing)"), std::string::npos) << least.err;
}

// ---------------------------------------------------------------- results

void expect_keys(const Json& json, const std::set<std::string>& needed, const std::set<std::string>& optional = {}) {
  std::set<std::string> missing = needed;
  for (const auto& [key, value] : json.items()) {
    EXPECT_TRUE(needed.contains(key) || optional.contains(key)) << "unknown key " << key;
    EXPECT_FALSE(value.is_null()) << key;
    missing.erase(key);
  }
  EXPECT_TRUE(missing.empty()) << fmt::format("missing: {}", fmt::join(missing, ", "));
}

const std::set<std::string> kPlanKeys = {
    "model",        "cluster",           "devices",        "search", "objective",          "comm_bytes",
    "step_time_us", "peak_memory_bytes", "search_seconds", "batch",  "samples_per_second", "nominal"};
// Where a search has a cost of its own, or counts.
const std::set<std::string> kMorePlanKeys = {"exposed_communication_us",
                                             "kernels",
                                             "estimated_kernels",
                                             "tokens_per_second",
                                             "least_memory_bytes",
                                             "model_flops",
                                             "model_flops_utilization",
                                             "slow_products",
                                             "bubble_us",
                                             "waiting_us",
                                             "stages",
                                             "schema_version",
                                             "plan",
                                             "compute_time_us",
                                             "lower_bound_us",
                                             "lower_bound_comm_bytes",
                                             "gap",
                                             "proposals",
                                             "paper_cost",
                                             "counters",
                                             "search_trail",
                                             "local_step_time_us",
                                             "local_lower_bound_us",
                                             "host_bytes",
                                             "serial_time_us",
                                             "faster",
                                             "lower_bound_serial_time_us"};

TEST(Cli, PlanningCommandsKeepTheirKeys) {
  const Json show = json_of({"show", "zoo:lenet"});
  expect_keys(
      show,
      {"schema_version", "name", "inputs", "outputs", "parameters", "parameter_bytes", "repeats", "ops", "ops_forward",
       "flops_per_step", "activation_bytes", "tied", "untrained", "with_normalization", "perhaps_buffers"},
      {"why_not_trained"});
  EXPECT_EQ(show["parameters"], 61706);
  EXPECT_EQ(show["parameter_bytes"], 4 * 61706);
  EXPECT_EQ(show["inputs"]["x"]["shape"], Json({32, 1, 28, 28}));

  const std::string file = scratch("plan.json");
  const Json plan = json_of({"plan", "zoo:lenet", "--devices", "3", "-o", file});
  expect_keys(plan, kPlanKeys, kMorePlanKeys);
  EXPECT_EQ(plan["plan"], file);
  EXPECT_EQ(plan["devices"], 3);
  EXPECT_EQ(plan["search"], "auto");

  const Json simulated = json_of({"simulate", file, "--trace", scratch("trace.json")});
  expect_keys(simulated, {"schema_version", "step_time_us", "compute_time_us", "exposed_communication_us", "bubble_us",
                          "waiting_us", "stages", "comm_bytes", "peak_memory_bytes", "least_memory_bytes",
                          "utilization", "tasks", "devices", "simulate_seconds", "nominal"});
  ASSERT_EQ(simulated["devices"].size(), 3);
  double busy = 0, peak = 0;
  for (const Json& device : simulated["devices"]) {
    busy += device["utilization"].get<double>() / 3;
    peak = std::max(peak, device["peak_memory_bytes"].get<double>());
  }
  EXPECT_NEAR(busy, simulated["utilization"].get<double>(), 1e-9);
  EXPECT_EQ(peak, simulated["peak_memory_bytes"].get<double>());
  double sum = 0;
  for (const char* key : {"compute_time_us", "bubble_us", "waiting_us"}) sum += simulated[key].get<double>();
  for (const Json& part : simulated["exposed_communication_us"]) sum += part.get<double>();
  EXPECT_NEAR(sum, simulated["step_time_us"].get<double>(), 1e-3);
  const Json checked = json_of({"check", file});
  for (const char* key : {"comm_bytes", "peak_memory_bytes", "least_memory_bytes"}) {
    EXPECT_EQ(simulated[key], plan[key]) << key;
    EXPECT_EQ(checked[key], plan[key]) << key;
  }
  EXPECT_EQ(simulated["step_time_us"], plan["step_time_us"]);
  EXPECT_EQ(simulated["compute_time_us"], plan["compute_time_us"]);
  const double share = plan["compute_time_us"].get<double>() / plan["step_time_us"].get<double>();
  EXPECT_GE(share, simulated["utilization"].get<double>());  // the busiest device's, and the mean
  EXPECT_LE(share, 1);
  EXPECT_GT(simulated["utilization"].get<double>(), 0);
  EXPECT_LE(simulated["utilization"].get<double>(), 1);
  EXPECT_TRUE(Json::parse(contents(scratch("trace.json")))["traceEvents"].is_array());

  const Json compared = json_of({"compare", "zoo:lenet", "--devices", "3", "--search",
                                 "single,data-parallel,model-parallel,auto,soybean?tilings=all"});
  expect_keys(compared, {"schema_version", "rows"});
  ASSERT_EQ(compared["rows"].size(), 5u);
  for (const Json& row : compared["rows"]) expect_keys(row, kPlanKeys, kMorePlanKeys);
  EXPECT_EQ(compared["rows"][3]["comm_bytes"], plan["comm_bytes"]);

  // A search that estimates is a row like the others, of the batch that it takes.
  const Json estimated = json_of({"compare", "zoo:lenet", "--batch", "24", "--cluster", "p2.8xlarge", "--memory-limit",
                                  "740kB", "--search", "small-batch,soybean"});
  for (const Json& row : estimated["rows"]) {
    expect_keys(row, kPlanKeys, kMorePlanKeys);
    EXPECT_NEAR(row["samples_per_second"].get<double>(),
                row["batch"].get<double>() / row["step_time_us"].get<double>() * 1e6, 1e-3);
  }
  EXPECT_LT(estimated["rows"][0]["batch"], 24);
  EXPECT_EQ(estimated["rows"][1]["batch"], 24);

  // A search that finds none is a row that says why.
  const Json some =
      json_of({"compare", "zoo:mlp", "--batch", "6", "--devices", "8", "--search", "data-parallel,single"});
  ASSERT_EQ(some["rows"].size(), 2u);
  EXPECT_EQ(some["rows"][0]["search"], "data-parallel");
  EXPECT_NE(some["rows"][0]["reason"].get<std::string>().find("too few"), std::string::npos);
  expect_keys(some["rows"][1], kPlanKeys, kMorePlanKeys);
  EXPECT_EQ(partita({"compare", "zoo:mlp", "--batch", "6", "--devices", "8", "--search", "data-parallel"}).code, 4);

  // The same seed, the same file; standard output is the same without --json but for the time taken.
  const std::string again = scratch("again.json");
  EXPECT_EQ(partita({"plan", "zoo:lenet", "--devices", "3", "-o", again, "--seed", "1"}).code, 0);
  EXPECT_EQ(contents(again), contents(file));
  EXPECT_EQ(json_of({"plan", "zoo:lenet", "--cluster", "p2.8xlarge", "--devices", "4", "--batch", "26"})["cluster"],
            "p2.8xlarge");
}

TEST(Cli, ListsAreSensible) {
  const auto says = [](const Words& words, const Words& parts) {
    const Outcome o = partita(words);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(o.err, "");
    for (const std::string& part : parts)
      EXPECT_NE(o.out.find(part), std::string::npos) << "'" << part << "' is not in: " << o.out;
  };
  says({"ops", "matmul"}, {"sum(k)", "i: S(0), B -> S(0)", "j: B, S(1) -> S(1)", "k: S(1), S(0) -> P(sum)"});
  says({"ops", "conv2d"}, {"index n        extent 3     sample", "index y        extent 9     attribute",
                           "index o        extent 4     parameter", "index c        extent 3     contracted"});
  says({"ops"}, {"matmul", "conv2d", "batch_norm", "softmax"});
  says({"models"}, {"zoo:mlp", "zoo:lenet", "zoo:resnet-18", "zoo:transformer", "batch"});
  says({"clusters"}, {"p2.8xlarge", "dgx-h100", "local:N"});
  says({"searches"}, {"single", "data-parallel", "model-parallel", "owt", "megatron", "tensor=node|N", "zero",
                      "stage=1|2|3", "soybean", "tilings=paper|all", "cannot be run", "exact", "auto"});
  says({"tdl", "f(a)[i] = a[i] * a[i]"}, {"element-wise", "i: S(0) -> S(0)", "gradient of a"});
  says({"tdl", "f(x, w)[i] where i < 10 = sum(k) x[i+k] * w[k]", "--shape", "x=12", "--shape", "w=3"},
       {"index i        extent 10", "strategies on 2 workers"});
  says({"--help"}, {"plan", "simulate", "train"});
  says({"plan", "--help"}, {"--search", "--cluster"});
  says({"show", data("mlp.onnx"), "--nodes", "--batch", "7"}, {"Gemm", "imported"});
  EXPECT_EQ(json_of({"models"})["models"].size(), list_models().size());
  EXPECT_GE(json_of({"clusters"})["clusters"].size(), 3u);
  EXPECT_EQ(json_of({"searches"})["searches"][0]["name"], "data-parallel");
  const Json matmul = json_of({"ops", "matmul", "--workers", "4"})["instances"][0];
  EXPECT_EQ(matmul["workers"], 4);
  EXPECT_EQ(matmul["soap"], (Json{{"i", "sample"}, {"k", "contracted"}, {"j", "parameter"}}));
  EXPECT_TRUE(json_of({"tdl", "f(a)[i] = a[i]"})["elementwise"]);
  EXPECT_GT(json_of({"ops"})["ops"].size(), 20u);
}

const std::set<std::string> kTrainKeys = {"schema_version",   "steps", "loss_first", "loss_last", "samples_per_second",
                                          "peak_memory_bytes"};

std::vector<double> logged(const std::string& file) {
  std::vector<double> losses;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const Json entry = Json::parse(line);
    EXPECT_EQ(entry.size(), 2u) << line;
    EXPECT_EQ(entry.at("step"), losses.size());
    losses.push_back(entry.at("loss"));
  }
  return losses;
}

// Acts in a Chrome trace.
int acts_in(const std::string& file) {
  const Json trace = Json::parse(contents(file));
  int acts = 0;
  for (const Json& event : trace.at("traceEvents")) acts += event.at("ph") == "X";
  return acts;
}

TEST(CliTrain, FromAModelAndFromItsPlan) {
  const std::string plan = scratch("plan.json"), log = scratch("log.jsonl"), other = scratch("other.jsonl"),
                    trace = scratch("trace.json");
  const Json trained = json_of({"train", "zoo:mlp?width=12", "--devices", "2", "--steps", "12", "--momentum", "0.9",
                                "--dtype", "float64", "--verify", "serial", "--log", log, "--trace", trace});
  std::set<std::string> keys = kTrainKeys;
  keys.insert({"max_error_vs_serial", "max_loss_error_vs_serial"});
  expect_keys(trained, keys);
  EXPECT_EQ(trained["steps"], 12);
  EXPECT_LE(trained["max_error_vs_serial"].get<double>(), 1e-10);
  const std::vector<double> losses = logged(log);
  ASSERT_EQ(losses.size(), 12u);
  EXPECT_EQ(losses.front(), trained["loss_first"].get<double>());
  EXPECT_EQ(losses.back(), trained["loss_last"].get<double>());
  const int events = acts_in(trace);
  EXPECT_GT(events, 100);

  ASSERT_EQ(
      partita({"plan", "zoo:mlp?width=12", "--devices", "2", "--momentum", "0.9", "--dtype", "float64", "-o", plan})
          .code,
      0);
  expect_keys(json_of({"train", plan, "--steps", "12", "--log", other}), kTrainKeys);
  EXPECT_EQ(logged(other), losses);
}

// The optimizer's settings travel in the plan: training from it is training from the model.
// The plan keeps the description, and is all that training needs.
TEST(CliTrain, AnOperatorThatTheUserDescribes) {
  const std::string examples = std::string(PARTITA_SOURCE_DIR) + "/examples/", file = scratch("plan.json");
  const Json plan = json_of({"plan", examples + "custom_op.onnx", "--tdl", examples + "swish_gate.tdl", "--devices",
                             "3", "--dtype", "float64", "-o", file});
  EXPECT_GT(plan["comm_bytes"], 0);
  EXPECT_NE(contents(file).find("sigmoid(beta"), std::string::npos);
  const Json trained =
      json_of({"train", file, "--data", examples + "digits-train.npz", "--steps", "4", "--verify", "serial"});
  EXPECT_LE(trained["max_error_vs_serial"], 1e-10);
}

TEST(CliTrain, OptimizersClippingAndSchedules) {
  const std::string plan = scratch("adamw.json");
  const Words settings{"--optimizer", "adamw?beta2=0.9", "--weight-decay", "0.1",       "--clip-norm",
                       "0.05",        "--dtype",         "float64",        "--devices", "3"};
  Words train{"train", "zoo:mlp?width=12", "--steps", "6", "--verify", "serial", "--schedule", "cosine?warmup=2"};
  train.insert(train.end(), settings.begin(), settings.end());
  const Json trained = json_of(train);
  EXPECT_LE(trained["max_error_vs_serial"].get<double>(), 1e-10);
  Words make{"plan", "zoo:mlp?width=12", "--schedule", "cosine?warmup=2,steps=6", "-o", plan};
  make.insert(make.end(), settings.begin(), settings.end());
  ASSERT_EQ(partita(make).code, 0);
  EXPECT_EQ(json_of({"train", plan, "--steps", "6"})["loss_last"], trained["loss_last"]);
  expect_error({"train", plan, "--clip-norm", "1"}, 2, {"--clip-norm"});
  EXPECT_NE(json_of({"train", "zoo:mlp?width=12", "--steps", "6", "--dtype", "float64", "--devices", "3"})["loss_last"],
            trained["loss_last"]);
}

TEST(CliTrain, TheVerdictBesideTheSerialRun) {
  for (const auto& [dtype, verdict] :
       {std::pair{"float64", "1e-10 is allowed in float64\n"}, {"float32", "1.0e-05 is allowed in float32\n"}}) {
    const Outcome o = partita(
        {"train", "zoo:mlp?width=12", "--devices", "2", "--steps", "1", "--verify", "serial", "--dtype", dtype});
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_NE(o.out.find("\nverified       as the serial run: "), std::string::npos) << o.out;
    EXPECT_TRUE(o.out.ends_with(verdict)) << o.out;
  }
}

TEST(CliTrain, EpochsTestDataAndText) {
  const std::string digits = std::string(PARTITA_SOURCE_DIR) + "/examples/";
  const Json trained =
      json_of({"train", digits + "digits.onnx", "--batch", "359", "--devices", "2", "--data",
               digits + "digits-train.npz", "--test-data", digits + "digits-test.npz", "--epochs", "1"});
  std::set<std::string> keys = kTrainKeys;
  keys.insert("test_accuracy");
  expect_keys(trained, keys);
  EXPECT_EQ(trained["steps"], 4);  // of 1,437 samples
  EXPECT_GE(trained["test_accuracy"].get<double>(), 0.05);
  EXPECT_LE(trained["test_accuracy"].get<double>(), 1);
  const Outcome text = partita({"train", "zoo:mlp?width=12", "--steps", "2"});
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("2 steps of 32 samples on 1 devices"), std::string::npos) << text.out;
  EXPECT_NE(text.err.find("step 2/2"), std::string::npos) << text.err;
}

TEST(CliTrain, WeightsAreSavedAndReadAgain) {
  const std::string half = scratch("half.safetensors"), whole = scratch("whole.safetensors"),
                    resumed = scratch("resumed.safetensors");
  const Words base = {"train",   data("lenet.onnx"), "--batch",   "5", "--data", data("lenet-reference.npz"),
                      "--dtype", "float64",          "--devices", "2"};
  const auto train = [&](Words more) {
    Words words = base;
    words.insert(words.end(), more.begin(), more.end());
    return json_of(words);
  };
  const Json all = train({"--steps", "5", "--save", whole});
  train({"--steps", "3", "--save", half});
  const Json rest = train({"--steps", "2", "--weights", half, "--save", resumed});
  EXPECT_NEAR(rest["loss_last"].get<double>(), all["loss_last"].get<double>(), 1e-12);
  const Arrays a = read_safetensors(whole), b = read_safetensors(resumed);
  ASSERT_EQ(a.size(), 8u);
  ASSERT_EQ(b.size(), a.size());
  for (const auto& [name, values] : a) {
    ASSERT_EQ(b.at(name).shape, values.shape) << name;
    for (std::size_t i = 0; i < values.real.size(); ++i) ASSERT_NEAR(b.at(name).real[i], values.real[i], 1e-12) << name;
  }
  expect_error({"train", "zoo:mlp", "--weights", whole, "--steps", "1"}, 3,
               {whole, "model 'mlp'", "missing: fc3.bias, fc3.weight", "not in the model: conv1.bias",
                "fc1.bias [64], not [20]"});
}

// Files of another task, or of an older time, as they are found.
TEST(CliTrain, WeightsOfAnotherHead) {
  const std::string lm = data("huggingface/tiny-bert-lm"), classifier = scratch("classifier.safetensors");
  Arrays arrays = read_safetensors(lm + "/model.safetensors");
  for (const char* name : {"bert.embeddings.LayerNorm", "bert.encoder.layer.1.output.LayerNorm"}) {
    for (const auto& [now, then] : {std::pair{".weight", ".gamma"}, {".bias", ".beta"}}) {
      auto node = arrays.extract(std::string(name) + now);
      node.key() = std::string(name) + then;
      arrays.insert(std::move(node));
    }
  }
  const std::string old = scratch("old.safetensors");
  write_safetensors(old, arrays);
  const Words words{"train",  lm,        "--bind",    "architecture=BertForSequenceClassification",
                    "--bind", "steps=8", "--steps",   "1",
                    "--lr",   "0",       "--weights", old,
                    "--save", classifier};
  const Outcome o = partita(words);
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find("of a head that the model lacks: cls.predictions.bias"), std::string::npos) << o.err;
  EXPECT_NE(
      o.err.find(
          "started at random: bert.pooler.dense.bias, bert.pooler.dense.weight, classifier.bias, classifier.weight"),
      std::string::npos)
      << o.err;
  const Arrays saved = read_safetensors(classifier);
  EXPECT_EQ(saved.at("bert.embeddings.LayerNorm.weight"), arrays.at("bert.embeddings.LayerNorm.gamma"));
  EXPECT_EQ(saved.at("bert.encoder.layer.0.intermediate.dense.weight"),
            arrays.at("bert.encoder.layer.0.intermediate.dense.weight"));
  // GPT-2's file has no prefix, and its masks beside the weights; a run of momentum goes on, without it where there is
  // none.
  Arrays bare;
  for (const auto& [name, values] : read_safetensors(data("huggingface/tiny-gpt2/model.safetensors")))
    bare[name.substr(std::string("transformer.").size())] = values;
  bare["h.0.attn.bias"] = Values{DType::kFloat32, {1, 1, 2, 2}, {1, 0, 1, 1}, {}};
  write_safetensors(scratch("bare.safetensors"), bare);
  const Words gpt2{"train",  data("huggingface/tiny-gpt2/config.json"),   "--bind",  "steps=8", "--batch", "3",
                   "--data", data("huggingface/tiny-gpt2/reference.npz"), "--steps", "1"};
  const auto trained = [&](const Words& more) {
    Words all = gpt2;
    all.insert(all.end(), more.begin(), more.end());
    return json_of(all)["loss_first"].get<double>();
  };
  const double expected = read_arrays(data("huggingface/tiny-gpt2/reference.npz")).at("losses").real[0];
  EXPECT_NEAR(trained({"--weights", scratch("bare.safetensors"), "--momentum", "0.9", "--save",
                       scratch("momentum.safetensors")}),
              expected, 1e-5);
  EXPECT_TRUE(read_safetensors(scratch("momentum.safetensors")).contains("transformer.wte.weight.momentum"));
  EXPECT_LT(trained({"--weights", scratch("momentum.safetensors")}), expected);
  // Mixtral's experts are stacked in the graph, and apart in files; their momentum goes with them.
  const auto mixtral = [&](const Words& more) {
    Words all{"train",      data("huggingface/tiny-mixtral"),
              "--bind",     "steps=8",
              "--batch",    "3",
              "--data",     data("huggingface/tiny-mixtral/reference.npz"),
              "--dtype",    "float64",
              "--momentum", "0.9"};
    all.insert(all.end(), more.begin(), more.end());
    return json_of(all)["loss_last"].get<double>();
  };
  const std::string half = scratch("half.safetensors");
  mixtral({"--steps", "2", "--weights", data("huggingface/tiny-mixtral"), "--save", half});
  EXPECT_TRUE(read_safetensors(half).contains("model.layers.1.block_sparse_moe.experts.3.w2.weight"));
  EXPECT_NEAR(mixtral({"--steps", "1", "--weights", half}),
              mixtral({"--steps", "3", "--weights", data("huggingface/tiny-mixtral")}), 1e-12);
}

TEST(CliTrain, FromAConfigurationAndItsPlan) {
  const std::string model = data("huggingface/tiny-llama"), plan = scratch("plan.json"), out = scratch("out.npz");
  const Json show = json_of({"show", model, "--bind", "steps=8"});
  EXPECT_EQ(show["name"], "llama");
  EXPECT_EQ(show["inputs"]["input_ids"]["shape"], Json({1, 8}));
  const Words options{"--batch", "3", "--bind", "steps=8", "--devices", "2", "--dtype", "float64"};
  Words words{"plan", model + "/config.json", "-o", plan};
  words.insert(words.end(), options.begin(), options.end());
  ASSERT_EQ(partita(words).code, 0);
  const Words data_options{"--weights",    model,     "--data", model + "/reference.npz",
                           "--no-shuffle", "--steps", "5",      "--json"};
  Words from_plan{"train", plan}, from_model{"train", model + "/config.json"};
  from_plan.insert(from_plan.end(), data_options.begin(), data_options.end());
  from_model.insert(from_model.end(), data_options.begin(), data_options.end());
  from_model.insert(from_model.end(), options.begin(), options.end());
  const Arrays reference = read_arrays(model + "/reference.npz");
  for (const Words& train : {from_plan, from_model}) {
    const Outcome o = partita(train);
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_NEAR(Json::parse(o.out)["loss_last"].get<double>(), reference.at("losses").real[4], 1e-9);
  }
  ASSERT_EQ(partita({"run", plan, "--inputs", model + "/reference.npz", "--weights",
                     model + "/model.safetensors.index.json", "-o", out})
                .code,
            0);
  const Values y = read_arrays(out).begin()->second;
  ASSERT_EQ(y.shape, reference.at("y").shape);
  for (std::size_t i = 0; i < y.real.size(); ++i) EXPECT_NEAR(y.real[i], reference.at("y").real[i], 1e-9);
}

TEST(CliTrain, SamplesAreInFileOrderIfNotShuffled) {
  // Three batches, whose losses tell them apart as long as no weight moves.
  const Arrays one = read_arrays(data("mlp-reference.npz"));
  Values x = one.at("x"), labels = one.at("labels");
  const int64_t batch = x.shape[0];
  for (int copy = 1; copy < 3; ++copy) {
    for (double v : one.at("x").real) x.real.push_back(v * (copy == 1 ? 0.5 : -2));
    labels.integer.insert(labels.integer.end(), one.at("labels").integer.begin(), one.at("labels").integer.end());
  }
  x.shape[0] = labels.shape[0] = 3 * batch;
  const std::string file = scratch("data.npz"), log = scratch("log.jsonl");
  write_npz(file, {{"x", x}, {"labels", labels}});
  const auto losses = [&](const Words& more) {
    Words words = {"train",   data("mlp.onnx"),
                   "--batch", std::to_string(batch),
                   "--data",  file,
                   "--lr",    "0",
                   "--dtype", "float64",
                   "--steps", "9",
                   "--log",   log};
    words.insert(words.end(), more.begin(), more.end());
    json_of(words);
    return logged(log);
  };
  const std::vector<double> ordered = losses({"--no-shuffle"}), shuffled = losses({}), again = losses({}),
                            seeded = losses({"--seed", "2"});
  ASSERT_EQ(ordered.size(), 9u);
  EXPECT_NEAR(ordered[0], one.at("losses").real[0], 1e-12);
  EXPECT_NE(ordered[0], ordered[1]);
  EXPECT_NE(ordered[1], ordered[2]);
  for (std::size_t i = 3; i < 9; ++i) EXPECT_EQ(ordered[i], ordered[i - 3]);
  EXPECT_NE(shuffled, ordered);
  EXPECT_EQ(shuffled, again);
  EXPECT_NE(shuffled, seeded);
  // Each epoch takes every sample once.
  for (const auto* run : {&ordered, &shuffled, &seeded})
    for (int epoch = 0; epoch < 3; ++epoch) {
      double sum = 0, expected = 0;
      for (int i = 0; i < 3; ++i) sum += (*run)[3 * epoch + i], expected += ordered[i];
      EXPECT_NEAR(sum, expected, 1e-12);
    }
}

TEST(CliTrain, InterruptedLeavesTraceAndLog) {
  const std::string log = scratch("log.jsonl"), trace = scratch("trace.json"), weights = scratch("weights.safetensors");
  const Child child = start({"train", "zoo:mlp?width=12", "--devices", "2", "--steps", "100000000", "--log", log,
                             "--trace", trace, "--save", weights, "--json"});
  // Once it tells of a step, it is training.
  for (int i = 0; i < 1200 && contents(child.err_file).find("step ") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_EQ(kill(child.pid, SIGINT), 0);
  const Outcome o = finish(child);
  EXPECT_EQ(o.code, 130) << o.err;
  const Json json = Json::parse(o.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << o.out;
  const int64_t steps = json["steps"];
  EXPECT_GT(steps, 0);
  EXPECT_LT(steps, 100000000);
  EXPECT_NE(o.err.find(fmt::format("interrupted after step {}", steps)), std::string::npos) << o.err;
  EXPECT_EQ(static_cast<int64_t>(logged(log).size()), steps);
  const int events = acts_in(trace);
  EXPECT_GT(events, 100);
  EXPECT_EQ(read_safetensors(weights).size(), 8u);
}

// Every two of `variables` differ, in a problem of the public format; so many values each, with costs that make the
// best hard to prove.
std::string all_different(int variables, int values) {
  Json costs = Json::array(), usages = Json::array(), pairs = Json::array(), tables = Json::array();
  int64_t next = 1;
  auto cost = [&] { return (next = next * 48271 % 2147483647) % 1000; };
  for (int v = 0; v < variables; ++v) {
    usages.push_back(std::vector<int>(values, 0));
    costs.push_back(std::vector<int>(values, 0));
    for (int w = v + 1; w < variables; ++w) {
      pairs.push_back({v, w});
      tables.push_back(Json::array());
      for (int k = 0; k < values * values; ++k)
        tables.back().push_back(k % (values + 1) == 0 ? 1'000'000'000'000'000'000 : cost());
    }
  }
  return Json{
      {"problem",
       {{"nodes",
         {{"intervals", std::vector<std::vector<int>>(variables, {0, 0})}, {"costs", costs}, {"usages", usages}}},
        {"edges", {{"nodes", pairs}, {"costs", tables}}}}}}
      .dump();
}

TEST(CliSolve, InterruptedKeepsTheBest) {
  Outcome o = interrupted({"solve", put("pigeons.json", all_different(14, 13))}, "cost -");
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_TRUE(o.out.ends_with("\n[]\n")) << o.out;
  o = interrupted({"solve", put("all_different.json", all_different(14, 14))}, "cost [0-9]");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("feasible after"), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find("[]"), std::string::npos) << o.out;
}

TEST(CliPlan, AutoSaysWhatItIsAtAndKeepsTheBestWhenItIsToEnd) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string plan = scratch("plan.json");
    const Outcome o = interrupted(
        {"plan", "zoo:inception-v3", "--batch", "64", "--cluster", "dgx-1", "--objective", "time", "-o", plan},
        " s  auto: ", signal);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_NE(o.err.find("interrupted: this is the best plan so far"), std::string::npos) << o.err;
    EXPECT_NE(o.out.find("step time"), std::string::npos) << o.out;
    EXPECT_EQ(partita({"check", plan}).code, 0);
  }
}

TEST(CliPlan, WithoutAPlanAtTheLimitEndsWithItsCode) {
  for (const char* search : {"auto", "exact", "soybean", "tofu", "icml18", "megatron"})
    expect_error({"plan", "zoo:resnet-50", "--cluster", "dgx-1", "--search", search, "--time-limit", "0.001"}, 5,
                 {"the time limit passed"});
}

TEST(CliPlan, BeginsWithAPlan) {
  const Words mlp = {"plan", "zoo:mlp?layers=3", "--devices", "4"};
  auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::string soybean = scratch("soybean.json"), exact = scratch("exact.json");
  const int64_t begun = json_of(with(mlp, {"--search", "soybean", "-o", soybean}))["comm_bytes"];
  for (const char* steps : {"0", "50"}) {
    const Json json = json_of(with(mlp, {"--search", "exact", "--from", soybean, "--max-steps", steps, "-o", exact}));
    EXPECT_LE(json["comm_bytes"], begun);
    EXPECT_EQ(json["search"], "exact");
    EXPECT_EQ(json_of({"check", exact})["comm_bytes"], json["comm_bytes"]);
  }
  EXPECT_LE(json_of(with(mlp, {"--from", soybean}))["comm_bytes"], begun);  // auto
  expect_error(with(mlp, {"--search", "soybean", "--from", soybean}), 2,
               {"'soybean' cannot begin with a plan", "exact"});
  expect_error(with(mlp, {"--search", "exact", "--from", "none.json"}), 3, {"none.json", "cannot be read"});
  expect_error({"plan", "zoo:mlp?layers=2", "--devices", "4", "--search", "exact", "--from", soybean}, 3,
               {soybean, "'zoo:mlp?layers=3'", "SHA-256"});
  expect_error({"plan", "zoo:mlp?layers=3", "--devices", "2", "--search", "exact", "--from", soybean}, 3,
               {soybean, "for 4", "'local:2' has 2"});
  const Outcome o = partita({"compare", "zoo:mlp?layers=3", "--devices", "4", "--search", "exact,soybean", "--from",
                             soybean, "--max-steps", "2"});
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.err.find("soybean cannot begin with a plan"), std::string::npos) << o.err;
}

TEST(CliExplain, SaysWhatTheAlternativesWouldMove) {
  const std::string plan = scratch("plan.json"), changed = scratch("changed.json");
  ASSERT_EQ(partita({"plan", "zoo:mlp?layers=2", "--devices", "4", "-o", plan}).code, 0);
  const int64_t now = json_of({"check", plan})["comm_bytes"];
  const Json summary = json_of({"explain", plan});
  int64_t by_step = 0;
  for (const auto& [step, bytes] : summary["bytes_by_step"].items()) by_step += bytes.get<int64_t>();
  EXPECT_EQ(by_step, now);
  EXPECT_EQ(summary["comm_bytes"], now);

  // "fc1" is an op and its result; edited by hand, the plan moves what was said.
  const Json both = json_of({"explain", plan, "fc1"});
  const Json& op = both["op"]["alternatives"].back();
  Json edited = Json::parse(contents(plan));
  edited["ops"]["fc1"]["strategy"] = op["strategy"];
  EXPECT_EQ(json_of({"check", put("changed.json", edited.dump())})["comm_bytes"],
            now + op["change_bytes"].get<int64_t>());
  EXPECT_GT(op["change_bytes"], 0);
  const Json weight = json_of({"explain", plan, "fc1.weight"});
  EXPECT_FALSE(weight.contains("op"));
  EXPECT_EQ(weight["tensor"]["home"], "[S(1), S(1)]");
  EXPECT_GT(weight["tensor"]["alternatives"].size(), 4u);

  const Outcome o = partita({"explain", plan, "fc1"});
  EXPECT_EQ(o.code, 0);
  for (const char* part : {"op fc1 (linear, forward)", "reads fc1.weight as [S(1), S(1)]", "parts along index o",
                           "all-gather", "inside", "tensor fc1 (activation", "made by fc1"})
    EXPECT_NE(o.out.find(part), std::string::npos) << part << " is not in " << o.out;
  EXPECT_NE(partita({"explain", plan}).out.find("the dearest of"), std::string::npos);
  expect_error({"explain", plan, "fc1.wieght"}, 3, {plan, "'fc1.wieght'", "fc1.weight"});
}

// Other choices of an op on six mesh axes are millions: those near the plan's are listed, and it takes no lowering.
TEST(Cli, ExplainOnManyMeshAxes) {
  const std::string plan = scratch("plan.json");
  json_of({"plan", "zoo:transformer?layers=1,hidden=64,heads=8,steps=16,vocabulary=96,batch=64", "--cluster",
           "dgx-h100:8", "--search", "soybean", "-o", plan});
  const Json op = json_of({"explain", plan, "layers.0.feed_forward.up"})["op"];
  EXPECT_GT(op["alternatives"].size(), 20u);
  EXPECT_LE(op["alternatives"].size(), 4096u);
  const std::string text = partita({"explain", plan, "layers.0.feed_forward.up"}).out;
  EXPECT_TRUE(
      std::regex_search(text, std::regex("[0-9]+ of [0-9]+ alternatives \\(that differ on one or two mesh axes")))
      << text.substr(0, 2000);
}

// 79 ops on 16,384 devices: planned with the figures of typical ones, checked and explained, but not run.
TEST(CliPlan, OnVeryManyDevices) {
  const std::string plan = scratch("plan.json");
  const Json made = json_of({"plan", "zoo:gpt2?layers=1", "--batch", "16384", "--cluster", "dgx-h100:2048", "--search",
                             "data-parallel", "-o", plan});
  EXPECT_EQ(made["devices"], 16384);
  EXPECT_EQ(made["typical_devices"], Json({"node0.gpu0", "node1024.gpu0", "node2047.gpu7"}));
  for (const char* key : {"step_time_us", "compute_time_us", "samples_per_second"})
    EXPECT_TRUE(made.contains(key)) << key;
  const Json checked = json_of({"check", plan});
  for (const char* key : {"comm_bytes", "peak_memory_bytes", "typical_devices"})
    EXPECT_EQ(checked[key], made[key]) << key;
  EXPECT_GT(made["peak_memory_bytes"], 1'000'000);
  EXPECT_EQ(json_of({"explain", plan})["comm_bytes"], made["comm_bytes"]);
  const Outcome o = partita({"check", plan});
  EXPECT_NE(o.out.find("on one of node0.gpu0, node1024.gpu0, node2047.gpu7"), std::string::npos) << o.out;
  const Json simulated = json_of({"simulate", plan});
  for (const char* key : {"step_time_us", "compute_time_us", "comm_bytes", "peak_memory_bytes"})
    EXPECT_EQ(simulated[key], made[key]) << key;
  EXPECT_FALSE(simulated.contains("utilization"));
  expect_error({"simulate", plan, "--trace", scratch("trace.json")}, 3,
               {plan, "tasks, too many to simulate or to run"});
}

TEST(CliPlan, TheBoundsProofIsJudgedBesideAnyPlanOfTheModel) {
  const std::string exact = scratch("exact.json"), other = scratch("other.json"), bound = scratch("bound.json.gz");
  const Json json = json_of({"plan", "zoo:mlp?layers=3", "--devices", "4", "--search", "exact", "--memory-limit",
                             "400kB", "--write-bound", bound, "-o", exact});
  const int64_t proved = json["lower_bound_comm_bytes"], bytes = json["comm_bytes"];
  EXPECT_EQ(proved, bytes);
  Json judged = json_of({"check", exact, "--bound", bound});
  EXPECT_EQ(judged["lower_bound_comm_bytes"], proved);
  EXPECT_EQ(judged["gap"], 0.0);
  EXPECT_EQ(judged["memory_limit_bytes"], 400000);
  ASSERT_EQ(partita({"plan", "zoo:mlp?layers=3", "--devices", "4", "--search", "equal-chop", "-o", other}).code, 0);
  judged = json_of({"check", other, "--bound", bound});
  EXPECT_EQ(judged["lower_bound_comm_bytes"], proved);
  EXPECT_GT(judged["gap"], 0.0);

  // It says over which mesh it is.
  const Json one = json_of(
      {"plan", "zoo:mlp?layers=3", "--devices", "4", "--search", "exact?mesh=4", "--write-bound", bound, "-o", other});
  EXPECT_EQ(json_of({"check", exact, "--bound", bound})["lower_bound_comm_bytes"], one["lower_bound_comm_bytes"]);
  ASSERT_EQ(partita({"plan", "zoo:mlp?layers=3", "--devices", "4", "--search", "exact", "--memory-limit", "400kB",
                     "--write-bound", bound, "-o", exact})
                .code,
            0);

  // It claims more than it proves; its numbers are others; it is of another model, cluster, space.
  const std::string text = solver::read_text(bound), claimed = fmt::format("\"{}\"", proved);
  auto edited = [&](const std::string& from, const std::string& to) {
    std::string wrong = text;
    EXPECT_NE(wrong.find(from), std::string::npos) << from;
    wrong.replace(wrong.find(from), from.size(), to);
    return put("edited.json", wrong);
  };
  expect_error({"check", exact, "--bound", edited(claimed, fmt::format("\"{}\"", proved + 1))}, 3,
               {"edited.json", fmt::format("claims a bound of {}", proved + 1), "proves"});
  expect_error(
      {"check", exact, "--bound", edited("\"memory_limit_bytes\":", "\"memory_limit_bytes\":1e30,\"before\":")}, 3,
      {"edited.json"});
  expect_error({"check", exact, "--bound", edited("\"tensor_entries\":67108864", "\"tensor_entries\":67108865")}, 3,
               {"edited.json", "tensor_entries is 67108865"});
  expect_error({"check", exact, "--bound", edited("\"extents\":[2,2]", "\"extents\":[4]")}, 3,
               {"edited.json", "variable 0"});
  expect_error({"check", exact, "--bound", edited("\"extents\":[2,2]", "\"extents\":[3,2]")}, 3,
               {"edited.json", "over mesh 3x2"});
  expect_error({"check", exact, "--bound", edited("\"space\"", "\"spaces\"")}, 3, {"edited.json", "has no space"});
  ASSERT_EQ(partita({"plan", "zoo:mlp?layers=2", "--devices", "4", "-o", other}).code, 0);
  expect_error({"check", other, "--bound", bound}, 3, {bound, "another model than 'zoo:mlp?layers=2'"});
  ASSERT_EQ(partita({"plan", "zoo:mlp?layers=3", "--devices", "2", "-o", other}).code, 0);
  expect_error({"check", other, "--bound", bound}, 3, {bound, "2x2"});

  // With pins the proof is of plans that have the same.
  const std::string pins = put(
      "pins.json",
      R"({"meshes": {"m0": {"extents": [2, 2], "devices": [0, 1, 2, 3]}}, "kept": {"fc2.weight": {"mesh": "m0", "sbp": ["B", "B"]}}})");
  const Json pinned = json_of({"plan", "zoo:mlp?layers=3", "--devices", "4", "--search", "exact", "--pin", pins,
                               "--write-bound", bound, "-o", other});
  EXPECT_GT(pinned["lower_bound_comm_bytes"], proved);
  EXPECT_EQ(json_of({"check", other, "--bound", bound})["lower_bound_comm_bytes"], pinned["lower_bound_comm_bytes"]);
  expect_error({"check", exact, "--bound", bound}, 3, {bound, "(in all 1), such as 'fc2.weight'"});
  expect_error({"plan", "zoo:mlp", "--search", "soybean", "--write-bound", bound}, 2,
               {"'soybean' cannot prove a lower bound", "exact"});
}

// A search from plan to plan leaves each time that its best became better, down to the plan that it returns.
TEST(CliPlan, TheTrailOfASearch) {
  const Json rows = json_of({"compare", "zoo:mlp?layers=3", "--cluster", "flexflow-p100", "--devices", "4",
                             "--objective", "time", "--max-steps", "600", "--search", "flexflow,soap,expert"})["rows"];
  ASSERT_EQ(rows.size(), 3u);
  for (const char* key : {"search_trail", "local_step_time_us", "local_lower_bound_us"})
    EXPECT_FALSE(rows[2].contains(key)) << key;
  for (size_t i = 0; i < 2; ++i) {
    expect_keys(rows[i], kPlanKeys, kMorePlanKeys);
    const Json& trail = rows[i]["search_trail"];
    ASSERT_GT(trail.size(), 1u) << rows[i]["search"];
    for (size_t k = 0; k < trail.size(); ++k) expect_keys(trail[k], {"proposals", "cpu_seconds", "local_step_time_us"});
    for (size_t k = 1; k < trail.size(); ++k) {
      EXPECT_LT(trail[k]["local_step_time_us"], trail[k - 1]["local_step_time_us"]) << rows[i]["search"];
      EXPECT_GE(trail[k]["proposals"], trail[k - 1]["proposals"]) << rows[i]["search"];
      EXPECT_GE(trail[k]["cpu_seconds"], trail[k - 1]["cpu_seconds"]) << rows[i]["search"];
    }
    EXPECT_EQ(trail.back()["local_step_time_us"], rows[i]["paper_cost"]) << rows[i]["search"];
    EXPECT_EQ(rows[i]["local_step_time_us"], rows[i]["paper_cost"]) << rows[i]["search"];
    EXPECT_GT(rows[i]["local_lower_bound_us"], 0) << rows[i]["search"];
    EXPECT_LE(rows[i]["local_lower_bound_us"], rows[i]["local_step_time_us"]) << rows[i]["search"];
    EXPECT_LE(trail.back()["proposals"], rows[i]["counters"]["proposals"]) << rows[i]["search"];
  }
}

TEST(CliPlan, TheObjectiveTime) {
  const Words model = {"zoo:mlp?layers=3", "--cluster", "p2.8xlarge", "--objective", "time"};
  auto with = [&](Words words, const Words& more) {
    words.insert(words.end(), model.begin(), model.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::string exact = scratch("exact.json"), bound = scratch("bound.json.gz");
  const Json json = json_of(with({"plan"}, {"--search", "exact", "--write-bound", bound, "-o", exact}));
  expect_keys(json, kPlanKeys, kMorePlanKeys);
  EXPECT_EQ(json["objective"], "time");
  EXPECT_FALSE(json.contains("lower_bound_comm_bytes"));
  EXPECT_EQ(json["serial_time_us"], json["lower_bound_serial_time_us"]);
  const Json judged = json_of({"check", exact, "--bound", bound});
  EXPECT_EQ(judged["lower_bound_serial_time_us"], json["lower_bound_serial_time_us"]);
  EXPECT_EQ(judged["serial_time_us"], json["serial_time_us"]);
  EXPECT_EQ(judged["gap"], 0.0);

  const Json rows = json_of(with({"compare"}, {"--search", "auto,exact,tofu,single"}))["rows"];
  ASSERT_EQ(rows.size(), 4u);
  for (const Json& row : rows) EXPECT_LE(rows[0]["step_time_us"], row["step_time_us"]) << row["search"];
  const Outcome o = partita(with({"plan"}, {"--search", "auto"}));
  EXPECT_NE(o.out.find("if nothing overlapped"), std::string::npos) << o.out;
  expect_error({"plan", "zoo:mlp", "--devices", "2", "--objective", "speed"}, 2, {"speed"});
}

TEST(CliPlan, InterruptedWithoutAPlan) {
  // The network's solutions are a little too large for the memory planner, so that there is an end to none of the
  // rounds.
  const Words tight = {"zoo:mlp?layers=12", "--devices", "8", "--memory-limit", "70000B", "--max-steps", "100000000"};
  Words words = {"plan", "--search", "exact"};
  words.insert(words.end(), tight.begin(), tight.end());
  Outcome o = interrupted(words, "communication [0-9]");
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_EQ(o.out, "");
  EXPECT_NE(o.err.find("exact: interrupted before a solution was found that fits"), std::string::npos) << o.err;
  words = {"compare", "--search", "exact,soybean"};
  words.insert(words.end(), tight.begin(), tight.end());
  o = interrupted(words, "communication [0-9]");
  EXPECT_EQ(o.code, 130) << o.err;
  for (const char* row :
       {"exact .* no plan: exact: interrupted", "soybean .* no plan: interrupted before this search began"})
    EXPECT_TRUE(std::regex_search(o.out, std::regex(row))) << o.out;
}

TEST(ManyCliPlan, InterruptedKeepsTheBest) {
  const std::string plan = scratch("plan.json");
  const Outcome o = interrupted(
      {"plan", "zoo:resnet-18?image=32", "--devices", "4", "--search", "exact", "--max-steps", "100000000", "-o", plan},
      "communication [0-9]");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find("interrupted: this is the best plan so far"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("MB, feasible"), std::string::npos) << o.err;
  EXPECT_EQ(partita({"check", plan}).code, 0);
}

TEST(CliRun, OutputsAreTheModels) {
  const std::string out = scratch("out.npz"), plan = scratch("plan.json");
  const Values expected = read_arrays(data("mlp-reference.npz")).at("y");
  const auto check = [&](const Words& words) {
    std::filesystem::remove(out);
    const Json json = json_of(words);
    EXPECT_EQ(json["outputs"]["y"]["shape"], Json({7, 5}));
    const Values y = read_arrays(out).at("y");
    ASSERT_EQ(y.shape, expected.shape);
    for (std::size_t i = 0; i < y.real.size(); ++i) EXPECT_NEAR(y.real[i], expected.real[i], 1e-5);
  };
  for (const char* devices : {"1", "3"})
    check({"run", data("mlp.onnx"), "--batch", "7", "--inputs", data("mlp-reference.npz"), "-o", out, "--devices",
           devices});
  ASSERT_EQ(partita({"plan", data("mlp.onnx"), "--bind", "batch=7", "--devices", "2", "-o", plan}).code, 0);
  check({"run", plan, "--inputs", data("mlp-reference.npz"), "-o", out});
  expect_error({"run", data("mlp.onnx"), "--batch", "6", "--inputs", data("mlp-reference.npz")}, 3,
               {"'x'", "[7, 12]", "[6, 12]", "--batch"});
}

// ---------------------------------------------------------------- --dump

Words files_in(const std::string& folder) {
  Words names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// The command with --dump into a folder that is not there yet; what it leaves in it.
Words dumped(Words words, const std::string& folder) {
  std::filesystem::remove_all(folder);
  words.insert(words.end(), {"--dump", folder});
  const Outcome o = partita(words);
  EXPECT_EQ(o.code, 0) << fmt::format("{}: {}", fmt::join(words, " "), o.err);
  return files_in(folder);
}

TEST(CliDump, WhatEachStepMakes) {
  const std::string plan = scratch("plan.json"), a = scratch("a/b"), b = scratch("b"), trace = scratch("trace.json");
  const Words files = dumped({"plan", "zoo:mlp", "--devices", "2", "--dtype", "bfloat16", "--recompute", "cheap",
                              "--search", "data-parallel", "-o", plan},
                             a);
  EXPECT_EQ(files, Words({"00-load.txt", "01-dtype.txt", "02-autodiff.txt", "03-factor.txt", "04-cluster.yaml",
                          "05-recompute.txt", "06-search.json", "07-check.json", "08-lower.txt", "09-simulate.json"}));
  EXPECT_EQ(contents(a + "/06-search.json"), contents(plan));
  const Graph training = parse_graph(contents(a + "/05-recompute.txt"), standard_ops());
  EXPECT_EQ(print(training), contents(a + "/05-recompute.txt"));
  EXPECT_EQ(print(parse_physical(contents(a + "/08-lower.txt"))), contents(a + "/08-lower.txt"));
  // A dumped cluster and a dumped plan are a cluster file and a plan file.
  EXPECT_EQ(json_of({"plan", "zoo:mlp", "--cluster", a + "/04-cluster.yaml"})["devices"], 2);
  EXPECT_EQ(partita({"simulate", a + "/06-search.json", "--trace", trace}).code, 0);
  EXPECT_EQ(contents(a + "/09-simulate.json"), contents(trace));
  EXPECT_EQ(Json::parse(contents(a + "/07-check.json"))["comm_bytes"], json_of({"check", plan})["comm_bytes"]);
  // What follows from a plan is the same where it is read.
  const Words read = dumped({"simulate", plan}, b);
  EXPECT_EQ(read, Words({"00-load.txt", "01-dtype.txt", "02-autodiff.txt", "03-factor.txt", "04-recompute.txt",
                         "05-read-plan.json", "06-cluster.yaml", "07-check.json", "08-lower.txt", "09-simulate.json"}));
  EXPECT_EQ(contents(b + "/04-recompute.txt"), contents(a + "/05-recompute.txt"));
  for (const char* same : {"08-lower.txt", "09-simulate.json"})
    EXPECT_EQ(contents(b + "/" + same), contents(a + "/" + same)) << same;
}

TEST(CliDump, OfEveryCommandThatHasSteps) {
  const std::string plan = scratch("plan.json"), folder = scratch("steps");
  ASSERT_EQ(partita({"plan", data("mlp.onnx"), "--batch", "7", "--devices", "2", "-o", plan}).code, 0);
  EXPECT_EQ(dumped({"check", plan}, folder).back(), "07-simulate.json");
  EXPECT_EQ(dumped({"explain", plan}, folder).back(), "05-check.json");
  EXPECT_EQ(dumped({"train", plan, "--steps", "1"}, folder).back(), "07-simulate.json");
  const Words run = dumped({"run", plan, "--inputs", data("mlp-reference.npz")}, folder);
  EXPECT_EQ(Words(run.end() - 3, run.end()), Words({"08-evaluation.txt", "09-evaluation-plan.json", "10-check.json"}));
  dumped({"plan", "zoo:mlp", "--devices", "2", "--search", "small-batch"}, folder);
  EXPECT_GT(Json::parse(contents(folder + "/04-search.json"))["step_time_us"], 0);
}

TEST(CliDump, AFolderThatCannotBeMade) {
  const std::string file = put("file", "");
  for (const std::string& folder : {file, file + "/folder"})
    expect_error({"plan", "zoo:mlp", "--dump", folder}, 3, {folder, "the folder cannot be made"});
  expect_error({"check", data("sharding_example.json"), "--bound", file, "--dump", scratch("d")}, 2,
               {"--dump", "a problem, not a plan"});
}

}  // namespace
}  // namespace partita
