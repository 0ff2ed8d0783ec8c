// Explains choices: converts the touched tensors under each alternative, and compares the bytes that move.
#include "partita/plan/explain.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/radices.h"
#include "partita/base/tuples.h"
#include "partita/plan/needs.h"

namespace partita {

namespace {

int64_t bytes_of_all(const std::vector<Moved>& moved) {
  int64_t bytes = 0;
  for (const Moved& m : moved) bytes += m.bytes;
  return bytes;
}

void dearest_first(std::vector<Moved>& moved) {
  std::erase_if(moved, [](const Moved& m) { return m.bytes == 0; });
  std::stable_sort(moved.begin(), moved.end(), [](const Moved& a, const Moved& b) { return a.bytes > b.bytes; });
}

Difference difference(const std::vector<Moved>& now, const std::vector<Moved>& then, int64_t inner_bytes) {
  Difference d{bytes_of_all(then) - bytes_of_all(now) + inner_bytes, inner_bytes, then, now};
  auto without = [](std::vector<Moved>& some, std::vector<Moved> others) {
    std::erase_if(some, [&](const Moved& m) {
      const auto found = std::find(others.begin(), others.end(), m);
      if (found == others.end()) return false;
      others.erase(found);
      return true;
    });
    dearest_first(some);
  };
  without(d.more, now);
  without(d.less, then);
  return d;
}

// Returns the reason if an index is split into more shards than it has values.
std::optional<std::string> too_many_shards(const tdl::Bound& bound, const std::vector<int>& extents,
                                           const std::vector<tdl::AxisStrategy>& strategies) {
  std::map<std::string, int64_t> shards;
  for (size_t a = 0; a < strategies.size(); ++a)
    for (const std::string& name : strategies[a].names) shards.try_emplace(name, 1).first->second *= extents[a];
  for (const auto& [name, count] : shards)
    if (const int64_t extent = bound.indices[bound.find_index(name)].extent; count > extent)
      return fmt::format("index '{}' of extent {} has no {} parts", name, extent, count);
  return std::nullopt;
}

double product(const std::vector<size_t>& counts) {
  double all = 1;
  for (size_t c : counts) all *= static_cast<double>(c);
  return all;
}

template <typename Alternative>
void fewest_bytes_first(std::vector<Alternative>& alternatives) {
  std::stable_sort(alternatives.begin(), alternatives.end(),
                   [](const Alternative& a, const Alternative& b) { return a.difference.bytes < b.difference.bytes; });
}

std::vector<TensorId> unique(std::vector<TensorId> tensors) {
  std::sort(tensors.begin(), tensors.end());
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  return tensors;
}

}  // namespace

bool Moved::operator==(const Moved& other) const {
  return tensor == other.tensor && bytes == other.bytes && readers.empty() == other.readers.empty() &&
         same_placement(from, other.from) && same_placement(to, other.to);
}

Explainer::Explainer(const Graph& graph, const Plan& plan, const Resolved& resolved, const Cluster& cluster)
    : graph_(graph), plan_(plan), resolved_(resolved), readers_(readers_by_tensor(graph)), converter_(cluster) {
  for (const ResolvedOp& op : resolved_.ops) layouts_.push_back(&op.layouts);
}

int64_t Explainer::inner_bytes_of(OpId id, const tdl::Derived& derived) {
  const Op& op = graph_.op(id);
  Mesh mesh = plan_.ops[id.index()].mesh;
  return graph_.firings(op) * converter_.inner_bytes(*op.bound, derived, mesh, bytes_of(inner_dtype(graph_, op)));
}

std::vector<Moved> Explainer::moved_of(TensorId id, const Layouts& layouts, const Plan& plan) {
  const TensorNeeds needs = needs_of(graph_, plan, layouts, readers_, id);
  const int64_t element = bytes_of(graph_.tensor(id).dtype);
  std::vector<Moved> out;
  for (const TensorNeeds::Need& need : needs.needs)
    out.push_back({id, needs.from(need), needs.to(need),
                   conversion_firings(graph_, plan, id, need.readers) *
                       converter_.bytes(needs.from(need), needs.to(need), element),
                   need.readers});
  return out;
}

std::vector<Moved> Explainer::moved_of(const std::vector<TensorId>& tensors, const Layouts& layouts, const Plan& plan) {
  std::vector<Moved> out;
  for (TensorId id : tensors)
    for (Moved& m : moved_of(id, layouts, plan)) out.push_back(std::move(m));
  return out;
}

OpExplanation Explainer::op(OpId id) {
  const Op& op = graph_.op(id);
  OpExplanation out;
  out.inner_bytes = inner_bytes_of(id, *resolved_.ops[id.index()].derived);
  out.layouts = *layouts_[id.index()];
  std::vector<TensorId> touched = op.operands;
  touched.insert(touched.end(), op.results.begin(), op.results.end());
  touched = unique(std::move(touched));
  const std::vector<Moved> now = moved_of(touched, layouts_, plan_);
  for (const Moved& m : now) {
    const bool read = std::any_of(m.readers.begin(), m.readers.end(), [&](const Reader& r) { return r.op == id; });
    if (read || graph_.tensor(m.tensor).producer == id) out.moved.push_back(m);
  }
  dearest_first(out.moved);
  look_at_alternatives(id, touched, now, out);
  return out;
}

void Explainer::look_at_alternatives(OpId id, const std::vector<TensorId>& touched, const std::vector<Moved>& now,
                                     OpExplanation& out) {
  const Op& op = graph_.op(id);
  const OpChoice& choice = plan_.ops[id.index()];
  std::vector<std::vector<tdl::AxisStrategy>> offered;
  for (int p : choice.mesh.extents) offered.push_back(tdl::strategies(*op.bound, p));
  std::vector<size_t> counts, here;
  for (size_t a = 0; a < offered.size(); ++a) {
    here.push_back(static_cast<size_t>(std::find(offered[a].begin(), offered[a].end(), choice.strategies[a]) -
                                       offered[a].begin()));
    if (here[a] == offered[a].size()) offered[a].push_back(choice.strategies[a]);
    counts.push_back(offered[a].size());
  }
  out.others = product(counts) - 1;
  tdl::Deriver deriver(*op.bound, choice.mesh.extents);
  for_each_tuple_near(here, counts, kMostListed, [&](const std::vector<size_t>& at) {
    OpAlternative other;
    for (size_t a = 0; a < at.size(); ++a) other.strategies.push_back(offered[a][at[a]]);
    if (other.strategies == choice.strategies) return;
    if (const auto why = too_many_shards(*op.bound, choice.mesh.extents, other.strategies)) {
      out.impossible[*why].push_back(other.strategies);
      return;
    }
    tdl::NotDerived why;
    const auto derived = deriver.derive(other.strategies, &why);
    if (!derived) {
      out.impossible[why.why].push_back(other.strategies);
      return;
    }
    const OpLayouts changed = layouts_of(*op.bound, *derived, choice.mesh);
    Layouts layouts = layouts_;
    layouts[id.index()] = &changed;
    other.inner_bytes = inner_bytes_of(id, *derived);
    other.difference = difference(now, moved_of(touched, layouts, plan_), other.inner_bytes - out.inner_bytes);
    out.alternatives.push_back(std::move(other));
  });
  fewest_bytes_first(out.alternatives);
}

TensorExplanation Explainer::tensor(TensorId id) {
  TensorExplanation out;
  const TensorId replaced = graph_.tensor(id).replaces;
  out.keeper = replaced.valid() ? replaced : id;
  out.kept_layout = resolved_.kept_layouts[id.index()];
  const OpId producer = graph_.tensor(id).producer;
  if (producer.valid()) {
    const std::vector<TensorId>& results = graph_.op(producer).results;
    out.made = layouts_[producer.index()]
                   ->results[static_cast<size_t>(std::find(results.begin(), results.end(), id) - results.begin())];
  }
  out.moved = moved_of(id, layouts_, plan_);
  dearest_first(out.moved);

  std::vector<TensorId> alike = {out.keeper};  // tensors that share the kept layout
  if (const TensorId next = graph_.replacement_of(out.keeper); next.valid()) alike.push_back(next);
  const std::vector<Moved> now = moved_of(alike, layouts_, plan_);
  if (plan_.kept.contains(out.keeper) && graph_.tensor(out.keeper).producer.valid() &&
      !(out.made && same_placement(*out.made, out.kept_layout)))
    out.alternatives.push_back(
        {std::nullopt, difference(now, moved_of(alike, layouts_, with(plan_, out.keeper, std::nullopt)), 0)});
  look_at_layouts(id, alike, now, out);
  fewest_bytes_first(out.alternatives);
  return out;
}

void Explainer::look_at_layouts(TensorId id, const std::vector<TensorId>& alike, const std::vector<Moved>& now,
                                TensorExplanation& out) {
  const std::vector<Shape> radices = out.kept_layout.radices;
  std::vector<Sbp> offered;  // on each axis
  for (size_t axis = 0; axis < radices.size(); ++axis)
    for (size_t sub = 0; sub < radices[axis].size(); ++sub)
      offered.push_back(Sbp::split(static_cast<int>(axis), static_cast<int>(sub)));
  offered.push_back(Sbp::broadcast());
  const std::vector<int>& extents = out.kept_layout.mesh.extents;
  const std::vector<size_t> counts(extents.size(), offered.size());
  std::vector<size_t> here(extents.size(), offered.size() - 1);  // whole, or as its name says
  if (const std::optional<NdSbp> name = name_of(out.kept_layout))
    for (size_t a = 0; a < here.size(); ++a)
      if (const auto found = std::find(offered.begin(), offered.end(), (*name)[a]); found != offered.end())
        here[a] = static_cast<size_t>(found - offered.begin());
  out.others = product(counts) - 1;
  auto consider = [&](const std::vector<size_t>& at) {
    Placement other{out.kept_layout.mesh, {}, is_factored(radices) ? radices : std::vector<Shape>()};
    std::map<std::pair<int, int>, int64_t> shards;
    for (size_t a = 0; a < at.size(); ++a) {
      const Sbp& sbp = offered[at[a]];
      other.sbp.push_back(sbp);
      if (sbp.kind != Sbp::Kind::kSplit) continue;
      if ((shards.try_emplace({sbp.axis, sbp.sub_axis}, 1).first->second *= extents[a]) >
          radices[sbp.axis][sbp.sub_axis])
        return;
    }
    if (same_placement(layout_of(other, graph_.tensor(id).shape), out.kept_layout)) return;
    const Plan changed = with(plan_, out.keeper, other);
    out.alternatives.push_back({other, difference(now, moved_of(alike, layouts_, changed), 0)});
  };
  consider(here);  // if the kept layout has no name, it is one of the others
  for_each_tuple_near(here, counts, kMostListed, consider);
}

std::vector<Moved> Explainer::conversions() {
  std::vector<TensorId> all;
  for (size_t t = 0; t < graph_.tensors.size(); ++t) all.push_back(TensorId(t));
  std::vector<Moved> moved = moved_of(all, layouts_, plan_);
  dearest_first(moved);
  return moved;
}

std::map<std::string, int64_t> Explainer::bytes_by_step() {
  std::map<std::string, int64_t> bytes;
  auto count = [&](const Conversion& c, int firings) {
    for (const Step& step : c.steps)
      if (step.bytes > 0) bytes[std::string(name_of(step.kind))] += firings * step.bytes;
  };
  for (const ResolvedConversion& c : resolved_.conversions) count(c.conversion, c.firings);
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    const ResolvedOp& op = resolved_.ops[i];
    if (op.derived->inner.empty()) continue;
    for (const Conversion& c : inner_conversions(*graph_.ops[i].bound, *op.derived, op.mesh,
                                                 bytes_of(inner_dtype(graph_, graph_.ops[i])), converter_))
      count(c, graph_.firings(graph_.ops[i]));
  }
  return bytes;
}

std::string Explainer::steps_of(const Moved& moved, const StepName& name) {
  std::vector<std::string> names;
  for (const Step& step : converter_.convert(moved.from, moved.to, bytes_of(graph_.tensor(moved.tensor).dtype)).steps)
    if (step.bytes > 0) names.push_back(name ? name(step) : std::string(name_of(step.kind)));
  return fmt::format("{}", fmt::join(names, " + "));
}

Plan with(Plan plan, OpId op, const std::vector<tdl::AxisStrategy>& strategies) {
  plan.ops[op.index()].strategies = strategies;
  return plan;
}

Plan with(Plan plan, TensorId keeper, const std::optional<Placement>& kept) {
  if (kept) plan.kept[keeper] = *kept;
  else plan.kept.erase(keeper);
  return plan;
}

}  // namespace partita
