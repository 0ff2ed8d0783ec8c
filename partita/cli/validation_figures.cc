// Prints how well a predicted step is known.
#include "partita/cli/validation_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "partita/base/units.h"

namespace partita {

std::string validation_text(const Validation& known) {
  const std::string steps =
      fmt::format("{} published step{} of {}", known.runs == 0 ? "no" : std::to_string(known.runs),
                  known.runs == 1 ? "" : "s", known.device);
  const std::string band = fmt::format("8 of 10 took {:.2f} to {:.2f} times what is predicted", known.low, known.high);
  if (known.runs >= kEnoughRuns) return steps + ": " + band;
  return fmt::format("{}, {}derived as for others, of which {}", steps, known.runs > 0 ? "too few; " : "", band);
}

void print_validation(const Planned& p) {
  const auto step_ns = static_cast<double>(p.step_time_ns());
  for (const Validation& known : validations(p.cluster))
    fmt::print("validation     {}, here {} to {}\n", validation_text(known), time_text(known.low * step_ns),
               time_text(known.high * step_ns));
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
  const double step_us = static_cast<double>(p.step_time_ns()) / 1e3;
  json["step_time_low_us"] = low * step_us;
  json["step_time_high_us"] = high * step_us;
}

}  // namespace partita
