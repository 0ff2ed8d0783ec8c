// Runs one forward pass: validates the given arrays, lowers, runs, and collects the outputs.
#include "partita/train/forward.h"

#include "partita/base/error.h"
#include "partita/physical/passes.h"
#include "partita/physical/shortage.h"
#include "partita/runtime/weights.h"
#include "partita/schedule/lower.h"
#include "partita/train/dataset.h"
#include "partita/train/feed.h"

namespace partita {

namespace {

// The array of an input, in the input's dtype.
Values array_for(const Tensor& input, const Arrays& inputs) {
  const auto found = inputs.find(input.name);
  if (found == inputs.end()) fail("no array '{}' for the model's input", input.name);
  const Values& array = found->second;
  if (array.shape != input.shape)
    fail("array '{}' has shape [{}], the model's input has [{}]{}; bind its extents or use --batch", input.name,
         fmt::join(array.shape, ", "), fmt::join(input.shape, ", "),
         input.sample_axis > 0
             ? fmt::format(" with the samples on axis {}, since only there each goes its own way", input.sample_axis)
             : "");
  if (is_float(array.dtype) != is_float(input.dtype))
    fail("array '{}' is {}, the model's input is {}", input.name, name_of(array.dtype), name_of(input.dtype));
  Values values = array;
  values.dtype = input.dtype;
  return values;
}

}  // namespace

Arrays run_forward(const Graph& graph, const Plan& plan, const Cluster& cluster, const Arrays& inputs,
                   const Arrays& weights, uint64_t seed, Kernels& kernels) {
  const Graph& whole = graph.whole_graph();
  for (TensorId id : whole.inputs)
    if (const auto found = inputs.find(whole.tensor(id).name); found != inputs.end())
      check_numbers(whole, id, found->second, "");
  const PhysicalGraph physical = lower(graph, plan, cluster);
  check_capacity(graph, physical, cluster);
  Memory memory(physical);
  write_initial(memory, whole, seed, weights);
  Arrays outputs;
  Feed feed;
  feed.load = [&](TensorId input, int64_t, Interval elements) {
    return elements_of(array_for(whole.tensor(input), inputs), elements);
  };
  feed.keep = [&](TensorId output, int64_t, Values value) { outputs[graph.tensor(output).name] = std::move(value); };
  const Hooks hooks = hooks_of(graph, std::move(feed), kernels, seed);
  validate_indices(graph, run_threads(physical, memory, hooks, {1, false}));
  return outputs;
}

}  // namespace partita
