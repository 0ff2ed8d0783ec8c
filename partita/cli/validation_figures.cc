// Prints how well a predicted step is known.
#include "partita/cli/validation_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "partita/base/units.h"
#include "partita/graph/places.h"

namespace partita {
namespace {

constexpr int64_t kLongSequence = 8192;  // the rows of longer ones are apart in docs/reproduction/published-steps.md

}  // namespace

std::string validation_text(const Validation& known) {
  const std::string steps =
      fmt::format("{} published step{} of {}", known.runs == 0 ? "no" : std::to_string(known.runs),
                  known.runs == 1 ? "" : "s", known.device);
  const std::string band = fmt::format("8 of 10 took {:.2f} to {:.2f} times what is predicted", known.low, known.high);
  if (known.runs >= kEnoughRuns) return steps + ": " + band;
  return fmt::format("{}, {}derived as for others, of which {}", steps, known.runs > 0 ? "too few; " : "", band);
}

std::vector<std::string> beyond_validation(const Planned& p) {
  std::vector<std::string> unlike;
  if (validations(p.cluster).empty()) return unlike;
  if (has_experts(p.forward)) unlike.emplace_back("no published step has experts, and this model has");
  if (p.tokens_per_sample().value_or(0) > kLongSequence)
    unlike.push_back(fmt::format(
        "published steps of sequences of over {} tokens took 1.5 to 1.8 times what is predicted", kLongSequence));
  const auto convolves = [](const Op& op) { return op.definition == "conv2d"; };
  if (std::any_of(p.forward.ops.begin(), p.forward.ops.end(), convolves))
    unlike.emplace_back("published steps of ResNet-50 on A100 and H100 took 1.7 times what is predicted");
  return unlike;
}

void print_validation(const Planned& p) {
  const auto step_ns = static_cast<double>(p.step_time_ns());
  for (const Validation& known : validations(p.cluster))
    fmt::print("validation     {}, here {} to {}\n", validation_text(known), time_text(known.low * step_ns),
               time_text(known.high * step_ns));
  for (const std::string& unlike : beyond_validation(p)) fmt::print("               {}\n", unlike);
}

void add_validation(nlohmann::ordered_json& json, const Planned& p) {
  const std::vector<Validation> all = validations(p.cluster);
  if (all.empty()) return;
  double low = all[0].low, high = all[0].high;
  json["validation"] = nlohmann::ordered_json::array();
  for (const Validation& known : all) {
    json["validation"].push_back(
        {{"device", known.device}, {"runs", known.runs}, {"low", known.low}, {"high", known.high}});
    low = std::min(low, known.low);
    high = std::max(high, known.high);
  }
  if (const std::vector<std::string> unlike = beyond_validation(p); !unlike.empty()) json["beyond_validation"] = unlike;
  const double step_us = static_cast<double>(p.step_time_ns()) / 1e3;
  json["step_time_low_us"] = low * step_us;
  json["step_time_high_us"] = high * step_us;
}

}  // namespace partita
