// What a plan's choices come to: every op derived, every tensor's home, every conversion. A pure function of the plan,
// used by lowering, by the checker's report and by costs. The conversions of a tensor depend on the choices of its
// writer and its readers only.
#pragma once
#include <memory>
#include <vector>

#include "partita/plan/plan.h"
#include "partita/sharding/boxing.h"

namespace partita {

struct ResolvedOp {
  std::shared_ptr<const tdl::Derived> derived;
  OpLayouts layouts;  // what its operands must be, what its results are
};

// One conversion of a tensor, made once for all readers that want the same layout; of a refetched tensor, once for
// those in the backward pass and once for all others.
struct ResolvedConversion {
  TensorId tensor;
  Conversion conversion;
  std::vector<Reader> readers;  // empty: into the tensor's kept layout
};

struct Resolved {
  std::vector<ResolvedOp> ops;  // by OpId
  std::vector<Layout> home;     // by TensorId: where it is after its producer (and the conversion into its kept layout)
  std::vector<ResolvedConversion> conversions;       // in tensor order; the one into the kept layout first
  std::vector<std::vector<int>> operand_conversion;  // [op][operand]: position in conversions, -1: read at home

  int64_t conversion_bytes() const;  // between compute devices
};

// The dtype of an op's inner stages: of its first floating result, else of its first floating operand, else of its
// first result.
DType inner_dtype(const Graph& graph, const Op& op);

// A placement of a tensor of this shape, and a layout that has this name as one.
Layout layout_of(const Placement& placement, const Shape& shape);
Placement placement_of(const Layout& layout, NdSbp name);

// Throws bad input, naming op or tensor and the rule, where a choice does not exist. `listed`: whose parts of the steps
// are.
Resolved resolve(const Graph& graph, const Plan& plan, const Cluster& cluster, const Listed& listed = nullptr);

// Derived strategies by (bound, mesh extents, strategies): many ops share them. Not thread-safe.
class DerivationCache {
 public:
  std::shared_ptr<const tdl::Derived> get(const std::shared_ptr<const tdl::Bound>& bound, const std::vector<int>& mesh,
                                          const std::vector<tdl::AxisStrategy>& strategies);  // null: not derived

 private:
  std::map<std::tuple<const tdl::Bound*, std::vector<int>, std::vector<tdl::AxisStrategy>>,
           std::shared_ptr<const tdl::Derived>>
      known_;
};

}  // namespace partita
