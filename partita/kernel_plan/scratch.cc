// Repeats the allocations of kernels/generic.cc for a block, in the same order, to size the scratch.
#include "partita/kernel_plan/scratch.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "partita/kernel_plan/block.h"

namespace partita {

using Kind = StageInstr::Kind;
using Finish = StageProgram::Finish;

namespace {

bool can_be_direct(const StageProgram& program, const Shape& block, const BlockLayout& layout) {
  if (layout.flips_out || !layout.same_dtype || !layout.one_pass) return false;
  const uint64_t wanted = wanted_dims(program);
  switch (program.finish) {
    case Finish::kStore: {
      const StageInstr& last = program.code[program.a];
      return program.a + 1 == static_cast<int>(program.code.size()) && last.dims == wanted &&
             (last.kind == Kind::kUnary || last.kind == Kind::kBinary || last.kind == Kind::kSelect ||
              last.kind == Kind::kCast);
    }
    case Finish::kScatter:
      return false;
    case Finish::kReduce:
      return program.reducer != tdl::Reducer::kProd && (program.code[program.a].dims & lhs_mask(program)) == wanted;
    case Finish::kProduct: {
      const ProductDims d = product_dims(program);
      const auto m = matrix_strides(block, layout.out_strides, d.batch, d.rows, d.columns);
      return m && m->columns == 1 && (extent_of(block, d.batch) == 1 || m->batch > 0) &&
             ((program.code[program.a].dims | program.code[program.b].dims) & lhs_mask(program)) == wanted;
    }
  }
  return false;
}

}  // namespace

BlockLayout block_layout(const tdl::Bound& bound, const StageProgram& program, const TensorShards& shards,
                         const Shape& block) {
  const tdl::Stage& stage = bound.stages[program.stage];
  const TensorShard& out = *shards[stage.tensor];
  const StageInstr lhs = left_side(program, stage);
  BlockLayout layout;
  layout.out_strides = read_strides(lhs, program.dims, out.strides);
  layout.flips_out = is_flipped(lhs, layout.out_strides);
  layout.same_dtype = out.dtype == program.dtype;
  layout.element_bytes = bytes_of(out.dtype);
  for (size_t d = program.lhs_count; d < block.size(); ++d) layout.one_pass &= block[d] == program.ranges[d].size();
  layout.accumulates = !layout.same_dtype && is_float(out.dtype) && is_float(program.dtype) &&
                       (program.finish == Finish::kScatter || (program.finish != Finish::kStore && !layout.one_pass));
  layout.direct = can_be_direct(program, block, layout);
  return layout;
}

namespace {

// A block while it is placed.
struct Placing {
  const StageProgram& program;
  const TensorShards& shards;
  const Shape& block;
  const BlockLayout& layout;
  FirstFit& scratch;
  std::vector<Interval> at;      // the block
  std::vector<int64_t> offsets;  // of values with memory, else -1
  std::vector<Shape> strides;    // of the values; empty: a flipped copy

  int64_t take(int64_t bytes) { return scratch.allocate(bytes); }
  void drop(int64_t& offset) {
    if (offset >= 0) scratch.free(offset);
    offset = -1;
  }
  // Puts a copy of a value in its place.
  void replace(int64_t& offset, int64_t bytes) {
    const int64_t copy = take(bytes);
    drop(offset);
    offset = copy;
  }
  int64_t volume_of(uint64_t dims) const {
    int64_t n = 1;
    for (size_t d = 0; d < block.size(); ++d)
      if (dims >> d & 1) n *= block[d];
    return n;
  }
};

Shape dense_of(const Placing& p, uint64_t dims) {
  Shape strides(p.block.size(), 0);
  int64_t stride = 1;
  for (size_t d = p.block.size(); d-- > 0;)
    if (dims >> d & 1) {
      strides[d] = stride;
      stride *= p.block[d];
    }
  return strides;
}

void place_read(Placing& p, size_t i) {
  const StageInstr& instr = p.program.code[i];
  Shape axis_strides = p.shards[instr.tensor]->strides;
  if (instr.padded) {
    const Shape hull = extents(read_hull(instr, p.program.dims, p.at));
    p.offsets[i] = p.take(volume(hull) * bytes_of(instr.dtype));
    axis_strides = dense_strides(hull);
  }
  p.strides[i] = read_strides(instr, p.program.dims, axis_strides);
  if (!is_flipped(instr, p.strides[i])) return;
  p.replace(p.offsets[i], p.volume_of(instr.dims) * bytes_of(instr.dtype));
  p.strides[i].clear();
}

void place_value(Placing& p, size_t i) {
  const StageInstr& instr = p.program.code[i];
  const int64_t value = p.volume_of(instr.dims) * bytes_of(instr.dtype);
  p.strides[i] = dense_of(p, instr.dims);
  switch (instr.kind) {
    case Kind::kConst:
      p.offsets[i] = p.take(bytes_of(instr.dtype));
      break;
    case Kind::kRead:
      place_read(p, i);
      break;
    case Kind::kRng: {
      p.offsets[i] = p.take(value);
      std::vector<int64_t> keys;
      for (size_t a = 0; a < instr.args.size(); ++a) keys.push_back(p.take(p.volume_of(instr.dims) * 8));
      for (int64_t& k : keys) p.drop(k);
      break;
    }
    default:
      if (p.program.direct && p.program.finish == Finish::kStore && static_cast<int>(i) == p.program.a) break;
      if (instr.in_place) std::swap(p.offsets[i], p.offsets[instr.reuse]);
      else p.offsets[i] = p.take(value);
  }
}

// Writes a value of the program's type into the result, or combines it with that.
void place_store(Placing& p, int64_t& offset, int64_t elements) {
  if (p.layout.flips_out) p.replace(offset, elements * bytes_of(p.program.dtype));
  if (!p.layout.one_pass && !p.layout.same_dtype && !p.layout.accumulates)
    p.replace(offset, elements * p.layout.element_bytes);
  p.drop(offset);
}

void place_reduction(Placing& p) {
  const StageProgram& program = p.program;
  const int64_t element = bytes_of(program.dtype),
                elements = p.volume_of(program.code[program.a].dims & lhs_mask(program));
  int64_t& offset = p.offsets[program.a];
  if (program.lhs_count == static_cast<int>(p.block.size())) return place_store(p, offset, elements);
  if (program.direct) return;
  if (program.reducer == tdl::Reducer::kProd) {  // one dimension after another
    for (size_t d = program.lhs_count; d < p.block.size(); ++d) {
      int64_t left = elements;
      for (size_t later = d + 1; later < p.block.size(); ++later) left *= p.block[later];
      p.replace(offset, left * element);
    }
  } else {
    p.replace(offset, elements * element);
  }
  place_store(p, offset, elements);
}

// Places, and values as [summed, the rest].
void place_scatter(Placing& p) {
  int64_t summed = 1, rest = 1;
  for (size_t d = 0; d < p.block.size(); ++d) (static_cast<int>(d) < p.program.lhs_count ? rest : summed) *= p.block[d];
  int64_t places = p.take(summed * bytes_of(DType::kInt64));
  for (int d : p.program.scattered) rest /= p.block[d];
  int64_t values = p.take(summed * rest * bytes_of(p.program.dtype));
  p.drop(values), p.drop(places);
}

void place_product(Placing& p) {
  const StageProgram& program = p.program;
  const ProductDims d = product_dims(program);
  const int64_t element = bytes_of(program.dtype), batch = extent_of(p.block, d.batch);
  for (const auto& [side, rows, columns] :
       {std::tuple{program.a, d.rows, d.summed}, std::tuple{program.b, d.summed, d.columns}}) {
    const uint64_t dims = program.code[side].dims;
    bool spread = false;  // along summed dimensions that this side lacks
    for (int s : d.summed) spread |= !(dims >> s & 1) && p.block[s] > 1;
    if (!spread && !p.strides[side].empty() && matrix_strides(p.block, p.strides[side], d.batch, rows, columns))
      continue;
    p.replace(p.offsets[side], batch * extent_of(p.block, rows) * extent_of(p.block, columns) * element);
  }
  if (program.direct) return;
  const int64_t elements = batch * extent_of(p.block, d.rows) * extent_of(p.block, d.columns);
  int64_t result = p.take(elements * element);
  p.drop(p.offsets[program.a]);
  p.drop(p.offsets[program.b]);
  place_store(p, result, elements);
}

void place_finish(Placing& p) {
  const StageProgram& program = p.program;
  switch (program.finish) {
    case Finish::kStore:
      if (!program.direct) place_store(p, p.offsets[program.a], p.volume_of(program.code[program.a].dims));
      break;
    case Finish::kReduce:
      place_reduction(p);
      break;
    case Finish::kProduct:
      place_product(p);
      break;
    case Finish::kScatter:
      place_scatter(p);
      break;
  }
}

}  // namespace

void place_block(const StageProgram& program, const TensorShards& shards, const Shape& block, const BlockLayout& layout,
                 FirstFit& scratch) {
  const size_t n = program.code.size();
  Placing p{program, shards, block, layout, scratch, {}, std::vector<int64_t>(n, -1), std::vector<Shape>(n)};
  for (size_t d = 0; d < block.size(); ++d) p.at.push_back({program.ranges[d].lo, program.ranges[d].lo + block[d]});
  int64_t sum = -1;
  if (p.layout.accumulates) {
    int64_t elements = 1;
    for (int d = 0; d < program.lhs_count; ++d) elements *= block[d];
    sum = p.take(elements * bytes_of(program.dtype));
  }
  for (size_t i = 0; i < program.code.size(); ++i) {
    place_value(p, i);
    for (int d : program.code[i].dead) p.drop(p.offsets[d]);
  }
  place_finish(p);
  for (int64_t& o : p.offsets) p.drop(o);
  p.drop(sum);
}

namespace {

// The extents of the blocks of a dimension: of whole slices, and of the last one.
std::vector<int64_t> block_extents(const StageProgram& program, size_t d) {
  const int64_t block = program.block[d], slice = program.slice[d], last = program.ranges[d].size() % slice;
  std::vector<int64_t> found{block};
  for (int64_t n : {slice % block, std::min(last, block), last % block})
    if (n > 0 && std::find(found.begin(), found.end(), n) == found.end()) found.push_back(n);
  return found;
}

}  // namespace

void place_blocks(const tdl::Bound& bound, const StageProgram& program, const TensorShards& shards, FirstFit& scratch) {
  std::vector<Shape> blocks{program.block};
  for (size_t d = 0; d < program.block.size(); ++d) {
    const size_t n = blocks.size();
    for (int64_t extent : block_extents(program, d)) {
      if (extent == program.block[d]) continue;
      for (size_t i = 0; i < n; ++i) {
        blocks.push_back(blocks[i]);
        blocks.back()[d] = extent;
      }
    }
  }
  for (const Shape& block : blocks)
    place_block(program, shards, block, block_layout(bound, program, shards, block), scratch);
}

}  // namespace partita
