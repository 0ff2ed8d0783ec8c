// Explains a plan, for `partita explain`. It tells the bytes that each choice moves, and those that the plan would move
// if one choice were another and all others stayed.
//
// Example: fc2 runs as [k] on two devices, so that its result is partial and is reduced: 8 kB. As [o] it would read its
// operand whole. An all-gather of 4 kB appears, and the reduction of 8 kB goes. The alternative [o] has bytes -4 kB,
// more {all-gather}, less {reduction}. `partita explain` prints such lists (docs/reference/plan.md).
#pragma once
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "partita/plan/resolve.h"

namespace partita {

// One conversion of a tensor: into its kept layout, or from there, once for all readers that want the same.
struct Moved {
  TensorId tensor;
  Layout from, to;
  int64_t bytes = 0;
  std::vector<Reader> readers;                // empty: into the kept layout
  bool operator==(const Moved& other) const;  // readers count only as some or none
};

// The changes of the whole plan by one other choice.
struct Difference {
  int64_t bytes = 0;              // more (or fewer) that the whole plan would move, as the checker counts
  int64_t inner_bytes = 0;        // those of them that are inside the op
  std::vector<Moved> more, less;  // conversions that would appear, and that would go; dearest first
};

constexpr double kMostListed = 4096;  // if a choice has more alternatives, only some are looked at

struct OpAlternative {
  std::vector<tdl::AxisStrategy> strategies;  // one a mesh axis
  Difference difference;
  int64_t inner_bytes = 0;
};
struct OpExplanation {
  int64_t inner_bytes = 0;
  OpLayouts layouts;
  std::vector<Moved> moved;  // conversions of its operands that it reads, and of its results; none that moves nothing
  double others = 0;         // strategies on the op's mesh
  // All other strategies that exist. If there are more than 4,096, these are listed: those that differ on one axis or
  // two, and those with one strategy on the first axes and one on the rest. By bytes, ties in the order of the formula.
  std::vector<OpAlternative> alternatives;
  std::map<std::string, std::vector<std::vector<tdl::AxisStrategy>>> impossible;  // by the reason
};

struct TensorAlternative {
  std::optional<Placement> kept;  // none: as its producer leaves it
  Difference difference;
};
struct TensorExplanation {
  TensorId keeper;  // itself, or the tensor that it replaces
  Layout kept_layout;
  std::optional<Layout> made;  // as its producer leaves it
  std::vector<Moved> moved;
  double others = 0;                            // layouts with a name on the mesh of its kept layout
  std::vector<TensorAlternative> alternatives;  // all of them, or some as for an op; by bytes
};

class Explainer {
 public:
  // The checker has accepted the plan; `resolved` is of it. All four must outlive the explainer.
  Explainer(const Graph& graph, const Plan& plan, const Resolved& resolved, const Cluster& cluster);

  OpExplanation op(OpId id);
  TensorExplanation tensor(TensorId id);
  std::vector<Moved> conversions();  // all that move bytes, dearest first
  // By name of step: the bytes that all steps of this kind move, those inside operations included.
  std::map<std::string, int64_t> bytes_by_step();
  // "reduce-scatter + all-gather", or the names that `name` gives the steps.
  using StepName = std::function<std::string(const Step&)>;
  std::string steps_of(const Moved& moved, const StepName& name = nullptr);

 private:
  using Layouts = std::vector<const OpLayouts*>;  // by OpId
  void look_at_alternatives(OpId id, const std::vector<TensorId>& touched, const std::vector<Moved>& now,
                            OpExplanation& out);
  void look_at_layouts(TensorId id, const std::vector<TensorId>& alike, const std::vector<Moved>& now,
                       TensorExplanation& out);
  std::vector<Moved> moved_of(TensorId id, const Layouts& layouts, const Plan& plan);
  std::vector<Moved> moved_of(const std::vector<TensorId>& tensors, const Layouts& layouts, const Plan& plan);
  int64_t inner_bytes_of(OpId id, const tdl::Derived& derived);

  const Graph& graph_;
  const Plan& plan_;
  const Resolved& resolved_;
  const std::vector<std::vector<Reader>> readers_;
  Layouts layouts_;
  Converter converter_;
};

// Returns the plan with another choice, to check it as a whole.
Plan with(Plan plan, OpId op, const std::vector<tdl::AxisStrategy>& strategies);
Plan with(Plan plan, TensorId keeper, const std::optional<Placement>& kept);

}  // namespace partita
