// Weight updates in the elementary operations of the registry: `add`, `sub`, `mul`, `div`, `pow`, `square`, `sqrt`.
#pragma once
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "partita/graph/builder.h"

namespace partita {

// Makes weight updates so. What is equal, as a function of the learning rate alone, is made once for all of them.
class ElementaryUpdates {
 public:
  explicit ElementaryUpdates(GraphBuilder& build) : build_(build) {}

  // The update `definition` (OpDefinition::update) of the weight operands[0] in such operations. What replaces an
  // operand is written by assign_sub or assign_add where the formula takes something from it or adds to it, else by
  // assign.
  void add(const OpDefinition& definition, const std::vector<TensorId>& operands, tdl::Attributes attributes,
           const std::string& name);

 private:
  struct Formula;  // one update, while it is made

  // Of a number, or of a tensor.
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
