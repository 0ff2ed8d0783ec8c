// Declares one operation in one chain:
//
//   declare(registry, "sgd", "w' = w - lr g")
//       .formula("sgd(w, g, lr)[..i] = w[..i] - lr[] * g[..i]")
//       .updates("sgd")
//       .example({{3, 5}, {3, 5}, {}});
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "partita/graph/registry.h"

namespace partita {

// Collects a declaration and adds it to the registry at the end of the statement.
class Declaration {
 public:
  Declaration(OpRegistry& registry, std::string name, std::string summary) : registry_(registry) {
    op_.name = std::move(name);
    op_.summary = std::move(summary);
  }
  ~Declaration() noexcept(false) { registry_.add(std::move(op_)); }
  Declaration(const Declaration&) = delete;
  Declaration& operator=(const Declaration&) = delete;

  Declaration& formula(std::string text) {
    op_.formula = [text = std::move(text)](const OpInstance&) { return text; };
    return *this;
  }
  Declaration& formula(std::function<std::string(const OpInstance&)> text) {
    op_.formula = std::move(text);
    return *this;
  }
  Declaration& attribute(std::string name, double value) {
    op_.defaults.emplace(std::move(name), value);
    return *this;
  }
  Declaration& required(std::string name) {
    op_.required.push_back(std::move(name));
    return *this;
  }
  Declaration& list(std::string name) {
    op_.lists.push_back(std::move(name));
    return *this;
  }
  Declaration& dtypes(std::function<std::vector<DType>(const OpInstance&)> dtypes) {
    op_.dtypes = std::move(dtypes);
    return *this;
  }
  Declaration& gradient(DeclaredGradient gradient) {
    op_.gradient = std::move(gradient);
    return *this;
  }
  Declaration& evaluation(EvaluationForm form) {
    op_.evaluation = std::move(form);
    return *this;
  }
  // A derived gradient equal to this definition takes its name; attributes as OpDefinition::match gives them.
  Declaration& match(std::function<tdl::Attributes(const tdl::Attributes& forward, const Shape& result)> attributes) {
    op_.match = std::move(attributes);
    return *this;
  }
  // The same for a definition whose instances have no attributes.
  Declaration& match() {
    return match([](const tdl::Attributes&, const Shape&) { return tdl::Attributes(); });
  }
  Declaration& flops(std::function<double(const tdl::Bound&, const std::vector<Interval>&)> flops) {
    op_.flops = std::move(flops);
    return *this;
  }
  // Mixed precision: the first `operands` operands are in float16 or bfloat16.
  Declaration& low_precision(std::size_t operands = 16) {
    op_.precision = OpDefinition::Precision::kLow, op_.low_operands = operands;
    return *this;
  }
  // Mixed precision: operands are in float32.
  Declaration& full_precision() {
    op_.precision = OpDefinition::Precision::kFloat32;
    return *this;
  }
  Declaration& not_differentiable() {
    op_.differentiable = false;
    return *this;
  }
  Declaration& replaces(std::vector<int> operands) {
    op_.replaces = std::move(operands);
    return *this;
  }
  // Declares `optimizer`'s update of one parameter (OpDefinition::Update). If there are several updates, the one with
  // the fewest states that knows all given options is taken.
  Declaration& updates(std::string optimizer, std::vector<std::string> states = {}, bool steps = false) {
    op_.update = {std::move(optimizer), std::move(states), steps};
    op_.differentiable = false;
    op_.replaces = {0};
    for (std::size_t k = 0; k < op_.update->states.size(); ++k) op_.replaces.push_back(2 + static_cast<int>(k));
    return *this;
  }
  Declaration& schedule(std::string name) {
    op_.schedule = std::move(name);
    op_.differentiable = false;
    return *this;
  }
  Declaration& example(std::vector<Shape> shapes, tdl::Attributes attributes = {}, std::vector<DType> dtypes = {}) {
    op_.examples.push_back(
        {.shapes = std::move(shapes), .attributes = std::move(attributes), .dtypes = std::move(dtypes)});
    return *this;
  }

  // Bounds the integers of the example before.
  Declaration& integers_below(int64_t limit) {
    op_.examples.back().integers_below = limit;
    return *this;
  }
  // Sets the range of floating operands in all examples.
  Declaration& domain(double lo, double hi) {
    op_.domain_lo = lo, op_.domain_hi = hi;
    return *this;
  }

 private:
  OpRegistry& registry_;
  OpDefinition op_;
};

inline Declaration declare(OpRegistry& registry, std::string name, std::string summary) {
  return {registry, std::move(name), std::move(summary)};
}

// The dtype of a definition with one result: its first operand's.
inline std::vector<DType> dtype_of_first(const OpInstance& op) { return {op.dtypes.at(0)}; }

// Each file of operations has one such function; standard_ops() calls them all.
void declare_elementwise(OpRegistry& registry);
void declare_matmul(OpRegistry& registry);
void declare_conv(OpRegistry& registry);
void declare_pooling(OpRegistry& registry);
void declare_normalization(OpRegistry& registry);
void declare_batch_norm(OpRegistry& registry);  // of the batch norms
void declare_softmax(OpRegistry& registry);
void declare_loss(OpRegistry& registry);
void declare_reshape(OpRegistry& registry);
void declare_shape(OpRegistry& registry);
void declare_attention(OpRegistry& registry);
void declare_indexing(OpRegistry& registry);
void declare_experts(OpRegistry& registry);
void declare_reduce(OpRegistry& registry);
void declare_recurrent(OpRegistry& registry);
void declare_optimizer(OpRegistry& registry);

}  // namespace partita
