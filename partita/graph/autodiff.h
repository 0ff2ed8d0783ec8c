// Passes over graphs, first of all from a forward graph to a training step: loss, backward ops, updates.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/graph/optimizer.h"

namespace partita {

// Labels of this value do not count in masked_cross_entropy; the same as in PyTorch and in data for its models.
inline constexpr int64_t kIgnoredLabel = -100;

struct Loss {
  // "cross_entropy": mean over samples against an int64 input `labels` of the output's shape without its last axis.
  // "masked_cross_entropy": the same over the labels that are not kIgnoredLabel; 0 where none is left. The op
  // label_count counts them, over the whole batch: LABELS.count is an operand of the loss.
  // It reads LABELS.all, which is fed the same and comes whole, so that parts of a batch know the count of all.
  // "mse": mean of (y - t)^2 against an input `labels` of y's shape.
  // "bce_with_logits": mean binary cross-entropy of sigmoid(y) against an input `labels` of y's shape.
  // "elementwise": the cotangent of the output is the output itself (SoyBean's MLP: no loss product to communicate);
  // the loss tensor is half the mean square of the output.
  std::string kind = "cross_entropy";
  TensorId output;  // none: the graph's first output
  // Loss scaling: the backward pass starts from the loss times this, and gradients are divided by it before they are
  // clipped and used. Where it is not 1, or gradients are made in float16, the training graph's second output is the
  // sum of the squares of all gradients: it is finite where all of them are.
  double scale = 1;
  // Further outputs with the same labels, such as Inception's auxiliary head, or with others: each adds its weight
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

// float16: 1024, so that small gradients keep their digits; no more, as nothing lowers it. Others: 1.
double default_loss_scale(DType dtype);

// The loss functions by name.
std::vector<std::string> loss_names();

// Adds the loss, the backward ops of every op on a path from a parameter to it, and an update for each parameter
// (optimizer.h). A backward op links to its forward op and keeps its index names. The gradient of a tensor with several
// readers is a running sum: one `add` behind each contribution but the first. The learning rate is a scalar constant
// `lr`. A forward graph's batch-norm running statistics are updated too.
Graph add_backward(const Graph& forward, const Loss& loss, const Optimizer& optimizer);

// The training graph with less to keep from the forward pass for the backward one (activation recomputation). What is
// made again is made by a clone, NAME.recompute, just before the first backward op or clone that reads it. A clone
// draws the random numbers of its original; results are the same to the bit. Outputs, and what replaces something
// (running statistics), are not made again. Bad input unless `kind` is one of these:
// - "none": nothing changes.
// - "cheap": ops that take one pass over their tensors (tdl::takes_one_pass: element-wise ops, norms, casts, copies; no
//   products), if their operands are kept for others, or are there anyway. Nothing is kept that was not kept before.
//   "pointwise": without those that reduce anything (norms, softmax).
// - "attention": the core of attention, from q, k and v (recompute_attention.cc has the pattern).
// - "layer": of each layer all but what goes on to other layers, or to what is in none, which alone is kept. Layers are
//   the copies that repeated_layers (repeats.h) finds, of repeats whose copies each read the one before, if these are
//   half of the forward ops or more. Before and between them, or in the whole graph without such repeats, a layer is
//   what lies between two places where one activation alone crosses from before to after. Of these places those are
//   taken with which the backward pass needs least memory (recompute_layers.cc). What follows the last layer is in
//   none.
// `in_parts`: for a step that will work on its batch in parts. What is made of weights alone (casts) is there once for
// all of them, and is not made again.
Graph recomputed(const Graph& training, const std::string& kind, bool in_parts = false);
std::vector<std::string> recompute_kinds();
// Whether the op is such a clone, of the op `forward`.
bool is_clone(const Graph& training, const Op& op);

// The forward graph for evaluation: ops of the same names, batch norm with its running statistics. Dropout is gone, and
// so is all that no output depends on.
Graph evaluation_graph(const Graph& forward);

// Ops whose operands are all constant are evaluated and dropped.
Graph fold_constants(const Graph& graph);

// Forward ops that no output and no update depends on are dropped, and constants that nothing reads.
Graph drop_unread(const Graph& graph);

// The same graph with every floating tensor, and every cast to a floating dtype, of this dtype.
Graph with_dtype(const Graph& graph, DType dtype);

// The same forward graph in mixed precision: inputs, parameters, constants and states are float32; operands are cast to
// `low` (float16 or bfloat16) or to float32 where OpDefinition::precision says so, once a tensor; other ops take what
// comes. To be done before add_backward.
Graph mixed_precision(const Graph& forward, DType low);

}  // namespace partita
