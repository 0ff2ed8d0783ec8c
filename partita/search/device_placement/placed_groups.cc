// Groups operations by joining updates along the tensors that they hand on.
#include "partita/search/device_placement/placed_groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

namespace partita {

namespace {

class Joined {
 public:
  explicit Joined(size_t ops) : first_(ops), grouped_(ops, false) { std::iota(first_.begin(), first_.end(), 0); }
  void join(OpId a, OpId b) {
    int x = first(a.value), y = first(b.value);
    if (x > y) std::swap(x, y);
    first_[static_cast<size_t>(y)] = x;
    grouped_[static_cast<size_t>(x)] = grouped_[static_cast<size_t>(x)] || grouped_[static_cast<size_t>(y)];
  }
  void group(OpId op) { grouped_[static_cast<size_t>(first(op.value))] = true; }
  int group_of(OpId op) {
    const int f = first(op.value);
    return grouped_[static_cast<size_t>(f)] ? f : -1;
  }
  int first(int op) {
    int& f = first_[static_cast<size_t>(op)];
    if (f != op) f = first(f);
    return f;
  }

 private:
  std::vector<int> first_;     // by operation: an earlier one that it is joined with, or itself
  std::vector<char> grouped_;  // by operation that is its own first: whether a tensor of it is replaced, or it has a
                               // colocation name
};

}  // namespace

std::vector<int> placed_groups(const Graph& graph) {
  Joined joined(graph.ops.size());
  const auto is_update = [&](OpId op) { return op.valid() && graph.op(op).phase == Phase::kUpdate; };
  const auto is_one_number = [&](TensorId t) { return volume(graph.tensor(t).shape) == 1; };
  std::vector<OpId> replaced_by(graph.tensors.size());
  for (const Tensor& t : graph.tensors) {
    if (!t.replaces.valid()) continue;
    replaced_by[t.replaces.index()] = t.producer;
    joined.group(t.producer);
  }
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (!is_update(OpId(i))) continue;
    for (TensorId t : graph.ops[i].operands) {
      const OpId producer = graph.tensor(t).producer, replaces = replaced_by[t.index()];
      const bool is_parameter = graph.tensor(t).role == Role::kParameter;
      if (is_update(producer) && !is_one_number(t)) joined.join(OpId(i), producer);
      if (is_update(replaces) && (is_parameter || !is_one_number(t))) joined.join(OpId(i), replaces);
    }
  }
  // A number made for one group alone, such as a power of the count of steps.
  std::vector<std::set<int>> read_by(graph.tensors.size());  // operations
  for (size_t i = graph.ops.size(); i-- > 0;) {
    const Op& op = graph.ops[i];
    std::set<int> of_results;
    for (TensorId t : op.results)
      for (int reader : read_by[t.index()]) of_results.insert(joined.first(reader));
    const bool is_number = is_update(OpId(i)) && std::all_of(op.operands.begin(), op.operands.end(), is_one_number);
    if (is_number && of_results.size() == 1) joined.join(OpId(i), OpId(*of_results.begin()));
    for (TensorId t : op.operands) read_by[t.index()].insert(static_cast<int>(i));
  }
  std::map<std::string, OpId> named;
  for (size_t i = 0; i < graph.ops.size(); ++i)
    if (const std::string& name = graph.ops[i].colocation; !name.empty()) {
      joined.group(OpId(i));
      joined.join(OpId(i), named.try_emplace(name, OpId(i)).first->second);
    }
  std::vector<int> groups;
  for (size_t i = 0; i < graph.ops.size(); ++i) groups.push_back(joined.group_of(OpId(i)));
  return groups;
}

}  // namespace partita
