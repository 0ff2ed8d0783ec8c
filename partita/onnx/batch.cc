// Binds extents of a model's inputs: those of symbolic dimensions, and the options' words on fixed ones.
#include "partita/onnx/batch.h"

#include <algorithm>
#include <set>

#include "partita/base/error.h"

namespace partita::onnx_model {
namespace {

constexpr const char* kBatch = "batch";

std::string symbol_of(const Input& input, std::size_t axis) {
  const Dimension& dim = input.shape[axis];
  return dim.symbol.empty() ? fmt::format("{}.{}", input.name, axis) : dim.symbol;
}

// The symbols of an input's dimensions; empty if an extent is fixed.
std::vector<std::string> symbols_of(const Input& input) {
  std::vector<std::string> symbols;
  for (std::size_t a = 0; a < input.shape.size(); ++a)
    symbols.push_back(input.shape[a].extent < 0 ? symbol_of(input, a) : "");
  return symbols;
}

// Some input has the symbol behind another one of axis 0, or beside "batch": in a mask [s, s] of ids [n, s] axis 0 is a
// sequence.
bool is_behind_another(const Model& model, const std::string& symbol) {
  return std::any_of(model.inputs.begin(), model.inputs.end(), [&](const Input& input) {
    const std::vector<std::string> all = symbols_of(input);
    const auto at = std::find(all.begin(), all.end(), symbol);
    if (at == all.end() || symbol == kBatch) return false;
    const bool beside_batch = std::find(all.begin(), all.end(), kBatch) != all.end();
    return beside_batch || (!all[0].empty() && all[0] != symbol);
  });
}

// All symbols of the batch: "batch", and those of axis 0, but for those behind another and those that are bound to
// another extent, if any is left.
std::set<std::string> batch_symbols(const Model& model, const OnnxOptions& options) {
  std::vector<std::string> all;
  if (options.batch == 0) return {};
  for (const Input& input : model.inputs) {
    const std::vector<std::string> symbols = symbols_of(input);
    if (std::find(symbols.begin(), symbols.end(), kBatch) != symbols.end()) all.push_back(kBatch);
    else if (!symbols.empty() && !symbols[0].empty()) all.push_back(symbols[0]);
  }
  std::set<std::string> found;
  for (const std::string& symbol : all) {
    const auto bound = options.bindings.find(symbol);
    const bool is_another = symbol != kBatch && bound != options.bindings.end() && bound->second != options.batch;
    if (!is_another && !is_behind_another(model, symbol)) found.insert(symbol);
  }
  if (found.empty() && !all.empty()) found.insert(all.front());
  return found;
}

// The first axis whose symbol is the batch's; -1: none.
int sample_axis_of(const Input& input, const std::set<std::string>& batch) {
  for (std::size_t a = 0; a < input.shape.size(); ++a)
    if (input.shape[a].extent < 0 && batch.contains(symbol_of(input, a))) return static_cast<int>(a);
  return -1;
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
    const char* how = symbol != kBatch && axis == 0 && options.batch == 0 ? " or --batch N" : "";
    fail("{}: input '{}', dimension {} ('{}') has no extent; give one: --bind {}=N{}", model.path, input.name, axis,
         symbol, symbol, how);
  }
  return bound->second;
}

// Takes --bind INPUT.AXIS=N for an axis whose extent the file fixes.
void take_said(const Model& model, const Input& input, std::size_t axis, const OnnxOptions& options,
               InputBindings& said) {
  const auto bound = options.bindings.find(fmt::format("{}.{}", input.name, axis));
  const int64_t extent = input.shape[axis].extent;
  if (bound == options.bindings.end()) return;
  AxisBindings& axes = said[input.name];
  if (bound->second == extent) {
    axes.kept.insert(axis);
    return;
  }
  if (bound->second != options.batch)
    fail(
        "{}: --bind {}={}: axis {} of '{}' has {} in the file; {} keeps it, --batch N with --bind {}=N makes it the "
        "batch's",
        model.path, bound->first, bound->second, axis, input.name, extent,
        fmt::format("--bind {}={}", bound->first, extent), bound->first);
  if (axes.samples)
    fail("{}: --bind {}={}: axis {} of '{}' is the batch's already", model.path, bound->first, bound->second,
         *axes.samples, input.name);
  axes.samples = axis;
}

bool is_fixed_axis(const Model& model, const std::string& name) {
  return std::any_of(model.inputs.begin(), model.inputs.end(), [&](const Input& input) {
    for (std::size_t a = 0; a < input.shape.size(); ++a)
      if (input.shape[a].extent >= 0 && name == fmt::format("{}.{}", input.name, a)) return true;
    return false;
  });
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
      else take_said(model, input, a, options, bound.said);
      shape.push_back(extent < 0 ? extent_of(model, input, a, options, batch) : extent);
    }
    // In a file with a symbolic batch an input without it has no samples.
    bound.sample_axes.push_back(batch.empty() ? 0 : sample_axis_of(input, batch));
    if (batch.empty() && options.batch > 0 && !shape.empty() && shape[0] != options.batch) bound.fixed_batch = true;
    bound.shapes.push_back(std::move(shape));
  }
  for (const auto& [name, axes] : bound.said) {
    if (!axes.samples) continue;
    bound.fixed_batch = true;
    if (bound.symbolic_batch)
      fail("{}: --bind {}.{}={}: the file has a dynamic batch, and axis {} of '{}' is not of it", model.path, name,
           *axes.samples, options.batch, *axes.samples, name);
  }
  for (const auto& [name, extent] : options.bindings)
    if (!symbols.contains(name) && !is_fixed_axis(model, name)) {
      const std::string known = symbols.empty() ? std::string("it has none; use --batch to replace a fixed batch")
                                                : fmt::format("it has {}", fmt::join(symbols, ", "));
      fail("{}: --bind {}={}: the model has no symbolic dimension of that name: {}", model.path, name, extent, known);
    }
  return bound;
}

}  // namespace partita::onnx_model
