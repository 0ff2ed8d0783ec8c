// The local part of lowering: the tasks and registers of every op, and of every conversion. What comes out has neither
// order, counts, offsets nor edges.
#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

#include "partita/base/align.h"
#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/base/threads.h"
#include "partita/physical/lower.h"
#include "partita/physical/segments.h"
#include "partita/physical/workspace.h"
#include "partita/plan/resolve.h"
#include "partita/tdl/affine.h"

namespace partita {

namespace {

// A tensor as it lies in registers: one a mesh position, or a part of one, as the layout's boxes say over the
// registers' axes.
struct Placed {
  Layout layout;
  std::map<int, RegisterId> regs;  // by position, of those that are lowered
  bool fresh = false;              // the new value of a carried register
};

// Where the tasks of a conversion stand, and what they are called.
struct Context {
  std::string name;  // prefix of tasks and registers
  OpId op;
  Phase phase = Phase::kForward;
  Task::Turn turn = Task::Turn::kLazy;
  TensorId tensor;  // none: an inner stage
  DType dtype = DType::kFloat32;
};

// The result may be written over the operand: no stage after the result's reads the operand, and the result's own reads
// it at its own index.
bool in_place_safe(const tdl::Bound& bound, int operand, int result) {
  const int last = bound.stage_of(bound.results[result]);
  const std::vector<tdl::Affine>& lhs = bound.stages[last].lhs;
  const bool plain = std::all_of(lhs.begin(), lhs.end(), [](const tdl::Affine& a) { return a.plain_index() >= 0; });
  for (size_t s = last; s < bound.stages.size(); ++s) {
    const tdl::Expr& body = bound.stages[s].body;
    const std::vector<int> read = tensors_read(body);
    if (std::find(read.begin(), read.end(), operand) == read.end()) continue;
    if (static_cast<int>(s) > last || body.kind == tdl::ExprKind::kReduce || !plain ||
        !reads_only_at(body, operand, lhs))
      return false;
  }
  return true;
}

class Lowering {
 public:
  Lowering(const Graph& graph, const Plan& plan, const Cluster& cluster, const Listed& devices)
      : graph_(graph),
        plan_(plan),
        cluster_(cluster),
        listed_(devices),
        resolved_(resolve(graph, plan, cluster, devices)),
        converter_(cluster, devices) {
    out_.name = graph.name;
    out_.device_count = static_cast<int>(cluster.devices.size());
    out_.compute_count = cluster.compute_count;
  }

  PhysicalGraph run(const Watch& watch) {
    make_queues();
    choose_radices();
    out_.tasks.reserve(graph_.ops.size() * (listed_ ? 1 : cluster_.compute_count));  // at least about as many
    placed_.resize(graph_.tensors.size());
    converted_.resize(resolved_.conversions.size());
    kept_.resize(graph_.tensors.size());
    for (const ResolvedConversion& conversion : resolved_.conversions)
      if (conversion.readers.empty()) kept_[conversion.tensor.index()] = &conversion;
    for (size_t t = 0; t < graph_.tensors.size(); ++t)
      if (!graph_.tensors[t].producer.valid()) place_source(TensorId(t));
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      watch.poll("while a plan was lowered");
      lower_op(OpId(i));
    }
    for (TensorId output : graph_.outputs) lower_output(output);
    add_scratch();
    return std::move(out_);
  }

 private:
  // The positions of a mesh whose tasks are lowered: all, or those of the devices that are asked for.
  const std::vector<int>& here(const Mesh& mesh) {
    for (const auto& [known, positions] : here_)
      if (known == mesh.devices) return positions;
    std::vector<int> positions;
    for (int p = 0; p < mesh.positions(); ++p)
      if (!listed_ || (*listed_)[mesh.devices[p].index()]) positions.push_back(p);
    return here_.emplace_back(mesh.devices, std::move(positions)).second;
  }

  // ------------------------------------------------------------------ queues, registers, tasks

  void make_queues() {
    for (size_t d = 0; d < cluster_.devices.size(); ++d) {
      const Device& device = cluster_.devices[d];
      bool compute = static_cast<int>(d) < cluster_.compute_count;
      compute_queue_.push_back(add_queue({compute ? QueueKind::kCompute : QueueKind::kHost, DeviceId(d), LinkId(),
                                          device.name + (compute ? ".compute" : ".host")}));
      collective_queue_.push_back(
          compute ? add_queue({QueueKind::kCollective, DeviceId(d), LinkId(), device.name + ".collective"})
                  : QueueId());
    }
    for (size_t l = 0; l < cluster_.links.size(); ++l)
      link_queue_.push_back(add_queue({QueueKind::kLink, DeviceId(), LinkId(l), cluster_.links[l].name}));
  }

  QueueId add_queue(Queue queue) {
    out_.queues.push_back(std::move(queue));
    return QueueId(out_.queues.size() - 1);
  }

  RegisterId add_register(std::string name, DeviceId device, TensorId tensor, DType dtype,
                          const std::vector<Shape>& radices, const Box& box) {
    Register reg;
    reg.name = std::move(name);
    reg.device = device;
    reg.tensor = tensor;
    reg.dtype = dtype;
    for (const Shape& axis : radices) reg.axes.insert(reg.axes.end(), axis.begin(), axis.end());
    reg.boxes = {box};
    reg.bytes = volume(box) * bytes_of(dtype);
    out_.registers.push_back(std::move(reg));
    return RegisterId(out_.registers.size() - 1);
  }

  Task new_task(std::string name, const Context& at, DeviceId device, Work work) {
    Task task;
    task.name = std::move(name);
    task.op = at.op;
    task.phase = at.phase;
    task.device = device;
    task.queue = compute_queue_[device.index()];
    task.turn = at.turn;
    task.work = std::move(work);
    return task;
  }

  void add_task(Task task) { out_.tasks.push_back(std::move(task)); }

  Access access(RegisterId reg, const Box& box, bool fresh = false, int tensor = -1) const {
    Access a{reg, fresh, {}, tensor};
    if (box != out_.reg(reg).boxes[0]) a.boxes = {box};
    return a;
  }
  Access access(const Placed& placed, int position, int tensor = -1) const {
    return access(placed.regs.at(position), placed.layout.boxes[position], placed.fresh, tensor);
  }
  int64_t bytes_at(const Placed& placed, int position) const {
    return volume(placed.layout.boxes[position]) * bytes_of(out_.reg(placed.regs.at(position)).dtype);
  }
  const std::string& device_name(DeviceId d) const { return cluster_.device(d).name; }

  // ------------------------------------------------------------------ factored axes

  // Registers of a tensor have axes on which every layout that it takes is made of boxes: of each stored axis the
  // common refinement of its factorings, or else the axis itself. Where neither does (24 rows in three parts, and each
  // half of 12 in three), each layout's registers have its own axes, and copies between them go by what is a box over
  // both.
  void choose_radices() {
    std::vector<std::vector<const Layout*>> layouts(graph_.tensors.size());
    auto keeper = [&](TensorId t) {  // one buffer, one set of axes
      TensorId w = graph_.tensor(t).replaces;
      return w.valid() ? w.index() : t.index();
    };
    for (size_t t = 0; t < graph_.tensors.size(); ++t) layouts[keeper(TensorId(t))].push_back(&resolved_.home[t]);
    for (const ResolvedConversion& c : resolved_.conversions) {
      layouts[keeper(c.tensor)].push_back(&c.conversion.from);
      layouts[keeper(c.tensor)].push_back(&c.conversion.to);
      for (const Step& step : c.conversion.steps) {
        layouts[keeper(c.tensor)].push_back(&step.from);
        layouts[keeper(c.tensor)].push_back(&step.to);
      }
    }
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      for (size_t k = 0; k < op.operands.size(); ++k)
        layouts[keeper(op.operands[k])].push_back(&resolved_.ops[i].layouts.operands[k]);
      for (size_t r = 0; r < op.results.size(); ++r)
        layouts[keeper(op.results[r])].push_back(&resolved_.ops[i].layouts.results[r]);
    }
    mixed_.resize(graph_.tensors.size());
    for (size_t t = 0; t < graph_.tensors.size(); ++t) radices_.push_back(choose_radices(TensorId(t), layouts[t]));
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      radices_[t] = radices_[keeper(TensorId(t))];
      mixed_[t] = mixed_[keeper(TensorId(t))];
    }
  }

  std::vector<Shape> choose_radices(TensorId id, const std::vector<const Layout*>& layouts) {
    const Tensor& tensor = graph_.tensor(id);
    std::vector<Shape> chosen;
    for (size_t a = 0; a < tensor.shape.size(); ++a) {
      std::vector<Shape> candidates = {{tensor.shape[a]}};
      std::optional<std::vector<Shape>> common = std::vector<Shape>{{tensor.shape[a]}};
      for (const Layout* layout : layouts)
        if (common) common = common_radices(*common, {layout->radices[a]});
      if (common && common->front() != candidates[0]) candidates.insert(candidates.begin(), common->front());
      auto fits = [&](const Shape& radices) {
        return std::all_of(layouts.begin(), layouts.end(), [&](const Layout* layout) {
          if (layout->radices[a] == radices) return true;
          std::vector<size_t> along;  // dimensions
          for (size_t b = 0; b < a; ++b) along.resize(along.size() + layout->radices[b].size());
          const size_t first = along.size();
          along.resize(layout->radices[a].size());
          std::iota(along.begin(), along.end(), first);
          const std::vector<Box> boxes = layout->boxes.of(along).different();
          return std::all_of(boxes.begin(), boxes.end(),
                             [&](const Box& box) { return regrouped(box, layout->radices[a], radices).has_value(); });
        });
      };
      auto found = std::find_if(candidates.begin(), candidates.end(), fits);
      if (found == candidates.end()) {
        mixed_[id.index()] = true;
        return {};
      }
      chosen.push_back(*found);
    }
    return chosen;
  }

  Layout layout_over(const Layout& layout, const std::vector<Shape>& radices) const {
    auto changed = over_radices(layout, radices);
    if (!changed) ensure(false, "layout {} is not made of boxes over its tensor's axes", to_string(layout));
    return *changed;
  }
  Layout of_tensor(const Layout& layout, TensorId t) const {
    return mixed_[t.index()] ? layout : layout_over(layout, radices_[t.index()]);
  }

  // ------------------------------------------------------------------ sources

  Placed new_registers(const Context& at, const Layout& layout, const std::string& suffix = "") {
    Placed placed{layout, {}, false};
    for (int p : here(layout.mesh))
      placed.regs[p] = add_register(fmt::format("{}{}@{}", at.name, suffix, device_name(layout.mesh.devices[p])),
                                    layout.mesh.devices[p], at.tensor, at.dtype, layout.radices, layout.boxes[p]);
    return placed;
  }

  void place_source(TensorId id) {
    const Tensor& tensor = graph_.tensor(id);
    Context at{tensor.name, OpId(), Phase::kForward, Task::Turn::kLazy, id, tensor.dtype};
    Layout home = of_tensor(resolved_.home[id.index()], id);
    if (tensor.role == Role::kInput) {
      placed_[id.index()] = load_input(id, home);
      return;
    }
    Placed placed = new_registers(at, home);
    bool carried = graph_.replacement_of(id).valid();
    for (const auto& [p, r] : placed.regs) {
      out_.reg(r).carried = carried;
      out_.reg(r).constant = !carried;
    }
    placed_[id.index()] = std::move(placed);
  }

  // Loaded whole on every host that feeds a device of its mesh, and fetched from there.
  Placed load_input(TensorId id, const Layout& home) {
    const Tensor& tensor = graph_.tensor(id);
    Context at{tensor.name + ".load", first_reader(id), Phase::kForward, Task::Turn::kLazy, id, tensor.dtype};
    const Layout loaded = layout_on_hosts(home, cluster_);
    const Mesh& hosts = loaded.mesh;
    Placed on_host = new_registers(at, loaded);
    for (int p : here(hosts)) {
      Task task =
          new_task(fmt::format("{}@{}", at.name, device_name(hosts.devices[p])), at, hosts.devices[p], LoadWork{id});
      task.writes = {access(on_host, p)};
      task.bytes = bytes_at(on_host, p);
      add_task(std::move(task));
    }
    at.name = tensor.name;
    return fetch_to(on_host, home, at);
  }

  OpId first_reader(TensorId id) const {
    for (size_t i = 0; i < graph_.ops.size(); ++i)
      for (TensorId t : graph_.ops[i].operands)
        if (t == id) return OpId(i);
    return OpId(graph_.ops.size() - 1);
  }

  // ------------------------------------------------------------------ conversions

  // `into`: where the last step's result has to end.
  Placed run_conversion(Placed from, const Conversion& conversion, const Context& at, const Placed* into) {
    const bool mixed = at.tensor.valid() && mixed_[at.tensor.index()];
    for (size_t s = 0; s < conversion.steps.size(); ++s) {
      Step step = conversion.steps[s];
      if (mixed) {
        Context here = at;
        if (conversion.steps.size() > 1) here.name += fmt::format(".{}", s);
        from = run_mixed_step(from, step, here, s + 1 == conversion.steps.size() ? into : nullptr);
        continue;
      }
      step.from = layout_over(step.from, from.layout.radices);
      step.to = layout_over(step.to, from.layout.radices);
      refine_pieces(step, from.layout.radices);
      Context here = at;
      if (conversion.steps.size() > 1) here.name += fmt::format(".{}", s);
      from = run_step(from, step, here, s + 1 == conversion.steps.size() ? into : nullptr);
    }
    if (conversion.steps.empty() && into) from = copy_into(from, at, *into);
    return from;
  }

  Placed fetch_to(const Placed& from, const Layout& to, const Context& at) {
    Step step = fetch(from.layout, to, bytes_of(at.dtype), cluster_, listed_);
    refine_pieces(step, from.layout.radices);
    return run_step(from, step, at, nullptr);
  }

  static std::vector<Shape> stored_axes(const std::vector<Shape>& radices) {
    std::vector<Shape> stored;
    for (const Shape& axis : radices) stored.push_back({volume(axis)});
    return stored;
  }

  static void refine_pieces(Step& step, const std::vector<Shape>& axes) {
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

  Placed run_step(const Placed& from, const Step& step, const Context& at, const Placed* into) {
    if (step.kind == StepKind::kLocal || step.kind == StepKind::kFetch) return run_pieces(from, step, at, into);
    return run_collective(from, step, at, into);
  }

  Placed targets(const Step& step, const Context& at, const Placed* into) {
    if (into) return *into;
    return new_registers(at, step.to);
  }

  // The same between registers of different axes.
  Placed run_mixed_step(Placed from, const Step& step, const Context& at, const Placed* into) {
    if (step.kind == StepKind::kLocal || step.kind == StepKind::kFetch)
      return copy_cut(from, step.pieces, step.radices, into ? into->layout : step.to, at, into);
    if (from.layout.radices != step.from.radices) {
      Context here = at;
      here.name += ".axes";
      from = copy_cut(from, own_pieces(step.from), step.from.radices, step.from, here, nullptr);
    }
    from = run_collective(from, step, at, nullptr);
    if (!into) return from;
    Context here = at;
    here.name += ".axes";
    return copy_cut(from, own_pieces(step.to), step.to.radices, into->layout, here, into);
  }

  std::vector<Piece> own_pieces(const Layout& layout) {
    std::vector<Piece> pieces;
    for (int p : here(layout.mesh)) pieces.push_back({p, p, layout.boxes[p]});
    return pieces;
  }

  // A part of a piece as a box over the axes of either side.
  struct Cut {
    int source;
    Box read, write;
  };

  static bool any_overlap(const std::vector<Cut>& cuts) {
    for (size_t i = 0; i < cuts.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (!is_empty(intersect(cuts[i].write, cuts[j].write))) return true;
    return false;
  }

  // A box over stored axes, cut until each part is a box over both factorings.
  static void cut_for_both(const Box& run, int source, const std::vector<Shape>& from, const std::vector<Shape>& to,
                           std::vector<Cut>& cuts) {
    const std::vector<Shape> stored = stored_axes(from);
    for (const Box& read : refined_boxes(run, stored, from))
      for (const Box& write : refined_boxes(*over_radices(read, from, stored), stored, to)) {
        const Box part = *over_radices(write, to, stored);
        if (auto again = over_radices(part, stored, from)) cuts.push_back({source, *again, write});
        else cut_for_both(part, source, from, to, cuts);
      }
  }

  // Pieces over `radices` from where they are to registers over `to`'s axes.
  Placed copy_cut(const Placed& from, const std::vector<Piece>& pieces, const std::vector<Shape>& radices,
                  const Layout& to, const Context& at, const Placed* into) {
    if (std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
          return from.layout.mesh.devices[piece.source] != to.mesh.devices[piece.target];
        }))
      read_elsewhere(from, at);
    std::map<int, std::vector<Cut>> cuts;  // by target
    for (const Piece& piece : pieces)
      for (const Box& run : stored_boxes(piece.box, radices))
        cut_for_both(run, piece.source, from.layout.radices, to.radices, cuts[piece.target]);
    Placed made = into ? *into : new_registers(at, to);
    made.fresh = into != nullptr;
    const bool is_sum = from.layout.is_partial() || to.is_partial();
    const tdl::Reducer reducer = from.layout.is_partial() ? from.layout.reducer()
                                 : to.is_partial()        ? to.reducer()
                                                          : tdl::Reducer::kSum;
    for (int p : here(to.mesh)) {
      const DeviceId device = to.mesh.devices[p];
      const Box whole = made.layout.boxes[p];
      int64_t covered = 0;
      for (const Cut& cut : cuts[p]) covered += volume(cut.write);
      const bool combine =
          covered != volume(whole) || cuts[p].empty() || (from.layout.is_partial() && any_overlap(cuts[p]));
      ensure(!combine || is_sum || cuts[p].empty(), "{}: pieces do not cover {}", at.name, to_string(whole));
      Task gather =
          new_task(fmt::format("{}.combine@{}", at.name, device_name(device)), at, device, CombineWork{reducer});
      int64_t arriving = 0;
      int number = 0;
      for (const Cut& cut : cuts[p]) {
        const DeviceId source = from.layout.mesh.devices[cut.source];
        const std::string name =
            fmt::format("{}@{}<{}.{}", at.name, device_name(device), device_name(source), number++);
        const std::optional<Access> read = access_if_here(from, cut.source, cut.read);
        const int64_t bytes = volume(cut.write) * bytes_of(at.dtype);
        if (!read) {
          arriving += combine ? align_up(bytes, kAlignBytes) : bytes;
          continue;
        }
        if (!combine) {
          add_transfer(name, at, source, device, *read, access(made.regs.at(p), cut.write), bytes);
          continue;
        }
        const RegisterId staged = add_register(name, device, at.tensor, at.dtype, to.radices, cut.write);
        add_transfer(name, at, source, device, *read, access(staged, cut.write), bytes);
        gather.reads.push_back(access(staged, cut.write));
      }
      if (arriving > 0) add_arrival(at, device, access(made.regs.at(p), whole), arriving, combine ? &gather : nullptr);
      if (!combine) continue;
      add_combine(std::move(gather), at, made.regs.at(p), whole, absent_reducer(from.layout, to, arriving));
    }
    return made;
  }

  Placed copy_into(const Placed& from, const Context& at, const Placed& into) {
    if (from.layout.radices != into.layout.radices)
      return copy_cut(from, own_pieces(from.layout), from.layout.radices, into.layout, at, &into);
    for (int p : here(into.layout.mesh)) {
      Task task = new_task(fmt::format("{}.copy@{}", at.name, device_name(into.layout.mesh.devices[p])), at,
                           into.layout.mesh.devices[p], CopyWork{});
      task.reads = {access(from, p)};
      task.writes = {access(into.regs.at(p), into.layout.boxes[p])};
      task.bytes = 2 * bytes_at(into, p);
      add_task(std::move(task));
    }
    return into;
  }

  Placed run_collective(const Placed& from, const Step& step, const Context& at, const Placed* into) {
    Placed to = targets(step, at, into);
    for (const std::vector<int>& group : step.groups) {
      CollectiveId id(collectives_++);
      const int64_t group_bytes = step.bytes / (step.to.mesh.positions() / static_cast<int64_t>(group.size()));
      for (size_t r = 0; r < group.size(); ++r) {
        int p = group[r], after = group[(r + 1) % group.size()];
        if (!to.regs.contains(p)) continue;
        DeviceId device = step.to.mesh.devices[p];
        CollectiveWork work{
            step.kind,         id, static_cast<int>(r), static_cast<int>(group.size()), step.from.is_partial(),
            tdl::Reducer::kSum};
        // Partial on an axis that this step leaves alone: the group's values are whole among themselves.
        work.partial = step.kind == StepKind::kAllReduce || step.kind == StepKind::kReduceScatter;
        if (work.partial) work.reducer = step.from.reducer();
        Task task =
            new_task(fmt::format("{}.{}@{}", at.name, name_of(step.kind), device_name(device)), at, device, work);
        task.queue = collective_queue_[device.index()];
        task.route = cluster_.route(device, step.to.mesh.devices[after]);
        task.reads = {access(from, p)};
        task.writes = {access(to, p)};
        task.writes[0].fresh = false;
        task.bytes = group_bytes / static_cast<int64_t>(group.size());
        add_task(std::move(task));
      }
    }
    return to;
  }

  // Nothing where that is on a device that is not lowered.
  std::optional<Access> access_if_here(const Placed& placed, int position, const Box& box) const {
    const auto found = placed.regs.find(position);
    if (found == placed.regs.end()) return std::nullopt;
    return access(found->second, box, placed.fresh);
  }

  // All that comes from devices that are not lowered: into its place, or what is combined then (`gather`) first beside
  // it.
  void add_arrival(const Context& at, DeviceId target, Access write, int64_t bytes, Task* gather) {
    const std::string name = fmt::format("{}@{}<elsewhere", at.name, device_name(target));
    Task task = new_task(name, at, target, CopyWork{});
    if (gather) {
      write.reg = add_register(name, target, at.tensor, at.dtype, {}, {});
      write.boxes.clear();
      out_.reg(write.reg).bytes = bytes;
      gather->reads.push_back(write);
    }
    task.writes = {std::move(write)};
    task.bytes = bytes;
    add_task(std::move(task));
  }

  void add_transfer(const std::string& name, const Context& at, DeviceId source, DeviceId target, Access read,
                    Access write, int64_t bytes) {
    Task task = new_task(name, at, target, CopyWork{});
    task.route = cluster_.route(source, target);
    if (source != target) task.queue = link_queue_[cluster_.narrowest(source, target).index()];
    task.reads = {std::move(read)};
    task.writes = {std::move(write)};
    task.bytes = source == target ? 2 * bytes : bytes;
    add_task(std::move(task));
  }

  // Where some devices alone are lowered, what others fetch from them stays there until the operation that it is
  // fetched for.
  void read_elsewhere(const Placed& from, const Context& at) {
    if (!listed_) return;
    for (const auto& [p, reg] : from.regs) {
      const DeviceId device = from.layout.mesh.devices[p];
      Task task = new_task(fmt::format("~{}.elsewhere@{}", at.name, device_name(device)), at, device,
                           CopyWork{});  // comes after most other names
      if (task.turn == Task::Turn::kLazy) task.turn = Task::Turn::kInPlace;
      task.reads = {access(from, p)};
      add_task(std::move(task));
    }
  }

  // Local steps and fetches, as targets_of() says; a view is of the register that holds it.
  Placed run_pieces(const Placed& from, const Step& step, const Context& at, const Placed* into) {
    if (step.kind == StepKind::kFetch) read_elsewhere(from, at);
    const std::vector<int>& positions = here(step.to.mesh);
    const std::vector<Target> targets = targets_of(step, positions);
    auto source_of = [&](const Piece& piece) { return step.from.mesh.devices[piece.source]; };
    const bool all_views = !into && std::all_of(targets.begin(), targets.end(), [](const Target& t) { return t.view; });
    const bool no_views = into || (from.fresh && !all_views);  // `fresh` holds for all positions or for none
    Placed to{step.to, {}, into != nullptr || (all_views && from.fresh)};
    for (size_t i = 0; i < positions.size(); ++i) {
      const int p = positions[i];
      const auto& [pieces, view, combine] = targets[i];
      DeviceId device = step.to.mesh.devices[p];
      const Box box = step.to.boxes[p];
      if (!no_views && view) {
        to.regs[p] = from.regs.at(pieces[0]->source);
        continue;
      }
      const RegisterId target = into ? into->regs.at(p)
                                     : add_register(fmt::format("{}@{}", at.name, device_name(device)), device,
                                                    at.tensor, at.dtype, step.to.radices, box);
      to.regs[p] = target;
      Task gather = new_task(fmt::format("{}.combine@{}", at.name, device_name(device)), at, device,
                             CombineWork{combine_reducer(step)});
      int64_t arriving = 0;
      int number = 0;
      std::map<int, int> from_source;  // how many pieces
      for (const Piece* piece : pieces) ++from_source[piece->source];
      for (const Piece* piece : pieces) {
        DeviceId source = source_of(*piece);
        const std::optional<Access> read = access_if_here(from, piece->source, piece->box);
        int64_t bytes = volume(piece->box) * bytes_of(at.dtype);
        std::string name = fmt::format("{}@{}<{}", at.name, device_name(device), device_name(source));
        if (from_source[piece->source] > 1) name += fmt::format(".{}", number++);
        if (!read) {
          arriving += combine ? align_up(bytes, kAlignBytes) : bytes;
        } else if (!combine) {
          add_transfer(name, at, source, device, *read, access(target, piece->box), bytes);
        } else if (source == device) {
          gather.reads.push_back(*read);
        } else {
          RegisterId staged = add_register(name, device, at.tensor, at.dtype, step.to.radices, piece->box);
          add_transfer(name, at, source, device, *read, access(staged, piece->box), bytes);
          gather.reads.push_back(access(staged, piece->box));
        }
      }
      if (arriving > 0) add_arrival(at, device, access(target, box), arriving, combine ? &gather : nullptr);
      if (combine) add_combine(std::move(gather), at, target, box, absent_reducer(step.from, step.to, arriving));
    }
    return to;
  }

  // `gather`, whose reads are the terms of `box`; what has none gets the identity of its reducer. With `absent` it gets
  // the identity of that one, by tasks of their own.
  void add_combine(Task gather, const Context& at, RegisterId target, const Box& box,
                   std::optional<tdl::Reducer> absent) {
    const auto add = [&](const Box& part, std::string name, tdl::Reducer reducer, std::vector<Access> reads) {
      Task task = gather;
      task.name = std::move(name);
      task.work = CombineWork{reducer};
      task.reads = std::move(reads);
      task.writes = {access(target, part)};
      task.bytes = volume(part) * bytes_of(at.dtype) * static_cast<int64_t>(1 + task.reads.size());
      task.flops = static_cast<double>(volume(part)) * static_cast<double>(task.reads.size());
      add_task(std::move(task));
    };
    const tdl::Reducer reducer = std::get<CombineWork>(gather.work).reducer;
    std::vector<Box> covered, rest{box};
    for (size_t i = 0; absent && i < gather.reads.size(); ++i) {
      std::vector<Box> fresh{box_of(gather.reads[i])};
      for (const Box& known : covered) fresh = without(fresh, known);
      for (const Box& part : fresh) rest = without(rest, part);
      covered.insert(covered.end(), fresh.begin(), fresh.end());
    }
    if (!absent || rest.empty()) return add(box, gather.name, reducer, gather.reads);
    if (covered.empty()) return add(box, gather.name, *absent, {});
    int number = 0;
    const auto next = [&] { return fmt::format("{}.combine.{}@{}", at.name, number++, device_name(gather.device)); };
    for (const Box& part : covered) {
      std::vector<Access> reads;
      for (const Access& read : gather.reads)
        if (const Box meet = intersect(part, box_of(read)); !is_empty(meet))
          reads.push_back(access(read.reg, meet, read.fresh));
      add(part, next(), reducer, std::move(reads));
    }
    for (const Box& part : rest) add(part, next(), *absent, {});
  }

  const Box& box_of(const Access& read) const {
    return read.boxes.empty() ? out_.reg(read.reg).boxes[0] : read.boxes[0];
  }

  static std::vector<Box> without(const std::vector<Box>& boxes, const Box& gone) {
    std::vector<Box> rest;
    for (const Box& box : boxes)
      for (Box& part : subtract(box, gone)) rest.push_back(std::move(part));
    return rest;
  }

  // Under what a result is partial that is made of values that are partial under another reducer. Of what comes from
  // devices that are not lowered (`arriving`) nobody asks which elements these are.
  static std::optional<tdl::Reducer> absent_reducer(const Layout& from, const Layout& to, int64_t arriving) {
    if (arriving > 0 || !from.is_partial() || !to.is_partial() || from.reducer() == to.reducer()) return std::nullopt;
    return to.reducer();
  }

  static tdl::Reducer combine_reducer(const Step& step) {
    if (step.from.is_partial()) return step.from.reducer();
    return step.to.is_partial() ? step.to.reducer() : tdl::Reducer::kSum;
  }

  // ------------------------------------------------------------------ ops

  Context context_of(OpId id, std::string name, TensorId tensor, DType dtype, Task::Turn turn) const {
    return {std::move(name), id, graph_.op(id).phase, turn, tensor, dtype};
  }

  Placed operand(OpId id, size_t k) {
    const Op& op = graph_.op(id);
    TensorId t = op.operands[k];
    int c = resolved_.operand_conversion[id.index()][k];
    if (c < 0) return *placed_[t.index()];
    if (!converted_[c]) {
      // Gradients go to their updates as soon as they are whole; everything else is brought just before its first
      // reader.
      Task::Turn turn = op.phase == Phase::kUpdate ? Task::Turn::kEager : Task::Turn::kLazy;
      const Tensor& tensor = graph_.tensor(t);
      Context at = context_of(id, fmt::format("{}>{}.{}", tensor.name, op.name, k), t, tensor.dtype, turn);
      converted_[c] = run_conversion(*placed_[t.index()], resolved_.conversions[c].conversion, at, nullptr);
    }
    return *converted_[c];
  }

  // What an op's kernels are and compute. Layers that are cut alike share both descriptions, and so this.
  struct Kernels {
    const tdl::Derived& derived;
    std::vector<Segment> segments;
    std::map<int, std::vector<double>> flops;  // by position: of each segment

    const std::vector<double>& flops_at(int p, const Op& op, const Graph& graph) {
      auto [at, is_new] = flops.try_emplace(p);
      if (is_new)
        at->second = segment_flops(graph.registry->find(op.definition), *op.bound, segments, derived.ranges[p]);
      return at->second;
    }
  };

  Kernels& kernels_of(const tdl::Bound& bound, const tdl::Derived& derived) {
    const auto key = std::make_pair(&bound, &derived);
    auto at = kernels_.find(key);
    if (at == kernels_.end()) at = kernels_.emplace(key, Kernels{derived, segments_of(bound, derived), {}}).first;
    return at->second;
  }

  void lower_op(OpId id) {
    const Op& op = graph_.op(id);
    const tdl::Bound& bound = *op.bound;
    const tdl::Derived& derived = *resolved_.ops[id.index()].derived;
    const Mesh& mesh = plan_.ops[id.index()].mesh;
    Task::Turn turn = op.phase == Phase::kUpdate ? Task::Turn::kEager : Task::Turn::kInPlace;
    Kernels& kernels = kernels_of(bound, derived);
    const std::vector<Segment>& segments = kernels.segments;
    const std::vector<int>& positions = here(mesh);

    std::vector<std::optional<Placed>> current(bound.tensors.size());
    for (size_t k = 0; k < op.operands.size(); ++k) current[k] = operand(id, k);
    std::vector<std::vector<tdl::Kind>> kinds = derived.kinds;
    std::vector<Conversion> conversions =
        inner_conversions(bound, derived, mesh, bytes_of(inner_dtype(graph_, op)), converter_);
    size_t next_inner = 0;
    for (size_t g = 0; g < segments.size(); ++g) {
      const Segment& segment = segments[g];
      std::map<int, Placed> fetched;  // stage tensors with the inner halos of this segment
      while (next_inner < derived.inner.size() && derived.inner[next_inner].before_stage <= segment.first)
        run_inner(id, next_inner++, conversions, current, fetched, kinds);
      for (int t : segment.writes) current[t] = stage_registers(id, t, kinds, current);
      for (int p : positions) {
        std::string name = segments.size() > 1 ? fmt::format("{}.{}@{}", op.name, g, device_name(mesh.devices[p]))
                                               : fmt::format("{}@{}", op.name, device_name(mesh.devices[p]));
        Context at = context_of(id, name, TensorId(), inner_dtype(graph_, op), turn);
        KernelWork work{op.definition,
                        op.attributes,
                        op.bound,
                        segment.first,
                        segment.last,
                        {derived.ranges[p]},
                        hash_name(op.forward.valid() ? graph_.op(op.forward).name : op.name)};
        Task task = new_task(name, at, mesh.devices[p], std::move(work));
        task.flops = kernels.flops_at(p, op, graph_)[g];
        for (int t : segment.reads)
          task.reads.push_back(access(fetched.contains(t) ? fetched.at(t) : *current[t], p, t));
        for (int t : segment.writes)
          task.writes.push_back(access(current[t]->regs.at(p), current[t]->layout.boxes[p], false, t));
        for (const Access& a : task.reads) task.bytes += access_bytes(a);
        for (const Access& a : task.writes) task.bytes += access_bytes(a);
        task.elementwise = segments.size() == 1 && tdl::is_elementwise(bound);
        add_task(std::move(task));
      }
    }
    std::map<int, Placed> after;  // a result is read by others only
    while (next_inner < derived.inner.size()) run_inner(id, next_inner++, conversions, current, after, kinds);
    for (size_t r = 0; r < op.results.size(); ++r) settle_result(id, r, *current[bound.results[r]]);
  }

  int64_t access_bytes(const Access& a) const {
    const Register& reg = out_.reg(a.reg);
    return volume(a.boxes.empty() ? reg.boxes[0] : a.boxes[0]) * bytes_of(reg.dtype);
  }

  // The registers that a stage writes: a result's, or its own. A result that replaces an operand goes straight into the
  // operand's registers where they are laid out alike.
  Placed stage_registers(OpId id, int tensor, const std::vector<std::vector<tdl::Kind>>& kinds,
                         const std::vector<std::optional<Placed>>& current) {
    const Op& op = graph_.op(id);
    const tdl::Bound& bound = *op.bound;
    const tdl::Derived& derived = *resolved_.ops[id.index()].derived;
    const Mesh& mesh = plan_.ops[id.index()].mesh;
    Layout layout{mesh, bound.tensors[tensor].radices, derived.boxes[tensor], {}};
    for (size_t a = 0; a < mesh.extents.size(); ++a) layout.kinds.push_back(kinds[a][tensor]);
    auto result = std::find(bound.results.begin(), bound.results.end(), tensor) - bound.results.begin();
    if (result == static_cast<std::ptrdiff_t>(bound.results.size())) {
      Context at = context_of(id, fmt::format("{}.{}", op.name, bound.tensors[tensor].name), TensorId(),
                              inner_dtype(graph_, op), Task::Turn::kLazy);
      return new_registers(at, layout);
    }
    TensorId t = op.results[result];
    layout = of_tensor(layout, t);
    bool remade = std::any_of(derived.inner.begin(), derived.inner.end(),
                              [&](const tdl::InnerStep& s) { return s.tensor == tensor; });
    if (TensorId w = graph_.tensor(t).replaces;
        w.valid() && !remade && same_placement(layout, placed_[w.index()]->layout)) {
      bool safe = true;
      for (size_t k = 0; k < op.operands.size(); ++k)
        if (current[k]->regs == placed_[w.index()]->regs)
          safe &= in_place_safe(bound, static_cast<int>(k), static_cast<int>(result));
      if (safe) return *placed_[w.index()];
    }
    const Tensor& made = graph_.tensor(t);
    return new_registers(context_of(id, made.name, t, made.dtype, Task::Turn::kLazy), layout, remade ? ".made" : "");
  }

  // A stage made whole over mesh axes: it stays so. The boxes that its reader lacks, brought to it: for that reader
  // alone (TDL.md rule 17).
  void run_inner(OpId id, size_t number, const std::vector<Conversion>& conversions,
                 std::vector<std::optional<Placed>>& current, std::map<int, Placed>& fetched,
                 std::vector<std::vector<tdl::Kind>>& kinds) {
    const Op& op = graph_.op(id);
    const tdl::InnerStep& inner = resolved_.ops[id.index()].derived->inner[number];
    Placed& placed = *current[inner.tensor];
    const bool any = !placed.regs.empty();
    const TensorId tensor = any ? out_.reg(placed.regs.begin()->second).tensor : TensorId();
    const DType dtype = any ? out_.reg(placed.regs.begin()->second).dtype : inner_dtype(graph_, op);
    Context at = context_of(id, fmt::format("{}.{}.inner{}", op.name, op.bound->tensors[inner.tensor].name, number),
                            tensor, dtype, Task::Turn::kLazy);
    for (int a : inner.axes) kinds[a][inner.tensor] = std::nullopt;
    Conversion whole = conversions[number], halo = conversions[number];
    size_t first_fetch = 0;
    if (!inner.axes.empty())
      while (first_fetch < whole.steps.size() &&
             (first_fetch == 0 || whole.steps[first_fetch - 1].to.kinds != conversions[number].to.kinds))
        ++first_fetch;
    if (inner.needed.empty()) first_fetch = whole.steps.size();
    const auto split = whole.steps.begin() + static_cast<std::ptrdiff_t>(first_fetch);
    halo.steps = {split, conversions[number].steps.end()};
    whole.steps = {conversions[number].steps.begin(), split};
    if (!whole.steps.empty()) placed = run_conversion(placed, whole, at, nullptr);
    at.name += ".halo";
    if (!inner.needed.empty()) fetched.insert_or_assign(inner.tensor, run_conversion(placed, halo, at, nullptr));
  }

  // The result into its home: as it fell, converted into its kept layout, or into the registers of what it replaces.
  void settle_result(OpId id, size_t r, Placed made) {
    const Op& op = graph_.op(id);
    TensorId t = op.results[r];
    const Tensor& tensor = graph_.tensor(t);
    const Placed* into = tensor.replaces.valid() ? &*placed_[tensor.replaces.index()] : nullptr;
    if (!into || made.regs != into->regs) made.layout = of_tensor(resolved_.ops[id.index()].layouts.results[r], t);
    if (const ResolvedConversion* kept = kept_[t.index()]) {
      Task::Turn turn = op.phase == Phase::kUpdate ? Task::Turn::kEager : Task::Turn::kLazy;
      made = run_conversion(made, kept->conversion, context_of(id, tensor.name + ">kept", t, tensor.dtype, turn), into);
    }
    if (into && made.regs != into->regs)
      made = copy_into(made, context_of(id, tensor.name + ">kept", t, tensor.dtype, Task::Turn::kEager), *into);
    made.fresh = into != nullptr;
    placed_[t.index()] = std::move(made);
  }

  // ------------------------------------------------------------------ outputs, workspaces

  void lower_output(TensorId id) {
    const Tensor& tensor = graph_.tensor(id);
    const Placed& home = *placed_[id.index()];
    OpId last = tensor.producer.valid() ? tensor.producer : OpId(graph_.ops.size() - 1);
    Context at{tensor.name + ".output", last, Phase::kUpdate, Task::Turn::kEager, id, tensor.dtype};
    const Layout on_host = layout_on_first_host(home.layout, cluster_);
    const DeviceId host = on_host.mesh.devices[0];
    Placed given = fetch_to(home, on_host, at);
    if (here(on_host.mesh).empty()) return;
    Task task = new_task(fmt::format("{}@{}", at.name, device_name(host)), at, host, OutputWork{id});
    task.reads = {access(given, 0)};
    task.bytes = bytes_at(given, 0);
    add_task(std::move(task));
  }

  void add_scratch() {
    std::vector<int64_t> needed(out_.tasks.size());
    constexpr size_t kHalves = 2;  // forward and backward, whose kernels are different: a thread each
    shared_out(kHalves, kHalves, [&](size_t part, int) {
      Workspaces workspaces;
      for (size_t t = part * needed.size() / kHalves; t < (part + 1) * needed.size() / kHalves; ++t)
        needed[t] = workspaces.bytes_of(out_.tasks[t], out_);
    });
    for (size_t t = 0; t < needed.size(); ++t) {
      const int64_t bytes = needed[t];
      if (bytes == 0) continue;
      Task& task = out_.tasks[t];
      Register reg;
      reg.name = task.name + ".scratch";
      reg.device = task.device;
      reg.bytes = bytes;
      out_.registers.push_back(std::move(reg));
      task.scratch = {RegisterId(out_.registers.size() - 1)};
    }
  }

  const Graph& graph_;
  const Plan& plan_;
  const Cluster& cluster_;
  const Listed listed_;
  const Resolved resolved_;
  Converter converter_;
  std::deque<std::pair<SharedList<DeviceId>, std::vector<int>>> here_;  // by mesh
  PhysicalGraph out_;
  std::vector<QueueId> compute_queue_, collective_queue_, link_queue_;
  std::vector<std::vector<Shape>> radices_;       // of each tensor's registers, but for the mixed ones
  std::vector<bool> mixed_;                       // each layout's registers have the layout's own radices
  std::vector<std::optional<Placed>> placed_;     // each tensor at home
  std::vector<std::optional<Placed>> converted_;  // each conversion's result, when made
  std::vector<const ResolvedConversion*> kept_;   // each tensor's into its kept layout, if any
  std::map<std::pair<const tdl::Bound*, const tdl::Derived*>, Kernels> kernels_;
  size_t collectives_ = 0;
};

}  // namespace

Layout layout_on_hosts(const Layout& home, const Cluster& cluster) {
  Mesh hosts;
  for (DeviceId d : home.mesh.devices)
    if (const DeviceId host = cluster.device(d).host; hosts.position_of(host) < 0) hosts.devices.push_back(host);
  hosts.extents = {hosts.positions()};
  return make_layout(hosts, {Sbp::broadcast()}, home.radices);
}

Layout layout_on_first_host(const Layout& home, const Cluster& cluster) {
  return make_layout(Mesh{{}, {cluster.device(home.mesh.devices[0]).host}}, {}, home.radices);
}

PhysicalGraph lower_local(const Graph& graph, const Plan& plan, const Cluster& cluster, const Listed& devices,
                          const Watch& watch) {
  return Lowering(graph, plan, cluster, devices).run(watch);
}

}  // namespace partita
