#include "partita/physical/registered.h"

#include <algorithm>
#include <map>

#include "partita/base/error.h"

namespace partita {

Interval WindowAxis::outs(int64_t k) const {
  auto ceil_div = [](int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); };
  const int64_t shift = before - k * dilation;
  return intersect(out, {ceil_div(at.lo + shift, stride), ceil_div(at.hi + shift, stride)});
}

namespace {

class Planner {
 public:
  Planner(const KernelWork& work, const std::vector<Interval>& ranges, const KernelParts& held)
      : work_(work), bound_(*work.bound), ranges_(ranges), held_(held) {}

  int64_t attribute(const char* name) const { return static_cast<int64_t>(work_.attributes.at(name)); }
  Interval range(const char* name) const {
    const int i = bound_.find_index(name);
    return i < 0 ? Interval{0, 1} : ranges_[i];
  }
  // A gradient that was derived has names of its own for its operands and for some of its indices: they are found by
  // their places. The ranges of the indices along the first stage's result, and along an operand; nothing where they
  // are not plain indices.
  std::vector<Interval> along_result() const { return ranges_of(bound_.stages[0].lhs); }
  std::vector<Interval> along(int operand) const {
    std::vector<Interval> result;
    tdl::for_each_read(bound_.stages[0].body, [&](const tdl::Expr& read) {
      if (read.tensor == operand) result = ranges_of(read.subscripts);
    });
    return result;
  }
  bool grouped() const { return work_.attributes.contains("groups") && attribute("groups") > 1; }
  // An operand of real numbers and this rank, stored as the kernel computes or in two bytes; -1 where it is not one.
  int real_operand(int t, size_t rank) const { return t < bound_.operand_count && is_real(t, rank) ? t : -1; }
  bool is_real(int t, size_t rank) const {
    return held_.parts[t] && is_real(held_.parts[t]->dtype) && held_.parts[t]->box.size() == rank;
  }
  bool is_real(DType dtype) const { return is_float(dtype) && computed_in(dtype) == held_.real; }
  // Scratch for `elements` of a tensor where it must be copied to be computed with.
  int64_t copy_bytes(int t, int64_t elements) const {
    return held_.parts[t]->dtype == held_.real ? 0 : rounded(elements * element());
  }
  // x, over its axes as stored, but for its channels in groups. False where that is no box, or nothing is held.
  bool input(WindowPlan& plan, int operand) const {
    plan.x = operand;
    if (!held_.parts[plan.x] || !is_real(held_.parts[plan.x]->dtype) || is_empty(held_.parts[plan.x]->box))
      return false;
    Shape axes = bound_.tensors[plan.x].shape;
    if (plan.grouped) {
      const int64_t groups = attribute("groups");
      axes[1] /= groups;
      axes.insert(axes.begin() + 1, groups);
    }
    const auto part = try_over_axes(*held_.parts[plan.x], bound_.tensors[plan.x].factored, axes);
    if (part) plan.input = *part;
    return part.has_value();
  }
  const Part& part(int t) const { return *held_.parts[t]; }
  int64_t element() const { return bytes_of(held_.real); }

  WindowAxis axis(const char* stride, const char* dilation, const char* before, Interval out, Interval at,
                  Interval window) const {
    return {attribute(stride), attribute(dilation), attribute(before), out, at, window};
  }
  // Axes [from, to) of a part lie as one, and the elements of the innermost one after another.
  static bool dense(const Part& part, const Box& box, size_t from, size_t to) {
    int64_t stride = 1;
    for (size_t a = to; a-- > from;) {
      if (box[a].size() != 1 && part.strides[a] != stride) return false;
      stride *= box[a].size();
    }
    return true;
  }
  std::vector<Interval> ranges_of(const std::vector<tdl::Affine>& forms) const {
    std::vector<Interval> result;
    for (const tdl::Affine& form : forms) {
      const int i = form.plain_index();
      if (i < 0 && (!form.terms.empty() || form.constant != 0)) return {};
      result.push_back(i < 0 ? Interval{0, 1} : ranges_[i]);
    }
    return result;
  }
  bool any_empty() const {
    return std::any_of(ranges_.begin(), ranges_.end(), [](Interval i) { return i.empty(); });
  }

  const KernelWork& work_;
  const tdl::Bound& bound_;
  const std::vector<Interval>& ranges_;
  const KernelParts& held_;
};

constexpr int64_t kBudgetBytes = int64_t{1} << 20;  // of a block of columns: a core's cache holds it

// out[n] = w columns(x[n]), a block of result rows at a time; the bias is added last.
std::optional<WindowPlan> plan_conv2d(const KernelWork& work, const std::vector<Interval>& ranges,
                                      const KernelParts& held) {
  const Planner p(work, ranges, held);
  WindowPlan plan;
  plan.grouped = p.grouped();
  const size_t rank = plan.grouped ? 5 : 4;
  if (p.any_empty() || work.first_stage != 0) return std::nullopt;
  plan.w = p.real_operand(1, rank);
  plan.result = p.bound_.stages[work.last_stage - 1].tensor;
  if (work.last_stage == 2) plan.b = p.real_operand(2, rank - 3);
  if (!p.input(plan, 0) || plan.w < 0 || !p.is_real(plan.result, rank) || (work.last_stage == 2 && plan.b < 0) ||
      work.last_stage > 2)
    return std::nullopt;
  if (work.last_stage == 2 && held.written[p.bound_.stages[0].tensor]) return std::nullopt;
  const std::vector<Interval> of_result = p.along_result(),
                              of_w = p.along(plan.w);  // [n, (q), o, y, z], [(q), o, c, r, t]
  if (of_result.size() != rank || of_w.size() != rank) return std::nullopt;
  plan.n = of_result[0], plan.q = plan.grouped ? of_w[0] : Interval{0, 1}, plan.o = of_w[rank - 4],
  plan.c = of_w[rank - 3];
  const Part& x = plan.input;
  plan.rows = p.axis("sh", "dh", "pt", of_result[rank - 2], x.box[rank - 2], of_w[rank - 2]);
  plan.columns = p.axis("sw", "dw", "pl", of_result[rank - 1], x.box[rank - 1], of_w[rank - 1]);
  const Box w_box{plan.o, plan.c, plan.rows.window, plan.columns.window};
  Part w = p.part(plan.w), out = p.part(plan.result);
  if (plan.grouped) {
    w.strides.erase(w.strides.begin());
    out.strides.erase(out.strides.begin());
  }
  if (!Planner::dense(w, w_box, 1, 4) || !Planner::dense(out, {plan.n, plan.o, plan.rows.out, plan.columns.out}, 2, 4))
    return std::nullopt;
  const int64_t row =
      plan.c.size() * plan.rows.window.size() * plan.columns.window.size() * plan.columns.out.size() * p.element();
  plan.block = std::clamp<int64_t>(kBudgetBytes / row, 1, plan.rows.out.size());
  plan.real = held.real;
  plan.scratch_bytes = rounded(row * plan.block) + p.copy_bytes(plan.w, volume(w_box) * plan.q.size()) +
                       p.copy_bytes(plan.result, plan.o.size() * plan.block * plan.columns.out.size()) +
                       (plan.b < 0 ? 0 : p.copy_bytes(plan.b, plan.o.size()));
  return plan;
}

// columns = w^T g[n], a block of channels at a time, then added to where they come from.
std::optional<WindowPlan> plan_conv2d_data_grad(const KernelWork& work, const std::vector<Interval>& ranges,
                                                const KernelParts& held) {
  const Planner p(work, ranges, held);
  WindowPlan plan;
  plan.grouped = p.grouped();
  const size_t rank = plan.grouped ? 5 : 4;
  if (p.any_empty() || work.first_stage != 0 || work.last_stage != 1) return std::nullopt;
  plan.g = p.real_operand(0, rank);
  plan.w = p.real_operand(1, rank);
  plan.result = p.bound_.stages[0].tensor;
  if (plan.g < 0 || plan.w < 0 || !p.is_real(plan.result, rank)) return std::nullopt;
  const std::vector<Interval> of_result = p.along_result(),
                              of_w = p.along(plan.w);  // [n, (q), c, u, v], [(q), o, c, r, t]
  if (of_result.size() != rank || of_w.size() != rank) return std::nullopt;
  plan.n = of_result[0], plan.q = plan.grouped ? of_w[0] : Interval{0, 1}, plan.o = of_w[rank - 4],
  plan.c = of_w[rank - 3];
  Part g = p.part(plan.g), w = p.part(plan.w);
  if (is_empty(g.box)) return std::nullopt;
  plan.rows = p.axis("sh", "dh", "pt", g.box[rank - 2], of_result[rank - 2], of_w[rank - 2]);
  plan.columns = p.axis("sw", "dw", "pl", g.box[rank - 1], of_result[rank - 1], of_w[rank - 1]);
  const Box g_box{plan.n, plan.o, plan.rows.out, plan.columns.out},
      w_box{plan.o, plan.c, plan.rows.window, plan.columns.window};
  if (plan.grouped) {
    g.strides.erase(g.strides.begin());
    w.strides.erase(w.strides.begin());
  }
  if (!Planner::dense(g, g_box, 2, 4) || !Planner::dense(w, w_box, 1, 4)) return std::nullopt;
  const int64_t channel = plan.rows.window.size() * plan.columns.window.size() * plan.rows.out.size() *
                          plan.columns.out.size() * p.element();
  plan.block = std::clamp<int64_t>(kBudgetBytes / channel, 1, plan.c.size());
  plan.real = held.real;
  plan.scratch_bytes = rounded(channel * plan.block) + p.copy_bytes(plan.w, volume(w_box) * plan.q.size()) +
                       p.copy_bytes(plan.g, plan.o.size() * plan.rows.out.size() * plan.columns.out.size()) +
                       p.copy_bytes(plan.result, plan.block * plan.rows.at.size() * plan.columns.at.size());
  return plan;
}

// result += g[n] columns(x[n])^T, a block of rows of g at a time.
std::optional<WindowPlan> plan_conv2d_weight_grad(const KernelWork& work, const std::vector<Interval>& ranges,
                                                  const KernelParts& held) {
  const Planner p(work, ranges, held);
  WindowPlan plan;
  plan.grouped = p.grouped();
  const size_t rank = plan.grouped ? 5 : 4;
  if (p.any_empty() || work.first_stage != 0 || work.last_stage != 1) return std::nullopt;
  plan.g = p.real_operand(0, rank);
  plan.result = p.bound_.stages[0].tensor;
  if (plan.g < 0 || !p.input(plan, 1) || !p.is_real(plan.result, rank)) return std::nullopt;
  const std::vector<Interval> of_result = p.along_result(),
                              of_g = p.along(plan.g);  // [(q), o, c, r, t], [n, (q), o, y, z]
  if (of_result.size() != rank || of_g.size() != rank) return std::nullopt;
  plan.n = of_g[0], plan.q = plan.grouped ? of_result[0] : Interval{0, 1}, plan.o = of_result[rank - 4],
  plan.c = of_result[rank - 3];
  const Part& x = plan.input;
  Part g = p.part(plan.g), out = p.part(plan.result);
  plan.rows = p.axis("sh", "dh", "pt", of_g[rank - 2], x.box[rank - 2], of_result[rank - 2]);
  plan.columns = p.axis("sw", "dw", "pl", of_g[rank - 1], x.box[rank - 1], of_result[rank - 1]);
  if (plan.grouped) {
    g.strides.erase(g.strides.begin());
    out.strides.erase(out.strides.begin());
  }
  if (!Planner::dense(g, {plan.n, plan.o, plan.rows.out, plan.columns.out}, 2, 4)) return std::nullopt;
  if (!Planner::dense(out, {plan.o, plan.c, plan.rows.window, plan.columns.window}, 1, 4)) return std::nullopt;
  const int64_t depth = plan.c.size() * plan.rows.window.size() * plan.columns.window.size();
  const int64_t row = depth * plan.columns.out.size() * p.element();
  plan.block = std::clamp<int64_t>(kBudgetBytes / row, 1, plan.rows.out.size());
  plan.real = held.real;
  plan.scratch_bytes = rounded(row * plan.block) +
                       p.copy_bytes(plan.g, plan.o.size() * plan.block * plan.columns.out.size()) +
                       p.copy_bytes(plan.result, plan.o.size() * depth);
  return plan;
}

// The window's elements one after another, each compared with the largest so far: one mask a sample.
std::optional<WindowPlan> plan_max_pool(const KernelWork& work, const std::vector<Interval>& ranges,
                                        const KernelParts& held) {
  const Planner p(work, ranges, held);
  WindowPlan plan;
  if (p.any_empty() || work.first_stage != 0 || work.last_stage != 2) return std::nullopt;
  plan.result = p.bound_.stages[0].tensor;
  plan.index = p.bound_.stages[1].tensor;
  if (!p.input(plan, 0) || !p.is_real(plan.result, 4) || p.part(plan.result).dtype != plan.input.dtype ||
      !held.written[plan.result] || !held.written[plan.index] || p.part(plan.index).dtype != DType::kInt64)
    return std::nullopt;
  plan.n = p.range("n"), plan.c = p.range("c");
  plan.rows = p.axis("sh", "dh", "pt", p.range("y"), plan.input.box[2], p.range("r"));
  plan.columns = p.axis("sw", "dw", "pl", p.range("z"), plan.input.box[3], p.range("t"));
  if (plan.rows.window != Interval{0, p.attribute("kh")} || plan.columns.window != Interval{0, p.attribute("kw")})
    return std::nullopt;
  plan.scratch_bytes = rounded(plan.c.size() * plan.rows.out.size() * plan.columns.out.size());
  return plan;
}

// For each element of the window, the gradients of the windows that it won are added to where it lies: a mask and the
// masked gradients of a sample.
std::optional<WindowPlan> plan_max_pool_grad(const KernelWork& work, const std::vector<Interval>& ranges,
                                             const KernelParts& held) {
  const Planner p(work, ranges, held);
  WindowPlan plan;
  if (p.any_empty() || work.first_stage != 0 || work.last_stage != 1) return std::nullopt;
  plan.g = p.real_operand(1, 4);
  plan.index = 0;
  plan.result = p.bound_.stages[0].tensor;
  if (plan.g < 0 || !held.parts[plan.index] || held.parts[plan.index]->dtype != DType::kInt64 ||
      !p.is_real(plan.result, 4))
    return std::nullopt;
  const Box box = intersect(p.part(plan.g).box, held.parts[plan.index]->box);
  if (is_empty(box)) return std::nullopt;
  plan.n = p.range("n"), plan.c = p.range("c");
  plan.rows = p.axis("sh", "dh", "pt", box[2], p.range("u"), p.range("r"));
  plan.columns = p.axis("sw", "dw", "pl", box[3], p.range("v"), p.range("t"));
  const int64_t elements = plan.c.size() * plan.rows.out.size() * plan.columns.out.size();
  plan.real = held.real;
  plan.scratch_bytes = rounded(elements) + rounded(elements * p.element()) +
                       2 * rounded(p.element()) +  // and two numbers
                       p.copy_bytes(plan.result, plan.c.size() * plan.rows.at.size() * plan.columns.at.size());
  return plan;
}

// Formulas of the registry give all their windows' attributes; another one of the same name is not what the kernel
// knows.
bool has_attributes(const KernelWork& work) {
  for (const char* name : {"sh", "sw", "dh", "dw", "pt", "pl"})
    if (!work.attributes.contains(name)) return false;
  return true;
}

using WindowPlanner = std::optional<WindowPlan> (*)(const KernelWork&, const std::vector<Interval>&,
                                                    const KernelParts&);
// Null where there is none.
WindowPlanner window_planner(const std::string& definition) {
  static const std::map<std::string, WindowPlanner> kPlanners = {{"conv2d", plan_conv2d},
                                                                 {"conv2d_data_grad", plan_conv2d_data_grad},
                                                                 {"conv2d_weight_grad", plan_conv2d_weight_grad},
                                                                 {"max_pool", plan_max_pool},
                                                                 {"max_pool_grad", plan_max_pool_grad}};
  const auto found = kPlanners.find(definition);
  return found == kPlanners.end() ? nullptr : found->second;
}

}  // namespace

std::optional<WindowPlan> plan_windows(const KernelWork& work, const std::vector<Interval>& ranges,
                                       const KernelParts& held) {
  const WindowPlanner planner = window_planner(work.definition);
  if (!planner || !has_attributes(work)) return std::nullopt;
  return planner(work, ranges, held);
}

std::optional<PlacePlan> plan_expert_place(const KernelWork& work, const std::vector<Interval>& ranges,
                                           const KernelParts& held) {
  const tdl::Bound& bound = *work.bound;
  if (work.definition != "expert_place" || work.first_stage != 0 || work.last_stage != 3) return std::nullopt;
  auto range = [&](const char* name) { return ranges[static_cast<size_t>(bound.find_index(name))]; };
  const PlacePlan plan{0, bound.results[0], range("g"), range("t"), range("k"), range("u"), range("l")};
  for (int t : {plan.ix, plan.result})
    if (!held.parts[t] || held.parts[t]->dtype != DType::kInt64) return std::nullopt;
  for (int s : {0, 1})  // stages that others want
    if (held.written[bound.stages[s].tensor]) return std::nullopt;
  return plan;
}

std::optional<CountedPlan> plan_places(const KernelWork& work, const std::vector<Interval>& ranges,
                                       const KernelParts& held) {
  if (work.definition != "places" || work.first_stage != 0 || work.last_stage != 1) return std::nullopt;
  CountedPlan plan{0, work.bound->results[0], {}};
  for (int t : {plan.ids, plan.result})
    if (!held.parts[t] || held.parts[t]->dtype != DType::kInt64) return std::nullopt;
  if (!contains(held.parts[plan.ids]->box, stage_box(*work.bound, 0, ranges))) return std::nullopt;
  for (int64_t k = 0; work.attributes.contains(fmt::format("extents.{}", k)); ++k)
    plan.extents.push_back(static_cast<int64_t>(work.attributes.at(fmt::format("extents.{}", k))));
  return plan.extents.empty() ? std::nullopt : std::optional(plan);
}

bool is_registered(const std::string& definition) {
  return definition == "expert_place" || definition == "places" || window_planner(definition) != nullptr;
}

std::optional<int64_t> registered_workspace_bytes(const KernelWork& work, const std::vector<Interval>& ranges,
                                                  const KernelParts& held) {
  if (plan_expert_place(work, ranges, held) || plan_places(work, ranges, held)) return 0;
  const auto plan = plan_windows(work, ranges, held);
  if (!plan) return std::nullopt;
  return plan->scratch_bytes;
}

}  // namespace partita
