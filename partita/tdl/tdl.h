// Offers the description language: parse a formula, bind it to shapes, derive every way to split it. The rules are in
// docs/inside/TDL.md; numbers in comments here are that page's rule numbers.
//
//   DefinitionPtr def = parse("matmul(a, b)[i, j] = sum(k) a[i, k] * b[k, j]");
//   Bound bound       = bind(def, {{8, 4}, {4, 6}});
//   for (const AxisStrategy& s : strategies(bound, 2)) print(derive(bound, {2}, {s}));
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/base/box.h"
#include "partita/base/boxes.h"

namespace partita::tdl {

enum class Reducer { kSum, kMax, kMin, kProd };
std::string_view name_of(Reducer reducer);  // "sum"
double identity_of(Reducer reducer);        // 0, -inf, inf, 1

// ---------------------------------------------------------------- expressions

// An affine or quasi-affine index form: constant + sum of coefficient * atom, equal atoms collected (6).
struct Affine {
  struct Atom {  // an index, or (inner // divisor), or (inner % divisor)
    enum class Kind { kIndex, kFloorDiv, kMod } kind = Kind::kIndex;
    int index = -1;                       // kIndex: position in Bound::indices
    std::shared_ptr<const Affine> inner;  // else
    int64_t divisor = 0;
  };
  struct Term {
    int64_t coefficient;
    Atom atom;
  };
  std::vector<Term> terms;
  int64_t constant = 0;

  // The position of the one index that this is, or -1.
  int plain_index() const;
};

enum class ExprKind {
  kNumber,  // number
  kIndex,   // an index's GLOBAL value (20)
  kRead,    // tensor[subscripts] else number
  kUnary,   // function of args[0]: neg not exp log sqrt tanh sigmoid erf sin cos abs sign stop floor
  kBinary,  // function of args[0], args[1]: + - * / // % ^ < <= == != >= > and or max min
  kIf,      // if(args[0], args[1], args[2]): selects, never multiplies
  kReduce,  // reducer over `reduced` of args[0]; after binding only the root of a stage is one (3)
  kRng,     // rng(args..): uniform in [0, 1), a function of its arguments
  kOpaque,  // opaque function(slices)[subscripts]; args are kReads, a `:` subscript is `whole`
};

struct Expr {
  ExprKind kind = ExprKind::kNumber;
  double number = 0;      // kNumber; kRead: the `else` value
  bool has_else = false;  // kRead
  std::string function;   // kUnary, kBinary, kOpaque
  Reducer reducer = Reducer::kSum;
  int index = -1;                  // kIndex
  int tensor = -1;                 // kRead: position in Bound::tensors
  std::vector<Affine> subscripts;  // kRead, kOpaque: one an axis of the (factored) tensor
  std::vector<bool> whole;         // kRead below kOpaque: the axis is read whole
  std::vector<int> reduced;        // kReduce
  std::vector<Expr> args;
};

// Calls f(read) for every read in an expression, what conditions and opaque functions read included, left to right.
template <typename F>
void for_each_read(const Expr& e, F&& f) {
  if (e.kind == ExprKind::kRead) f(e);
  for (const Expr& arg : e.args) for_each_read(arg, f);
}

// ---------------------------------------------------------------- bound formulas

struct Index {
  std::string name;  // a group ..b gives b.0, b.1
  int64_t extent = 0;
  bool splittable = true;  // false if an opaque's result is indexed by it, or nothing uses it (10)
};

// An operand or a stage. Shapes are over factored axes (4): axis a of the tensor as stored has radices[a], whose
// product is its extent. An axis that is not factored has one radix.
struct BoundTensor {
  std::string name;
  bool is_operand = false;
  Shape shape;                 // as stored
  std::vector<Shape> radices;  // per stored axis
  Shape factored;              // radices, joined
};

struct Stage {
  int tensor = -1;          // the tensor that it defines, a position in Bound::tensors
  std::vector<Affine> lhs;  // per factored axis
  Expr body;                // kReduce only at the root
  bool anonymous = false;   // hoisted out of an expression (3)
};

using Attributes = std::map<std::string, double>;  // ints and floats; "..a" fixes a group's rank

struct Definition;  // a parsed formula, not bound yet
using DefinitionPtr = std::shared_ptr<const Definition>;

// A formula bound to shapes and attributes; immutable, shared by every op with the same ones.
struct Bound {
  std::string name;
  std::string text;
  std::vector<Index> indices;
  std::vector<BoundTensor> tensors;  // the operands in order, then the stages' tensors
  int operand_count = 0;
  std::vector<Stage> stages;  // in order of evaluation
  std::vector<int> results;   // positions in tensors

  int find_index(std::string_view name) const;   // -1 if there is none
  int find_tensor(std::string_view name) const;  // -1 if there is none
  int stage_of(int tensor) const;                // -1 for an operand
};

// The same formula with an index as a mixed-radix number of new ones, most significant first (4). The axes along it
// become factored, and can be split inside their parts. The index's extent is the radices' product.
Bound factor_index(const Bound& bound, std::string_view index, const Shape& radices);

// Restricts the formula to the first `extent` values of an index, which must run along whole (factored) axes. Axes of
// tensors that are accessed at it alone become as short. Numbers that the formula took from the index's extent stay
// those of the whole. So a mean over 8 samples, narrowed to 2, still divides by 8. Example: matmul of 8x4 and 4x6
// narrowed to i < 2 is that of 2x4 and 4x6.
Bound narrowed(const Bound& bound, int index, int64_t extent);

// ---------------------------------------------------------------- strategies

// The action of one mesh axis: it splits index names (mostly one), or none (`replicate`). The listed operands join as
// partial values (14, 15). Text: "k", "k partial{b}", "replicate", "partial{a,b}", "partial:max{a}", "{j m}" for two
// names.
struct AxisStrategy {
  std::vector<std::string> names;    // sorted; empty: replicate, or partial only
  std::vector<std::string> partial;  // operand names, in operand order
  Reducer reducer = Reducer::kSum;   // of `partial`

  bool replicate() const { return names.empty() && partial.empty(); }
  auto operator<=>(const AxisStrategy&) const = default;
};
std::string to_string(const AxisStrategy& strategy);
AxisStrategy parse_strategy(std::string_view text);

// A value on one mesh axis: true wherever it is computed (nullopt), or partial under a reducer (11).
using Kind = std::optional<Reducer>;

// A step between stages, in order of occurrence.
struct InnerStep {
  int before_stage = -1;  // done before this stage runs; stages.size(): after the last, for a result
  int tensor = -1;        // the stage tensor it acts on
  // Makes the tensor whole: all-reduced over these mesh axes with `reducer` (17). Empty for a pure fetch.
  std::vector<int> axes;
  Reducer reducer = Reducer::kSum;
  // Inner halo (17): the box of `tensor` that each mesh position must hold before the stage. Empty: no fetch.
  Boxes needed;
};

// A derived strategy on a mesh: what every mesh position computes, reads and owns. Positions are row-major over `mesh`.
struct Derived {
  std::vector<int> mesh;           // extents
  std::vector<AxisStrategy> axes;  // one a mesh axis
  Boxes ranges;                    // [position][index]: its range in the iteration space (5)
  // [tensor][position], over factored axes. For operands, the region read, the hull over all accesses (8), empty boxes
  // if nothing is read. For stages, the box that the position owns (9).
  std::vector<Boxes> boxes;
  std::vector<std::vector<Kind>> kinds;        // [mesh axis][tensor]: operand or stage, as first computed
  std::vector<std::vector<Kind>> final_kinds;  // the same after all inner steps: the kinds of results
  std::vector<InnerStep> inner;
  int positions() const { return static_cast<int>(ranges.size()); }
};

DefinitionPtr parse(std::string_view text);
// Binds a definition. Shapes are one an operand, in order. Throws bad input with line, column and caret.
Bound bind(const DefinitionPtr& definition, const std::vector<Shape>& shapes, const Attributes& attributes = {});
Bound bind(std::string_view text, const std::vector<Shape>& shapes, const Attributes& attributes = {});
// Makes shapes to try a definition on. Operands given by name have theirs. Elsewhere each index that an axis is read
// plainly at gets an extent of its own: 6, 8, 10, .. in order of appearance. Any other axis has 12, a group one axis.
std::vector<Shape> example_shapes(const Definition& definition, const std::map<std::string, Shape>& given = {});
// Lists a definition's parameters besides its operands: names that are no index, in alphabetical order.
std::vector<std::string> attribute_names(const Definition& definition);
const std::string& name_of(const Definition& definition);

// The reason why a strategy does not exist, for messages; derive's answer is then empty.
struct NotDerived {
  std::string why;
};
// Derives a strategy with one AxisStrategy a mesh axis. Empty if the strategy does not exist (rules 10 to 18), or a
// result is not one box per position (docs/ARCHITECTURE.md section 4); `why`, if given, says which.
std::optional<Derived> derive(const Bound& bound, const std::vector<int>& mesh, const std::vector<AxisStrategy>& axes,
                              NotDerived* why = nullptr);
// Derives many strategies of one formula, which must stay, on one mesh: inputs of regions are analysed once for all.
// Not thread-safe.
class Deriver {
 public:
  Deriver(const Bound& bound, std::vector<int> mesh);
  ~Deriver();
  std::optional<Derived> derive(const std::vector<AxisStrategy>& axes, NotDerived* why = nullptr);

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

// Lists every strategy on one mesh axis of extent p, in a fixed order: index names in the formula's order, sets of two
// names, partial{..} for each reducer, replicate last. A name comes with the operands that join as partial, if that
// saves conversions, then with none. Indices shorter than p are included: a search leaves those out.
std::vector<AxisStrategy> strategies(const Bound& bound, int p);

// Names a tensor's shard on a one-axis mesh (19): "B", "S(1)", "P(sum)", "H(2)" for overlapping boxes, "U(1)" for
// disjoint ones that are not the cut, "S(0.1)" on a factored axis.
std::string part_name(const Bound& bound, const Derived& derived, int tensor);
// "k: S(1), S(0) -> P(sum)", or "j: S(1) -> S(1)   [inner m:max->B, s:sum->B]"; "-" stands for no names.
std::string to_string(const Bound& bound, const Derived& derived);
// A box for people, both ends included: "[2,6]x[0,3]".
std::string closed_text(const Box& box);

// Counts floating point operations of one position, or of the whole formula (21).
double flops(const Bound& bound, const std::vector<Interval>& ranges);
double flops(const Bound& bound);
// Per stage, in order; their sum is flops().
std::vector<double> stage_flops(const Bound& bound, const std::vector<Interval>& ranges);
// Counts the elements, per tensor, that a position reads and writes (23): those of an operand that it reads, those of a
// stage that it owns. A stage that is no result moves only if the stages run as kernels of their own.
std::vector<int64_t> touched_elements(const Bound& bound, const Derived& derived, int position);
// The full range of every index.
std::vector<Interval> full_ranges(const Bound& bound);

// Tells whether the formula is element-wise (Tofu section 5.1): every stage has the same left side and reads everything
// at its own index. Scalars may be read besides. Nothing is reduced.
bool is_elementwise(const Bound& bound);
// Tells whether memory, not arithmetic, bounds the formula: no stage goes over more points than the largest of its
// tensors has elements (as stored). True for element-wise formulas, norms and copies; not for products, convolutions
// and opaque functions.
bool takes_one_pass(const Bound& bound);
// Tells whether any stage reduces: norms, softmax, products; not element-wise formulas and copies.
bool reduces(const Bound& bound);
// Warns of correct formulas that lose strategies: two stages read an operand's axis under two names.
std::vector<std::string> lint_warnings(const Bound& bound);

// The formula's text with renamed indices and tensors and sorted sums: equal for equal formulas. It includes the
// iteration extents.
std::string canonical(const Bound& bound);

// The formula as TDL text again, with attributes and extents folded in; parses and binds to the same canonical form.
std::string to_text(const Bound& bound);

// The gradient of operand `operand` as one formula of its own (25). Its operands are the forward operands that it
// reads, then g_RESULT for each result whose cotangent reaches it. Empty if the gradient is zero everywhere. Throws bad
// input if a declared gradient is needed (prod, opaque).
struct Gradient {
  std::string text;                   // TDL, to be parsed and bound like any other
  std::vector<std::string> operands;  // of the new formula, in order: forward operand names and g_RESULT names
};
std::optional<Gradient> gradient(const Bound& bound, int operand);

}  // namespace partita::tdl
