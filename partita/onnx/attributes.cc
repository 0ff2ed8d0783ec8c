// Reads attributes of nodes.
#include "partita/onnx/attributes.h"

namespace partita::onnx_model {

bool has(const Node& node, const char* name) { return node.attributes.contains(name); }
int64_t integer(const Node& node, const char* name, int64_t otherwise) {
  const auto* value = attribute<int64_t>(node, name);
  return value ? *value : otherwise;
}
double real(const Node& node, const char* name, double otherwise) {
  const auto* value = attribute<double>(node, name);
  return value ? *value : otherwise;
}
std::string text(const Node& node, const char* name, const char* otherwise) {
  const auto* value = attribute<std::string>(node, name);
  return value ? *value : otherwise;
}
std::vector<double> reals(const Node& node, const char* name) {
  const auto* value = attribute<std::vector<double>>(node, name);
  return value ? *value : std::vector<double>();
}
std::vector<int64_t> integers(const Node& node, const char* name) {
  const auto* value = attribute<std::vector<int64_t>>(node, name);
  return value ? *value : std::vector<int64_t>();
}

}  // namespace partita::onnx_model
