#include "partita/physical/testing/random_net.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/physical/bundle.h"

namespace partita::testing {
namespace {

enum class Along { kSplit, kBroadcast, kPartial };  // of a tensor over its micro-batches
enum class Over { kRows, kColumns, kAll, kPartial };

struct Placement2 {
  std::vector<int> mesh;
  Over over = Over::kAll;
  Along time = Along::kSplit;
  auto operator<=>(const Placement2&) const = default;
};

enum class Kind { kMatmul, kMatmulNT, kMatmulTN, kElementwise, kToScalar, kLoad, kOutput };

struct NetOp {
  std::string name, text;
  Kind kind = Kind::kElementwise;
  std::vector<std::string> operands;
  std::string result;
  Phase phase = Phase::kForward;
  std::vector<int> mesh;
  std::string split;  // the index that the mesh splits; empty: replicated
  int rate = 1, stage = 0;
  std::vector<Over> needs;
};

struct NetTensor {
  std::string name;
  Shape shape;
  bool parameter = false;
  Placement2 placed;
  int producer = -1;
  std::string replaces;
};

// A tensor in registers, one a mesh position.
struct Placed {
  std::vector<RegisterId> regs;
  bool fresh = false;
};

Interval shard_of(Interval whole, int64_t parts, int64_t part) {
  const Interval cut_out = cut(whole.size(), parts, part);
  return {whole.lo + cut_out.lo, whole.lo + cut_out.hi};
}

class Maker {
 public:
  Maker(Rng& rng, const NetOptions& options) : rng_(rng) {
    m_ = options.micro_batches.value_or(pick({1, 2, 3, 4}));
    stages_ = options.stages.value_or(pick({1, 1, 2, 3}));
    layers_ = options.layers.value_or(pick({2, 3, 4}));
    draw_schedule(options);
    samples_ = 3 * m_ + pick({0, 0, 1, 2});
    width_ = pick({3, 4, 5, 8});
    per_stage_ = options.devices_per_stage.value_or(stages_ == 1 ? pick({1, 2, 2, 3}) : pick({1, 2}));
    samples_ += m_ * std::max(0, per_stage_ - 3);  // a micro-batch and a row have elements for every device
    width_ = std::max(width_, per_stage_);
    devices_ = stages_ * per_stage_;
    host_ = devices_;
    tied_ = options.tied.value_or(chance(.3));
    clip_ = options.clip.value_or(chance(.4));
    momentum_ = options.momentum.value_or(chance(.5));
    zero_ = options.zero.value_or(pick({0, 0, 1, 3}));
    recompute_ = options.recompute.value_or(chance(.4));
    offload_ = options.offload.value_or(chance(.3));
    fetches_ = options.fetches.value_or(std::vector{0., .3, 1.}[rng_.below(3)]);
    ragged_ = options.ragged.value_or(chance(.5)) && stages_ == 1 && per_stage_ == 3;
    gather_again_ = options.gather_again.value_or(chance(.3));
    cast_ = options.cast.value_or(chance(.3));
    mixed_updates_ = options.mixed_updates.value_or(chance(.4));
    scratch_ = options.scratch.value_or(chance(.5));
  }

  RandomNet run() {
    out_.name = "random net";
    out_.micro_batches = m_;
    out_.device_count = devices_ + 1;
    out_.compute_count = devices_;
    make_queues();
    build();
    place_parameters();
    for (std::size_t i = 0; i < ops_.size(); ++i) lower_op(static_cast<int>(i), false);
    std::string features = fmt::format("{} micro-batches, {} x {} stages of {}, {}, zero {}", m_, stages_, virtual_,
                                       per_stage_, name_of(schedule_), zero_);
    for (const auto& [on, name] :
         std::initializer_list<std::pair<bool, const char*>>{{tied_, "tied"},
                                                             {clip_, "clip"},
                                                             {momentum_, "momentum"},
                                                             {recompute_, "recompute"},
                                                             {offload_, "offload"},
                                                             {ragged_, "ragged"},
                                                             {gather_again_, "gather again"},
                                                             {cast_, "cast"},
                                                             {mixed_updates_, "mixed updates"}})
      if (on) features += std::string(", ") + name;
    return {std::move(out_), schedule_, virtual_, features};
  }

 private:
  int pick(std::initializer_list<int> choices) { return choices.begin()[rng_.below(choices.size())]; }
  bool chance(double p) { return rng_.uniform() < p; }

  void draw_schedule(const NetOptions& options) {
    std::vector<Schedule> schedules{Schedule::kGpipe, Schedule::k1F1B, Schedule::kDefault, Schedule::kInterleaved};
    if (options.micro_batches && m_ % stages_ != 0) schedules.pop_back();
    schedule_ = options.schedule.value_or(schedules[rng_.below(schedules.size())]);
    if (schedule_ == Schedule::kInterleaved) {
      virtual_ = options.virtual_stages.value_or(pick({1, 2, 2, 3}));
      if (!options.micro_batches) m_ = stages_ * pick({1, 1, 2});
    }
    layers_ = std::max(stages_ * virtual_, layers_);
  }

  // ---------------------------------------------------------------- the net

  std::vector<int> stage_mesh(int stage) {
    std::vector<int> mesh;
    const int rank = stage % stages_;
    for (int d = rank * per_stage_; d < (rank + 1) * per_stage_; ++d) mesh.push_back(d);
    if (ragged_ && chance(.8)) mesh.erase(mesh.begin() + static_cast<std::ptrdiff_t>(rng_.below(3)));
    return mesh;
  }

  NetTensor& tensor(const std::string& name) { return tensors_.at(name); }

  NetTensor& new_tensor(const std::string& name, Shape shape, Placement2 placed) {
    NetTensor& t = tensors_[name];
    t = {name, std::move(shape), false, std::move(placed), -1, ""};
    numbers_.try_emplace(name, numbers_.size());
    return t;
  }

  // Chooses a strategy unless `split` gives it, and adds the op and its result.
  std::string add(const std::string& name, const std::string& text, Kind kind, std::vector<std::string> operands,
                  const std::string& result, Shape shape, Phase phase, int stage, Along time, int rate,
                  std::optional<std::vector<int>> mesh = {}, std::optional<std::string> split = {}) {
    NetOp op{name, text,  kind, std::move(operands), result, phase, mesh ? *mesh : stage_mesh(stage), "",
             rate, stage, {}};
    const bool matrix = kind == Kind::kMatmul || kind == Kind::kMatmulNT || kind == Kind::kMatmulTN;
    op.split = split ? *split
                     : (matrix ? std::vector{"i", "j", "k"}[rng_.below(3)]
                               : std::vector{"i", "j", "i", "j", ""}[rng_.below(5)]);
    Over gives = Over::kAll;
    if (matrix) {
      const bool i = op.split == "i", j = op.split == "j";
      const Over a_i = kind == Kind::kMatmulTN ? Over::kColumns : Over::kRows,
                 a_k = kind == Kind::kMatmulTN ? Over::kRows : Over::kColumns;
      const Over b_j = kind == Kind::kMatmulNT ? Over::kRows : Over::kColumns,
                 b_k = kind == Kind::kMatmulNT ? Over::kColumns : Over::kRows;
      op.needs = {i ? a_i : j ? Over::kAll : a_k, i ? Over::kAll : j ? b_j : b_k};
      gives = i ? Over::kRows : j ? Over::kColumns : Over::kPartial;
    } else {
      const Over over = op.split == "i" ? Over::kRows : op.split == "j" ? Over::kColumns : Over::kAll;
      for (const std::string& operand : op.operands)
        op.needs.push_back(volume(tensor(operand).shape) == 1 ? Over::kAll : over);
      gives = kind != Kind::kToScalar || op.split.empty() ? over : Over::kPartial;
    }
    new_tensor(result, std::move(shape), {op.mesh, gives, time}).producer = static_cast<int>(ops_.size());
    ops_.push_back(std::move(op));
    return result;
  }

  void build() {
    const Shape data{samples_, width_}, square{width_, width_}, scalar{1, 1};
    std::vector<int> stage(layers_);
    for (int l = 0; l < layers_; ++l) stage[l] = l * stages_ * virtual_ / layers_;
    for (const char* name : {"x", "y"}) {
      new_tensor(name, data, {{host_}, Over::kAll, Along::kSplit}).producer = static_cast<int>(ops_.size());
      ops_.push_back({std::string("load_") + name, "", Kind::kLoad, {}, name, Phase::kForward, {host_}, "", m_, 0, {}});
    }
    const std::string matmul = "matmul(a, b)[i, j] = sum(k) a[i, k] * b[k, j]",
                      nt = "matmul_nt(a, b)[i, j] = sum(k) a[i, k] * b[j, k]",
                      tn = "matmul_tn(a, b)[i, j] = sum(k) a[k, i] * b[k, j]";
    std::string h = "x";
    std::vector<std::pair<std::string, std::string>> weights;  // kept, as used
    for (int l = 0; l < layers_; ++l) {
      const std::string id = std::to_string(l);
      const std::string w = tied_ && l == layers_ - 1 && layers_ > 1 ? "W0" : "W" + id;
      if (!tensors_.contains(w)) {
        const Over over = zero_ == 3   ? Over::kRows
                          : zero_ == 1 ? Over::kAll
                                       : std::vector{Over::kAll, Over::kRows, Over::kColumns}[rng_.below(3)];
        new_tensor(w, square, {stage_mesh(stage[l]), over, Along::kBroadcast}).parameter = true;
        parameters_.push_back(w);
      }
      std::string used = w;
      if (cast_ && l == 0)
        used = add("cast0", "cast(a)[i, j] = a[i, j] * 1", Kind::kElementwise, {w}, "Wc", square, Phase::kForward,
                   stage[l], Along::kBroadcast, 1);
      weights.push_back({w, used});
      const std::string z = add("mm" + id, matmul, Kind::kMatmul, {h, used}, "z" + id, data, Phase::kForward, stage[l],
                                Along::kSplit, m_);
      h = add("tanh" + id, "tanh(x)[i, j] = tanh(x[i, j])", Kind::kElementwise, {z}, "h" + id, data, Phase::kForward,
              stage[l], Along::kSplit, m_);
    }
    const int last = stage.back();
    add("loss", "loss(a, b)[u, v] where u < 1, v < 1 = sum(i, j) (a[i, j] - b[i, j]) * (a[i, j] - b[i, j])",
        Kind::kToScalar, {h, "y"}, "loss", scalar, Phase::kForward, last, Along::kPartial, m_);
    std::string dh = add("dloss", "dloss(a, b)[i, j] = a[i, j] - b[i, j]", Kind::kElementwise, {h, "y"}, "dh", data,
                         Phase::kBackward, last, Along::kSplit, m_);
    std::map<std::string, std::vector<std::string>> gradients;
    for (int l = layers_ - 1; l >= 0; --l) {
      const std::string id = std::to_string(l), before = l == 0 ? "x" : "h" + std::to_string(l - 1);
      const std::string dz =
          add("dtanh" + id, "dtanh(d, a)[i, j] = d[i, j] * (1 - a[i, j] * a[i, j])", Kind::kElementwise, {dh, "h" + id},
              "dz" + id, data, Phase::kBackward, stage[l], Along::kSplit, m_);
      gradients[weights[l].first].push_back(add("dW" + id, tn, Kind::kMatmulTN, {before, dz}, "g" + id, square,
                                                Phase::kBackward, stage[l], Along::kPartial, m_));
      if (l > 0)
        dh = add("dx" + id, nt, Kind::kMatmulNT, {dz, weights[l].second}, "dh" + std::to_string(l - 1), data,
                 Phase::kBackward, stage[l], Along::kSplit, m_);
    }
    updates(gradients, stage);
    for (const std::string& output :
         chance(.5) ? std::vector<std::string>{"loss", h} : std::vector<std::string>{"loss"})
      ops_.push_back(
          {"output_" + output, "", Kind::kOutput, {output}, "", Phase::kUpdate, {host_}, "", 1, 0, {Over::kAll}});
  }

  void updates(std::map<std::string, std::vector<std::string>>& gradients, const std::vector<int>& stage) {
    const Shape square{width_, width_}, scalar{1, 1};
    const std::string add_text = "add(a, b)[i, j] = a[i, j] + b[i, j]";
    std::map<std::string, std::string> whole;
    for (const std::string& w : parameters_) {
      const auto& parts = gradients[w];
      const int at = stage[std::stoi(parts.back().substr(1))];
      whole[w] = parts.size() == 1 ? parts[0]
                                   : add("add_" + w, add_text, Kind::kElementwise, parts, "G" + w, square,
                                         Phase::kUpdate, at, Along::kBroadcast, 1);
    }
    if (clip_) {
      std::vector<std::string> norms;
      for (const std::string& w : parameters_)
        norms.push_back(add("norm_" + w, "norm(a)[u, v] where u < 1, v < 1 = sum(i, j) a[i, j] * a[i, j]",
                            Kind::kToScalar, {whole[w]}, "n" + w, scalar, Phase::kUpdate, 0, Along::kBroadcast, 1,
                            tensor(whole[w]).placed.mesh));
      std::string sum = norms[0];
      for (std::size_t i = 1; i < norms.size(); ++i)
        sum = add("addnorm" + std::to_string(i), add_text, Kind::kElementwise, {sum, norms[i]},
                  "ns" + std::to_string(i), scalar, Phase::kUpdate, 0, Along::kBroadcast, 1, std::vector{0}, "");
      add("clip", "clip(a)[i, j] = min(1, 0.1 / sqrt(a[i, j] + 0.000001))", Kind::kElementwise, {sum}, "sc", scalar,
          Phase::kUpdate, 0, Along::kBroadcast, 1, std::vector{0}, "");
    }
    for (const std::string& w : parameters_) {
      const Placement2 kept = tensor(w).placed;
      std::string g = whole[w];
      std::optional<std::string> split;
      if (zero_ > 0) split = "i";
      else if (!mixed_updates_) split = kept.over == Over::kRows ? "i" : kept.over == Over::kColumns ? "j" : "";
      const std::vector<int> mesh = !ragged_ || !mixed_updates_ ? kept.mesh : stage_mesh(0);
      if (clip_)
        g = add("scale_" + w, "scale(a, c)[i, j] = a[i, j] * c[0, 0]", Kind::kElementwise, {g, "sc"}, "cg" + w, square,
                Phase::kUpdate, 0, Along::kBroadcast, 1, mesh, split);
      if (momentum_) {
        new_tensor("V" + w, square, {kept.mesh, zero_ > 0 ? Over::kRows : kept.over, Along::kBroadcast}).parameter =
            true;
        states_.push_back("V" + w);
        g = add("momentum_" + w, "momentum(v, g)[i, j] = 0.9 * v[i, j] + g[i, j]", Kind::kElementwise, {"V" + w, g},
                "V'" + w, square, Phase::kUpdate, 0, Along::kBroadcast, 1, mesh, split);
        tensor(g).replaces = "V" + w;
      }
      const std::string updated =
          add("update_" + w, "update(w, g)[i, j] = w[i, j] - 0.05 * g[i, j]", Kind::kElementwise, {w, g}, "W'" + w,
              square, Phase::kUpdate, 0, Along::kBroadcast, 1, mesh, split);
      tensor(updated).replaces = w;
    }
  }

  // ---------------------------------------------------------------- lowering

  void make_queues() {
    const int all = devices_ + 1;
    for (int d = 0; d < all; ++d)
      out_.queues.push_back(
          {d == host_ ? QueueKind::kHost : QueueKind::kCompute, DeviceId(d), {}, fmt::format("dev{}.compute", d)});
    for (const char* of : {"activations", "parameters"})
      for (int d = 0; d < all; ++d)
        out_.queues.push_back({QueueKind::kCollective, DeviceId(d), {}, fmt::format("dev{}.collective.{}", d, of)});
    for (int d = 0; d < all; ++d)
      for (int e = 0; e < all; ++e)
        out_.queues.push_back({QueueKind::kLink, {}, link(d, e), fmt::format("{}-{}", d, e)});
  }
  LinkId link(int from, int to) const { return LinkId(from * (devices_ + 1) + to); }
  QueueId link_queue(int from, int to) const { return QueueId(3 * (devices_ + 1) + link(from, to).index()); }

  // The box that position `pos` holds in firing n.
  Box box(const Placement2& placed, const Shape& shape, int pos, int firing) const {
    Box box = full_box(shape);
    const int64_t parts = static_cast<int64_t>(placed.mesh.size());
    if (placed.time == Along::kSplit) box[0] = shard_of(box[0], m_, firing);
    if (placed.over == Over::kRows) box[0] = shard_of(box[0], parts, pos);
    if (placed.over == Over::kColumns) box[1] = shard_of(box[1], parts, pos);
    return box;
  }
  std::vector<Box> boxes(const Placement2& placed, const Shape& shape, int pos) const {
    std::vector<Box> result{box(placed, shape, pos, 0)};
    for (int firing = 1; placed.time == Along::kSplit && firing < m_; ++firing)
      result.push_back(box(placed, shape, pos, firing));
    return result;
  }

  RegisterId new_register(const std::string& name, int device, const NetTensor& t, const Placement2& placed, int pos,
                          int uses) {
    Register reg;
    reg.name = name;
    reg.device = DeviceId(device);
    reg.tensor = TensorId(numbers_.at(t.name));
    reg.axes = t.shape;
    reg.boxes = boxes(placed, t.shape, pos);
    for (const Box& b : reg.boxes) reg.bytes = std::max(reg.bytes, volume(b) * bytes_of(reg.dtype));
    reg.uses = uses;
    out_.registers.push_back(std::move(reg));
    return RegisterId(out_.registers.size() - 1);
  }

  Task new_task(const std::string& name, int op, int device, int rate, Task::Turn turn, Work work) const {
    Task task;
    task.name = name;
    task.op = OpId(op);
    task.phase = ops_[op].phase;
    task.device = DeviceId(device);
    task.queue = QueueId(device);
    task.rate = rate;
    task.stage = ops_[op].stage;
    task.turn = turn;
    task.work = std::move(work);
    return task;
  }
  void push(Task task) { out_.tasks.push_back(std::move(task)); }

  // An access to all of a register if the boxes are its own.
  Access part(RegisterId id, bool fresh, std::vector<Box> boxes) const {
    if (boxes == out_.reg(id).boxes) boxes.clear();
    return {id, fresh, std::move(boxes), -1};
  }

  void place_parameters() {
    for (const auto* names : {&parameters_, &states_})
      for (const std::string& name : *names) {
        const NetTensor& t = tensor(name);
        Placed& placed = placed_[name];
        for (std::size_t p = 0; p < t.placed.mesh.size(); ++p) {
          placed.regs.push_back(new_register(fmt::format("{}@{}", name, t.placed.mesh[p]), t.placed.mesh[p], t,
                                             t.placed, static_cast<int>(p), 1));
          out_.reg(placed.regs.back()).carried = true;
        }
      }
    for (const NetOp& op : ops_)
      if (op.phase == Phase::kForward && op.name.starts_with("tanh")) {
        if (recompute_ && chance(.6)) for_backward_[op.result] = "recomputed";
        else if (offload_ && chance(.6)) for_backward_[op.result] = "offloaded";
      }
  }

  int uses_at(const NetTensor& t, int rate) const { return t.placed.time == Along::kSplit ? rate : 1; }

  Placed lower_op(int number, bool clone) {
    const NetOp& op = ops_[number];
    const std::string name = op.name + (clone ? ".recompute" : "");
    if (op.kind == Kind::kLoad) {
      const NetTensor& t = tensor(op.result);
      Placed placed{{new_register(op.result + "@host", host_, t, t.placed, 0, m_)}};
      Task task = new_task(op.name, number, host_, m_, Task::Turn::kLazy, LoadWork{TensorId(numbers_.at(op.result))});
      task.writes = {{placed.regs[0]}};
      push(std::move(task));
      return placed_[op.result] = placed;
    }
    std::vector<Placed> operands;
    for (std::size_t k = 0; k < op.operands.size(); ++k) operands.push_back(operand(number, k, clone));

    Placed result;
    const NetTensor* t = op.result.empty() ? nullptr : &tensor(op.result);
    const NetTensor* replaced = t && !t->replaces.empty() ? &tensor(t->replaces) : nullptr;
    const bool in_place =
        replaced && replaced->placed.mesh == t->placed.mesh && replaced->placed.over == t->placed.over;
    if (in_place) {
      result = {placed_[t->replaces].regs, true};
    } else if (t) {
      for (std::size_t p = 0; p < op.mesh.size(); ++p) {
        const std::string reg = fmt::format("{}{}@{}", t->name, clone ? ".recomputed" : "", op.mesh[p]);
        result.regs.push_back(new_register(reg, op.mesh[p], *t, t->placed, static_cast<int>(p), uses_at(*t, op.rate)));
        out_.reg(result.regs.back()).accumulated = t->placed.time == Along::kPartial && op.rate > 1;
      }
    }
    for (std::size_t p = 0; p < op.mesh.size(); ++p) {
      const Task::Turn turn = clone                        ? Task::Turn::kLazy
                              : op.phase == Phase::kUpdate ? Task::Turn::kEager
                                                           : Task::Turn::kInPlace;
      Work work = op.kind == Kind::kOutput ? Work(OutputWork{TensorId(numbers_.at(op.operands[0]))})
                                           : Work(kernel(op, static_cast<int>(p)));
      Task task = new_task(fmt::format("{}@{}", name, op.mesh[p]), number, op.mesh[p], op.rate, turn, std::move(work));
      for (std::size_t k = 0; k < operands.size(); ++k)
        task.reads.push_back(
            {operands[k].regs[p], operands[k].fresh, {}, op.kind == Kind::kOutput ? -1 : static_cast<int>(k)});
      if (t) task.writes.push_back({result.regs[p], false, {}, static_cast<int>(op.operands.size())});
      task.elementwise = op.kind == Kind::kElementwise;
      if (scratch_ && op.kind != Kind::kOutput && chance(.4)) {
        Register reg;
        reg.name = task.name + ".scratch";
        reg.device = DeviceId(op.mesh[p]);
        reg.bytes = 4 * rng_.between(1, 40);
        reg.uses = op.rate;
        out_.registers.push_back(std::move(reg));
        task.scratch = {RegisterId(out_.registers.size() - 1)};
      }
      push(std::move(task));
    }
    if (!t || clone) return result;
    placed_[t->name] = result;
    if (replaced && !in_place) {
      const Placed into = placed_[t->replaces];
      convert(number, *t, result, replaced->placed, 1, "kept", &into);
    }
    return result;
  }

  KernelWork kernel(const NetOp& op, int pos) {
    std::vector<Shape> shapes;
    for (const std::string& name : op.operands) shapes.push_back(tensor(name).shape);
    auto& bound = formulas_[{op.text, shapes}];
    if (!bound) bound = std::make_shared<const tdl::Bound>(tdl::bind(op.text, shapes));
    KernelWork work{bound->name, {}, bound, 0, static_cast<int>(bound->stages.size()), {}, 0};
    const bool timed = tensor(op.operands[0]).placed.time == Along::kSplit;
    const std::string along_time = !timed ? "" : op.kind == Kind::kMatmulTN ? "k" : "i";
    for (int firing = 0; firing < (timed ? op.rate : 1); ++firing) {
      std::vector<Interval> ranges = tdl::full_ranges(*bound);
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        if (bound->indices[i].name == along_time) ranges[i] = shard_of(ranges[i], m_, firing);
        if (bound->indices[i].name == op.split)
          ranges[i] = shard_of(ranges[i], static_cast<int64_t>(op.mesh.size()), pos);
      }
      work.ranges.push_back(std::move(ranges));
    }
    return work;
  }

  Placed operand(int number, std::size_t k, bool clone) {
    const NetOp& op = ops_[number];
    const NetTensor& t = tensor(op.operands[k]);
    const bool backward = op.phase == Phase::kBackward;
    std::string variant = "kept";
    if (backward && !clone && for_backward_.contains(t.name)) variant = for_backward_[t.name];
    Placed source = placed_[t.name];
    if (variant == "recomputed") {
      auto known = variants_.find(t.name);
      source = known != variants_.end() ? known->second : variants_[t.name] = lower_op(t.producer, true);
    } else if (variant == "offloaded") {
      auto known = variants_.find(t.name);
      source = known != variants_.end() ? known->second : variants_[t.name] = offload(t, source);
    }
    const Placement2 need{op.mesh, op.needs[k], t.placed.time};
    if (t.placed.mesh == need.mesh && (t.placed.over == need.over || need.mesh.size() == 1)) return source;
    int rate = t.placed.time == Along::kSplit ? m_ : 1;
    if (t.parameter && op.rate == m_ && gather_again_) rate = m_;
    const bool again = (backward || clone) && ((zero_ == 3 && t.parameter) || variant != "kept");
    const std::string tag =
        fmt::format("{}{}{}{}", again ? "b" : "f", static_cast<int>(need.over), fmt::join(need.mesh, ""),
                    variant == "kept" ? std::to_string(rate) : variant + std::to_string(rate));
    const auto key = std::pair(t.name, tag);
    auto known = conversions_.find(key);
    if (known != conversions_.end()) return known->second;
    return conversions_[key] = convert(number, t, source, need, rate, tag, nullptr);
  }

  Placed offload(const NetTensor& t, const Placed& source) {
    Placed back;
    for (std::size_t p = 0; p < source.regs.size(); ++p) {
      const int device = t.placed.mesh[p], pos = static_cast<int>(p);
      const RegisterId on_host = new_register(fmt::format("{}.host{}", t.name, p), host_, t, t.placed, pos, m_);
      const RegisterId returned = new_register(fmt::format("{}.back@{}", t.name, device), device, t, t.placed, pos, m_);
      copy(fmt::format("offload_{}@{}", t.name, device), t.producer, {source.regs[p]}, {on_host}, m_,
           Task::Turn::kEager);
      copy(fmt::format("fetch_back_{}@{}", t.name, device), t.producer, {on_host}, {returned}, m_, Task::Turn::kLazy);
      back.regs.push_back(returned);
    }
    return back;
  }

  void copy(const std::string& name, int op, Access read, Access write, int rate, Task::Turn turn) {
    const int from = out_.reg(read.reg).device.value, to = out_.reg(write.reg).device.value;
    Task task = new_task(name, op, to, rate, turn, CopyWork{});
    if (from != to) {
      task.queue = link_queue(from, to);
      task.route = {link(from, to)};
    }
    task.bytes = out_.reg(write.reg).bytes;
    task.reads = {std::move(read)};
    task.writes = {std::move(write)};
    push(std::move(task));
  }

  // Converts by one collective, or by fetches, staged and summed if the source is partial.
  Placed convert(int op, const NetTensor& t, const Placed& source, const Placement2& to, int rate,
                 const std::string& tag, const Placed* into) {
    const Placement2& from = t.placed;
    const Task::Turn turn = into ? Task::Turn::kEager : Task::Turn::kLazy;
    const auto name = [&](std::size_t p) { return fmt::format("{}>{}@{}", t.name, tag, to.mesh[p]); };
    Placed result;
    for (std::size_t p = 0; p < to.mesh.size(); ++p)
      result.regs.push_back(into ? into->regs[p] : new_register(name(p), to.mesh[p], t, to, static_cast<int>(p), rate));

    const bool partial = from.over == Over::kPartial;
    const bool collective =
        from.mesh == to.mesh && from.mesh.size() > 1 && (partial || (from.over != Over::kAll && to.over == Over::kAll));
    if (collective && rng_.uniform() >= fetches_) {
      const CollectiveId id(collectives_++);
      const StepKind kind = !partial                ? StepKind::kAllGather
                            : to.over == Over::kAll ? StepKind::kAllReduce
                                                    : StepKind::kReduceScatter;
      const int queues = from.time == Along::kSplit ? 1 : 2;  // a tensor that comes in micro-batches is of samples
      for (std::size_t p = 0; p < to.mesh.size(); ++p) {
        const CollectiveWork work{
            kind, id, static_cast<int>(p), static_cast<int>(to.mesh.size()), partial, tdl::Reducer::kSum};
        Task task = new_task("collective_" + name(p), op, to.mesh[p], rate, turn, work);
        task.queue = QueueId(queues * (devices_ + 1) + to.mesh[p]);
        task.route = {link(to.mesh[p], to.mesh[(p + 1) % to.mesh.size()])};
        task.bytes = out_.reg(result.regs[p]).bytes;
        task.reads = {{source.regs[p], source.fresh}};
        task.writes = {{result.regs[p]}};
        push(std::move(task));
      }
      return result;
    }
    for (std::size_t p = 0; p < to.mesh.size(); ++p) {
      const std::vector<Box> mine = boxes(to, t.shape, static_cast<int>(p));
      const std::string fetch = "fetch_" + name(p);
      if (partial) {
        std::vector<Access> terms;
        for (std::size_t q = 0; q < source.regs.size(); ++q) {
          const Access remote = part(source.regs[q], source.fresh, mine);
          if (from.mesh[q] == to.mesh[p]) {
            terms.push_back(remote);
            continue;
          }
          const RegisterId staged =
              new_register(fmt::format("{}.staged{}", name(p), q), to.mesh[p], t, to, static_cast<int>(p), rate);
          copy(fmt::format("{}<{}", fetch, from.mesh[q]), op, remote, {staged}, rate, turn);
          terms.push_back({staged});
        }
        Task sum = new_task("sum_" + name(p), op, to.mesh[p], rate, turn, CombineWork{tdl::Reducer::kSum});
        sum.reads = std::move(terms);
        sum.writes = {{result.regs[p]}};
        push(std::move(sum));
        continue;
      }
      std::vector<std::size_t> sources;
      if (from.over == Over::kAll) {
        const auto own = std::find(from.mesh.begin(), from.mesh.end(), to.mesh[p]);
        sources = {own != from.mesh.end() ? static_cast<std::size_t>(own - from.mesh.begin()) : p % from.mesh.size()};
      } else {
        for (std::size_t q = 0; q < from.mesh.size(); ++q) sources.push_back(q);
      }
      for (std::size_t q : sources) {
        const std::vector<Box> theirs = boxes(from, t.shape, static_cast<int>(q));
        std::vector<Box> common;
        bool any = false;
        for (std::size_t n = 0; n < mine.size(); ++n) {
          Box both = intersect(theirs[n], mine[n]);
          if (is_empty(both)) both.assign(both.size(), {0, 0});
          any |= !is_empty(both);
          common.push_back(std::move(both));
        }
        if (any)
          copy(fmt::format("{}<{}", fetch, from.mesh[q]), op, part(source.regs[q], source.fresh, common),
               part(result.regs[p], false, common), rate, turn);
      }
    }
    return result;
  }

  Rng& rng_;
  int m_, stages_, virtual_ = 1, layers_, samples_, width_, per_stage_, devices_, host_, zero_;
  Schedule schedule_;
  bool tied_, clip_, momentum_, recompute_, offload_, ragged_, gather_again_, cast_, mixed_updates_, scratch_;
  double fetches_;
  std::vector<NetOp> ops_;
  std::map<std::string, NetTensor> tensors_;
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> parameters_, states_;
  std::map<std::string, std::string> for_backward_;  // the tensor that backward readers get, if not the kept value
  std::map<std::string, Placed> placed_, variants_;
  std::map<std::pair<std::string, std::string>, Placed> conversions_;
  std::map<std::pair<std::string, std::vector<Shape>>, std::shared_ptr<const tdl::Bound>> formulas_;
  std::size_t collectives_ = 0;
  PhysicalGraph out_;
};

}  // namespace

RandomNet random_net(Rng& rng, const NetOptions& options) {
  RandomNet net = Maker(rng, options).run();
  constexpr int64_t kBuckets[] = {0, 100, 1 << 20};  // bytes; a tensor has tens to thousands
  const int64_t bucket = kBuckets[rng.below(std::size(kBuckets))];
  std::vector<MicroBatchAxis> none(net.graph.registers.size());
  LocallyLowered lowered{std::move(net.graph), std::move(none)};
  bundle_collectives(lowered, bucket);
  net.graph = std::move(lowered.graph);
  net.features += fmt::format(", buckets of {} bytes", bucket);
  return net;
}

}  // namespace partita::testing
