// Computes the values of a stage program's instructions for one block.
#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/kernels/stage_run.h"

namespace partita {

using Kind = StageInstr::Kind;

namespace {

// The place of an instruction's value: over an argument that ends here, into the result itself, or somewhere new.
at::Tensor value_place(const StageRun& run, size_t i) {
  const StageProgram& program = run.program;
  const StageInstr& instr = program.code[i];
  if (program.direct && program.finish == StageProgram::Finish::kStore && static_cast<int>(i) == program.a)
    return out_tensor(run);
  if (instr.in_place) return run.values[instr.reuse];
  return new_tensor(instr.dtype, block_sizes(run, instr.dims));
}

at::Tensor grid(const StageRun& run, const StageInstr& instr) {
  const Interval r = run.box[instr.dim];
  Shape sizes(run.box.size(), 1);
  sizes[instr.dim] = r.size();
  at::Tensor value = new_tensor(DType::kInt64, {r.size()});
  at::arange_out(value, r.lo, r.hi, 1);
  return value.view(sizes);
}

// The elements of a padded read's hull, in memory of their own.
at::Tensor padded_read(const StageRun& run, const StageInstr& instr, const Box& hull) {
  const ShardMemory& source = run.held[instr.tensor];
  at::Tensor padding = new_tensor(instr.dtype, extents(hull));
  padding.fill_(instr.number);
  const Box inside = intersect(hull, source.shard.box);
  const ShardMemory into{{instr.dtype, hull, dense_strides(extents(hull))},
                         static_cast<std::byte*>(padding.data_ptr())};
  if (!is_empty(inside)) into.tensor(inside).copy_(source.tensor(inside));
  return padding;
}

// The offset, in elements, of the block's lowest element from the first element of `box`, which has these strides an
// axis. `strides` are the read's, per dimension.
int64_t first_element(const StageRun& run, const StageInstr& read, const Shape& strides, const Box& box,
                      const Shape& axis_strides) {
  int64_t offset = 0;
  for (size_t a = 0; a < box.size(); ++a)
    offset += (lowest_value(run, read.subscripts[a], strides) - box[a].lo) * axis_strides[a];
  return offset;
}

at::Tensor read_value(StageRun& run, size_t i) {
  const StageInstr& instr = run.program.code[i];
  const Shape sizes = block_sizes(run, instr.dims);
  at::Tensor value;
  Shape padded_strides;
  const Shape& strides = instr.padded ? padded_strides : run.prepared.read_strides[i];
  if (instr.padded) {  // in every block, so that all are placed alike
    const Box hull = read_hull(instr, run.program.dims, run.box);
    const Shape axis_strides = dense_strides(extents(hull));
    padded_strides = read_strides(instr, run.program.dims, axis_strides);
    value = padded_read(run, instr, hull)
                .as_strided(sizes, absolute_strides(strides), first_element(run, instr, strides, hull, axis_strides));
  } else {
    const ShardMemory& source = run.held[instr.tensor];
    const int64_t offset = first_element(run, instr, strides, source.shard.box, source.shard.strides);
    value = tensor_over(source.data + offset * bytes_of(instr.dtype), instr.dtype, sizes, absolute_strides(strides));
  }
  run.flipped[i] = is_flipped(instr, strides);
  return run.flipped[i] ? value.flip(negative_dims(strides)) : value;
}

at::Tensor gather_value(const StageRun& run, const StageInstr& instr) {
  const ShardMemory& source = run.held[instr.tensor];
  int64_t span = 1;
  for (size_t a = 0; a < source.shard.box.size(); ++a)
    span += (source.shard.box[a].size() - 1) * source.shard.strides[a];
  const at::Tensor memory = tensor_over(source.data, source.shard.dtype, {span}, {1});
  return at::index_select(memory, 0, run.values[instr.args[0]].contiguous().view({-1}))
      .view(block_sizes(run, instr.dims));
}

// rng(seed, element), rng(seed, step, element) or rng(seed, stream, step, element) (base/rng.h). The call's seed is
// added to the formula's; its stream and step replace those that the formula leaves out.
at::Tensor random_value(const StageRun& run, const StageInstr& instr) {
  const Shape sizes = block_sizes(run, instr.dims);
  at::Tensor value = new_tensor(instr.dtype, sizes);
  std::vector<at::Tensor> keys;
  for (int a : instr.args) {
    keys.push_back(new_tensor(DType::kInt64, sizes));
    keys.back().copy_(run.values[a]);
  }
  const size_t n = keys.size();
  ensure(n >= 2 && n <= 4, "rng() has {} arguments", n);
  auto key = [&](size_t from_end, int64_t i, uint64_t otherwise) {
    return n > from_end + 1 ? static_cast<uint64_t>(keys[n - 1 - from_end].const_data_ptr<int64_t>()[i]) : otherwise;
  };
  for (int64_t i = 0; i < value.numel(); ++i) {
    const uint64_t seed = static_cast<uint64_t>(keys[0].const_data_ptr<int64_t>()[i]) + run.call.seed;
    const double u =
        philox_uniform(seed, key(2, i, run.call.work->random_stream), key(1, i, run.call.step), key(0, i, 0));
    if (instr.dtype == DType::kFloat64) value.mutable_data_ptr<double>()[i] = u;
    else value.mutable_data_ptr<float>()[i] = static_cast<float>(u);
  }
  return value;
}

void compute_value(const StageRun& run, size_t i, at::Tensor& out) {
  const StageInstr& instr = run.program.code[i];
  const auto arg = [&](size_t k) -> const at::Tensor& { return run.values[instr.args[k]]; };
  switch (instr.kind) {
    case Kind::kCast:
      out.copy_(arg(0));
      break;
    case Kind::kUnary:
      run.prepared.unary[i](out, arg(0));
      break;
    case Kind::kBinary: {
      const StageInstr& second = run.program.code[instr.args[1]];
      if (instr.function == "^" && second.kind == Kind::kConst) power_into(out, arg(0), second.number);
      else run.prepared.binary[i](out, arg(0), arg(1));
      break;
    }
    case Kind::kSelect:
      select_into(out, arg(0), arg(1), arg(2));
      break;
    default:
      break;
  }
}

}  // namespace

void evaluate_instruction(StageRun& run, size_t i) {
  const StageInstr& instr = run.program.code[i];
  at::Tensor& value = run.values[i];
  switch (instr.kind) {
    case Kind::kConst:
      value = constant_tensor(instr.dtype, instr.number).view(Shape(run.box.size(), 1));
      break;
    case Kind::kGrid:
      value = grid(run, instr);
      break;
    case Kind::kRead:
      value = read_value(run, i);
      break;
    case Kind::kGather:
      value = gather_value(run, instr);
      break;
    case Kind::kRng:
      value = random_value(run, instr);
      break;
    default: {
      at::Tensor out = value_place(run, i);
      compute_value(run, i, out);
      value = out;
    }
  }
}

}  // namespace partita
