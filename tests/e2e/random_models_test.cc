// Tests random models under random plans: serial equals the reference evaluator of ONNX, parallel equals serial, every
// plan is accepted.
#include "tests/e2e/random_models.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "partita/base/error.h"
#include "partita/base/input_file.h"

namespace partita {
namespace {

constexpr unsigned kSecondsPerModel = 300;  // of a child's processor time

// A reason without words that differ from case to case, to count it under.
std::string kind_of(const std::string& reason) {
  std::string kind;
  for (char c : reason.substr(0, 160)) {
    const char k = std::isdigit(static_cast<unsigned char>(c)) ? '0' : c;
    if (k != '0' || kind.empty() || kind.back() != '0') kind += k;
  }
  return kind;
}

struct Tally {
  int pairs = 0, trained = 0, refused = 0, faults = 0;
  std::map<std::string, int> reasons, kinds;  // of refusals; of faults

  void add(const PairOutcome& outcome, const std::string& command) {
    ++pairs;
    trained += outcome.trained;
    if (!outcome.refused.empty()) ++refused, ++reasons[kind_of(outcome.refused)];
    if (outcome.fault.empty()) return;
    ++faults;
    ++kinds[kind_of(outcome.fault)];
    ADD_FAILURE() << outcome.fault << "\n" << command;
  }
  void print() const {
    std::printf("%d pairs, %d trained, %d refused, %d faults\n", pairs, trained, refused, faults);
    for (const auto& [reason, count] : reasons) std::printf("%5d refused: %s\n", count, reason.c_str());
    for (const auto& [kind, count] : kinds) std::printf("%5d faults: %s\n", count, kind.c_str());
  }
};

std::string folder() {
  const std::string path = fmt::format("{}/random_models", PARTITA_BINARY_DIR);
  std::filesystem::create_directories(path);
  return path;
}

TEST(RandomModels, SixtyPairs) {
  constexpr uint64_t kSeed = 1;
  const std::vector<RandomModel> models =
      read_random_models(std::string(PARTITA_SOURCE_DIR) + "/tests/data/random_models.npz");
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  Tally tally;
  for (std::size_t i = 0; i < 60; ++i) {
    const RandomPair pair = random_pair(kSeed, i, models);
    const std::string file = fmt::format("{}/quick-{}.onnx", folder(), models[pair.model].name);
    write_npz(fmt::format("{}/quick-{}.npz", folder(), models[pair.model].name), models[pair.model].in);
    const std::string command = commands(pair, file);
    std::printf("pair %zu: %s\n", i, command.c_str());
    std::fflush(stdout);
    tally.add(try_pair(models[pair.model], pair, file), command);
  }
  tally.print();
  EXPECT_GE(tally.trained, 20);
}

TEST(RandomModels, ThirtyPairsOfTheZoo) {
  constexpr uint64_t kSeed = 1;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  const std::vector<RandomModel> models = small_zoo_models();
  Tally tally;
  for (std::size_t i = 0; i < 30; ++i) {
    const RandomPair pair = random_zoo_pair(kSeed, i, models);
    const std::string command = commands(pair, models[pair.model].name);
    std::printf("pair %zu: %s\n", i, command.c_str());
    std::fflush(stdout);
    tally.add(try_pair(models[pair.model], pair, fmt::format("{}/zoo-{}", folder(), i)), command);
  }
  tally.print();
  EXPECT_GE(tally.trained, 15);
}

// A model of tests/data/cases under these pairs; `model` of a pair is not looked at.
Tally tried(const std::string& name, const std::vector<RandomPair>& pairs) {
  const std::string from = fmt::format("{}/tests/data/cases/{}", PARTITA_SOURCE_DIR, name),
                    file = fmt::format("{}/{}.onnx", folder(), name);
  const RandomModel model{name, read_file(from + "/model.onnx"), read_arrays(from + "/in.npz"),
                          read_arrays(from + "/ref.npz")};
  Tally tally;
  for (const RandomPair& pair : pairs) tally.add(try_pair(model, pair, file), commands(pair, file));
  tally.print();
  return tally;
}

// Parameters without a gradient; digits of extent 1 (groups of one input channel); a product of terms that becomes a
// sum of terms.
TEST(RandomModels, FoundByOthers) {
  std::vector<RandomPair> pairs;
  for (const char* search : {"auto", "tofu", "icml18", "equal-chop", "zero", "model-parallel", "owt", "exact"})
    for (const char* cluster : {"local:2", "local:7"})
      pairs.push_back({0, search, cluster, "comm", "float64", "mse", "sgd"});
  int trained = 0;
  for (const char* name : {"no_gradient_cumsum", "no_gradient_7_devices", "grouped_conv1d", "prod_gemm_add"})
    trained += tried(name, pairs).trained;
  EXPECT_GE(trained, 15);
}

// The gradient of a slice is 0 where the slice has nothing. On a device that reads nothing of it, that is no term of
// its own next to the sum's other terms.
TEST(RandomModels, GradientsOfSlicesThatADeviceReadsNothingOf) {
  std::vector<RandomPair> pairs;
  for (const char* search : {"megatron?bucket=0", "zero", "data-parallel", "tofu"})
    for (const char* cluster : {"local:2", "local:6"})
      pairs.push_back({0, search, cluster, "comm", "float64", "elementwise", "clipped"});
  EXPECT_GE(tried("rnn_bias_clipped", pairs).trained, 4);
}

// A step brings it to its kept layout nevertheless: a kept schedule has that transfer.
TEST(RandomModels, InputsThatNobodyReads) {
  std::vector<RandomPair> pairs;
  for (const char* search : {"baechi-metf?order=critical", "baechi-mtopo?order=critical", "placement", "expert"})
    pairs.push_back({0, search, "dgx-1", "time", "float64", "elementwise", "sgd"});
  EXPECT_GE(tried("unread_input", pairs).trained, 3);
}

// No sample reaches an operation before the last layer's: there is none for a first stage.
TEST(RandomModels, StagesWithoutAnOperation) {
  const Tally tally = tried("one_stage_alone", {{0, "pipeline", "local:6", "comm", "float32", "mse", "sgd"}});
  EXPECT_EQ(tally.refused, 1);
}

// ---------------------------------------------------------------- 5,000 pairs, each model in a process of its own

// A child's output for each pair: 0 bytes between the fields, a newline behind.
void say(int to, const PairOutcome& outcome) {
  std::string line = fmt::format("{}\x1f{}\x1f{}", outcome.trained ? 1 : 0, outcome.refused, outcome.fault);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t n = write(to, line.data() + at, line.size() - at);
    if (n <= 0) _exit(3);
    at += static_cast<std::size_t>(n);
  }
}

PairOutcome heard(const std::string& line) {
  const std::size_t first = line.find('\x1f'), second = line.find('\x1f', first + 1);
  return {line.substr(first + 1, second - first - 1), line.substr(second + 1), line[0] == '1'};
}

// Tries the pairs of one model in a child. If it ends early, the pair that it was at is a fault, and another child
// takes the rest.
void try_in_child(const RandomModel& model, const std::vector<RandomPair>& pairs, const std::string& file,
                  Tally& tally) {
  const std::string& named = model.proto.empty() ? model.name : file;
  std::size_t done = 0;
  while (done < pairs.size()) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(ends[0]);
      const rlimit limit{kSecondsPerModel, kSecondsPerModel};
      setrlimit(RLIMIT_CPU, &limit);
      alarm(4 * kSecondsPerModel);
      for (std::size_t i = done; i < pairs.size(); ++i) say(ends[1], try_pair(model, pairs[i], file));
      _exit(0);
    }
    close(ends[1]);
    std::string text;
    char block[4096];
    for (ssize_t n; (n = read(ends[0], block, sizeof block)) > 0;) text.append(block, static_cast<std::size_t>(n));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1, ++done)
      tally.add(heard(text.substr(at, end - at)), commands(pairs[done], named));
    if (done < pairs.size()) {
      tally.add(
          {"",
           WIFSIGNALED(status) ? fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
                               : fmt::format("ended with {}", WEXITSTATUS(status)),
           false},
          commands(pairs[done], named));
      ++done;
    }
  }
}

// Pairs first to last - 1 of a list of models, each model's in children; `where` names a model's file.
template <typename Draw, typename Where>
void try_in_children(const std::vector<RandomModel>& models, std::size_t first, std::size_t last, Draw draw,
                     Where where) {
  Tally tally;
  for (std::size_t m = 0; m < models.size(); ++m) {
    std::vector<RandomPair> pairs;
    for (std::size_t i = first; i < last; ++i)
      if (i % models.size() == m) pairs.push_back(draw(i));
    try_in_child(models[m], pairs, where(models[m]), tally);
    if (m % 50 == 49 || m + 1 == models.size()) std::printf("%zu models\n", m + 1), tally.print(), std::fflush(stdout);
  }
  EXPECT_EQ(tally.pairs, static_cast<int>(last - first));
}

// PARTITA_RANDOM_SEED draws others.
uint64_t long_seed() {
  const char* given = std::getenv("PARTITA_RANDOM_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 2;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

// Made by tests/data/make_random_models.py in the build folder; skipped if the packages that it imports are not there
// (tools/setup.sh --tests).
TEST(LongRandomModels, FiveThousandPairs) {
  const uint64_t seed = long_seed();
  constexpr std::size_t kModels = 1000, kPairs = 5000;
  const std::string path = fmt::format("{}/{}.npz", folder(), seed);
  const std::string make = fmt::format(
      "{0} {1}/tools/isolated.py {1}/tests/data/make_random_models.py --seed {2} --count {3} --out {4} --folder "
      "{5}/{2}",
      PARTITA_PYTHON, PARTITA_SOURCE_DIR, seed, kModels, path, folder());
  if (std::string(PARTITA_PYTHON).empty() || std::system(make.c_str()) != 0)
    GTEST_SKIP() << make << ": no Python with the packages that tools/setup.sh --tests installs";
  const std::vector<RandomModel> models = read_random_models(path);
  try_in_children(
      models, 0, kPairs, [&](std::size_t i) { return random_pair(seed, i, models); },
      [seed](const RandomModel& model) { return fmt::format("{}/{}/{}.onnx", folder(), seed, model.name); });
}

// Several options of a search at once, micro-batches, recomputation, optimizers with states.
TEST(LongRandomModels, TwoThousandPairsOfTheZoo) {
  const uint64_t seed = long_seed();
  const std::vector<RandomModel> models = small_zoo_models();
  try_in_children(
      models, 0, 2000, [&](std::size_t i) { return random_zoo_pair(seed, i, models); },
      [&](const RandomModel& model) { return fmt::format("{}/zoo-{}", folder(), &model - models.data()); });
}

}  // namespace
}  // namespace partita
