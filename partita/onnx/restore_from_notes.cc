// Restores parameters by the notes of PyTorch's newer exporter: the values each initializer was computed from, and the
// parameters among those.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/onnx/constants.h"
#include "partita/onnx/doubts.h"
#include "partita/onnx/restoring.h"
#include "partita/onnx/torch_functions.h"

namespace partita::onnx_model {

namespace {

Values transposed_matrix(const Values& x) {
  Values y{.dtype = x.dtype, .shape = {x.shape[1], x.shape[0]}, .real = {}, .integer = {}};
  y.real.reserve(x.real.size());
  for (int64_t j = 0; j < x.shape[1]; ++j)
    for (int64_t i = 0; i < x.shape[0]; ++i) y.real.push_back(x.real[static_cast<std::size_t>(i * x.shape[1] + j)]);
  return y;
}

class SaidRestorer {
 public:
  explicit SaidRestorer(Restoring& restoring) : r_(restoring) {}

  void restore(const std::string& name) {
    const Initializer initializer = r_.model.initializers.at(name);
    if (!is_float(initializer.dtype) || initializer.folded_from.empty() || !r_.readers.contains(name)) return;
    const std::vector<std::string> from = sources(initializer);
    if (from.empty()) return;
    const std::string& source = from[0];
    const bool moved = from.size() == 1 && was_only_moved(name, initializer, source);
    const bool transposed = is_transposed(name, initializer);
    const auto found = r_.model.initializers.find(source);
    if (from.size() > 1) return r_.freeze(name, from);
    if (found != r_.model.initializers.end()) {
      const bool looked_up = std::any_of(initializer.folded_from.begin(), initializer.folded_from.end(),
                                         [](const std::string& v) { return may_repeat(function_of(v)); });
      if ((moved || looked_up) && restore_from(name, source, transposed, moved && initializer.folded_from.size() == 1))
        return;
      return r_.freeze(name, from);
    }
    if (!moved) return r_.freeze(name, from);
    if (restore_from_equal(name, source)) return;
    if (!make_parameter(name, source, transposed)) r_.freeze(name, from);
  }

 private:
  // The parameters that a value was computed from.
  std::vector<std::string> sources(const Initializer& initializer) const {
    std::vector<std::string> names;
    for (const std::string& name : initializer.folded_from) {
      const auto kind = r_.model.kinds.find(name);
      const bool looks_so = is_owned(name) && (name.ends_with(".weight") || name.ends_with(".bias") ||
                                               initializer.folded_from.size() == 1);
      if (kind != r_.model.kinds.end() ? kind->second == "PARAMETER" : r_.model.kinds.empty() && looks_so)
        names.push_back(name);
    }
    return names;
  }

  // Tells whether the names of the values computed between the parameter and this one say that elements were only
  // moved. A table that is looked up is moved, whatever its places were computed from; later steps on its rows must be
  // movements too.
  bool was_only_moved(const std::string& name, const Initializer& initializer, const std::string& source) const {
    const std::string last = function_of(name);
    if (last == "embedding") return true;
    std::set<std::string> functions;
    for (const std::string& value : initializer.folded_from)
      if (value != source) functions.insert(function_of(value));
    const bool looked_up = functions.contains("embedding") || functions.contains("index");
    if (!only_moves_elements(last) ||
        !(looked_up ? computes_places(functions)
                    : std::all_of(functions.begin(), functions.end(), only_moves_elements)))
      return false;
    if (last != "val") return true;
    const auto readers = r_.readers.find(name);
    return readers != r_.readers.end() && std::all_of(readers->second.begin(), readers->second.end(),
                                                      [](const Node* node) { return takes_weights(node->target); });
  }

  bool is_transposed(const std::string& name, const Initializer& initializer) const {
    const auto readers = r_.readers.find(name);
    if (function_of(name) == "val" && readers != r_.readers.end() &&
        std::all_of(readers->second.begin(), readers->second.end(),
                    [](const Node* n) { return n->target == "aten.linear.default"; }))
      return true;
    return transposes(function_of(name)) ||
           std::any_of(initializer.folded_from.begin(), initializer.folded_from.end(),
                       [](const std::string& value) { return transposes(function_of(value)); });
  }

  // The value from a parameter of the file. `only_step`: nothing else was computed on the way.
  bool restore_from(const std::string& name, const std::string& source, bool transposed, bool only_step) {
    const Initializer from = r_.model.initializers.at(source), to = r_.model.initializers.at(name);
    if (!r_.load_weights) {
      if (!transposed || !only_step || to.shape.size() != 2 || from.shape != Shape{to.shape[1], to.shape[0]})
        return false;
      r_.replace(name, source, Moves{.perm = {1, 0}, .shape = to.shape}, false, true);
      return true;
    }
    const auto moves = find_moves(as_type_of(to, from), to.load(), transposed);
    if (moves)
      r_.replace(name, source, *moves, false, r_.made_parameters.contains(source) || r_.readers.contains(source));
    return moves.has_value();
  }

  // The exporter has merged the parameter with an equal one, a tied weight: unless that is the same layer's one repeat
  // further.
  bool restore_from_equal(const std::string& name, const std::string& source) {
    if (!r_.load_weights) return false;
    const Initializer to = r_.model.initializers.at(name);
    std::optional<Values> values;
    for (const std::string& other : r_.model.initializer_order) {
      const auto candidate = r_.model.initializers.find(other);
      if (candidate == r_.model.initializers.end() || candidate->second.kind != "PARAMETER" ||
          volume(candidate->second.shape) != volume(to.shape) || without_digits(other) == without_digits(source))
        continue;
      if (r_.made_parameters.contains(other)) continue;
      if (!values) values = to.load();
      if (says_nothing(*values)) return false;
      const auto moves = find_rearranged(as_type_of(to, candidate->second), *values, is_transposed(name, to));
      if (!moves) continue;
      r_.replace(name, other, *moves, false, true);
      return true;
    }
    return false;
  }

  // The parameter as far as the value shows it. False: it cannot be told from the value.
  bool make_parameter(const std::string& name, const std::string& source, bool transposed) {
    const Initializer to = r_.model.initializers.at(name);
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
        return r_.replace_by_new(name, source, std::move(parameter), Moves{.perm = {1, 0}, .shape = to.shape}, false),
               true;
      }
    }
    bool repeats = may_repeat(function_of(name));
    for (const std::string& value : to.folded_from)
      repeats = repeats || (value != source && may_repeat(function_of(value)));
    const Moves as_it_is{.shape = to.shape};
    if (!repeats) return r_.replace_by_new(name, source, std::move(parameter), as_it_is, false), true;
    if (!r_.load_weights) return false;
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
    const Moves moves = repeated.moves.value_or(Moves{.shape = repeated.whole.shape});
    return r_.replace_by_new(name, source, std::move(parameter), moves, repeated.expanded), true;
  }

  // The extent of axis 0 of all inputs; 0: they differ, or it is symbolic.
  int64_t batch_of_inputs() const {
    int64_t batch = -1;
    for (const Input& input : r_.model.inputs) {
      const int64_t extent = input.shape.empty() ? 0 : input.shape[0].extent;
      if (extent < 1 || (batch >= 0 && batch != extent)) return 0;
      batch = extent;
    }
    return std::max<int64_t>(batch, 0);
  }

  Restoring& r_;
};

}  // namespace

void restore_from_notes(Restoring& r, const std::vector<std::string>& order) {
  SaidRestorer restorer(r);
  for (const std::string& name : order) restorer.restore(name);
}

}  // namespace partita::onnx_model
