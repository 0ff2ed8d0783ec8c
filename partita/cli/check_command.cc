// check: checks a plan, or the proof of a bound on the plans of its space.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/cli/commands.h"
#include "partita/cli/progress.h"
#include "partita/cost/isolated_costs.h"
#include "partita/network/problem.h"
#include "partita/search/joint/bound_proof.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

// Plan files begin with their version; problems have none.
bool is_plan(const std::string& file) {
  return solver::read_text(file).substr(0, 4096).find("\"schema_version\"") != std::string::npos;
}

int check_plan_bound(const Arguments& a) {
  Runner runner(true, a.dump);
  const Planned p = open_plan(a.target, runner);
  const BoundProof proof = parse_proof(solver::read_text(a.bound), a.bound);
  int64_t bound = 0;
  try {
    bound = check_proof(proof, p.training, p.cluster, p.plan);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    fail("{}: {}", a.bound, error.what());
  }
  const bool in_time = proof.objective == text_of(Objective::kTime);
  const int64_t cost = in_time ? serial_ns(p.training, *p.resolved, p.cluster) : p.report.comm_bytes;
  const bool inside = bound <= cost;
  if (a.json) {
    Json json = in_time ? Json{{"serial_time_us", static_cast<double>(cost) / 1e3},
                               {"lower_bound_serial_time_us", static_cast<double>(bound) / 1e3}}
                        : Json{{"comm_bytes", cost}, {"lower_bound_comm_bytes", bound}};
    if (inside) json["gap"] = gap_of(cost, bound);
    json["search"] = proof.search;
    json["mesh"] = proof.mesh.extents;
    json["memory_limit_bytes"] = proof.memory_limit_bytes;
    print_json(std::move(json));
    return 0;
  }
  const size_t pins = proof.pinned_ops.size() + proof.pinned_tensors.size();
  auto text = [&](int64_t x) {
    return in_time ? time_text(static_cast<double>(x)) : megabytes(static_cast<double>(x));
  };
  fmt::print("{}: proved; no plan of {}'s space on mesh {} within {} a device{} {}\n", a.bound, proof.search,
             fmt::join(proof.mesh.extents, "x"), megabytes(static_cast<double>(proof.memory_limit_bytes)),
             pins > 0 ? fmt::format(" (pins: {})", pins) : "",
             in_time ? fmt::format("takes less than {} if nothing overlapped", text(bound))
                     : fmt::format("moves less than {} ({} bytes)", text(bound), bound));
  const char* does = in_time ? "takes" : "moves";
  if (inside) fmt::print("{}: sound; it {} {}, gap {:.4f}%\n", a.target, does, text(cost), 100 * gap_of(cost, bound));
  else fmt::print("{}: sound; it {} {}, less than that: it lies outside of this space\n", a.target, does, text(cost));
  return 0;
}

}  // namespace

int check_command(const Arguments& a) {
  if (!a.bound.empty() && is_plan(a.target)) return check_plan_bound(a);
  if (!a.bound.empty()) {
    if (!a.dump.empty())
      throw Error(ExitCode::kUsage,
                  fmt::format("--dump has the steps of a plan; {} is a problem, not a plan", a.target));
    return check_bound_command(a);
  }
  Runner runner(true, a.dump);
  Planned p = open_plan(a.target, runner);
  if (a.json) {
    Json json = {{"comm_bytes", p.report.comm_bytes},
                 {"inner_bytes", p.report.inner_bytes},
                 {"conversions", p.report.conversions},
                 {"peak_memory_bytes", p.peak_memory_bytes()},
                 {"least_memory_bytes", p.least_memory_bytes()}};
    if (!p.representatives.empty()) json["typical_devices"] = representative_devices_of(p);
    print_json(std::move(json));
  } else
    fmt::print("{}: sound; it moves {} a step in {} conversions, and needs {} on {}{}\n", a.target,
               megabytes(static_cast<double>(p.report.comm_bytes)), p.report.conversions,
               megabytes(static_cast<double>(p.peak_memory_bytes())),
               p.representatives.empty() ? "one device" : fmt::format("one of {}", representative_devices_text(p)),
               least_memory_text(p));
  return 0;
}

}  // namespace partita
