// Finds the parameter that an operand reads: exporters write weights transposed, and merge those that are equal.
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "partita/onnx/model.h"

namespace partita::onnx_model {

// Returns names of operands that are running statistics of a BatchNormalization.
std::set<std::string> running_statistics(const std::vector<Node>& nodes);
// Returns names of operands that set how an operator works, such as Resize's scales, and are no weights.
std::set<std::string> settings_of(const std::vector<Node>& nodes);
// Tells whether an initializer is trained. `settings`: of the model's nodes.
bool is_trained(const Model& model, const std::set<std::string>& settings, const std::string& name,
                const Initializer& initializer);

struct WeightReads {
  std::map<std::string, std::string> untransposed;  // a transposed matrix -> the weight that was transposed
  std::map<std::string, std::string> clones;  // a parameter that the exporter has merged -> the one that it became
  std::map<std::pair<const Node*, std::size_t>, std::string> renamed;  // an operand that reads a clone

  // Tells whether the node is `y = MatMul(x, Transpose(w))`, which reads w itself.
  bool reads_transposed(const Node& node) const;
  // Returns the node's operands, with the names that they read in place of the file's.
  std::vector<std::string> inputs_of(const Node& node) const;
};
// Without `load_weights` values are not looked at.
WeightReads weight_reads(const Model& model, const std::set<std::string>& settings, bool load_weights);

}  // namespace partita::onnx_model
