// Tests errors in files that the program reads: models, plans, clusters, descriptions, data, weights.
#include <gtest/gtest.h>

#include <filesystem>

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
  // Settings that a plan has fixed can't be changed by options.
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
  // Arrays that are missing, superfluous and of another shape, all at once.
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

}  // namespace
}  // namespace partita
