// Finds products and attention in the stages of a kernel.
#include "partita/cost/kernel_form.h"

#include <algorithm>
#include <numeric>

namespace partita {

namespace {

bool has_exponential(const tdl::Expr& e) {
  return (e.kind == tdl::ExprKind::kUnary && e.function == "exp") ||
         std::any_of(e.args.begin(), e.args.end(), has_exponential);
}

bool is_result(const tdl::Bound& bound, int tensor) {
  return std::find(bound.results.begin(), bound.results.end(), tensor) != bound.results.end();
}

// Tells whether a later product of `form` multiplies an exponential of the result of stage `scores`.
bool feeds_through_exponential(const tdl::Bound& bound, int last, const KernelForm& form, int scores) {
  enum Reach { kNone, kPlain, kExponential };
  std::vector<Reach> reach(bound.tensors.size(), kNone);
  reach[static_cast<size_t>(bound.stages[static_cast<size_t>(scores)].tensor)] = kPlain;
  for (int s = scores + 1; s < last; ++s) {
    const tdl::Stage& stage = bound.stages[static_cast<size_t>(s)];
    Reach most = kNone;
    tdl::for_each_read(stage.body,
                       [&](const tdl::Expr& read) { most = std::max(most, reach[static_cast<size_t>(read.tensor)]); });
    const bool multiplies = std::any_of(form.products.begin(), form.products.end(),
                                        [&](const tdl::MatrixProduct& p) { return p.stage == s; });
    if (multiplies && most == kExponential) return true;
    if (most == kPlain && has_exponential(stage.body)) most = kExponential;
    reach[static_cast<size_t>(stage.tensor)] = most;
  }
  return false;
}

// The largest of 1, 2, 4, 8 and 16 that divides all rows.
int alignment(const tdl::MatrixProduct& product, const std::vector<Interval>& ranges) {
  int64_t common = 16;
  for (int i : product.innermost) common = std::gcd(common, ranges[static_cast<size_t>(i)].size());
  return static_cast<int>(common);
}

}  // namespace

KernelForm kernel_form_of(const tdl::Bound& bound, int first, int last) {
  KernelForm form;
  form.products = tdl::matrix_products(bound, first, last);
  if (form.products.empty()) {
    form.second_passes = second_passes(bound, first, last);
    return form;
  }
  for (int s = first; s < last; ++s) form.stages.push_back(tdl::stage_points(bound.stages[static_cast<size_t>(s)]));
  for (size_t p = 0; p < form.products.size() && !form.fused_attention; ++p) {
    const int scores = form.products[p].stage;
    if (is_result(bound, bound.stages[static_cast<size_t>(scores)].tensor)) continue;
    form.fused_attention = feeds_through_exponential(bound, last, form, scores);
    if (form.fused_attention) std::swap(form.products[0], form.products[p]);
  }
  return form;
}

KernelSize kernel_size_over(const KernelForm& form, const std::vector<Interval>& ranges, double flops) {
  KernelSize kernel;
  kernel.flops = flops;
  if (form.products.empty()) {
    kernel.reread_fraction = part_read_again(form.second_passes, ranges);
    return kernel;
  }
  double unguarded = 0;
  for (const tdl::StagePoints& stage : form.stages) unguarded += stage.flops(ranges);
  for (const tdl::MatrixProduct& p : form.products) {
    const Product product{tdl::count_points(p.batch, ranges), tdl::count_points(p.m, ranges),
                          tdl::count_points(p.n, ranges), tdl::count_points(p.k, ranges), alignment(p, ranges)};
    if (product.flops() > 0) kernel.products.push_back(product);
  }
  kernel.computed = unguarded > 0 ? std::min(1.0, flops / unguarded) : 0;
  kernel.fused_attention = form.fused_attention && kernel.products.size() == form.products.size();
  return kernel;
}

const KernelForm& KernelFormCache::of(const std::shared_ptr<const tdl::Bound>& bound, int first, int last) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<const KernelForm>& known = known_[{bound, first, last}];
  if (!known) known = std::make_unique<const KernelForm>(kernel_form_of(*bound, first, last));
  return *known;
}

}  // namespace partita
