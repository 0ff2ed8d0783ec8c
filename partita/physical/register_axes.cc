// Chooses the axes of each tensor's registers from all layouts that the tensor takes.
#include "partita/physical/register_axes.h"

#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/base/radices.h"

namespace partita {

namespace {

// A tensor and what replaces it have one buffer, and so one set of axes.
size_t keeper(const Graph& graph, TensorId t) {
  const TensorId replaced = graph.tensor(t).replaces;
  return replaced.valid() ? replaced.index() : t.index();
}

// By keeper: every layout of the tensor: kept, read, made, or between the steps of a conversion.
std::vector<std::vector<const Layout*>> layouts_of_tensors(const Graph& graph, const Resolved& resolved) {
  std::vector<std::vector<const Layout*>> layouts(graph.tensors.size());
  const auto add = [&](TensorId t, const Layout& layout) { layouts[keeper(graph, t)].push_back(&layout); };
  for (size_t t = 0; t < graph.tensors.size(); ++t) add(TensorId(t), resolved.kept_layouts[t]);
  for (const ResolvedConversion& c : resolved.conversions) {
    add(c.tensor, c.conversion.from);
    add(c.tensor, c.conversion.to);
    for (const Step& step : c.conversion.steps) {
      add(c.tensor, step.from);
      add(c.tensor, step.to);
    }
  }
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    for (size_t k = 0; k < op.operands.size(); ++k) add(op.operands[k], resolved.ops[i].layouts.operands[k]);
    for (size_t r = 0; r < op.results.size(); ++r) add(op.results[r], resolved.ops[i].layouts.results[r]);
  }
  return layouts;
}

// Tells whether each of the layout's boxes is one box along stored axis `axis`, factored as `radices`.
bool is_boxes_over(const Layout& layout, size_t axis, const Shape& radices) {
  if (layout.radices[axis] == radices) return true;
  size_t first = 0;
  for (size_t b = 0; b < axis; ++b) first += layout.radices[b].size();
  std::vector<size_t> along(layout.radices[axis].size());  // dimensions
  std::iota(along.begin(), along.end(), first);
  const std::vector<Box> boxes = layout.boxes.of(along).different();
  return std::all_of(boxes.begin(), boxes.end(),
                     [&](const Box& box) { return reshape_box(box, layout.radices[axis], radices).has_value(); });
}

}  // namespace

std::optional<std::vector<Shape>> common_axes(const Shape& shape, const std::vector<const Layout*>& layouts) {
  const auto alike = [&](const Layout* layout) { return layout->radices == layouts[0]->radices; };
  if (!layouts.empty() && std::all_of(layouts.begin(), layouts.end(), alike)) return layouts[0]->radices;
  std::vector<Shape> chosen;
  for (size_t a = 0; a < shape.size(); ++a) {
    std::vector<Shape> candidates = {{shape[a]}};
    std::optional<std::vector<Shape>> common = std::vector<Shape>{{shape[a]}};
    for (const Layout* layout : layouts)
      if (common) common = common_radices(*common, {layout->radices[a]});
    if (common && common->front() != candidates[0]) candidates.insert(candidates.begin(), common->front());
    const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const Shape& radices) {
      return std::all_of(layouts.begin(), layouts.end(),
                         [&](const Layout* layout) { return is_boxes_over(*layout, a, radices); });
    });
    if (found == candidates.end()) return std::nullopt;
    chosen.push_back(*found);
  }
  return chosen;
}

RegisterAxes register_axes(const Graph& graph, const Resolved& resolved) {
  const std::vector<std::vector<const Layout*>> layouts = layouts_of_tensors(graph, resolved);
  RegisterAxes axes{std::vector<std::vector<Shape>>(graph.tensors.size()),
                    std::vector<bool>(graph.tensors.size(), false)};
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (keeper(graph, TensorId(t)) != t) continue;
    if (auto chosen = common_axes(graph.tensors[t].shape, layouts[t])) axes.radices[t] = std::move(*chosen);
    else axes.mixed[t] = true;
  }
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    axes.radices[t] = axes.radices[keeper(graph, TensorId(t))];
    axes.mixed[t] = axes.mixed[keeper(graph, TensorId(t))];
  }
  return axes;
}

Layout layout_over(const Layout& layout, const std::vector<Shape>& radices) {
  auto changed = over_radices(layout, radices);
  if (!changed) ensure(false, "layout {} is not made of boxes over its tensor's axes", to_string(layout));
  return *changed;
}

Layout over_register_axes(const RegisterAxes& axes, const Layout& layout, TensorId tensor) {
  return axes.mixed[tensor.index()] ? layout : layout_over(layout, axes.radices[tensor.index()]);
}

}  // namespace partita
