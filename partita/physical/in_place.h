// Finds results that may lie on an operand (docs/inside/PHYSICAL.md section 4). plan_memory (passes.h) then gives both
// the same bytes.
//
// Example: in y = relu(h), one kernel, y and h have the same box. So y may lie on h, if nothing reads h later. In y =
// matmul(h, w) it may not, since elements of h are read after elements of y are written.
#pragma once
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

// An operand that an element-wise task reads last and a result that it writes first may be the same bytes.
class InPlace {
 public:
  explicit InPlace(const PhysicalGraph& graph);
  // Tells whether `result` may lie on `operand`, in every use. The caller must know whether anything reads the operand
  // later.
  bool can_alias(RegisterId operand, RegisterId result) const;
  // Returns the operands on which the result may lie.
  std::vector<RegisterId> operands_of(RegisterId result) const;

 private:
  static constexpr int kSeveral = -2;
  const PhysicalGraph& graph_;
  std::vector<int> writer_;  // the one task that writes a register, or kSeveral
  std::vector<char> kept_;   // by register: a gradient that is kept when it has been read last (kept_gradients.h)
};

}  // namespace partita
