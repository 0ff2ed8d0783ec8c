// Puts nodes into an order that can be run.
#include <set>

#include "partita/base/error.h"
#include "partita/onnx/nodes.h"

namespace partita::onnx_model {
namespace {

// The node that writes each name.
std::map<std::string, std::size_t> producers_of(const std::vector<Node>& nodes, const std::string& path,
                                                const std::set<std::string>& known) {
  std::map<std::string, std::size_t> producer;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& name : nodes[i].outputs) {
      if (name.empty()) continue;
      if (known.contains(name))
        fail("{}: node '{}' writes '{}', which is an input or initializer", path, nodes[i].name, name);
      if (!producer.emplace(name, i).second)
        fail("{}: nodes '{}' and '{}' both write '{}'", path, nodes[producer[name]].name, nodes[i].name, name);
    }
  return producer;
}

}  // namespace

std::vector<Node> sorted(std::vector<Node> nodes, const std::string& path, const std::set<std::string>& known,
                         bool is_subgraph) {
  const std::map<std::string, std::size_t> producer = producers_of(nodes, path, known);
  // Depth first without recursion; a node on the stack that is met again closes a cycle.
  enum class Seen : char { kNo, kOnStack, kDone };
  std::vector<Seen> seen(nodes.size(), Seen::kNo);
  std::vector<std::size_t> order;
  struct Visit {
    std::size_t node, next_input;
  };
  for (std::size_t root = 0; root < nodes.size(); ++root) {
    if (seen[root] != Seen::kNo) continue;
    std::vector<Visit> stack{{root, 0}};
    seen[root] = Seen::kOnStack;
    while (!stack.empty()) {
      auto& [i, next] = stack.back();
      const std::size_t inputs = nodes[i].inputs.size();
      if (next == inputs + nodes[i].captured.size()) {
        seen[i] = Seen::kDone;
        order.push_back(i);
        stack.pop_back();
        continue;
      }
      const std::string& name = next < inputs ? nodes[i].inputs[next] : nodes[i].captured[next - inputs];
      ++next;
      if (name.empty() || known.contains(name)) continue;
      const auto found = producer.find(name);
      if (found == producer.end() && is_subgraph) continue;
      if (found == producer.end())
        fail("{}: node '{}' reads '{}', which nothing in the file produces", path, nodes[i].name, name);
      const std::size_t from = found->second;
      if (seen[from] == Seen::kDone) continue;
      if (seen[from] == Seen::kOnStack) {
        std::string cycle;
        bool in = false;
        for (const Visit& visit : stack) {
          in = in || visit.node == from;
          if (in) cycle += fmt::format("'{}' -> ", nodes[visit.node].name);
        }
        // each node on the stack reads the next one
        fail("{}: the graph has a cycle; each of these nodes reads the next: {}'{}'", path, cycle, nodes[from].name);
      }
      seen[from] = Seen::kOnStack;
      stack.push_back({from, 0});
    }
  }
  std::vector<Node> result;
  for (std::size_t i : order) result.push_back(std::move(nodes[i]));
  return result;
}

}  // namespace partita::onnx_model
