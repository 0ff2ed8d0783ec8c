// Offers the operator instances of instances.txt, which every check of tdl/ runs over.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "partita/tdl/evaluate.h"

namespace partita::tdl::testing {

struct Instance {
  std::string name;
  std::string text;
  std::vector<std::pair<std::string, Shape>> shapes;  // in operand order
  Attributes attributes;
  std::map<std::string, std::string> data;  // operand -> rule; absent: normally distributed
};

std::vector<Instance> read_instances(const std::string& path);
// The instances of instances.txt. It is our bug if `named` is none of them.
const std::vector<Instance>& instances();
const Instance& named(std::string_view name);

Bound bind(const Instance& instance);
// Random operands by the instance's rules: int64 for `ints`, else float64.
std::vector<Array> operands(const Instance& instance, uint64_t seed);
Array normal_array(const Shape& shape, uint64_t seed);

}  // namespace partita::tdl::testing
