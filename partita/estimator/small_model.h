// Makes the small training steps whose costs stand for a model's: three layers of each kind, with all that lies before,
// between and behind them.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "partita/graph/autodiff.h"
#include "partita/graph/micro_batches.h"
#include "partita/search/pipelines/stages.h"

namespace partita {

class SmallModel {
 public:
  // Does not apply if the model has no repeated layers.
  SmallModel(const Graph& forward, const Loss& loss, const Optimizer& optimizer, const MayFactor& may);

  // The small step with this recomputation, in this many micro-batches of the whole batch.
  struct Step {
    Graph graph;
    std::vector<int> of_op;  // its layer block
  };
  const Step& step(const std::string& recompute, int micro_batches);
  int blocks() const { return blocks_; }
  int experts() const { return experts_; }  // of a layer; 0: it has none
  // Whether all gradients are kept until the last is there.
  bool keeps_gradients() const { return keeps_gradients_; }
  // By layer block of the whole model, the one of the small model that stands for it.
  const std::vector<int>& stands_for() const { return stands_for_; }
  // The blocks of the whole model, as far as cuts into stages ask: `of_op` is empty.
  const LayerBlocks& whole_blocks() const { return whole_; }

 private:
  Graph training_;
  int blocks_ = 0, experts_ = 0;
  bool keeps_gradients_ = false;
  LayerBlocks whole_;
  std::vector<int> stands_for_;
  MayFactor may_;
  std::map<std::pair<std::string, int>, std::unique_ptr<Step>> steps_;
};

}  // namespace partita
