// Imports an ONNX file: inputs and initializers, then node by node, each folded or by its converter.
#include <algorithm>
#include <optional>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/onnx/batch.h"
#include "partita/onnx/converter.h"
#include "partita/onnx/declared.h"
#include "partita/onnx/doubts.h"
#include "partita/onnx/folded.h"
#include "partita/onnx/integers.h"
#include "partita/onnx/onnx.h"
#include "partita/onnx/operators.h"
#include "partita/onnx/weights.h"

namespace partita {
namespace {

using namespace onnx_model;

std::string name_of_file(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  return file.substr(0, file.rfind('.'));
}

// Bad input, with all nodes that cannot be imported.
void refuse_unsupported(const std::vector<OnnxNode>& report, const std::string& path) {
  std::vector<std::string> refused;
  for (const OnnxNode& node : report) {
    if (node.fate != OnnxNode::Fate::kUnsupported) continue;
    std::string where = node.source.module.empty() ? "" : " in " + node.source.module;
    if (!node.source.location.empty()) where += " from " + node.source.location;
    refused.push_back(
        fmt::format("  node '{}' ({}, opset {}){}: {}", node.name, node.operation, node.opset, where, node.why));
  }
  if (!refused.empty())
    fail("{}: {} node{} cannot be imported:\n{}", path, refused.size(), refused.size() == 1 ? "" : "s",
         fmt::join(refused, "\n"));
}

// The output's own name for a result of the graph; else the module with the weights, or module.operation.
std::string chosen_name(const Node& node, const std::vector<std::string>& inputs,
                        const std::set<std::string>& output_names, const std::set<std::string>& reserved) {
  for (const std::string& name : node.outputs)
    if (output_names.contains(name)) return name;
  const std::string& module = node.source.module;
  std::string name;
  for (const std::string& input : inputs)
    if (!module.empty() && input.starts_with(module + ".") && input.find('.', module.size() + 1) == std::string::npos &&
        reserved.contains(input))
      name = module;
  if (name.empty()) {
    std::string last = node.scopes.empty() ? node.name : node.scopes.back();
    if (node.scopes.empty() || last == node.operation)
      std::transform(last.begin(), last.end(), last.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    name = module.empty() ? last : module + "." + last;
  }
  while (reserved.contains(name)) name += "_op";
  return name;
}

class Importer {
 public:
  Importer(const std::string& path, const OnnxOptions& options, std::shared_ptr<const OpRegistry> registry)
      : registry_(registry), load_weights_(options.load_weights), build_(name_of_file(path), std::move(registry)) {
    state_.model = read_model(path);
    lift_constants(state_.model);
    separate_statistics(state_.model);
    folded_ = restore_parameters(state_.model, options.load_weights);
    bind_inputs(options);
    output_names_.insert(model().outputs.begin(), model().outputs.end());
    state_.reserved = output_names_;
    find_producers(model().nodes);
    settings_ = settings_of(model().nodes);
    reads_ = weight_reads(model(), settings_, load_weights_);
    find_live();
    add_initializers();
    for (std::size_t i = 0; i < model().nodes.size(); ++i) import_node(model().nodes[i], live_[i]);
  }

  const std::vector<OnnxNode>& report() const { return report_; }
  const FoldedValues& folded() const { return folded_; }

  Graph finish(std::optional<Graph>* own_batch) {
    refuse_unsupported(report_, model().path);
    std::vector<TensorId> outputs;
    build_.set_source({});
    for (const std::string& name : model().outputs) {
      const auto found = state_.values.find(name);
      if (found == state_.values.end()) fail("{}: output '{}' is produced by nothing in the file", model().path, name);
      if (found->second.sequence) fail("{}: output '{}' is a sequence; only tensors are supported", model().path, name);
      TensorId id = context({name}, name).tensor(0);
      // Each output is a result of its own, under the file's name; or the input or initializer of that name.
      const Tensor& t = build_.graph().tensor(id);
      const bool is_free = t.producer.valid() && !output_names_.contains(t.name) && !build_.has_tensor(name);
      if (t.name != name && is_free) {
        build_.graph().tensor(id).name = name;
      } else if (t.name != name) {
        state_.reserved.erase(name);
        id = build_.op("identity", {id}, {}, name);
        if (build_.graph().tensor(id).name != name)
          fail("{}: output '{}' has the name of another value", model().path, name);
      }
      outputs.push_back(id);
    }
    Graph graph = drop_unread(fold_constants(build_.finish(outputs)));
    if (other_batch_ == 0) return graph;
    OfOtherBatch other = with_batch(graph, other_batch_, model().path, node_of_op_, said_);
    if (own_batch) *own_batch = std::move(graph);
    batch_notes_ = std::move(other.notes);
    return std::move(other.graph);
  }
  const std::vector<std::string>& batch_notes() const { return batch_notes_; }

  const Model& model() const { return state_.model; }
  const std::vector<std::string>& other_shapes() const { return other_shapes_; }
  const ImportState& state() const { return state_; }

 private:
  using Fate = OnnxNode::Fate;

  // ---------------------------------------------------------------- inputs and initializers

  void bind_inputs(const OnnxOptions& options) {
    const BoundInputs bound = bound_inputs(model(), options);
    if (bound.fixed_batch) other_batch_ = options.batch;
    state_.other_batch = bound.fixed_batch;
    symbolic_batch_ = bound.symbolic_batch;
    said_ = bound.said;
    symbols_ = symbols_of(model().inputs, bound.shapes);
    for (std::size_t i = 0; i < model().inputs.size(); ++i) {
      const Input& input = model().inputs[i];
      const TensorId id = build_.input(input.name, bound.shapes[i], input.dtype, bound.sample_axes[i]);
      state_.reserved.insert(input.name);
      state_.values[input.name] = {bound.shapes[i], input.dtype, id, nullptr, nullptr, input.type};
    }
  }

  void find_producers(const std::vector<Node>& nodes) {
    for (const Node& node : nodes)
      for (const std::string& name : node.outputs) state_.producer[name] = &node;
  }

  // Nodes that an output depends on, and how often each name is read.
  void find_live() {
    live_.assign(model().nodes.size(), false);
    for (const std::string& name : model().outputs) ++state_.readers[name];
    for (std::size_t i = model().nodes.size(); i-- > 0;) {
      const Node& node = model().nodes[i];
      live_[i] = std::any_of(node.outputs.begin(), node.outputs.end(),
                             [&](const std::string& name) { return !name.empty() && state_.readers.contains(name); });
      if (live_[i]) count_reads(node);
    }
  }

  void count_reads(const Node& node) {
    const std::vector<std::string> inputs = reads_.inputs_of(node);
    for (const std::string& name : inputs) ++state_.readers[name];
    for (const std::string& name : node.captured) ++state_.readers[name];
    if (node.operation == "BatchNormalization" && node.domain.empty() && inputs.size() == 5)
      for (std::size_t i : {3, 4}) ++state_.normalizations[inputs[i]];
  }

  void add_parameter(const std::string& name, const Initializer& initializer) {
    state_.reserved.insert(name);
    const TensorId id = load_weights_ ? build_.parameter(name, initializer.load())
                                      : build_.parameter(name, initializer.shape, -1, 0, initializer.dtype);
    state_.values[name] = {initializer.shape, initializer.dtype, id, nullptr, nullptr};
  }

  // Reports the fate of values that the exporter computed from parameters.
  void report_folded() {
    for (const Folded& value : folded_.restored)
      report_.push_back({.fate = Fate::kImported,
                         .name = value.name,
                         .operation = "(initializer)",
                         .why = fmt::format("the parameter '{}', {}", value.from, value.how)});
    for (const Folded& value : folded_.frozen)
      report_.push_back(
          {.fate = Fate::kFolded,
           .name = value.name,
           .operation = "(initializer)",
           .why = fmt::format("the exporter computed it from '{}': not trained; export with optimize=False to train it",
                              value.from)});
  }

  // Adds parameters and state in the file's order; constants at their first read. Values that nobody reads are not even
  // loaded.
  void add_initializers() {
    std::set<std::string> read;
    for (const auto& [name, count] : state_.readers) read.insert(name);
    const std::set<std::string> running = running_statistics(model().nodes);
    for (const std::string& name : model().initializer_order) {
      const Initializer& initializer = model().initializers.at(name);
      state_.reserved.insert(name);
      if (!read.contains(name)) continue;
      if (const std::string other = other_shape(name, initializer.shape); !other.empty() && symbols_.empty())
        fail("{}: initializer {}", model().path, other);
      if (running.contains(name) && is_float(initializer.dtype)) {
        const TensorId id = load_weights_ ? build_.state(name, initializer.load())
                                          : build_.state(name, initializer.shape, 0, initializer.dtype);
        state_.values[name] = {initializer.shape, initializer.dtype, id, nullptr, nullptr};
      } else if (is_trained(model(), settings_, name, initializer)) {
        add_parameter(name, initializer);
      } else {
        state_.values[name] = constant_value(initializer.load());
        state_.values[name].type = initializer.type;
      }
    }
    for (const auto& [name, from] : reads_.clones)
      if (read.contains(name)) add_parameter(name, model().initializers.at(from));
    std::erase_if(folded_.frozen, [&](const Folded& value) { return !read.contains(value.name); });
    report_folded();
  }

  // ---------------------------------------------------------------- nodes

  NodeContext context(std::vector<std::string> names, std::string op_name) {
    static const Node none;
    return context(none, std::move(names), std::move(op_name));
  }
  NodeContext context(const Node& node, std::vector<std::string> names, std::string op_name) {
    std::vector<Value*> operands;
    for (const std::string& name : names) operands.push_back(name.empty() ? nullptr : &state_.values.at(name));
    return {state_, node, build_, std::move(names), std::move(operands), std::move(op_name)};
  }

  void import_node(const Node& node, bool live) {
    if (!live && node.is_restored) return;
    OnnxNode report{.name = node.name,
                    .operation = node.domain.empty() ? node.operation : node.domain + "::" + node.operation,
                    .opset = node.opset,
                    .source = node.source};
    if (!live) {
      report.fate = Fate::kUnused;
      report.why = "no output depends on it";
    } else {
      const std::size_t first_op = build_.graph().ops.size();
      try {
        check_operator(*registry_, node);
        if (const std::string missing = missing_operand(node); !missing.empty()) {
          report.fate = Fate::kBlocked;
          report.why = fmt::format("reads '{}'", missing);
        } else if (node.operation == "If") {
          import_branch(node, report);
        } else {
          report.why = convert(node);
        }
      } catch (const Error& error) {
        if (error.code() != ExitCode::kBadInput) throw;
        report.fate = Fate::kUnsupported;
        report.why = error.what();
        // Inputs of a dynamic batch, and a shape that the exporter has taken from its example.
        static const std::set<std::string> shaped{"Concat", "Expand", "Reshape"};
        if (symbolic_batch_ && node.domain.empty() && shaped.contains(node.operation))
          report.why +=
              "; if it is the batch that does not fit, the file is of a fixed one here: export with a dynamic batch";
      }
      if (report.fate == Fate::kImported) {
        std::vector<std::string> made;
        for (std::size_t o = first_op; o < build_.graph().ops.size(); ++o) {
          made.push_back(build_.graph().ops[o].definition);
          node_of_op_[build_.graph().ops[o].name] = fmt::format("node '{}' ({})", report.name, report.operation);
        }
        if (made.empty()) report.fate = Fate::kFolded;
        else report.why = fmt::format("{}", fmt::join(made, ", "));
      }
    }
    report_.push_back(std::move(report));
  }

  // The first name that a node reads and that has no value, since its producer could not be imported.
  std::string missing_operand(const Node& node) const {
    for (const std::string& name : reads_.inputs_of(node))
      if (!name.empty() && !state_.values.contains(name)) return name;
    return "";
  }

  // Why it was folded, if it was. Bad input says why it cannot be imported.
  std::string convert(const Node& node) {
    if (is_described(*registry_, node)) {
      build_.set_source(node.source);
      const std::vector<std::string> names = reads_.inputs_of(node);
      NodeContext site = context(node, names, chosen_name(node, names, output_names_, state_.reserved));
      return settle(node, convert_described(site), "");
    }
    const Converter* converter = converter_of(node);
    const bool shape = node.operation == "Shape" || node.operation == "Size";
    const std::vector<std::string> names = reads_.inputs_of(node);
    std::vector<Value*> operands;
    bool constant = true;
    for (const std::string& name : names) {
      operands.push_back(name.empty() ? nullptr : &state_.values.at(name));
      constant = constant && (name.empty() || is_constant(*operands.back()));
    }
    const bool reads_types = node.domain.empty() && (node.operation == "CastLike" || node.operation == "EyeLike");
    if (reads_types)
      constant = node.operation == "EyeLike" || (!operands.empty() && operands[0] && operands[0]->constant);
    const std::vector<const Value*> known(operands.begin(), operands.end());
    std::string wrapped_name;
    Results results;
    std::string why = "constant";
    if (node.operation == "Identity" && !node.outputs.empty() && reads_.clones.contains(node.outputs[0]))
      return "a parameter of its own, which the exporter has merged with an equal one";
    if (shape) {
      results = {shape_of(context(node, names, ""))};
      why = "known shape";
    } else if (constant && node.domain.empty() && can_evaluate(node.operation)) {
      results = {evaluated(node, operands)};
    } else if (!converter) {
      fail("its operands are not constant, and it is supported for constants only");
    } else if (constant && !names.empty()) {
      results = evaluate_by_converter(*converter, state_, node, names, operands, registry_);
    } else {
      build_.set_source(node.source);
      wrapped_name = chosen_name(node, names, output_names_, state_.reserved);
      const bool wraps = wrapping_type(node, result_integer_type(node, 0, known), known).has_value();
      NodeContext site = context(node, names, wraps ? wrapped_name + ".exact" : wrapped_name);
      site.transposed_weight = reads_.reads_transposed(node);
      results = (*converter)(site);
      why = "nothing to do";
    }
    for (std::size_t r = 0; r < results.size(); ++r) give_type(build_, node, r, results[r], known, wrapped_name);
    return settle(node, results, why);
  }

  // Evaluates from constant operands, or from known facts of others: their shape and type.
  static Value evaluated(const Node& node, const std::vector<Value*>& operands) {
    std::vector<Values> unknown(operands.size());
    std::vector<const Values*> values;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i]) unknown[i] = {.dtype = operands[i]->dtype, .shape = operands[i]->shape};
      const bool is_known = operands[i] && operands[i]->constant;
      values.push_back(!operands[i] ? nullptr : is_known ? operands[i]->constant.get() : &unknown[i]);
    }
    return constant_value(evaluate_constant(node, values));
  }

  // A value's shape and the declared one, if these differ; else empty.
  std::string other_shape(const std::string& name, const Shape& shape) const {
    const auto found = model().declared.find(name);
    if (found == model().declared.end() || agrees_with_declared(found->second, shape, symbols_)) return "";
    return fmt::format("'{}' is {}, and the file declares {}", name, shape_text(shape), text_of(found->second));
  }

  // Bad input: a result with another shape than the file declares. With bound dimensions that is a doubt: exporters and
  // tools leave shapes of their example behind.
  void validate_declared_shape(const Node& node, const std::string& name, const Value& value) {
    if (value.sequence || !state_.readers.contains(name)) return;
    const std::string other = other_shape(name, value.shape);
    if (other.empty()) return;
    if (symbols_.empty())
      fail("its result {}; export the model again, or, if a tool has left that behind, correct it (graph.{})", other,
           output_names_.contains(name) ? "output" : "value_info");
    other_shapes_.push_back(fmt::format("{} (node '{}')", other, node.name));
  }

  // Gives a node's results to their names.
  std::string settle(const Node& node, const Results& results, std::string why) {
    for (std::size_t r = 0; r < node.outputs.size(); ++r) {
      const std::string& name = node.outputs[r];
      if (name.empty()) continue;
      if (r < results.size()) {
        validate_declared_shape(node, name, results[r]);
        state_.values[name] = results[r];
      } else if (state_.readers.contains(name)) {
        fail("its result {} ('{}') is read, and is not supported", r, name);
      }
    }
    return why;
  }

  // The branch of an If that its condition names takes the If's place.
  void import_branch(const Node& node, OnnxNode& report) {
    NodeContext site = context(node, node.inputs, "");
    const Values* condition = site.constant(0, "condition");
    if (!condition || volume(condition->shape) != 1 || is_float(condition->dtype))
      fail("a condition of one boolean is needed");
    const char* name = condition->integer[0] ? "then_branch" : "else_branch";
    const auto found = node.attributes.find(name);
    const auto* branch =
        found == node.attributes.end() ? nullptr : std::get_if<std::shared_ptr<const Subgraph>>(&found->second);
    if (!branch || (*branch)->outputs.size() < node.outputs.size())
      fail("it has no {} with {} outputs", name, node.outputs.size());
    find_producers((*branch)->nodes);
    for (const Node& inner : (*branch)->nodes) count_reads(inner);
    for (const std::string& output : (*branch)->outputs) ++state_.readers[output];
    for (const Node& inner : (*branch)->nodes) import_node(inner, true);
    for (std::size_t r = 0; r < node.outputs.size(); ++r) {
      const auto value = state_.values.find((*branch)->outputs[r]);
      if (value == state_.values.end()) {
        report.fate = Fate::kBlocked;
        report.why = fmt::format("its {} gives '{}'", name, (*branch)->outputs[r]);
        return;
      }
      const Value copy = value->second;
      validate_declared_shape(node, node.outputs[r], copy);
      state_.values[node.outputs[r]] = copy;
    }
    report.fate = Fate::kFolded;
    report.why = fmt::format("its condition is constant: its {} takes its place", name);
  }

  std::shared_ptr<const OpRegistry> registry_;
  const bool load_weights_;
  int64_t other_batch_ = 0;  // replaces the file's own; 0: none
  InputBindings said_;
  std::vector<std::string> batch_notes_;
  bool symbolic_batch_ = false;
  Symbols symbols_;
  std::vector<std::string> other_shapes_;  // than the file declares
  GraphBuilder build_;
  ImportState state_;
  std::vector<bool> live_;
  std::set<std::string> output_names_;
  std::set<std::string> settings_;  // names of numbers that say how
  FoldedValues folded_;
  WeightReads reads_;
  std::vector<OnnxNode> report_;
  std::map<std::string, std::string> node_of_op_;  // "node 'view_3' (Reshape)", by the op's name
};

}  // namespace

Graph import_onnx(const std::string& path, const OnnxOptions& options, std::shared_ptr<const OpRegistry> registry,
                  std::optional<Graph>* own_batch, OnnxFindings* findings) {
  Importer importer(path, options, std::move(registry));
  Graph graph = importer.finish(own_batch);
  if (!findings) return graph;
  findings->batch = importer.batch_notes();
  for (const Folded& value : importer.folded().restored)
    if (value.tied) findings->tied.push_back(fmt::format("{} is {}, {}", value.name, value.from, value.how));
  for (const Folded& value : importer.folded().frozen)
    findings->untrained.push_back(fmt::format("{} (of {})", value.name, value.from));
  std::vector<std::string> trained;
  for (const Tensor& t : graph.tensors)
    if (t.role == Role::kParameter) trained.push_back(t.name);
  findings->with_normalization = with_normalization(importer.model());
  findings->other_shapes = importer.other_shapes();
  findings->rounded = importer.state().rounded;
  findings->notes = importer.state().notes;
  findings->why_not_trained = importer.state().why_not_trained;
  findings->perhaps_buffers = perhaps_buffers(importer.model(), trained);
  return graph;
}

std::vector<OnnxNode> describe_onnx(const std::string& path, const OnnxOptions& options,
                                    std::shared_ptr<const OpRegistry> registry) {
  return Importer(path, options, std::move(registry)).report();
}

}  // namespace partita
