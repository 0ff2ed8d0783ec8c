#include "partita/kernels/generic.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>

#include <numeric>

#include "partita/base/error.h"
#include "partita/base/rng.h"

namespace partita {
namespace {

using Kind = StageInstr::Kind;
using Finish = StageProgram::Finish;

class StageRunner {
 public:
  StageRunner(const StageProgram& program, const tdl::Stage& stage, const std::vector<Held>& held, const RandomKey& key)
      : program_(program), held_(held), out_(held[stage.tensor]), key_(key), rank_(program.dims.size()) {
    lhs_.subscripts = stage.lhs;
    for (int d = 0; d < program.lhs_count; ++d)
      if (program.ranges[d].size() != 1) lhs_.dims |= uint64_t{1} << d;
    out_strides_ = read_strides(lhs_, program.dims, out_.part.strides);
  }

  void run() {
    at_.resize(rank_);
    blocks(0, true);
  }

 private:
  // All blocks, those of reduced dimensions innermost.
  void blocks(size_t d, bool first) {
    if (d == rank_) return run_block(first);
    if (program_.accumulates && static_cast<int>(d) == program_.lhs_count && !sum_.defined()) {
      Shape sizes(rank_, 1);
      for (int i = 0; i < program_.lhs_count; ++i) sizes[i] = at_[i].size();
      sum_ = new_tensor(program_.dtype, sizes);
      blocks(d, true);
      const at::Tensor sum = std::move(sum_);
      sum_.reset();
      out_memory().copy_(sum);
      return;
    }
    const Interval range = program_.ranges[d];
    for (int64_t lo = range.lo; lo < range.hi; lo += program_.block[d]) {
      at_[d] = {lo, std::min(lo + program_.block[d], range.hi)};
      blocks(d + 1, first && (static_cast<int>(d) < program_.lhs_count || lo == range.lo));
    }
  }

  void run_block(bool first) {
    block_ = extents(at_);
    values_.assign(program_.code.size(), {});
    flipped_.assign(program_.code.size(), false);
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const StageInstr& instr = program_.code[i];
      evaluate(static_cast<int>(i), instr);
      for (int dead : instr.dead) release(dead);
    }
    switch (program_.finish) {
      case Finish::kStore:
        if (!program_.direct) store(values_[program_.a], true);
        break;
      case Finish::kReduce:
        reduce(first);
        break;
      case Finish::kProduct:
        multiply(first);
        break;
      case Finish::kScatter:
        scatter(first);
        break;
    }
    values_.clear();
  }

  void release(int i) { values_[i].reset(); }

  Shape sizes_of(uint64_t dims) const {
    Shape sizes(rank_, 1);
    for (size_t d = 0; d < rank_; ++d)
      if (dims >> d & 1) sizes[d] = block_[d];
    return sizes;
  }

  // Where an instruction's value goes: over an argument that ends here, into the result itself, or somewhere new.
  at::Tensor place(int i, const StageInstr& instr) {
    if (program_.direct && program_.finish == Finish::kStore && i == program_.a) return out_tensor();
    if (instr.in_place) return values_[instr.reuse];
    return new_tensor(instr.dtype, sizes_of(instr.dims));
  }

  // What this block's values are written to or combined with.
  at::Tensor out_tensor() const { return sum_.defined() ? sum_ : out_memory(); }
  // The result's elements of this block, over all dimensions; a negative stride is left positive, from the other end.
  at::Tensor out_memory() const {
    Shape sizes(rank_, 1), strides = out_strides_;
    for (int d = 0; d < program_.lhs_count; ++d) sizes[d] = at_[d].size();
    for (size_t d = 0; d < rank_; ++d) strides[d] = std::abs(strides[d]);
    const Box box = read_hull(lhs_, program_.dims, at_);
    int64_t offset = 0;
    for (size_t a = 0; a < box.size(); ++a)
      offset += (lowest(lhs_.subscripts[a], out_strides_) - out_.part.box[a].lo) * out_.part.strides[a];
    return tensor_over(out_.data + offset * bytes_of(out_.part.dtype), out_.part.dtype, sizes, strides);
  }
  // A form's value where each dimension is at the end of the block from which its stride counts up.
  int64_t lowest(const tdl::Affine& form, const Shape& strides) const {
    int64_t value = form.constant;
    for (const auto& t : form.terms) {
      const size_t d = std::find(program_.dims.begin(), program_.dims.end(), t.atom.index) - program_.dims.begin();
      value += t.coefficient * (strides[d] < 0 ? at_[d].hi - 1 : at_[d].lo);
    }
    return value;
  }
  static std::vector<int64_t> negative(const Shape& strides) {
    std::vector<int64_t> dims;
    for (size_t d = 0; d < strides.size(); ++d)
      if (strides[d] < 0) dims.push_back(static_cast<int64_t>(d));
    return dims;
  }

  at::Tensor read(int i, const StageInstr& instr) {
    const Held& source = held_[instr.tensor];
    const Box hull = read_hull(instr, program_.dims, at_);
    Held from = source;
    at::Tensor padding;
    if (instr.padded) {  // in every block, so that all are placed alike
      padding = new_tensor(instr.dtype, extents(hull));
      padding.fill_(instr.number);
      const Box inside = intersect(hull, source.part.box);
      from = {{instr.dtype, hull, dense_strides(extents(hull))}, static_cast<std::byte*>(padding.data_ptr())};
      if (!is_empty(inside)) from.tensor(inside).copy_(source.tensor(inside));
    }
    Shape strides = read_strides(instr, program_.dims, from.part.strides);
    const Shape sizes = sizes_of(instr.dims);
    int64_t offset = 0;
    for (size_t a = 0; a < hull.size(); ++a)
      offset += (lowest(instr.subscripts[a], strides) - from.part.box[a].lo) * from.part.strides[a];
    Shape positive = strides;
    for (int64_t& s : positive) s = std::abs(s);
    at::Tensor value = instr.padded
                           ? padding.as_strided(sizes, positive, offset)
                           : tensor_over(from.data + offset * bytes_of(instr.dtype), instr.dtype, sizes, positive);
    flipped_[i] = is_flipped(instr, strides);
    if (flipped_[i]) return value.flip(negative(strides));
    return value;
  }

  at::Tensor gather(const StageInstr& instr) {
    const Held& source = held_[instr.tensor];
    int64_t span = 1;
    for (size_t a = 0; a < source.part.box.size(); ++a)
      span += (source.part.box[a].size() - 1) * source.part.strides[a];
    const at::Tensor memory = tensor_over(source.data, source.part.dtype, {span}, {1});
    return at::index_select(memory, 0, values_[instr.args[0]].contiguous().view({-1})).view(sizes_of(instr.dims));
  }

  at::Tensor random(const StageInstr& instr) {
    const Shape sizes = sizes_of(instr.dims);
    at::Tensor value = new_tensor(instr.dtype, sizes);
    std::vector<at::Tensor> keys;
    for (int a : instr.args) {
      keys.push_back(new_tensor(DType::kInt64, sizes));
      keys.back().copy_(values_[a]);
    }
    const size_t n = keys.size();
    ensure(n >= 2 && n <= 4, "rng() has {} arguments", n);
    auto key = [&](size_t from_end, int64_t i, uint64_t otherwise) {
      return n > from_end + 1 ? static_cast<uint64_t>(keys[n - 1 - from_end].const_data_ptr<int64_t>()[i]) : otherwise;
    };
    for (int64_t i = 0; i < value.numel(); ++i) {
      const uint64_t seed = static_cast<uint64_t>(keys[0].const_data_ptr<int64_t>()[i]) + key_.seed;
      const double u = philox_uniform(seed, key(2, i, key_.stream), key(1, i, key_.step), key(0, i, 0));
      if (instr.dtype == DType::kFloat64) value.mutable_data_ptr<double>()[i] = u;
      else value.mutable_data_ptr<float>()[i] = static_cast<float>(u);
    }
    return value;
  }

  void evaluate(int i, const StageInstr& instr) {
    at::Tensor& value = values_[i];
    const auto& args = instr.args;
    switch (instr.kind) {
      case Kind::kConst:
        value = constant_tensor(instr.dtype, instr.number).view(Shape(rank_, 1));
        break;
      case Kind::kGrid: {
        const Interval r = at_[instr.dim];
        Shape sizes(rank_, 1);
        sizes[instr.dim] = r.size();
        value = new_tensor(DType::kInt64, {r.size()});
        at::arange_out(value, r.lo, r.hi, 1);
        value = value.view(sizes);
        break;
      }
      case Kind::kRead:
        value = read(i, instr);
        break;
      case Kind::kGather:
        value = gather(instr);
        break;
      case Kind::kCast: {
        at::Tensor out = place(i, instr);
        out.copy_(values_[args[0]]);
        value = out;
        break;
      }
      case Kind::kUnary: {
        at::Tensor out = place(i, instr);
        unary_into(out, instr.function, values_[args[0]]);
        value = out;
        break;
      }
      case Kind::kBinary: {
        at::Tensor out = place(i, instr);
        const StageInstr& second = program_.code[args[1]];
        if (instr.function == "^" && second.kind == Kind::kConst) power_into(out, values_[args[0]], second.number);
        else binary_into(out, instr.function, values_[args[0]], values_[args[1]]);
        value = out;
        break;
      }
      case Kind::kSelect: {
        at::Tensor out = place(i, instr);
        select_into(out, values_[args[0]], values_[args[1]], values_[args[2]]);
        value = out;
        break;
      }
      case Kind::kRng:
        value = random(instr);
        break;
      case Kind::kOpaque:
        ensure(false, "an opaque value in a stage program");
        break;
    }
  }

  // Writes, or combines with what the blocks before wrote.
  void store(at::Tensor value, bool first) {
    if (is_flipped(lhs_, out_strides_) && value.dim() > 0) value = value.flip(negative(out_strides_));
    at::Tensor out = out_tensor();
    if (first) {
      out.copy_(value);
      return;
    }
    if (value.scalar_type() != out.scalar_type()) value = value.to(out.scalar_type());
    combine_into(out, program_.reducer, value);
  }

  void reduce(bool first) {
    at::Tensor value = values_[program_.a];
    release(program_.a);
    const uint64_t dims = program_.code[program_.a].dims;
    Shape sizes = sizes_of(dims);
    std::vector<int64_t> reduced;
    for (size_t d = program_.lhs_count; d < rank_; ++d) {
      sizes[d] = block_[d];
      reduced.push_back(static_cast<int64_t>(d));
    }
    if (reduced.empty()) return store(value, first);
    value = value.expand(sizes);
    if (program_.direct && first) {
      at::Tensor out = out_tensor();
      return reduce_into(out, program_.reducer, value, reduced);
    }
    if (program_.reducer == tdl::Reducer::kProd) {
      for (int64_t d : reduced) {
        sizes[d] = 1;
        at::Tensor out = new_tensor(program_.dtype, sizes);
        reduce_into(out, program_.reducer, value, {d});
        value = out;
      }
    } else {
      for (int64_t d : reduced) sizes[d] = 1;
      at::Tensor out = new_tensor(program_.dtype, sizes);
      reduce_into(out, program_.reducer, value, reduced);
      value = out;
    }
    if (program_.dtype != DType::kInt64 && out_.part.dtype == DType::kInt64) value.clamp_(-kLargestInt, kLargestInt);
    store(value, first);
  }

  void scatter(bool first) {
    const std::vector<int>& to = program_.scattered;
    auto scattered = [&](int d) { return std::find(to.begin(), to.end(), d) != to.end(); };
    for (int d : to)
      ensure(at_[d] == program_.ranges[d], "a dimension that values are scattered along is cut into blocks");
    Shape summed, all, source, order;
    for (int d = program_.lhs_count; d < static_cast<int>(rank_); ++d) {
      summed.push_back(block_[d]);
      order.push_back(d);
    }
    int64_t count = 1;
    for (int64_t n : summed) count *= n;
    source.push_back(count);
    all = summed;
    for (int d = 0; d < program_.lhs_count; ++d) {
      if (scattered(d)) continue;
      order.push_back(d);
      all.push_back(block_[d]);
      source.push_back(block_[d]);
    }
    for (int d : to) {
      order.push_back(d);
      all.push_back(1);
    }
    source.push_back(1);
    at::Tensor places = new_tensor(DType::kInt64, {count}), values = new_tensor(program_.dtype, source);
    Shape full(rank_, 1);
    for (int d = program_.lhs_count; d < static_cast<int>(rank_); ++d) full[d] = block_[d];
    Shape within = summed;
    within.resize(rank_, 1);
    places.view(within).copy_(values_[program_.b].expand(full).permute(order));
    for (int d = 0; d < program_.lhs_count; ++d)
      if (!scattered(d)) full[d] = block_[d];
    values.view(all).copy_(values_[program_.a].expand(full).permute(order));
    at::Tensor out = out_tensor();
    if (first) out.zero_();
    // [the scattered as one, the rest, 1]
    Shape sizes{extent(to)}, strides{1};
    for (int d : to)  // the last of more than one element is the least significant
      if (block_[d] != 1) strides[0] = out.stride(d);
    for (int d = 0; d < program_.lhs_count; ++d)
      if (!scattered(d)) sizes.push_back(block_[d]), strides.push_back(out.stride(d));
    sizes.push_back(1), strides.push_back(1);
    at::Tensor target = out.as_strided(sizes, strides, out.storage_offset());
    target.index_add_(0, places, values);
  }

  int64_t extent(const std::vector<int>& dims) const {
    int64_t n = 1;
    for (int d : dims) n *= block_[d];
    return n;
  }
  Shape sizes_in(std::initializer_list<const std::vector<int>*> groups) const {
    Shape sizes;
    for (const auto* dims : groups)
      for (int d : *dims) sizes.push_back(block_[d]);
    return sizes;
  }

  // A side of the product as matrices [batch, rows, columns]: as it lies, or copied.
  at::Tensor matrices(int side, const std::vector<int>& batch, const std::vector<int>& rows,
                      const std::vector<int>& columns) {
    at::Tensor value = values_[side];
    const uint64_t dims = program_.code[side].dims;
    const Shape sizes{extent(batch), extent(rows), extent(columns)};
    bool spread = false;
    Shape strides(rank_, 0);
    for (const auto* group : {&batch, &rows, &columns})
      for (int d : *group) {
        spread |= !(dims >> d & 1) && block_[d] > 1;
        if (value.dim() > 0) strides[d] = value.stride(d);
      }
    // A flipped value is a copy in an order that ATen chose.
    if (const auto m = matrix_strides(block_, strides, batch, rows, columns); m && !spread && !flipped_[side])
      return value.as_strided(sizes, {m->batch, m->rows, m->columns}, value.storage_offset());
    at::Tensor dense = new_tensor(program_.dtype, sizes);
    std::vector<int64_t> order;
    for (const auto* group : {&batch, &rows, &columns}) order.insert(order.end(), group->begin(), group->end());
    Shape full(rank_, 1);
    for (int64_t d : order) full[d] = block_[d];
    for (size_t d = 0; d < rank_; ++d)
      if (full[d] == 1 && std::find(order.begin(), order.end(), static_cast<int64_t>(d)) == order.end())
        order.push_back(static_cast<int64_t>(d));
    Shape target;
    for (int64_t d : order) target.push_back(full[d]);
    dense.view(target).copy_(value.expand(full).permute(order));
    release(side);
    return dense;
  }

  void multiply(bool first) {
    const ProductDims d = product_dims(program_);
    at::Tensor a = matrices(program_.a, d.batch, d.rows, d.summed);
    at::Tensor b = matrices(program_.b, d.batch, d.summed, d.columns);
    const Shape sizes{extent(d.batch), extent(d.rows), extent(d.columns)};
    if (program_.direct && first) {
      at::Tensor out = out_tensor();
      if (const auto m = matrix_strides(block_, out_strides_, d.batch, d.rows, d.columns); m && m->columns == 1) {
        at::Tensor matrix = out.as_strided(sizes, {m->batch, m->rows, m->columns}, out.storage_offset());
        multiply_into(matrix, a, b);
        hide(out);
        return;
      }
    }
    at::Tensor result = new_tensor(program_.dtype, sizes);
    multiply_into(result, a, b);
    // from [batch, rows, columns] to the order of the dimensions
    std::vector<int> order;
    for (const auto* group : {&d.batch, &d.rows, &d.columns}) order.insert(order.end(), group->begin(), group->end());
    Shape full(rank_, 1), strides(rank_, 0);
    int64_t stride = 1;
    for (size_t i = order.size(); i-- > 0;) {
      full[order[i]] = block_[order[i]];
      strides[order[i]] = stride;
      stride *= block_[order[i]];
    }
    a.reset();
    b.reset();
    release(program_.a);
    release(program_.b);
    at::Tensor value = result.as_strided(full, strides);
    hide(value);
    store(value, first);
  }

  void hide(at::Tensor& product) {
    if (program_.hidden >= 0)
      product.masked_fill_(values_[program_.hidden], values_[program_.zero].view(at::IntArrayRef()));
  }

  const StageProgram& program_;
  const std::vector<Held>& held_;
  const Held& out_;
  const RandomKey& key_;
  size_t rank_;
  StageInstr lhs_;
  Shape out_strides_;
  std::vector<Interval> at_;
  Shape block_;
  std::vector<at::Tensor> values_;  // per instruction
  std::vector<bool> flipped_;
  at::Tensor sum_;  // StageProgram::accumulates
};

}  // namespace

void run_generic(const tdl::Bound& bound, const GenericPlan& plan, const std::vector<Interval>& ranges,
                 std::vector<Held> held, const RandomKey& key) {
  std::vector<at::Tensor> internal(bound.tensors.size());
  for (const GenericStep& step : plan.steps) {
    const tdl::Stage& stage = bound.stages[step.stage];
    Held& out = held[stage.tensor];
    if (step.internal) {
      out.part = *plan.parts[stage.tensor];
      internal[stage.tensor] = new_tensor(out.part.dtype, extents(out.part.box));
      out.data = static_cast<std::byte*>(internal[stage.tensor].data_ptr());
    }
    if (step.shares >= 0) out = held[step.shares];
    switch (step.what) {
      case GenericStep::What::kNothing:
        break;
      case GenericStep::What::kIdentity: {
        at::Tensor all = out.tensor(stage_box(bound, step.stage, ranges));
        fill_identity(all, stage.body.reducer);
        break;
      }
      case GenericStep::What::kProgram:
        StageRunner(step.program, stage, held, key).run();
        break;
    }
    for (int t : step.dead) internal[t].reset();
  }
}

}  // namespace partita
