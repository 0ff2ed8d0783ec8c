#include "partita/search/search.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "partita/base/error.h"
#include "partita/plan/rules.h"
#include "partita/search/allrow_greedy.h"
#include "partita/search/auto.h"
#include "partita/search/equal_chop.h"
#include "partita/search/exact.h"
#include "partita/search/icml18.h"
#include "partita/search/layer_placement.h"
#include "partita/search/small_batch.h"
#include "partita/search/soybean.h"
#include "partita/search/spartan.h"
#include "partita/search/swap.h"
#include "partita/search/tofu.h"

namespace partita {

namespace {

// A plan made by a rule, seen as a search.
template <Plan (*rule)(const Graph&, const Cluster&, const Pins&, const Watch&)>
class RuleSearcher final : public Searcher {
 public:
  SearchResult search(const Problem& problem, const Budget& budget, Rng&) const override {
    SearchResult result;
    result.plan = rule(problem.graph, problem.cluster, problem.pins, budget.watch());
    return result;
  }
};

// A rule with options: a function of the problem.
template <Plan (*rule)(const Problem&, const Watch&)>
class OptionRuleSearcher final : public Searcher {
 public:
  SearchResult search(const Problem& problem, const Budget& budget, Rng&) const override {
    SearchResult result;
    result.plan = rule(problem, budget.watch());
    return result;
  }
};

Plan megatron(const Problem& problem, const Watch& watch) {
  const std::string& tensor = problem.options.at("tensor");
  return megatron_plan(problem.graph, problem.cluster,
                       tensor == "node" ? std::nullopt : std::optional(std::stoi(tensor)), problem.pins, watch);
}

Plan zero(const Problem& problem, const Watch& watch) {
  return zero_plan(problem.graph, problem.cluster, std::stoi(problem.options.at("stage")), problem.pins, watch);
}

bool is_count(const std::string& value) {
  return !value.empty() && value.size() < 7 && value[0] != '0' &&
         std::all_of(value.begin(), value.end(), [](unsigned char c) { return std::isdigit(c); });
}

// Of this machine's kind: a rule weighs some strategies of each op, a search by cuts all that divide it, and what lies
// between.
double rule_work(const Problem& problem) {
  return 1e-6 * static_cast<double>(problem.graph.ops.size()) * problem.cluster.compute_count;
}
double cuts_work(const Problem& problem) {
  return 1e-4 * static_cast<double>(problem.graph.ops.size()) * std::log2(problem.cluster.compute_count);
}
bool in_time(const Problem& problem, const Budget&) { return problem.in_time(); }  // idle devices cost no bytes

template <typename T>
std::unique_ptr<Searcher> make() {
  return std::make_unique<T>();
}

}  // namespace

Watch Budget::watch() const {
  if (deadline || !seconds) return {deadline, stop};
  constexpr double kForever = 1e9;
  return {Watch::Clock::now() + std::chrono::duration_cast<Watch::Clock::duration>(
                                    std::chrono::duration<double>(std::min(*seconds, kForever))),
          stop};
}

const std::vector<SearchEntry>& searches() {
  static const std::vector<SearchEntry> kSearches = [] {
    std::vector<SearchEntry> list;
    list.push_back({"data-parallel",
                    "rule",
                    "every op that sees samples is split along them, parameters are whole everywhere",
                    {},
                    make<RuleSearcher<data_parallel_plan>>,
                    {rule_work, {}}});
    list.push_back(
        {"layer-placement",
         "Tofu section 7.1",
         "whole layers on devices, time steps as a pipeline; nothing is split, so one layer must fit on a device",
         {{"assign", {"round-robin", "contiguous"}}},
         make_layer_placement,
         {rule_work, {"assign"}, in_time}});
    list.push_back({"megatron",
                    "Megatron-LM",
                    "tensor parallelism of transformers in groups of devices, data parallelism over the groups; "
                    "recurrent cells are not split",
                    {{"tensor", {"node", "N"}}},
                    make<OptionRuleSearcher<megatron>>,
                    {rule_work, {"tensor"}}});
    list.push_back({"model-parallel",
                    "SoyBean section 4.1",
                    "every parameter is split along its contracted dimension",
                    {},
                    make<RuleSearcher<model_parallel_plan>>,
                    {rule_work, {}}});
    list.push_back({"owt",
                    "Krizhevsky 2014",
                    "one weird trick: convolutions are split along samples, fully connected layers along their units",
                    {},
                    make<RuleSearcher<owt_plan>>,
                    {rule_work, {}}});
    list.push_back({"single",
                    "rule",
                    "everything on the first device",
                    {},
                    make<RuleSearcher<single_plan>>,
                    {rule_work, {}, in_time}});
    list.push_back({"small-batch",
                    "Tofu section 7.1",
                    "every device has the model to itself, at the largest batch that fits there; nothing is exchanged, "
                    "so this bounds from above what such training could reach",
                    {},
                    make_small_batch,
                    {},
                    false,
                    false,
                    true});
    list.push_back({"soybean",
                    "SoyBean",
                    "one-cut tiling program and k-cuts recursion, slowest link first",
                    {{"tilings", {"paper", "all"}}},
                    make_soybean,
                    {cuts_work, {"tilings"}, soybean_is_quick}});
    list.push_back(
        {"swap",
         "Tofu section 7.1",
         "every device has the model to itself, what does not fit is in host memory: the least recently used goes, "
         "what comes next is prefetched, all devices share the host's links; nothing is exchanged",
         {},
         make_swap,
         {},
         false,
         false,
         true});
    list.push_back({"tofu",
                    "Tofu",
                    "dynamic program over the coarsened graph, recursion over the factors of the device count; no "
                    "tensor stays whole that can be split",
                    {{"coarsening", {"on", "off"}}, {"recursion", {"on", "off"}}},
                    make_tofu,
                    {cuts_work, {}}});
    list.push_back({"allrow-greedy",
                    "Tofu section 7.3",
                    "every tensor is split along its first dimension, then every op as is best for it",
                    {},
                    make_allrow_greedy,
                    {cuts_work, {}}});
    list.push_back({"spartan",
                    "Tofu section 7.3",
                    "largest tensor first, along its best dimension, then the ops around it",
                    {},
                    make_spartan,
                    {cuts_work, {}}});
    list.push_back({"equal-chop",
                    "Tofu section 7.3",
                    "Tofu's program in one step: every tensor is split along one dimension only",
                    {},
                    make_equal_chop,
                    {cuts_work, {}}});
    list.push_back({"icml18",
                    "Jia et al. 2018",
                    "dynamic program over layers in one step, along several dimensions, without output reduction, as "
                    "Tofu section 7.3 compares",
                    {},
                    make_icml18,
                    {cuts_work, {}}});
    list.push_back({"zero",
                    "ZeRO",
                    "data parallelism; states (stage 1), gradients (2) and parameters (3) are kept split, those "
                    "without an axis long enough whole",
                    {{"stage", {"1", "2", "3"}}},
                    make<OptionRuleSearcher<zero>>,
                    {rule_work, {"stage"}}});
    list.push_back({"exact",
                    "ours",
                    "all mesh axes at once, as one cost network: the fewest bytes within the memory, with a proved "
                    "lower bound; over more than two axes slow",
                    {{"axes", {"2", "N"}}, {"mesh", {"axes", "PxQ"}}},
                    make_exact,
                    {},
                    true,
                    true});
    list.push_back({"auto",
                    "ours",
                    "the best of what is quick here and of the joint problem, refined on a mesh with an axis for every "
                    "prime factor; with a proved lower bound where it has one",
                    {},
                    make_auto,
                    {},
                    true,
                    true});
    return list;
  }();
  return kSearches;
}

std::map<std::string, std::string> default_options(const SearchEntry& entry) {
  std::map<std::string, std::string> options;
  for (const auto& [option, values] : entry.options) options[option] = values[0];
  return options;
}

std::vector<std::map<std::string, std::string>> options_for_auto(const SearchEntry& entry, const Cluster& cluster) {
  std::vector<std::map<std::string, std::string>> all = {default_options(entry)};
  for (const std::string& option : entry.begins_auto.every) {
    std::vector<std::string> values = entry.options.at(option);
    if (values.back() == "N") {
      values.pop_back();
      for (int n = 1; n <= cluster.compute_count; ++n)
        if (cluster.compute_count % n == 0) values.push_back(std::to_string(n));
    }
    std::vector<std::map<std::string, std::string>> more;
    for (const auto& options : all)
      for (const std::string& value : values) {
        more.push_back(options);
        more.back()[option] = value;
      }
    all = std::move(more);
  }
  return all;
}

const std::map<std::string, std::string>& search_aliases() {
  static const std::map<std::string, std::string> kAliases = {{"fsdp", "zero?stage=3"}};
  return kAliases;
}

// "1, 2 or 3"; "auto or a positive number".
static std::string values_text(std::vector<std::string> values) {
  if (values.back() == "N") values.back() = "a positive number";
  if (values.back() == "PxQ") values.back() = "a mesh's extents, such as 2x4";
  const std::string last = values.back();
  values.pop_back();
  return values.empty() ? last : fmt::format("{} or {}", fmt::join(values, ", "), last);
}

SearchChoice parse_search(std::string_view text) {
  const size_t name_end = std::min(text.find('?'), text.size());
  if (const auto alias = search_aliases().find(std::string(text.substr(0, name_end)));
      alias != search_aliases().end()) {
    const std::string_view more = text.substr(std::min(name_end + 1, text.size()));
    return parse_search(more.empty() ? alias->second : fmt::format("{},{}", alias->second, more));
  }
  auto usage = [](std::string message) { throw Error(ExitCode::kUsage, std::move(message)); };
  size_t mark = text.find('?');
  std::string name(text.substr(0, mark));
  SearchChoice choice;
  std::vector<std::string> known;
  for (const SearchEntry& entry : searches()) {
    known.push_back(entry.name);
    if (entry.name == name) choice.entry = &entry;
  }
  for (const auto& [alias, whole] : search_aliases()) known.push_back(alias);
  if (!choice.entry) usage(fmt::format("unknown search '{}'; there are: {}", name, fmt::join(known, ", ")));
  choice.options = default_options(*choice.entry);
  std::string rest(mark == std::string_view::npos ? "" : text.substr(mark + 1));
  while (!rest.empty()) {
    size_t comma = rest.find(',');
    std::string item = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    size_t equals = item.find('=');
    std::string key = item.substr(0, equals), value = equals == std::string::npos ? "" : item.substr(equals + 1);
    auto option = choice.entry->options.find(key);
    if (option == choice.entry->options.end()) {
      std::vector<std::string> names;
      for (const auto& [n, v] : choice.entry->options) names.push_back(n);
      usage(fmt::format(
          "search '{}' has no option '{}'{}", name, key,
          names.empty() ? std::string("; it takes none") : fmt::format("; it has: {}", fmt::join(names, ", "))));
    }
    const std::string& last = option->second.back();
    const bool counted = (last == "N" && is_count(value)) || (last == "PxQ" && !extents_of(value).empty());
    if (!counted && (value == "N" || value == "PxQ" ||
                     std::find(option->second.begin(), option->second.end(), value) == option->second.end()))
      usage(fmt::format("search '{}': option '{}' is {}, not '{}'", name, key, values_text(option->second), value));
    choice.options[key] = value;
  }
  return choice;
}

std::vector<int> extents_of(const std::string& value) {
  std::vector<int> extents;
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find('x', begin), value.size());
    const std::string extent = value.substr(begin, end - begin);
    if (!is_count(extent)) return {};
    extents.push_back(std::stoi(extent));
    begin = end + 1;
  }
  return extents;
}

std::string text_of(const SearchChoice& choice) {
  std::vector<std::string> chosen;
  for (const auto& [option, value] : choice.options)
    if (value != choice.entry->options.at(option)[0]) chosen.push_back(option + "=" + value);
  return choice.entry->name + (chosen.empty() ? "" : "?") + fmt::format("{}", fmt::join(chosen, ","));
}

}  // namespace partita
