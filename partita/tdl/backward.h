// Holds a gradient's formula while it is made; all phases of the derivation share it.
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "partita/tdl/tdl.h"

namespace partita::tdl {

// In a CotangentPart's left side: the axis has extent 1 and is written at 0.
inline constexpr int kZero = -1;

// One contribution to a tensor's cotangent: the sum of `body` over `summed`, at `lhs`, which has an index or kZero for
// each factored axis.
struct CotangentPart {
  std::vector<int> lhs;
  std::vector<int> summed;
  Expr body;
};
// {0, kZero} as the left side [i, 0].
std::vector<Affine> index_forms(const std::vector<int>& lhs);

// The forward formula, and behind its tensors and indices those that the gradient adds.
class Backward {
 public:
  Backward(const Bound& forward, int operand);

  const Bound& forward;
  Bound formula;

  int add_tensor(BoundTensor tensor);
  int add_index(const std::string& name, int64_t extent);
  // `wanted`, with a number behind it if that is taken.
  std::string fresh_name(const std::string& wanted);
  // The index along an axis of a tensor for which the forward formula has none; one for each axis.
  int axis_index(int tensor, size_t axis);

 private:
  std::map<std::pair<int, size_t>, int> axis_indices_;
  std::set<std::string> used_names_;
};

// The contribution of one access of a stage to a cotangent.
struct Flow {
  const Stage& stage;
  const Expr& access;
  const Expr& body;              // of the stage, below its reducer
  const std::vector<int>& own;   // the stage's indices, those of its left side first
  const std::set<int>& reduced;  // those of them that its reducer goes over
  bool polynomial = false;       // the derivative of the body by the access is one
  Expr value;                    // in the stage's indices
};
// Converts the flow to a part of the cotangent of the tensor that is read. The access's subscripts u = f(I) are solved
// for indices of the stage, one an axis, and the other indices are summed over. x[i + k] gets, at u, the value at i = u
// - k, summed over k.
CotangentPart cotangent_part(Backward& backward, Flow flow);

// Assembles the gradient: the forward stages that the result needs, then those of `back`. Operands are in the forward
// order, then the cotangents.
Gradient assemble_gradient(const Backward& backward, std::vector<Stage> back, int result);

}  // namespace partita::tdl
