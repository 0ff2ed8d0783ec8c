// Declares mixture of experts (GShard, Lepikhin et al. 2020; Switch Transformer, Fedus et al. 2021). Tokens are routed
// within their group g. Every expert has `capacity` places for each group, given to first choices before second ones
// and to earlier tokens before later ones. Choices without a place are dropped. The choices are top_k of the gate's
// probabilities.
//
// The expert is an index e like any other: split on it, dispatch reads its tokens, the experts' products are local, and
// combine is P(sum). Split on g instead, dispatch and combine are local, and S(g) -> S(e) between them is the
// all-to-all.
//
// `dropless` says that no token is to be dropped: a plan then counts on `capacity`, and a run has a place for every
// token (graph/places.h).
#include "partita/base/error.h"
#include "partita/ops/declare.h"

namespace partita {
namespace {

std::string expert_dispatch(const OpInstance& op) {
  const int64_t experts = op.integer("experts"), capacity = op.integer("capacity");
  if (experts < 1 || capacity < 1) fail("expert_dispatch: {} experts of {} places", experts, capacity);
  return fmt::format(
      "expert_dispatch(x, ix, place)[g, e, c, d] where e < {}, c < {} =\n"
      "sum(t, k) if(ix[g, t, k] == e and place[g, t, k] == c, x[g, t, d], 0)",
      experts, capacity);
}

// Counts one addition for each choice that is seen, and one for each whose place is wanted.
double place_flops(const tdl::Bound& bound, const std::vector<Interval>& ranges) {
  auto size = [&](const char* index) {
    return static_cast<double>(ranges[static_cast<std::size_t>(bound.find_index(index))].size());
  };
  return size("g") * (size("u") * size("l") + size("t") * size("k"));
}

}  // namespace

void declare_experts(OpRegistry& registry) {
  const DType real = DType::kFloat32, integer = DType::kInt64;
  declare(registry, "expert_place", "the place of each token's k-th choice among all of its group for the same expert")
      .formula(
          "expert_place(ix)[g, t, k] =\n"
          "same[g, t, k] = sum(u) if(u < t and ix[g, u, k] == ix[g, t, k], 1, 0)\n"
          "before[g, t, k] = sum(u, l) if(l < k and ix[g, u, l] == ix[g, t, k], 1, 0)\n"
          "same[g, t, k] + before[g, t, k]")
      .dtypes(dtype_of_first)
      .flops(place_flops)
      .not_differentiable()
      .example({{2, 7, 2}}, {}, {integer})
      .integers_below(3)
      .example({{1, 5, 3}}, {}, {integer})
      .integers_below(4);
  declare(registry, "expert_dispatch", "tokens x [g, t, d] at their experts' places: [g, experts, capacity, d]")
      .formula(expert_dispatch)
      .required("experts")
      .required("capacity")
      .attribute("dropless", 0)
      .dtypes(dtype_of_first)
      .example({{2, 7, 3}, {2, 7, 2}, {2, 7, 2}}, {{"experts", 3}, {"capacity", 2}}, {real, integer, integer})
      .integers_below(3)
      .example({{1, 5, 4}, {1, 5, 1}, {1, 5, 1}}, {{"experts", 4}, {"capacity", 3}}, {real, integer, integer})
      .integers_below(4);
  declare(registry, "expert_combine",
          "what the experts made of each token, by the weights w [g, t, k]; 0 of what was dropped")
      .formula(
          "expert_combine(y, ix, place, w)[g, t, d] =\n"
          "sum(k, e, c) if(ix[g, t, k] == e and place[g, t, k] == c, w[g, t, k] * y[g, e, c, d], 0)")
      .dtypes(dtype_of_first)
      .example({{2, 3, 2, 4}, {2, 7, 2}, {2, 7, 2}, {2, 7, 2}}, {}, {real, integer, integer, real})
      .integers_below(3)
      .example({{1, 4, 3, 2}, {1, 5, 1}, {1, 5, 1}, {1, 5, 1}}, {}, {real, integer, integer, real})
      .integers_below(4);
  // Switch Transformer, equations 4 to 6, for each group: 1 if all experts are chosen equally often.
  declare(
      registry, "load_balance",
      "experts times the sum over them of the share of tokens whose first choice they are and their mean probability")
      .formula(
          "load_balance(p, ix)[] =\n"
          "share[g, e] = (sum(t) if(ix[g, t, 0] == e, 1, 0)) / ext(t)\n"
          "mean[g, e] = (sum(t) p[g, t, e]) / ext(t)\n"
          "(sum(g, e) share[g, e] * mean[g, e]) * ext(e) / ext(g)")
      .dtypes(dtype_of_first)
      .example({{2, 7, 3}, {2, 7, 2}}, {}, {real, integer})
      .integers_below(3);
}

}  // namespace partita
