// Builds a plan op by op in graph order, knowing every tensor's layout so far, for all rules.
//
// Example, data-parallel on 4 devices: choose(matmul, {{[b]}}) splits the product along samples. Its operand x, which
// no op has read yet, is then kept S(0), its weight B, and its result S(0).
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "partita/graph/weight_products.h"
#include "partita/plan/axis_options.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"

namespace partita {

inline const tdl::AxisStrategy kReplicate{};

// A split over some mesh axes, of a tensor with these radices.
struct SplitOver {
  std::vector<Shape> radices;
  Sbp sbp;
  std::vector<int> mesh_axes;
};

// Pinned ops and tensors are as pinned, whatever the rule says. A clone (activation recomputation) takes its original's
// choice. A tensor without a kept layout is kept as its first reader wants it.
class RulePlanner {
 public:
  RulePlanner(const Graph& graph, const Cluster& cluster, const Constraints& constraints, Mesh mesh,
              const Watch& watch = {});

  // Chooses the combination that moves fewest bytes to bring its operands and to put back the tensors that it replaces.
  // Among equal ones it is the first in lexicographic order. `axes`: per mesh axis the strategies that the rule allows.
  // False: none exists.
  bool try_choose(OpId id, const std::vector<std::vector<tdl::AxisStrategy>>& axes);
  void choose(OpId id, const std::vector<std::vector<tdl::AxisStrategy>>& axes);  // fails if none exists

  void place(OpId id, const OpChoice& choice);  // the one choice that the rule allows

  // Says that the tensor will be read in this layout. Its producer, if it is chosen later, prefers to make it so. The
  // second form takes the layout in which an op has an operand under a choice.
  void want(TensorId id, const Layout& layout) { wanted_.try_emplace(id, layout); }
  void want(OpId id, int operand, const OpChoice& choice);
  bool is_wanted(TensorId id) const { return wanted_.contains(id); }

  // Keeps a result split along `axis` if it came out partial there, or whole if the axis is too short. For a mesh of
  // one axis.
  void keep_partial_result(TensorId id, int axis);
  void keep_whole(TensorId id);  // on every device
  // Keeps a result on one mesh axis as this part of its kept layout's radices, and on the others as it is. Does nothing
  // if it is pinned, or has no such part.
  void keep_along(TensorId id, int mesh_axis, const AxisLayout& part);
  void keep_whole(TensorId id, int mesh_axis);  // if it came out partial on this mesh axis
  // Keeps a result split so, and on the other mesh axes as it is.
  void keep_split(TensorId id, const SplitOver& split);
  // A tensor without a kept layout will be kept as its first reader wants it, but split so.
  void split_when_kept(TensorId id, const SplitOver& split) { split_when_kept_.try_emplace(id, split); }
  // Keeps a tensor that has no kept layout so far.
  void keep(TensorId id, const Placement& placement);

  Plan finish(std::string_view search);

  const Mesh& mesh() const { return mesh_; }
  const OpChoice& choice(OpId id) const { return plan_.ops[id.index()]; }  // of one that was chosen
  const Layout* kept_layout(TensorId id) const {
    return kept_layouts_[id.index()] ? &*kept_layouts_[id.index()] : nullptr;
  }

 private:
  int64_t cost(const Op& op, const OpChoice& choice);
  Placement kept_layout_for(const Op& op, TensorId id, const Layout& need) const;
  void settle(OpId id, const OpChoice& choice);
  void repeat(OpId clone);

  const Graph& graph_;
  Converter converter_;  // remembers: layers repeat
  const Constraints& constraints_;
  Mesh mesh_;
  const Watch watch_;
  Plan plan_;
  std::vector<std::optional<Layout>> kept_layouts_;
  std::vector<int> readers_;  // by tensor: how many operands it is
  std::map<TensorId, Layout> wanted_;
  std::map<TensorId, SplitOver> split_when_kept_;
  DerivationCache cache_;
};

// Returns how a tensor without a kept layout is kept for its first reader. It is as that reads it, or whole on the
// reader's mesh if it cannot be kept so. `only_reader`: no other op reads it.
Placement kept_as_read(const Graph& graph, const Op& op, TensorId id, const Layout& need, bool only_reader);

// Returns a mesh of one axis over all devices, the slowest links cut first.
Mesh all_devices(const Cluster& cluster);
// Throws infeasible (exit 4) if an input has fewer samples than `shards`.
void require_samples(std::string_view rule, const Graph& graph, int shards);
// Returns the strategies that split only the index of this name.
std::vector<tdl::AxisStrategy> with_name(const std::vector<tdl::AxisStrategy>& strategies, const std::string& name);
// Returns the strategies that split the op along samples; empty if it sees none.
std::vector<tdl::AxisStrategy> sample_strategies(const Graph& graph, const Op& op,
                                                 const std::vector<tdl::AxisStrategy>& allowed);

// Finds late sums. A weight with several uses has several contributions to its gradient. On a mesh axis on which these
// are partial sums, the ops between them and the update may add them as they are. So they are reduced once.
class LateSums {
 public:
  explicit LateSums(const Graph& graph) : graph_(graph), read_by_(readers_by_tensor(graph)) {}
  // Returns the allowed strategies that pass on the partial sums of some operands which no other op reads. None in the
  // forward pass. None either if the result is larger than these operands and nothing is added to it later: then it is
  // better reduced before. Contributions of micro-batches to a result are added to it later, unless its shards are
  // `kept_split`: then each is reduced at once.
  std::vector<tdl::AxisStrategy> strategies(OpId id, const std::vector<tdl::AxisStrategy>& allowed,
                                            bool kept_split = false) const;

 private:
  bool is_added_to(TensorId id) const;

  const Graph& graph_;
  std::vector<std::vector<Reader>> read_by_;
};

// Returns the gradients behind the update of a parameter. The first is the one that it reads. The others come before it
// in clipping and unscaling, back to the one that the backward pass leaves. Empty for another op.
std::vector<TensorId> gradients_of_update(const Graph& graph, const Op& op);

}  // namespace partita
