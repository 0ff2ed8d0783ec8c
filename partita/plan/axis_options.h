// Lists how ops can be split over one mesh axis, and how their tensors then lie there. Rules that follow a split
// through a graph read it (tensor_rule.h, expert_rule.h, sequence_rule.h).
//
// Example, matmul(a [4x6], b [6x8]) over 2 positions. Split along its index j, a is whole, b and the result are split
// along axis 1. Split along k, a is split along axis 1, b along axis 0, and the result is partial.
#pragma once
#include <map>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/sharding/layout.h"

namespace partita {

// The split of a tensor over a group of devices. Two splits meet if they cut the same axis inside the same outer
// digits: S(1) of 768 and S(1.0) of 12x64 do, though their cuts differ if 12 does not divide. S(1.1) of 3x256 is
// another.
struct AxisLayout {
  enum class Kind { kWhole, kSplit, kPartial, kOther } kind = Kind::kWhole;
  int axis = 0;
  int64_t outer = 1;  // extent of the axis above the digit that is cut
  bool operator==(const AxisLayout&) const = default;
};
// Returns how a layout lies on a mesh of one axis. An axis of which all positions read the same (one half of a rotary
// embedding, say) counts as whole.
AxisLayout axis_layout_of(Layout layout);
// Returns the split of a tensor with these radices; empty if they have no such digit.
std::optional<Sbp> sbp_of(const AxisLayout& part, const std::vector<Shape>& radices);

// One strategy of an op over the group.
struct AxisOption {
  tdl::AxisStrategy strategy;
  std::vector<AxisLayout> operands, results;
  bool inner = false;  // it exchanges something inside
};

// The options that split a tensor, of ops over a group of `degree` devices. Those without an exchange inside come
// first.
class AxisOptions {
 public:
  AxisOptions(const Graph& graph, int degree) : graph_(graph), degree_(degree) {}
  const std::vector<AxisOption>& of(OpId id);
  int degree() const { return degree_; }

 private:
  const Graph& graph_;
  int degree_;
  std::map<const tdl::Bound*, std::vector<AxisOption>> known_;
};

// Tells whether `tensor`, one of `tensors`, is `part` wherever it stands.
bool fits(const std::vector<TensorId>& tensors, const std::vector<AxisLayout>& parts, TensorId tensor,
          const AxisLayout& part);

}  // namespace partita
