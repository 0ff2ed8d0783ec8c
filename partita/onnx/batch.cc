// Extents of a model's inputs, and a file of a fixed batch at another.
#include "partita/onnx/batch.h"

#include <algorithm>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/rebatch.h"
#include "partita/ops/ops.h"

namespace partita::onnx_model {
namespace {

constexpr const char* kBatch = "batch";
constexpr int kMostPlacements = 64;  // of the samples in the inputs

std::string symbol_of(const Input& input, std::size_t axis) {
  const Dimension& dim = input.shape[axis];
  return dim.symbol.empty() ? fmt::format("{}.{}", input.name, axis) : dim.symbol;
}

// The axis along which an input has its samples if the batch is given: the dimension "batch", else axis 0 if it is
// symbolic; -1: none.
int symbolic_batch_axis(const Input& input) {
  for (std::size_t a = 0; a < input.shape.size(); ++a)
    if (input.shape[a].extent < 0 && input.shape[a].symbol == kBatch) return static_cast<int>(a);
  return !input.shape.empty() && input.shape[0].extent < 0 ? 0 : -1;
}

// All symbols of the batch: "batch", and those of axis 0.
std::set<std::string> batch_symbols(const Model& model, const OnnxOptions& options) {
  std::set<std::string> symbols;
  if (options.batch == 0) return symbols;
  for (const Input& input : model.inputs)
    if (const int axis = symbolic_batch_axis(input); axis >= 0)
      symbols.insert(symbol_of(input, static_cast<std::size_t>(axis)));
  return symbols;
}

int64_t extent_of(const Model& model, const Input& input, std::size_t axis, const OnnxOptions& options,
                  const std::set<std::string>& batch) {
  const std::string symbol = symbol_of(input, axis);
  const auto bound = options.bindings.find(symbol);
  if (bound != options.bindings.end() && bound->second < 1)
    fail("{}: --bind {}={}: an extent is at least 1", model.path, symbol, bound->second);
  if (batch.contains(symbol)) {
    if (bound != options.bindings.end() && bound->second != options.batch)
      fail("{}: input '{}', dimension {} is bound to {}, but the batch is {}", model.path, input.name, axis,
           bound->second, options.batch);
    return options.batch;
  }
  if (bound == options.bindings.end()) {
    const char* how = symbol != kBatch && axis == 0 ? " or --batch N" : "";
    fail("{}: input '{}', dimension {} ('{}') has no extent; give one: --bind {}=N{}", model.path, input.name, axis,
         symbol, symbol, how);
  }
  return bound->second;
}

// ---------------------------------------------------------------- another batch

using SampleAxes = std::map<TensorId, std::size_t>;  // of the inputs that have samples

// Every way to have the samples along axes of extent `from`: axis 0 of each input that can, then other axes, then none.
std::vector<SampleAxes> placements(const Graph& graph, int64_t from) {
  std::vector<SampleAxes> all{{}};
  for (TensorId id : graph.inputs) {
    const Shape& shape = graph.tensor(id).shape;
    std::vector<SampleAxes> longer;
    for (const SampleAxes& before : all) {
      for (std::size_t a = 0; a < shape.size(); ++a) {
        if (shape[a] != from) continue;
        longer.push_back(before);
        longer.back()[id] = a;
      }
      longer.push_back(before);
    }
    all = std::move(longer);
    if (all.size() > 4096) all.resize(4096);
  }
  const auto off_front = [](const SampleAxes& axes) {
    return std::count_if(axes.begin(), axes.end(), [](const auto& entry) { return entry.second != 0; });
  };
  std::stable_sort(all.begin(), all.end(), [&](const SampleAxes& a, const SampleAxes& b) {
    return std::pair(-static_cast<int64_t>(a.size()), off_front(a)) <
           std::pair(-static_cast<int64_t>(b.size()), off_front(b));
  });
  std::erase_if(all, [](const SampleAxes& axes) { return axes.empty(); });
  if (all.size() > kMostPlacements) all.resize(kMostPlacements);
  return all;
}

// What the file's batch can be: extents of axis 0, those of the first inputs first.
std::vector<int64_t> possible_batches(const Graph& graph) {
  std::vector<int64_t> extents;
  const auto add = [&](int64_t extent) {
    if (std::find(extents.begin(), extents.end(), extent) == extents.end()) extents.push_back(extent);
  };
  for (TensorId id : graph.inputs)
    if (const Shape& shape = graph.tensor(id).shape; !shape.empty()) add(shape[0]);
  for (TensorId id : graph.inputs)
    for (int64_t extent : graph.tensor(id).shape)
      if (extent == 1) add(1);
  return extents;
}

}  // namespace

BoundInputs bound_inputs(const Model& model, const OnnxOptions& options) {
  BoundInputs bound;
  if (options.batch < 0) fail("{}: a batch of {}", model.path, options.batch);
  const std::set<std::string> batch = batch_symbols(model, options);
  bound.symbolic_batch = !batch.empty();
  std::set<std::string> symbols;
  for (const Input& input : model.inputs) {
    Shape shape;
    for (std::size_t a = 0; a < input.shape.size(); ++a) {
      const int64_t extent = input.shape[a].extent;
      if (extent < 0) symbols.insert(symbol_of(input, a));
      shape.push_back(extent < 0 ? extent_of(model, input, a, options, batch) : extent);
    }
    // In a file with a symbolic batch an input without it has no samples.
    bound.sample_axes.push_back(batch.empty() ? 0 : symbolic_batch_axis(input));
    if (batch.empty() && options.batch > 0 && !shape.empty() && shape[0] != options.batch) bound.fixed_batch = true;
    bound.shapes.push_back(std::move(shape));
  }
  for (const auto& [name, extent] : options.bindings)
    if (!symbols.contains(name)) {
      const std::string known = symbols.empty() ? std::string("it has none; use --batch to replace a fixed batch")
                                                : fmt::format("it has {}", fmt::join(symbols, ", "));
      fail("{}: --bind {}={}: the model has no symbolic dimension of that name: {}", model.path, name, extent, known);
    }
  return bound;
}

Graph with_batch(const Graph& forward, int64_t batch, const std::string& path,
                 const std::map<std::string, std::string>& nodes) {
  std::optional<std::string> refusal;
  for (int64_t from : possible_batches(forward)) {
    for (const SampleAxes& axes : placements(forward, from)) {
      Rebatched other = rebatched(forward, axes, from, batch);
      if (other.graph) {
        count_values(*other.graph);
        return std::move(*other.graph);
      }
      if (refusal) continue;
      std::string where;
      if (other.refused_by.valid()) {
        const Op& op = forward.op(other.refused_by);
        const auto node = nodes.find(op.name);
        where =
            fmt::format("{} ", node == nodes.end() ? fmt::format("'{}' ({})", op.name, op.definition) : node->second);
      }
      refusal =
          fmt::format("{}: --batch {}: {}{}; the file was exported for a batch of {}; export with a dynamic batch",
                      path, batch, where, other.why, from);
    }
  }
  fail("{}", refusal.value_or(fmt::format("{}: --batch {}: no input has a batch", path, batch)));
}

}  // namespace partita::onnx_model
