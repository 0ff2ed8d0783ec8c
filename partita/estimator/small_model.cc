// Cuts a model down to two layers of each kind, and makes its training steps.
#include "partita/estimator/small_model.h"

#include <algorithm>
#include <utility>

#include "partita/base/error.h"
#include "partita/graph/factors.h"
#include "partita/graph/fewer_layers.h"
#include "partita/graph/kept_gradients.h"
#include "partita/graph/recompute.h"
#include "partita/plan/expert_rule.h"

namespace partita {

namespace {

constexpr int kCopies = 3;  // of each kind: the first, one between equal ones, the last

// The copy in the small model that stands for this one of so many.
int stand_in(int copy, int copies) {
  if (copies <= kCopies || copy == 0) return copy;
  return copy + 1 == copies ? kCopies - 1 : 1;
}

// By layer block of a model whose blocks are the copies of `layers` and what lies before, between and behind them.
std::vector<int> stand_ins(const std::vector<Repeat>& layers, LayerBlocks& whole) {
  std::vector<int> out;
  int place = 0, block = 0;
  const auto add = [&](int stands_for, bool is_layer) {
    out.push_back(stands_for);
    whole.is_layer.push_back(is_layer);
    whole.layers += is_layer;
    ++whole.cuts;
  };
  for (const Repeat& repeat : layers) {
    if (repeat.first.value > place) add(block++, false);
    for (int copy = 0; copy < repeat.copies; ++copy) add(block + stand_in(copy, repeat.copies), true);
    block += std::min(kCopies, repeat.copies);
    place = repeat.first.value + repeat.copies * repeat.ops;
  }
  add(block, false);  // at least the loss
  return out;
}

Loss on_fewer(Loss loss, const std::vector<TensorId>& now) {
  if (loss.output.valid()) loss.output = now[loss.output.index()];
  for (Loss::Auxiliary& auxiliary : loss.auxiliary) auxiliary.output = now[auxiliary.output.index()];
  for (auto& [penalty, weight] : loss.penalties) penalty = now[penalty.index()];
  return loss;
}

}  // namespace

SmallModel::SmallModel(const Graph& whole, const Loss& loss, const Optimizer& optimizer, const MayFactor& may)
    : may_(may) {
  const Graph forward = cut_parts_alike(whole, may);
  const std::vector<Repeat> layers = chained_layers(forward);
  if (layers.empty()) throw DoesNotApply(fmt::format("model '{}' has no repeated layers", forward.name));
  const FewerLayers few = with_fewer_layers(forward, layers, kCopies);
  training_ = carry_factors(add_backward(few.graph, on_fewer(loss, few.now), optimizer), may);
  stands_for_ = stand_ins(layers, whole_);
  blocks_ = stands_for_.back() + 1;
  experts_ = static_cast<int>(experts_of(training_));
  const std::vector<char> kept = kept_gradients(training_);
  keeps_gradients_ = optimizer.clip_norm > 0 || std::ranges::find(kept, 1) != kept.end();
}

const SmallModel::Step& SmallModel::step(const std::string& recompute, int micro_batches) {
  std::unique_ptr<Step>& known = steps_[{recompute, micro_batches}];
  if (known) return *known;
  Graph graph = recompute == "none" ? training_ : recompute_activations(training_, recompute, micro_batches != 1);
  if (micro_batches != 1) graph = in_micro_batches(graph, micro_batches, may_);
  LayerBlocks blocks = layer_blocks_of(graph, 0);
  if (blocks.cuts != blocks_)
    throw DoesNotApply(fmt::format("model '{}': {} layer blocks of a model with {} layers of each kind are no {}",
                                   graph.name, blocks.cuts, kCopies, blocks_));
  known = std::make_unique<Step>(Step{std::move(graph), std::move(blocks.of_op)});
  return *known;
}

}  // namespace partita
