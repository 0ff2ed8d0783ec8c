// Writes weight updates in the registry's elementary operations: `add`, `sub`, `mul`, `div`, `pow`, `square`, `sqrt`.
#pragma once
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "partita/graph/builder.h"

namespace partita {

// Makes weight updates of elementary operations. All updates share equal functions of the learning rate alone.
class ElementaryUpdates {
 public:
  explicit ElementaryUpdates(GraphBuilder& build) : build_(build) {}

  // Adds the update `definition` (OpDefinition::update) of the weight operands[0]. An op writes an operand's
  // replacement: assign_sub or assign_add if the formula subtracts from the operand or adds to it, else assign.
  void add(const OpDefinition& definition, const std::vector<TensorId>& operands, tdl::Attributes attributes,
           const std::string& name);

 private:
  struct Formula;  // one update, while it is made

  // The value of a number or of a tensor.
  struct Value {
    double number = 0;
    TensorId tensor;
  };
  Value value(const Formula& formula, const tdl::Expr& e);
  Value unary(const Formula& formula, const std::string& function, Value x);
  Value binary(const Formula& formula, const std::string& function, Value x, Value y);
  TensorId tensor(Value value, DType dtype);
  TensorId op(const std::string& definition, const std::vector<TensorId>& operands, const std::string& name);
  TensorId replaced(const Formula& formula, const tdl::Expr& e, int operand);

  GraphBuilder& build_;
  std::map<std::pair<std::string, std::vector<TensorId>>, TensorId> made_;  // by definition and operands
  std::map<std::pair<double, DType>, TensorId> numbers_;
};

}  // namespace partita
