// Tries changes of a request that may make its plan fit, so that only those that do are told.
#include "partita/remedies.h"

#include <algorithm>
#include <chrono>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/cluster/presets.h"
#include "partita/graph/batch.h"
#include "partita/micro_batches.h"
#include "partita/physical/lower.h"
#include "partita/pipeline.h"
#include "partita/search/judge.h"

namespace partita {

namespace {

constexpr double kSeconds = 5;  // after these no trial is begun
constexpr int kHalvings = 5;    // of the batch
const char* const kSharded = "fsdp";
const char* const kPlaced = "placement";

// Of a plan that fits: the bytes of the device that needs most, and its step.
struct Fit {
  int64_t bytes = 0, step_ns = 0;
};
// Of the plan, where it fits. `deadline`: of a search; a rule, which stopped early has no plan, takes what it takes.
std::optional<Fit> fits(const Request& request, Watch::Clock::time_point deadline) try {
  Runner runner(false);
  const LoadedModel model = load_model(request, runner);
  const Cluster cluster = cluster_of(request);
  Request whole = request;
  whole.micro_batches = 1;
  Request in_parts = request;  // as many as may be: they need least memory
  in_parts.micro_batches = micro_batches_to_try(request, training_graph(model, whole, runner), cluster).counts.back();
  const Graph graph = training_graph(model, in_parts, runner);
  const SearchChoice choice = parse_search(request.search);
  Rng rng(request.seed);
  Budget budget{.steps = request.budget.steps, .stop = request.budget.stop};
  if (!choice.entry->rule) budget.deadline = deadline;
  SearchResult found = choice.entry->search({graph, cluster, request.objective, {}, choice.options}, budget, rng);
  if (!found.plan) return std::nullopt;
  found.plan->bucket_bytes = request.bucket_bytes.value_or(0);  // buckets that nobody asked for are left out
  const std::vector<int64_t> peaks = told_peak_bytes(graph, *found.plan, cluster);
  for (int d = 0; d < cluster.compute_count; ++d)
    if (peaks[d] > cluster.devices[d].memory_bytes) return std::nullopt;
  const Problem in_time{.graph = graph,
                        .cluster = cluster,
                        .objective = Objective::kTime,
                        .bucket_bytes = request.bucket_bytes.value_or(kBucketBytes)};
  return Fit{*std::max_element(peaks.begin(), peaks.begin() + cluster.compute_count), cost_of(in_time, *found.plan)};
} catch (const Error& error) {  // this change of the request is not possible
  if (error.code() == ExitCode::kBug) throw;
  return std::nullopt;
}

struct Change {
  std::string text;  // "--batch 16"
  Request request;
};

// Fewer samples at a time, the most first: the fewer there are, the longer is a step. None where a replica has one
// sample, or works on one at a time already.
std::vector<int64_t> smaller_micro_batches(const Request& request, const Graph& graph, int64_t batch) {
  const SearchChoice search = parse_search(request.search);
  if (request.micro_batches || !search.entry->sharing) return {};
  const Cluster cluster = cluster_of(request);
  const int replicas = search.entry->sharing({.graph = graph, .cluster = cluster, .options = search.options}).replicas;
  std::vector<int64_t> sizes;
  int64_t size = request.micro_batch_size.value_or(batch / replicas);
  while (size > 1 && sizes.size() < kHalvings) sizes.push_back(size = size % 2 == 0 ? size / 2 : 1);
  if (size > 1) sizes.push_back(1);
  return sizes;
}

// The kinds of recomputing that keep less than this one. `by`: the options before it.
std::vector<Change> recomputing(const std::string& by, const std::string& kind, const Request& request) {
  std::vector<Change> out;
  for (const char* less : {"cheap", "layer"}) {
    if (kind == less) continue;
    out.push_back({fmt::format("{}--recompute {}", by, less), request});
    out.back().request.recompute = less;
  }
  return out;
}

// The search that was asked for, with less that is kept, where it is no rule.
std::vector<Change> asked_again(const Request& request) {
  if (parse_search(request.search).entry->rule) return {};
  return recomputing("", request.recompute, request);
}

// For another that places operations whole, the search that looks longest.
std::vector<Change> placed(const Request& request) {
  const SearchEntry& entry = *parse_search(request.search).entry;
  if (!entry.only_places() || entry.name == kPlaced) return {};
  std::vector<Change> out = {{fmt::format("--search {}", kPlaced), request}};
  out[0].request.search = kPlaced;
  if (request.recompute == "layer") return out;
  for (Change& change : recomputing(out[0].text + " ", request.recompute, out[0].request))
    out.push_back(std::move(change));
  return out;
}

// Alternatives to each other in one list: the first that fits is told. Lists and their members begin with what changes
// least.
std::vector<std::vector<Change>> changes(const Request& request, const Graph& graph) {
  std::optional<int64_t> batch = find_batch(graph);
  std::vector<std::vector<Change>> out;
  Request base = request;
  const bool rule = parse_search(request.search).entry->rule;
  const std::string by = rule ? "" : fmt::format("--search {} ", kSharded);
  if (!rule) base.search = kSharded;
  const bool sharded = text_of(parse_search(base.search)) == text_of(parse_search(kSharded));
  if (rule && request.bucket_bytes.value_or(0) > 0 && !parse_search(request.search).bucket_bytes) {
    out.push_back({Change{"--bucket 0", base}});
    out.back()[0].request.bucket_bytes = 0;
  }
  if (const auto sizes = smaller_micro_batches(base, graph, batch.value_or(1)); !sizes.empty()) {
    out.emplace_back();
    for (const int64_t size : sizes) {
      out.back().push_back({fmt::format("{}--micro-batch-size {}", by, size), base});
      out.back().back().request.micro_batch_size = size;
    }
    const Change least = out.back().back();
    for (Change& change : recomputing(least.text + " ", request.recompute, least.request))
      out.back().push_back(std::move(change));
  }
  if (request.recompute != "layer") out.push_back(recomputing(by, request.recompute, base));
  if (!rule || !sharded) {
    out.push_back({Change{fmt::format("--search {}", kSharded), base}});
    out.back()[0].request.search = kSharded;
    if (request.recompute != "layer" && rule)
      for (Change& change :
           recomputing(fmt::format("--search {} ", kSharded), request.recompute, out.back()[0].request))
        out.back().push_back(std::move(change));
  }
  out.emplace_back();
  for (int i = 0; i < kHalvings && batch.value_or(1) > 1 && *batch % 2 == 0; ++i) {
    *batch /= 2;
    out.back().push_back({fmt::format("{}--batch {}", by, *batch), base});
    out.back().back().request.bindings["batch"] = std::to_string(*batch);
  }
  out.emplace_back();
  const int devices = load_cluster(request.cluster, request.devices).compute_count;
  for (int times : {2, 4})
    if (const auto preset = preset_of_size(request.cluster, times * devices)) {
      out.back().push_back({fmt::format("--search {} --cluster {}", kSharded, *preset), base});
      out.back().back().request.search = kSharded;
      out.back().back().request.cluster = *preset;
      out.back().back().request.devices = 0;
    }
  out.push_back(asked_again(request));
  out.push_back(placed(request));
  return out;
}

}  // namespace

std::string remedies(const Request& asked) {
  const Request request = with_search_options(asked);
  using Clock = Watch::Clock;
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(1e3 * kSeconds));
  if (!request.pin_file.empty()) return "";  // a rule may not keep to them
  Runner runner(false);
  std::vector<std::string> tried;
  std::vector<std::pair<Fit, const Change*>> fitting;
  const LoadedModel model = load_model(request, runner);
  const std::vector<std::vector<Change>> all = changes(request, training_graph(model, request, runner));
  for (const std::vector<Change>& alternatives : all)
    for (size_t i = 0; i < alternatives.size() && Clock::now() < end; ++i) {
      const Clock::time_point now = Clock::now();
      tried.push_back(alternatives[i].text);
      // Each has twice the time of the one before, which keeps more.
      const auto fit = fits(alternatives[i].request, now + (end - now) / ((1 << (alternatives.size() - i)) - 1));
      if (!fit) continue;
      fitting.push_back({*fit, &alternatives[i]});
      break;
    }
  // The fastest first, of those that train on as many samples with as many devices.
  const auto is_as_large = [&](const auto& one) {
    return one.second->request.cluster == request.cluster && one.second->request.bindings == request.bindings;
  };
  const auto smaller = std::stable_partition(fitting.begin(), fitting.end(), is_as_large);
  std::stable_sort(fitting.begin(), smaller,
                   [](const auto& a, const auto& b) { return a.first.step_ns < b.first.step_ns; });
  std::vector<std::string> told;
  for (const auto& [fit, change] : fitting)
    told.push_back(fmt::format("{} ({} a device, {} a step)", change->text, megabytes(static_cast<double>(fit.bytes)),
                               time_text(static_cast<double>(fit.step_ns))));
  if (!told.empty()) return fmt::format("; it fits with {}", fmt::join(told, ", or "));
  return tried.empty() ? "" : fmt::format("; not with any of {} either", fmt::join(tried, ", "));
}

}  // namespace partita
