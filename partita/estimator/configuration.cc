// Names configurations for the command line and for readers.
#include "partita/estimator/configuration.h"

#include <fmt/ranges.h>

#include <vector>

namespace partita {

Pipelining Configuration::pipelining() const {
  return {.schedule = schedule, .ranks = pipeline, .virtual_stages = virtual_stages, .micro_batches = micro_batches};
}

GroupsOf Configuration::groups() const {
  return {.tensor = tensor, .context = context, .expert = expert, .sequence = sequence, .zero = zero};
}

std::string search_text(const Configuration& c) {
  std::vector<std::string> options{fmt::format("tensor={}", c.tensor)};
  const auto add = [&](bool differs, std::string option) {
    if (differs) options.push_back(std::move(option));
  };
  add(c.pipeline > 1, fmt::format("pipeline={}", c.pipeline));
  add(c.virtual_stages > 1, fmt::format("virtual={}", c.virtual_stages));
  add(c.pipeline > 1, c.layers.empty() ? "layers=even" : fmt::format("layers={}", fmt::join(c.layers, "-")));
  add(c.context > 1, fmt::format("context={}", c.context));
  add(c.expert > 1, fmt::format("expert={}", c.expert));
  add(c.sequence, "sequence=1");
  add(c.zero > 0, fmt::format("zero={}", c.zero));
  add(c.recompute != "none", fmt::format("recompute={}", c.recompute));
  options.push_back(fmt::format("micro-batch-size={}", c.micro_batch_size));
  return fmt::format("megatron?{}", fmt::join(options, ","));
}

std::string words(const Configuration& c) {
  std::vector<std::string> degrees;
  const auto degree = [&](const char* name, int value) {
    if (value > 1) degrees.push_back(fmt::format("{} {}", name, value));
  };
  degree("tp", c.tensor);
  degree("cp", c.context);
  degree("pp", c.pipeline);
  degree("ep", c.expert);
  degree("dp", c.data);
  if (degrees.empty()) degrees.push_back("dp 1");
  std::vector<std::string> parts{fmt::format("{}", fmt::join(degrees, " x "))};
  std::string batches = fmt::format("{} micro-batches of {}", c.micro_batches, c.micro_batch_size);
  if (c.pipeline > 1) {
    const std::string schedule =
        c.virtual_stages > 1 ? fmt::format("interleaved 1F1B of {}", c.virtual_stages) : "1F1B";
    batches = fmt::format("{} with {}", schedule, batches);
  }
  parts.push_back(std::move(batches));
  if (!c.layers.empty()) parts.push_back(fmt::format("layers {}", fmt::join(c.layers, "-")));
  if (c.sequence) parts.emplace_back("sequence parallel");
  if (c.zero > 0) parts.push_back(fmt::format("ZeRO-{}", c.zero));
  if (c.recompute != "none") parts.push_back(fmt::format("recompute {}", c.recompute));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace partita
