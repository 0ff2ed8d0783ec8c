// Finds results that continue in an operand's bytes by looking at the operand's last user.
#include "partita/physical/continued.h"

#include <algorithm>

namespace partita {

namespace {

class Finder {
 public:
  Finder(const PhysicalGraph& graph, const NodeTable& table, const Uses& uses, const std::vector<int>& place,
         const Held& held)
      : graph_(graph), table_(table), uses_(uses), place_(place), held_(held) {}

  // The place of its first write; -1: it is in several slots or uses, or its bytes are its own for ever.
  int first(RegisterId r) const {
    const Register& reg = graph_.reg(r);
    const Use* use = only_use(r);
    if (reg.carried || reg.constant || reg.bytes == 0 || !use || use->writers.empty()) return -1;
    int first = at(use->writers[0]);
    for (const Node& x : use->writers) first = std::min(first, at(x));
    return first;
  }
  // Tells whether the node at this place is the last that uses it, and all others are over before.
  bool ends(RegisterId r, int place) const {
    bool found = false;
    const Use& use = *only_use(r);
    for (const std::span<const Node> users : {use.writers, use.readers})
      for (const Node& x : users) {
        if (at(x) == place) found = true;
        else if (held_at(held_, at(x), graph_.reg(r).device).until >= place) return false;
      }
    return found;
  }

 private:
  const Use* only_use(RegisterId r) const {
    const auto of = uses_[r.index()];
    return graph_.reg(r).count == 1 && of.size() == 1 ? &of[0] : nullptr;
  }
  int at(const Node& x) const { return place_[static_cast<size_t>(table_.number(x))]; }

  const PhysicalGraph& graph_;
  const NodeTable& table_;
  const Uses& uses_;
  const std::vector<int>& place_;
  const Held& held_;
};

}  // namespace

std::vector<RegisterId> continued(const PhysicalGraph& graph, const NodeTable& table, const Uses& uses,
                                  const std::vector<int>& place, const Held& held, const InPlace& in_place) {
  const Finder find(graph, table, uses, place, held);
  std::vector<RegisterId> of(graph.registers.size());
  std::vector<char> taken(graph.registers.size(), false);
  for (size_t r = 0; r < of.size(); ++r) {
    const Register& reg = graph.registers[r];
    const int first = find.first(RegisterId(r));
    if (first < 0) continue;
    for (RegisterId operand : in_place.operands_of(RegisterId(r))) {
      const Register& other = graph.reg(operand);
      if (taken[operand.index()] || other.device != reg.device || other.bytes != reg.bytes) continue;
      if (find.first(operand) < 0 || !find.ends(operand, first)) continue;
      of[r] = operand;
      taken[operand.index()] = true;
      break;
    }
  }
  return of;
}

}  // namespace partita
