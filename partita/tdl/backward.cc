// Makes names, tensors and indices of a gradient's formula.
#include "partita/tdl/backward.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/tdl/affine.h"

namespace partita::tdl {

std::vector<Affine> index_forms(const std::vector<int>& lhs) {
  std::vector<Affine> result;
  for (int i : lhs) result.push_back(i == kZero ? affine_constant(0) : affine_index(i));
  return result;
}

Backward::Backward(const Bound& bound, int operand) : forward(bound), formula(bound) {
  formula.name = fmt::format("{}_d{}", forward.name, forward.tensors[operand].name);
  formula.results.clear();
  for (const BoundTensor& t : forward.tensors) used_names_.insert(t.name);
  for (const Index& i : forward.indices) used_names_.insert(i.name);
}

int Backward::add_tensor(BoundTensor tensor) {
  formula.tensors.push_back(std::move(tensor));
  return static_cast<int>(formula.tensors.size()) - 1;
}

int Backward::add_index(const std::string& name, int64_t extent) {
  formula.indices.push_back({fresh_name(name), extent, true});
  return static_cast<int>(formula.indices.size()) - 1;
}

std::string Backward::fresh_name(const std::string& wanted) {
  std::string plain = wanted;
  std::replace(plain.begin(), plain.end(), '.', '_');
  std::string name = plain;
  for (int n = 1; used_names_.contains(name); ++n) name = fmt::format("{}_{}", plain, n);
  used_names_.insert(name);
  return name;
}

int Backward::axis_index(int tensor, size_t axis) {
  auto [it, fresh] = axis_indices_.try_emplace({tensor, axis}, -1);
  if (fresh)
    it->second =
        add_index(fmt::format("{}_{}", forward.tensors[tensor].name, axis), forward.tensors[tensor].factored[axis]);
  return it->second;
}

}  // namespace partita::tdl
