// Draws random operands for the examples of definitions.
#include "partita/ops/examples.h"

namespace partita {

std::vector<DType> operand_dtypes(const OpDefinition::Example& example) {
  return example.dtypes.empty() ? std::vector<DType>(example.shapes.size(), DType::kFloat32) : example.dtypes;
}

std::vector<tdl::Array> random_operands(const OpDefinition& definition, const OpDefinition::Example& example,
                                        Rng& rng) {
  std::vector<tdl::Array> operands;
  const std::vector<DType> dtypes = operand_dtypes(example);
  for (std::size_t k = 0; k < example.shapes.size(); ++k) {
    const std::size_t n = static_cast<std::size_t>(volume(example.shapes[k]));
    if (is_float(dtypes[k])) {
      std::vector<double> reals(n);
      for (double& v : reals) v = definition.domain_lo + (definition.domain_hi - definition.domain_lo) * rng.uniform();
      operands.push_back(tdl::real_array(example.shapes[k], std::move(reals)));
      continue;
    }
    std::vector<int64_t> ints(n);
    const int64_t limit = dtypes[k] == DType::kBool ? 2 : example.integers_below;
    for (int64_t& v : ints) v = static_cast<int64_t>(rng.below(static_cast<uint64_t>(limit)));
    operands.push_back(tdl::int_array(example.shapes[k], std::move(ints)));
    operands.back().dtype = dtypes[k];
  }
  return operands;
}

}  // namespace partita
