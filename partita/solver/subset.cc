// Restricts a network, its tables, solutions and messages to some values, and maps them back.
#include "partita/solver/subset.h"

#include <algorithm>
#include <map>

namespace partita::solver {

namespace {

template <typename T>
std::vector<T> chosen(const std::vector<T>& all, const std::vector<int>& which) {
  std::vector<T> out;
  out.reserve(which.size());
  for (int x : which) out.push_back(all[x]);
  return out;
}

// The entries of a table at all listed values. `counts`: how many values each variable of the table has.
Table slice(const Table& table, const std::vector<const std::vector<int>*>& lists, const std::vector<size_t>& counts) {
  std::vector<size_t> starts = {0};  // of rows
  for (size_t i = 0; i + 1 < lists.size(); ++i) {
    std::vector<size_t> next;
    for (size_t start : starts)
      for (int x : *lists[i]) next.push_back((start + static_cast<size_t>(x)) * counts[i + 1]);
    starts = std::move(next);
  }
  Table out;
  out.reserve(starts.size() * lists.back()->size());
  for (size_t start : starts)
    for (int x : *lists.back()) out.push_back(table[start + static_cast<size_t>(x)]);
  return out;
}

}  // namespace

Subset::Subset(const Network& network, std::vector<std::vector<int>> values) : values_(std::move(values)) {
  std::map<std::vector<int>, int> lists;  // with the number of possible values: only some lists are all of them
  std::vector<int> list_of;
  for (int v = 0; v < network.variables(); ++v) {
    std::vector<int> key = values_[v];
    key.push_back(network.domain(v));
    list_of.push_back(lists.try_emplace(std::move(key), static_cast<int>(lists.size())).first->second);
    subset_.costs.push_back(chosen(network.costs[v], values_[v]));
  }
  std::map<std::pair<const Table*, std::vector<int>>, std::shared_ptr<const Table>> slices;
  for (const Network::Edge& e : network.edges) {
    std::pair<const Table*, std::vector<int>> key{e.table.get(), {}};
    std::vector<const std::vector<int>*> of;
    std::vector<size_t> counts;
    bool all = true;
    for (int v : e.variables) {
      key.second.push_back(list_of[v]);
      of.push_back(&values_[v]);
      counts.push_back(static_cast<size_t>(network.domain(v)));
      all = all && of.back()->size() == counts.back();
    }
    auto& table = slices[std::move(key)];
    if (!table) table = all ? e.table : std::make_shared<const Table>(slice(*e.table, of, counts));
    subset_.edges.push_back({e.variables, table});
  }
  for (const Network::Use& u : network.uses)
    subset_.uses.push_back({u.variable, u.lower, u.upper, chosen(u.amounts, values_[u.variable])});
  subset_.limit = network.limit;
}

Assignment Subset::whole(Assignment x) const {
  for (size_t v = 0; v < x.size(); ++v) x[v] = values_[v][x[v]];
  return x;
}

Assignment Subset::lowered(const Assignment& of_whole) const {
  Assignment out;
  for (size_t v = 0; v < values_.size(); ++v) {
    const auto at = std::lower_bound(values_[v].begin(), values_[v].end(), of_whole[v]);
    out.push_back(at != values_[v].end() && *at == of_whole[v] ? static_cast<int>(at - values_[v].begin()) : 0);
  }
  return out;
}

Certificate::Leaf Subset::lowered(const Certificate::Leaf& of_whole) const {
  Certificate::Leaf leaf{of_whole.scale, {}, {}, of_whole.multipliers};
  for (const Certificate::Message& m : of_whole.messages) {
    leaf.messages.push_back({m.variables, {}});
    for (size_t i = 0; i < m.variables.size(); ++i)
      leaf.messages.back().ends.push_back(m.ends[i].empty() ? m.ends[i] : chosen(m.ends[i], values_[m.variables[i]]));
  }
  return leaf;
}

Certificate::Leaf Subset::lifted(const Certificate::Leaf& of_subset, const Network& whole) const {
  Certificate::Leaf leaf{of_subset.scale, {}, {}, of_subset.multipliers};
  for (const Certificate::Message& m : of_subset.messages) {
    leaf.messages.push_back({m.variables, {}});
    for (size_t i = 0; i < m.variables.size(); ++i) {
      const int v = m.variables[i];
      std::vector<int64_t>& to = leaf.messages.back().ends.emplace_back();
      if (m.ends[i].empty()) continue;
      to.assign(static_cast<size_t>(whole.domain(v)), 0);
      for (size_t x = 0; x < m.ends[i].size(); ++x) to[static_cast<size_t>(values_[v][x])] = m.ends[i][x];
    }
  }
  return leaf;
}

}  // namespace partita::solver
