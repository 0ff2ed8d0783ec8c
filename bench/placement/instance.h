// Writes a placement problem and the schedule found for it as JSON, to be checked independently
// (bench/placement/judge.py).
//
//     {"name": "rnnlm-50", "model": "zoo:rnnlm?..", "caps": [0.08, 0.12],
//      "devices": [{"name": "gpu0", "memory_bytes": 17179869184}, ..],
//      "queues": 2, "ways": [from][to], each {"queue": 0, "protocols": [[latency_ns, ns_per_byte], ..]}, queue -1: none
//      "ops": [{"name": "a+2", "ns": [by device; -1: not there], "bytes": 0, "group": -1}, ..],
//      "values": [{"bytes": 100, "producer": 0, "readers": [1, 2]}, ..],                  bytes -1: order alone
//      "ours": {"end_ns": 12, "bound_ns": 12, "root_ns": 10, "seconds": 0.5, "nodes": 4, "order_nodes": 0,
//               "fine_gap": 0.1, "device": [by op], "start": [by op], "transfers": [[value, to, start], ..]}}
//
// Times are whole ns, those of routes are not. partita/device_placement/problem.h defines all terms. `caps`: the shares
// of time and memory that a vertex or group has at most. `seconds` includes the start's and the bounds'.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "partita/device_placement/problem.h"

namespace partita {

// The schedule and bounds found for a problem.
struct Found {
  PlacedSchedule schedule;
  int64_t bound_ns = 0, root_ns = 0;  // of the branch and bound; of no branch
  int64_t nodes = 0, order_nodes = 0;
  double seconds = 0, fine_gap = 0;  // of the step
};

using Json = nlohmann::ordered_json;

inline Json json_of(const Route& route) {
  Json protocols = Json::array({{route.latency_ns, route.ns_per_byte}});
  for (const auto& [latency_ns, ns_per_byte] : route.others) protocols.push_back({latency_ns, ns_per_byte});
  return {{"queue", route.queue}, {"protocols", std::move(protocols)}};
}

inline Json json_of(const Found& found) {
  Json transfers = Json::array();
  for (const PlacedTransfer& t : found.schedule.transfers) transfers.push_back({t.value, t.to, t.start});
  return {{"end_ns", found.schedule.end},  {"bound_ns", found.bound_ns},
          {"root_ns", found.root_ns},      {"seconds", found.seconds},
          {"nodes", found.nodes},          {"order_nodes", found.order_nodes},
          {"fine_gap", found.fine_gap},    {"device", found.schedule.device},
          {"start", found.schedule.start}, {"transfers", std::move(transfers)}};
}

// Writes the problem; the caller adds the rest.
inline Json json_of(const PlacementProblem& p) {
  Json devices = Json::array(), routes = Json::array(), ops = Json::array(), values = Json::array();
  for (const PlacedDevice& d : p.devices) devices.push_back({{"name", d.name}, {"memory_bytes", d.memory_bytes}});
  for (const std::vector<Route>& from : p.routes) {
    Json row = Json::array();
    for (const Route& route : from) row.push_back(json_of(route));
    routes.push_back(std::move(row));
  }
  for (const PlacedOp& op : p.ops)
    ops.push_back({{"name", op.name}, {"ns", op.ns}, {"bytes", op.bytes}, {"group", op.group}});
  for (const PlacedValue& v : p.values)
    values.push_back({{"bytes", v.bytes}, {"producer", v.producer}, {"readers", v.readers}});
  return {{"devices", std::move(devices)},
          {"queues", p.queues},
          {"ways", std::move(routes)},
          {"ops", std::move(ops)},
          {"values", std::move(values)}};
}

}  // namespace partita
