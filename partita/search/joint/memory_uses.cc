// Computes the memory uses of a joint problem's choices, and their times.
#include "partita/search/joint/memory_uses.h"

#include <algorithm>
#include <map>

#include "partita/graph/kept_gradients.h"
#include "partita/plan/resolve.h"

namespace partita {

namespace {

using Use = solver::Network::Use;

// A tensor's bytes on the last device, by value of its variable: in its kept layout, and the least of that and the
// copies that may replace it.
struct Amounts {
  std::vector<int64_t> kept_layout, least;
};
using KnownAmounts = std::map<std::pair<const TensorSpace*, int64_t>, Amounts>;  // by space and bytes of an element

struct UsesMaking {
  const Graph& graph;
  const JointReaders& readers;
  const std::vector<int64_t>& times;       // by OpId: its place in the default order
  const std::vector<char>& kept_gradient;  // by TensorId (graph/kept_gradients.h)
  bool counts_copies;
  JointProblem& joint;

  int last() const { return joint.mesh.positions() - 1; }
  int64_t element_bytes(TensorId id) const { return bytes_of(graph.tensor(id).dtype); }
  int64_t bytes_at_last(const Layout& layout, TensorId id) const { return layout.elements(last()) * element_bytes(id); }
};

// When each op runs in the default order: the graph's own, an update as soon as its inputs are there.
std::vector<int64_t> default_times(const Graph& graph) {
  std::vector<size_t> after(graph.ops.size()), order(graph.ops.size());
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    after[i] = i;
    order[i] = i;
    if (graph.ops[i].phase != Phase::kUpdate) continue;
    after[i] = 0;
    for (TensorId t : graph.ops[i].operands)
      if (const OpId made_by = graph.tensor(t).producer; made_by.valid())
        after[i] = std::max(after[i], after[made_by.index()]);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return after[a] < after[b]; });
  std::vector<int64_t> time(order.size());
  for (size_t place = 0; place < order.size(); ++place) time[order[place]] = static_cast<int64_t>(place);
  return time;
}

// An element-wise op may write its result over the operand that it reads last.
bool may_lie_under(const Graph& graph, TensorId operand, OpId reader) {
  const Op& op = graph.op(reader);
  if (op.results.size() != 1 || !tdl::is_elementwise(*op.bound)) return false;
  const Tensor &from = graph.tensor(operand), &to = graph.tensor(op.results[0]);
  return from.shape == to.shape && from.dtype == to.dtype;
}

Amounts amounts_of(const TensorSpace& space, int last, int64_t element_bytes) {
  constexpr int64_t kUnknown = -1;
  std::vector<int64_t> bytes;  // by layout
  for (const Layout& layout : space.layouts) bytes.push_back(layout.elements(last) * element_bytes);
  std::vector<std::vector<int64_t>> beside(space.layouts.size());  // [kept layout][copy], filled on demand
  auto taken_by = [&](int kept_layout, int copy) {
    std::vector<int64_t>& row = beside[kept_layout];
    if (row.empty()) row.resize(space.layouts.size(), kUnknown);
    if (row[copy] == kUnknown)
      row[copy] = bytes[is_view(space.layouts[kept_layout], space.layouts[copy], last) ? kept_layout : copy];
    return row[copy];
  };
  Amounts amounts;
  amounts.kept_layout.reserve(space.values.size());
  amounts.least.reserve(space.values.size());
  for (const TensorSpace::Value& v : space.values) {
    amounts.kept_layout.push_back(bytes[v.kept_layout]);
    int64_t least = bytes[v.kept_layout];
    for (int copy : v.also) least = std::min(least, taken_by(v.kept_layout, copy));
    for (const TensorSpace::Resharded& b : space.resharded) least = std::min(least, taken_by(v.kept_layout, b.layout));
    amounts.least.push_back(least);
  }
  return amounts;
}

// If all remaining readers of a result have a copy, it need not lie in its kept layout; the least of these does then.
// That may be so from its first reader on, or from its making if that reader is an update. If copies are counted, from
// its first reader of the backward pass on. Shortens `use` and adds another one behind it.
void split_where_copies_may_do(const UsesMaking& making, TensorId id, const Amounts& amounts, Use& use) {
  if (amounts.least == amounts.kept_layout) return;
  const TensorSpace& space = *making.joint.tensors[id.index()];
  Use later{use.variable, use.lower, use.upper, amounts.least};
  int64_t first = use.upper, first_backward = use.upper;
  for (const ReadingOp& reader : making.readers.of(id)) {
    const Phase phase = making.graph.op(reader.op).phase;
    first = std::min(first, phase == Phase::kUpdate ? use.lower + 1 : making.times[reader.op.index()]);
    if (phase == Phase::kBackward) first_backward = std::min(first_backward, making.times[reader.op.index()]);
  }
  if (making.counts_copies && !space.resharded.empty() && first_backward < use.upper) first = first_backward;
  later.lower = use.upper = std::max(first, use.lower + 1);
  if (later.lower < later.upper) making.joint.network.uses.push_back(std::move(later));
}

// The bytes of a tensor without a variable, by value of its producer: as it leaves the tensor, or less in a kept layout
// on the way.
std::vector<int64_t> straight_amounts(const UsesMaking& making, TensorId id) {
  const JointProblem& joint = making.joint;
  std::vector<int64_t> amounts;
  for (const OpLayouts& l : joint.ops[making.graph.tensor(id).producer.index()]->layouts)
    amounts.push_back(making.bytes_at_last(l.results[result_position(making.graph, id)], id));
  const StraightSpace* straight = joint.straight[id.index()].get();
  if (!straight) return amounts;
  const size_t columns = straight->kept_layouts.size() / amounts.size();
  for (size_t at = 0; at < straight->kept_layouts.size(); ++at)
    if (const int kept_layout = straight->kept_layouts[at]; kept_layout >= 0)
      amounts[at / columns] = std::min(amounts[at / columns], making.bytes_at_last(straight->layouts[kept_layout], id));
  return amounts;
}

void add_tensor_use(const UsesMaking& making, TensorId id, KnownAmounts& known) {
  JointProblem& joint = making.joint;
  Use use{joint.tensor_variable[id.index()], 0, static_cast<int64_t>(making.times.size()), {}};
  const OpId producer = making.graph.tensor(id).producer;
  if (producer.valid()) {
    use.lower = making.times[producer.index()];
    use.upper = use.lower + 1;
    for (const ReadingOp& reader : making.readers.of(id))
      use.upper =
          std::max(use.upper, making.times[reader.op.index()] + (may_lie_under(making.graph, id, reader.op) ? 0 : 1));
    if (making.kept_gradient[id.index()]) use.upper = static_cast<int64_t>(making.times.size());
  }
  if (const TensorSpace* space = joint.tensors[id.index()].get()) {
    const auto [found, fresh] = known.try_emplace({space, making.element_bytes(id)});
    if (fresh) found->second = amounts_of(*space, making.last(), making.element_bytes(id));
    use.amounts = found->second.kept_layout;
    if (producer.valid()) split_where_copies_may_do(making, id, found->second, use);
  } else {
    use.variable = joint.op_variable[producer.index()];
    use.amounts = straight_amounts(making, id);
  }
  joint.network.uses.push_back(std::move(use));
}

// The bytes that lie from one reader of a tensor to another.
Use use_between(const UsesMaking& making, int variable, TensorId tensor, OpId a, OpId b) {
  const auto [first, second] = std::minmax(making.times[a.index()], making.times[b.index()]);
  const OpId later = second == making.times[b.index()] ? b : a;
  return {variable, first, second + (may_lie_under(making.graph, tensor, later) ? 0 : 1), {}};
}

void add_if_any(Use use, JointProblem& joint) {
  if (std::any_of(use.amounts.begin(), use.amounts.end(), [](int64_t a) { return a > 0; }))
    joint.network.uses.push_back(std::move(use));
}

void add_resharded_copy(const UsesMaking& making, const ReshardedCopy& copy) {
  const size_t t = copy.tensor.index();
  Use use = use_between(making, making.joint.resharded_variables[t][copy.number], copy.tensor, copy.first, copy.last);
  for (const TensorSpace::ReshardChoice& choice : making.joint.tensors[t]->resharded[copy.number].choices)
    use.amounts.push_back(choice.elements * making.element_bytes(copy.tensor));
  add_if_any(std::move(use), making.joint);
}

void add_shared_copy(const UsesMaking& making, const SharedCopy& copy) {
  const size_t t = copy.tensor.index();
  Use use = use_between(making, making.joint.tensor_variable[t], copy.tensor, copy.first, copy.last);
  const TensorSpace& space = *making.joint.tensors[t];
  const bool made = making.graph.tensor(copy.tensor).producer.valid();
  std::map<std::pair<int, int>, int64_t> known;  // by kept layout and copy
  for (const TensorSpace::Value& v : space.values) {
    int64_t sum = 0;
    for (int to : v.also) {
      if (!std::binary_search(copy.layouts.begin(), copy.layouts.end(), to)) continue;
      const auto [found, fresh] = known.try_emplace({v.kept_layout, to}, 0);
      if (fresh)
        found->second = elements_beside(space.layouts[v.kept_layout], space.layouts[to], making.last(), made) *
                        making.element_bytes(copy.tensor);
      sum += found->second;
    }
    use.amounts.push_back(sum);
  }
  add_if_any(std::move(use), making.joint);
}

}  // namespace

void add_uses(const Problem& problem, const JointReaders& readers, bool counts_copies,
              const std::vector<SharedCopy>& shared, const std::vector<ReshardedCopy>& resharded, JointProblem& joint) {
  const std::vector<int64_t> times = default_times(problem.graph);
  const std::vector<char> kept = kept_gradients(problem.graph);
  const UsesMaking making{problem.graph, readers, times, kept, counts_copies, joint};
  KnownAmounts known;
  for (size_t t = 0; t < problem.graph.tensors.size(); ++t)
    if (!problem.graph.tensors[t].replaces.valid()) add_tensor_use(making, TensorId(t), known);
  for (const ReshardedCopy& copy : resharded) add_resharded_copy(making, copy);
  for (const SharedCopy& copy : shared) add_shared_copy(making, copy);
  joint.network.limit = problem.cluster.device(joint.mesh.devices.back()).memory_bytes;
}

}  // namespace partita
