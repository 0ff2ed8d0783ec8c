// Passes over graphs, above all from a forward graph to a training step: loss, backward ops, updates.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/graph/optimizer.h"

namespace partita {

// Labels of this value do not count in masked_cross_entropy; PyTorch and data for its models use the same.
inline constexpr int64_t kIgnoredLabel = -100;

struct Loss {
  // "cross_entropy": mean over samples against an int64 input `labels` of the output's shape without its last axis.
  // "masked_cross_entropy": the same over the labels that are not kIgnoredLabel; 0 if none is left. The op label_count
  // counts them over the whole batch: LABELS.count is an operand of the loss. It reads LABELS.all, which is fed the
  // same and comes whole, so that micro-batches know the count of all.
  // "mse": mean of (y - t)^2 against an input `labels` of y's shape.
  // "bce_with_logits": mean binary cross-entropy of sigmoid(y) against an input `labels` of y's shape.
  // "elementwise": the cotangent of the output is the output itself (SoyBean's MLP: no loss product to communicate).
  // The loss tensor is half the mean square of the output.
  std::string kind = "cross_entropy";
  TensorId output;  // none: the graph's first output
  // Loss scaling: the backward pass starts from the loss times this. Gradients are divided by it before they are
  // clipped and used. If it is not 1, or gradients are made in float16, the training graph has a second output: the sum
  // of the squares of all gradients. It is finite if all of them are.
  double scale = 1;
  // Further outputs with the same labels, such as Inception's auxiliary head, or with others. Each adds its weight
  // times its loss.
  struct Auxiliary {
    TensorId output;
    double weight = 1;
    std::string labels = "labels";  // the input's name
  };
  std::vector<Auxiliary> auxiliary;
  // Scalars of the forward graph, such as the load-balancing loss of experts: each adds its weight times itself.
  // Evaluation leaves them out.
  std::vector<std::pair<TensorId, double>> penalties;
};

// For float16 1024, so that small gradients keep their digits; no more, as nothing lowers it. For other dtypes 1.
double default_loss_scale(DType dtype);

// Lists the loss functions by name.
std::vector<std::string> loss_names();

// Makes the training graph: adds the loss, backward ops, and an update for each parameter (optimizer.h). Every op on a
// path from a parameter to the loss has backward ops. A backward op links to its forward op and keeps its index names.
// The gradient of a tensor with several readers is a running sum: one `add` behind each contribution but the first. The
// learning rate is a scalar constant `lr`. A forward graph's batch-norm running statistics are updated too.
Graph add_backward(const Graph& forward, const Loss& loss, const Optimizer& optimizer);

// Makes the backward pass recompute activations, so that the forward pass keeps less (activation recomputation). A
// clone, NAME.recompute, recomputes a result just before the first backward op or clone that reads it. A clone draws
// the random numbers of its original; results are the same to the bit. Outputs, and results that replace something
// (running statistics), are not recomputed. Bad input unless `kind` is one of these:
// - "none": nothing changes.
// - "cheap": recomputes ops that take one pass over their tensors (tdl::takes_one_pass: element-wise ops, norms, casts,
//   copies; no products), if their operands are kept for others, or exist anyway. Nothing is kept that was not kept
//   before.
//   "pointwise": the same without ops that reduce anything (norms, softmax).
// - "attention": recomputes the core of attention, from q, k and v (recompute_attention.cc has the pattern).
// - "layer": keeps only a layer's results that other layers, or ops in no layer, read. Layers are copies that
//   repeated_layers (repeats.h) finds. Each copy must read the one before, and the copies must be half of the forward
//   ops or more. Before and between them, or in the whole graph without such repeats, a layer lies between two places
//   where one activation alone crosses. It takes the places with which the backward pass needs least memory
//   (recompute_layers.cc). Ops after the last layer are in none.
// With `per_micro_batch`, for a step that works on its batch in micro-batches, results of weights alone (casts) exist
// once for all micro-batches, and are not recomputed.
Graph recompute_activations(const Graph& training, const std::string& kind, bool in_micro_batches = false);
std::vector<std::string> recompute_kinds();
// Tells whether the op is such a clone, of the op `forward`.
bool is_clone(const Graph& training, const Op& op);

// Makes the forward graph for evaluation: ops of the same names, batch norm with its running statistics. Drops dropout,
// and all that no output depends on.
Graph evaluation_graph(const Graph& forward);

// Evaluates and drops ops whose operands are all constant.
Graph fold_constants(const Graph& graph);

// Drops forward ops that no output and no update depends on, and constants that nothing reads.
Graph drop_unread(const Graph& graph);

// Gives every floating tensor, and every cast to a floating dtype, this dtype.
Graph with_dtype(const Graph& graph, DType dtype);

// Puts a forward graph in mixed precision. Inputs, parameters, constants and states are float32. Operands are cast to
// `low` (float16 or bfloat16) or to float32 if OpDefinition::precision says so, once a tensor; other ops take their
// operands as they come. Must run before add_backward.
Graph mixed_precision(const Graph& forward, DType low);

}  // namespace partita
