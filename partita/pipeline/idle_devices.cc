// Counts the devices on which no operation of a plan runs.
#include "partita/pipeline/idle_devices.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita {

namespace {

// Counts the compute devices of a plan's meshes.
class Devices {
 public:
  explicit Devices(int all) : has_(static_cast<size_t>(all), false), absent_(all) {}
  void add(const Mesh& mesh) {
    if (absent_ == 0 || mesh == last_) return;
    last_ = mesh;
    for (const DeviceId d : mesh.devices)
      if (d.index() < has_.size() && !has_[d.index()]) has_[d.index()] = true, --absent_;
  }
  bool has(int device) const { return has_[static_cast<size_t>(device)] != 0; }
  int absent() const { return absent_; }

 private:
  std::vector<char> has_;
  int absent_;
  Mesh last_;
};

// Returns the devices on which tensors are, or through which they pass.
Devices that_hold(const Resolved& resolved, int all) {
  Devices devices(all);
  for (const Layout& kept_layout : resolved.kept_layouts) devices.add(kept_layout.mesh);
  for (const ResolvedConversion& converted : resolved.conversions)
    for (const Step& step : converted.conversion.steps) devices.add(step.from.mesh), devices.add(step.to.mesh);
  return devices;
}

IdleDevices::Type& type_of(IdleDevices& idle, const std::string& type) {
  const auto known = std::ranges::find(idle.types, type, &IdleDevices::Type::type);
  return known != idle.types.end() ? *known : idle.types.emplace_back(IdleDevices::Type{type});
}

}  // namespace

IdleDevices idle_devices(const Planned& planned) {
  IdleDevices idle;
  if (planned.search.estimate || !planned.resolved) return idle;
  const int all = planned.cluster.compute_count;
  Devices computing(all);
  for (const OpChoice& choice : planned.plan.ops) computing.add(choice.mesh);
  idle.count = computing.absent();
  if (idle.count == 0) return idle;
  const Devices holding = that_hold(*planned.resolved, all);
  for (int d = 0; d < all; ++d) {
    IdleDevices::Type& type = type_of(idle, planned.cluster.devices[static_cast<size_t>(d)].model);
    ++type.all;
    if (computing.has(d)) continue;
    ++type.idle;
    idle.holding += holding.has(d);
  }
  std::erase_if(idle.types, [](const IdleDevices::Type& type) { return type.idle == 0; });
  return idle;
}

std::string idle_text(const Planned& planned) {
  const IdleDevices idle = idle_devices(planned);
  if (idle.count == 0) return "";
  std::vector<std::string> types;
  for (const IdleDevices::Type& type : idle.types)
    types.push_back(type.idle == type.all ? fmt::format("all {} {}", type.all, type.type)
                                          : fmt::format("{} of {} {}", type.idle, type.all, type.type));
  const std::string holding =
      idle.holding == 0 ? "" : fmt::format(", of which {} hold{} tensors", idle.holding, idle.holding == 1 ? "s" : "");
  return fmt::format("{} of {} devices compute{} nothing: {}{}", idle.count, planned.cluster.compute_count,
                     idle.count == 1 ? "s" : "", fmt::join(types, ", "), holding);
}

}  // namespace partita
