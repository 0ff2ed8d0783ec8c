// Imports ONNX files as forward graphs: models as today's exporters write them, opset 7 to 24.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

struct OnnxOptions {
  // Extents of symbolic dimensions, by the name that the file gives them; a nameless one is INPUT.AXIS. For a fixed
  // extent INPUT.AXIS says that it stays, or that it is the batch's (batch.h).
  std::map<std::string, int64_t> bindings;
  // The extent of the dimension "batch", and of axis 0 if it is symbolic. A file whose batch is fixed is made for this
  // one if every node keeps samples apart (batch.h). 0: as in the file.
  int64_t batch = 0;
  // False: parameters and running statistics have their shapes, and start at random; files beside the model are not
  // read.
  bool load_weights = true;
};

// Facts about a file for a person.
struct OnnxFindings {
  std::vector<std::string> tied;  // "onnx::MatMul_12 is e.weight, transposed": one parameter, read as both
  std::vector<std::string>
      untrained;  // "embedding_1 (of wpe.weight, wte.weight)": constants that the exporter computed from parameters
  std::vector<std::string>
      with_normalization;  // weights of convolutions that the exporter has put a batch normalization into
  std::vector<std::string> perhaps_buffers;  // trained, since the file does not say whether they are parameters
  std::vector<std::string> batch;            // inputs that do not follow another batch as the others do, a line each
  std::vector<std::string> notes;            // from its builder or importer
  std::vector<std::string> other_shapes;     // "'y' is [8x4], and the file declares [1x4] (node 'r')"
  std::vector<std::string> rounded;          // "29 of 28 or 29 places (node 'r', axis 2: 100 times 0.29)"
  std::string why_not_trained;               // a file that can be run, and not trained; empty: it can
  std::string assumed_loss;                  // an assumption of a loss that nobody has given; empty: none
};
// Returns possible differences from the source in every use of the file, in a line each; empty if there are none.
std::vector<std::string> shape_notes(const OnnxFindings& findings);
// The same, with the parts that are not trained as in the source, or have another batch in their own way. Each has a
// line with the reason; empty if there are none.
std::vector<std::string> training_notes(const OnnxFindings& findings);

// Makes the forward graph, ready for training and evaluation:
// - Floating initializers are parameters, with their values. Integers, numbers that no module owns, and buffers that
//   the file names are constants. A weight that several nodes read is one parameter. A value whose elements the
//   exporter moved from one parameter reads that parameter; other values that it computed are constants (folded.h).
// - BatchNormalization is put into training form, whichever form the file has: PyTorch writes the inference form for
//   models in training mode too. Its running statistics are state, updated with the file's momentum;
//   evaluation_graph() uses them.
// - Values that are constant once the inputs' shapes are (chains of Shape, Gather, Concat, ..) are computed here.
// - Local functions are inlined; an If with a constant condition is the branch that it names.
// - float16 and bfloat16 tensors become float32, all integers int64.
// - Dropout is gone, as in evaluation, unless the file says that it draws (training_mode).
// - An operator of another domain than ONNX's is the described operation of its name (ops_with), with the node's
//   attributes.
// - A file of a fixed batch is imported at that, and then made for the given one.
// - Inputs and outputs keep the file's names; ops are named after the module they come from, if the file says so.
// Bad input comes in one error. It is a file that cannot be read or is no ONNX model, an input whose shape is not
// bound, or a cycle. Or it lists all nodes that cannot be imported, with file, node, operator and opset. `own_batch`,
// if given, gets the graph at the file's own fixed batch if the options replace that.
Graph import_onnx(const std::string& path, const OnnxOptions& options, std::shared_ptr<const OpRegistry> registry,
                  std::optional<Graph>* own_batch = nullptr, OnnxFindings* findings = nullptr);

// The fate of one node.
struct OnnxNode {
  enum class Fate {
    kImported,  // became one or more ops
    kFolded,    // constant, or nothing at all (Identity): computed on import
    kUnused,    // no output depends on it
    kBlocked,   // behind an unsupported node
    kUnsupported,
  } fate = Fate::kImported;
  std::string name, operation;  // "node_conv2d", "Conv"
  int64_t opset = 0;
  Source source;
  std::string why;  // for kImported: the ops' definitions; else the reason
};
std::string_view name_of(OnnxNode::Fate fate);  // "imported"
// Returns every node of the file, in order of execution, without an error for those that cannot be imported. Before
// them, as "(initializer)", come those that the exporter computed from parameters.
std::vector<OnnxNode> describe_onnx(const std::string& path, const OnnxOptions& options,
                                    std::shared_ptr<const OpRegistry> registry);

}  // namespace partita
