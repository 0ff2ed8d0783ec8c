// Makes a file of a fixed batch for another: finds the inputs with samples, and those that follow together.
#include <algorithm>
#include <bit>
#include <tuple>

#include "partita/base/error.h"
#include "partita/graph/rebatch.h"
#include "partita/graph/recompute.h"
#include "partita/onnx/batch.h"
#include "partita/ops/ops.h"

namespace partita::onnx_model {
namespace {

constexpr std::size_t kMostPlacements = 64;  // of the samples in the inputs

using SampleAxes = std::map<TensorId, std::size_t>;  // of the inputs that have samples

struct Asked {
  const Graph& forward;
  int64_t batch;
  const std::string& path;
  const std::map<std::string, std::string>& nodes;
  const InputBindings& said;
  std::vector<char> of_inputs;  // by tensor: whether some input reaches it

  AxisBindings said_of(const Tensor& input) const {
    const auto found = said.find(input.name);
    return found == said.end() ? AxisBindings{} : found->second;
  }
};

bool begins_with(const Tensor& t, int64_t extent) { return !t.shape.empty() && t.shape[0] == extent; }

std::string text_of(const Tensor& input) { return fmt::format("'{}' [{}]", input.name, fmt::join(input.shape, ", ")); }

// The axes along which an input may have samples.
std::vector<std::size_t> axes_of(const Asked& asked, const Tensor& input, int64_t from) {
  const AxisBindings said = asked.said_of(input);
  if (said.samples) return {*said.samples};
  std::vector<std::size_t> axes;
  for (std::size_t a = 0; a < input.shape.size(); ++a)
    if (input.shape[a] == from && !said.kept.contains(a)) axes.push_back(a);
  return axes;
}

// Every way to have the samples along axes of extent `from`: axis 0 of each input that can, then other axes, then none.
// An input that begins with a batch of several samples has them there, unless all else is refused.
std::vector<SampleAxes> placements(const Asked& asked, int64_t from) {
  std::vector<SampleAxes> all{{}};
  for (TensorId id : asked.forward.inputs) {
    const Tensor& input = asked.forward.tensor(id);
    std::vector<SampleAxes> longer;
    for (const SampleAxes& before : all) {
      for (const std::size_t a : axes_of(asked, input, from)) {
        longer.push_back(before);
        longer.back()[id] = a;
      }
      if (!asked.said_of(input).samples) longer.push_back(before);
    }
    all = std::move(longer);
    if (all.size() > 4096) all.resize(4096);
  }
  const auto off_front = [](const SampleAxes& axes) {
    return std::count_if(axes.begin(), axes.end(), [](const auto& entry) { return entry.second != 0; });
  };
  const auto elsewhere = [&](const SampleAxes& axes) {
    return std::count_if(axes.begin(), axes.end(), [&](const auto& entry) {
      const Tensor& input = asked.forward.tensor(entry.first);
      return from > 1 && entry.second != 0 && begins_with(input, from) && !asked.said_of(input).samples;
    });
  };
  const auto order = [&](const SampleAxes& axes) {
    return std::tuple(elsewhere(axes), -static_cast<int64_t>(axes.size()), off_front(axes));
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const SampleAxes& a, const SampleAxes& b) { return order(a) < order(b); });
  std::erase_if(all, [](const SampleAxes& axes) { return axes.empty(); });
  if (all.size() > kMostPlacements) all.resize(kMostPlacements);
  return all;
}

// The possible batches of the file: extents of axis 0 of the inputs, those that an output begins with first; 1 if an
// input has it along another axis. With --bind only the bound ones.
std::vector<int64_t> possible_batches(const Asked& asked) {
  const Graph& graph = asked.forward;
  std::vector<int64_t> extents;
  const auto add = [&](int64_t extent) {
    if (std::find(extents.begin(), extents.end(), extent) == extents.end()) extents.push_back(extent);
  };
  for (TensorId id : graph.inputs)
    if (const auto said = asked.said_of(graph.tensor(id)).samples) add(graph.tensor(id).shape[*said]);
  if (extents.size() > 1)
    fail("{}: --bind makes axes of {} the batch's, which is one extent", asked.path, fmt::join(extents, " and of "));
  if (!extents.empty()) return extents;
  const auto is_of_output = [&](int64_t extent) {
    return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                       [&](TensorId id) { return begins_with(graph.tensor(id), extent); });
  };
  for (TensorId id : graph.inputs) {
    const Tensor& input = graph.tensor(id);
    if (!input.shape.empty() && !asked.said_of(input).kept.contains(0)) add(input.shape[0]);
  }
  if (std::any_of(extents.begin(), extents.end(), is_of_output))
    std::erase_if(extents, [&](int64_t extent) { return !is_of_output(extent); });
  for (TensorId id : graph.inputs)
    for (int64_t extent : graph.tensor(id).shape)
      if (extent == 1) add(1);
  return extents;
}

// "node 'm' (ReduceMean) reduces over the samples".
std::string why_refused(const Asked& asked, const Rebatched& refused) {
  if (!refused.refused_by.valid()) return refused.why;
  const Op& op = asked.forward.op(refused.refused_by);
  const auto node = asked.nodes.find(op.name);
  return fmt::format("{} {}",
                     node == asked.nodes.end() ? fmt::format("'{}' ({})", op.name, op.definition) : node->second,
                     refused.why);
}

// ---------------------------------------------------------------- inputs that follow together, and apart

struct Following {
  Graph graph;
  std::vector<SampleAxes> groups;  // inputs of the file that follow together
};

// Inputs that begin with the batch and are not among these. With a batch of 1, an input of one number a sample does not
// count.
std::vector<TensorId> left_out(const Asked& asked, int64_t from, const std::vector<SampleAxes>& groups) {
  std::vector<TensorId> left;
  for (TensorId id : asked.forward.inputs) {
    const Tensor& input = asked.forward.tensor(id);
    const bool follows =
        std::any_of(groups.begin(), groups.end(), [&](const SampleAxes& group) { return group.contains(id); });
    if (!follows && begins_with(input, from) && !asked.said_of(input).kept.contains(0)) left.push_back(id);
  }
  return left;
}

// Outputs that inputs reach, and no sample does.
std::size_t unchanged_outputs(const Asked& asked, const Graph& graph) {
  std::size_t count = 0;
  for (std::size_t o = 0; o < graph.outputs.size(); ++o) {
    const TensorId own = asked.forward.outputs[o];
    count += asked.of_inputs[own.index()] && graph.tensor(graph.outputs[o]).shape == asked.forward.tensor(own).shape;
  }
  return count;
}

bool is_kept(const Asked& asked) {
  return std::any_of(asked.said.begin(), asked.said.end(), [](const auto& said) { return !said.second.kept.empty(); });
}

// The first of these placements that the graph can have.
std::optional<Following> first_of(const Asked& asked, const std::vector<SampleAxes>& all, int64_t from,
                                  std::optional<std::string>& refusal) {
  for (const SampleAxes& axes : all) {
    Rebatched other = rebatched(asked.forward, axes, from, asked.batch);
    if (!other.graph && is_kept(asked)) {  // results of a kept input alone stay
      Rebatched part = rebatched(asked.forward, axes, from, asked.batch, Unreached::kStay);
      if (part.graph && unchanged_outputs(asked, *part.graph) < asked.forward.outputs.size()) other = std::move(part);
    }
    if (other.graph) return Following{std::move(*other.graph), {axes}};
    if (!refusal)
      refusal = fmt::format("{}: --batch {}: {}; the file was exported for a batch of {}; export with a dynamic batch",
                            asked.path, asked.batch, why_refused(asked, other), from);
  }
  return std::nullopt;
}

// One more group, of inputs that are left: as many as can.
bool add_group(const Asked& asked, int64_t from, Following& f, const std::vector<TensorId>& left) {
  const std::size_t count = std::min<std::size_t>(left.size(), 6);
  std::vector<unsigned> subsets;
  for (unsigned s = 1; s < 1U << count; ++s) subsets.push_back(s);
  std::stable_sort(subsets.begin(), subsets.end(),
                   [](unsigned a, unsigned b) { return std::popcount(a) > std::popcount(b); });
  for (const unsigned subset : subsets) {
    SampleAxes of_file, of_graph;
    for (std::size_t i = 0; i < count; ++i)
      if (subset >> i & 1) of_file[left[i]] = 0, of_graph[f.graph.find_tensor(asked.forward.tensor(left[i]).name)] = 0;
    Rebatched other = rebatched(f.graph, of_graph, from, asked.batch, Unreached::kStay);
    if (!other.graph) continue;
    f.graph = std::move(*other.graph);
    f.groups.push_back(of_file);
    return true;
  }
  return false;
}

// Groups of inputs one after another, each with the others as they are. They end when all inputs that begin with the
// batch are in one, and every output has samples.
std::optional<Following> in_groups(const Asked& asked, const std::vector<SampleAxes>& all, int64_t from) {
  constexpr std::size_t kTried = 16;
  for (std::size_t i = 0; i < std::min(all.size(), kTried); ++i) {
    Rebatched first = rebatched(asked.forward, all[i], from, asked.batch, Unreached::kStay);
    if (!first.graph) continue;
    Following f{std::move(*first.graph), {all[i]}};
    std::vector<TensorId> left = left_out(asked, from, f.groups);
    const bool may_be = std::all_of(left.begin(), left.end(), [&](TensorId id) {
      return from > 1 || asked.forward.tensor(id).shape.size() > 1;  // [1]: one number, as a temperature is
    });
    while (may_be && !left.empty() && add_group(asked, from, f, left)) left = left_out(asked, from, f.groups);
    if (left.empty() && f.groups.size() > 1 && unchanged_outputs(asked, f.graph) == 0) return f;
  }
  return std::nullopt;
}

// ---------------------------------------------------------------- notes on it

[[noreturn]] void refuse_left(const Asked& asked, int64_t from, const Following& f, const std::vector<TensorId>& left) {
  SampleAxes with_all = f.groups[0];
  std::vector<std::string> names, kept;
  for (TensorId id : left) {
    with_all[id] = 0;
    names.push_back(text_of(asked.forward.tensor(id)));
    kept.push_back(fmt::format("--bind {}.0={}", asked.forward.tensor(id).name, from));
  }
  const bool one = left.size() == 1;
  fail(
      "{}: --batch {}: input{} {} begin{} with the file's batch of {} and cannot follow: {}; {} say{} that {} no "
      "samples, "
      "or export with a dynamic batch",
      asked.path, asked.batch, one ? "" : "s", fmt::join(names, " and "), one ? "s" : "", from,
      why_refused(asked, rebatched(asked.forward, with_all, from, asked.batch)), fmt::join(kept, " "), one ? "s" : "",
      one ? "it has" : "they have");
}

std::string names_of(const Asked& asked, const SampleAxes& group) {
  std::vector<std::string> names;
  for (const auto& [id, axis] : group) names.push_back(fmt::format("'{}'", asked.forward.tensor(id).name));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> notes_of(const Asked& asked, const Following& f) {
  std::vector<std::string> notes, stay;
  std::string first;
  for (TensorId id : asked.forward.inputs) {
    const Tensor& input = asked.forward.tensor(id);
    const bool follows =
        std::any_of(f.groups.begin(), f.groups.end(), [&](const SampleAxes& group) { return group.contains(id); });
    if (follows || input.shape.empty() || !asked.said_of(input).kept.empty()) continue;
    stay.push_back(text_of(input));
    if (first.empty()) first = input.name;
  }
  if (!stay.empty())
    notes.push_back(fmt::format(
        "--batch {}: {} stay{} as in the file, without samples; --bind {}.AXIS={} says along which axis there are some",
        asked.batch, fmt::join(stay, " and "), stay.size() == 1 ? "s" : "", first, asked.batch));
  if (f.groups.size() < 2) return notes;
  std::vector<std::string> groups;
  for (const SampleAxes& group : f.groups) groups.push_back(names_of(asked, group));
  const auto& [last, axis] = *f.groups.back().begin();
  notes.push_back(fmt::format("--batch {}: each sample of {} meets each of {}; --bind {}.{}={} keeps these",
                              asked.batch, groups[0], fmt::join(groups.begin() + 1, groups.end(), " and of "),
                              asked.forward.tensor(last).name, axis, asked.forward.tensor(last).shape[axis]));
  return notes;
}

// The file's own graph, which is for that batch as it is.
bool is_for(const Asked& asked, int64_t from) {
  return from == asked.batch &&
         std::none_of(asked.said.begin(), asked.said.end(), [](const auto& said) { return said.second.samples; });
}

}  // namespace

OfOtherBatch with_batch(const Graph& forward, int64_t batch, const std::string& path,
                        const std::map<std::string, std::string>& nodes, const InputBindings& said) {
  Graph bare = forward;
  for (TensorId id : bare.inputs) bare.tensor(id).sample_axis = -1;
  const Asked asked{bare, batch, path, nodes, said, depends_on(bare, Role::kInput)};
  std::optional<std::string> refusal;
  for (int64_t from : possible_batches(asked)) {
    const std::vector<SampleAxes> all = placements(asked, from);
    std::optional<Following> f = first_of(asked, all, from, refusal);
    if (!f && is_for(asked, from)) return {forward, {}};
    std::vector<TensorId> left;
    if (f) left = left_out(asked, from, f->groups);
    if (!f || !left.empty())
      if (auto apart = in_groups(asked, all, from)) f = std::move(apart), left.clear();
    if (!f) continue;
    if (!left.empty() && from > 1) refuse_left(asked, from, *f, left);
    set_variance_corrections(f->graph);
    std::vector<std::string> notes = notes_of(asked, *f);
    return {std::move(f->graph), std::move(notes)};
  }
  fail("{}", refusal.value_or(fmt::format("{}: --batch {}: no input has a batch", path, batch)));
}

}  // namespace partita::onnx_model
