// Tests the program as a user meets it: its words, output and files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "keys.h"
#include "partita/models/models.h"
#include "partita/ops/ops.h"
#include "partita/physical/physical.h"
#include "program.h"

namespace partita {
namespace {

TEST(CliErrors, Usage) {
  for (const Words& words : std::vector<Words>{{},
                                               {"dance"},
                                               {"plan"},
                                               {"plan", "zoo:mlp", "--no-such-option"},
                                               {"plan", "zoo:mlp", "--search"},
                                               {"train", "zoo:mlp", "--steps", "many"},
                                               {"train", "zoo:mlp", "--steps", "0"},
                                               {"train", "zoo:mlp", "--steps", "1", "--epochs", "1"},
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
  expect_error({"plan", "zoo:mlp", "--schedule", "cosine"}, 2, {"'cosine'", "steps"});
  expect_error({"train", "zoo:mlp", "--schedule", "jump"}, 2, {"'jump'", "linear"});
  expect_error({"train", "zoo:mlp", "--dtype", "int64"}, 2, {"'int64'", "float32"});
}

// The same for plan and train; a plan's file that was changed by hand gives the same message.
TEST(CliErrors, ValuesOutOfRange) {
  for (const char* command : {"plan", "train"}) {
    const auto refused = [&](const Words& options, const Words& parts) {
      expect_error(with({command, "zoo:mlp?width=4,batch=2"}, options), 3, parts);
    };
    for (const char* value : {"-1", "nan", "inf", "-inf"}) {
      refused({"--lr", value}, {"--lr", "from 0 to below", fmt::format("not {}", value)});
      refused({"--momentum", value}, {"--momentum", "from 0 to below", fmt::format("not {}", value)});
      refused({"--weight-decay", value}, {"--weight-decay", "from 0 to below", fmt::format("not {}", value)});
      refused({"--clip-norm", value}, {"--clip-norm", "above 0", fmt::format("not {}", value)});
      refused({"--loss-scale", value}, {"--loss-scale", "above 0", fmt::format("not {}", value)});
      refused({"--optimizer", fmt::format("adamw?beta2={}", value)},
              {"beta2", "from 0 to below 1", fmt::format("not {}", value)});
    }
    refused({"--clip-norm", "0"}, {"--clip-norm", "above 0", "not 0"});
    const Outcome doubted = partita({command, "zoo:mlp?width=4,batch=2",
                                     command == std::string("plan") ? "--seed" : "--steps", "1", "--momentum", "2"});
    EXPECT_EQ(doubted.code, 0) << doubted.err;
    EXPECT_NE(doubted.err.find("a momentum of 2 "), std::string::npos) << doubted.err;
  }
  const std::string plan = scratch("plan.json");
  ASSERT_EQ(partita({"plan", "zoo:mlp?width=4,batch=2", "-o", plan}).code, 0);
  Json changed = Json::parse(contents(plan));
  changed["model"]["lr"] = -0.5;
  expect_error({"train", put("changed.json", changed.dump()), "--steps", "1"}, 3, {"--lr", "not -0.5"});
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

// ---------------------------------------------------------------- results

TEST(Cli, PlanningCommandsKeepTheirKeys) {
  const Json show = json_of({"show", "zoo:lenet"});
  expect_keys(show,
              {"schema_version", "name", "inputs", "outputs", "parameters", "active_parameters", "parameter_bytes",
               "repeats", "ops", "ops_forward", "flops_per_step", "activation_bytes", "tied", "untrained",
               "with_normalization", "perhaps_buffers", "other_shapes", "rounded"},
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
                          "waiting_us", "stages", "comm_bytes", "comm_bytes_per_device", "peak_memory_bytes",
                          "peak_memory_by_kind", "least_memory_bytes", "utilization", "tasks", "devices",
                          "simulate_seconds", "nominal"});
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
  EXPECT_EQ(simulated["peak_memory_by_kind"], plan["peak_memory_by_kind"]);
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

  // The same seed gives the same file. Standard output without --json is the same except for the time taken.
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

// ---------------------------------------------------------------- --dump

Words files_in(const std::string& folder) {
  Words names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// Runs the command with --dump into a folder that is not there yet, and returns the files in it.
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
  // The steps after a plan are the same if it is read from a file.
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
