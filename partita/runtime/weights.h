// Moves values into and out of the registers that live from step to step.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "partita/graph/graph.h"
#include "partita/runtime/memory.h"

namespace partita {

// Returns the first values of a parameter, state or constant: its own, or uniform numbers keyed by (seed, name,
// element). Every plan starts from the same.
Values initial_values(const Tensor& tensor, uint64_t seed);

// Writes a tensor into all its carried or constant registers, whatever their boxes. Bad input if the shape differs.
void write_tensor(const Memory& memory, TensorId id, const Values& values, const Tensor& tensor);
// Reads a tensor back from the registers that hold it. Our bug if they don't cover it.
Values read_tensor(const Memory& memory, TensorId id, const Tensor& tensor);

// Writes every tensor without a producer that isn't an input: from `given` by name, or as it starts.
void write_initial(const Memory& memory, const Graph& graph, uint64_t seed,
                   const std::map<std::string, Values>& given = {});
// Reads every parameter and state, by name.
std::map<std::string, Values> read_weights(const Memory& memory, const Graph& graph);

// A view of values that lie in order, over `axes` (stored or factored) of their shape.
View view_of(const Values& values, const Shape& axes, std::vector<std::byte>& bytes);
Values values_of(const View& view, const Shape& shape);

}  // namespace partita
