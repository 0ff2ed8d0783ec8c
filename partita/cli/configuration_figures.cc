// Prints estimated configurations as tables and as JSON.
#include "partita/cli/configuration_figures.h"

#include <cstdio>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/pipeline/best_configuration.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

// A step's figures for a reader who compares: tokens, or samples, in a second on each device, and MFU.
struct Rates {
  double per_device = 0;  // tokens a second; samples without tokens
  double utilization = 0;
};

Rates rates_of(const Planned& p, int64_t step_ns) {
  const double seconds = static_cast<double>(step_ns) / 1e9;
  const double samples = static_cast<double>(p.batch().value_or(0)) / seconds / p.cluster.compute_count;
  Rates out{samples * static_cast<double>(p.tokens_per_sample().value_or(1)), 0};
  if (const auto used = p.utilization())
    out.utilization = used->part * static_cast<double>(p.step_time_ns()) / static_cast<double>(step_ns);
  return out;
}

void print_row(const Planned& p, const ConfigurationTable::Row& row) {
  const EstimatedConfiguration& c = row.estimate;
  const Rates rates = rates_of(p, row.step_ns());
  fmt::print("  {:>9} {:<9} {:>12.0f} {:>6.1f}% {:>10} {:>6.1f}%  {}\n", time_text(static_cast<double>(row.step_ns())),
             row.simulated_ns ? "simulated" : "estimated", rates.per_device, 100 * rates.utilization,
             megabytes(static_cast<double>(c.memory_bytes)),
             100 * static_cast<double>(c.slowest.bubble_ns) / static_cast<double>(c.step_ns), words(c.configuration));
}

Json json_of(const Planned& p, const ConfigurationTable::Row& row) {
  const EstimatedConfiguration& c = row.estimate;
  return {{"search", search_text(c.configuration)},
          {"step_time_us", static_cast<double>(row.step_ns()) / 1e3},
          {"simulated", row.simulated_ns.has_value()},
          {p.tokens_per_sample() ? "tokens_per_second_per_device" : "samples_per_second_per_device",
           rates_of(p, row.step_ns()).per_device},
          {"memory_bytes", c.memory_bytes},
          {"waiting_us", static_cast<double>(c.slowest.bubble_ns) / 1e3}};
}

}  // namespace

void print_configurations(const Planned& p) {
  if (!p.configurations) return;
  constexpr double kShown = 1.5;  // times the fastest step; --json has the others
  const ConfigurationTable& table = *p.configurations;
  fmt::print("configurations {} estimated{}, {} fit in {} a device; {} simulated\n", table.count,
             table.whole ? "" : " so far", table.fitting, megabytes(static_cast<double>(table.capacity_bytes)),
             table.finalists.size());
  fmt::print("  {:>9} {:<9} {:>12} {:>7} {:>10} {:>7}  the best of each choice of degrees, ZeRO and recomputation\n",
             "step", "", p.tokens_per_sample() ? "tokens/s/dev" : "samples/s/dev", "MFU", "memory", "waits");
  for (const ConfigurationTable::Row& row : table.best) print_row(p, row);
  if (table.frontier.size() < 2) return;
  fmt::print("  with less memory, the fastest:\n");
  for (size_t i = 1; i < table.frontier.size(); ++i)
    if (static_cast<double>(table.frontier[i].step_ns()) <= kShown * static_cast<double>(table.best[0].step_ns()))
      print_row(p, table.frontier[i]);
}

void add_configurations(Json& json, const Planned& p) {
  if (!p.configurations) return;
  const ConfigurationTable& table = *p.configurations;
  Json out{{"estimated", table.count},
           {"fitting", table.fitting},
           {"capacity_bytes", table.capacity_bytes},
           {"whole", table.whole}};
  for (const auto* list : {&table.best, &table.frontier}) {
    Json rows = Json::array();
    for (const ConfigurationTable::Row& row : *list) rows.push_back(json_of(p, row));
    out[list == &table.best ? "best" : "frontier"] = rows;
  }
  out["simulated"] = Json::array();
  for (const ConfigurationTable::Finalist& f : table.finalists) {
    Json row{{"search", search_text(f.configuration)}, {"estimated_us", static_cast<double>(f.estimated_ns) / 1e3}};
    if (f.step_ns) row["step_time_us"] = static_cast<double>(*f.step_ns) / 1e3;
    else row["reason"] = f.why_none;
    out["simulated"].push_back(row);
  }
  json["configurations"] = out;
}

}  // namespace partita
