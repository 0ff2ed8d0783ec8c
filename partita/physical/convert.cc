// Turns the steps of a conversion into tasks.
#include "partita/physical/convert.h"

#include <algorithm>
#include <deque>

#include "partita/base/error.h"
#include "partita/base/radices.h"
#include "partita/physical/assemble.h"
#include "partita/physical/background_load.h"
#include "partita/physical/register_axes.h"

namespace partita {

namespace {

// TaskKey::step: a step may have copies before and behind it, and the last may have one into other registers.
constexpr int kTasksOfAStep = 3, kCopyStep = 63;

// ---------------------------------------------------------------- pieces over the registers' axes

std::vector<Shape> stored_axes(const std::vector<Shape>& radices) {
  std::vector<Shape> stored;
  for (const Shape& axis : radices) stored.push_back({volume(axis)});
  return stored;
}

void refine_pieces(Step& step, const std::vector<Shape>& axes) {
  if (step.pieces.empty() || step.radices == axes) return;
  std::vector<Piece> pieces;
  for (const Piece& piece : step.pieces) {
    std::vector<Box> boxes;
    if (auto one = over_radices(piece.box, step.radices, axes)) {
      boxes.push_back(*one);
    } else {  // several runs of the stored axes
      const std::vector<Shape> stored = stored_axes(axes);
      for (const Box& run : stored_boxes(piece.box, step.radices))
        for (Box& box : refined_boxes(run, stored, axes)) boxes.push_back(std::move(box));
    }
    for (Box& box : boxes) pieces.push_back({piece.source, piece.target, std::move(box)});
  }
  step.pieces = std::move(pieces);
  step.radices = axes;
}

std::vector<Piece> own_pieces(Draft& draft, const Layout& layout) {
  std::vector<Piece> pieces;
  for (int p : positions_here(draft, layout.mesh)) pieces.push_back({p, p, layout.boxes[p]});
  return pieces;
}

// Terms, and their boxes.
struct CutTerms {
  std::deque<Box> boxes;
  std::vector<Term> terms;
  void add(int source, Box read, Box write) {
    const Box* const own = &boxes.emplace_back(std::move(read));
    terms.push_back({source, own, &boxes.emplace_back(std::move(write))});
  }
};

// Cuts a box over stored axes into terms of `source`, until each is a box over both factorings.
void cut_for_both(const Box& run, int source, const std::vector<Shape>& from, const std::vector<Shape>& to,
                  CutTerms& terms) {
  const std::vector<Shape> stored = stored_axes(from);
  for (const Box& read : refined_boxes(run, stored, from))
    for (const Box& write : refined_boxes(*over_radices(read, from, stored), stored, to)) {
      const Box part = *over_radices(write, to, stored);
      if (auto again = over_radices(part, stored, from)) terms.add(source, *again, write);
      else cut_for_both(part, source, from, to, terms);
    }
}

bool any_overlap(const std::vector<Term>& terms) {
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (!is_empty(intersect(*terms[i].write, *terms[j].write))) return true;
  return false;
}

// ---------------------------------------------------------------- steps

// The reducer that combines terms: that of the side that is partial.
tdl::Reducer reducer_of(const Layout& from, const Layout& to) {
  if (from.is_partial()) return from.reducer();
  return to.is_partial() ? to.reducer() : tdl::Reducer::kSum;
}

// Assembly::absent: the result is partial under another reducer than the values that it is made of.
std::optional<tdl::Reducer> absent_reducer(const Layout& from, const Layout& to) {
  if (!from.is_partial() || !to.is_partial() || from.reducer() == to.reducer()) return std::nullopt;
  return to.reducer();
}

// Copies pieces over `radices` into registers over `to`'s axes.
Placed copy_cut(Draft& draft, const Placed& from, const std::vector<Piece>& pieces, const std::vector<Shape>& radices,
                const Layout& to, const Context& at, const Placed* into) {
  if (std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
        return from.layout.mesh.devices[piece.source] != to.mesh.devices[piece.target];
      }))
    read_elsewhere(draft, from, at);
  std::map<int, CutTerms> terms;  // by target
  for (const Piece& piece : pieces)
    for (const Box& run : stored_boxes(piece.box, radices))
      cut_for_both(run, piece.source, from.layout.radices, to.radices, terms[piece.target]);
  Placed made = into ? *into : new_registers(draft, at, to);
  made.fresh = into != nullptr;
  for (int p : positions_here(draft, to.mesh)) {
    Assembly a{made.regs.at(p), &to.mesh, p, made.layout.boxes[p], to.radices, std::move(terms[p].terms)};
    int64_t covered = 0;
    for (size_t i = 0; i < a.terms.size(); ++i) {
      covered += volume(*a.terms[i].write);
      a.terms[i].number = static_cast<int>(i);
    }
    a.combine = covered != volume(a.box) || a.terms.empty() || (from.layout.is_partial() && any_overlap(a.terms));
    a.reads_own = false;
    a.reducer = reducer_of(from.layout, to);
    a.absent = absent_reducer(from.layout, to);
    ensure(!a.combine || from.layout.is_partial() || to.is_partial() || a.terms.empty(), "{}: pieces do not cover {}",
           at.name, to_string(a.box));
    assemble(draft, from, from.layout.mesh, std::move(a), at);
  }
  return made;
}

// Runs a local step or a fetch, as targets_of() says. A view is of the register that holds it.
Placed run_pieces(Draft& draft, const Placed& from, const Step& step, const Context& at, const Placed* into) {
  if (step.kind == StepKind::kFetch) read_elsewhere(draft, from, at);
  const std::vector<int>& positions = positions_here(draft, step.to.mesh);
  const std::vector<Target> targets = targets_of(step, positions);
  const bool all_views = !into && std::all_of(targets.begin(), targets.end(), [](const Target& t) { return t.view; });
  const bool no_views = into || (from.fresh && !all_views);  // `fresh` holds for all positions or for none
  Placed to{step.to, {}, into != nullptr || (all_views && from.fresh)};
  for (size_t i = 0; i < positions.size(); ++i) {
    const int p = positions[i];
    const Target& target = targets[i];
    if (!no_views && target.view) {
      to.regs.add(p, from.regs.at(target.pieces[0]->source));
      continue;
    }
    const DeviceId device = step.to.mesh.devices[p];
    to.regs.add(p,
                into ? into->regs.at(p)
                     : add_register(draft, named(draft, "{}@{}", at.name, device_name(draft, device)), at, step.to, p));
    Assembly a{to.regs.at(p), &step.to.mesh, p, {}, {}, {}};
    if (target.combine || draft.device_mask) a.box = step.to.boxes[p], a.radices = step.to.radices;
    a.terms.reserve(target.pieces.size());
    int number = 0;
    for (const Piece* piece : target.pieces) {
      const auto pieces = std::ranges::count(target.pieces, piece->source, &Piece::source);
      a.terms.push_back({piece->source, &piece->box, &piece->box, pieces > 1 ? number++ : -1});
    }
    a.combine = target.combine;
    a.reducer = reducer_of(step.from, step.to);
    a.absent = absent_reducer(step.from, step.to);
    assemble(draft, from, step.from.mesh, std::move(a), at);
  }
  return to;
}

Placed run_collective(Draft& draft, const Placed& from, const Step& step, const Context& at, const Placed* into) {
  Placed to = into ? *into : new_registers(draft, at, step.to);
  for (size_t g = 0; g < step.groups.size(); ++g) {
    const std::vector<int>& group = step.groups[g];
    const CollectiveId id(draft.collectives++);
    const int64_t size = static_cast<int64_t>(group.size());
    const int64_t group_bytes = step.bytes / (step.to.mesh.positions() / size);
    for (size_t r = 0; r < group.size(); ++r) {
      const int p = group[r], after = group[(r + 1) % group.size()];
      if (!to.regs.contains(p)) continue;
      const DeviceId device = step.to.mesh.devices[p];
      CollectiveWork work{step.kind, id, static_cast<int>(r), static_cast<int>(size), false, tdl::Reducer::kSum};
      // Partial on an axis that this step does not touch: the group's values are whole among themselves.
      work.partial = step.kind == StepKind::kAllReduce || step.kind == StepKind::kReduceScatter;
      if (work.partial) work.reducer = step.from.reducer();
      Task task = new_task(draft, named(draft, "{}.{}@{}", at.name, name_of(step.kind), device_name(draft, device)), at,
                           device, work);
      task.key.position = p;
      task.queue = (at.on_sample_queue ? draft.sample_queues : draft.parameter_queues)[device.index()];
      if (draft.complete) task.route = draft.cluster.route(device, step.to.mesh.devices[after]);
      task.reads = {access(draft, from, p)};
      task.writes = {access(draft, to, p)};
      task.writes[0].fresh = false;
      task.bytes = group_bytes / size;
      task.background = ring_elsewhere(draft, step, g);
      add_task(draft, std::move(task));
    }
  }
  return to;
}

bool is_collective(const Step& step) { return step.kind != StepKind::kLocal && step.kind != StepKind::kFetch; }

Placed run_step(Draft& draft, const Placed& from, const Step& step, const Context& at, const Placed* into) {
  return is_collective(step) ? run_collective(draft, from, step, at, into) : run_pieces(draft, from, step, at, into);
}

// The same between registers of different axes. A collective runs over its own layouts' axes.
Placed run_mixed_step(Draft& draft, Placed from, const Step& step, const Context& at, const Placed* into) {
  if (!is_collective(step))
    return copy_cut(draft, from, step.pieces, step.radices, into ? into->layout : step.to, at, into);
  Context between = at;
  between.name += named(draft, ".axes");
  ++between.key.step;
  if (from.layout.radices != step.from.radices)
    from = copy_cut(draft, from, own_pieces(draft, step.from), step.from.radices, step.from, between, nullptr);
  from = run_collective(draft, from, step, at, nullptr);
  if (!into) return from;
  ++between.key.step;
  return copy_cut(draft, from, own_pieces(draft, step.to), step.to.radices, into->layout, between, into);
}

}  // namespace

Placed convert_placed(Draft& draft, const Placed& whence, const Conversion& conversion, const ConversionAt& where) {
  const size_t count = conversion.steps.size();
  if (count == 0) return where.into ? copy_into(draft, whence, where.at, *where.into) : whence;
  Placed made;
  const Placed* from = &whence;
  for (size_t s = 0; s < count; ++s, from = &made) {
    const Step& step = conversion.steps[s];
    Context at = where.at;
    if (count > 1) at.name += named(draft, ".{}", s);
    at.key.step = kTasksOfAStep * static_cast<int>(s);
    const Placed* into = s + 1 == count ? where.into : nullptr;
    const std::vector<Shape>& axes = from->layout.radices;
    if (where.mixed) {
      made = run_mixed_step(draft, *from, step, at, into);
    } else if (step.from.radices == axes && step.to.radices == axes && (step.pieces.empty() || step.radices == axes)) {
      made = run_step(draft, *from, step, at, into);
    } else {
      Step refined = step;
      refined.from = layout_over(step.from, axes);
      refined.to = layout_over(step.to, axes);
      refine_pieces(refined, axes);
      made = run_step(draft, *from, refined, at, into);
    }
  }
  return made;
}

Placed fetch_placed(Draft& draft, const Placed& from, const Layout& to, const Context& at) {
  Step step = fetch(from.layout, to, bytes_of(at.dtype), draft.cluster, draft.device_mask);
  refine_pieces(step, from.layout.radices);
  return run_step(draft, from, step, at, nullptr);
}

Placed copy_into(Draft& draft, const Placed& from, Context at, const Placed& into) {
  at.key.step = kCopyStep;
  if (from.layout.radices != into.layout.radices)
    return copy_cut(draft, from, own_pieces(draft, from.layout), from.layout.radices, into.layout, at, &into);
  for (int p : positions_here(draft, into.layout.mesh)) {
    const DeviceId device = into.layout.mesh.devices[p];
    Task task =
        new_task(draft, named(draft, "{}.copy@{}", at.name, device_name(draft, device)), at, device, CopyWork{});
    task.key.position = p;
    task.reads = {access(draft, from, p)};
    task.writes = {access(draft, into.regs.at(p), into.layout.boxes[p])};
    task.bytes = 2 * bytes_at(draft, into, p);
    add_task(draft, std::move(task));
  }
  return into;
}

}  // namespace partita
