// The tasks of one op: its operands brought, its kernels, its inner steps, its results settled in their homes.
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

// What an op's kernels are and compute. Layers that are cut alike share formula and derivation, and so this.
struct OpKernels {
  std::vector<Segment> segments;
  std::map<int, std::vector<double>> flops;  // by position: of each segment
};

// Local lowering under way: where each tensor lies so far.
struct LocalLowering {
  const Graph& graph;
  const Resolved& resolved;
  const RegisterAxes axes;
  const std::vector<char> of_samples;  // by TensorId (graph/of_samples.h)
  Draft draft;
  Converter converter;                           // of inner steps
  std::vector<std::optional<Placed>> placed;     // by TensorId: at home
  std::vector<std::optional<Placed>> converted;  // by place in resolved.conversions, when made
  std::vector<const ResolvedConversion*> kept;   // by TensorId: the one into its kept layout, if any
  std::map<std::pair<const tdl::Bound*, const tdl::Derived*>, OpKernels> kernels;
};

void lower_op(LocalLowering& local, OpId id);

// A context whose registers hold this tensor: how its parts follow each other.
inline void in_time(Context& at, const Tensor& tensor) {
  if (tensor.in_time != InTime::kParts) return;
  at.time_axis = tensor.time_axis;
  at.time_inner = tensor.time_inner;
}

}  // namespace partita
