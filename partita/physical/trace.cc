// Writes traces for Perfetto, and as JSON that parses again.
#include "partita/physical/trace.h"

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "partita/base/error.h"

namespace partita {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

Json micro_seconds(int64_t ns) { return static_cast<double>(ns) / 1000; }

Json metadata(const char* what, int pid, int tid, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}};
}

// A process a device, numbered from `first`; the links, which belong to none, are one more.
void add_events(const Trace& trace, const PhysicalGraph& graph, const Cluster& cluster, const std::string& name,
                int first, Json& events) {
  const int links = first + graph.device_count;
  const auto pid_of = [&](const Queue& queue) {
    return queue.kind == QueueKind::kLink ? links : first + queue.device.value;
  };
  const auto device_name = [&](int d) {
    return name +
           (d < static_cast<int>(cluster.devices.size()) ? cluster.devices[d].name : fmt::format("device {}", d));
  };
  std::vector<bool> used(graph.queues.size(), false);
  for (const Event& event : trace.events) used[graph.task(event.task).queue.index()] = true;
  for (int d = 0; d < graph.device_count; ++d) events.push_back(metadata("process_name", first + d, 0, device_name(d)));
  events.push_back(metadata("process_name", links, 0, name + "links"));
  for (std::size_t q = 0; q < graph.queues.size(); ++q)
    if (used[q])
      events.push_back(metadata("thread_name", pid_of(graph.queues[q]), static_cast<int>(q), graph.queues[q].name));
  for (const Event& event : trace.events) {
    const Task& task = graph.task(event.task);
    Json args = {{"step", event.step}, {"act", event.firing}, {"flops", task.flops}, {"bytes", task.bytes}};
    if (const auto found = trace.algorithms.find(event.task); found != trace.algorithms.end())
      args["algorithm"] = found->second;
    if (trace.estimated.contains(event.task)) args["estimated"] = true;
    events.push_back({{"name", task.name},
                      {"cat", name_of(task.phase)},
                      {"ph", "X"},
                      {"ts", micro_seconds(event.start_ns)},
                      {"dur", micro_seconds(event.end_ns - event.start_ns)},
                      {"pid", pid_of(graph.queues[task.queue.index()])},
                      {"tid", task.queue.value},
                      {"args", std::move(args)}});
  }
  for (const MemorySample& sample : trace.memory)
    events.push_back({{"name", "memory"},
                      {"ph", "C"},
                      {"ts", micro_seconds(sample.time_ns)},
                      {"pid", first + sample.device.value},
                      {"tid", 0},
                      {"args", {{"bytes", sample.bytes}}}});
}

std::string with_events(Json events) {
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump();
}

}  // namespace

std::string chrome_trace(const Trace& trace, const PhysicalGraph& graph, const Cluster& cluster) {
  Json events = Json::array();
  add_events(trace, graph, cluster, "", 0, events);
  return with_events(std::move(events));
}

std::string chrome_trace(const std::vector<NamedTrace>& traces, const Cluster& cluster) {
  Json events = Json::array();
  int first = 0;
  for (const NamedTrace& t : traces) {
    add_events(t.trace, t.graph, cluster, t.name + ": ", first, events);
    first += t.graph.device_count + 1;
  }
  return with_events(std::move(events));
}

std::string print(const Trace& trace, const PhysicalGraph& graph) {
  Json events = Json::array(), memory = Json::array(), algorithms = Json::object(), estimated = Json::array();
  for (const TaskId task : trace.estimated) estimated.push_back(graph.task(task).name);
  for (const auto& [task, name] : trace.algorithms) algorithms[graph.task(task).name] = name;
  for (const Event& e : trace.events)
    events.push_back({{"task", graph.task(e.task).name},
                      {"step", e.step},
                      {"act", e.firing},
                      {"start_ns", e.start_ns},
                      {"end_ns", e.end_ns}});
  for (const MemorySample& m : trace.memory)
    memory.push_back({{"device", m.device.value}, {"time_ns", m.time_ns}, {"bytes", m.bytes}});
  Json json = {{"schema_version", kSchemaVersion},
               {"graph", graph.name},
               {"steps", trace.steps},
               {"step_time_ns", trace.step_time_ns},
               {"events", std::move(events)},
               {"memory", std::move(memory)},
               {"link_bytes", trace.link_bytes},
               {"algorithms", std::move(algorithms)}};
  if (!estimated.empty()) json["estimated"] = std::move(estimated);
  return json.dump(1) + "\n";
}

Trace parse_trace(std::string_view text, const PhysicalGraph& graph) {
  std::unordered_map<std::string, TaskId> tasks;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) tasks.emplace(graph.tasks[t].name, TaskId(t));
  try {
    const Json json = Json::parse(text);
    if (const int version = json.at("schema_version"); version != kSchemaVersion)
      fail("trace: schema_version {}, this program reads {}", version, kSchemaVersion);
    Trace trace;
    trace.steps = json.at("steps");
    trace.step_time_ns = json.at("step_time_ns");
    for (const Json& e : json.at("events")) {
      const std::string name = e.at("task");
      const auto task = tasks.find(name);
      if (task == tasks.end()) fail("trace: physical graph '{}' has no task '{}'", graph.name, name);
      const Event event{task->second, e.at("step"), e.at("act"), e.at("start_ns"), e.at("end_ns")};
      if (event.firing < 0 || event.firing >= graph.task(event.task).rate || event.end_ns < event.start_ns)
        fail("trace: task '{}' acts {} times a step; act {} from {} to {} ns", name, graph.task(event.task).rate,
             event.firing, event.start_ns, event.end_ns);
      trace.events.push_back(event);
    }
    for (const auto& [name, algorithm] : json.at("algorithms").items()) {
      const auto task = tasks.find(name);
      if (task == tasks.end()) fail("trace: physical graph '{}' has no task '{}'", graph.name, name);
      trace.algorithms.emplace(task->second, algorithm.get<std::string>());
    }
    for (const Json& m : json.at("memory")) {
      const int device = m.at("device");
      if (device < 0 || device >= graph.device_count) fail("trace: device {} of {}", device, graph.device_count);
      trace.memory.push_back({DeviceId(device), m.at("time_ns"), m.at("bytes")});
    }
    trace.link_bytes = json.at("link_bytes").get<std::vector<int64_t>>();
    return trace;
  } catch (const Json::exception& error) {
    fail("trace: {}", error.what());
  }
}

}  // namespace partita
