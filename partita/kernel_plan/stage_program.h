// Defines a stage of a formula as a straight-line program over blocks of its iteration space, for the generic stage
// kernel (kernels/generic.cc). It is made here, without ATen, so that lowering knows the kernel's workspace before
// anything runs.
//
// A block is one interval for each dimension. The dimensions are the indices of the stage's left side, then those of
// its reducer. A value has extent 1 along the dimensions that it does not depend on. A set of dimensions is a bit mask:
// bit d stands for dimension d.
//
//     c[i, j] = sum(k) a[i, k] * b[k, j]      dims i, j, k; lhs_count 2
//       0: read a[i, k]   dims {i, k}
//       1: read b[k, j]   dims {k, j}
//       finish: the product of 0 and 1, rows i, columns j, summed k
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partita/kernel_plan/request.h"

namespace partita {

struct StageInstr {
  enum class Kind {
    kConst,   // number
    kGrid,    // the global values of index dims[dim]
    kRead,    // tensor[subscripts]: one stride a dimension, padded with `number` outside the box
    kGather,  // elements of tensor at the offsets args[0] in memory
    kCast,    // args[0] as dtype
    kUnary,   // function(args[0])
    kBinary,  // function(args[0], args[1])
    kSelect,  // args[0] ? args[1] : args[2]
    kRng,     // rng(args)
  } kind = Kind::kConst;
  DType dtype = DType::kFloat32;  // of the value
  uint64_t dims = 0;              // the dimensions that the value depends on
  std::vector<int> args;          // earlier instructions
  double number = 0;
  int dim = -1;                         // kGrid
  int tensor = -1;                      // kRead, kGather
  std::vector<tdl::Affine> subscripts;  // kRead
  bool padded = false;                  // kRead: some subscript can leave the box
  bool in_place = false;                // the value overwrites that of instruction `reuse`, which nothing else needs
  int reuse = -1;
  std::string function;   // kUnary, kBinary
  std::vector<int> dead;  // values that nothing needs after this instruction
};

struct StageProgram {
  int stage = -1;
  std::vector<int> dims;  // indices of the bound formula
  int lhs_count = 0;      // the first dims: those of the left side
  std::vector<StageInstr> code;
  enum class Finish {
    kStore,    // value a is written
    kReduce,   // value a is reduced, then written
    kProduct,  // the sum of the products of a and b, as a batched matrix product
    // Values a of the reduced dimensions are added to the elements at b (int64, from the ranges' beginnings) of the
    // dimensions `scattered`, on which neither depends.
    kScatter,
  } finish = Finish::kStore;
  std::vector<int> scattered;  // the most significant first: in the result they lie as one
  uint64_t single =
      0;  // a block has one value of these dimensions: those of the left side that kScatter's b depends on
  int a = -1, b = -1;
  // kProduct: the product is value `zero` wherever value `hidden` (a boolean of dimensions of the left side) is true.
  // -1: nowhere.
  int hidden = -1, zero = -1;
  tdl::Reducer reducer = tdl::Reducer::kSum;
  DType dtype = DType::kFloat32;  // of the result before it is converted to that of its shard
  bool direct = false;            // the last step writes into the result's shard
  // Several passes over the reduced dimensions add to a value of `dtype`, which is then written into the result's shard
  // of another floating dtype.
  bool accumulates = false;
  std::vector<Interval> ranges;  // per dimension
  Shape slice;                   // per dimension: the share of its range in one run
  Shape block;                   // extents of a whole block
};

// Real values that go into an int64 tensor are clamped to this, the largest float32 below 2^63. Infinity, the identity
// of a minimum, stays larger than any real entry.
constexpr double kLargestInt = 9223371487098961920.0;

// Compiles a stage. shards: the held shard of each tensor of the formula; the stage's own is where it is written. real:
// the type of real arithmetic. The block is the largest, halved as often as needed, whose temporaries fit into
// `budget_bytes` (or which can't be halved further). slices: per index of the formula, the share of its range in one
// run.
StageProgram compile_stage(const tdl::Bound& bound, int stage, const std::vector<Interval>& ranges, const Shape& slices,
                           const TensorShards& shards, DType real, int64_t budget_bytes);

}  // namespace partita
