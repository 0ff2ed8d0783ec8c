// Explains a plan that has whole operations, each on one device, by its schedule.
#include <algorithm>
#include <cstdio>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/cli/explanation.h"
#include "partita/cli/plan_figures.h"
#include "partita/cli/progress.h"
#include "partita/physical/use.h"
#include "partita/search/device_placement/placements.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

constexpr size_t kRows = 40, kLinks = 12;
constexpr int kColumns = 40;         // of a chart
constexpr size_t kTimesOf = 4;       // devices whose time each row of the text has
constexpr size_t kNameColumns = 36;  // of a row's name

std::string ns_text(int64_t ns) { return time_text(static_cast<double>(ns)); }
std::string percent(int64_t part, int64_t of) {
  return fmt::format("{:.0f}%", 100 * static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, of)));
}
double us(int64_t ns) { return static_cast<double>(ns) / 1e3; }

StepUse use_of(const Planned& p) { return use_of(p.predicted, p.physical, p.training, kRows); }

const std::string& name_of(const Planned& p, DeviceId d) { return p.cluster.device(d).name; }

void print_devices(const Planned& p, const StepUse& use) {
  size_t width = 0;
  for (const DeviceUse& device : use.devices) width = std::max(width, name_of(p, device.device).size());
  for (size_t l = 0; l < std::min(kLinks, use.links.size()); ++l) width = std::max(width, use.links[l].name.size());
  size_t idle = 0;
  for (size_t d = 0; d < use.devices.size(); ++d) {
    const DeviceUse& device = use.devices[d];
    idle += device.ops == 0;
    if (device.ops == 0) continue;
    fmt::print("  {}  {:<{}} {} ops, computes for {}, {} of the step; holds up to {}\n", letter_of(d),
               name_of(p, device.device), width, device.ops, ns_text(device.compute_ns),
               percent(device.compute_ns, use.step_ns), megabytes(static_cast<double>(device.peak_bytes)));
  }
  if (idle > 0) fmt::print("     {} of {} devices run{} nothing\n", idle, use.devices.size(), idle == 1 ? "s" : "");
  for (size_t l = 0; l < std::min(kLinks, use.links.size()); ++l) {
    const LinkUse& link = use.links[l];
    fmt::print("     {:<{}} {} transfers of {}, busy for {}, {} of the step\n", link.name, width, link.transfers,
               megabytes(static_cast<double>(link.bytes)), ns_text(link.busy_ns), percent(link.busy_ns, use.step_ns));
  }
  if (use.links.size() > kLinks) fmt::print("     and {} links that are less busy\n", use.links.size() - kLinks);
}

std::string cut(const std::string& name) {
  if (name.size() <= kNameColumns) return name;
  return name.substr(0, kNameColumns / 2 - 1) + ".." + name.substr(name.size() - (kNameColumns / 2 - 1));
}

void print_rows(const StepUse& use) {
  const size_t times = use.devices.size() <= kTimesOf ? use.devices.size() : 0;
  size_t width = 5;
  for (const RowUse& row : use.rows) width = std::max(width, cut(row.name).size());
  fmt::print("  {:<{}} {:>6}", "layer", width, "ops");
  for (size_t d = 0; d < times; ++d) fmt::print(" {:>10}", fmt::format("on {}", d));
  fmt::print(" {:>10} {:>10}  from 0 to {}\n", "from", "to", ns_text(use.step_ns));
  for (const RowUse& row : use.rows) {
    fmt::print("  {:<{}} {:>6}", cut(row.name), width, row.ops);
    for (size_t d = 0; d < times; ++d) fmt::print(" {:>10}", row.compute_ns[d] > 0 ? ns_text(row.compute_ns[d]) : "-");
    fmt::print(" {:>10} {:>10}  {}\n", ns_text(row.start_ns), ns_text(row.end_ns),
               chart_of(row, use.step_ns, kColumns));
  }
}

// The op's time in the schedule, by the prediction.
std::optional<std::pair<int64_t, int64_t>> time_of(const Planned& p, OpId op) {
  std::optional<std::pair<int64_t, int64_t>> span;
  for (const Event& e : p.predicted.events) {
    const Task& task = p.physical.task(e.task);
    if (task.op != op || !std::holds_alternative<KernelWork>(task.work)) continue;
    if (!span) span = {e.start_ns, e.end_ns};
    span->second = std::max(span->second, e.end_ns);
  }
  return span;
}

std::string together_text(const Graph& graph, const std::vector<OpId>& ops, OpId self) {
  constexpr size_t kFew = 3;
  std::vector<std::string> names;
  for (OpId op : ops)
    if (op != self) names.push_back(graph.op(op).name);
  if (names.empty()) return "";
  if (names.size() > kFew) return fmt::format(" with {} and {} more, which stay together", names[0], names.size() - 1);
  return fmt::format(" with {}, which stay{} together", fmt::join(names, ", "), names.size() == 1 ? "s" : "");
}

std::string change_text(const PlacedAlternative& other) {
  if (other.deficit_bytes > 0)
    return fmt::format("does not fit: it needs {} more than a device has",
                       megabytes(static_cast<double>(other.deficit_bytes)));
  if (other.change_ns == 0) return "as long";
  return fmt::format("{} {}", ns_text(std::abs(other.change_ns)), other.change_ns > 0 ? "longer" : "shorter");
}

bool has_host_ops(const Planned& p) {
  return std::any_of(p.plan.ops.begin(), p.plan.ops.end(),
                     [&](const OpChoice& c) { return c.mesh.devices[0].value >= p.cluster.compute_count; });
}

}  // namespace

void print_placed(Explained& e) {
  const Planned& p = e.planned;
  const StepUse use = use_of(p);
  fmt::print("it places operations whole; a step takes {} ({})\n", ns_text(use.step_ns), source_of_times(p));
  if (e.placed) {
    const int64_t bound = e.placed->bounds().ns();
    fmt::print("  no placement of whole operations{}{} takes less than {} (gap {:.1f}%)\n",
               has_host_ops(p) ? " with these on hosts" : "",
               has_cold_times(p.cluster) ? ", each kernel as long as on one device," : "", ns_text(bound),
               100 * gap_of(use.step_ns, bound));
  }
  print_devices(p, use);
  print_rows(use);
}

void print_placed_op(Explained& e, OpId id) {
  const Planned& p = e.planned;
  fmt::print("  runs on {}", name_of(p, p.plan.ops[id.index()].mesh.devices[0]));
  if (const auto span = time_of(p, id))
    fmt::print(" from {} to {} of a step of {}", ns_text(span->first), ns_text(span->second),
               ns_text(p.predicted.step_time_ns));
  if (!e.placed) {
    fmt::print("\n");
    return;
  }
  fmt::print("{}\n", together_text(p.training, e.placed->together(id), id));
  const std::vector<PlacedAlternative> others = e.placed->alternatives(id);
  fmt::print("  {}\n", others.empty()
                           ? "no other device can run it"
                           : "on another device, in the plan's order, the step of whole operations would be:");
  for (const PlacedAlternative& other : others)
    fmt::print("  {:>18}  {}\n", name_of(p, other.device), change_text(other));
}

Json placed_json(Explained& e) {
  const Planned& p = e.planned;
  const StepUse use = use_of(p);
  Json json = {{"step_time_us", us(use.step_ns)}};
  if (e.placed) {
    const int64_t bound = e.placed->bounds().ns();
    json.update({{"lower_bound_step_time_us", us(bound)}, {"gap", gap_of(use.step_ns, bound)}});
  }
  json["devices"] = Json::array(), json["links"] = Json::array(), json["layers"] = Json::array();
  for (const DeviceUse& device : use.devices)
    json["devices"].push_back({{"name", name_of(p, device.device)},
                               {"ops", device.ops},
                               {"compute_time_us", us(device.compute_ns)},
                               {"peak_memory_bytes", device.peak_bytes}});
  for (const LinkUse& link : use.links)
    json["links"].push_back({{"name", link.name},
                             {"transfers", link.transfers},
                             {"bytes", link.bytes},
                             {"busy_time_us", us(link.busy_ns)}});
  for (const RowUse& row : use.rows) {
    json["layers"].push_back(
        {{"name", row.name}, {"ops", row.ops}, {"start_us", us(row.start_ns)}, {"end_us", us(row.end_ns)}});
    Json& on = json["layers"].back()["compute_time_us"] = Json::object();
    for (size_t d = 0; d < use.devices.size(); ++d)
      if (row.compute_ns[d] > 0) on[name_of(p, use.devices[d].device)] = us(row.compute_ns[d]);
  }
  return json;
}

Json placed_op_json(Explained& e, OpId id) {
  const Planned& p = e.planned;
  Json json = {{"device", name_of(p, p.plan.ops[id.index()].mesh.devices[0])}};
  if (const auto span = time_of(p, id)) json.update({{"start_us", us(span->first)}, {"end_us", us(span->second)}});
  if (!e.placed) return json;
  json["together"] = Json::array(), json["alternatives"] = Json::array();
  for (OpId op : e.placed->together(id)) json["together"].push_back(p.training.op(op).name);
  for (const PlacedAlternative& other : e.placed->alternatives(id))
    json["alternatives"].push_back({{"device", name_of(p, other.device)},
                                    {"change_us", us(other.change_ns)},
                                    {"fits", other.deficit_bytes <= 0},
                                    {"missing_memory_bytes", other.deficit_bytes}});
  return json;
}

}  // namespace partita
