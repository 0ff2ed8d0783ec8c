// Defines an operation's knowledge: one declaration, from which everything else derives. partita/ops has the
// declarations.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/box.h"
#include "partita/base/dtype.h"
#include "partita/base/ids.h"
#include "partita/tdl/tdl.h"

namespace partita {

class GraphBuilder;
struct Graph;
struct Op;

// The inputs of a formula's text, and of its results' dtypes.
struct OpInstance {
  const tdl::Attributes& attributes;  // the declaration's defaults filled in
  const std::vector<Shape>& shapes;   // of the operands
  const std::vector<DType>& dtypes;   // of the operands

  int64_t integer(std::string_view attribute) const;
  // attributes NAME.0, NAME.1, .. as a list
  std::vector<int64_t> list(std::string_view name) const;
};

// Adds a declared gradient: backward ops through `build`. Returns one gradient an operand (invalid: none).
// result_gradients has one tensor a result of `forward`, invalid if no gradient reaches it.
using DeclaredGradient = std::function<std::vector<TensorId>(GraphBuilder& build, const Op& forward,
                                                             const std::vector<TensorId>& result_gradients)>;

// Puts other ops in an op's place in the evaluation graph. It adds them through `build`, which already has the forward
// op's operands as `operands`. It returns the op's results (invalid: gone). The op that stands for it has its name.
using EvaluationForm = std::function<std::vector<TensorId>(GraphBuilder& build, const Graph& graph, const Op& forward,
                                                           const std::vector<TensorId>& operands)>;

// One chained declaration (partita/ops/declare.h):
//   declare(registry, "relu", "x where positive, else 0").formula("relu(x)[..i] = max(x[..i], 0)").example({{5, 7}});
struct OpDefinition {
  std::string name;
  std::string summary;                                    // one line, for `partita ops`
  std::function<std::string(const OpInstance&)> formula;  // TDL text of an instance
  tdl::Attributes defaults;                               // every attribute that an instance may set, with its default
  std::vector<std::string> required;                      // attributes without a default
  std::vector<std::string> lists;                         // attributes that are lists, given as NAME.0, NAME.1, ..
  // dtypes of the results; empty: the operands' promoted floating type for all of them
  std::function<std::vector<DType>(const OpInstance&)> dtypes;
  DeclaredGradient gradient;  // empty: derived from the formula (TDL.md rule 25)
  // If a derived gradient may equal an instance of this definition, it takes the definition's name and kernel. Gives
  // that instance's attributes from the forward op's attributes and the gradient's shape. Empty: never.
  std::function<tdl::Attributes(const tdl::Attributes& forward, const Shape& result)> match;
  EvaluationForm evaluation;  // empty: the op itself
  bool described = false;     // by the user, in a file of descriptions
  // Mixed precision, as in PyTorch's autocast: the first `low_operands` floating operands are cast to float16 or
  // bfloat16; or all to float32; or operands are taken as they come.
  enum class Precision { kOperands, kLow, kFloat32 } precision = Precision::kOperands;
  std::size_t low_operands = 0;
  bool differentiable = true;  // false: no gradient flows through (comparisons, optimizer steps)
  std::vector<int> replaces;   // per result: the operand that it replaces in place, -1 for none. Empty: none
  // An optimizer's update of one parameter. Operands are w, g, its states, lr, and with `steps` the number of steps
  // done before. Results are w' and the states' replacements. Its attributes are the optimizer's options.
  struct Update {
    std::string optimizer;            // "adam"
    std::vector<std::string> states;  // "exp_avg", ..: of w's shape, initially 0
    bool steps = false;
  };
  std::optional<Update> update;
  // The learning rate's schedule of this name. Operands are lr and the number of steps done before; its attributes are
  // the schedule's options. Empty if it is none.
  std::string schedule;
  // FLOPs of one position that runs all stages, if its kernel is asymptotically better than the formula (24); else
  // derived
  std::function<double(const tdl::Bound&, const std::vector<Interval>&)> flops;
  // Instances for tests and `partita ops`: shapes and attributes. Every definition has at least one.
  struct Example {
    std::vector<Shape> shapes;
    tdl::Attributes attributes;
    std::vector<DType> dtypes;   // empty: all float32
    int64_t integers_below = 2;  // int64 operands are class numbers, positions, ..: 0 <= value < integers_below
  };
  std::vector<Example> examples;
  // The range of the examples' floating operands: there the formula is defined, and its rounding errors are small.
  double domain_lo = -1.5, domain_hi = 1.5;
};

// Binds a definition's formula at these shapes and attributes. Fills in the defaults of `attributes`; bad input names
// an attribute that is unknown or missing.
std::shared_ptr<const tdl::Bound> bind_instance(const OpDefinition& definition, tdl::Attributes& attributes,
                                                const std::vector<Shape>& shapes, const std::vector<DType>& dtypes);

// FLOPs of one position: derived from the formula, or as declared. `definition` may be null.
double op_flops(const OpDefinition* definition, const tdl::Bound& bound, const std::vector<Interval>& ranges);
double op_flops(const OpDefinition* definition, const tdl::Bound& bound);

class OpRegistry {
 public:
  void add(OpDefinition definition);  // our bug if the name is taken
  const OpDefinition* find(std::string_view name) const;
  const OpDefinition& get(std::string_view name) const;  // bad input if unknown, with the nearest names
  std::vector<const OpDefinition*> all() const;          // by name

 private:
  std::map<std::string, OpDefinition, std::less<>> definitions_;
};

}  // namespace partita
