// Estimates the memory of a run of layers from the lifetimes of a micro-batch's tensors.
#include "partita/search/pipelines/stage_memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "partita/base/error.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rule_planner.h"

namespace partita {

namespace {

// Bytes of tensors and operands on a mesh's first device.
class Shares {
 public:
  Shares(const Graph& graph, const Plan& plan)
      : graph_(graph), ops_(resolve_ops(graph, plan)), made_(graph.tensors.size(), 0) {
    for (size_t i = 0; i < graph.ops.size(); ++i) {
      const Op& op = graph.ops[i];
      const auto [at, fresh] = known_.try_emplace(ops_[i].derived.get());
      if (fresh) at->second = elements_of(ops_[i].layouts);
      of_op_.push_back(&at->second);
      for (size_t r = 0; r < op.results.size(); ++r) made_[op.results[r].index()] = at->second.results[r];
    }
    for (const auto& [id, placement] : plan.kept)
      made_[id.index()] = layout_of(placement, graph.tensor(id).shape).elements(0);
  }
  int64_t of(TensorId t) const { return made_[t.index()] * bytes_of(graph_.tensor(t).dtype); }
  // The bytes of it that the op reads.
  int64_t of(const Reader& reader, TensorId t) const {
    return of_op_[reader.op.index()]->operands[static_cast<size_t>(reader.operand)] * bytes_of(graph_.tensor(t).dtype);
  }

 private:
  struct Elements {
    std::vector<int64_t> operands, results;
  };
  static Elements elements_of(const OpLayouts& layouts) {
    Elements out;
    for (const Layout& l : layouts.operands) out.operands.push_back(l.elements(0));
    for (const Layout& l : layouts.results) out.results.push_back(l.elements(0));
    return out;
  }

  const Graph& graph_;
  std::vector<ResolvedOp> ops_;
  std::vector<int64_t> made_;                      // by tensor: elements
  std::map<const tdl::Derived*, Elements> known_;  // by what ops_ keeps
  std::vector<const Elements*> of_op_;
};

class Needs {
 public:
  Needs(const Graph& graph, const Plan& plan, const std::vector<int>& of_op, int blocks)
      : graph_(graph),
        plan_(plan),
        of_op_(of_op),
        shares_(graph, plan),
        weight_(weight_tensor_mask(graph)),
        out_(static_cast<size_t>(blocks)),
        changes_(static_cast<size_t>(blocks)) {
    const std::vector<std::vector<Reader>> read_by = readers_by_tensor(graph);
    for (size_t t = 0; t < graph.tensors.size(); ++t) {
      if (graph.tensors[t].replaces.valid()) continue;  // it shares the buffer of the tensor it replaces
      const TensorId id(t);
      std::vector<Reader> in_step;
      for (const Reader& r : read_by[t])
        if (graph.op(r.op).phase != Phase::kUpdate) in_step.push_back(r);
      const bool once = is_once(id, in_step.size() < read_by[t].size());
      if (once) add_once(id, read_by[t], in_step);
      else add_part(id, in_step);
      add_conversions(id, in_step, once);
    }
    for (size_t s = 0; s < out_.size(); ++s) {
      int64_t now = 0;
      for (const auto& [place, change] : changes_[s]) out_[s].most = std::max(out_[s].most, now += change);
    }
  }
  const std::vector<LayerBlockMemory>& result() const { return out_; }

 private:
  size_t block_of(OpId op) const { return static_cast<size_t>(of_op_[op.index()]); }

  bool is_once(TensorId id, bool updated_from) const {
    const Tensor& tensor = graph_.tensor(id);
    if (!tensor.producer.valid()) return tensor.role != Role::kInput;
    const Phase phase = graph_.op(tensor.producer).phase;
    if (phase == Phase::kUpdate) return false;
    if (graph_.micro_batches() == 1) return phase == Phase::kBackward && updated_from;
    return tensor.accumulated || (phase == Phase::kForward && tensor.scope == MicroBatchScope::kStep);
  }

  // A weight with a distant reader (a tied table) is there a second time, with the sum of its gradients.
  void add_once(TensorId id, const std::vector<Reader>& read_by, const std::vector<Reader>& in_step) {
    const OpId producer = graph_.tensor(id).producer;
    if (!producer.valid() && read_by.empty()) return;
    const size_t own = block_of(producer.valid() ? producer : read_by[0].op);
    out_[own].once += shares_.of(id);
    if (producer.valid() && graph_.op(producer).phase == Phase::kBackward) out_[own].gradients += shares_.of(id);
    size_t last = own;
    for (const Reader& r : in_step) last = std::max(last, block_of(r.op));
    const bool trained = weight_[id.index()] && (!producer.valid() || graph_.op(producer).phase == Phase::kForward);
    if (!trained || last == own) return;
    out_[last].once += 2 * shares_.of(id);
    out_[last].tied += 2 * shares_.of(id);
  }

  // Adds a tensor of a micro-batch: there from its making or first read in a layer block, to its last read.
  void add_part(TensorId id, const std::vector<Reader>& read_by) {
    const OpId producer = graph_.tensor(id).producer;
    std::map<size_t, std::pair<int, int>> there;  // by layer block
    if (producer.valid() && graph_.op(producer).phase != Phase::kUpdate)
      there[block_of(producer)] = {producer.value, producer.value};
    std::map<size_t, std::set<int64_t>> wanted;  // by layer block: a copy for each region that its readers need
    std::set<size_t> kept_by;
    for (const Reader& r : read_by) {
      wanted[block_of(r.op)].insert(shares_.of(r, id));
      const auto at = there.try_emplace(block_of(r.op), r.op.value, r.op.value).first;
      at->second.second = std::max(at->second.second, r.op.value);
      if (graph_.op(r.op).phase == Phase::kBackward) kept_by.insert(block_of(r.op));
    }
    const int64_t bytes = shares_.of(id);
    for (const auto& [s, ends] : there) {
      changes_[s][2 * ends.first] += bytes;
      changes_[s][2 * ends.second + 1] -= bytes;
    }
    const bool forward = !producer.valid() || graph_.op(producer).phase == Phase::kForward;
    if (!forward || kept_by.empty()) return;
    out_[*kept_by.begin()].kept += bytes;
    for (const size_t s : kept_by) {
      if (producer.valid() && s == block_of(producer)) continue;
      out_[s].brought += std::accumulate(wanted[s].begin(), wanted[s].end(), int64_t{0});
      if (s == *kept_by.begin()) out_[s].brought -= *wanted[s].rbegin();
    }
  }

  // Adds the bytes that readers see beyond the kept shard, such as gathered weights: while they run, or all the time.
  void add_conversions(TensorId id, const std::vector<Reader>& read_by, bool once) {
    const int64_t kept_layout = shares_.of(id);
    std::map<size_t, int64_t> gathered;  // by layer block, for the step
    for (const Reader& r : read_by) {
      const int64_t read = shares_.of(r, id);
      if (read <= kept_layout) continue;
      if (once && !plan_.resharded.contains(id)) {
        gathered[block_of(r.op)] = std::max(gathered[block_of(r.op)], read);
      } else {
        changes_[block_of(r.op)][2 * r.op.value] += read;
        changes_[block_of(r.op)][2 * r.op.value + 1] -= read;
      }
    }
    for (const auto& [s, bytes] : gathered) out_[s].once += bytes;
  }

  const Graph& graph_;
  const Plan& plan_;
  const std::vector<int>& of_op_;
  const Shares shares_;
  const std::vector<bool> weight_;  // by tensor: a parameter, or made of parameters alone
  std::vector<LayerBlockMemory> out_;
  std::vector<std::map<int, int64_t>> changes_;  // by layer block: at 2i before op i runs, at 2i + 1 after it
};

}  // namespace

std::vector<LayerBlockMemory> layer_block_memory(const Graph& graph, const Plan& plan, const std::vector<int>& of_op,
                                                 int blocks) {
  return Needs(graph, plan, of_op, blocks).result();
}

LayerBlockMemory join_memory(const LayerBlockMemory& first, const LayerBlockMemory& then) {
  LayerBlockMemory out;
  out.once = first.once + then.once;
  out.kept = first.kept + then.kept;
  out.most = std::max(first.most, first.kept + then.most);
  out.gradients = first.gradients + then.gradients;
  out.tied = first.tied + then.tied;
  out.brought = first.brought;
  return out;
}

int64_t bytes_of(const LayerBlockMemory& memory, int in_flight) {
  return memory.once + (in_flight - 1) * (memory.brought + memory.kept) + memory.most;
}

}  // namespace partita
