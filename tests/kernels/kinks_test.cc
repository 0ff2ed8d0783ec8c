// Compares gradients at ties, at bounds and where a derivative is infinite with PyTorch's (tests/data/kinks.json), for
// the reference evaluator and the kernels. Every operation whose formula has such places is in the table.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/infer.h"
#include "partita/graph/reference.h"
#include "partita/ops/ops.h"
#include "tests/kernels/runner.h"

namespace partita::testing {
namespace {

using Json = nlohmann::json;
using tdl::Array;
using tdl::Expr;
using tdl::ExprKind;

Json rows() {
  std::ifstream file(PARTITA_SOURCE_DIR "/tests/data/kinks.json");
  return Json::parse(file);
}

double number(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string text = value.get<std::string>();
  return text == "nan" ? std::nan("") : text == "inf" ? INFINITY : -INFINITY;
}

std::vector<std::pair<std::string, tdl::Attributes>> ops_of(const Json& row) {
  std::vector<std::pair<std::string, tdl::Attributes>> ops;
  if (row["op"].is_string()) return {{row["op"], row["attributes"].get<tdl::Attributes>()}};
  for (const Json& op : row["op"]) ops.emplace_back(op[0], op[1].get<tdl::Attributes>());
  return ops;
}

// A step whose loss has the row's first result with the row's cotangent, and whose updates read its gradients.
struct Step {
  Graph graph;
  std::vector<TensorId> operands, gradients;  // gradients: invalid if there is none
  std::map<TensorId, Array> values;           // of given tensors
};

Step step_of(const Json& row) {
  GraphBuilder build("kinks", standard_ops());
  Step step;
  for (const Json& operand : row["operands"]) {
    const std::string dtype = operand["dtype"], name = fmt::format("a{}", step.operands.size());
    const DType type = dtype == "float64" ? DType::kFloat64 : dtype == "bool" ? DType::kBool : DType::kInt64;
    const Shape shape = operand["shape"].get<Shape>();
    Array array{type, shape, {}, {}, {}};
    for (const Json& value : operand["values"]) {
      if (is_float(type)) array.reals.push_back(number(value));
      else array.ints.push_back(value.get<int64_t>());
    }
    step.operands.push_back(is_float(type) ? build.parameter(name, shape, 1, 0, type) : build.input(name, shape, type));
    step.values[step.operands.back()] = array;
  }
  std::vector<TensorId> y = step.operands;
  for (const auto& [op, attributes] : ops_of(row)) y = {build.ops(op, y, attributes)[0]};
  const Shape shape = build.shape(y[0]);
  Array cotangent{DType::kFloat64, shape, {}, {}, {}};
  for (const Json& value : row["cotangent"]) cotangent.reals.push_back(number(value));
  const TensorId g = build.input("g", shape, DType::kFloat64);
  TensorId sum = build.op("mul", {y[0], g});
  if (!shape.empty()) sum = build.op("reduce_sum", {sum});
  const TensorId other = build.parameter("other", {1}, 1, 0, DType::kFloat64);
  Loss loss{.kind = "mse"};
  loss.penalties = {{sum, 1}};
  step.graph = add_backward(build.finish({build.op("identity", {other})}), loss, {"sgd", 0.01});
  step.values[g] = cotangent;
  for (const char* name : {"other", "labels"}) step.values[step.graph.find_tensor(name)] = tdl::real_array({1}, {0});
  step.gradients.resize(step.operands.size());
  for (const Op& op : step.graph.ops)
    for (std::size_t k = 0; k < step.operands.size(); ++k)
      if (op.phase == Phase::kUpdate && op.operands[0] == step.operands[k]) step.gradients[k] = op.operands[1];
  return step;
}

void run_on_kernels(Kernels& kernels, const Graph& graph, std::map<TensorId, Array>& values) {
  for (const Op& op : graph.ops) {
    std::vector<Array> operands;
    for (TensorId t : op.operands) {
      if (!values.contains(t)) values[t] = to_array(*graph.tensor(t).values);
      operands.push_back(values.at(t));
    }
    std::vector<DType> results;
    for (TensorId t : op.results) results.push_back(graph.tensor(t).dtype);
    const std::vector<Array> got =
        run_whole(kernels, {op.bound.get(), op.definition, op.attributes, results}, operands);
    for (std::size_t r = 0; r < got.size(); ++r) values[op.results[r]] = got[r];
  }
}

bool is_same(double got, double expected) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected)) return got == expected;
  return got == expected || std::abs(got - expected) <= 1e-11 * std::max(1.0, std::abs(expected));
}

void expect_gradients(const Json& row, const Step& step, const std::map<TensorId, Array>& values) {
  const Json& expected = row[row.contains("ours") ? "ours" : "gradients"];
  for (std::size_t k = 0; k < expected.size(); ++k)
    for (std::size_t i = 0; !expected[k].is_null() && i < expected[k].size(); ++i) {
      const double got = step.gradients[k].valid() ? values.at(step.gradients[k]).reals.at(i) : 0;
      EXPECT_TRUE(is_same(got, number(expected[k][i])))
          << "operand " << k << ", element " << i << ": " << got << ", not " << expected[k][i];
    }
}

TEST(Kinks, GradientsAreAsInPyTorch) {
  const auto kernels = make_aten_kernels();
  int checked = 0;
  for (const Json& row : rows()) {
    SCOPED_TRACE(row["op"].dump() + row["attributes"].dump() + row["operands"].dump());
    Step step = step_of(row);
    std::map<TensorId, Array> by_reference = step.values, by_kernels = step.values;
    reference_run(step.graph, by_reference);
    expect_gradients(row, step, by_reference);
    SCOPED_TRACE("kernels");
    run_on_kernels(*kernels, step.graph, by_kernels);
    expect_gradients(row, step, by_kernels);
    ++checked;
  }
  EXPECT_GT(checked, 70);
}

// If Partita has another number than PyTorch, PyTorch's is no number.
TEST(Kinks, ChoicesDifferOnlyWherePyTorchHasNoNumber) {
  for (const Json& row : rows()) {
    if (!row.contains("ours")) continue;
    SCOPED_TRACE(row["op"].dump());
    int other = 0;
    for (std::size_t k = 0; k < row["ours"].size(); ++k)
      for (std::size_t i = 0; i < row["ours"][k].size(); ++i) {
        const double ours = number(row["ours"][k][i]), theirs = number(row["gradients"][k][i]);
        if (is_same(ours, theirs)) continue;
        EXPECT_TRUE(std::isnan(theirs)) << theirs;
        ++other;
      }
    EXPECT_GT(other, 0);
  }
}

// ---------------------------------------------------------------- the table is complete

class KinkFinder {
 public:
  KinkFinder(const tdl::Bound& bound, const std::vector<DType>& operands) {
    for (int t = 0; t < static_cast<int>(bound.tensors.size()); ++t)
      real_.push_back(t < bound.operand_count && is_float(operands[static_cast<std::size_t>(t)]));
    for (const tdl::Stage& stage : bound.stages) {
      found_ = found_ || kinked(stage.body);
      real_[static_cast<std::size_t>(stage.tensor)] = moves(stage.body);
    }
  }
  bool found() const { return found_; }

 private:
  // Tells whether a floating operand moves it.
  bool moves(const Expr& e) const {
    bool any = false;
    tdl::for_each_read(e, [&](const Expr& read) { any = any || real_[static_cast<std::size_t>(read.tensor)]; });
    return any;
  }
  bool kinked(const Expr& e) const {
    static const std::set<std::string> kOfOne = {"abs",  "sign", "sqrt",  "log",  "floor",
                                                 "asin", "acos", "acosh", "atanh"},
                                       kOfTwo = {"max", "min", "%", "//"};
    if (e.kind == ExprKind::kReduce && e.reducer != tdl::Reducer::kSum && moves(e)) return true;
    if (e.kind == ExprKind::kUnary && kOfOne.contains(e.function) && moves(e)) return true;
    if (e.kind == ExprKind::kBinary && kOfTwo.contains(e.function) && moves(e)) return true;
    if (e.kind == ExprKind::kBinary && e.function == "/" && moves(e.args[1])) return true;
    if (e.kind == ExprKind::kIf && moves(e.args[0])) return true;
    if (e.kind == ExprKind::kBinary && e.function == "^" && moves(e)) {
      const Expr& y = e.args[1];  // a natural power is smooth
      if (y.kind != ExprKind::kNumber || y.number < 1 || y.number != std::floor(y.number)) return true;
    }
    return std::any_of(e.args.begin(), e.args.end(), [&](const Expr& arg) { return kinked(arg); });
  }

  std::vector<bool> real_;
  bool found_ = false;
};

bool has_kink(const OpDefinition& definition, const std::shared_ptr<const OpRegistry>& registry) {
  if (!definition.differentiable) return false;
  for (const OpDefinition::Example& example : definition.examples) {
    GraphBuilder build("one", registry);
    std::vector<TensorId> ids;
    std::vector<DType> dtypes =
        example.dtypes.empty() ? std::vector<DType>(example.shapes.size(), DType::kFloat32) : example.dtypes;
    for (std::size_t k = 0; k < example.shapes.size(); ++k)
      ids.push_back(build.input(fmt::format("a{}", k), example.shapes[k], dtypes[k]));
    const std::vector<TensorId> results = build.ops(definition.name, ids, example.attributes);
    const bool real = std::any_of(results.begin(), results.end(),
                                  [&](TensorId t) { return is_float(build.graph().tensor(t).dtype); });
    if (real && KinkFinder(*build.graph().ops.back().bound, dtypes).found()) return true;
  }
  return false;
}

TEST(Kinks, EveryOperationThatHasSomeIsInTheTable) {
  std::set<std::string> listed;
  for (const Json& row : rows())
    for (const auto& [op, attributes] : ops_of(row)) listed.insert(op);
  const auto registry = standard_ops();
  int kinked = 0;
  for (const OpDefinition* definition : registry->all()) {
    if (!has_kink(*definition, registry)) continue;
    ++kinked;
    EXPECT_TRUE(listed.contains(definition->name))
        << definition->name << " has a tie, a bound or an infinite derivative: add a row to tests/data/make_kinks.py";
  }
  EXPECT_GT(kinked, 40);
}

}  // namespace
}  // namespace partita::testing
