// A stage of a formula as a straight-line program over blocks of its iteration space: what the generic stage kernel
// (kernels/generic.cc) executes. It is made here, without ATen, so that lowering knows the kernel's workspace before
// anything runs: both walk the same instructions.
//
// A block is one interval for each dimension. The dimensions are the indices of the stage's left side, then those of
// its reducer. A value has extent 1 along the dimensions that it does not depend on.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partita/base/box.h"
#include "partita/base/dtype.h"
#include "partita/physical/first_fit.h"
#include "partita/tdl/tdl.h"

namespace partita {

// A part of a tensor in memory: a box over its axes, and a stride for each, in elements. An element of the tensor at p
// lies at sum (p[a] - box[a].lo) * strides[a] from the first.
struct Part {
  DType dtype = DType::kFloat32;
  Box box;
  Shape strides;
};
// The same part over other factors of the same axes: a register may be factored more finely than the formula needs, or
// less (TDL.md rule 4). Our bug if the box is no box over `to`, or its elements have no strides there; empty in the
// second function.
Part over_axes(const Part& part, const Shape& from, const Shape& to);
std::optional<Part> try_over_axes(const Part& part, const Shape& from, const Shape& to);

struct StageInstr {
  enum class Kind {
    kConst,   // number
    kGrid,    // the global values of index dims[dim]
    kRead,    // tensor[subscripts]: one stride a dimension, padded with `number` where the box lacks elements
    kGather,  // elements of tensor at the offsets args[0] in memory
    kCast,    // args[0] as dtype
    kUnary,   // function(args[0])
    kBinary,  // function(args[0], args[1])
    kSelect,  // args[0] ? args[1] : args[2]
    kRng,     // rng(args)
    kOpaque,  // see Expr
  } kind = Kind::kConst;
  DType dtype = DType::kFloat32;  // of the value
  uint64_t dims = 0;              // bit d: it depends on dimension d
  std::vector<int> args;          // earlier instructions
  double number = 0;
  int dim = -1;                         // kGrid
  int tensor = -1;                      // kRead, kGather
  std::vector<tdl::Affine> subscripts;  // kRead
  bool padded = false;                  // kRead: some subscript can leave the box
  bool in_place = false;                // the value overwrites that of instruction `reuse`, which nothing else needs
  int reuse = -1;
  const tdl::Expr* expr = nullptr;  // kOpaque
  std::string function;             // kUnary, kBinary
  std::vector<int> dead;            // values that nothing needs after this instruction
};

struct StageProgram {
  int stage = -1;
  std::vector<int> dims;  // indices of the bound formula
  int lhs_count = 0;      // the first dims: those of the left side
  std::vector<StageInstr> code;
  // What becomes of the last values. kStore: value a is written. kReduce: it is reduced first. kProduct: the sum of the
  // products of a and b, as a batched matrix product. kScatter: values a of the reduced dimensions are added to the
  // elements at b (int64, from the ranges' beginnings) of the dimensions `scattered`, which neither depends on.
  enum class Finish { kStore, kReduce, kProduct, kScatter } finish = Finish::kStore;
  std::vector<int> scattered;  // the most significant first: in the result they lie as one
  uint64_t single = 0;  // bit d: a block has one value of dimension d, of those of the left side that b depends on
  int a = -1, b = -1;
  // kProduct: where value `hidden` (a boolean of dimensions of the left side) is true, the product is value `zero`. -1:
  // nowhere.
  int hidden = -1, zero = -1;
  tdl::Reducer reducer = tdl::Reducer::kSum;
  DType dtype = DType::kFloat32;  // of the result before it is converted to that of its part
  bool direct = false;            // the last step writes into the result's part
  // What several passes over the reduced dimensions add to is a value of `dtype`, which is then written into the
  // result's part of another floating dtype.
  bool accumulates = false;
  std::vector<Interval> ranges;  // per dimension
  Shape block;                   // extents of a whole block
};

// Real values that go into an int64 tensor are clamped to this, the largest float32 below 2^63: infinity, the identity
// of a minimum, stays larger than any number that is really there.
constexpr double kLargestInt = 9223371487098961920.0;

// parts: per tensor of the formula, what is held; the stage's own is where it is written. real: the type of real
// arithmetic. The block is the largest, halved as often as needed, whose temporaries fit into `budget_bytes` (or which
// can't be halved further).
StageProgram compile_stage(const tdl::Bound& bound, int stage, const std::vector<Interval>& ranges,
                           const std::vector<std::optional<Part>>& parts, DType real, int64_t budget_bytes);
// The type that a stage's values have by its formula: bool of comparisons, int64 of integers, else `real`.
DType stage_dtype(const tdl::Bound& bound, int stage, const std::vector<std::optional<Part>>& parts, DType real);
// The box that ranges own of a stage; all axes empty where that is nothing (rule 9).
Box stage_box(const tdl::Bound& bound, int stage, const std::vector<Interval>& ranges);

// How a group of a product lies in memory as [batch, rows, columns], over the given dimensions; empty: it must be
// copied.
struct MatrixStrides {
  int64_t batch, rows, columns;
};
// sizes and strides are per dimension of the block. `rows` and `columns` are dimensions, most significant first.
std::optional<MatrixStrides> matrix_strides(const Shape& sizes, const Shape& strides, const std::vector<int>& batch,
                                            const std::vector<int>& rows, const std::vector<int>& columns);
// The dimensions of a product: in both and kept, in a and kept, in b and kept, summed.
struct ProductDims {
  std::vector<int> batch, rows, columns, summed;
};
ProductDims product_dims(const StageProgram& program);

// Where a read lies for one block: the hull of its subscripts, per axis, and its strides per dimension in a part with
// these strides. A negative one is counted from the dimension's end.
Box read_hull(const StageInstr& read, const std::vector<int>& dims, const std::vector<Interval>& block);
Shape read_strides(const StageInstr& read, const std::vector<int>& dims, const Shape& axis_strides);

// Whether a read has a negative stride along a dimension that it depends on: its value is then a copy.
bool is_flipped(const StageInstr& read, const Shape& strides);

// Runs a program's requests for one block of these extents through `scratch`, as the kernel does.
void place_block(const tdl::Bound& bound, const StageProgram& program, const std::vector<std::optional<Part>>& parts,
                 const Shape& block, FirstFit& scratch);
// The same for whole blocks and for the smaller ones at the ends of ranges.
void place_blocks(const tdl::Bound& bound, const StageProgram& program, const std::vector<std::optional<Part>>& parts,
                  FirstFit& scratch);

}  // namespace partita
