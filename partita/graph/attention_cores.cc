// Finds the core of attention in a graph.
#include "partita/graph/attention_cores.h"

#include <map>
#include <optional>

#include "partita/graph/recompute.h"
#include "partita/tdl/products.h"

namespace partita {
namespace {

using Way = std::map<OpId, bool>;  // ops between a softmax and products: whether they lead to one

class Cores {
 public:
  explicit Cores(const Graph& graph)
      : graph_(graph),
        read_by_(readers_by_tensor(graph)),
        fed_(depends_on(graph, Role::kInput)),
        core_(graph.ops.size()) {
    for (size_t i = 0; i < graph.ops.size(); ++i) {
      const Op& op = graph.ops[i];
      if (op.phase != Phase::kForward) continue;
      if (op.definition == "attention" || op.definition == "attention_sinks") core_[i] = true;
      if (!is_softmax(op)) continue;
      Way before, after;
      if (!leads_to_products(OpId(i), &Cores::producers, before)) continue;
      if (!leads_to_products(OpId(i), &Cores::followers, after)) continue;
      core_[i] = true;
      for (const Way& way : {before, after})
        for (const auto& [id, leads] : way)
          if (leads) core_[id.index()] = true;
    }
  }
  const std::vector<char>& cores() const { return core_; }

 private:
  bool is_softmax(const Op& op) const {
    if (op.definition != "softmax") return false;
    const double axis = op.attributes.at("axis");
    return axis == -1 || axis + 1 == static_cast<double>(graph_.tensor(op.operands[0]).shape.size());
  }

  // How many activations it multiplies as matrices; none if it is no product.
  std::optional<int> activations_multiplied(const Op& op) const {
    std::optional<int> count;
    for (int t : tdl::matrix_operands(*op.bound, 0, static_cast<int>(op.bound->stages.size())))
      count = count.value_or(0) + (t < op.bound->operand_count && fed_[op.operands[t].index()]);
    return count;
  }

  std::vector<OpId> producers(const Op& op) const {
    std::vector<OpId> out;
    for (TensorId t : op.operands)
      if (graph_.tensor(t).producer.valid()) out.push_back(graph_.tensor(t).producer);
    return out;
  }
  std::vector<OpId> followers(const Op& op) const {
    std::vector<OpId> out;
    for (TensorId t : op.results)
      for (const Reader& r : read_by_[t.index()])
        if (graph_.op(r.op).phase == Phase::kForward) out.push_back(r.op);
    return out;
  }

  // Tells whether one-pass ops lead from an op to products of activations. Records it for each op on the way, these
  // included.
  bool leads_to_products(OpId from, std::vector<OpId> (Cores::*next)(const Op&) const, Way& way) const {
    bool any = false;
    for (OpId id : (this->*next)(graph_.op(from))) {
      if (way.try_emplace(id, false).second) {
        const Op& op = graph_.op(id);
        const std::optional<int> activations = activations_multiplied(op);
        const bool leads =
            activations ? *activations >= 2 : tdl::takes_one_pass(*op.bound) && leads_to_products(id, next, way);
        way[id] = leads;
      }
      any = any || way[id];
    }
    return any;
  }

  const Graph& graph_;
  const std::vector<std::vector<Reader>> read_by_;
  const std::vector<char> fed_;  // by tensor: whether it depends on an input
  std::vector<char> core_;       // by op
};

}  // namespace

std::vector<char> attention_cores(const Graph& graph) { return Cores(graph).cores(); }

}  // namespace partita
