// Finds the one step straight from a layout to another: its kind, moved elements and groups. Internal to sharding/.
//
// Example: [P(sum), P(sum)] -> [B, B] on 2x4 changes both mesh axes from P(sum) to B: one all-reduce of 8 positions.
// [S(0), S(0)] -> [B, S(0)] is a fetch: the inner axis splits what the outer one stops to split.
#pragma once
#include <cstdint>
#include <optional>

#include "partita/sharding/count.h"
#include "partita/sharding/step.h"

namespace partita::boxing {

// A layout with its name, if it has one.
struct NamedLayout {
  Layout layout;
  std::optional<NdSbp> name;
};

struct NamedStep {
  StepKind kind;
  std::vector<int> axes;  // the mesh axes that change, which act as one
};

// Finds the step that changes one thing: some mesh axes, all from one Sbp to one other. Empty if none: then a fetch.
std::optional<NamedStep> step_between(const NamedLayout& from, const NamedLayout& to);
inline bool is_fetch(const std::optional<NamedStep>& step) { return !step || step->kind == StepKind::kFetch; }

// Elements moved by a step on one mesh that is no fetch: the table's figure for one group's shard, times the groups.
int64_t step_elements(const NamedStep& step, const Layout& from, const Layout& to, const ElementCounter& counter);
// Elements moved by the one step, of whatever kind.
int64_t direct_elements(const NamedLayout& from, const NamedLayout& to, const ElementCounter& counter);
Step direct_step(const NamedLayout& from, const NamedLayout& to, int64_t element_bytes, const ElementCounter& counter);
Step fetch_step(const Layout& from, const Layout& to, int64_t element_bytes, const ElementCounter& counter);

}  // namespace partita::boxing
