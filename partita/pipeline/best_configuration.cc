// Estimates configurations, and simulates the best.
#include "partita/pipeline/best_configuration.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "partita/base/attempt.h"
#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/cluster/same_type.h"
#include "partita/plan/rules.h"
#include "partita/search/all/search_text.h"

namespace partita {

bool leaves_configuration_open(const Request& request) {
  return request.objective == Objective::kTime && parse_search(request.search).entry->name == "auto" &&
         request.pin_file.empty() && request.from_file.empty() && !request.prove && !request.micro_batches &&
         request.batch_norm_groups.empty();
}

bool has_configurations(const Cluster& cluster) {
  if (cluster.profile || cluster.compute_count < 2) return false;
  for (int d = 1; d < cluster.compute_count; ++d)
    if (!is_same_type(cluster.devices[0], cluster.devices[static_cast<size_t>(d)])) return false;
  return true;
}

namespace {

// Configurations that differ in this are of different kinds.
auto kind_of(const Configuration& c) { return std::tuple(c.tensor, c.expert, c.pipeline, c.zero, c.recompute); }

Printed printed(const EstimatedSpace& space) {
  std::string text;
  for (const EstimatedConfiguration& c : space.all)
    text += fmt::format("{} {} ns {} bytes\n", search_text(c.configuration), c.step_ns, c.memory_bytes);
  return {"txt", text};
}

// Fills in the rows: the simulated step counts if there is one, and what was found not to fit is left out.
void fill_rows(ConfigurationTable& table, const EstimatedSpace& space) {
  constexpr size_t kBest = 10;
  std::vector<ConfigurationTable::Row> rows;
  for (size_t i = 0; i < space.fitting; ++i) {
    const auto simulated =
        std::ranges::find(table.finalists, space.all[i].configuration, &ConfigurationTable::Finalist::configuration);
    if (simulated == table.finalists.end()) rows.push_back({space.all[i], std::nullopt});
    else if (simulated->step_ns) rows.push_back({space.all[i], simulated->step_ns});
  }
  std::ranges::stable_sort(rows, {}, &ConfigurationTable::Row::step_ns);
  std::set<decltype(kind_of(Configuration()))> kinds;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const ConfigurationTable::Row& row : rows) {
    if (table.best.size() < kBest && kinds.insert(kind_of(row.estimate.configuration)).second)
      table.best.push_back(row);
    if (row.estimate.memory_bytes >= least) continue;
    least = row.estimate.memory_bytes;
    table.frontier.push_back(row);
  }
}

// A configuration that fits on more nodes.
struct OnMoreNodes {
  int nodes = 0;
  std::string cluster;
  EstimatedConfiguration configuration;
};

// Finds the fewest nodes of the same kind on which a configuration fits, if the cluster is a preset that has a number
// of nodes: twice as many until one fits, then by bisection.
std::optional<OnMoreNodes> fewest_nodes(const Request& request, const LoadedModel& model, const Cluster& cluster) {
  const size_t colon = request.cluster.find(':');
  const std::string preset = request.cluster.substr(0, colon);
  if (request.devices > 0 || preset == "local" || request.cluster.find_first_of("./") != std::string::npos) return {};
  const auto fitting = [&](int nodes) -> std::optional<OnMoreNodes> {
    try {
      Request other = request;
      other.cluster = fmt::format("{}:{}", preset, nodes);
      const Cluster larger = cluster_of(other);
      Estimator estimator(model.forward, model.loss, request.optimizer, larger,
                          request.bucket_bytes.value_or(kBucketBytes));
      if (auto found = find_fitting(estimator, larger)) return OnMoreNodes{nodes, other.cluster, *std::move(found)};
    } catch (const Error& error) {
      if (error.code() == ExitCode::kBug) throw;
    }
    return std::nullopt;
  };
  constexpr int kMostDevices = 16384;
  const int now = cluster.compute_count / node_size(cluster);
  std::optional<OnMoreNodes> found;
  int fewer = now;
  for (int nodes = 2 * now; !found && nodes * node_size(cluster) <= kMostDevices; nodes *= 2) {
    found = fitting(nodes);
    if (!found) fewer = nodes;
  }
  while (found && found->nodes - fewer > 1) {
    const int middle = (fewer + found->nodes) / 2;
    if (auto smaller = fitting(middle)) found = std::move(smaller);
    else fewer = middle;
  }
  return found;
}

[[noreturn]] void none_fits(const EstimatedSpace& space, const Request& request, const LoadedModel& model,
                            const Cluster& cluster) {
  const auto bytes = [](int64_t count) { return megabytes(static_cast<double>(count)); };
  const EstimatedConfiguration& nearest = space.all[0];
  std::string text = fmt::format("none of {} configurations fits in {} a device; the nearest needs {}, {} more: {}",
                                 space.all.size(), bytes(space.capacity_bytes), bytes(nearest.memory_bytes),
                                 bytes(nearest.deficit_bytes(space.capacity_bytes)), words(nearest.configuration));
  if (request.tell) request.tell("looks for the fewest nodes on which one fits");
  if (const auto more = fewest_nodes(request, model, cluster))
    text += fmt::format("; on {} nodes (--cluster {}) one fits by the estimate, in {}: {}", more->nodes, more->cluster,
                        bytes(more->configuration.memory_bytes), words(more->configuration.configuration));
  throw DoesNotApply(text);
}

// Four tenths of the time; without a limit 15 seconds, which few models need.
Watch watch_for_estimates(const Watch& watch) {
  if (watch.deadline) return watch.share(0.4);
  return {Watch::Clock::now() + std::chrono::seconds(15), watch.stop};
}

// Plans configurations, the best estimate first, and keeps the fastest.
class Finals {
 public:
  Finals(const Request& request, const Budget& budget, const PlanOne& plan, ConfigurationTable& table)
      : request_(request), budget_(budget), plan_(plan), table_(table), patience_(patience_of(budget.watch())) {}

  // The first plan is made even after Ctrl-C.
  void add(const EstimatedConfiguration& c) {
    Request one = request_;
    one.search = search_text(c.configuration);
    one.recompute = "none";  // the text has it
    one = with_search_options(one);
    Budget budget = budget_;
    if (!best_) budget.stop = nullptr;
    ConfigurationTable::Finalist finalist{c.configuration, c.step_ns, std::nullopt, ""};
    Attempt<Planned> planned = attempt([&] { return plan_(one, budget); });
    if (!planned.result) {
      if (planned.failure != Failure::kDoesNotFit && planned.failure != Failure::kDoesNotApply) {
        if (best_ && planned.failure == Failure::kEnded) return;
        planned.rethrow();
      }
      finalist.why_none = planned.message;
    } else {
      finalist.step_ns = planned.result->step_time_ns();
      if (!best_ || planned.result->step_time_ns() < best_->step_time_ns()) best_ = std::move(planned.result);
    }
    table_.finalists.push_back(std::move(finalist));
  }
  bool goes_on() const {
    if (!best_) return table_.finalists.size() < kMostRefused;
    return (budget_.deadline || table_.finalists.size() < kMost) && !patience_.ended();
  }
  std::optional<Planned>& best() { return best_; }

 private:
  static constexpr size_t kMost = 4;          // without a limit
  static constexpr size_t kMostRefused = 24;  // before the searches are asked
  static constexpr double kSeconds = 3;
  static Watch patience_of(const Watch& watch) {
    if (watch.deadline) return watch.share(0.5);
    return {Watch::Clock::now() +
                std::chrono::duration_cast<Watch::Clock::duration>(std::chrono::duration<double>(kSeconds)),
            watch.stop};
  }

  const Request& request_;
  const Budget& budget_;
  const PlanOne& plan_;
  ConfigurationTable& table_;
  Watch patience_;
  std::optional<Planned> best_;
};

}  // namespace

std::optional<Planned> plan_best_configuration(const Request& request, const LoadedModel& model, const Cluster& cluster,
                                               const Budget& budget, const PlanOne& plan, Runner& runner) {
  constexpr double kNear = 1.05;  // slower ones are not simulated
  std::optional<Estimator> estimator;
  try {
    estimator.emplace(model.forward, model.loss, request.optimizer, cluster,
                      request.bucket_bytes.value_or(kBucketBytes));
  } catch (const DoesNotApply&) {
    return std::nullopt;
  }
  if (request.before_search) request.before_search();
  if (request.tell) request.tell("estimates all configurations");
  const EstimatedSpace space = runner.step(
      "estimate",
      [&] {
        return estimate_space(*estimator, cluster, watch_for_estimates(budget.watch()),
                              request.recompute == "none" ? "" : request.recompute);
      },
      [](const EstimatedSpace& of) { return printed(of); });
  if (space.all.empty()) return std::nullopt;  // as with fewer samples than devices
  if (space.fitting == 0) none_fits(space, request, model, cluster);
  auto table = std::make_shared<ConfigurationTable>();
  table->count = space.all.size();
  table->fitting = space.fitting;
  table->capacity_bytes = space.capacity_bytes;
  table->whole = space.whole;
  Finals finals(request, budget, plan, *table);
  for (size_t i = 0; i < space.fitting && finals.goes_on(); ++i) {
    if (finals.best() && static_cast<double>(space.all[i].step_ns) > kNear * static_cast<double>(space.all[0].step_ns))
      break;
    if (request.tell) request.tell(fmt::format("plans and simulates {}", words(space.all[i].configuration)));
    finals.add(space.all[i]);
  }
  fill_rows(*table, space);
  if (finals.best()) finals.best()->configurations = std::move(table);
  return std::move(finals.best());
}

}  // namespace partita
