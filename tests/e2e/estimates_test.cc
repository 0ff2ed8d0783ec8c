// Tests estimates of configurations (estimator/) against their plans, lowered and simulated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/estimator/estimator.h"
#include "partita/pipeline/pipeline.h"
#include "partita/plan/rules.h"

namespace partita {
namespace {

struct Case {
  std::string model, cluster;
  int64_t batch = 0;
  double clip_norm = 0;
  Configuration configuration;
};

struct Compared {
  Case of;
  double step_error = 0, memory_error = 0;  // of the estimate, relative to the plan
  double estimated_ns = 0, planned_ns = 0;
};

template <typename T>
const T& drawn(Rng& rng, const std::vector<T>& from) {
  return from[static_cast<size_t>(rng.between(0, static_cast<int64_t>(from.size()) - 1))];
}

struct Model {
  std::string name;
  int heads = 0, layers = 0, experts = 1;
};

// Degrees and sizes as people train with: tensor parallelism inside a node, at least as many micro-batches as ranks.
std::optional<Case> drawn_case(Rng& rng, bool over_nodes) {
  static const std::vector<Model> models{{"zoo:llama-3-8b?layers=16", 8, 16},
                                         {"zoo:llama-3-70b?layers=16", 8, 16},
                                         {"zoo:llama-3-8b?layers=8", 8, 8},
                                         {"zoo:mixtral-8x7b?layers=8", 8, 8, 8},
                                         {"zoo:gpt2-xl?layers=16", 1, 16}};
  static const std::vector<std::pair<std::string, int>> one{{"dgx-h100", 8}, {"dgx-a100", 8}},
      several{{"dgx-h100:2", 16}, {"dgx-h100:4", 32}, {"dgx-a100:4", 32}, {"dgx-h100:8", 64}};
  const Model& model = drawn(rng, models);
  const auto& [cluster, devices] = drawn(rng, over_nodes ? several : one);
  Configuration c;
  c.tensor = drawn(rng, std::vector{1, 1, 2, 4, 8});
  c.context = drawn(rng, std::vector{1, 1, 1, 2});
  c.pipeline = drawn(rng, over_nodes ? std::vector{2, 2, 4, 8} : std::vector{1, 1, 2, 4, 8});
  c.expert = model.experts > 1 ? drawn(rng, std::vector{1, 2, 4, 8}) : 1;
  if (model.heads % c.tensor || devices % (c.devices_of_replica() * c.pipeline)) return std::nullopt;
  c.data = devices / (c.devices_of_replica() * c.pipeline);
  c.virtual_stages = c.pipeline > 1 ? drawn(rng, std::vector{1, 1, 2}) : 1;
  c.micro_batches = drawn(rng, std::vector{1, 4, 8, 16, 32});
  if (c.pipeline * c.virtual_stages > model.layers || c.micro_batches < c.pipeline ||
      (c.virtual_stages > 1 && c.micro_batches % c.pipeline) || (over_nodes && c.replicas() == 1))
    return std::nullopt;
  c.schedule = c.pipeline == 1 ? Schedule::kDefault : c.virtual_stages > 1 ? Schedule::kInterleaved : Schedule::k1F1B;
  c.micro_batch_size = drawn(rng, std::vector<int64_t>{1, 1, 2, 4});
  c.zero = c.replicas() == 1 ? 0 : drawn(rng, c.pipeline > 1 ? std::vector{0, 1, 1} : std::vector{0, 1, 2, 3});
  c.sequence = c.tensor > 1 && rng.between(0, 1) == 1;
  c.recompute = drawn(rng, std::vector<std::string>{"none", "none", "cheap", "attention", "layer"});
  return Case{model.name, cluster, c.replicas() * c.micro_batch_size * c.micro_batches,
              drawn(rng, std::vector{0.0, 1.0}), c};
}

Request request_of(const Case& of) {
  Request request;
  request.model = of.model;
  request.bindings["batch"] = std::to_string(of.batch);
  request.cluster = of.cluster;
  request.dtype = DType::kBFloat16;
  request.optimizer.kind = "adamw";
  request.optimizer.clip_norm = of.clip_norm;
  request.objective = Objective::kTime;
  request.memory_limit_bytes = int64_t{4} << 40;  // so that every plan is simulated
  request.search = search_text(of.configuration);
  return request;
}

// None: the model cannot take the configuration, and neither side does.
std::optional<Compared> compare(const Case& of) {
  const Request request = request_of(of);
  Runner runner(false);
  const LoadedModel model = load_model(request, runner);
  const Cluster cluster = cluster_of(request);
  Estimator estimator(model.forward, model.loss, request.optimizer, cluster, kBucketBytes);
  ConfigurationEstimate estimate;
  try {
    estimate = estimator.estimate(of.configuration);
  } catch (const DoesNotApply& error) {
    EXPECT_THROW(plan_model(request, runner), Error) << error.what();
    return std::nullopt;
  }
  const Planned planned = plan_model(request, runner);
  const auto error = [](int64_t estimated, int64_t exact) {
    return static_cast<double>(estimated) / static_cast<double>(exact) - 1;
  };
  return Compared{of, error(estimate.step_ns, planned.step_time_ns()),
                  error(estimate.memory_bytes, planned.least_memory_bytes()), static_cast<double>(estimate.step_ns),
                  static_cast<double>(planned.step_time_ns())};
}

void print(const Compared& c) {
  std::printf("%+6.1f%% %+6.1f%%  %8.1f ms  %s, batch %ld on %s: %s%s\n", 100 * c.step_error, 100 * c.memory_error,
              c.planned_ns / 1e6, c.of.model.c_str(), static_cast<long>(c.of.batch), c.of.cluster.c_str(),
              words(c.of.configuration).c_str(), c.of.clip_norm > 0 ? ", clipped" : "");
  std::fflush(stdout);
}

// The part of all that lie at or below.
double quantile(const std::vector<Compared>& all, double Compared::*of, double part) {
  std::vector<double> sizes;
  for (const Compared& c : all) sizes.push_back(std::abs(c.*of));
  std::ranges::sort(sizes);
  return sizes[std::min(sizes.size() - 1, static_cast<size_t>(part * static_cast<double>(sizes.size())))];
}

// Kendall's tau of estimated and planned steps: pairs in the same order less the others, over all.
double tau(const std::vector<Compared>& all) {
  int64_t sum = 0, pairs = 0;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j, ++pairs)
      sum += (all[i].estimated_ns < all[j].estimated_ns) == (all[i].planned_ns < all[j].planned_ns) ? 1 : -1;
  return static_cast<double>(sum) / static_cast<double>(pairs);
}

// Median errors of the cases that a configuration's feature divides from the others.
void print_axes(const std::vector<Compared>& all) {
  const std::vector<std::pair<const char*, bool (*)(const Case&)>> axes{
      {"tensor", [](const Case& c) { return c.configuration.tensor > 1; }},
      {"sequence", [](const Case& c) { return c.configuration.sequence; }},
      {"context", [](const Case& c) { return c.configuration.context > 1; }},
      {"expert", [](const Case& c) { return c.configuration.expert > 1; }},
      {"pipeline", [](const Case& c) { return c.configuration.pipeline > 1; }},
      {"virtual", [](const Case& c) { return c.configuration.virtual_stages > 1; }},
      {"data", [](const Case& c) { return c.configuration.data > 1; }},
      {"ZeRO", [](const Case& c) { return c.configuration.zero > 0; }},
      {"recompute", [](const Case& c) { return c.configuration.recompute != "none"; }},
      {"one micro-batch", [](const Case& c) { return c.configuration.micro_batches == 1; }},
      {"clipped", [](const Case& c) { return c.clip_norm > 0; }}};
  for (const auto& [name, has] : axes) {
    std::vector<Compared> with, without;
    for (const Compared& c : all) (has(c.of) ? with : without).push_back(c);
    if (with.empty() || without.empty()) continue;
    std::printf("%-16s %3zu with: step %.1f%%, memory %.1f%%; without: step %.1f%%, memory %.1f%%\n", name, with.size(),
                100 * quantile(with, &Compared::step_error, 0.5), 100 * quantile(with, &Compared::memory_error, 0.5),
                100 * quantile(without, &Compared::step_error, 0.5),
                100 * quantile(without, &Compared::memory_error, 0.5));
  }
}

// `most`: the largest error of a step.
void expect_near(int count, uint64_t seed, double most) {
  std::printf("%d configurations, seed %lu\n", count, static_cast<unsigned long>(seed));
  Rng rng(seed);
  std::vector<Compared> all;
  while (static_cast<int>(all.size()) < count) {
    const auto one = drawn_case(rng, all.size() % 4 == 0);
    if (!one) continue;
    SCOPED_TRACE(fmt::format("{} on {}: {}", one->model, one->cluster, search_text(one->configuration)));
    if (const auto compared = compare(*one)) all.push_back(*compared), print(all.back());
  }
  for (const auto& [name, of] : {std::pair("step", &Compared::step_error), {"memory", &Compared::memory_error}})
    std::printf("%-6s median %.1f%%, 95%% within %.1f%%, all within %.1f%%\n", name, 100 * quantile(all, of, 0.5),
                100 * quantile(all, of, 0.95), 100 * quantile(all, of, 1));
  std::printf("Kendall's tau of the steps %.3f\n", tau(all));
  print_axes(all);
  EXPECT_LE(quantile(all, &Compared::step_error, 0.5), 0.03);
  EXPECT_LE(quantile(all, &Compared::step_error, 1), most);
  EXPECT_LE(quantile(all, &Compared::memory_error, 0.5), 0.03);
  EXPECT_GE(tau(all), 0.95);
}

TEST(Estimates, AreNearTheSimulatedPlan) { expect_near(20, 5701, 0.10); }

// PARTITA_RANDOM_SEED changes what is drawn.
TEST(LongEstimates, TwoHundredConfigurations) {
  const char* seed = std::getenv("PARTITA_RANDOM_SEED");
  // Experts over several ranks of a small step are off by up to 13%.
  expect_near(200, seed ? std::strtoull(seed, nullptr, 10) : 57, 0.15);
}

}  // namespace
}  // namespace partita
