// Sorts edges into lists, and finds equal lists again.
#include "partita/task_graph/edge_lists.h"

#include <algorithm>

namespace partita {

namespace {

using Edge = std::pair<TaskOf, TaskOf>;
using Edges = EdgeLists::Edges;

constexpr size_t kMost = size_t{1} << 21;  // edges that are remembered; lists in use stay where they are used

// Sorts by the first of each pair, or by the second, stably. `offsets`: by party, the number of its first task; and of
// all.
void sort_by(const Edges& edges, bool first, const std::vector<int>& offsets, std::vector<int>& begins, Edges& out) {
  const auto number = [&](const Edge& edge) {
    const TaskOf& task = first ? edge.first : edge.second;
    return static_cast<size_t>(offsets[static_cast<size_t>(task.party)]) + static_cast<size_t>(task.task);
  };
  begins.assign(static_cast<size_t>(offsets.back()) + 1, 0);
  for (const Edge& edge : edges) ++begins[number(edge) + 1];
  for (size_t n = 1; n < begins.size(); ++n) begins[n] += begins[n - 1];
  out.resize(edges.size());
  for (const Edge& edge : edges) out[static_cast<size_t>(begins[number(edge)]++)] = edge;
}

// By party: the other ends of the edges that are sorted by this one.
std::vector<TaskLists> lists_of(const Edges& sorted, bool first, const std::vector<int>& sizes) {
  const auto own = [&](const Edge& edge) { return first ? edge.first : edge.second; };
  std::vector<TaskLists> lists(sizes.size());
  auto at = sorted.begin();
  for (size_t party = 0; party < sizes.size(); ++party) {
    const auto is_own = [&](const Edge& edge) { return own(edge).party == static_cast<int>(party); };
    const auto end = std::find_if_not(at, sorted.end(), is_own);
    if (end == at) continue;
    TaskLists& of = lists[party];
    of.tasks.reserve(static_cast<size_t>(end - at));
    of.ends.reserve(static_cast<size_t>(sizes[party]));
    for (int t = 0; t < sizes[party]; ++t) {
      for (; at != end && own(*at).task == t; ++at) of.tasks.push_back(first ? at->second : at->first);
      of.ends.push_back(static_cast<int>(of.tasks.size()));
    }
  }
  return lists;
}

// Tells whether `lists` equals lists_of() of the edges.
bool is_made_of(const PartyLists& lists, const Edges& sorted, const std::vector<int>& sizes) {
  if (lists.size() != sizes.size()) return false;
  auto at = sorted.begin();
  for (size_t party = 0; party < sizes.size(); ++party) {
    const TaskLists& of = lists[party];
    if (of.ends.empty()) continue;
    if (of.ends.size() != static_cast<size_t>(sizes[party])) return false;
    for (size_t t = 0, e = 0; t < of.ends.size(); ++t)
      for (; e < static_cast<size_t>(of.ends[t]); ++e, ++at)
        if (at == sorted.end() || *at != Edge{{static_cast<int>(party), static_cast<int>(t)}, of.tasks[e]})
          return false;
  }
  return at == sorted.end();
}

uint64_t hash_of(const Edges& sorted, const std::vector<int>& sizes) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
  uint64_t h = sizes.size();
  const auto add = [&](int a, int b) {
    h = (h ^ static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 ^ static_cast<uint32_t>(b)) * kGolden;
    h ^= h >> 29;
  };
  for (const int size : sizes) add(size, 0);
  for (const Edge& edge : sorted) add(edge.first.party, edge.first.task), add(edge.second.party, edge.second.task);
  return h;
}

}  // namespace

PartyLists::PartyLists(std::vector<TaskLists> by_party) {
  auto held = std::make_shared<Held>();
  held->places.reserve(by_party.size());
  held->lists.reserve(
      static_cast<size_t>(std::ranges::count_if(by_party, [](const TaskLists& lists) { return !lists.ends.empty(); })));
  for (TaskLists& lists : by_party) {
    held->places.push_back(lists.ends.empty() ? -1 : static_cast<int>(held->lists.size()));
    if (!lists.ends.empty()) held->lists.push_back(std::move(lists));
  }
  for (size_t party = 0; party < std::min(kNoted, held->places.size()); ++party)
    first_ |= static_cast<uint64_t>(held->places[party] >= 0) << party;
  held_ = std::move(held);
}

const EdgeLists::Lists& EdgeLists::of(const Edges& edges, const std::vector<int>& sizes) {
  offsets_.assign(1, 0);
  for (const int size : sizes) offsets_.push_back(offsets_.back() + size);
  sort_by(edges, false, offsets_, begins_, back_);
  sort_by(back_, true, offsets_, begins_, sorted_);
  sorted_.erase(std::unique(sorted_.begin(), sorted_.end()), sorted_.end());
  if (edges_ > kMost) known_.clear(), edges_ = 0;
  std::vector<Lists>& alike = known_[hash_of(sorted_, sizes)];
  for (const Lists& known : alike)
    if (is_made_of(known.after, sorted_, sizes)) return known;
  edges_ += sorted_.size() + sizes.size();
  sort_by(sorted_, false, offsets_, begins_, back_);
  return alike.emplace_back(Lists{lists_of(sorted_, true, sizes), lists_of(back_, false, sizes)});
}

}  // namespace partita
