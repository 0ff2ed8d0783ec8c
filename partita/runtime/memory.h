// The devices' memory: one arena a device, registers at the offsets that the planner gave them.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include "partita/physical/physical.h"
#include "partita/runtime/views.h"

namespace partita {

class Memory {
 public:
  explicit Memory(const PhysicalGraph& graph);

  // Where use `use` of a register lies: in slot `use` mod count.
  std::byte* address(RegisterId reg, int use) const;
  // The box that access `a` reads or writes in act `act` of a task of rate `rate`, and where it is.
  View view(const Access& a, int act, int rate) const;
  // The box of use `use` that access `a` reads or writes.
  View view_of_use(const Access& a, int use) const;
  const PhysicalGraph& graph() const { return graph_; }

 private:
  const PhysicalGraph& graph_;
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::vector<std::unique_ptr<std::byte[], Free>> arenas_;
};

// The use of a register that act `act` of a task of this rate touches; 0 where there is one use a step, or the register
// is carried.
int use_of(const Register& reg, int act, int rate);

}  // namespace partita
