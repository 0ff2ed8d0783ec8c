// Parameters that an exporter has computed something from, restored.
#include "partita/onnx/folded.h"

#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/onnx/constants.h"
#include "partita/onnx/doubts.h"
#include "partita/onnx/moves.h"

namespace partita::onnx_model {

namespace {

constexpr int64_t kMostCompared = int64_t{1} << 26;  // elements of a table in which rows are looked for without a hint

// A value of the newer exporter is named after PyTorch's function, "slice_2" of slice; inner ones are numbered.
std::string function_of(const std::string& value) {
  const std::size_t digits = value.find_last_not_of("0123456789");
  return digits != std::string::npos && digits + 1 < value.size() && value[digits] == '_' ? value.substr(0, digits)
                                                                                          : value;
}

// PyTorch's functions that move elements, and "val", which inner values of all functions are called.
bool only_moves(const std::string& function) {
  static const std::set<std::string> names{"_reshape_alias",
                                           "_to_copy",
                                           "_unsafe_view",
                                           "alias",
                                           "arange",
                                           "broadcast_to",
                                           "cat",
                                           "chunk",
                                           "clone",
                                           "contiguous",
                                           "detach",
                                           "detach_",
                                           "diagonal",
                                           "embedding",
                                           "expand",
                                           "expand_as",
                                           "flatten",
                                           "flip",
                                           "gather",
                                           "index",
                                           "index_select",
                                           "lift_fresh_copy",
                                           "movedim",
                                           "narrow",
                                           "permute",
                                           "repeat",
                                           "repeat_interleave",
                                           "reshape",
                                           "roll",
                                           "select",
                                           "slice",
                                           "split",
                                           "split_with_sizes",
                                           "squeeze",
                                           "stack",
                                           "swapaxes",
                                           "t",
                                           "take",
                                           "tile",
                                           "transpose",
                                           "unbind",
                                           "unflatten",
                                           "unfold",
                                           "unsafe_chunk",
                                           "unsafe_split",
                                           "unsqueeze",
                                           "val",
                                           "view"};
  return names.contains(function) || function.find('/') != std::string::npos;  // a shape: "view_8/shape"
}

// What the places of a lookup are computed with. Sums and bounds; what is multiplied, if numbers are compared or their
// logarithm is taken as well, which nobody does with a table's rows.
bool computes_places(const std::set<std::string>& functions) {
  static const std::set<std::string> sums{"abs",          "add",
                                          "arange",       "clamp",
                                          "clamp_max",    "clamp_min",
                                          "cumsum",       "eq",
                                          "floor_divide", "full",
                                          "full_like",    "ge",
                                          "gt",           "le",
                                          "lt",           "lift_fresh_copy",
                                          "maximum",      "minimum",
                                          "ne",           "neg",
                                          "new_ones",     "ones",
                                          "ones_like",    "remainder",
                                          "rsub",         "scalar_tensor_default",
                                          "sub",          "sym_size_int",
                                          "zeros",        "zeros_like"},
      products{"div", "log", "mul", "where"};
  const bool compared = functions.contains("log") || functions.contains("where");
  return std::all_of(functions.begin(), functions.end(), [&](const std::string& f) {
    return only_moves(f) || sums.contains(f) || (compared && products.contains(f));
  });
}

// Those that may read an element several times.
bool may_repeat(const std::string& function) {
  static const std::set<std::string> names{"broadcast_to", "cat",   "embedding",    "expand", "expand_as",
                                           "gather",       "index", "index_select", "repeat", "repeat_interleave",
                                           "stack",        "take",  "tile",         "unfold"};
  return names.contains(function);
}

bool transposes(const std::string& function) {
  return function == "t" || function == "transpose" || function == "permute" || function == "swapaxes" ||
         function == "movedim";
}

bool is_owned(const std::string& name) {
  return name.find('.') != std::string::npos && name.find('/') == std::string::npos &&
         name.find("::") == std::string::npos;
}

std::string owner_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.') == std::string::npos ? 0 : parameter.rfind('.'));
}

// The place of a weight in these functions of PyTorch: whatever is done to it before is a rearrangement.
bool takes_weights(const std::string& target) {
  static const std::set<std::string> names{"linear",
                                           "mm",
                                           "matmul",
                                           "bmm",
                                           "addmm",
                                           "baddbmm",
                                           "conv1d",
                                           "conv2d",
                                           "conv3d",
                                           "conv_transpose1d",
                                           "conv_transpose2d",
                                           "conv_transpose3d",
                                           "convolution",
                                           "prelu",
                                           "_prelu_kernel",
                                           "layer_norm",
                                           "group_norm",
                                           "native_group_norm",
                                           "instance_norm",
                                           "batch_norm",
                                           "_native_batch_norm_legit_no_training",
                                           "rms_norm",
                                           "lstm",
                                           "gru",
                                           "rnn_tanh",
                                           "rnn_relu",
                                           "_grouped_mm",
                                           "embedding",
                                           "index",
                                           "index_select",
                                           "gather"};
  if (!target.starts_with("aten.")) return false;
  return names.contains(target.substr(5, target.find('.', 5) - 5));
}

Values rounded(Values values, DType to) {
  for (double& v : values.real) v = to == DType::kFloat32 ? static_cast<float>(v) : rounded_to(to, v);
  return values;
}

std::string described(const Moves& moves, const Shape& from) {
  if (!moves.takes.empty())
    return volume(moves.shape) == volume(from) ? "its elements in another order"
           : moves.flat                        ? "elements of it"
                                               : "rows of it";
  if (moves.perm.size() == 2) return "transposed";
  if (!moves.perm.empty()) return fmt::format("its axes in the order {}", fmt::join(moves.perm, ", "));
  return moves.shape == from ? "a copy" : "in another shape";
}

class Restorer {
 public:
  Restorer(Model& model, bool load_weights) : model_(model), load_weights_(load_weights) {
    for (const Node& node : model.nodes)
      for (const std::vector<std::string>* names : {&node.inputs, &node.captured})
        for (const std::string& name : *names) readers_[name].push_back(&node);
  }

  FoldedValues run() {
    const std::vector<std::string> order = model_.initializer_order;
    for (const std::string& name : order) restore_said(name);
    if (load_weights_) restore_unsaid(order);
    std::vector<Node> nodes = std::move(made_);
    for (Node& node : model_.nodes) nodes.push_back(std::move(node));
    model_.nodes = std::move(nodes);
    std::erase_if(model_.initializer_order,
                  [&](const std::string& name) { return !model_.initializers.contains(name); });
    return std::move(found_);
  }

 private:
  // ---------------------------------------------------------------- what the newer exporter says

  // The parameters that a value was computed from.
  std::vector<std::string> sources(const Initializer& initializer) const {
    std::vector<std::string> names;
    for (const std::string& name : initializer.folded_from) {
      const auto kind = model_.kinds.find(name);
      const bool looks_so = is_owned(name) && (name.ends_with(".weight") || name.ends_with(".bias") ||
                                               initializer.folded_from.size() == 1);
      if (kind != model_.kinds.end() ? kind->second == "PARAMETER" : model_.kinds.empty() && looks_so)
        names.push_back(name);
    }
    return names;
  }

  // Whether the names of what was computed between the parameter and the value say that elements were only moved. A
  // table that is looked up is moved, whatever its places were computed from; what is done with its rows then must be a
  // movement too.
  bool was_only_moved(const std::string& name, const Initializer& initializer, const std::string& source) const {
    const std::string last = function_of(name);
    if (last == "embedding") return true;
    std::set<std::string> functions;
    for (const std::string& value : initializer.folded_from)
      if (value != source) functions.insert(function_of(value));
    const bool looked_up = functions.contains("embedding") || functions.contains("index");
    if (!only_moves(last) ||
        !(looked_up ? computes_places(functions) : std::all_of(functions.begin(), functions.end(), only_moves)))
      return false;
    if (last != "val") return true;
    const auto readers = readers_.find(name);
    return readers != readers_.end() && std::all_of(readers->second.begin(), readers->second.end(),
                                                    [](const Node* node) { return takes_weights(node->target); });
  }

  bool is_transposed(const std::string& name, const Initializer& initializer) const {
    const auto readers = readers_.find(name);
    if (function_of(name) == "val" && readers != readers_.end() &&
        std::all_of(readers->second.begin(), readers->second.end(),
                    [](const Node* n) { return n->target == "aten.linear.default"; }))
      return true;
    return transposes(function_of(name)) ||
           std::any_of(initializer.folded_from.begin(), initializer.folded_from.end(),
                       [](const std::string& value) { return transposes(function_of(value)); });
  }

  void restore_said(const std::string& name) {
    const Initializer initializer = model_.initializers.at(name);
    if (!is_float(initializer.dtype) || initializer.folded_from.empty() || !readers_.contains(name)) return;
    const std::vector<std::string> from = sources(initializer);
    if (from.empty()) return;
    const std::string& source = from[0];
    const bool moved = from.size() == 1 && was_only_moved(name, initializer, source);
    const bool transposed = is_transposed(name, initializer);
    const auto found = model_.initializers.find(source);
    if (from.size() > 1) return freeze(name, from);
    if (found != model_.initializers.end()) {
      const bool looked_up = std::any_of(initializer.folded_from.begin(), initializer.folded_from.end(),
                                         [](const std::string& v) { return may_repeat(function_of(v)); });
      if ((moved || looked_up) && restore_from(name, source, transposed, moved && initializer.folded_from.size() == 1))
        return;
      return freeze(name, from);
    }
    if (!moved) return freeze(name, from);
    if (restore_from_equal(name, source)) return;
    if (!make_parameter(name, source, transposed)) freeze(name, from);
  }

  void freeze(const std::string& name, const std::vector<std::string>& from) {
    found_.frozen.push_back({name, fmt::format("{}", fmt::join(from, ", ")), "", false});
  }

  // The value from a parameter of the file. `only_step`: nothing else was computed on the way.
  bool restore_from(const std::string& name, const std::string& source, bool transposed, bool only_step) {
    const Initializer from = model_.initializers.at(source), to = model_.initializers.at(name);
    if (!load_weights_) {
      if (!transposed || !only_step || to.shape.size() != 2 || from.shape != Shape{to.shape[1], to.shape[0]})
        return false;
      replace(name, source, Moves{.perm = {1, 0}, .shape = to.shape}, false, true);
      return true;
    }
    const auto moves = find_moves(as_type_of(to, from), to.load(), transposed);
    if (moves) replace(name, source, *moves, false, made_parameters_.contains(source) || readers_.contains(source));
    return moves.has_value();
  }

  // The values of `from` in the type of `to`.
  static Values as_type_of(const Initializer& to, const Initializer& from) {
    Values values = from.load();
    if (to.low) return rounded(std::move(values), *to.low);
    return to.dtype == DType::kFloat32 && from.dtype == DType::kFloat64 ? rounded(std::move(values), DType::kFloat32)
                                                                        : values;
  }

  // The exporter has merged the parameter with an equal one, a tied weight: unless that is the same layer's one repeat
  // further.
  bool restore_from_equal(const std::string& name, const std::string& source) {
    if (!load_weights_) return false;
    const Initializer to = model_.initializers.at(name);
    std::optional<Values> values;
    for (const std::string& other : model_.initializer_order) {
      const auto candidate = model_.initializers.find(other);
      if (candidate == model_.initializers.end() || candidate->second.kind != "PARAMETER" ||
          volume(candidate->second.shape) != volume(to.shape) || without_digits(other) == without_digits(source))
        continue;
      if (made_parameters_.contains(other)) continue;
      if (!values) values = to.load();
      if (says_nothing(*values)) return false;
      const auto moves = find_rearranged(as_type_of(to, candidate->second), *values, is_transposed(name, to));
      if (!moves) continue;
      replace(name, other, *moves, false, true);
      return true;
    }
    return false;
  }

  // The parameter as far as the value shows it. False: it cannot be told from the value.
  bool make_parameter(const std::string& name, const std::string& source, bool transposed) {
    const Initializer to = model_.initializers.at(name);
    const bool was_cast = std::any_of(to.folded_from.begin(), to.folded_from.end(),
                                      [](const std::string& value) { return function_of(value) == "_to_copy"; }) ||
                          function_of(name) == "_to_copy";
    Initializer parameter{.dtype = to.dtype,
                          .shape = to.shape,
                          .kind = "PARAMETER",
                          .folded_from = {},
                          .load = to.load,
                          .low = was_cast ? std::nullopt : to.low};
    if (transposed && to.shape.size() == 2 && (to.folded_from.size() == 1 || function_of(name) != "val")) {
      bool repeats = false;
      for (const std::string& value : to.folded_from)
        repeats = repeats || (value != source && may_repeat(function_of(value)));
      if (!repeats) {
        parameter.shape = {to.shape[1], to.shape[0]};
        parameter.load = [load = to.load] { return transposed_matrix(load()); };
        return add_parameter(name, source, std::move(parameter), Moves{.perm = {1, 0}, .shape = to.shape}, false);
      }
    }
    bool repeats = may_repeat(function_of(name));
    for (const std::string& value : to.folded_from)
      repeats = repeats || (value != source && may_repeat(function_of(value)));
    const Moves as_it_is{.shape = to.shape};
    if (!repeats) return add_parameter(name, source, std::move(parameter), as_it_is, false);
    if (!load_weights_) return false;
    const Values values = to.load();
    Repeated repeated;
    if (!is_constant_filled(values)) {
      repeated = without_repeats(values);
      if (repeated.unclear) return false;
    } else if (const int64_t batch = batch_of_inputs();
               function_of(name) == "expand" && to.shape.size() > 1 && to.shape[0] == batch) {
      // Expanded along the samples, of whose number no parameter knows.
      repeated.expanded = batch > 1;
      repeated.whole = {.dtype = values.dtype, .shape = to.shape, .real = {}, .integer = {}};
      repeated.whole.shape[0] = 1;
      repeated.whole.real.assign(static_cast<std::size_t>(volume(repeated.whole.shape)), values.real[0]);
    } else if (volume(to.shape) != 1) {
      return false;
    } else {
      repeated.whole = values;
    }
    parameter.shape = repeated.whole.shape;
    parameter.load = [whole = std::make_shared<const Values>(repeated.whole)] { return *whole; };
    Moves moves = repeated.moves.value_or(Moves{.shape = repeated.whole.shape});
    return add_parameter(name, source, std::move(parameter), std::move(moves), repeated.expanded);
  }

  static Values transposed_matrix(const Values& x) {
    Values y{.dtype = x.dtype, .shape = {x.shape[1], x.shape[0]}, .real = {}, .integer = {}};
    y.real.reserve(x.real.size());
    for (int64_t j = 0; j < x.shape[1]; ++j)
      for (int64_t i = 0; i < x.shape[0]; ++i) y.real.push_back(x.real[static_cast<std::size_t>(i * x.shape[1] + j)]);
    return y;
  }

  bool add_parameter(const std::string& name, const std::string& source, Initializer parameter, const Moves& moves,
                     bool expanded) {
    model_.initializers[source] = std::move(parameter);
    model_.initializer_order.insert(std::find(model_.initializer_order.begin(), model_.initializer_order.end(), name),
                                    source);
    made_parameters_.insert(source);
    replace(name, source, moves, expanded, false);
    return true;
  }

  // The extent of axis 0 of all inputs; 0: they differ, or it is symbolic.
  int64_t batch_of_inputs() const {
    int64_t batch = -1;
    for (const Input& input : model_.inputs) {
      const int64_t extent = input.shape.empty() ? 0 : input.shape[0].extent;
      if (extent < 1 || (batch >= 0 && batch != extent)) return 0;
      batch = extent;
    }
    return std::max<int64_t>(batch, 0);
  }

  // ---------------------------------------------------------------- what nobody says

  // Values that are a parameter's elements, rearranged, without a word of the file. Those of the same number of
  // elements are compared.
  void restore_unsaid(const std::vector<std::string>& order) {
    std::map<int64_t, std::vector<std::string>> groups;
    bool any = false;
    for (const std::string& name : order) {
      const auto found = model_.initializers.find(name);
      if (found == model_.initializers.end() || !is_candidate(name, found->second)) continue;
      groups[volume(found->second.shape)].push_back(name);
      any = any || !is_owned(name);
    }
    if (!any) return;
    for (const auto& [count, names] : groups)
      if (names.size() > 1) compare(names);
    for (const auto& [count, names] : groups)
      for (const std::string& name : names)
        if (model_.initializers.contains(name) && is_older_exporters(name) && !look_up(name, order)) take_repeats(name);
  }

  bool is_candidate(const std::string& name, const Initializer& initializer) const {
    return is_float(initializer.dtype) && volume(initializer.shape) > 1 && initializer.folded_from.empty() &&
           initializer.kind != "BUFFER" && !made_parameters_.contains(name) && readers_.contains(name);
  }

  // Named by the older exporter after the node that reads it: "onnx::MatMul_12".
  static bool is_older_exporters(const std::string& name) { return name.starts_with("onnx::"); }

  // Names of one size: what a module owns first, then what an embedding reads, then the file's order.
  void compare(std::vector<std::string> names) {
    std::stable_sort(names.begin(), names.end(),
                     [&](const std::string& a, const std::string& b) { return rank_of(a) < rank_of(b); });
    std::map<uint64_t, std::vector<std::string>> by_hash, by_rounded;
    for (const std::string& name : names) {
      const Initializer& initializer = model_.initializers.at(name);
      const Values values = initializer.load();
      const uint64_t hash = hash_of_elements(values);
      if (!is_owned(name) && !says_nothing(values)) {
        bool done = false;
        for (const std::string& other : by_hash[hash]) done = done || tie(name, other, values);
        if (initializer.low)
          for (const std::string& other : by_rounded[hash]) done = done || tie(name, other, values);
        if (done) continue;
      }
      by_hash[hash].push_back(name);
      if (is_owned(name) && !initializer.low)
        for (DType low : {DType::kFloat16, DType::kBFloat16})
          by_rounded[hash_of_elements(rounded(values, low))].push_back(name);
    }
  }

  int rank_of(const std::string& name) const {
    if (is_owned(name)) return 0;
    const auto& readers = readers_.at(name);
    return std::any_of(readers.begin(), readers.end(),
                       [&](const Node* node) { return node->operation == "Gather" && node->inputs[0] == name; })
               ? 1
               : 2;
  }

  bool tie(const std::string& name, const std::string& other, const Values& values) {
    const Initializer &to = model_.initializers.at(name), &from = model_.initializers.at(other);
    if (!is_weight(model_, other, from) || belongs_to_a_copy(name, other)) return false;
    const auto moves = find_moves(as_type_of(to, from), values, true);
    if (!moves) return false;
    // Equal values under names of the file's own can be two parameters; a transposed one nobody makes but from the
    // other.
    const bool is_transpose = moves->takes.empty() && moves->perm.size() >= 2;
    if (!is_older_exporters(name) && !is_transpose) return false;
    if (!is_older_exporters(name) && find_rearranged(as_type_of(to, from), values, false)->is_copy()) return false;
    replace(name, other, *moves, false, true);
    return true;
  }

  // The module that reads the value is a copy of the parameter's.
  bool belongs_to_a_copy(const std::string& name, const std::string& parameter) const {
    std::set<std::string> owners;
    if (is_owned(parameter)) owners.insert(owner_of(parameter));
    else
      for (const Node* node : readers_.at(parameter)) owners.insert(node->source.module);
    return std::any_of(readers_.at(name).begin(), readers_.at(name).end(), [&](const Node* node) {
      const std::string& module = node->source.module;
      return !owners.contains(module) && std::any_of(owners.begin(), owners.end(), [&](const std::string& owner) {
        return without_digits(module) == without_digits(owner);
      });
    });
  }

  // A smaller value of the older exporter: rows of a table, transposed perhaps. False: of none in the file.
  bool look_up(const std::string& name, const std::vector<std::string>& order) {
    const Initializer to = model_.initializers.at(name);
    const int64_t count = volume(to.shape);
    std::optional<Values> values;
    for (const std::string& other : order) {
      const auto from = model_.initializers.find(other);
      if (from == model_.initializers.end() || other == name || !is_owned(other) ||
          !is_candidate(other, from->second)) {
        continue;
      }
      const int64_t all = volume(from->second.shape);
      if (from->second.shape.size() < 2 || all > kMostCompared || all <= count || from->second.low != to.low) continue;
      if (!values) values = to.load();
      if (says_nothing(*values)) return false;
      if (!has_rows_of(*values, other) || belongs_to_a_copy(name, other)) continue;
      const auto moves = find_moves(as_type_of(to, from->second), *values, false);
      if (!moves || moves->flat) continue;
      replace(name, other, *moves, false, true);
      return true;
    }
    return false;
  }

  // Rows that are there several times, bit for bit, come from one row of a table that the file lacks. A matrix that
  // multiplies is left alone.
  void take_repeats(const std::string& name) {
    const auto& readers = readers_.at(name);
    const auto multiplies = [](const Node* node) { return takes_matrices(node->operation); };
    if (std::any_of(readers.begin(), readers.end(), multiplies)) return;
    const Initializer to = model_.initializers.at(name);
    const Values values = to.load();
    if (says_nothing(values)) return;
    Repeated repeated = without_repeats(values);
    if (!repeated.expanded && !repeated.moves) return;
    Initializer parameter = to;
    parameter.shape = repeated.whole.shape;
    parameter.kind = "PARAMETER";
    parameter.load = [whole = std::make_shared<const Values>(repeated.whole)] { return *whole; };
    const Moves moves = repeated.moves.value_or(Moves{.shape = repeated.whole.shape});
    add_parameter(name, name + ".rows", std::move(parameter), moves, repeated.expanded);
  }

  static bool takes_matrices(const std::string& operation) {
    static const std::set<std::string> names{"Conv", "ConvTranspose", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN"};
    return names.contains(operation);
  }

  // Whether the first slice of the values along some axis is one of the table's rows.
  bool has_rows_of(const Values& values, const std::string& table) {
    auto known = rows_.find(table);
    if (known == rows_.end()) {
      const Values from = model_.initializers.at(table).load();
      const auto axis = std::find_if(from.shape.begin(), from.shape.end(), [](int64_t extent) { return extent > 1; });
      const auto rows = hashes_along(from, static_cast<std::size_t>(axis - from.shape.begin()));
      known = rows_.emplace(table, std::set<uint64_t>(rows.begin(), rows.end())).first;
    }
    for (std::size_t a = 0; a < values.shape.size(); ++a)
      if (values.shape[a] > 1 && known->second.contains(hashes_along(values, a)[0])) return true;
    return false;
  }

  // ---------------------------------------------------------------- nodes

  // The initializer's value, computed from the parameter.
  void replace(const std::string& name, const std::string& source, const Moves& moves, bool expanded, bool tied) {
    const Initializer from = model_.initializers.at(source), to = model_.initializers.at(name);
    found_.restored.push_back({name, source, described(moves, from.shape), tied});
    model_.initializers.erase(name);
    Shape shape = from.shape;
    std::vector<Node> steps;
    auto step = [&](const char* operation, std::vector<std::string> further,
                    std::map<std::string, Attribute> attributes) {
      Node node;
      node.name = fmt::format("{}/{}", name, steps.size());
      node.operation = operation;
      node.opset = kNewestOpset;
      node.inputs = {steps.empty() ? source : steps.back().outputs[0]};
      node.inputs.insert(node.inputs.end(), further.begin(), further.end());
      node.outputs = {node.name};
      node.attributes = std::move(attributes);
      node.source.module = owner_of(source);
      node.is_restored = true;
      steps.push_back(std::move(node));
    };
    auto reshape = [&](const Shape& wanted) {
      if (shape != wanted)
        step("Reshape", {integers_of(name, steps.size(), as_list(wanted))}, {{"allowzero", int64_t{1}}});
      shape = wanted;
    };
    if (moves.flat) reshape({volume(shape)});
    for (const Moves::Take& take : moves.takes) {
      step("Gather", {integers_of(name, steps.size(), take.places)}, {{"axis", static_cast<int64_t>(take.axis)}});
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(take.axis));
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(take.axis), take.places.shape.begin(),
                   take.places.shape.end());
    }
    if (!moves.perm.empty()) {
      step("Transpose", {}, {{"perm", moves.perm}});
      Shape next;
      for (int64_t a : moves.perm) next.push_back(shape[static_cast<std::size_t>(a)]);
      shape = next;
    }
    reshape(moves.shape);
    if (expanded) step("Expand", {integers_of(name, steps.size(), as_list(to.shape))}, {});
    if (to.low && !from.low) step("Cast", {}, {{"to", onnx_type(*to.low)}});
    else if (to.dtype != from.dtype) step("Cast", {}, {{"to", onnx_type(to.dtype)}});
    if (steps.empty()) step("Identity", {}, {});
    steps.back().name = steps.back().outputs[0] = name;
    for (Node& node : steps) made_.push_back(std::move(node));
  }

  static Values as_list(const Shape& shape) {
    return {.dtype = DType::kInt64, .shape = {static_cast<int64_t>(shape.size())}, .real = {}, .integer = shape};
  }

  std::string integers_of(const std::string& name, std::size_t step, Values values) {
    const std::string own = fmt::format("{}/{}/places", name, step);
    Initializer initializer{.dtype = DType::kInt64,
                            .shape = values.shape,
                            .type = onnx_type(DType::kInt64),
                            .kind = "",
                            .folded_from = {},
                            .load = {},
                            .low = {}};
    initializer.load = [shared = std::make_shared<const Values>(std::move(values))] { return *shared; };
    model_.initializers[own] = std::move(initializer);
    model_.initializer_order.push_back(own);
    return own;
  }

  Model& model_;
  const bool load_weights_;
  std::map<std::string, std::vector<const Node*>> readers_;
  std::set<std::string> made_parameters_;           // that the file lacks
  std::map<std::string, std::set<uint64_t>> rows_;  // of a table: hashes of its slices along its first axis
  std::vector<Node> made_;
  FoldedValues found_;
};

}  // namespace

std::string without_digits(const std::string& name) {
  std::string result;
  for (char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) result += c;
    else if (result.empty() || result.back() != '#') result += '#';
  }
  return result;
}

void lift_constants(Model& model) {
  const bool has_weights = std::any_of(model.initializers.begin(), model.initializers.end(),
                                       [&](const auto& entry) { return is_weight(model, entry.first, entry.second); });
  if (model.producer == "pytorch" && has_weights) return;
  const auto lifted = [&](const Node& node) {
    if (node.operation != "Constant" || !node.domain.empty() || node.outputs.size() != 1 || node.outputs[0].empty() ||
        !node.unreadable.empty())
      return false;
    if (!has(node, "value") && !has(node, "value_floats")) return false;
    Values values = evaluate_constant(node, {});
    if (!is_float(values.dtype) || volume(values.shape) == 1) return false;
    Initializer initializer{
        .dtype = values.dtype, .shape = values.shape, .kind = "", .folded_from = {}, .load = {}, .low = {}};
    initializer.load = [shared = std::make_shared<const Values>(std::move(values))] { return *shared; };
    model.initializers[node.outputs[0]] = std::move(initializer);
    model.initializer_order.push_back(node.outputs[0]);
    return true;
  };
  std::erase_if(model.nodes, lifted);
}

bool is_weight(const Model& model, const std::string& name, const Initializer& initializer) {
  if (!is_float(initializer.dtype) || initializer.kind == "BUFFER") return false;
  if (initializer.kind == "PARAMETER") return true;
  if (model.producer == "pytorch" && !model.from_dynamo && initializer.folded_from.empty() && has_attributes_name(name))
    return true;
  if (initializer.shape.empty() || !initializer.folded_from.empty()) return false;
  const bool owned = name.find('.') != std::string::npos && name.find('/') == std::string::npos;
  return owned || (!model.from_dynamo && volume(initializer.shape) != 1);
}

FoldedValues restore_parameters(Model& model, bool load_weights) { return Restorer(model, load_weights).run(); }

}  // namespace partita::onnx_model
