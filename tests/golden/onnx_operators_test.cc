// Tests that docs/reference/onnx-operators.md is true of every operator of ONNX: the operations that it becomes, and
// the axes along which derived strategies split it. The operators are those of tests/data/onnx_operators.txt, tried on
// the cases of ONNX's own standard (node_cases.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/onnx/onnx.h"
#include "partita/onnx/operators.h"
#include "partita/ops/ops.h"
#include "tests/golden/node_cases.h"

namespace partita {
namespace {

// The splits of one operator, or of one operation of ours.
struct Splits {
  bool elementwise = true;
  bool adds_up = false;    // some strategy leaves terms of results
  bool splits = false;     // some axis of a result, or into terms
  bool everywhere = true;  // every axis of every result
};

// Tells whether axis `axis` of a result is split: two workers' shards of it differ.
bool is_cut(const Boxes& boxes, size_t axis) { return boxes.at(0, axis) != boxes.at(1, axis); }

Splits splits_of(const tdl::Bound& bound) {
  Splits s;
  s.elementwise = tdl::is_elementwise(bound);
  std::vector<std::set<size_t>> cut(bound.results.size());
  for (const tdl::AxisStrategy& strategy : tdl::strategies(bound, 2)) {
    if (strategy.names.empty() || !strategy.partial.empty()) continue;
    const auto derived = tdl::derive(bound, {2}, {strategy});
    if (!derived) continue;
    for (size_t r = 0; r < bound.results.size(); ++r) {
      const auto t = static_cast<size_t>(bound.results[r]);
      if (derived->final_kinds[0][t]) s.adds_up = true;
      else
        for (size_t axis = 0; axis < bound.tensors[t].factored.size(); ++axis)
          if (is_cut(derived->boxes[t], axis)) cut[r].insert(axis);
    }
  }
  bool is_one = true;  // element, or none: there is nothing to split
  s.splits = s.adds_up;
  for (size_t r = 0; r < bound.results.size(); ++r) {
    const Shape& extents = bound.tensors[static_cast<size_t>(bound.results[r])].factored;
    is_one &= volume(extents) < 2;
    for (size_t axis = 0; axis < extents.size(); ++axis)
      if (cut[r].contains(axis)) s.splits = true;
      else if (extents[axis] > 1 && volume(extents) > 0) s.everywhere = false;
  }
  s.splits |= is_one;
  return s;
}

struct Operator {
  int cases = 0, imported = 0;
  std::map<std::string, Splits> becomes;  // by operation of ours
  std::string why;                        // not imported
};

void add_case(Operator& of, const Case& c, const std::string& path) {
  static const auto registry = standard_ops();
  ++of.cases;
  std::ofstream(path, std::ios::binary) << model_of(c, false).SerializeAsString();
  try {
    const Graph graph = import_onnx(path, {}, registry);
    ++of.imported;
    for (const Op& op : graph.ops) {
      const Splits s = splits_of(*op.bound);
      Splits& known = of.becomes.try_emplace(op.definition, s).first->second;
      known = {known.elementwise && s.elementwise, known.adds_up || s.adds_up, known.splits && s.splits,
               known.everywhere && s.everywhere};
    }
  } catch (const Error& error) {
    of.why = error.what();
  }
}

std::map<std::string, Operator> all_operators() {
  std::map<std::string, Operator> operators;
  std::ifstream names(std::string(PARTITA_SOURCE_DIR) + "/tests/data/onnx_operators.txt");
  for (std::string name; std::getline(names, name);)
    if (!name.empty() && name[0] != '#') operators[name];
  const std::string path =
      fmt::format("{}/{}.onnx", PARTITA_BINARY_DIR, testing::UnitTest::GetInstance()->current_test_info()->name());
  for (const auto& [name, c] : cases("onnx_nodes.npz")) {
    onnx::ModelProto model;
    model.ParseFromString(c.model);
    add_case(operators.at(model.graph().node(0).op_type()), c, path);
  }
  for (const auto& [name, c] : cases("operator_nodes.npz")) add_case(operators.at(name), c, path);
  return operators;
}

// The reason why every node of an operator without a case is refused; empty: it is not.
std::string refusal(const std::string& name) {
  onnx_model::Node node;
  node.operation = name, node.opset = 24;
  try {
    onnx_model::check_operator(*standard_ops(), node);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string names_where(const Operator& of, bool (*is_so)(const Splits&)) {
  std::vector<std::string> names;
  for (const auto& [name, s] : of.becomes)
    if (is_so(s)) names.push_back(fmt::format("`{}`", name));
  return fmt::format("{}", fmt::join(names, ", "));
}

struct Verdict {
  std::string kind, detail;
};

Verdict verdict_of(const std::string& name, const Operator& of) {
  if (of.imported == 0 && of.cases > 0) return {"refused", of.why};
  if (of.cases == 0) {
    const std::string why = refusal(name);
    return {why.empty() ? "untried" : "refused",
            why.find("loops") != std::string::npos ? "a loop" : "no operation of ours stands for it"};
  }
  if (of.becomes.empty()) return {"no operation", "constant, or nothing to do"};
  const std::string whole = names_where(of, [](const Splits& s) { return !s.splits; });
  if (!whole.empty()) return {"whole", whole + " in some case"};
  if (names_where(of, [](const Splits& s) { return !s.elementwise; }).empty()) return {"element-wise", ""};
  const std::string some = names_where(of, [](const Splits& s) { return !s.everywhere; });
  return some.empty() ? Verdict{"every axis", ""} : Verdict{"some axes", "not all of " + some};
}

std::string page_of(const std::map<std::string, Operator>& operators) {
  std::map<std::string, int> count;
  int described = 0, sums = 0;
  std::string rows;
  for (const auto& [name, of] : operators) {
    const Verdict v = verdict_of(name, of);
    ++count[v.kind];
    const bool adds = v.kind != "element-wise" && !names_where(of, [](const Splits& s) { return s.adds_up; }).empty();
    described += v.kind != "refused", sums += adds;
    rows += fmt::format("| {} | {} | {}{} | {} | {} |\n", name, names_where(of, [](const Splits&) { return true; }),
                        v.kind, v.detail.empty() ? "" : ": " + v.detail, adds ? "yes" : "",
                        of.cases ? fmt::format("{} of {}", of.imported, of.cases) : "");
  }
  std::vector<std::string> counts;
  for (const auto& [kind, n] : count) counts.push_back(fmt::format("{} {}", n, kind));
  return fmt::format("{} of {} operators are taken, {} of them with sums over parts: {}.\n\n", described,
                     operators.size(), sums, fmt::join(counts, ", ")) +
         "| operator | becomes | can be split along | into terms of a sum | cases |\n|---|---|---|---|---|\n" + rows;
}

// The text, however its lines are broken.
std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; }), text.end());
  return text;
}

TEST(OnnxOperators, ArePrintedAsTheyAre) {
  const auto operators = all_operators();
  EXPECT_GE(operators.size(), 190u);
  for (const auto& [name, of] : operators) EXPECT_NE(verdict_of(name, of).kind, "untried") << name;
  const std::string page = page_of(operators), docs = std::string(PARTITA_SOURCE_DIR) + "/docs/",
                    made = std::string(PARTITA_BINARY_DIR) + "/onnx-operators-table.md";
  std::ofstream(made) << page;
  const std::string found = in_one_line(read_file(docs + "reference/onnx-operators.md"));
  EXPECT_NE(found.find(in_one_line(page)), std::string::npos)
      << "the table of docs/reference/onnx-operators.md is another than " << made;
  const std::string first = page.substr(0, page.find(':'));
  EXPECT_NE(in_one_line(read_file(docs + "reproduction/tofu.md")).find(first), std::string::npos)
      << "docs/reproduction/tofu.md does not say: " << first;
}

// By hand: a matrix product is cut along rows, columns and the contracted index; a running sum not along its own axis.
TEST(OnnxOperators, AreSplitAsFormulasSay) {
  const auto operators = all_operators();
  EXPECT_EQ(verdict_of("Relu", operators.at("Relu")).kind, "element-wise");
  EXPECT_EQ(verdict_of("MatMul", operators.at("MatMul")).kind, "every axis");
  EXPECT_TRUE(operators.at("MatMul").becomes.at("matmul").adds_up);
  EXPECT_EQ(verdict_of("Conv", operators.at("Conv")).kind, "every axis");
  EXPECT_EQ(verdict_of("Shape", operators.at("Shape")).kind, "no operation");
  EXPECT_EQ(verdict_of("Loop", operators.at("Loop")).kind, "refused");
}

}  // namespace
}  // namespace partita
