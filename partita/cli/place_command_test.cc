// Tests `partita place` as a user meets it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "partita/base/input_file.h"
#include "partita/base/output_file.h"
#include "partita/base/rng.h"

namespace partita {
namespace {

using Json = nlohmann::ordered_json;

struct Outcome {
  int code = -1;
  std::string out;
};

Outcome run(const std::string& words, const std::string& errors = "/dev/null") {
  const std::string command = std::string(PARTITA_BINARY_DIR) + "/partita place " + words + " 2>" + errors;
  FILE* pipe = popen(command.c_str(), "r");
  Outcome o;
  char piece[4096];
  while (size_t got = std::fread(piece, 1, sizeof piece, pipe)) o.out.append(piece, got);
  const int status = pclose(pipe);
  o.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return o;
}

std::string scratch(const std::string& name) {
  const std::string folder = std::string(PARTITA_BINARY_DIR) + "/place_test/" +
                             ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::create_directories(folder);
  return folder + "/" + name;
}

Json node(int id, double cpu, double accelerator, double size) {
  return {{"id", id},     {"supportedOnFpga", true}, {"cpuLatency", cpu}, {"fpgaLatency", accelerator},
          {"size", size}, {"isBackwardNode", false}};
}

// 1 -> 2 -> 3: compute 4, 2, 4 on accelerators, outputs of 1 and 2 cost 1; memory for two of them.
Json chain() {
  return {{"maxSizePerFPGA", 20},
          {"maxFPGAs", 2},
          {"maxCPUs", 1},
          {"nodes", {node(1, 40, 4, 10), node(2, 20, 2, 10), node(3, 40, 4, 10)}},
          {"edges", {{{"sourceId", 1}, {"destId", 2}, {"cost", 1}}, {{"sourceId", 2}, {"destId", 3}, {"cost", 1}}}}};
}
std::string put(const std::string& name, const Json& graph) {
  write_file(scratch(name), graph.dump());
  return scratch(name);
}
const std::string kFormat = " --format dnn-partitioning --objective ";

TEST(PlaceCommand, MaxLoad) {
  const std::string graph = put("chain.json", chain()), placement = scratch("placement.json");
  const Outcome o = run(graph + kFormat + "max-load --contiguous -o " + placement);
  EXPECT_EQ(o.code, 0);
  EXPECT_TRUE(o.out.starts_with("max-load   7.000000, contiguous\nbound      7.000000, gap 0.0000%\n")) << o.out;
  EXPECT_NE(o.out.find("load 5.0000: compute 4.0000, communication 1.0000, memory 10 B of 20 B, 1 nodes"),
            std::string::npos)
      << o.out;
  EXPECT_NE(o.out.find("proved optimal after"), std::string::npos);
  const Json written = Json::parse(read_file(placement));
  EXPECT_EQ(written["maxLoad"], 7);
  EXPECT_EQ(written["fpgas"].size(), 2);
  EXPECT_EQ(written["fpgas"][0]["nodes"].size() + written["fpgas"][1]["nodes"].size(), 3);
  EXPECT_EQ(written["fpgas"][0]["load"].get<double>() + written["fpgas"][1]["load"].get<double>(), 12);
  EXPECT_EQ(written["cpus"][0]["nodes"].size(), 0);
}

TEST(PlaceCommand, Latency) {
  const std::string graph = put("chain.json", chain());
  const Json json = Json::parse(run(graph + kFormat + "latency --json --subgraphs 2").out);
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["objective"], "latency");
  EXPECT_EQ(json["status"], "optimal");
  EXPECT_EQ(json["value"], 12);
  EXPECT_EQ(json["lower_bound"], 12);
  EXPECT_EQ(json["proved"], true);
  EXPECT_EQ(json["devices"].size(), 5);  // two subgraphs of two accelerators, and all CPUs
  EXPECT_EQ(json["placement"]["totalLatency"], 12);
  EXPECT_EQ(json["placement"]["fpgas"].size(), 4);
}

TEST(PlaceCommand, ExitCodes) {
  const std::string graph = put("chain.json", chain());
  EXPECT_EQ(run(graph).code, 2);
  EXPECT_EQ(run(graph + kFormat + "speed").code, 2);
  EXPECT_EQ(run(graph + " --format onnx --objective latency").code, 2);
  EXPECT_EQ(run(graph + kFormat + "latency --contiguous").code, 2);
  EXPECT_EQ(run(graph + kFormat + "max-load --subgraphs 2").code, 2);
  EXPECT_EQ(run(graph + kFormat + "latency --subgraphs 0").code, 2);
  EXPECT_EQ(run(scratch("absent.json") + kFormat + "latency").code, 3);
  Json json = chain();
  json["nodes"][2]["isBackwardNode"] = true;
  EXPECT_EQ(run(put("backward.json", json) + kFormat + "max-load").code, 0);
  const std::string errors = scratch("errors.txt");
  EXPECT_EQ(run(put("backward.json", json) + kFormat + "latency", errors).code, 3);
  EXPECT_NE(read_file(errors).find("node 3 is a backward node"), std::string::npos) << read_file(errors);
  json = chain();
  json["maxCPUs"] = 0;
  json["maxSizePerFPGA"] = 10;
  const Outcome o = run(put("small.json", json) + kFormat + "max-load");
  EXPECT_EQ(o.code, 4);
  EXPECT_TRUE(o.out.starts_with("no placement fits: proved")) << o.out;
  EXPECT_EQ(run(put("small.json", json) + kFormat + "latency").code, 0);  // CPUs everywhere
}

// Each node has three readers among the next ten; 300 nodes take long.
std::string drawn_graph(int nodes) {
  Rng rng(11);
  Json json = {
      {"maxSizePerFPGA", 4000}, {"maxFPGAs", 5}, {"maxCPUs", 2}, {"nodes", Json::array()}, {"edges", Json::array()}};
  for (int v = 0; v < nodes; ++v) {
    json["nodes"].push_back(node(v, 10 + 100 * rng.uniform(), 1 + 5 * rng.uniform(), 1 + 20 * rng.uniform()));
    const double cost = rng.uniform();
    for (int k = 0; k < 3; ++k)
      if (const auto to = v + 1 + static_cast<int>(rng.below(10)); to < nodes)
        json["edges"].push_back({{"sourceId", v}, {"destId", to}, {"cost", cost}});
  }
  return put("long.json", json);
}

TEST(PlaceCommand, TimeLimitIsKept) {
  const std::string graph = drawn_graph(300);
  for (const char* objective : {"max-load", "max-load --contiguous", "latency"}) {
    const auto begin = std::chrono::steady_clock::now();
    const Json json = Json::parse(run(graph + kFormat + objective + " --json --time-limit 1 --max-steps 1000000").out);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(2000)) << objective;
    EXPECT_EQ(json["status"], "feasible") << objective;
    EXPECT_LT(json["lower_bound"], json["value"]) << objective;
  }
}

TEST(PlaceCommand, SeedAndStepsDecide) {
  const std::string graph = drawn_graph(60) + kFormat + "max-load --json --max-steps 1 --seed ";
  const auto placement = [&](const char* seed) { return Json::parse(run(graph + seed).out)["placement"]; };
  EXPECT_EQ(placement("3"), placement("3"));
  EXPECT_NE(placement("3"), placement("4"));
}

TEST(PlaceCommand, InterruptedKeepsTheBest) {
  const std::string graph = drawn_graph(300), out = scratch("out.json"), errors = scratch("progress.txt");
  write_file(errors, "");
  const pid_t child = fork();
  if (child == 0) {
    if (!std::freopen(out.c_str(), "w", stdout) || !std::freopen(errors.c_str(), "w", stderr)) _exit(99);
    const std::string program = std::string(PARTITA_BINARY_DIR) + "/partita";
    execl(program.c_str(), "partita", "place", graph.c_str(), "--format", "dnn-partitioning", "--objective", "max-load",
          "--json", "--max-steps", "1000000", nullptr);
    _exit(98);
  }
  for (int tries = 0; tries < 200 && read_file(errors).find("annealing: best") == std::string::npos; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(Json::parse(read_file(out))["status"], "feasible");
}

}  // namespace
}  // namespace partita
