// Estimates searches' times, and lists the options with which `auto` runs them.
#include "partita/search/entry.h"

#include <algorithm>
#include <cmath>

namespace partita {

double rule_work(const Problem& problem) {
  return 1e-6 * static_cast<double>(problem.graph.ops.size()) * problem.cluster.compute_count;
}
double groups_work(const Problem& problem) { return 2 * rule_work(problem); }
double placed_work(const Problem& problem) { return 100 * rule_work(problem); }
double cuts_work(const Problem& problem) {
  return 1e-4 * static_cast<double>(problem.graph.ops.size()) * std::log2(problem.cluster.compute_count);
}
bool counts_time(const Problem& problem, const Budget&) { return problem.in_time(); }

Sharing one_replica(const Problem&) { return {}; }

std::map<std::string, std::string> default_options(const SearchEntry& entry) {
  std::map<std::string, std::string> options;
  for (const auto& [option, values] : entry.options) options[option] = values[0];
  return options;
}

namespace {

using Options = std::map<std::string, std::string>;

// Every value of these options, with defaults for the others.
std::vector<Options> every_value(const SearchEntry& entry, const std::vector<std::string>& of, const Cluster& cluster) {
  std::vector<Options> all = {default_options(entry)};
  for (const std::string& option : of) {
    std::vector<std::string> values = entry.options.at(option);
    if (values.back() == "N") {
      values.pop_back();
      for (int n = 1; n <= cluster.compute_count; ++n)
        if (cluster.compute_count % n == 0) values.push_back(std::to_string(n));
    }
    std::vector<Options> more;
    for (const auto& options : all)
      for (const std::string& value : values) {
        more.push_back(options);
        more.back()[option] = value;
      }
    all = std::move(more);
  }
  return all;
}

}  // namespace

std::vector<Options> options_for_auto(const SearchEntry& entry, const Cluster& cluster) {
  return every_value(entry, entry.offers.initial.every, cluster);
}

std::vector<Options> further_options(const SearchEntry& entry, const Problem& problem) {
  if (!entry.offers.initial.further) return {};
  std::vector<std::string> of = entry.offers.initial.every;
  const std::vector<std::string> further = entry.offers.initial.further(problem);
  of.insert(of.end(), further.begin(), further.end());
  const std::vector<Options> asked = options_for_auto(entry, problem.cluster);
  std::vector<Options> options = every_value(entry, of, problem.cluster);
  std::erase_if(options, [&](const Options& one) { return std::ranges::find(asked, one) != asked.end(); });
  return options;
}

bool is_count(const std::string& value) {
  return !value.empty() && value.size() < 7 && value[0] != '0' &&
         std::all_of(value.begin(), value.end(), [](unsigned char c) { return std::isdigit(c); });
}

namespace {

// Counts with this character between them; empty if it is something else.
std::vector<int> counts_between(const std::string& value, char separator) {
  std::vector<int> counts;
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find(separator, begin), value.size());
    const std::string count = value.substr(begin, end - begin);
    if (!is_count(count)) return {};
    counts.push_back(std::stoi(count));
    begin = end + 1;
  }
  return counts;
}

}  // namespace

std::vector<int> extents_of(const std::string& value) { return counts_between(value, 'x'); }
std::vector<int> counts_of(const std::string& value) { return counts_between(value, '-'); }

}  // namespace partita
