// Describes a kernel's task: stages of a formula over ranges of its indices, on shards of tensors in memory.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/base/box.h"
#include "partita/base/dtype.h"
#include "partita/tdl/tdl.h"

namespace partita {

// A shard of a tensor in memory: a box over its axes, and a stride for each, in elements. An element of the tensor at p
// lies at sum (p[a] - box[a].lo) * strides[a] from the first.
struct TensorShard {
  DType dtype = DType::kFloat32;
  Box box;
  Shape strides;
};
// Per tensor of a formula, over its factored axes; empty if nothing is held.
using TensorShards = std::vector<std::optional<TensorShard>>;

// The same shard over other factors of the same axes: a register may be factored more finely than the formula needs, or
// less (TDL.md rule 4). If the box is no box over `to`, or its elements have no strides there, the first function
// reports our bug and the second returns nothing.
TensorShard over_axes(const TensorShard& shard, const Shape& from, const Shape& to);
std::optional<TensorShard> try_over_axes(const TensorShard& shard, const Shape& from, const Shape& to);

// One read or write of a kernel: a shard of a tensor over its register's (factored) axes.
struct PlacedShard {
  int tensor = -1;  // of the bound formula
  TensorShard shard;
  Shape axes;  // the whole tensor's extents over the axes of `shard`
};

// The shards that a kernel reads and writes.
struct KernelShards {
  TensorShards shards;
  std::vector<bool> written;  // per tensor
  // The type of real arithmetic: the widest floating type held, at least float32; float64 if there is none.
  DType real = DType::kFloat64;
};
KernelShards kernel_shards(const tdl::Bound& bound, const std::vector<PlacedShard>& reads,
                           const std::vector<PlacedShard>& writes);

// Stages [first_stage, last_stage) over `ranges` (one per index of the formula, global values).
struct KernelRequest {
  const std::string& definition;
  const tdl::Attributes& attributes;
  const tdl::Bound& bound;
  int first_stage = 0, last_stage = 0;
  const std::vector<Interval>& ranges;
  KernelShards held;
};

// The box of its result that a stage computes over these ranges; all axes are empty if that is nothing (TDL.md rule 9).
Box stage_box(const tdl::Bound& bound, int stage, const std::vector<Interval>& ranges);

}  // namespace partita
