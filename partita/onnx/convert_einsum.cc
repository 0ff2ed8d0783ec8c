// Converts Einsum to sums, then a batched matrix product.
#include <algorithm>

#include "partita/onnx/converter.h"

namespace partita::onnx_model {
namespace {

bool has(const std::string& list, char c) { return list.find(c) != std::string::npos; }

// "ij,jk->ik" with its operands' extents.
struct Equation {
  std::string equation;
  std::vector<std::string> letters;  // of each operand
  std::string result;
  std::map<char, int64_t> extent;

  int64_t count(const std::string& list) const {
    int64_t product = 1;
    for (char c : list) product *= extent.at(c);
    return product;
  }
};

Equation equation_of(NodeContext& n) {
  Equation e;
  e.equation = n.text("equation", "");
  e.equation.erase(std::remove(e.equation.begin(), e.equation.end(), ' '), e.equation.end());
  if (e.equation.find('.') != std::string::npos) fail("equation '{}': an ellipsis is not supported", e.equation);
  const std::size_t arrow = e.equation.find("->"), comma = e.equation.find(',');
  const std::string inputs = e.equation.substr(0, arrow);
  e.letters = {inputs.substr(0, comma)};
  if (comma < inputs.size()) e.letters.push_back(inputs.substr(comma + 1));
  if (e.letters.size() != n.count() || e.letters.back().find(',') != std::string::npos)
    fail("equation '{}' of {} operands: one or two are supported", e.equation, n.count());
  if (arrow != std::string::npos) e.result = e.equation.substr(arrow + 2);
  else
    for (char c = 'A'; c <= 'z'; ++c)
      if (std::count(inputs.begin(), inputs.end(), c) == 1) e.result += c;
  for (std::size_t i = 0; i < e.letters.size(); ++i) {
    if (e.letters[i].size() != n.rank(i))
      fail("equation '{}': operand {} is {}", e.equation, i, shape_text(n.shape(i)));
    for (std::size_t a = 0; a < e.letters[i].size(); ++a) {
      if (e.letters[i].find(e.letters[i][a]) != a) fail("equation '{}': a diagonal is not supported", e.equation);
      const auto [known, fresh] = e.extent.emplace(e.letters[i][a], n.shape(i)[a]);
      if (!fresh && known->second != n.shape(i)[a])
        fail("equation '{}': '{}' is {} and {}", e.equation, e.letters[i][a], known->second, n.shape(i)[a]);
    }
  }
  for (char c : e.result)
    if (!e.extent.contains(c) || std::count(e.result.begin(), e.result.end(), c) != 1)
      fail("equation '{}'", e.equation);
  return e;
}

// Sums each operand over the letters that only it has and the result lacks.
std::vector<TensorId> summed_operands(NodeContext& n, Equation& e) {
  std::vector<TensorId> x;
  for (std::size_t i = 0; i < e.letters.size(); ++i) x.push_back(n.tensor(i));
  for (std::size_t i = 0; i < e.letters.size(); ++i) {
    std::vector<int64_t> gone;
    std::string left;
    for (std::size_t a = 0; a < e.letters[i].size(); ++a) {
      const char c = e.letters[i][a];
      if (has(e.result, c) || (e.letters.size() == 2 && has(e.letters[1 - i], c))) left += c;
      else gone.push_back(static_cast<int64_t>(a));
    }
    if (!gone.empty()) x[i] = n.before("reduce_sum", {x[i]}, list_attributes("axes", gone));
    e.letters[i] = left;
  }
  return x;
}

TensorId arranged(NodeContext& n, TensorId id, const std::string& from, const std::string& to) {
  std::vector<int64_t> order;
  for (char c : to) order.push_back(static_cast<int64_t>(from.find(c)));
  return n.transposed_before(id, order);
}

}  // namespace

// One or two operands. Letters that only one operand has and the result lacks are summed first. The rest is a batched
// matrix product over the letters [in both and in the result | only in a | summed] and [.. | summed | only in b].
Results einsum(NodeContext& n) {
  Equation e = equation_of(n);
  const std::vector<TensorId> x = summed_operands(n, e);
  if (e.letters.size() == 1) return {n.made(arranged(n, x[0], e.letters[0], e.result))};
  std::string both, summed, only_a, only_b;
  for (char c : e.letters[0]) (has(e.letters[1], c) ? (has(e.result, c) ? both : summed) : only_a) += c;
  for (char c : e.letters[1])
    if (!has(e.letters[0], c)) only_b += c;
  const TensorId a = n.reshaped_before(arranged(n, x[0], e.letters[0], both + only_a + summed),
                                       {e.count(both), e.count(only_a), e.count(summed)});
  const TensorId b = n.reshaped_before(arranged(n, x[1], e.letters[1], both + summed + only_b),
                                       {e.count(both), e.count(summed), e.count(only_b)});
  const std::string made = both + only_a + only_b;
  Shape apart;
  for (char c : made) apart.push_back(e.extent.at(c));
  const TensorId y = n.reshaped_before(n.before("matmul", {a, b}), apart);
  return {n.made(arranged(n, y, made, e.result))};
}

}  // namespace partita::onnx_model
