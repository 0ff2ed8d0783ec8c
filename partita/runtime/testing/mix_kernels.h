// Kernels without a library behind them, for tests of the runtime: every element that a call writes depends on every
// element that it reads, on the task and on the act, in small whole numbers, so that any order of addition gives the
// same bytes.
#pragma once
#include <functional>

#include "partita/runtime/execute.h"

namespace partita::testing {

class MixKernels final : public Kernels {
 public:
  void run(const KernelCall& call) override;
};

// Elements of a view, row by row, as double.
void for_each(const View& view, const std::function<void(const std::vector<int64_t>& point, std::byte* element)>& f);
double number_at(const View& view, const std::byte* element);
void put(const View& view, std::byte* element, double value);

// All tasks one after another in the graph's order, on one thread: what every engine must compute.
void run_in_order(const PhysicalGraph& graph, const Memory& memory, const Hooks& hooks, int64_t steps);

}  // namespace partita::testing
