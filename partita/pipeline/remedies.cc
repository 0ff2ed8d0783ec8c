// Tries changes of a request that may make its plan fit, and lists those that do.
#include "partita/pipeline/remedies.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <map>
#include <thread>

#include "partita/base/attempt.h"
#include "partita/base/units.h"
#include "partita/cluster/presets.h"
#include "partita/graph/batch.h"
#include "partita/physical/for_stages.h"
#include "partita/pipeline/micro_batches.h"
#include "partita/pipeline/pipeline.h"
#include "partita/plan/rules.h"
#include "partita/search/evaluate.h"

namespace partita {

namespace {

constexpr double kSearchCpuSeconds = 6;  // of a search that is no rule
constexpr int kHalvings = 5;             // of the batch, and of micro-batches
constexpr size_t kToldOfGrid = 2;
const char* const kSharded = "fsdp";
const char* const kPlaced = "placement";

struct Change {
  std::string text;  // "--batch 16"
  Request request;
};

struct Made {
  Graph graph;
  Cluster cluster;
  Plan plan;
  PlanEvaluation evaluation;  // of its memory

  int64_t bytes() const {  // of the device that needs most
    const std::vector<int64_t>& peaks = evaluation.peak_bytes;
    return *std::max_element(peaks.begin(), peaks.begin() + cluster.compute_count);
  }
};

// A flag that is set once the process has used so many seconds of CPU time from now on, or the other flag is set. CPU
// time, unlike time, does not depend on what else the machine does.
class CpuTimeLimit {
 public:
  CpuTimeLimit(double seconds, const std::atomic<bool>* other)
      : thread_([this, end = cpu_seconds() + seconds, other] {
          while (!done_ && !flag_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            if (cpu_seconds() > end || (other && *other)) flag_ = true;
          }
        }) {}
  ~CpuTimeLimit() { done_ = true, thread_.join(); }
  CpuTimeLimit(const CpuTimeLimit&) = delete;
  CpuTimeLimit& operator=(const CpuTimeLimit&) = delete;
  const std::atomic<bool>* flag() const { return &flag_; }

 private:
  static double cpu_seconds() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  std::atomic<bool> flag_ = false, done_ = false;
  std::thread thread_;
};

std::string trimmed(const std::string& text) { return text.substr(0, text.find_last_not_of(' ') + 1); }

// Returns the message without its own advice.
std::string first_clause(const std::string& message) { return message.substr(0, message.find("; ")); }

// Collects the changes that did not help, by their reason.
class NoWayOut {
 public:
  void needs(const Change& change, int64_t bytes) {
    add(memory_,
        fmt::format("{} (needs at least {})", trimmed(change.text), enough_megabytes(static_cast<double>(bytes))));
  }
  void found_nothing(const Change& change) { add(memory_, trimmed(change.text)); }
  void was_late(const Change& change) { add(memory_, trimmed(change.text) + " (no plan in its time)"); }
  void does_not_apply(const Change& change, const std::string& message) {
    add(others_[first_clause(message)], trimmed(change.text));
  }
  // "; not with any of --batch 16 (needs at least 2.1 GB), .. either; --batch 4 cannot be: fsdp: .. too few for 8
  // devices".
  std::string text() const {
    std::string out;
    if (!memory_.empty()) out += fmt::format("; not with any of {} either", fmt::join(memory_, ", "));
    for (const auto& [why, changes] : others_) out += fmt::format("; {} cannot be: {}", fmt::join(changes, ", "), why);
    return out;
  }

 private:
  static void add(std::vector<std::string>& all, std::string text) {
    if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(std::move(text));
  }
  std::vector<std::string> memory_;
  std::map<std::string, std::vector<std::string>> others_;  // by reason
};

// Makes plans of changed requests.
class Trials {
 public:
  explicit Trials(const Watch& watch) : watch_(watch) {}

  bool ended() const { return watch_.ended(); }
  // The end of the message if not all was tried: "; the time limit ended the search for what fits".
  std::string end_text() const {
    if (!ended()) return "";
    return fmt::format("; {} ended the search for what fits", watch_.stopped() ? "an interruption" : "the time limit");
  }
  const NoWayOut& no_way_out() const { return no_way_out_; }

  // Makes a change's plan. None: it does not help, for the reason of `why`.
  std::optional<Made> made(const Change& change, Failure* why = nullptr) {
    Failure ignored;
    Failure& reason = why ? *why : ignored;
    reason = Failure::kEnded;
    if (ended()) return std::nullopt;
    Attempt<std::optional<Made>> tried = attempt([&] { return planned(change.request); });
    reason = tried.failure.value_or(Failure::kDoesNotFit);
    if (tried.result && *tried.result) {
      if ((*tried.result)->evaluation.fits()) return std::move(*tried.result);
      no_way_out_.needs(change, (*tried.result)->bytes());
    } else if (reason == Failure::kDoesNotFit) {
      no_way_out_.found_nothing(change);
    } else if (reason == Failure::kDoesNotApply) {
      no_way_out_.does_not_apply(change, tried.message);
    } else if (reason == Failure::kEnded) {
      no_way_out_.was_late(change);
    }
    return std::nullopt;
  }

  // Tells whether its search has a plan of such a step, however large.
  bool applies(const Change& change) {
    if (ended()) return false;
    const auto tried = attempt([&] { return planned(change.request); });
    return tried.result && *tried.result;
  }

 private:
  // A step on the whole batch, as loading makes it: by the request's bindings.
  const LoadedModel& model_of(const Request& request) {
    const auto [at, fresh] = models_.try_emplace(request.bindings);
    if (fresh) at->second = load_model(request, runner_);
    return at->second;
  }

  std::optional<Made> planned(const Request& request) {
    const LoadedModel& model = model_of(request);
    Cluster cluster = cluster_of(request);
    Request counted = request;  // in as many micro-batches as possible: they need least memory
    if (!request.micro_batches) {
      counted.micro_batches = 1;
      counted.micro_batches =
          micro_batches_to_try(request, training_graph(model, counted, runner_), cluster).counts.back();
    }
    Graph graph = training_graph(model, counted, runner_);
    const SearchChoice choice = parse_search(request.search);
    const bool rule = choice.entry->rule;
    Rng rng(request.seed);
    const Problem problem{graph, cluster, request.objective, {}, choice.options};
    SearchResult found;
    if (rule) {
      found =
          choice.entry->search(problem, {.steps = 1, .stop = request.budget.stop, .deadline = watch_.deadline}, rng);
    } else {
      const CpuTimeLimit limit(kSearchCpuSeconds, request.budget.stop);
      found = choice.entry->search(
          problem, {.steps = request.budget.steps, .stop = limit.flag(), .deadline = watch_.deadline}, rng);
    }
    if (!found.plan) return std::nullopt;
    found.plan->bucket_bytes = request.bucket_bytes.value_or(0);  // buckets that nobody asked for are left out
    graph = for_stages(graph, *found.plan);
    PlanEvaluation evaluation = evaluate_memory(graph, *found.plan, cluster, watch_);
    return Made{std::move(graph), std::move(cluster), std::move(*found.plan), std::move(evaluation)};
  }

  Runner runner_{false};
  Watch watch_;
  std::map<std::map<std::string, std::string>, LoadedModel> models_;  // by bindings
  NoWayOut no_way_out_;
};

// A change that fits.
struct Remedy {
  Change change;
  int64_t bytes = 0, step_ns = 0;
};

// Simulates a change's step. None: it cannot run.
std::optional<Remedy> timed(const Change& change, const Made& made) {
  const int64_t bucket_bytes = change.request.bucket_bytes.value_or(kBucketBytes);
  const auto step = attempt([&] { return evaluate_step(made.graph, made.plan, made.cluster, bucket_bytes).cost(); });
  if (!step.result) return std::nullopt;
  return Remedy{change, made.bytes(), *step.result};
}

// The first of the alternatives that fits.
std::vector<Remedy> first_of(const std::vector<Change>& alternatives, Trials& trials) {
  for (const Change& change : alternatives)
    if (const auto made = trials.made(change))
      if (const auto remedy = timed(change, *made)) return {*remedy};
  return {};
}

// Lists the request as it is, then with fewer samples at a time, the most first: the fewer there are, the longer is a
// step. `graph`: of the whole batch. A pipeline has as many micro-batches as fit anyway, unless they were given.
std::vector<Change> by_micro_batch(const Change& base, const Graph& graph) {
  std::vector<Change> out = {base};
  const Request& request = base.request;
  const SearchChoice search = parse_search(request.search);
  if (!search.entry->sharing || search.micro_batches || search.micro_batch_size) return out;
  const Cluster cluster = cluster_of(request);
  const Sharing sharing = search.entry->sharing({.graph = graph, .cluster = cluster, .options = search.options});
  const int64_t samples = find_batch(graph).value_or(1) / sharing.replicas;
  if (request.micro_batches) {
    const auto divides = [&](int64_t count) { return samples % count == 0 && count % sharing.multiple == 0; };
    for (int64_t count = 2 * *request.micro_batches; out.size() <= kHalvings; count *= 2) {
      while (count <= samples && !divides(count)) ++count;
      if (count > samples) break;
      out.push_back({fmt::format("{}--micro-batches {} ", base.text, count), request});
      out.back().request.micro_batches = static_cast<int>(count);
    }
    return out;
  }
  if (sharing.stages > 1 && !request.micro_batch_size) return out;
  const auto add = [&](int64_t size) {
    out.push_back({fmt::format("{}--micro-batch-size {} ", base.text, size), request});
    out.back().request.micro_batch_size = size;
  };
  int64_t size = request.micro_batch_size.value_or(samples);
  while (size > 1 && out.size() <= kHalvings) add(size = size % 2 == 0 ? size / 2 : 1);
  if (size > 1) add(1);
  return out;
}

// Lists the kinds of recomputation from the request's on, those that keep less behind. The search's own options stay.
std::vector<std::string> kinds_of(const Request& request) {
  const std::string& kind = request.recompute;
  std::vector<std::string> out = {kind};
  if (kind == "layer" || parse_search(request.search).recompute) return out;
  for (const char* less : {"cheap", "layer"})
    if (kind != less) out.emplace_back(less);
  return out;
}

Change recomputing(Change change, const std::string& kind) {
  if (kind == change.request.recompute) return change;
  change.request.recompute = kind;
  change.text += fmt::format("--recompute {} ", kind);
  return change;
}

// Tries micro-batches and recomputation together: for each kind of recomputation the largest micro-batches that fit.
// Memory falls with either, so bisection finds them, and kinds that keep less need no smaller micro-batches. Returns
// the fastest. `known`: the first of all is the request that does not fit.
std::vector<Remedy> of_grid(const Change& base, const Graph& graph, bool known, Trials& trials) {
  std::vector<Change> sizes = by_micro_batch(base, graph);
  const std::vector<std::string> kinds = kinds_of(base.request);
  for (Failure why; sizes.size() > 1 && !trials.made(recomputing(sizes.back(), kinds.back()), &why);) {
    if (why == Failure::kDoesNotFit || why == Failure::kEnded) return {};
    if (why == Failure::kDoesNotApply) sizes.pop_back();
    else sizes.resize(1);  // the model cannot be divided into micro-batches
  }
  std::vector<Remedy> found;
  for (const std::string& kind : kinds) {
    size_t fits_not = known && kind == kinds.front() ? 1 : 0, fits = sizes.size();  // those before, those from there on
    std::optional<Made> best;
    while (fits_not < fits) {
      const size_t at = fits == sizes.size() ? fits - 1 : (fits_not + fits) / 2;
      if (auto made = trials.made(recomputing(sizes[at], kind))) best = std::move(made), fits = at;
      else fits_not = at + 1;
    }
    if (!best) continue;
    if (auto remedy = timed(recomputing(sizes[fits], kind), *best)) found.push_back(std::move(*remedy));
    sizes.resize(fits);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step_ns < b.step_ns; });
  if (found.size() > kToldOfGrid) found.resize(kToldOfGrid);
  return found;
}

void add(std::vector<Remedy>& all, std::vector<Remedy> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// Tries the batch halved as seldom as possible, with as little recomputation.
std::vector<Remedy> of_smaller_batches(const Change& base, const Graph& graph, Trials& trials) {
  std::vector<Change> out;
  std::optional<int64_t> batch = find_batch(graph);
  for (int i = 0; i < kHalvings && batch.value_or(1) > 1 && *batch % 2 == 0; ++i) {
    *batch /= 2;
    out.push_back({fmt::format("{}--batch {} ", base.text, *batch), base.request});
    out.back().request.bindings["batch"] = std::to_string(*batch);
  }
  if (!out.empty()) out.push_back(recomputing(out.back(), kinds_of(base.request).back()));
  return first_of(out, trials);
}

std::vector<Remedy> of_more_devices(const Request& request, const Graph& graph, Trials& trials) {
  const int devices = load_cluster(request.cluster, request.devices).compute_count;
  for (const int times : {2, 4}) {
    const auto preset = preset_of_size(request.cluster, times * devices);
    if (!preset) continue;
    Change change{fmt::format("--search {} --cluster {} ", kSharded, *preset), request};
    change.request.search = kSharded;
    change.request.cluster = *preset;
    change.request.devices = 0;
    if (std::vector<Remedy> found = of_grid(change, graph, false, trials); !found.empty()) return {found.front()};
  }
  return {};
}

// Tries groups of devices that divide operations, with all states split. If there are no more samples than devices,
// only these leave a device less of an activation. Large groups need least, so the first that does not fit is the last.
// Returns the fastest that fits.
std::vector<Remedy> of_tensor_groups(const Request& asked, const Graph& graph, Trials& trials) {
  std::vector<Remedy> found;
  const int node = node_size(cluster_of(asked));
  for (int degree = node; degree > 1; --degree) {
    if (node % degree) continue;
    for (const char* sequence : {",sequence=1", ""}) {
      const std::string search = fmt::format("megatron?tensor={}{},zero=3", degree, sequence);
      Change change{fmt::format("--search {} ", search), asked};
      change.request.search = search;
      if (!trials.applies(change)) continue;  // no such groups, or nothing along a sequence
      const std::vector<Remedy> fit = of_grid(change, graph, false, trials);
      if (fit.empty()) return found;
      if (found.empty() || fit.front().step_ns < found.front().step_ns) found = {fit.front()};
      break;
    }
  }
  return found;
}

// Tries a search that is no rule again, and for other searches of device placement the one that looks longest, with
// less that is kept.
std::vector<Remedy> of_searches(const Request& request, Trials& trials) {
  const SearchEntry& entry = *parse_search(request.search).entry;
  const std::vector<std::string> kinds = kinds_of(request);
  std::vector<Change> again, placed;
  Change by_placement{fmt::format("--search {} ", kPlaced), request};
  by_placement.request.search = kPlaced;
  for (const std::string& kind : kinds) {
    if (kind != request.recompute && !entry.rule) again.push_back(recomputing({"", request}, kind));
    if (entry.only_device_placement() && entry.name != kPlaced) placed.push_back(recomputing(by_placement, kind));
  }
  std::vector<Remedy> out = first_of(again, trials);
  add(out, first_of(placed, trials));
  return out;
}

// `asked`: the request without its search's options.
std::vector<Remedy> all_remedies(const Request& request, const Request& asked, const Graph& graph, Trials& trials) {
  const SearchChoice search = parse_search(request.search);
  const bool rule = search.entry->rule;
  Change by_rule{"", request}, sharded{fmt::format("--search {} ", kSharded), asked};
  sharded.request.search = kSharded;
  if (!rule) by_rule = sharded;
  std::vector<Remedy> out;
  if (rule && request.bucket_bytes.value_or(0) > 0 && !search.bucket_bytes) {
    Change without{"--bucket 0 ", request};
    without.request.bucket_bytes = 0;
    add(out, first_of({without}, trials));
  }
  add(out, of_grid(by_rule, graph, rule, trials));
  if (rule && text_of(search) != text_of(parse_search(kSharded))) add(out, of_grid(sharded, graph, false, trials));
  if (out.empty()) add(out, of_tensor_groups(asked, graph, trials));
  add(out, of_smaller_batches(by_rule, graph, trials));
  add(out, of_more_devices(asked, graph, trials));
  add(out, of_searches(request, trials));
  return out;
}

// Sorts remedies: first those with the same samples and devices, the fastest first; then the others.
void sort_for_reader(const Request& request, std::vector<Remedy>& all) {
  const auto smaller = std::stable_partition(all.begin(), all.end(), [&](const Remedy& r) {
    return r.change.request.cluster == request.cluster && r.change.request.bindings == request.bindings;
  });
  std::stable_sort(all.begin(), smaller, [](const auto& a, const auto& b) { return a.step_ns < b.step_ns; });
}

}  // namespace

std::string remedies(const Request& asked) {
  const Request request = with_search_options(asked);
  if (!request.pin_file.empty()) return "";  // a rule may not keep to them
  Runner runner(false);
  Trials trials(request.budget.watch());
  const Graph graph = training_graph(load_model(request, runner), request, runner);
  std::vector<Remedy> found = all_remedies(request, asked, graph.whole_graph(), trials);
  sort_for_reader(request, found);
  std::vector<std::string> listed;
  for (const Remedy& r : found)
    listed.push_back(fmt::format("{} (at least {} a device, {} a step)", trimmed(r.change.text),
                                 enough_megabytes(static_cast<double>(r.bytes)),
                                 time_text(static_cast<double>(r.step_ns))));
  if (!listed.empty()) return fmt::format("; it fits with {}{}", fmt::join(listed, ", or "), trials.end_text());
  return trials.no_way_out().text() + trials.end_text();
}

}  // namespace partita
