// Provides kernels without a library behind them, for tests of the runtime. Every written element depends on every
// element that the call reads, on the task and on the firing. Numbers are small and whole, so that any order of
// addition gives the same bytes.
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

// Runs all tasks one after another in the graph's order, on one thread: the reference for every engine.
void run_in_order(const PhysicalGraph& graph, const Memory& memory, const Hooks& hooks, int64_t steps);

}  // namespace partita::testing
