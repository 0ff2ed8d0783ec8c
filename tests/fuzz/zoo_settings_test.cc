// Tests models of the zoo, cut down, under drawn settings: dtypes, clusters, devices, objectives, recomputation and
// every search. A plan that a search returns is lowered, and the verifier accepts the graph.
#include <gtest/gtest.h>

#include <cstdio>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/autodiff.h"
#include "partita/search/all/search_text.h"
#include "small_zoo.h"

namespace partita {
namespace {

template <typename T>
const T& drawn(Rng& rng, const std::vector<T>& from) {
  return from[rng.below(from.size())];
}

// Every search that makes plans, with every listed value of every option, one at a time; a count is 2.
std::vector<std::string> every_search() {
  std::vector<std::string> texts;
  for (const SearchEntry& entry : searches()) {
    if (entry.estimates || entry.seconds > 0) continue;
    texts.push_back(entry.name);
    for (const auto& [option, values] : entry.options)
      for (std::size_t i = 1; i < values.size(); ++i)
        if (values[i] != "PxQ" && values[i] != "A-B")
          texts.push_back(fmt::format("{}?{}={}", entry.name, option, values[i] == "N" ? "2" : values[i]));
  }
  return texts;
}

Request drawn_request(Rng& rng, const std::vector<std::string>& models) {
  static const std::vector<std::string> searches = every_search();
  Request request;
  request.model = drawn(rng, models);
  request.search = drawn(rng, searches);
  request.cluster = drawn(rng, std::vector<std::string>{"local:8", "dgx-1", "dgx-h100", "p2.8xlarge", "flexflow-p100"});
  request.devices = static_cast<int>(rng.between(2, 8));
  request.objective = drawn(rng, std::vector<Objective>{Objective::kComm, Objective::kTime});
  request.dtype = drawn(rng, std::vector<DType>{DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16});
  request.recompute = drawn(rng, recompute_kinds());
  request.optimizer.kind = drawn(rng, std::vector<std::string>{"sgd", "adam"});
  if (rng.below(3) == 0) request.optimizer.clip_norm = 1;
  request.budget.steps = 20;
  return request;
}

std::string command(const Request& r) {
  return fmt::format(
      "partita plan '{}' --cluster {} --devices {} --search '{}' --objective {} --dtype {} --recompute {} --optimizer "
      "{}{} --max-steps 20",
      r.model, r.cluster, r.devices, r.search, text_of(r.objective), name_of(r.dtype), r.recompute, r.optimizer.kind,
      r.optimizer.clip_norm > 0 ? " --clip-norm 1" : "");
}

void try_settings(uint64_t seed, int rounds, const std::vector<std::string>& models) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  int planned = 0;
  for (int round = 0; round < rounds; ++round) {
    const Request request = drawn_request(rng, models);
    SCOPED_TRACE(command(request));
    std::printf("%s\n", command(request).c_str());
    std::fflush(stdout);
    try {
      Runner runner;
      plan_model(request, runner);
      ++planned;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kInfeasible) << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  std::printf("%d of %d planned\n", planned, rounds);
  EXPECT_GE(planned, rounds / 2);
}

std::vector<std::string> references(const std::vector<SmallModel>& models) {
  std::vector<std::string> names;
  for (const SmallModel& small : models) names.push_back(small.reference);
  return names;
}

// `exact` made partial sums into partial maxima here, for a cast.
TEST(ZooSettings, MixedPrecisionByTime) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16})
    for (const char* model : {"zoo:gpt2?layers=1,steps=16,hidden=96,heads=2,vocabulary=99",
                              "zoo:bert-base?layers=1,steps=16,hidden=96,heads=2,vocabulary=99"}) {
      Request request;
      request.model = model;
      request.bindings["batch"] = "8";
      request.cluster = "dgx-1";
      request.dtype = dtype;
      request.objective = Objective::kTime;
      request.search = "exact";
      request.budget.steps = 20;
      Runner runner;
      EXPECT_NO_THROW(plan_model(request, runner)) << command(request);
    }
}

TEST(ZooSettings, NoPlanOfASearchIsRefused) {
  const auto small = [](const std::string& name) {
    return name == "gpt2" || name == "bert" || name == "mlp" || name == "lenet" || name == "rnnlm" || name == "mixtral";
  };
  try_settings(1, 30, references(small_zoo(small)));
}
TEST(LongZooSettings, NoPlanOfASearchIsRefused) { try_settings(2, 1500, references(small_zoo())); }

}  // namespace
}  // namespace partita
