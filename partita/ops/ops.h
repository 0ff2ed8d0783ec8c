// The operator library: every operation is one declaration in the file of its family; `partita ops` lists them.
#pragma once
#include <memory>
#include <string>

#include "partita/graph/builder.h"
#include "partita/graph/registry.h"

namespace partita {

std::shared_ptr<const OpRegistry> standard_ops();

// The standard operations and those that `text` describes: TDL definitions, each beginning at the start of a line, its
// other lines indented, with comments after #. Everything else about them is derived: strategies, gradients, kernels.
// Results have the operands' promoted floating type. Bad input names the line of the text: a description that cannot be
// read, a name that is taken.
std::shared_ptr<const OpRegistry> ops_with(std::string_view text);

// Batch norm for training, with running statistics: an op `batch_norm` and, as update ops, two `running_average`s that
// write the running mean and variance (both states or parameters [c]). `momentum` is PyTorch's, the weight of the new
// value (ONNX's is 1 - momentum); the running variance takes the unbiased variance of the batch, as PyTorch does. In
// the evaluation graph the op of this name is `batch_norm_inference`. Returns y.
TensorId batch_norm_training(GraphBuilder& build, TensorId x, TensorId scale, TensorId bias, TensorId running_mean,
                             TensorId running_variance, double eps = 1e-5, double momentum = 0.1,
                             std::string name = "");
// The same in elementary operations, with the same results, gradients and running statistics but for rounding; in the
// evaluation graph they take the running statistics. Its statistics are of the whole batch:
// with_batch_norm_groups does not know it.
TensorId elementary_batch_norm(GraphBuilder& build, TensorId x, TensorId scale, TensorId bias, TensorId running_mean,
                               TensorId running_variance, double eps, double momentum, std::string name);
// batch_norm_training, where another batch is made of the graph: its running variances are not right before
// count_values has been called on that.
TensorId batch_norm_of_any_batch(GraphBuilder& build, TensorId x, TensorId scale, TensorId bias, TensorId running_mean,
                                 TensorId running_variance, double eps, double momentum, std::string name);
// Makes each batch_norm's running average take the variance of as many values as the op has now. Bad input: of one.
void count_values(Graph& graph);
// The forward graph with the statistics of every batch_norm over each of `groups` groups of consecutive samples (as
// PyTorch has them where it works on the groups one after another); running statistics take the groups in order, by one
// op a step. One group: the graph itself. Bad input, naming the op, where the batch is no such groups, and where there
// is no batch norm.
Graph with_batch_norm_groups(const Graph& forward, int64_t groups);

}  // namespace partita
