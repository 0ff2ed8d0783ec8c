// Tests SIGINT, SIGTERM and SIGHUP in every phase of commands (docs/reference/cli.md, Signals).
#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "partita/runtime/safetensors.h"
#include "tests/e2e/shell.h"

namespace partita {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::string fresh(const std::string& name) {
  std::filesystem::remove(scratch(name));
  return scratch(name);
}
std::string fifo(const std::string& name) {
  const std::string path = fresh(name);
  EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
  return path;
}
void nap(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

// Once standard error says so; without words after a while, when it waits.
Outcome ended_by(int signal, const Words& words, const std::string& until) {
  const Child child = start(words);
  for (int i = 0; i < 1200 && !until.empty() && contents(child.err_file).find(until) == std::string::npos; ++i) nap(50);
  nap(200);
  EXPECT_EQ(kill(child.pid, signal), 0);
  return finish(child);
}

TEST(Signals, EndWhatHasNothingToKeep) {
  const std::string model = fifo("model.onnx"), config = fifo("config.json"), table = fifo("table"),
                    arrays = fifo("arrays");
  for (const int signal : kSignals)
    for (const auto& [file, words] : std::vector<std::pair<std::string, Words>>{
             {model, {"show", model}},
             {config, {"plan", config}},
             {model, {"compare", model, "--search", "single"}},
             {config, {"solve", config}},
             {config, {"place", config, "--format", "dnn-partitioning", "--objective", "max-load"}},
             {table, {"predict", table, "--cluster", "dgx-h100"}},
             {arrays, {"train", "zoo:mlp", "--search", "single", "--data", arrays, "--steps", "1"}},
             {arrays, {"run", "zoo:mlp", "--inputs", arrays}}}) {
      SCOPED_TRACE(fmt::format("{}, signal {}", words[0], signal));
      const Child child = start(words);
      int writer = -1;  // is there once the program reads
      for (int i = 0; i < 3000 && (writer = open(file.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0; ++i) nap(10);
      EXPECT_GE(writer, 0);
      nap(20);
      EXPECT_EQ(kill(child.pid, signal), 0);
      const Outcome o = finish(child);
      close(writer);
      EXPECT_EQ(o.code, 130);
      EXPECT_TRUE(o.err.ends_with("partita: interrupted\n")) << o.err;
      EXPECT_EQ(o.out, "");
    }
}

TEST(Signals, EndAWaitForTheReaderOfAFifo) {
  for (const int signal : kSignals) {
    const std::string weights = fifo("weights"), log = fresh("log");
    const Outcome o = ended_by(
        signal, {"train", "zoo:mlp?width=8,batch=8", "--steps", "20", "--save", weights, "--log", log}, "step 20/20");
    EXPECT_EQ(o.code, 130) << o.err;
    EXPECT_NE(o.err.find("weights: interrupted while it waited for a reader"), std::string::npos) << o.err;
    const std::string lines = contents(log);
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 20);
    EXPECT_EQ(ended_by(signal, {"plan", "zoo:mlp", "-o", weights}, "").code, 130);
  }
  // A reader who does not read on.
  const std::string weights = fifo("weights"), held = scratch("held");
  const int reader = open(weights.c_str(), O_RDWR | O_CLOEXEC);
  const Outcome o =
      ended_by(SIGTERM, {"train", "zoo:mlp?width=400,batch=8", "--steps", "2", "--save", weights}, "step 2/2");
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_NE(o.err.find("interrupted while it waited for its reader"), std::string::npos) << o.err;
  close(reader);
}

// It ends more than the search: a plan was not what was asked for.
TEST(Signals, EndTrainWhileItIsPlanned) {
  for (const int signal : kSignals)
    for (const Words& command : {Words{"train", "--steps", "1"}, Words{"run", "--inputs", data("mlp-reference.npz")}}) {
      if (command[0] == "run" && signal != SIGTERM) continue;
      const std::string file = fresh("file");
      Words words = {command[0], "zoo:resnet-18?image=32", "--devices", "4", "--search", "exact", "--max-steps",
                     "100000000"};
      words.insert(words.end(), command.begin() + 1, command.end());
      if (command[0] == "train") words.insert(words.end(), {"--save", file});
      const Outcome o = interrupted(words, "communication [0-9]", signal);
      EXPECT_EQ(o.code, 130) << o.err;
      EXPECT_NE(o.err.find("interrupted while it was planned, and nothing ran"), std::string::npos) << o.err;
      EXPECT_EQ(o.out, "");
      EXPECT_FALSE(std::filesystem::exists(file));
    }
}

TEST(Signals, EndTrainAfterTheStepsUnderWay) {
  for (const int signal : kSignals) {
    const std::string weights = fresh("weights.safetensors"), log = fresh("log");
    const Outcome o = interrupted(
        {"train", "zoo:mlp?width=12", "--devices", "2", "--steps", "100000000", "--log", log, "--save", weights},
        "step ", signal);
    EXPECT_EQ(o.code, 130) << o.err;
    EXPECT_NE(o.err.find("interrupted after step "), std::string::npos) << o.err;
    EXPECT_EQ(read_safetensors(weights).size(), 8u);
    EXPECT_FALSE(contents(log).empty());
  }
}

// Once the weights are there, comparing and testing them can be repeated.
TEST(Signals, EndTheComparisonWithTheSerialRun) {
  const std::string weights = fresh("weights.safetensors");
  const Child child = start({"train", "zoo:mlp?width=400,layers=6", "--devices", "2", "--search", "data-parallel",
                             "--steps", "60", "--dtype", "float64", "--verify", "serial", "--save", weights});
  for (int i = 0; i < 1200 && !std::filesystem::exists(weights); ++i) nap(10);
  EXPECT_EQ(kill(child.pid, SIGTERM), 0);
  const Outcome o = finish(child);
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_FALSE(read_safetensors(weights).empty());
}

TEST(Signals, OfNohupStayIgnored) {
  const std::string log = fresh("log"), out = scratch("out");
  const Outcome o =
      shell(fmt::format("trap '' HUP; PARTITA train zoo:mlp?width=8,batch=8 --steps 3000 --log {} 2>{} & sleep 0.5; "
                        "kill -HUP $!; wait $!",
                        log, out));
  EXPECT_EQ(o.code, 0) << contents(out);
}

// At any moment a run ends as documented, and its file is whole or not there.
TEST(ManySignals, AtAnyMoment) {
  const unsigned seed = 20261129;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 rng(seed);
  const std::string weights = scratch("weights.safetensors"), plan = scratch("plan.json");
  for (int run = 0; run < 30; ++run) {
    std::filesystem::remove(weights), std::filesystem::remove(plan);
    const int signal = kSignals[rng() % 3], wait = static_cast<int>(rng() % 1200);
    const bool trains = run % 2 == 0;
    const Child child =
        start(trains ? Words{"train", "zoo:mlp?width=200", "--devices", "2", "--steps", "300", "--save", weights}
                     : Words{"plan", "zoo:resnet-50", "--batch", "32", "--cluster", "dgx-1", "-o", plan, "--time-limit",
                             "2"});
    nap(10 + wait);
    kill(child.pid, signal);
    const Outcome o = finish(child);
    SCOPED_TRACE(fmt::format("run {}: signal {} after {} ms: {}", run, signal, 10 + wait, o.err));
    EXPECT_TRUE(o.code == 130 || o.code == 0);
    if (std::filesystem::exists(weights)) EXPECT_GT(read_safetensors(weights).size(), 1u);
    if (std::filesystem::exists(plan)) EXPECT_FALSE(Json::parse(contents(plan))["ops"].empty());
    if (o.code == 0) EXPECT_TRUE(std::filesystem::exists(trains ? weights : plan));
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(weights).parent_path()))
      EXPECT_NE(entry.path().extension(), ".partial") << entry.path();
  }
}

}  // namespace
}  // namespace partita
