// Adds up a trace by device, by link and by groups of operations.
#include "partita/physical/use.h"

#include <algorithm>
#include <map>
#include <set>

#include "partita/graph/name_groups.h"

namespace partita {

namespace {

// Tells whether a task runs on a device's compute queue, as copies and sums of conversions do, or is a kernel on a
// host.
bool computes(const PhysicalGraph& physical, const Task& task) {
  return std::holds_alternative<KernelWork>(task.work) ||
         physical.queues[task.queue.index()].kind == QueueKind::kCompute;
}

struct Kernels {
  std::vector<std::vector<RowUse::Run>> of_op;  // by OpId, by start
  std::set<int> devices;                        // of the cluster
};

Kernels kernels_of(const Trace& trace, const PhysicalGraph& physical, const Graph& graph) {
  Kernels kernels{std::vector<std::vector<RowUse::Run>>(graph.ops.size()), {}};
  for (int d = 0; d < physical.compute_count; ++d) kernels.devices.insert(d);
  for (const Event& e : trace.events) {
    const Task& task = physical.task(e.task);
    if (!task.op.valid() || !computes(physical, task)) continue;
    kernels.of_op[task.op.index()].push_back({task.device.value, e.start_ns, e.end_ns});
    kernels.devices.insert(task.device.value);
  }
  return kernels;
}

std::vector<LinkUse> links_of(const Trace& trace, const PhysicalGraph& physical) {
  std::map<QueueId, LinkUse> by_queue;
  for (const Event& e : trace.events) {
    const Task& task = physical.task(e.task);
    const Queue& queue = physical.queues[task.queue.index()];
    if (queue.kind != QueueKind::kLink) continue;
    LinkUse& link = by_queue.try_emplace(task.queue, LinkUse{queue.name}).first->second;
    ++link.transfers;
    link.bytes += task.bytes;
    link.busy_ns += e.end_ns - e.start_ns;
  }
  std::vector<LinkUse> links;
  for (auto& [queue, link] : by_queue) links.push_back(std::move(link));
  std::stable_sort(links.begin(), links.end(),
                   [](const LinkUse& a, const LinkUse& b) { return a.busy_ns > b.busy_ns; });
  return links;
}

// By operation: the device on which it runs, or a number for each set of several devices.
std::vector<int> labels_of(const Kernels& kernels) {
  std::map<std::set<int>, int> number;
  std::vector<int> labels;
  for (const auto& runs : kernels.of_op) {
    std::set<int> on;
    for (const RowUse::Run& run : runs) on.insert(run.device);
    labels.push_back(number.try_emplace(on, static_cast<int>(number.size())).first->second);
  }
  return labels;
}

RowUse row_of(const OpNameGroup& group, const std::vector<int>& ops, const Kernels& kernels, size_t devices) {
  RowUse row;
  row.name = group.name;
  row.ops = static_cast<int>(group.members.size());
  row.compute_ns.resize(devices, 0);
  for (int member : group.members) {
    const auto& runs = kernels.of_op[static_cast<size_t>(ops[static_cast<size_t>(member)])];
    row.runs.insert(row.runs.end(), runs.begin(), runs.end());
  }
  std::stable_sort(row.runs.begin(), row.runs.end(),
                   [](const RowUse::Run& a, const RowUse::Run& b) { return a.start_ns < b.start_ns; });
  row.start_ns = row.runs.front().start_ns;
  for (RowUse::Run& run : row.runs) {
    run.device = static_cast<int>(std::distance(kernels.devices.begin(), kernels.devices.find(run.device)));
    row.compute_ns[static_cast<size_t>(run.device)] += run.end_ns - run.start_ns;
    row.end_ns = std::max(row.end_ns, run.end_ns);
  }
  return row;
}

std::vector<RowUse> rows_of(const Graph& graph, const Kernels& kernels, size_t most) {
  std::vector<int> ops, labels;
  std::vector<std::string> names;
  std::vector<double> weights;
  const std::vector<int> of_op = labels_of(kernels);
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    const auto& runs = kernels.of_op[o];
    if (runs.empty()) continue;
    double ns = 0;
    for (const RowUse::Run& run : runs) ns += static_cast<double>(run.end_ns - run.start_ns);
    ops.push_back(static_cast<int>(o)), labels.push_back(of_op[o]);
    names.push_back(graph.ops[o].name), weights.push_back(ns);
  }
  std::vector<RowUse> rows;
  for (const OpNameGroup& group : group_op_names(names, labels, weights, most))
    rows.push_back(row_of(group, ops, kernels, kernels.devices.size()));
  return rows;
}

}  // namespace

StepUse use_of(const Trace& trace, const PhysicalGraph& physical, const Graph& graph, size_t rows) {
  const Kernels kernels = kernels_of(trace, physical, graph);
  StepUse use;
  use.step_ns = trace.step_time_ns;
  for (int d : kernels.devices)
    use.devices.push_back({DeviceId(static_cast<size_t>(d)), 0, 0, physical.peak_bytes[static_cast<size_t>(d)]});
  for (const auto& runs : kernels.of_op) {
    std::set<int> on;
    for (const RowUse::Run& run : runs) {
      const auto at = std::distance(kernels.devices.begin(), kernels.devices.find(run.device));
      DeviceUse& device = use.devices[static_cast<size_t>(at)];
      device.compute_ns += run.end_ns - run.start_ns;
      device.ops += on.insert(run.device).second;
    }
  }
  use.links = links_of(trace, physical);
  use.rows = rows_of(graph, kernels, rows);
  return use;
}

char letter_of(size_t place) {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  return place < kLetters.size() ? kLetters[place] : '?';
}

std::string chart_of(const RowUse& row, int64_t step_ns, int columns) {
  std::string chart(static_cast<size_t>(columns), '.');
  if (step_ns <= 0) return chart;
  const auto column = [&](int64_t ns) {
    return std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(ns) / static_cast<double>(step_ns) * columns),
                               0, columns - 1);
  };
  for (const RowUse::Run& run : row.runs) {
    const char letter = letter_of(static_cast<size_t>(run.device));
    for (int64_t c = column(run.start_ns); c <= column(std::max(run.start_ns, run.end_ns - 1)); ++c) {
      char& at = chart[static_cast<size_t>(c)];
      at = at == '.' || at == letter ? letter : '*';
    }
  }
  return chart;
}

}  // namespace partita
