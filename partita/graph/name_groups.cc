// Divides groups of names part by part if their labels differ.
#include "partita/graph/name_groups.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <set>

#include "partita/base/error.h"

namespace partita {

namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The ends of a name's parts. A number behind an underscore at the end of a part is a part of its own.
std::vector<size_t> part_ends(const std::string& name) {
  std::vector<size_t> ends;
  const auto end_part = [&](size_t end) {
    size_t digits = end;
    while (digits > 0 && is_digit(name[digits - 1])) --digits;
    if (digits < end && digits > 1 && name[digits - 1] == '_' && (ends.empty() || ends.back() < digits - 1))
      ends.push_back(digits - 1);
    ends.push_back(end);
  };
  for (size_t i = 1; i < name.size(); ++i)
    if ((name[i] == '.' || name[i] == '/') && name[i - 1] != '.' && name[i - 1] != '/') end_part(i);
  end_part(name.size());
  return ends;
}

struct Group {
  std::string name;
  std::vector<int> members;
  size_t depth = 0;         // parts that the members share
  long number = -1;         // the last of these parts if it is a number
  std::string first, last;  // prefixes of the first and the last of a run
};

class Divider {
 public:
  Divider(const std::vector<std::string>& names, const std::vector<int>& labels, const std::vector<double>& weights)
      : names_(names), labels_(labels), weights_(weights) {
    for (const std::string& name : names) ends_.push_back(part_ends(name));
  }

  std::vector<Group> children(const Group& of) const {
    std::map<std::string, size_t> place;
    std::vector<Group> groups;
    for (int m : of.members) {
      const std::vector<size_t>& ends = ends_[static_cast<size_t>(m)];
      const size_t depth = std::min(of.depth + 1, ends.size());
      const std::string prefix = names_[static_cast<size_t>(m)].substr(0, ends[depth - 1]);
      const auto [at, is_new] = place.try_emplace(prefix, groups.size());
      if (is_new) groups.push_back({prefix, {}, of.depth + 1, number_of(prefix, of.last), prefix, prefix});
      groups[at->second].members.push_back(m);
    }
    return joined(std::move(groups));
  }
  bool is_pure(const Group& group) const { return others(group) < 0; }
  // The weight of all labels but the largest; below 0 if there is one label.
  double others(const Group& group) const {
    std::map<int, double> by_label;
    for (int m : group.members) by_label[labels_[static_cast<size_t>(m)]] += weights_[static_cast<size_t>(m)];
    if (by_label.size() < 2) return -1;
    double sum = 0, most = 0;
    for (const auto& [label, weight] : by_label) sum += weight, most = std::max(most, weight);
    return sum - most;
  }
  double weight(const Group& group) const {
    double sum = 0;
    for (int m : group.members) sum += weights_[static_cast<size_t>(m)];
    return sum;
  }

 private:
  static long number_of(const std::string& prefix, const std::string& parent) {
    constexpr size_t kMostDigits = 9;
    const std::string part = prefix.substr(std::min(prefix.size(), parent.empty() ? 0 : parent.size() + 1));
    if (part.empty() || part.size() > kMostDigits || !std::all_of(part.begin(), part.end(), is_digit)) return -1;
    return std::stol(part);
  }
  int label(const Group& group) const { return labels_[static_cast<size_t>(group.members[0])]; }
  // Joins parts of one label into one group: numbered ones if they follow one another, others all, below the first
  // parts.
  std::vector<Group> joined(std::vector<Group> groups) const {
    std::vector<Group> numbered, alike, out;
    for (Group& g : groups)
      (!is_pure(g) ? out : g.number >= 0 ? numbered : g.depth > 1 ? alike : out).push_back(std::move(g));
    add_runs(std::move(numbered), out);
    std::map<int, std::vector<Group>> by_label;
    for (Group& g : alike) by_label[label(g)].push_back(std::move(g));
    for (auto& [label, same] : by_label) {
      for (size_t i = 1; i < same.size(); ++i)
        same[0].members.insert(same[0].members.end(), same[i].members.begin(), same[i].members.end());
      if (same.size() > 1) same[0].name += fmt::format(" and {} more", same.size() - 1);
      out.push_back(std::move(same[0]));
    }
    return out;
  }
  void add_runs(std::vector<Group> numbered, std::vector<Group>& out) const {
    out.reserve(out.size() + numbered.size());  // `run` stays where it is
    std::stable_sort(numbered.begin(), numbered.end(),
                     [](const Group& a, const Group& b) { return a.number < b.number; });
    Group* run = nullptr;
    long last = 0;
    for (Group& g : numbered) {
      if (run && g.number == last + 1 && label(*run) == label(g)) {
        run->members.insert(run->members.end(), g.members.begin(), g.members.end());
        run->last = g.last;
        run->name = run->first + " .. " + g.last;
        last = g.number;
        continue;
      }
      last = g.number;
      out.push_back(std::move(g));
      run = &out.back();
    }
  }

  const std::vector<std::string>& names_;
  const std::vector<int>& labels_;
  const std::vector<double>& weights_;
  std::vector<std::vector<size_t>> ends_;  // by name
};

// Joins the groups of the least weights, so that `most` are left.
void gather_rest(const Divider& divider, std::vector<Group>& groups, size_t most) {
  if (groups.size() <= most) return;
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const Group& a, const Group& b) { return divider.weight(a) > divider.weight(b); });
  Group rest;
  for (size_t g = most - 1; g < groups.size(); ++g)
    rest.members.insert(rest.members.end(), groups[g].members.begin(), groups[g].members.end());
  rest.name = fmt::format("and {} others", rest.members.size());
  groups.resize(most - 1);
  groups.push_back(std::move(rest));
}

}  // namespace

std::vector<OpNameGroup> group_op_names(const std::vector<std::string>& names, const std::vector<int>& labels,
                                        const std::vector<double>& weights, size_t most) {
  if (names.empty()) return {};
  const Divider divider(names, labels, weights);
  Group all;
  all.members.resize(names.size());
  std::iota(all.members.begin(), all.members.end(), 0);
  std::vector<Group> groups = divider.children(all), whole;
  while (!groups.empty()) {  // those that may be divided further
    const auto at = std::max_element(groups.begin(), groups.end(), [&](const Group& a, const Group& b) {
      return divider.others(a) < divider.others(b);
    });
    if (divider.is_pure(*at)) break;
    Group group = std::move(*at);
    groups.erase(at);
    std::vector<Group> parts = divider.children(group);
    const bool same = parts.size() == 1 && parts[0].name == group.name;
    if (same || groups.size() + whole.size() + parts.size() > most) whole.push_back(std::move(group));
    else groups.insert(groups.end(), parts.begin(), parts.end());
  }
  groups.insert(groups.end(), whole.begin(), whole.end());
  gather_rest(divider, groups, most);
  for (Group& g : groups) std::sort(g.members.begin(), g.members.end());
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.members[0] < b.members[0]; });
  std::vector<OpNameGroup> out;
  for (Group& g : groups) out.push_back({std::move(g.name), std::move(g.members)});
  return out;
}

}  // namespace partita
