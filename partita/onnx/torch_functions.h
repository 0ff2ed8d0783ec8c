// Classifies PyTorch's functions by name, for values that its newer exporter computed with them.
#pragma once
#include <set>
#include <string>

namespace partita::onnx_model {

// A value of the newer exporter is named after PyTorch's function: "slice_2" is slice. Inner values are numbered.
std::string function_of(const std::string& value);
// Tells whether the function moves elements; so does "val", the name of inner values of all functions.
bool only_moves_elements(const std::string& function);
// Tells whether the places of a lookup are computed with the functions. Sums and bounds; products too, if numbers are
// compared or their logarithm is taken as well, which nobody does with a table's rows.
bool computes_places(const std::set<std::string>& functions);
// Tells whether the function may read an element several times.
bool may_repeat(const std::string& function);
bool transposes(const std::string& function);
// Tells whether the target reads a weight ("aten.linear.default" and others): a value in the weight's place is a
// rearrangement of it, with any earlier steps.
bool takes_weights(const std::string& target);

}  // namespace partita::onnx_model
