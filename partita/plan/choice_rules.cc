// Checks single choices: meshes, strategies and kept layouts, of plans and of pins.
#include "partita/plan/choice_rules.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "partita/base/radices.h"
#include "partita/graph/micro_batches.h"
#include "partita/plan/pin_error.h"

namespace partita {

namespace {

template <typename... Args>
[[noreturn]] void refuse(Whose whose, fmt::format_string<Args...> format, Args&&... args) {
  const std::string why = fmt::format(format, std::forward<Args>(args)...);
  if (whose == Whose::kPins) throw PinError(why);
  fail("plan: {}", why);
}

// An op or tensor whose choice is checked.
struct Subject {
  Whose whose;
  std::string name;  // "op 'fc1' (linear)"

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    partita::refuse(whose, "{}: {}", name, fmt::format(format, std::forward<Args>(args)...));
  }
};

// `last`: the mesh that was checked last. Mostly the next one is the same.
void check_mesh(const Mesh& mesh, const Cluster& cluster, const Subject& who, Mesh& last) {
  if (!last.devices.empty() && mesh == last) return;
  int64_t positions = 1;
  for (int extent : mesh.extents) {
    if (extent < 1) who.refuse("mesh extent {} is not positive", extent);
    if (__builtin_mul_overflow(positions, extent, &positions))
      who.refuse("a mesh [{}] has more positions than can be counted", fmt::join(mesh.extents, ", "));
  }
  if (positions != static_cast<int64_t>(mesh.devices.size()))
    who.refuse("a mesh of {} positions lists {} devices", positions, mesh.devices.size());
  std::set<DeviceId> seen;
  const auto devices = static_cast<int>(cluster.devices.size());
  for (DeviceId d : mesh.devices) {
    if (d.value < 0 || d.value >= devices)
      who.refuse("device {} is unknown; cluster '{}' has devices 0 to {}{}", d.value, cluster.name,
                 cluster.compute_count - 1,
                 devices > cluster.compute_count ? fmt::format(" and hosts to {}", devices - 1) : "");
    if (!seen.insert(d).second) who.refuse("device {} is listed twice", d.value);
  }
  last = mesh;
}

// Checks that hosts run ops whole and keep tensors whole.
void check_hosts(const Mesh& mesh, bool whole, const Cluster& cluster, const Subject& who) {
  for (DeviceId d : mesh.devices)
    if (d.value >= cluster.compute_count && !whole)
      who.refuse("device {} is a host, which runs and keeps things whole, and here each has a part", d.value);
}

// Checks that no index is split into more shards than it has values, over all mesh axes together.
void check_shards(const Op& op, const OpChoice& choice, const Subject& who) {
  std::map<std::string, int64_t> shards;
  for (size_t a = 0; a < choice.strategies.size(); ++a)
    for (const std::string& name : choice.strategies[a].names)
      shards.try_emplace(name, 1).first->second *= choice.mesh.extents[a];
  for (const auto& [name, count] : shards) {
    int index = op.bound->find_index(name);
    if (index < 0) {
      std::vector<std::string> known;
      for (const tdl::Index& i : op.bound->indices) known.push_back(i.name);
      who.refuse("the formula has no index '{}'; it has {}", name, fmt::join(known, ", "));
    }
    if (count > op.bound->indices[index].extent)
      who.refuse("index '{}' of extent {} can't be split in {} parts", name, op.bound->indices[index].extent, count);
  }
}

}  // namespace

void check_op_choice(Whose whose, const Op& op, const OpChoice& choice, const Cluster& cluster, Mesh& last) {
  const Subject who{whose, fmt::format("op '{}' ({})", op.name, op.definition)};
  check_mesh(choice.mesh, cluster, who, last);
  check_hosts(choice.mesh, choice.mesh.devices.size() == 1, cluster, who);
  if (choice.strategies.size() != choice.mesh.extents.size())
    who.refuse("{} strategies for a mesh of {} axes", choice.strategies.size(), choice.mesh.extents.size());
  for (const tdl::AxisStrategy& s : choice.strategies)
    for (const std::string& operand : s.partial) {
      int tensor = op.bound->find_tensor(operand);
      if (tensor < 0 || tensor >= op.bound->operand_count)
        who.refuse("no operand '{}' can be partial: the formula has none", operand);
    }
  check_shards(op, choice, who);
}

namespace {

void check_placement(const Subject& who, const Tensor& tensor, const Placement& placement, const Cluster& cluster,
                     Mesh& last) {
  check_mesh(placement.mesh, cluster, who, last);
  const bool whole =
      std::all_of(placement.sbp.begin(), placement.sbp.end(), [](const Sbp& sbp) { return sbp == Sbp::broadcast(); });
  check_hosts(placement.mesh, whole, cluster, who);
  if (placement.sbp.size() != placement.mesh.extents.size())
    who.refuse("{} Sbp for a mesh of {} axes", placement.sbp.size(), placement.mesh.extents.size());
  const std::vector<Shape> radices = placement.radices.empty() ? unfactored(tensor.shape) : placement.radices;
  if (radices.size() != tensor.shape.size())
    who.refuse("radices for {} axes, it has {}", radices.size(), tensor.shape.size());
  for (size_t a = 0; a < radices.size() && !placement.radices.empty(); ++a) {
    int64_t product = 1;
    for (const int64_t radix : radices[a]) {
      if (radix < 1 && radices[a] != Shape{tensor.shape[a]})
        who.refuse("a radix of axis {} is {}; radices are positive numbers", a, radix);
      if (__builtin_mul_overflow(product, radix, &product))
        who.refuse("the radices of axis {} make more than its extent {}", a, tensor.shape[a]);
    }
    if (product != tensor.shape[a])
      who.refuse("the radices of axis {} make {}, its extent is {}", a, product, tensor.shape[a]);
  }
  std::optional<tdl::Reducer> reducer;
  std::map<std::pair<int, int>, int64_t> shards;
  for (size_t a = 0; a < placement.sbp.size(); ++a) {
    const Sbp& sbp = placement.sbp[a];
    if (sbp.kind == Sbp::Kind::kPartial) {
      if (reducer && *reducer != sbp.reducer)
        who.refuse("two reducers on one value, {} and {}", tdl::name_of(*reducer), tdl::name_of(sbp.reducer));
      reducer = sbp.reducer;
      // Each position keeps a term of a state that starts as a sum, the first of them as it is.
      const bool sum = tensor.role == Role::kState && is_float(tensor.dtype) && sbp.reducer == tdl::Reducer::kSum;
      if (!tensor.producer.valid() && !sum) who.refuse("{} can't be kept partial", name_of(tensor.role));
    }
    if (sbp.kind == Sbp::Kind::kSplit) {
      if (sbp.axis < 0 || sbp.axis >= static_cast<int>(tensor.shape.size()) || sbp.sub_axis < 0 ||
          sbp.sub_axis >= static_cast<int>(radices[sbp.axis].size()))
        who.refuse("{} names an axis that shape [{}] lacks", to_string(sbp), fmt::join(tensor.shape, ", "));
      int64_t& count = shards.try_emplace({sbp.axis, sbp.sub_axis}, 1).first->second;
      count *= placement.mesh.extents[a];
      if (count > radices[sbp.axis][sbp.sub_axis])
        who.refuse("axis {} of extent {} can't be split in {} parts", sbp.axis, radices[sbp.axis][sbp.sub_axis], count);
    }
  }
}

// Checks that a tensor of sequence x batch is kept split along one of these, and not along both as one: a micro-batch
// has all of the sequence.
void check_samples_digit(const Subject& who, const Graph& graph, TensorId id, const Placement& placement) {
  const Tensor& tensor = graph.tensor(id);
  if (tensor.scope != MicroBatchScope::kMicroBatch) return;
  const MicroBatchAxis place = micro_batch_axis_of(graph, id);
  const bool split = std::any_of(placement.sbp.begin(), placement.sbp.end(), [&](const Sbp& sbp) {
    return sbp.kind == Sbp::Kind::kSplit && sbp.axis == place.axis;
  });
  if (!split || factored_axis(place, placement.radices.empty() ? unfactored(tensor.shape) : placement.radices)) return;
  const int64_t extent = tensor.shape[static_cast<size_t>(place.axis)];
  who.refuse(
      "axis {} has samples inside {} others, and is split across them; give it the radices [{}, {}], or use "
      "--micro-batches 1",
      place.axis, place.outer, place.outer, extent / place.outer);
}

}  // namespace

void check_kept(Whose whose, const Graph& graph, const std::map<TensorId, Placement>& kept, const Cluster& cluster,
                Mesh& last) {
  for (const auto& [id, placement] : kept) {
    if (id.index() >= graph.tensors.size()) refuse(whose, "kept tensor {} is unknown", id.value);
    const Tensor& tensor = graph.tensor(id);
    const Subject who{whose, fmt::format("tensor '{}'", tensor.name)};
    check_placement(who, tensor, placement, cluster, last);
    check_samples_digit(who, graph, id, placement);
    if (tensor.replaces.valid())
      refuse(whose, "tensor '{}' replaces '{}' and can't be kept elsewhere: give '{}' the layout", tensor.name,
             graph.tensor(tensor.replaces).name, graph.tensor(tensor.replaces).name);
  }
}

}  // namespace partita
