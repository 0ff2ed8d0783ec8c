// Finds the indices by which a run of stages can go in slices.
#include "partita/kernel_plan/slices.h"

#include <algorithm>
#include <map>
#include <optional>

#include "partita/kernel_plan/generic.h"
#include "partita/tdl/affine.h"

namespace partita {

using tdl::Affine;
using tdl::Bound;
using tdl::Expr;
using tdl::Stage;

namespace {

// The role of an index in a stage.
enum class Role {
  kLeft,     // it is one axis of its tensor
  kReduced,  // it is reduced
  kNone,     // nothing
  kOther,
};
using Roles = std::vector<Role>;  // one a stage of the run

bool contains(const std::vector<int>& list, int i) { return std::find(list.begin(), list.end(), i) != list.end(); }

bool contains(const Roles& roles, Role role) { return std::find(roles.begin(), roles.end(), role) != roles.end(); }

Role role_of(const Stage& stage, int index) {
  const auto axes = std::count_if(stage.lhs.begin(), stage.lhs.end(),
                                  [&](const Affine& form) { return tdl::uses_index(form, index); });
  const bool reduced = stage.body.kind == tdl::ExprKind::kReduce && contains(stage.body.reduced, index);
  if (axes == 0) return reduced ? Role::kReduced : Role::kNone;
  const bool plain =
      std::any_of(stage.lhs.begin(), stage.lhs.end(), [&](const Affine& form) { return form.plain_index() == index; });
  return axes == 1 && plain && !reduced ? Role::kLeft : Role::kOther;
}

size_t axis_of(const Stage& stage, int index) {
  size_t axis = 0;
  while (stage.lhs[axis].plain_index() != index) ++axis;
  return axis;
}

// Tells whether the read has the index itself along this axis, and has it nowhere else.
bool reads_slice(const Expr& read, size_t axis, int index) {
  for (size_t a = 0; a < read.subscripts.size(); ++a)
    if (a == axis ? read.subscripts[a].plain_index() != index : tdl::uses_index(read.subscripts[a], index))
      return false;
  return axis < read.subscripts.size();
}

bool all_reads(const KernelRequest& r, int tensor, size_t axis, int index) {
  bool all = true;
  for (int s = r.first_stage; s < r.last_stage; ++s)
    tdl::for_each_read(r.bound.stages[s].body,
                       [&](const Expr& read) { all &= read.tensor != tensor || reads_slice(read, axis, index); });
  return all;
}

bool reads(const Expr& e, int tensor) {
  bool found = false;
  tdl::for_each_read(e, [&](const Expr& read) { found |= read.tensor == tensor; });
  return found;
}

// An operand that a result reads at its own index may be the same memory (PHYSICAL.md section 4). So no slice may read
// what another slice writes there.
bool spares_operands(const KernelRequest& r, const Roles& roles, int index) {
  for (int s = r.first_stage; s < r.last_stage; ++s) {
    const Stage& stage = r.bound.stages[s];
    if (!r.held.written[stage.tensor] || roles[s - r.first_stage] != Role::kLeft) continue;
    for (size_t t = 0; t < r.bound.tensors.size(); ++t) {
      const int tensor = static_cast<int>(t);
      if (r.held.written[t] || !r.held.shards[t] || r.bound.tensors[t].shape != r.bound.tensors[stage.tensor].shape ||
          !reads(stage.body, tensor) || !reads_only_at(stage.body, tensor, stage.lhs))
        continue;
      if (!all_reads(r, tensor, axis_of(stage, index), index)) return false;
    }
  }
  return true;
}

// The roles of an index in the stages if the run can go in slices of it; empty if it can't.
std::optional<Roles> roles_of(const KernelRequest& r, int index) {
  Roles roles;
  for (int s = r.first_stage; s < r.last_stage; ++s) roles.push_back(role_of(r.bound.stages[s], index));
  if (contains(roles, Role::kOther) || !contains(roles, Role::kLeft)) return std::nullopt;
  bool fits = true;
  for (int s = r.first_stage; s < r.last_stage; ++s)
    tdl::for_each_read(r.bound.stages[s].body, [&](const Expr& read) {
      const int made = r.bound.stage_of(read.tensor);
      if (made < r.first_stage || made >= r.last_stage) return;
      const Role role = roles[made - r.first_stage];
      if (role == Role::kLeft) fits &= reads_slice(read, axis_of(r.bound.stages[made], index), index);
      if (role == Role::kReduced) fits &= roles[s - r.first_stage] == Role::kNone;
    });
  if (!fits || !spares_operands(r, roles, index)) return std::nullopt;
  return roles;
}

// Places the stages around the loop over inner indices with these roles. False if a stage inside needs one that can't
// come before the loop.
bool arrange(const KernelRequest& r, const Roles& roles, SliceLoops& loops) {
  std::vector<bool> early(roles.size());
  for (size_t s = roles.size(); s-- > 0;) {
    if (roles[s] == Role::kNone && !early[s]) continue;
    bool fits = true;
    tdl::for_each_read(r.bound.stages[r.first_stage + static_cast<int>(s)].body, [&](const Expr& read) {
      const int made = r.bound.stage_of(read.tensor) - r.first_stage;
      if (made < 0 || made >= static_cast<int>(roles.size())) return;
      if (roles[made] == Role::kNone) early[made] = true;
      else if (early[s]) fits = false;
    });
    if (!fits) return false;
  }
  for (size_t s = 0; s < roles.size(); ++s) {
    const int stage = r.first_stage + static_cast<int>(s);
    if (early[s] && (!loops.inside.empty() || !loops.after.empty())) return false;
    (early[s] ? loops.before : roles[s] == Role::kNone ? loops.after : loops.inside).push_back(stage);
  }
  return true;
}

// Sorts indices in the order of the axes of the largest internal tensor inside.
void sort_indices(const KernelRequest& r, SliceLoops& loops) {
  const Stage* largest = nullptr;
  int64_t elements = 0;
  for (int s : loops.inside) {
    const Stage& stage = r.bound.stages[s];
    const int64_t n = volume(stage_box(r.bound, s, r.ranges));
    if (r.held.written[stage.tensor] || n <= elements) continue;
    largest = &stage, elements = n;
  }
  if (!largest) return;
  const auto place = [&](int index) {
    size_t axis = 0;
    while (axis < largest->lhs.size() && largest->lhs[axis].plain_index() != index) ++axis;
    return axis;
  };
  for (auto* indices : {&loops.outer, &loops.inner})
    std::stable_sort(indices->begin(), indices->end(), [&](int a, int b) { return place(a) < place(b); });
}

}  // namespace

std::vector<SliceLoops> find_loops(const KernelRequest& r) {
  SliceLoops outer;
  std::map<Roles, std::vector<int>> groups;  // of inner indices
  const bool any_empty = std::any_of(r.ranges.begin(), r.ranges.end(), [](Interval i) { return i.empty(); });
  for (int i = 0; !any_empty && i < static_cast<int>(r.bound.indices.size()); ++i) {
    if (r.ranges[i].size() == 1) continue;
    const std::optional<Roles> roles = roles_of(r, i);
    if (!roles) continue;
    const bool everywhere = std::all_of(roles->begin(), roles->end(), [](Role role) { return role == Role::kLeft; });
    (everywhere ? outer.outer : groups[*roles]).push_back(i);
  }
  std::vector<SliceLoops> found;
  for (const auto& [roles, indices] : groups) {
    SliceLoops loops = outer;
    loops.inner = indices;
    if (arrange(r, roles, loops)) found.push_back(std::move(loops));
  }
  if (found.empty() && !outer.outer.empty()) {
    for (int s = r.first_stage; s < r.last_stage; ++s) outer.inside.push_back(s);
    found.push_back(std::move(outer));
  }
  for (SliceLoops& loops : found) sort_indices(r, loops);
  return found;
}

}  // namespace partita
