// Tests `partita train` and `partita run` as a user meets them.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "keys.h"
#include "partita/runtime/npz.h"
#include "partita/runtime/safetensors.h"
#include "program.h"

namespace partita {
namespace {

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

// Counts firings in a Chrome trace.
int acts_in(const std::string& file) {
  const Json trace = Json::parse(contents(file));
  int firings = 0;
  for (const Json& event : trace.at("traceEvents")) firings += event.at("ph") == "X";
  return firings;
}

// The bias correction of Adam's means is near 0 for betas near 1. In float32 it keeps its digits.
TEST(CliTrain, AdamsCorrectionsAreThoseOfFloat64) {
  const auto last = [](const char* option, const char* dtype) {
    return json_of({"train", "zoo:mlp?batch=4,width=4,layers=2", "--steps", "3", "--devices", "2", "--lr", "0.1",
                    "--optimizer", option, "--dtype", dtype})["loss_last"]
        .get<double>();
  };
  for (const char* option : {"adam?beta2=0.99999999", "adamw?beta1=0.9999999", "adam?beta1=0,beta2=0"})
    EXPECT_NEAR(last(option, "float32"), last(option, "float64"), 1e-5) << option;
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
  // GPT-2's file has no prefix, and masks next to the weights. A run of momentum goes on, or starts without it if there
  // is none.
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
  // Three batches, whose losses distinguish them as long as no weight moves.
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
  // Once it prints a step, it is training.
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

}  // namespace
}  // namespace partita
