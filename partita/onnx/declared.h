// Compares values' shapes with those that a file declares, beside the nodes that make them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "partita/onnx/model.h"

namespace partita::onnx_model {

// Extents of symbolic dimensions, by their names in the file.
using Symbols = std::map<std::string, int64_t>;
// Returns the symbols of the inputs, bound to these shapes, one an input. Empty: the file has none.
Symbols symbols_of(const std::vector<Input>& inputs, const std::vector<Shape>& shapes);

// Tells whether a value can have this shape by the file's declaration. A symbol that no input has may be any extent.
bool agrees_with_declared(const std::vector<Dimension>& declared, const Shape& shape, const Symbols& symbols);

// "[batchx3x7x7]".
std::string text_of(const std::vector<Dimension>& declared);

}  // namespace partita::onnx_model
