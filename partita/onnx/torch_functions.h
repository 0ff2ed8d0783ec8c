// What the names of PyTorch's functions say of values that its newer exporter computed with them.
#pragma once
#include <set>
#include <string>

namespace partita::onnx_model {

// A value of the newer exporter is named after PyTorch's function: "slice_2" is slice. Inner values are numbered.
std::string function_of(const std::string& value);
// Functions that move elements, and "val", which inner values of all functions are called.
bool only_moves(const std::string& function);
// Functions that the places of a lookup are computed with. Sums and bounds; products too, if numbers are compared or
// their logarithm is taken as well, which nobody does with a table's rows.
bool computes_places(const std::set<std::string>& functions);
// Functions that may read an element several times.
bool may_repeat(const std::string& function);
bool transposes(const std::string& function);
// "aten.linear.default" and others that read a weight: a value in the weight's place is a rearrangement of it, whatever
// was done to it before.
bool takes_weights(const std::string& target);

}  // namespace partita::onnx_model
