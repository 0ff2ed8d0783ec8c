// Prints `explain` as text: an op, a tensor, or the plan as a whole.
#include <cstdio>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/cli/explanation.h"

namespace partita {

namespace {

constexpr size_t kDearest = 12;  // conversions that a summary shows

std::string signed_bytes(int64_t bytes) {
  return fmt::format("{}{}", bytes < 0 ? "-" : "+", megabytes(static_cast<double>(std::abs(bytes))));
}

// The strategy on one mesh axis, in words.
std::string in_words(const tdl::AxisStrategy& s, const tdl::Bound& bound, int parts) {
  std::string out;
  for (const std::string& name : s.names)
    out += fmt::format("{}index {} (extent {})", out.empty() ? fmt::format("{} parts along ", parts) : " and ", name,
                       bound.indices[bound.find_index(name)].extent);
  if (out.empty()) out = s.partial.empty() ? "replicated" : "not split";
  if (!s.partial.empty())
    out += fmt::format("; {} come{} in as partial values ({})", fmt::join(s.partial, ", "),
                       s.partial.size() == 1 ? "s" : "", tdl::name_of(s.reducer));
  return out;
}

std::string few_of(std::vector<std::string> names) {
  constexpr size_t kFew = 3;
  if (names.size() <= kFew + 1) return fmt::format("{}", fmt::join(names, ", "));
  const size_t more = names.size() - kFew;
  names.resize(kFew);
  return fmt::format("{} and {} more", fmt::join(names, ", "), more);
}

void print_moved(Explained& e, const std::vector<Moved>& moved) {
  const Graph& graph = e.planned.training;
  for (const Moved& m : moved)
    fmt::print("  {:>12}  {}: {} from {} to {}{}\n", megabytes(static_cast<double>(m.bytes)),
               graph.tensor(m.tensor).name, steps_of(e, m), text_of(e, m.from), text_of(e, m.to),
               m.readers.empty() ? ", where it is kept" : ", for " + few_of(readers_of(graph, m)));
}

// "66 alternatives", and if they are not all, which.
std::string count_of(size_t listed, double others, const char* what) {
  if (others <= kMostListed) return fmt::format("{} {}", listed, what);
  return fmt::format(
      "{} of {:.0f} {} (that differ on one or two mesh axes, or have one choice on the first axes and one on the "
      "rest)",
      listed, others, what);
}

// Why the plan does not have the alternative.
std::string reason(Explained& e, const Difference& d, const std::function<Plan()>& plan) {
  std::vector<std::string> parts;
  if (d.inner_bytes > 0) parts.push_back(fmt::format("{} inside", signed_bytes(d.inner_bytes)));
  constexpr size_t kShown = 3;
  for (size_t i = 0; i < std::min(kShown, d.more.size()); ++i)
    parts.push_back(fmt::format("{}: {} of {}", e.planned.training.tensor(d.more[i].tensor).name,
                                steps_of(e, d.more[i]), megabytes(static_cast<double>(d.more[i].bytes))));
  if (d.more.size() > kShown) parts.push_back(fmt::format("{} more", d.more.size() - kShown));
  std::string text = d.bytes == 0 ? "a tie" : "";
  if (d.bytes < 0) {
    const std::optional<int64_t> missing = deficit_of(e, plan);
    text = !missing       ? "cheaper"
           : *missing > 0 ? fmt::format("does not fit: it needs {} more than a device has",
                                        megabytes(static_cast<double>(*missing)))
                          : "cheaper: it fits, and the search did not take it";
  }
  if (parts.empty()) return text;
  return fmt::format("{}{}{}", text, text.empty() ? "" : "; ", fmt::join(parts, ", "));
}

void print_alternative(Explained& e, const std::string& name, const Difference& d, const std::function<Plan()>& plan) {
  fmt::print("  {:>12}  {}  {}\n", signed_bytes(d.bytes), name, reason(e, d, plan));
}

}  // namespace

void print_op(Explained& e, OpId id) {
  const OpExplanation explained = e.explainer.op(id);
  const Graph& graph = e.planned.training;
  const Op& op = graph.op(id);
  const OpChoice& choice = e.planned.plan.ops[id.index()];
  fmt::print("op {} ({}, {})\n", op.name, op.definition, name_of(op.phase));
  if (!e.places) fmt::print("  strategy {} on mesh {}\n", text_of(choice.strategies), to_string(choice.mesh));
  for (size_t a = 0; !e.places && a < choice.strategies.size(); ++a)
    fmt::print("    axis {}: {}\n", a, in_words(choice.strategies[a], *op.bound, choice.mesh.extents[a]));
  for (size_t k = 0; k < op.operands.size(); ++k)
    fmt::print("  reads {} as {}\n", graph.tensor(op.operands[k]).name, text_of(e, explained.layouts.operands[k]));
  for (size_t r = 0; r < op.results.size(); ++r)
    fmt::print("  makes {} as {}\n", graph.tensor(op.results[r]).name, text_of(e, explained.layouts.results[r]));
  fmt::print("  moves {} inside\n", megabytes(static_cast<double>(explained.inner_bytes)));
  print_moved(e, explained.moved);
  if (e.places) return print_placed_op(e, id);
  fmt::print("  {}, and what the plan would move more if only this op changed:\n",
             count_of(explained.alternatives.size(), explained.others, "alternatives"));
  for (const OpAlternative& other : explained.alternatives)
    print_alternative(e, text_of(other.strategies), other.difference,
                      [&] { return with(e.planned.plan, id, other.strategies); });
  for (const auto& [why, all] : explained.impossible) {
    std::vector<std::string> texts;
    for (const auto& strategies : all) texts.push_back(text_of(strategies));
    fmt::print("     cannot be  {}: {}\n", fmt::join(texts, " "), why);
  }
}

void print_tensor(Explained& e, TensorId id) {
  const TensorExplanation explained = e.explainer.tensor(id);
  const Graph& graph = e.planned.training;
  const Tensor& tensor = graph.tensor(id);
  fmt::print("tensor {} ({}, {} [{}], {})\n", tensor.name, name_of(tensor.role), name_of(tensor.dtype),
             fmt::join(tensor.shape, ", "), megabytes(static_cast<double>(tensor.bytes())));
  if (explained.made) fmt::print("  made by {} as {}\n", graph.op(tensor.producer).name, text_of(e, *explained.made));
  fmt::print("  kept as {} on mesh {}{}\n", text_of(e, explained.kept_layout), to_string(explained.kept_layout.mesh),
             explained.keeper == id
                 ? ""
                 : fmt::format(", where {} is, which it replaces", graph.tensor(explained.keeper).name));
  print_moved(e, explained.moved);
  if (e.places) return;  // it stays where it is made
  fmt::print("  {}, and what the plan would move more with it:\n",
             count_of(explained.alternatives.size(), explained.others, "other homes"));
  for (const TensorAlternative& other : explained.alternatives)
    print_alternative(e, text_of(other), other.difference,
                      [&] { return with(e.planned.plan, explained.keeper, other.kept); });
}

void print_summary(Explained& e) {
  const Planned& p = e.planned;
  std::vector<Moved> moved = e.explainer.conversions();
  if (e.places) print_placed(e);
  fmt::print("the plan of {} moves {} a step, {} of it inside operations\n", p.plan.search,
             megabytes(static_cast<double>(p.report.comm_bytes)), megabytes(static_cast<double>(p.report.inner_bytes)));
  for (const auto& [step, bytes] : e.explainer.bytes_by_step())
    fmt::print("  {:<16}{:>12}\n", step, megabytes(static_cast<double>(bytes)));
  if (!moved.empty()) fmt::print("the dearest of {} conversions that move something:\n", moved.size());
  if (moved.size() > kDearest) moved.resize(kDearest);
  print_moved(e, moved);
  fmt::print("`partita explain PLAN OP|TENSOR` has the alternatives to one of them\n");
}

}  // namespace partita
