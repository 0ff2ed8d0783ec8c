// Writes a block's values into the result: as they are, reduced, scattered, or as a matrix product.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/kernels/stage_run.h"

namespace partita {

using Finish = StageProgram::Finish;

namespace {

// Writes, or combines with earlier blocks' results.
void store_result(const StageRun& run, at::Tensor value, bool first) {
  if (is_flipped(run.prepared.lhs, run.prepared.out_strides) && value.dim() > 0)
    value = value.flip(negative_dims(run.prepared.out_strides));
  at::Tensor out = out_tensor(run);
  if (first) {
    out.copy_(value);
    return;
  }
  if (value.scalar_type() != out.scalar_type()) value = value.to(out.scalar_type());
  combine_into(out, run.program.reducer, value);
}

// The value reduced over `dims`, one after another if the reducer needs that. `sizes` are the value's.
at::Tensor reduce_value(const StageProgram& program, at::Tensor value, Shape sizes, const std::vector<int64_t>& dims) {
  if (program.reducer == tdl::Reducer::kProd && dims.size() > 1) {
    for (int64_t d : dims) value = reduce_value(program, value, value.sizes().vec(), {d});
    return value;
  }
  for (int64_t d : dims) sizes[d] = 1;
  at::Tensor out = new_tensor(program.dtype, sizes);
  reduce_into(out, program.reducer, value, dims);
  return out;
}

void reduce(StageRun& run, bool first) {
  const StageProgram& program = run.program;
  at::Tensor value = run.values[program.a];
  run.values[program.a].reset();
  Shape sizes = block_sizes(run, program.code[program.a].dims);
  std::vector<int64_t> dims;
  for (size_t d = program.lhs_count; d < run.block.size(); ++d) {
    sizes[d] = run.block[d];
    dims.push_back(static_cast<int64_t>(d));
  }
  if (dims.empty()) return store_result(run, value, first);
  value = value.expand(sizes);
  if (program.direct && first) {
    at::Tensor out = out_tensor(run);
    return reduce_into(out, program.reducer, value, dims);
  }
  value = reduce_value(program, std::move(value), sizes, dims);
  if (program.dtype != DType::kInt64 && run.out.shard.dtype == DType::kInt64) value.clamp_(-kLargestInt, kLargestInt);
  store_result(run, value, first);
}

// ---------------------------------------------------------------- scatters

// The dimensions of a block in the order [summed, kept, scattered]: those of the left side are kept or scattered.
struct ScatterDims {
  std::vector<int64_t> summed, kept, scattered;
};
ScatterDims scatter_dims(const StageRun& run) {
  const std::vector<int>& to = run.program.scattered;
  ScatterDims dims;
  for (int d = 0; d < static_cast<int>(run.block.size()); ++d)
    if (d >= run.program.lhs_count) dims.summed.push_back(d);
    else if (std::find(to.begin(), to.end(), d) == to.end()) dims.kept.push_back(d);
  dims.scattered.assign(to.begin(), to.end());
  return dims;
}

// The result of a block as [the scattered dimensions as one, the kept ones, 1].
at::Tensor scatter_target(const StageRun& run, const ScatterDims& dims, const at::Tensor& out) {
  Shape sizes{extent_of(run.block, run.program.scattered)}, strides{1};
  for (int64_t d : dims.scattered)  // the last with more than one element is the least significant
    if (run.block[d] != 1) strides[0] = out.stride(d);
  for (int64_t d : dims.kept) sizes.push_back(run.block[d]), strides.push_back(out.stride(d));
  sizes.push_back(1), strides.push_back(1);
  return out.as_strided(sizes, strides, out.storage_offset());
}

void scatter(const StageRun& run, bool first) {
  const StageProgram& program = run.program;
  for (int d : program.scattered)
    ensure(run.box[d] == program.ranges[d], "a dimension that values are scattered along is cut into blocks");
  const ScatterDims dims = scatter_dims(run);
  const size_t rank = run.block.size();
  std::vector<int64_t> order;
  for (const auto* group : {&dims.summed, &dims.kept, &dims.scattered})
    order.insert(order.end(), group->begin(), group->end());
  Shape full(rank, 1), places_sizes(rank, 1);
  int64_t count = 1;
  for (size_t i = 0; i < dims.summed.size(); ++i) {
    const int64_t n = run.block[dims.summed[i]];
    full[dims.summed[i]] = places_sizes[i] = n;
    count *= n;
  }
  Shape values_sizes = places_sizes, source{count};  // values as they are computed, and as one list
  values_sizes.resize(dims.summed.size());
  for (int64_t d : dims.kept) values_sizes.push_back(run.block[d]), source.push_back(run.block[d]);
  values_sizes.resize(rank, 1);
  source.push_back(1);
  at::Tensor places = new_tensor(DType::kInt64, {count}), values = new_tensor(program.dtype, source);
  places.view(places_sizes).copy_(run.values[program.b].expand(full).permute(order));
  for (int64_t d : dims.kept) full[d] = run.block[d];
  values.view(values_sizes).copy_(run.values[program.a].expand(full).permute(order));
  at::Tensor out = out_tensor(run);
  if (first) out.zero_();
  scatter_target(run, dims, out).index_add_(0, places, values);
}

// ---------------------------------------------------------------- matrix products

// A side of the product as matrices [batch, rows, columns]: in place, or copied.
at::Tensor matrices(StageRun& run, int side, const std::vector<int>& batch, const std::vector<int>& rows,
                    const std::vector<int>& columns) {
  at::Tensor value = run.values[side];
  const size_t rank = run.block.size();
  const uint64_t dims = run.program.code[side].dims;
  const Shape sizes{extent_of(run.block, batch), extent_of(run.block, rows), extent_of(run.block, columns)};
  bool spread = false;
  Shape strides(rank, 0), full(rank, 1);
  std::vector<int64_t> order;
  for (const auto* group : {&batch, &rows, &columns})
    for (int d : *group) {
      spread |= !(dims >> d & 1) && run.block[d] > 1;
      if (value.dim() > 0) strides[d] = value.stride(d);
      full[d] = run.block[d];
      order.push_back(d);
    }
  // A flipped value is a copy in an order that ATen chose.
  if (const auto m = matrix_strides(run.block, strides, batch, rows, columns); m && !spread && !run.flipped[side])
    return value.as_strided(sizes, {m->batch, m->rows, m->columns}, value.storage_offset());
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (full[d] == 1 && std::find(order.begin(), order.end(), d) == order.end()) order.push_back(d);
  Shape target;
  for (int64_t d : order) target.push_back(full[d]);
  at::Tensor dense = new_tensor(run.program.dtype, sizes);
  dense.view(target).copy_(value.expand(full).permute(order));
  run.values[side].reset();
  return dense;
}

void hide(const StageRun& run, at::Tensor& product) {
  const StageProgram& program = run.program;
  if (program.hidden >= 0)
    product.masked_fill_(run.values[program.hidden], run.values[program.zero].view(at::IntArrayRef()));
}

void multiply(StageRun& run, bool first) {
  const StageProgram& program = run.program;
  const ProductDims& d = run.prepared.product;
  at::Tensor a = matrices(run, program.a, d.batch, d.rows, d.summed);
  at::Tensor b = matrices(run, program.b, d.batch, d.summed, d.columns);
  const Shape sizes{extent_of(run.block, d.batch), extent_of(run.block, d.rows), extent_of(run.block, d.columns)};
  if (program.direct && first) {
    at::Tensor out = out_tensor(run);
    if (const auto m = matrix_strides(run.block, run.prepared.out_strides, d.batch, d.rows, d.columns);
        m && m->columns == 1) {
      at::Tensor matrix = out.as_strided(sizes, {m->batch, m->rows, m->columns}, out.storage_offset());
      multiply_into(matrix, a, b);
      hide(run, out);
      return;
    }
  }
  at::Tensor result = new_tensor(program.dtype, sizes);
  multiply_into(result, a, b);
  // from [batch, rows, columns] to the order of the dimensions
  std::vector<int> order;
  for (const auto* group : {&d.batch, &d.rows, &d.columns}) order.insert(order.end(), group->begin(), group->end());
  Shape full(run.block.size(), 1), strides(run.block.size(), 0);
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    full[order[i]] = run.block[order[i]];
    strides[order[i]] = stride;
    stride *= run.block[order[i]];
  }
  a.reset();
  b.reset();
  run.values[program.a].reset();
  run.values[program.b].reset();
  at::Tensor value = result.as_strided(full, strides);
  hide(run, value);
  store_result(run, value, first);
}

}  // namespace

void finish_block(StageRun& run, bool first) {
  switch (run.program.finish) {
    case Finish::kStore:
      if (!run.program.direct) store_result(run, run.values[run.program.a], true);
      break;
    case Finish::kReduce:
      reduce(run, first);
      break;
    case Finish::kProduct:
      multiply(run, first);
      break;
    case Finish::kScatter:
      scatter(run, first);
      break;
  }
}

}  // namespace partita
