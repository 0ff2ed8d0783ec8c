// Holds the devices' memory: one arena a device, registers at the planner's offsets.
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

  // Returns the address of use `use` of a register: in slot `use` mod count.
  std::byte* address(RegisterId reg, int use) const;
  // Returns the box that access `a` reads or writes in firing `firing` of a task of rate `rate`, and its memory.
  View view(const Access& a, int firing, int rate) const;
  // Returns the box of use `use` that access `a` reads or writes.
  View view_of_use(const Access& a, int use) const;
  const PhysicalGraph& graph() const { return graph_; }

 private:
  const PhysicalGraph& graph_;
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::vector<std::unique_ptr<std::byte[], Free>> arenas_;
};

// Returns the use of a register that firing `firing` of a task of this rate touches. It is 0 if there is one use a
// step, or the register is carried.
int use_of(const Register& reg, int firing, int rate);

}  // namespace partita
