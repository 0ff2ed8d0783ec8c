// Lists the keys that --json prints of plans, and checks output for them.
#include "keys.h"

namespace partita {

void expect_keys(const Json& json, const std::set<std::string>& needed, const std::set<std::string>& optional) {
  std::set<std::string> missing = needed;
  for (const auto& [key, value] : json.items()) {
    EXPECT_TRUE(needed.contains(key) || optional.contains(key)) << "unknown key " << key;
    EXPECT_FALSE(value.is_null()) << key;
    missing.erase(key);
  }
  EXPECT_TRUE(missing.empty()) << fmt::format("missing: {}", fmt::join(missing, ", "));
}

const std::set<std::string> kPlanKeys = {"model",
                                         "cluster",
                                         "devices",
                                         "search",
                                         "objective",
                                         "comm_bytes",
                                         "comm_bytes_per_device",
                                         "step_time_us",
                                         "peak_memory_bytes",
                                         "search_seconds",
                                         "batch",
                                         "samples_per_second",
                                         "nominal"};
const std::set<std::string> kMorePlanKeys = {"exposed_communication_us",
                                             "validation",
                                             "step_time_low_us",
                                             "step_time_high_us",
                                             "beyond_validation",
                                             "peak_memory_by_kind",
                                             "kernels",
                                             "estimated_kernels",
                                             "tokens_per_second",
                                             "least_memory_bytes",
                                             "model_flops",
                                             "model_flops_utilization",
                                             "slow_products",
                                             "bubble_us",
                                             "waiting_us",
                                             "stages",
                                             "schema_version",
                                             "plan",
                                             "compute_time_us",
                                             "lower_bound_us",
                                             "lower_bound_comm_bytes",
                                             "gap",
                                             "proposals",
                                             "paper_cost",
                                             "counters",
                                             "search_trail",
                                             "local_step_time_us",
                                             "local_lower_bound_us",
                                             "host_bytes",
                                             "serial_time_us",
                                             "faster",
                                             "idle_devices",
                                             "mixed_devices",
                                             "lower_bound_serial_time_us"};

}  // namespace partita
