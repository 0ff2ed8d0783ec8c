// Lists the contents of a device's memory, for the message if a plan does not fit.
#include "partita/physical/shortage.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/cluster/memory_deficit.h"
#include "partita/physical/kept_gradients.h"
#include "partita/physical/uses.h"

namespace partita {

namespace {

// The kind of bytes that each tensor is, by TensorId.
std::vector<std::string> owners(const Graph& graph) {
  std::vector<std::string> out(graph.tensors.size(), "activations");
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    const Role role = tensor.replaces.valid() ? graph.tensor(tensor.replaces).role : tensor.role;
    if (role == Role::kParameter) out[t] = "weights";
    if (role == Role::kState) out[t] = "optimizer states";
    if (role == Role::kInput || role == Role::kConstant) out[t] = "inputs and constants";
  }
  for (const Op& op : graph.ops) {
    if (op.definition == "cast" && graph.tensor(op.operands[0]).role == Role::kParameter)
      out[op.results[0].index()] = "weights";
    if (op.phase != Phase::kUpdate) continue;
    for (TensorId operand : op.operands)
      if (graph.tensor(operand).role == Role::kGradient) out[operand.index()] = "gradients";
  }
  return out;
}

// By register of the device: the kind of its bytes. A register that a conversion wrote is a communication buffer,
// unless it has its tensor's kept layout, or is a gradient that is kept.
std::vector<std::string> owners_of_registers(const Graph& graph, const PhysicalGraph& physical, DeviceId device) {
  const std::vector<std::string> of_tensor = owners(graph);
  std::vector<bool> converted(physical.registers.size(), false), scratch(physical.registers.size(), false);
  for (const Task& task : physical.tasks) {
    for (RegisterId s : task.scratch) scratch[s.index()] = true;
    if (std::holds_alternative<KernelWork>(task.work) || std::holds_alternative<LoadWork>(task.work)) continue;
    for (const Access& write : task.writes) converted[write.reg.index()] = true;
  }
  const std::vector<char> kept = kept_gradient_registers(physical);
  std::vector<std::string> out(physical.registers.size());
  for (std::size_t r = 0; r < out.size(); ++r) {
    const Register& reg = physical.registers[r];
    if (reg.device != device) continue;
    const bool stays = reg.carried || reg.constant;
    const std::string owner = reg.tensor.valid() ? of_tensor[reg.tensor.index()] : "workspaces";
    out[r] = scratch[r]                                                  ? "workspaces"
             : kept[r]                                                   ? "gradients"
             : converted[r] && !stays && owner != "inputs and constants" ? "communication buffers"
                                                                         : owner;
  }
  return out;
}

// The places in which a use lives.
struct Life {
  int first = std::numeric_limits<int>::max(), last = -1;
};

struct Lives {
  NodeTable table;
  std::vector<int> place;
  Uses uses;
  KeptUntil<int> kept_until;  // places
  explicit Lives(const PhysicalGraph& physical)
      : table(number_nodes(physical)),
        place(places(physical, table)),
        uses(physical, table),
        kept_until(physical, kept_gradients(physical, table), -1,
                   [&](int node, DeviceId) { return place[static_cast<std::size_t>(node)]; }) {}

  Life of(const Register& reg, const Use& use) const {
    if (reg.carried || reg.constant) return {0, std::numeric_limits<int>::max()};
    Life life;
    life.last = kept_until.of(use);
    for (const std::span<const Node> users : {use.writers, use.readers})
      for (const Node& node : users) {
        const int at = place[static_cast<std::size_t>(table.number(node))];
        life.first = std::min(life.first, at);
        life.last = std::max(life.last, at);
      }
    return life.last < 0 ? Life{0, std::numeric_limits<int>::max()} : life;
  }
};

int fullest_place(const PhysicalGraph& physical, DeviceId device, const Lives& lives) {
  std::map<int, int64_t> change;
  for (std::size_t r = 0; r < physical.registers.size(); ++r) {
    const Register& reg = physical.registers[r];
    if (reg.device != device) continue;
    for (const Use& use : lives.uses[r]) {
      const Life life = lives.of(reg, use);
      change[life.first] += reg.bytes;
      if (life.last < std::numeric_limits<int>::max()) change[life.last + 1] -= reg.bytes;
    }
  }
  int64_t bytes = 0, most = -1;
  int fullest = 0;
  for (const auto& [at, by] : change)
    if ((bytes += by) > most) most = bytes, fullest = at;
  return fullest;
}

}  // namespace

std::vector<std::pair<std::string, int64_t>> contents_at_peak(const Graph& graph, const PhysicalGraph& physical,
                                                              DeviceId device, int64_t further) {
  const Lives lives(physical);
  const int fullest = fullest_place(physical, device, lives);
  const std::vector<std::string> owner = owners_of_registers(graph, physical, device);
  struct Stretch {
    int64_t begin, end;
    const std::string* owner;
  };
  std::vector<Stretch> taken;
  for (std::size_t r = 0; r < physical.registers.size(); ++r) {
    const Register& reg = physical.registers[r];
    if (reg.device != device) continue;
    std::set<int> slots;
    for (const Use& use : lives.uses[r])
      if (const Life life = lives.of(reg, use); life.first <= fullest && fullest <= life.last)
        slots.insert(reg.slot(use.number));
    for (const int slot : slots) taken.push_back({reg.slot_offset(slot), reg.slot_offset(slot) + reg.bytes, &owner[r]});
  }
  // A result that is written over its operand shares its bytes: they count once.
  std::stable_sort(taken.begin(), taken.end(), [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  std::map<std::string, int64_t> sums;
  int64_t seen = 0, counted = 0;
  for (const Stretch& s : taken) {
    const int64_t bytes = std::max<int64_t>(0, s.end - std::max(seen, s.begin));
    sums[*s.owner] += bytes, counted += bytes;
    seen = std::max(seen, s.end);
  }
  sums[kGaps] = physical.peak_bytes[device.index()] - further - counted;
  std::vector<std::pair<std::string, int64_t>> contents;
  for (const auto& [what, bytes] : sums)
    if (bytes > 0) contents.emplace_back(what, bytes);
  std::stable_sort(contents.begin(), contents.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return contents;
}

void check_capacity(const Graph& graph, const PhysicalGraph& physical, const Cluster& cluster, const Beyond& beyond) {
  DeviceId worst;
  int64_t most = 0;
  int over = 0;
  bool alike = true;
  for (std::size_t d = 0; d < cluster.devices.size(); ++d) {
    const int64_t deficit = memory_deficit(physical.peak_bytes[d], cluster.devices[d]);
    if (deficit <= 0) continue;
    alike = alike && (!over || (physical.peak_bytes[d] == physical.peak_bytes[worst.index()] && deficit == most));
    ++over;
    if (deficit > most) most = deficit, worst = DeviceId(d);
  }
  if (!over) return;
  const int64_t further = beyond.bytes.empty() ? 0 : beyond.bytes[worst.index()];
  std::vector<std::string> contents;
  if (further > 0) contents.push_back(fmt::format("further micro-batches {}", megabytes(static_cast<double>(further))));
  for (const auto& [what, bytes] : contents_at_peak(graph, physical, worst, further))
    contents.push_back(fmt::format("{} {}", what, megabytes(static_cast<double>(bytes))));
  const Device& device = cluster.device(worst);
  const std::string of = beyond.representatives.empty()
                             ? fmt::format("{}", over)
                             : fmt::format("{} of {} typical", over, beyond.representatives.size());
  const std::string who = over == 1 ? device.name
                          : alike   ? fmt::format("each of {} devices", of)
                                    : fmt::format("{} devices lack memory; {}, which lacks most,", of, device.name);
  throw Error(ExitCode::kInfeasible,
              fmt::format("plan for '{}' does not fit: {} needs at least {} and has {} ({} bytes missing); it holds {}",
                          graph.name, who, enough_megabytes(static_cast<double>(physical.peak_bytes[worst.index()])),
                          megabytes(static_cast<double>(device.memory_bytes)), most, fmt::join(contents, ", ")));
}

}  // namespace partita
