// Which parameter an operand reads: exporters write weights transposed, and merge those that are equal.
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "partita/onnx/model.h"

namespace partita::onnx_model {

// Names of operands that are running statistics of a BatchNormalization.
std::set<std::string> running_statistics(const std::vector<Node>& nodes);
// Names of operands that say how an operator works, such as Resize's scales, and are no weights.
std::set<std::string> settings_of(const std::vector<Node>& nodes);
// `settings`: of the model's nodes.
bool is_trained(const Model& model, const std::set<std::string>& settings, const std::string& name,
                const Initializer& initializer);

struct WeightReads {
  std::map<std::string, std::string> untransposed;  // a transposed matrix -> the weight whose transpose it is
  std::map<std::string, std::string> clones;        // a parameter that the exporter has merged -> the one into which
  std::map<std::pair<const Node*, std::size_t>, std::string> renamed;  // an operand that reads a clone

  // Whether the node is `y = MatMul(x, Transpose(w))`, which reads w itself.
  bool reads_transposed(const Node& node) const;
  // The node's operands, with what they read in place of what the file says.
  std::vector<std::string> inputs_of(const Node& node) const;
};
// Without `load_weights` values are not looked at.
WeightReads weight_reads(const Model& model, const std::set<std::string>& settings, bool load_weights);

}  // namespace partita::onnx_model
