// Reads how accurate predictions for a cluster's device types are, from its text.
#include "partita/cluster/validation.h"

#include <algorithm>

#include "partita/cluster/device_types.h"

namespace partita {

namespace cluster_file {

Validation read_validation(const Reader& r, const YAML::Node& node, const std::string& device) {
  const std::string what = fmt::format("device type '{}': validation", device);
  validate_map(r, node, what, {"runs", "low", "high"});
  Validation v{device};
  const double runs = read_figure(r, node["runs"], what + ": runs", Sign::kNotNegative);
  v.runs = static_cast<int>(runs);
  if (v.runs != runs) r.fail_at(node["runs"], "{}: runs is {}; it must be a whole number", what, runs);
  v.low = read_figure(r, node["low"], what + ": low", Sign::kPositive);
  v.high = read_figure(r, node["high"], what + ": high", Sign::kPositive);
  if (v.low > v.high) r.fail_at(node, "{}: low is {}, above high, {}", what, v.low, v.high);
  return v;
}

}  // namespace cluster_file

std::vector<Validation> validations(const Cluster& cluster) {
  std::vector<Validation> found;
  if (cluster.profile) return found;
  const YAML::Node types = YAML::Load(cluster.text)["device_types"];
  for (const auto& entry : types) {
    const std::string model = entry.first.Scalar();
    const auto computes = [&](const Device& d) { return d.model == model; };
    if (const YAML::Node node = entry.second["validation"];
        node && std::any_of(cluster.devices.begin(), cluster.devices.begin() + cluster.compute_count, computes))
      found.push_back(cluster_file::read_validation({cluster.name}, node, model));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.device < b.device; });
  return found;
}

}  // namespace partita
