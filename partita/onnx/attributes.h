// Reads attributes of nodes, for converters.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "partita/base/error.h"
#include "partita/onnx/model.h"

namespace partita::onnx_model {

// Null if the node lacks it; bad input if it is of another kind.
template <typename T>
const T* attribute(const Node& node, const char* name) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  if (!value) fail("attribute '{}' has the wrong kind", name);
  return value;
}

// The same, with a default.
int64_t integer(const Node& node, const char* name, int64_t otherwise);
double real(const Node& node, const char* name, double otherwise);
std::string text(const Node& node, const char* name, const char* otherwise);
std::vector<int64_t> integers(const Node& node, const char* name);  // empty if absent
std::vector<double> reals(const Node& node, const char* name);
bool has(const Node& node, const char* name);

}  // namespace partita::onnx_model
