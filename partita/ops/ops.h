// Offers the operator library: every operation is one declaration in the file of its family; `partita ops` lists them.
#pragma once
#include <memory>
#include <string>

#include "partita/graph/builder.h"
#include "partita/graph/registry.h"

namespace partita {

std::shared_ptr<const OpRegistry> standard_ops();

// Returns the standard operations and those that `text` describes. The text has TDL definitions. Each begins at the
// start of a line, its other lines are indented, and comments follow #. Everything else about them is derived:
// strategies, gradients, kernels. Results have the operands' promoted floating type. Bad input names the line of the
// text: a description that cannot be read, a name that is taken.
std::shared_ptr<const OpRegistry> ops_with(std::string_view text);

// Adds batch norm for training, with running statistics. It is an op `batch_norm` and, as update ops, two
// `running_average`s. These write the running mean and variance (both states or parameters [c]). `momentum` is
// PyTorch's, the weight of the new value (ONNX's is 1 - momentum). The running variance takes the unbiased variance of
// the batch, as PyTorch does. In the evaluation graph the op of this name is `batch_norm_inference`. Returns y.
TensorId batch_norm_training(GraphBuilder& build, TensorId x, TensorId scale, TensorId bias, TensorId running_mean,
                             TensorId running_variance, double eps = 1e-5, double momentum = 0.1,
                             std::string name = "");
// The same in elementary operations, with equal results, gradients and running statistics but for rounding; in the
// evaluation graph they read the running statistics. Its statistics are of the whole batch: with_batch_norm_groups does
// not know it.
TensorId elementary_batch_norm(GraphBuilder& build, TensorId x, TensorId scale, TensorId bias, TensorId running_mean,
                               TensorId running_variance, double eps, double momentum, std::string name);
// batch_norm_training for a graph that is rebatched later. Its running variances are right only once
// set_variance_corrections has been called on the new graph.
TensorId batch_norm_of_any_batch(GraphBuilder& build, TensorId x, TensorId scale, TensorId bias, TensorId running_mean,
                                 TensorId running_variance, double eps, double momentum, std::string name);
// Makes each batch_norm's running average count the variance of the op's present number of values. Bad input for one
// value.
void set_variance_corrections(Graph& graph);
// Makes every batch_norm of a forward graph take its statistics over each of `groups` groups of consecutive samples.
// PyTorch does so if it works on the groups one after another. Running statistics take the groups in order, by one op a
// step. One group gives the graph itself. Bad input, naming the op, if the batch does not divide into such groups, or
// if there is no batch norm.
Graph with_batch_norm_groups(const Graph& forward, int64_t groups);

}  // namespace partita
