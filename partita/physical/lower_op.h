// Makes the tasks of one op: it converts the operands, adds kernels and inner steps, and converts results into their
// kept layouts.
//
// Example: softmax over a split axis has two inner steps (the maximum, the sum), and so three segments of stages. On
// gpu0 these are the kernels "softmax.0@gpu0", "softmax.1@gpu0" and "softmax.2@gpu0", with an all-reduce before each of
// the last two.
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "partita/physical/draft.h"
#include "partita/physical/register_axes.h"
#include "partita/physical/segments.h"
#include "partita/plan/resolve.h"

namespace partita {

// An op's kernels and their FLOPs. Layers that are split alike share formula and derivation, and so this.
struct OpKernels {
  std::vector<Segment> segments;
  std::map<int, std::vector<double>> flops;  // by position: of each segment
};

// Local lowering under way: where each tensor lies so far.
struct LocalLowering {
  const Graph& graph;
  const Resolved& resolved;
  RegisterAxes axes;
  const std::vector<char> is_sample_tensor;  // by TensorId (graph/sample_tensors.h)
  Draft draft;
  Converter converter;                           // of inner steps
  std::vector<std::optional<Placed>> placed;     // by TensorId: in its kept layout
  std::vector<std::optional<Placed>> converted;  // by place in resolved.conversions, when made
  std::vector<const Conversion*> kept;           // by TensorId: the one into its kept layout, if any
  std::map<std::pair<const tdl::Bound*, const tdl::Derived*>, OpKernels> kernels;
  const std::vector<char> carried;  // by TensorId
};
// By TensorId: whether another tensor replaces it in the next step.
std::vector<char> carried(const Graph& graph);

void lower_op(LocalLowering& local, OpId id);

// The steps of lower_op follow. Each depends on the choices on one op, or on one tensor's writer and readers. Local
// lowering of a whole plan takes them in the graph's order.
//
// Returns the op's results as its kernels and inner steps leave them. `operands`: as the op must have them.
std::vector<Placed> run_op(LocalLowering& local, OpId id, const ResolvedOp& resolved,
                           const std::vector<Placed>& operands);
// Puts result r into its kept layout: as it is, converted, or into the registers of the tensor that it replaces.
// `as_made`: its layout.
void settle_result(LocalLowering& local, OpId id, size_t r, Placed made, const Layout& as_made);
// Converts a tensor from its kept layout for the conversion's first reader. The tensor is made `firings` times a step.
Placed convert_for(LocalLowering& local, const Reader& reader, TensorId tensor, const Conversion& conversion,
                   int firings);
// Tells whether a result of this layout may go straight into the registers of the tensor that it replaces. `operands`:
// where they lie; those that are not given lie elsewhere.
bool goes_into(const tdl::Bound& bound, const std::vector<std::optional<Placed>>& operands, const Placed& replaced,
               const Layout& layout, int result);
// Places a tensor that no op makes: an input is loaded, parameters and state are carried, constants are there.
Placed place_source(LocalLowering& local, TensorId id);
// Fetches an output whole to one host, and gives it there.
void lower_output(LocalLowering& local, TensorId id);

// Sets how the micro-batches of this tensor follow each other in the context's registers.
inline void set_micro_batch_scope(Context& at, const Graph& graph, TensorId tensor) {
  if (graph.tensor(tensor).scope == MicroBatchScope::kMicroBatch) at.along = micro_batch_axis_of(graph, tensor);
}

}  // namespace partita
