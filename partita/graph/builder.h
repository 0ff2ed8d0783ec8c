// Builds a graph op by op; shapes, dtypes and sample axes are inferred from the formulas. It is the public C++ way to
// make a model:
//
//   GraphBuilder b("mlp", registry);
//   TensorId x = b.input("x", {24, 32}), w = b.parameter("w", {32, 64});
//   TensorId y = b.op("tanh", {b.op("matmul", {x, w})});
//   Graph g = b.finish({y});
#pragma once
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

class GraphBuilder {
 public:
  GraphBuilder(std::string name, std::shared_ptr<const OpRegistry> registry);
  explicit GraphBuilder(Graph graph);  // goes on building

  // Adds an input. Axis 0 is its sample axis unless stated otherwise.
  TensorId input(std::string name, Shape shape, DType dtype = DType::kFloat32, int sample_axis = 0);
  TensorId input_again(TensorId input, std::string name);  // another of the same data (Tensor::same_as)
  // Adds a parameter that starts uniform in [-bound, bound]. bound < 0 means 1/sqrt(fan in), where fan in is the
  // product of all extents but the first.
  TensorId parameter(std::string name, Shape shape, double bound = -1, double fill = 0, DType dtype = DType::kFloat32);
  TensorId parameter(std::string name, Values values);
  TensorId state(std::string name, Shape shape, double fill, DType dtype = DType::kFloat32);
  TensorId state(std::string name, Values values);
  TensorId constant(std::string name, Values values);
  // Adds a constant; its name is made unique.
  TensorId scalar(std::string name, double value, DType dtype = DType::kFloat32);

  // Adds an op of a registered definition and returns its results. `name` is made unique; if empty, it is the
  // definition's. Results are named NAME, or NAME.RESULT if there are several. Bad input names the op, the operands'
  // shapes and the rule.
  std::vector<TensorId> ops(std::string_view definition, std::vector<TensorId> operands,
                            tdl::Attributes attributes = {}, std::string name = "");
  // The same; returns the first result.
  TensorId op(std::string_view definition, std::vector<TensorId> operands, tdl::Attributes attributes = {},
              std::string name = "");
  // Adds an op given by its formula (a derived gradient). If the registry has `definition` too, the two must be equal,
  // and `attributes` are those of the definition's instance.
  std::vector<TensorId> formula(std::string_view definition, const std::string& text, std::vector<TensorId> operands,
                                std::string name = "", tdl::Attributes attributes = {});

  // Gives the ops that follow this phase.
  void set_phase(Phase phase) { phase_ = phase; }
  void set_forward(OpId forward) { forward_ = forward; }
  void set_source(Source source) { source_ = std::move(source); }
  void set_cell(int time_step, int cell) { time_step_ = time_step, cell_ = cell; }

  const Graph& graph() const { return graph_; }
  Graph& graph() { return graph_; }
  const Shape& shape(TensorId id) const { return graph_.tensor(id).shape; }
  bool has_tensor(const std::string& name) const;  // without a search through the graph
  Graph finish(std::vector<TensorId> outputs);     // verifies

 private:
  TensorId source_tensor(Tensor tensor);
  TensorId with_values(std::string name, Role role, Values values);
  std::vector<TensorId> add(Op op);

  Graph graph_;
  Phase phase_ = Phase::kForward;
  OpId forward_;
  Source source_;
  int time_step_ = -1, cell_ = -1;
  std::map<std::string, int> taken_;  // how many were made of each name
  // (definition or formula with the operands' dtypes, their shapes, attributes as given) -> bound, attributes with
  // defaults: equal ops share one
  std::map<std::tuple<std::string, std::vector<Shape>, tdl::Attributes>,
           std::pair<std::shared_ptr<const tdl::Bound>, tdl::Attributes>>
      bound_;
};

}  // namespace partita
