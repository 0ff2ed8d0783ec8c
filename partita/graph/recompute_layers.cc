// Recomputes each layer from its inputs (full recomputation: Chen et al., arXiv:1604.06174, section 4).
#include <algorithm>
#include <cstdint>
#include <iterator>

#include "partita/graph/recompute.h"
#include "partita/graph/repeats.h"

namespace partita {
namespace {

// Forward ops that are recomputed together.
struct Layer {
  int begin = 0, end = 0;  // ops begin to end - 1
};

// ---------------------------------------------------------------- repeated layers

std::vector<Layer> repeated(const Graph& graph) {
  std::vector<Layer> layers;
  for (const Repeat& repeat : chained_layers(graph))
    for (int i = 0; i < repeat.copies; ++i) {
      const int begin = repeat.first.value + i * repeat.ops;
      layers.push_back({begin, begin + repeat.ops});
    }
  return layers;
}

// ---------------------------------------------------------------- cuts

// A place where the graph may be cut.
struct Cut {
  int place = 0;      // before this op
  int64_t bytes = 0;  // of the activation that crosses; 0 at the ends
  int64_t made = 0;   // bytes that backward ops read of results of the ops before it
  int64_t own = 0;    // the part of these that crosses
};

// By place, the number of forward ops included: Cut::made.
std::vector<int64_t> bytes_made(const Graph& graph) {
  const std::vector<char> read = read_backward(graph);
  std::vector<int64_t> made{0};
  for (int i = 0; i < forward_end(graph); ++i) {
    made.push_back(made.back());
    for (TensorId t : graph.ops[i].results)
      if (read[t.index()]) made.back() += graph.tensor(t).bytes();
  }
  return made;
}

// Finds the places where one activation crosses alone. Activations depend on a parameter and on an input; numbers do
// not count. It takes the first of the places where the same one crosses: other ops there, such as casts of weights,
// belong to their readers.
std::vector<Cut> single_cuts(const Graph& graph, const std::vector<int64_t>& made) {
  const size_t end = made.size() - 1;
  const std::vector<char> trained = depends_on(graph, Role::kParameter), fed = depends_on(graph, Role::kInput),
                          read = read_backward(graph);
  std::vector<int> last(graph.tensors.size(), -1);  // reader
  for (size_t i = 0; i < end; ++i)
    for (TensorId t : graph.ops[i].operands)
      if (graph.ops[i].phase == Phase::kForward) last[t.index()] = static_cast<int>(i);
  // The number of tensors that cross a place, and the sum of their ids, which is the id of one alone. First as
  // differences from one place to the next.
  std::vector<int64_t> count(end + 1), sum(end + 1);
  std::vector<Cut> cuts;
  TensorId crosses;
  for (size_t i = 0; i < end; ++i) {
    for (TensorId t : graph.ops[i].results) {
      const auto after = static_cast<size_t>(last[t.index()]) + 1;
      if (!trained[t.index()] || !fed[t.index()] || volume(graph.tensor(t).shape) == 1 || after < i + 2) continue;
      ++count[i + 1], --count[after];
      sum[i + 1] += t.value, sum[after] -= t.value;
    }
    count[i + 1] += count[i], sum[i + 1] += sum[i];
    if (count[i + 1] != 1 || TensorId(static_cast<size_t>(sum[i + 1])) == crosses) continue;
    crosses = TensorId(static_cast<size_t>(sum[i + 1]));
    const int64_t bytes = graph.tensor(crosses).bytes();
    cuts.push_back({static_cast<int>(i + 1), bytes, made[i + 1], read[crosses.index()] ? bytes : 0});
  }
  return cuts;
}

// Chooses cuts of a stretch, ascending, that let its backward pass do with `most` bytes. While it works between two
// cuts, it holds all tensors of the cuts before, and all that it reads between the two. The first and the last cut are
// the stretch's ends. `again`: all of it is recomputed. Else the ops after the last cut but one are not recomputed, but
// held along with the tensors of all cuts. They are as many as possible. Empty if there are no such cuts. The fewest
// bytes of cuts before a cut are always best for the rest.
std::vector<int> cuts_within(const std::vector<Cut>& cuts, bool again, int64_t most) {
  constexpr int64_t kNone = INT64_MAX;
  std::vector<int64_t> held(cuts.size(), kNone);  // of the cuts up to this one
  std::vector<int> from(cuts.size(), -1);
  held[0] = 0;
  for (size_t i = 0; i < cuts.size(); ++i) {
    for (size_t k = i; k-- > 0;) {
      const int64_t between = cuts[i].made - cuts[i].own - cuts[k].made;
      if (between > most) break;
      if (held[k] == kNone || held[k] + between > most || held[k] + cuts[i].bytes >= held[i]) continue;
      held[i] = held[k] + cuts[i].bytes, from[i] = static_cast<int>(k);
    }
    const bool is_last = again ? i + 1 == cuts.size() : held[i] <= most - (cuts.back().made - cuts[i].made);
    if (held[i] == kNone || !is_last) continue;
    std::vector<int> chosen;
    for (int c = static_cast<int>(i); c >= 0; c = from[c]) chosen.insert(chosen.begin(), c);
    return chosen;
  }
  return {};
}

// Cuts ops begin to end - 1 so that the backward pass needs least memory. It accepts a sixteenth more if less is
// recomputed or kept for it. With n equal ops in a row these are about sqrt(2n) layers. Each is shorter than the one
// before it, as later ones find more kept tensors of others.
void add_between_cuts(const std::vector<Cut>& all, const std::vector<int64_t>& made, int begin, int end, bool again,
                      std::vector<Layer>& layers) {
  std::vector<Cut> cuts{{begin, 0, made[begin], 0}};
  std::copy_if(all.begin(), all.end(), std::back_inserter(cuts),
               [&](const Cut& cut) { return cut.place > begin && cut.place < end; });
  cuts.push_back({end, 0, made[end], 0});
  int64_t too_few = -1, enough = made[end] - made[begin];
  while (enough - too_few > 1) {
    const int64_t middle = too_few + (enough - too_few) / 2;
    (cuts_within(cuts, again, middle).empty() ? too_few : enough) = middle;
  }
  const std::vector<int> chosen = cuts_within(cuts, again, enough + enough / 16);
  for (size_t i = 0; i + 1 < chosen.size(); ++i) layers.push_back({cuts[chosen[i]].place, cuts[chosen[i + 1]].place});
}

// Ops before and between repeated layers are cut as well; ops after the last one (head and loss) are kept.
std::vector<Layer> layers_of(const Graph& graph) {
  const std::vector<int64_t> made = bytes_made(graph);
  const std::vector<Cut> cuts = single_cuts(graph, made);
  std::vector<Layer> layers;
  int at = 0;
  for (const Layer& layer : repeated(graph)) {
    if (at < layer.begin) add_between_cuts(cuts, made, at, layer.begin, true, layers);
    layers.push_back(layer);
    at = layer.end;
  }
  if (at == 0) add_between_cuts(cuts, made, 0, forward_end(graph), false, layers);
  return layers;
}

// ---------------------------------------------------------------- kept tensors

// The tensors of a layer that backward ops and clones of another layer, or of none, read.
std::vector<char> read_from_outside(const Graph& graph, const std::vector<int>& block) {
  std::vector<char> kept(graph.tensors.size()), cloned(graph.ops.size());
  auto read = [&](auto& self, int reader, const Op& op) -> void {
    for (TensorId t : op.operands) {
      const OpId producer = graph.tensor(t).producer;
      if (!producer.valid() || block[producer.index()] < 0 || graph.op(producer).phase != Phase::kForward) continue;
      if (block[producer.index()] != reader) {
        kept[t.index()] = true;
      } else if (!cloned[producer.index()]) {
        cloned[producer.index()] = true;
        self(self, reader, graph.op(producer));
      }
    }
  };
  for (size_t i = 0; i < graph.ops.size(); ++i)
    if (graph.ops[i].phase == Phase::kBackward) read(read, block[i], graph.ops[i]);
  return kept;
}

}  // namespace

RecomputeSet layer_recompute_set(const Graph& training) {
  const std::vector<Layer> layers = layers_of(training);
  const std::vector<char> can = can_be_recomputed(training);
  RecomputeSet out{std::vector<int>(training.ops.size(), -1), {}};
  for (size_t k = 0; k < layers.size(); ++k)
    for (int i = layers[k].begin; i < layers[k].end; ++i)
      if (can[i]) out.block[i] = static_cast<int>(k);
  for (size_t i = 0; i < training.ops.size(); ++i)
    if (const Op& op = training.ops[i]; op.phase == Phase::kBackward && op.forward.valid())
      out.block[i] = out.block[op.forward.index()];
  out.kept = read_from_outside(training, out.block);
  return out;
}

}  // namespace partita
