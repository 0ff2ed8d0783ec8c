// Counts the labels that belong to the largest output, over all samples of a dataset.
#include "partita/train/accuracy.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/physical/passes.h"
#include "partita/physical/shortage.h"
#include "partita/runtime/weights.h"
#include "partita/schedule/lower.h"
#include "partita/train/feed.h"

namespace partita {

namespace {

// The output of the evaluation graph that the loss compares with the labels.
TensorId output_with_labels(const Planned& planned, const Graph& evaluation) {
  const Graph& training = planned.training;
  const TensorId labels = training.find_tensor("labels");
  TensorId judged = labels.valid() ? output_of_labels(training, labels) : TensorId();
  while (judged.valid() &&
         !planned.forward.find_tensor(training.tensor(judged).name).valid()) {  // a cast to the loss's dtype
    const OpId producer = training.tensor(judged).producer;
    ensure(producer.valid() && !training.op(producer).operands.empty(), "'{}' is made of no output",
           training.tensor(judged).name);
    judged = training.op(producer).operands[0];
  }
  for (size_t i = 0; judged.valid() && i < planned.forward.outputs.size(); ++i)
    if (planned.forward.tensor(planned.forward.outputs[i]).name == training.tensor(judged).name)
      return evaluation.outputs[i];
  return {};
}

// The number of rows of `output` that are largest at their label; ignored labels never count. Its first row belongs to
// label `first`; rows behind the last label fill up the last batch and do not count.
int64_t count_right(const Values& output, const std::vector<int64_t>& labels, int64_t first) {
  const int64_t classes = output.shape.back(), rows = static_cast<int64_t>(output.real.size()) / classes;
  int64_t right = 0;
  for (int64_t i = 0; i < rows && first + i < static_cast<int64_t>(labels.size()); ++i) {
    const auto row = output.real.begin() + i * classes;
    right += std::max_element(row, row + classes) - row == labels[static_cast<size_t>(first + i)];
  }
  return right;
}

}  // namespace

double accuracy(const Planned& planned, const Dataset& data, const Arrays& weights, uint64_t seed, Kernels& kernels) {
  Runner runner(false);
  const Evaluation evaluated = evaluation(planned, runner);
  const Graph& graph = evaluated.graph;
  const PhysicalGraph physical = lower(graph, evaluated.plan, planned.cluster);
  check_capacity(graph, physical, planned.cluster);
  Memory memory(physical);
  write_initial(memory, graph.whole_graph(), seed, weights);
  const int64_t each = data.items_a_step(), steps = (data.items() + each - 1) / each;
  const std::vector<int64_t>& labels = data.array("labels").integer;
  const TensorId judged = output_with_labels(planned, graph);
  ensure(judged.valid(), "no output is compared with the labels");
  int64_t right = 0;
  Feed feed;
  feed.load = [&](TensorId input, int64_t step, Interval elements) {
    std::vector<int64_t> items;
    for (int64_t i = 0; i < each; ++i) items.push_back(std::min(step * each + i, data.items() - 1));
    return data.take(graph.whole_graph(), input, items, elements);
  };
  feed.keep = [&](TensorId output, int64_t step, const Values& value) {
    if (output == judged)
      right += count_right(value, labels, step * (static_cast<int64_t>(value.real.size()) / value.shape.back()));
  };
  const Hooks hooks = hooks_of(graph, std::move(feed), kernels, seed);
  validate_indices(graph, run_threads(physical, memory, hooks, {steps, false}));
  // With another loss than masked_cross_entropy there are no such labels.
  const auto ignored = std::count(labels.begin(), labels.end(), kIgnoredLabel);
  return static_cast<double>(right) / static_cast<double>(static_cast<int64_t>(labels.size()) - ignored);
}

}  // namespace partita
