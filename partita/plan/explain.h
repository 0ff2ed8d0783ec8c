// Why a plan is as it is: what each of its choices moves, and what every alternative to one of them would, all others
// being as they are.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "partita/plan/resolve.h"

namespace partita {

// One conversion of a tensor: into its home, or, once for all readers that want the same, from there.
struct Moved {
  TensorId tensor;
  Layout from, to;
  int64_t bytes = 0;
  std::vector<Reader> readers;                // empty: into its home
  bool operator==(const Moved& other) const;  // but for the readers
};

// What would differ in the whole plan.
struct Difference {
  int64_t bytes = 0;              // of all that moves, as the checker counts
  int64_t inner_bytes = 0;        // of these, inside the op
  std::vector<Moved> more, less;  // conversions that there would be and are not, and the other way round; dearest first
};

constexpr double kMostListed = 4096;  // alternatives to one choice, of which all are looked at

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
  // All other strategies that exist, or, where there are more than 4,096, those that differ on one axis or two and
  // those with one strategy on the first axes and one on the rest; by bytes, ties in the order of the formula.
  std::vector<OpAlternative> alternatives;
  std::map<std::string, std::vector<std::vector<tdl::AxisStrategy>>> impossible;  // by the reason
};

struct TensorAlternative {
  std::optional<Placement> kept;  // none: as its producer leaves it
  Difference difference;
};
struct TensorExplanation {
  TensorId keeper;  // itself, or what it replaces
  Layout home;
  std::optional<Layout> made;  // as its producer leaves it
  std::vector<Moved> moved;
  double others = 0;                            // homes with a name on the mesh of its home
  std::vector<TensorAlternative> alternatives;  // these, chosen as of an op, by bytes
};

class Explainer {
 public:
  // The checker has accepted the plan. All three must stay.
  Explainer(const Graph& graph, const Plan& plan, const Cluster& cluster);

  OpExplanation op(OpId id);
  TensorExplanation tensor(TensorId id);
  // All conversions that move anything, dearest first; by name of step, what all of its kind move, those inside
  // operations included.
  std::vector<Moved> conversions();
  std::map<std::string, int64_t> bytes_by_step();
  std::string steps_of(const Moved& moved);  // "reduce-scatter + all-gather"

 private:
  using Layouts = std::vector<const OpLayouts*>;  // by OpId
  std::vector<Moved> moved_of(TensorId id, const Layouts& layouts, const Plan& plan);
  std::vector<Moved> moved_of(const std::vector<TensorId>& tensors, const Layouts& layouts, const Plan& plan);
  int64_t inner_bytes_of(OpId id, const tdl::Derived& derived);

  const Graph& graph_;
  const Plan& plan_;
  const Cluster& cluster_;
  const Resolved resolved_;
  const std::vector<std::vector<Reader>> readers_;
  Layouts layouts_;
  Converter converter_;
};

// The plan with another choice, for judging it as a whole.
Plan with(Plan plan, OpId op, const std::vector<tdl::AxisStrategy>& strategies);
Plan with(Plan plan, TensorId keeper, const std::optional<Placement>& kept);

}  // namespace partita
