// Finds how a step works on its batch by micro-batches, and makes the graph of one micro-batch.
#include "partita/graph/micro_batches.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/batch.h"
#include "partita/graph/infer.h"

namespace partita {

std::optional<MicroBatchAxis> factored_axis(const MicroBatchAxis& stored, const std::vector<Shape>& radices) {
  int at = 0;
  for (int a = 0; a < stored.axis; ++a) at += static_cast<int>(radices[static_cast<std::size_t>(a)].size());
  const Shape& digits = radices[static_cast<std::size_t>(stored.axis)];
  int64_t before = 1, after = volume(digits);
  for (const int64_t radix : digits) {
    after /= std::max<int64_t>(radix, 1);
    const int64_t below = std::max<int64_t>(after, 1);
    if (before == stored.outer && stored.inner % below == 0) return MicroBatchAxis{at, stored.inner / below};
    before *= radix;
    if (before > stored.outer) return std::nullopt;
    ++at;
  }
  return std::nullopt;
}

MicroBatchAxis stored_axis(const MicroBatchAxis& factored, const std::vector<Shape>& radices) {
  int at = 0;
  for (std::size_t a = 0; a < radices.size(); ++a)
    for (std::size_t d = 0; d < radices[a].size(); ++d, ++at) {
      if (at != factored.axis) continue;
      int64_t inner = factored.inner, outer = 1;
      for (std::size_t e = 0; e < d; ++e) outer *= radices[a][e];
      for (std::size_t e = d + 1; e < radices[a].size(); ++e) inner *= radices[a][e];
      return {static_cast<int>(a), inner, outer};
    }
  ensure(false, "there is no factored axis {}", factored.axis);
  return {};
}

MicroBatchAxis micro_batch_axis_of(const Graph& in_micro_batches, TensorId tensor) {
  const Tensor& t = in_micro_batches.tensor(tensor);
  const int64_t extent =
      in_micro_batches.whole_graph().tensor(tensor).shape[static_cast<std::size_t>(t.micro_batch_axis)];
  return {t.micro_batch_axis, t.micro_batch_inner, extent / (runs_of_batch(in_micro_batches) * t.micro_batch_inner)};
}

namespace {

// ---------------------------------------------------------------- how a formula splits into micro-batches

// The effect on one tensor of a strategy on two micro-batches.
struct Along {
  bool partial = false;       // P(sum)
  bool other = false;         // partial under another reducer, or split in a way that has no name
  std::optional<int> axis{};  // S: the factored axis
};

struct Split {
  int index = -1;             // -1: sums pass through
  std::vector<Along> tensor;  // operands and stages
};

Along along_of(const tdl::Bound& bound, const tdl::Derived& derived, int tensor, bool result) {
  Along along;
  const std::size_t t = static_cast<std::size_t>(tensor);
  const tdl::Kind kind = (result ? derived.final_kinds : derived.kinds)[0][t];
  along.partial = kind == tdl::Reducer::kSum;
  along.other = kind && kind != tdl::Reducer::kSum;
  const Shape& shape = bound.tensors[t].factored;
  const Box first = derived.boxes[t][0], second = derived.boxes[t][1];
  for (std::size_t a = 0; a < shape.size(); ++a) {
    if (second[a] == first[a]) continue;  // all of it, or the same shard of it
    const bool cut = first[a].lo == 0 && first[a].hi == second[a].lo && second[a].hi == shape[a];
    along.other = along.other || along.axis || !cut;
    along.axis = static_cast<int>(a);
  }
  return along;
}

// Every way to work on a formula by micro-batches: along one index, or by sums that pass through. Nothing is exchanged
// inside.
std::vector<Split> splits_of(const tdl::Bound& bound) {
  std::vector<Split> splits;
  for (const tdl::AxisStrategy& s : tdl::strategies(bound, 2)) {
    if (s.names.size() > 1 || s.replicate()) continue;
    const auto derived = tdl::derive(bound, {2}, {s});
    if (!derived || !derived->inner.empty()) continue;
    Split split{s.names.empty() ? -1 : bound.find_index(s.names[0]), {}};
    for (int t = 0; t < static_cast<int>(bound.tensors.size()); ++t)
      split.tensor.push_back(along_of(bound, *derived, t,
                                      std::find(bound.results.begin(), bound.results.end(), t) != bound.results.end()));
    splits.push_back(std::move(split));
  }
  return splits;
}

// The shape of a whole batch's tensor cut to `runs` runs of samples.
Shape of_runs(const Tensor& whole, int64_t runs_of_batch, int64_t runs) {
  Shape shape = whole.shape;
  int64_t& extent = shape[static_cast<std::size_t>(whole.micro_batch_axis)];
  extent = extent / runs_of_batch * runs;
  return shape;
}

// ---------------------------------------------------------------- the analysis

class Analysis {
 public:
  Analysis(const Graph& graph, int micro_batches, const MayFactor& may, const std::vector<int>& stages)
      : graph_(graph),
        may_(may),
        stages_(stages),
        batch_(find_batch(graph).value_or(0)),
        micro_batches_(micro_batches),
        parts_(micro_batch_sizes(batch_, micro_batches)),
        read_by_(readers_by_tensor(graph)) {}

  Graph run() {
    while (!pass()) {
    }
    mark_accumulated();
    out_.micro_batch_samples = parts_;
    out_.whole = std::make_shared<const Graph>(graph_);
    return std::move(out_);
  }

 private:
  // Whether an op may take an operand that a strategy splits.
  enum class Fit { kYes, kNo, kInParts };  // kInParts: an operand with step scope is wanted by micro-batches

  // Goes over all ops once. False if some op turned out to need the other scope, which is now known.
  bool pass() {
    out_ = graph_;
    for (TensorId id : graph_.inputs) {
      Tensor& t = out_.tensor(id);
      if (t.sample_axis < 0) continue;
      if (t.shape[static_cast<std::size_t>(t.sample_axis)] != batch_)
        fail("micro-batches: input '{}' has {} samples along axis {}, others {}", t.name,
             t.shape[static_cast<std::size_t>(t.sample_axis)], t.sample_axis, batch_);
      set_parts(t, {t.sample_axis, run_});
    }
    for (const TensorId id : constants_in_parts_) set_parts(out_.tensor(id), wanted_.at(id));
    for (std::size_t i = 0; i < graph_.ops.size(); ++i)
      if (!take(OpId(i))) return false;
    return true;
  }

  static void set_parts(Tensor& t, const MicroBatchAxis& place) {
    t.scope = MicroBatchScope::kMicroBatch;
    t.micro_batch_axis = place.axis;
    t.micro_batch_inner = place.inner;
  }

  bool any(const Op& op, MicroBatchScope scope) const {
    return std::any_of(op.operands.begin(), op.operands.end(),
                       [&](TensorId t) { return out_.tensor(t).scope == scope; });
  }

  MicroBatchAxis place_of(TensorId id) const {
    const Tensor& t = out_.tensor(id);
    const int64_t extent = graph_.tensor(id).shape[static_cast<std::size_t>(t.micro_batch_axis)];
    return {t.micro_batch_axis, t.micro_batch_inner, extent / (batch_ / run_ * t.micro_batch_inner)};
  }

  const std::vector<Split>& splits(const Op& op) {
    const auto [at, is_new] = splits_.try_emplace(op.bound.get());
    if (is_new) at->second = splits_of(*op.bound);
    return at->second;
  }

  // Tells whether the op's operand comes as the split has it, with the index's values for each sample.
  Fit fit(const Op& op, std::size_t k, const Split& split, std::optional<int64_t>& inner) const {
    const Along& along = split.tensor[k];
    const Tensor& t = out_.tensor(op.operands[k]);
    if (along.other) return Fit::kNo;
    switch (t.scope) {
      case MicroBatchScope::kSum:
        return along.partial && !along.axis ? Fit::kYes : Fit::kNo;
      case MicroBatchScope::kMicroBatch: {
        const auto digit = factored_axis(place_of(op.operands[k]), op.bound->tensors[k].radices);
        if (along.partial || !along.axis || !digit || digit->axis != *along.axis) return Fit::kNo;
        if (inner && *inner != digit->inner) return Fit::kNo;
        inner = digit->inner;
        return Fit::kYes;
      }
      case MicroBatchScope::kStep:
        if (along.partial) return Fit::kNo;
        return along.axis ? Fit::kInParts : Fit::kYes;
    }
    return Fit::kNo;
  }

  bool take(OpId id) {
    const Op& op = graph_.op(id);
    const bool parts = any(op, MicroBatchScope::kMicroBatch), sums = any(op, MicroBatchScope::kSum);
    if (const auto wanted = in_parts_ops_.find(id); wanted != in_parts_ops_.end() && !parts)
      return take_alone(id, wanted->second);
    if (!parts) {
      if (sums && passes_sums_on(op)) return take_sums(id);
      return true;  // step scope
    }
    return take_along(
        id, [](const Split&) { return true; }, std::nullopt);
  }

  // Gives the op micro-batch scope along the first index that `allowed` allows and that the operands come with.
  // `inner`: that index's values for each sample, if known. False: an operand has to come in micro-batches first.
  template <typename Allowed>
  bool take_along(OpId id, Allowed allowed, const std::optional<int64_t> known) {
    const Op& op = graph_.op(id);
    for (const Split& split : splits(op)) {
      if (split.index < 0 || !allowed(split)) continue;
      std::optional<int64_t> inner = known;
      bool fits = true;
      std::vector<std::size_t> wanted;
      for (std::size_t k = 0; k < op.operands.size() && fits; ++k) {
        const Fit f = fit(op, k, split, inner);
        fits = f != Fit::kNo;
        if (f == Fit::kInParts) wanted.push_back(k);
      }
      if (!fits || !inner || !results_fit(op, split) || cuts_unread(op, split)) continue;
      if (wanted.empty()) return settle(id, split, *inner), true;
      if (want(op, split, wanted, *inner)) return false;
    }
    for (std::size_t k = 0; k < op.operands.size(); ++k)
      if (out_.tensor(op.operands[k]).scope == MicroBatchScope::kMicroBatch &&
          factor(id, static_cast<int>(k), place_of(op.operands[k])))
        return take_along(id, allowed, known);
    if (longer_runs(op)) return false;
    refuse(op);
  }

  // Gives a tensor of the op's formula the samples of `place` as a digit of its own. False if it already has them so,
  // or cannot.
  bool factor(OpId id, int tensor, const MicroBatchAxis& place) {
    Op& op = graph_.op(id);
    const auto found = factoring_at(graph_, op, tensor, static_cast<std::size_t>(place.axis), place.outer, may_);
    if (!found) return false;
    op.factors[found->index] = found->radices;
    auto& bound = factored_[{op.bound.get(), found->index, found->radices}];
    if (!bound) bound = bind_op(graph_, op);
    op.bound = bound;
    out_.op(id) = op;
    return true;
  }

  // Tells whether an operand that the split reads whole, or not at all, still lies along its index: an exclusive sum of
  // one value reads none.
  bool cuts_unread(const Op& op, const Split& split) const {
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      if (split.tensor[k].axis) continue;
      bool along = false;
      for (const tdl::Stage& stage : op.bound->stages)
        tdl::for_each_read(stage.body, [&](const tdl::Expr& read) {
          if (read.tensor != static_cast<int>(k)) return;
          for (const tdl::Affine& at : read.subscripts) along = along || at.plain_index() == split.index;
        });
      if (along) return true;
    }
    return false;
  }

  // Samples that an operand has inside one value of its axis's outer digit stay in one micro-batch. Examples are a
  // batch norm's group and experts' groups of tokens. If micro-batches were not known to consist of such runs, the
  // analysis starts again.
  bool longer_runs(const Op& op) {
    int64_t run = run_;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      const Tensor& t = out_.tensor(op.operands[k]);
      if (t.scope != MicroBatchScope::kMicroBatch) continue;
      const Shape& digits = op.bound->tensors[k].radices[static_cast<std::size_t>(t.micro_batch_axis)];
      int64_t before = 1;
      const int64_t outer = place_of(op.operands[k]).outer;
      const auto outermost = std::find_if(digits.begin(), digits.end(), [&](int64_t radix) {
        return (before == outer && radix != 1) || (before *= radix) > outer;
      });
      if (outermost == digits.end() || before != outer) continue;
      const int64_t below = volume(Shape(outermost + 1, digits.end())), each = t.micro_batch_inner / run_;
      run = std::lcm(run, below / std::gcd(below, each));
    }
    if (run == run_ || batch_ % run || batch_ / run < micro_batches_) return false;
    run_ = run;
    parts_ = micro_batch_sizes(batch_ / run, micro_batches_);
    in_parts_ops_.clear(), constants_in_parts_.clear(), wanted_.clear();
    return true;
  }

  // Tells whether an op sums contributions to one gradient, or casts one. It then runs for each micro-batch and its
  // result is accumulated. So there is one buffer, and in mixed precision one of float32.
  bool passes_sums_on(const Op& op) const {
    if (op.phase != Phase::kBackward || op.results.size() != 1) return false;
    for (TensorId t : op.operands)
      if (out_.tensor(t).scope != MicroBatchScope::kSum || read_by_[t.index()].size() != 1 || is_output(t) ||
          stage_of(op) != stage_of(graph_.op(graph_.tensor(t).producer)))
        return false;
    return op.operands.size() > 1 ||
           bytes_of(graph_.tensor(op.results[0]).dtype) > bytes_of(graph_.tensor(op.operands[0]).dtype);
  }
  int stage_of(const Op& op) const {
    return stages_.empty() ? 0 : stages_[static_cast<std::size_t>(&op - graph_.ops.data())];
  }
  bool is_output(TensorId t) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), t) != graph_.outputs.end();
  }

  bool take_sums(OpId id) {
    const Op& op = graph_.op(id);
    for (const Split& split : splits(op)) {
      if (split.index >= 0) continue;
      std::optional<int64_t> inner;
      bool fits = true;
      for (std::size_t k = 0; k < op.operands.size(); ++k) fits = fits && fit(op, k, split, inner) == Fit::kYes;
      if (!fits || !split.tensor[static_cast<std::size_t>(op.bound->results[0])].partial) continue;
      settle(id, split, 1);
      return true;
    }
    return true;
  }

  bool results_fit(const Op& op, const Split& split) const {
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      const Along& along = split.tensor[static_cast<std::size_t>(op.bound->results[r])];
      if (along.other || (!along.partial && !along.axis) || (along.partial && along.axis)) return false;
      if (graph_.tensor(op.results[r]).replaces.valid()) return false;
    }
    return true;
  }

  void settle(OpId id, const Split& split, int64_t inner) {
    Op& op = out_.op(id);
    op.per_micro_batch = true;
    op.micro_batch_index = split.index;
    op.micro_batch_inner = inner;
    if (split.index >= 0) op.bound = narrowed(graph_.op(id).bound, split.index, parts_[0] * inner);
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      const std::size_t of = static_cast<std::size_t>(op.bound->results[r]);
      Tensor& t = out_.tensor(op.results[r]);
      if (split.tensor[of].partial) t.scope = MicroBatchScope::kSum;
      else set_parts(t, stored_axis({*split.tensor[of].axis, inner}, graph_.op(id).bound->tensors[of].radices));
    }
  }

  std::shared_ptr<const tdl::Bound> narrowed(const std::shared_ptr<const tdl::Bound>& bound, int index,
                                             int64_t extent) {
    auto& known = narrowed_[{bound.get(), index, extent}];
    if (!known) known = std::make_shared<const tdl::Bound>(tdl::narrowed(*bound, index, extent));
    return known;
  }

  // Makes operands with step scope readable by micro-batches. Constants and inputs without samples are; results of
  // these and of weights alone can be made so. False if some other operand cannot.
  bool want(const Op& op, const Split& split, const std::vector<std::size_t>& operands, int64_t inner) {
    for (const std::size_t k : operands) {
      const Tensor& t = graph_.tensor(op.operands[k]);
      const bool alike = t.role == Role::kConstant || (t.role == Role::kInput && !t.same_as.valid());
      if (!alike && !t.producer.valid()) return false;
      if (t.producer.valid() && (graph_.op(t.producer).phase == Phase::kUpdate || is_output(op.operands[k])))
        return false;
    }
    bool changed = false;
    for (const std::size_t k : operands) {
      const TensorId id = op.operands[k];
      const MicroBatchAxis place = stored_axis({*split.tensor[k].axis, inner}, op.bound->tensors[k].radices);
      const OpId producer = graph_.tensor(id).producer;
      if (producer.valid()) changed = in_parts_ops_.try_emplace(producer, std::pair(id, place)).second || changed;
      else changed = constants_in_parts_.insert(id).second || changed, wanted_[id] = place;
    }
    return changed;
  }

  // Gives micro-batch scope to an op that no sample reaches and whose result is wanted by micro-batches.
  bool take_alone(OpId id, const std::pair<TensorId, MicroBatchAxis>& wanted) {
    const Op& op = graph_.op(id);
    const std::size_t r =
        static_cast<std::size_t>(std::find(op.results.begin(), op.results.end(), wanted.first) - op.results.begin());
    const std::size_t of = static_cast<std::size_t>(op.bound->results[r]);
    factor(id, static_cast<int>(of), wanted.second);
    const auto digit = [&] { return factored_axis(wanted.second, op.bound->tensors[of].radices); };
    return take_along(
        id, [&](const Split& split) { return digit() && split.tensor[of].axis == digit()->axis; },
        digit() ? std::optional(digit()->inner) : std::nullopt);
  }

  [[noreturn]] void refuse(const Op& op) const {
    std::string tensor;
    for (TensorId t : op.operands)
      if (out_.tensor(t).scope == MicroBatchScope::kMicroBatch && tensor.empty()) tensor = out_.tensor(t).name;
    if (tensor.empty()) tensor = out_.tensor(op.results[0]).name;  // of constants, and read by micro-batches
    std::string sums;
    for (TensorId t : op.operands)
      if (out_.tensor(t).scope == MicroBatchScope::kSum && sums.empty()) sums = out_.tensor(t).name;
    const std::string why =
        sums.empty()
            ? std::string("it mixes samples, or has them along no axis of its own (docs/inside/TDL.md rules 10 to 18)")
            : fmt::format("it reads '{}', a sum over the whole batch, as well", sums);
    const std::string other =
        op.definition.starts_with("batch_norm")
            ? fmt::format("--batch-norm-groups micro, or another multiple of {}, or ", micro_batches_)
            : std::string();
    fail(
        "micro-batches: op '{}' ({}) cannot act on a part of the batch of '{}' ({} samples in {} parts): {}; use "
        "{}--micro-batches 1",
        op.name, op.definition, tensor, batch_, parts_.size(), why, other);
  }

  // Accumulates sums if a reader has step scope, or if none reads them.
  void mark_accumulated() {
    for (std::size_t t = 0; t < out_.tensors.size(); ++t) {
      Tensor& tensor = out_.tensors[t];
      if (tensor.scope != MicroBatchScope::kSum) {
        if (tensor.scope == MicroBatchScope::kMicroBatch) tensor.shape = of_runs(tensor, batch_ / run_, parts_[0]);
        continue;
      }
      tensor.accumulated = read_by_[t].empty() || is_output(TensorId(t)) ||
                           std::any_of(read_by_[t].begin(), read_by_[t].end(),
                                       [&](const Reader& r) { return !out_.op(r.op).per_micro_batch; });
    }
    for (TensorId t : graph_.outputs)
      if (graph_.loss.valid() && out_.tensor(t).scope == MicroBatchScope::kMicroBatch)
        fail("micro-batches: output '{}' comes in parts; a training step gives sums over the batch alone",
             graph_.tensor(t).name);
  }

  Graph graph_;
  const MayFactor& may_;
  const std::vector<int> stages_;  // by op; empty: one
  const int64_t batch_;
  const int micro_batches_;
  int64_t run_ = 1;             // samples that stay together in one micro-batch
  std::vector<int64_t> parts_;  // runs of each micro-batch
  const std::vector<std::vector<Reader>> read_by_;
  std::map<const tdl::Bound*, std::vector<Split>> splits_;
  std::map<std::tuple<const tdl::Bound*, int, int64_t>, std::shared_ptr<const tdl::Bound>> narrowed_;
  std::map<std::tuple<const tdl::Bound*, std::string, Shape>, std::shared_ptr<const tdl::Bound>> factored_;
  std::map<OpId, std::pair<TensorId, MicroBatchAxis>> in_parts_ops_;  // ops that no sample reaches, and places wanted
  std::set<TensorId> constants_in_parts_;
  std::map<TensorId, MicroBatchAxis> wanted_;
  Graph out_;
};

}  // namespace

int64_t runs_of_batch(const Graph& in_micro_batches) {
  for (TensorId id : in_micro_batches.inputs)
    if (const Tensor& t = in_micro_batches.tensor(id); t.sample_axis == 0 && t.scope == MicroBatchScope::kMicroBatch)
      return in_micro_batches.whole_graph().tensor(id).shape[0] / t.micro_batch_inner;
  ensure(false, "graph '{}' has no input that comes in parts", in_micro_batches.name);
  return 0;
}

std::vector<int64_t> micro_batch_sizes(int64_t batch, int micro_batches) {
  if (micro_batches < 1) fail("micro-batches: {} is none", micro_batches);
  if (batch == 0) fail("micro-batches: the model has no input with samples, and so no batch that can be cut");
  if (batch < micro_batches)
    fail("micro-batches: a batch of {} has no {} parts; use a larger batch or fewer micro-batches", batch,
         micro_batches);
  std::vector<int64_t> parts(static_cast<std::size_t>(micro_batches), batch / micro_batches);
  for (int64_t i = 0; i < batch % micro_batches; ++i) ++parts[static_cast<std::size_t>(i)];
  return parts;
}

Graph in_micro_batches(const Graph& training, int micro_batches, const MayFactor& may, const std::vector<int>& stages) {
  if (micro_batches == 1) return training;
  return Analysis(training, micro_batches, may, stages).run();
}

Graph with_fewer_micro_batches(const Graph& in_micro_batches, int micro_batches) {
  Graph out = in_micro_batches;
  out.micro_batch_samples.assign(static_cast<std::size_t>(micro_batches), in_micro_batches.micro_batch_samples.front());
  return out;
}

Graph with_micro_batches_of(const Graph& in_micro_batches, int64_t runs) {
  Graph out = in_micro_batches;
  std::map<std::tuple<const tdl::Bound*, int, int64_t>, std::shared_ptr<const tdl::Bound>> known;
  for (std::size_t i = 0; i < out.ops.size(); ++i) {
    Op& op = out.ops[i];
    if (!op.per_micro_batch || op.micro_batch_index < 0) continue;
    const tdl::Bound& whole = *out.whole->ops[i].bound;
    auto& bound = known[{&whole, op.micro_batch_index, runs * op.micro_batch_inner}];
    if (!bound)
      bound =
          std::make_shared<const tdl::Bound>(tdl::narrowed(whole, op.micro_batch_index, runs * op.micro_batch_inner));
    op.bound = bound;
  }
  for (std::size_t t = 0; t < out.tensors.size(); ++t) {
    Tensor& tensor = out.tensors[t];
    if (tensor.scope != MicroBatchScope::kMicroBatch) continue;
    tensor.shape = out.whole->tensors[t].shape;
    tensor.shape = of_runs(tensor, runs_of_batch(in_micro_batches), runs);
  }
  return out;
}

}  // namespace partita
