// Binds the extents of a model's inputs, and makes a file of a fixed batch for another.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/onnx/model.h"
#include "partita/onnx/onnx.h"

namespace partita::onnx_model {

// The options --bind INPUT.AXIS=N on an input's axes whose extents the file fixes. Each such axis stays as it is, or
// has the samples of the given batch.
struct AxisBindings {
  std::set<std::size_t> kept;
  std::optional<std::size_t> samples;
};
using InputBindings = std::map<std::string, AxisBindings>;  // by input

struct BoundInputs {
  std::vector<Shape> shapes;     // one an input
  std::vector<int> sample_axes;  // -1: the input has no samples
  bool symbolic_batch = false;   // the options' batch is a dimension of the file
  bool fixed_batch = false;      // the file has its own batch, which the options replace by another
  InputBindings said;
};

// Gives symbolic dimensions their extents. `batch` is that of the dimension "batch", and of axis 0 if that is symbolic.
// A file without such a dimension has a fixed batch, and is bound as it is. Bad input: a dimension without an extent,
// or with two.
BoundInputs bound_inputs(const Model& model, const OnnxOptions& options);

struct OfOtherBatch {
  Graph graph;
  std::vector<std::string> notes;  // on inputs that differ from the others
};

// Makes the forward graph of a file with a fixed batch for `batch` samples. The samples lie along axis 0 of the inputs,
// or for some along another axis of that extent, if each node keeps them apart. Inputs whose samples meet those of
// others one by one (images and texts) follow each other, each with the others as they are. `nodes` names the file's
// node behind each op. Bad input, in one line, has three causes. A node does not keep samples apart, an output has no
// samples, or inputs that begin with a batch of more than one sample do not follow.
OfOtherBatch with_batch(const Graph& forward, int64_t batch, const std::string& path,
                        const std::map<std::string, std::string>& nodes, const InputBindings& said = {});

}  // namespace partita::onnx_model
