// Prints each representation for --dump: its own text or JSON.
#include "partita/pipeline/printed.h"

#include <nlohmann/json.hpp>

#include "partita/pipeline/fingerprint.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

Printed printed_json(const Json& json) { return {"json", json.dump(2) + "\n"}; }

}  // namespace

Printed printed(const Graph& graph) { return {"txt", print(without_weights(graph))}; }

Printed printed(const LoadedModel& model) { return printed(model.forward); }

Printed printed(const Cluster& cluster) { return {"yaml", cluster.text}; }

Printed printed(const CheckReport& report) {
  return printed_json(
      {{"comm_bytes", report.comm_bytes}, {"inner_bytes", report.inner_bytes}, {"conversions", report.conversions}});
}

Printed printed(const PhysicalGraph& graph) { return {"txt", print(graph)}; }

Printed printed(const Plan& plan, const Graph& graph) { return {"json", print(plan, graph)}; }

Printed printed(const SearchResult& found) {
  if (!found.estimate) return printed_json({{"reason", found.reason}});
  return printed_json({{"batch", found.estimate->batch},
                       {"step_time_us", static_cast<double>(found.estimate->step_time_ns) / 1e3},
                       {"peak_memory_bytes", found.estimate->peak_memory_bytes},
                       {"host_bytes", found.estimate->host_bytes}});
}

Printed printed(const Trace& trace, const PhysicalGraph& physical, const Cluster& cluster) {
  return {"json", chrome_trace(trace, physical, cluster)};
}

}  // namespace partita
