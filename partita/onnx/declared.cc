// Compares shapes with those that the file declares.
#include "partita/onnx/declared.h"

#include "partita/base/error.h"

namespace partita::onnx_model {

Symbols symbols_of(const std::vector<Input>& inputs, const std::vector<Shape>& shapes) {
  Symbols symbols;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (std::size_t a = 0; a < inputs[i].shape.size(); ++a)
      if (inputs[i].shape[a].extent < 0) symbols[inputs[i].shape[a].symbol] = shapes[i][a];
  return symbols;
}

bool agrees_with_declared(const std::vector<Dimension>& declared, const Shape& shape, const Symbols& symbols) {
  if (declared.size() != shape.size()) return false;
  for (std::size_t a = 0; a < shape.size(); ++a) {
    int64_t extent = declared[a].extent;
    if (const auto bound = symbols.find(declared[a].symbol); extent < 0 && !declared[a].symbol.empty())
      extent = bound == symbols.end() ? -1 : bound->second;
    if (extent >= 0 && extent != shape[a]) return false;
  }
  return true;
}

std::string text_of(const std::vector<Dimension>& declared) {
  std::vector<std::string> extents;
  for (const Dimension& dim : declared)
    extents.push_back(dim.extent >= 0 ? std::to_string(dim.extent) : dim.symbol.empty() ? "?" : dim.symbol);
  return fmt::format("[{}]", fmt::join(extents, "x"));
}

}  // namespace partita::onnx_model
