// Merges operations batch by batch, then builds the coarse problem of the vertices.
#include "partita/device_placement/coarsen.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/device_placement/batch.h"
#include "partita/device_placement/slack.h"

namespace partita {

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

struct Load {
  int64_t ns = 0, bytes = 0;
  Load operator+(const Load& b) const { return {ns + b.ns, bytes + b.bytes}; }
  bool within(const Load& b) const { return ns <= b.ns && bytes <= b.bytes; }
};

// Its own time and memory, without its group's.
Load load_of(const PlacedOp& op) {
  int64_t least = INT64_MAX;
  for (int64_t ns : op.ns)
    if (ns > 0) least = std::min(least, ns);
  return {least, op.bytes};
}

// Vertices that stay together: those of a group, or a single one without a group.
struct Class {
  Load load;
  int parent = 0;
  int devices = 0;
};

// Numbers sets of devices.
class DeviceSets {
 public:
  int of(const std::vector<char>& set) {
    const auto [found, added] = number_.try_emplace(set, static_cast<int>(sets_.size()));
    if (added) sets_.push_back(set);
    return found->second;
  }
  int common(int a, int b) {
    if (a == b) return a;
    std::vector<char> set = sets_[at(a)];
    for (size_t d = 0; d < set.size(); ++d) set[d] = set[d] && sets_[at(b)][d];
    return of(set);
  }
  const std::vector<std::vector<char>>& sets() const { return sets_; }

 private:
  std::map<std::vector<char>, int> number_;
  std::vector<std::vector<char>> sets_;
};

// Mean latency and ns a byte of the routes between two devices of a set; over all routes if the set has none.
struct MeanRoute {
  double latency_ns = 0, ns_per_byte = 0;
};
MeanRoute mean_route(const PlacementProblem& p, const std::vector<char>& set) {
  MeanRoute inside, all;
  int inside_routes = 0, routes = 0;
  const auto add = [](MeanRoute& sum, int& count, const Route& route) {
    sum = {sum.latency_ns + route.latency_ns, sum.ns_per_byte + route.ns_per_byte};
    ++count;
  };
  for (size_t a = 0; a < set.size(); ++a)
    for (size_t b = 0; b < set.size(); ++b) {
      if (p.routes[a][b].queue < 0) continue;
      add(all, routes, p.routes[a][b]);
      if (set[a] && set[b]) add(inside, inside_routes, p.routes[a][b]);
    }
  const MeanRoute& sum = inside_routes > 0 ? inside : all;
  const int count = std::max(1, inside_routes > 0 ? inside_routes : routes);
  return {sum.latency_ns / count, sum.ns_per_byte / count};
}

// Merges vertices, which are numbered by their first operation.
class Coarsener {
 public:
  Coarsener(const PlacementProblem& fine, const CoarsenOptions& options);

  void down_to(int target);
  int vertices() const { return static_cast<int>(load_.size()); }
  Coarse result() const;

 private:
  using Pairs = std::vector<std::pair<int, int>>;
  enum class Batch { kEdges, kRoom, kHeight };  // in turns, while they take few

  void read_values();
  MergeGraph graph() const;
  bool may_merge(int u, int v) const;
  bool merge(int u, int v);
  void set_slack(const MergeGraph& graph);
  int class_of(int v) const;
  Pairs of_edges(const MergeGraph& graph, size_t most);
  Pairs of_neighbours(const MergeGraph& graph, Batch kind, size_t most);
  std::vector<int> together() const;
  std::vector<int> height_order(const MergeGraph& graph, const std::vector<int>& height) const;
  std::vector<int> room_order() const;
  void apply(const Pairs& pairs);
  void renumber_values(const std::vector<int>& number);
  void join_single();
  std::vector<int> topological_numbers() const;
  std::vector<int> groups() const;

  const PlacementProblem& fine_;
  const CoarsenOptions options_;
  Load most_;
  DeviceSets sets_;
  std::vector<Class> classes_;
  std::vector<int> vertex_;  // by operation
  // By vertex.
  std::vector<Load> load_;
  std::vector<int> devices_, class_, placed_;  // placed_: only vertices of equal number merge
  // Values that leave their vertex, by producer: from made_[v] on.
  struct Value {
    int producer, first, last;  // of readers_
    double ns;                  // to cross
  };
  std::vector<Value> values_;
  std::vector<int> made_, readers_;
  // The limit of the longest path; 0: none yet.
  int64_t limit_ns_ = 0, all_ns_ = 0;
  std::vector<int64_t> ns_;     // by vertex; used by:
  std::optional<Slack> slack_;  // for the batch
};

Coarsener::Coarsener(const PlacementProblem& fine, const CoarsenOptions& options) : fine_(fine), options_(options) {
  Load all;
  std::map<int, int> class_of_group;
  ensure(options.placement.empty() || options.placement.size() == fine.ops.size(),
         "a placement of {} operations is kept in a problem of {}", options.placement.size(), fine.ops.size());
  ensure(options.window.empty() || options.window.size() == fine.ops.size(),
         "windows of {} operations are kept in a problem of {}", options.window.size(), fine.ops.size());
  ensure(!options.edges_alone || !options.keep_parallel, "merges of edges alone keep nothing parallel");
  placed_ = options.placement.empty() ? std::vector<int>(fine.ops.size(), 0) : options.placement;
  for (size_t o = 0; o < options.window.size(); ++o)
    placed_[o] += options.window[o] * static_cast<int>(fine.devices.size());
  vertex_.resize(fine.ops.size());
  std::iota(vertex_.begin(), vertex_.end(), 0);
  std::vector<char> set;
  for (const PlacedOp& op : fine.ops) {
    set.clear();
    for (int64_t ns : op.ns) set.push_back(ns > 0);
    const int devices = sets_.of(set), fresh = static_cast<int>(classes_.size());
    const int own = op.group < 0 ? fresh : class_of_group.try_emplace(op.group, fresh).first->second;
    if (own == fresh) classes_.push_back({{}, own, devices});
    Class& c = classes_[at(own)];
    const Load load = load_of(op);
    c.load = c.load + load;
    c.devices = sets_.common(c.devices, devices);
    all = all + load;
    load_.push_back(load);
    devices_.push_back(devices);
    class_.push_back(own);
  }
  all_ns_ = all.ns;
  most_ = {static_cast<int64_t>(options.time_share * static_cast<double>(all.ns)),
           static_cast<int64_t>(options.memory_share * static_cast<double>(all.bytes))};
  read_values();
}

void Coarsener::read_values() {
  std::vector<MeanRoute> route;
  for (const std::vector<char>& set : sets_.sets()) route.push_back(mean_route(fine_, set));
  std::optional<Rng> drawn;
  if (options_.seed) drawn.emplace(*options_.seed);
  for (const PlacedValue& value : fine_.values) {
    const int first = static_cast<int>(readers_.size());
    readers_.insert(readers_.end(), value.readers.begin(), value.readers.end());
    const MeanRoute& w = route[at(devices_[at(value.producer)])];
    const double ns = value.moves() ? w.latency_ns + w.ns_per_byte * static_cast<double>(value.bytes) : 0;
    values_.push_back(
        {value.producer, first, static_cast<int>(readers_.size()), drawn ? ns * (1 + drawn->uniform()) : ns});
  }
  renumber_values(vertex_);
}

// Drops values that stay inside a vertex, and readers that became one.
void Coarsener::renumber_values(const std::vector<int>& number) {
  std::vector<int> readers, last_value(load_.size(), -1);
  readers.reserve(readers_.size());
  std::vector<Value> left;
  left.reserve(values_.size());
  made_.assign(load_.size() + 1, 0);
  for (const Value& value : values_) {
    const int first = static_cast<int>(readers.size()), producer = number[at(value.producer)];
    const int same = static_cast<int>(left.size());
    for (int r = value.first; r < value.last; ++r) {
      const int reader = number[at(readers_[at(r)])];
      if (reader == producer || last_value[at(reader)] == same) continue;
      last_value[at(reader)] = same;
      readers.push_back(reader);
    }
    if (static_cast<int>(readers.size()) == first) continue;
    left.push_back({producer, first, static_cast<int>(readers.size()), value.ns});
    ++made_[at(producer) + 1];
  }
  for (size_t v = 1; v < made_.size(); ++v) made_[v] += made_[v - 1];
  values_.resize(left.size());
  std::vector<int> next(made_.begin(), made_.end() - 1);
  for (const Value& value : left) values_[at(next[at(value.producer)]++)] = value;
  readers_ = std::move(readers);
  join_single();
}

// Joins the values of one producer and one single reader. An edge weighs the same, and passes are short.
void Coarsener::join_single() {
  std::vector<int> value_to(load_.size(), -1);  // by reader, of this producer
  int count = 0;
  for (int u = 0; u < vertices(); ++u) {
    const int first = count, begin = std::exchange(made_[at(u)], count), end = made_[at(u) + 1];
    for (int i = begin; i < end; ++i) {
      const Value value = values_[at(i)];
      int& same = value_to[at(readers_[at(value.first)])];
      const bool single = value.last == value.first + 1;
      if (single && same >= first) {
        values_[at(same)].ns += value.ns;
        continue;
      }
      if (single) same = count;
      values_[at(count++)] = value;
    }
  }
  made_.back() = count;
  values_.resize(static_cast<size_t>(count));
}

MergeGraph Coarsener::graph() const {
  MergeGraph g;
  g.first.reserve(load_.size() + 1);
  g.to.reserve(readers_.size());
  g.weight.reserve(readers_.size());
  std::vector<int> edge(load_.size(), -1);
  for (int u = 0; u < vertices(); ++u) {
    const int first = static_cast<int>(g.to.size());
    g.first.push_back(first);
    for (int i = made_[at(u)]; i < made_[at(u) + 1]; ++i)
      for (int r = values_[at(i)].first; r < values_[at(i)].last; ++r) {
        int& e = edge[at(readers_[at(r)])];
        if (e < first) {
          e = static_cast<int>(g.to.size());
          g.to.push_back(readers_[at(r)]);
          g.weight.push_back(0);
        }
        g.weight[at(e)] += values_[at(i)].ns;
      }
  }
  g.first.push_back(static_cast<int>(g.to.size()));
  return g;
}

int Coarsener::class_of(int v) const {
  int c = class_[at(v)];
  while (classes_[at(c)].parent != c) c = classes_[at(c)].parent;
  return c;
}

bool Coarsener::may_merge(int u, int v) const {
  if (devices_[at(u)] != devices_[at(v)] || placed_[at(u)] != placed_[at(v)] ||
      !(load_[at(u)] + load_[at(v)]).within(most_))
    return false;
  const int a = class_of(u), b = class_of(v);
  if (a == b) return true;
  const Class &one = classes_[at(a)], &other = classes_[at(b)];
  return one.devices == other.devices && (one.load + other.load).within(most_);
}

bool Coarsener::merge(int u, int v) {
  if (!may_merge(u, v) || (slack_ && !slack_->try_merge(u, v))) return false;
  const int a = class_of(u), b = class_of(v);
  if (a == b) return true;
  Class &one = classes_[at(std::min(a, b))], &other = classes_[at(std::max(a, b))];
  one.load = one.load + other.load;
  other.parent = std::min(a, b);
  return true;
}

Coarsener::Pairs Coarsener::of_edges(const MergeGraph& g, size_t most) {
  return edge_batch(g, heights(g), most, [&](int u, int v) { return merge(u, v); });
}

// A number by vertex that vertices which stay together share; single ones have the highest.
std::vector<int> Coarsener::together() const {
  std::vector<int> members(classes_.size(), 0), number(load_.size(), INT32_MAX);
  for (int v = 0; v < vertices(); ++v) ++members[at(class_of(v))];
  for (int v = 0; v < vertices(); ++v)
    if (members[at(class_of(v))] > 1) number[at(v)] = class_of(v);
  return number;
}

// Orders by height and devices; then those that stay together anyway; then those whose heaviest edge from below (for
// roots: up) is with the same vertex.
std::vector<int> Coarsener::height_order(const MergeGraph& g, const std::vector<int>& height) const {
  std::vector<double> heaviest(load_.size(), -1);
  std::vector<int> partner(load_.size(), -1), order(load_.size());
  const auto offer = [&](int v, int other, double weight) {
    if (weight > heaviest[at(v)]) heaviest[at(v)] = weight, partner[at(v)] = other;
  };
  for (int u = 0; u < vertices(); ++u)
    for (int e = g.first[at(u)]; e < g.first[at(u) + 1]; ++e) {
      offer(g.to[at(e)], u, g.weight[at(e)]);
      if (height[at(u)] == 1) offer(u, g.to[at(e)], g.weight[at(e)]);
    }
  const std::vector<int> same = together();
  const auto key = [&](int v) {
    return std::tuple(height[at(v)], devices_[at(v)], placed_[at(v)], same[at(v)], partner[at(v)], v);
  };
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
  return order;
}

// Orders by devices, then those that stay together anyway, then by start.
std::vector<int> Coarsener::room_order() const {
  std::vector<int> order(load_.size());
  const std::vector<int> same = together();
  const auto key = [&](int v) { return std::tuple(devices_[at(v)], placed_[at(v)], same[at(v)], slack_->start(v), v); };
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
  return order;
}

// Candidates are the order's neighbours: vertices of one height, or of any if the path's limit allows. A vertex that
// may not merge waits for a later one, if it is the lightest, or the lightest of those that stay together anyway. The
// half of the candidates that takes least time is merged.
Coarsener::Pairs Coarsener::of_neighbours(const MergeGraph& g, Batch kind, size_t most) {
  std::vector<int> height;
  if (kind == Batch::kHeight) height = heights(g);
  else height.assign(load_.size(), 1);
  const std::vector<int> same = together();
  Pairs candidates, batch;
  int any = -1, own = -1;  // vertices that wait
  const auto lighter = [&](int v, int than) { return than < 0 || load_[at(v)].ns < load_[at(than)].ns; };
  for (int v : kind == Batch::kHeight ? height_order(g, height) : room_order()) {
    if (any >= 0 && (height[at(any)] != height[at(v)] || devices_[at(any)] != devices_[at(v)])) any = own = -1;
    if (own >= 0 && same[at(own)] != same[at(v)]) own = -1;
    const int with = own >= 0 && may_merge(own, v) ? own : any >= 0 && may_merge(any, v) ? any : -1;
    if (with >= 0) {
      candidates.emplace_back(with, v);
      if (any == with) any = -1;
      if (own == with) own = -1;
      continue;
    }
    if (lighter(v, any)) any = v;
    if (lighter(v, own)) own = v;
  }
  const auto ns = [&](const std::pair<int, int>& p) { return load_[at(p.first)].ns + load_[at(p.second)].ns; };
  std::stable_sort(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) { return ns(a) < ns(b); });
  most = std::min(most, (candidates.size() + 1) / 2);
  for (const auto& [u, v] : candidates) {
    if (batch.size() >= most) break;
    if (merge(u, v)) batch.emplace_back(u, v);
  }
  return batch;
}

void Coarsener::apply(const Pairs& pairs) {
  std::vector<int> with(load_.size(), -1), number(load_.size(), -1);
  for (const auto& [u, v] : pairs) with[at(std::max(u, v))] = std::min(u, v);
  int count = 0;
  for (size_t v = 0; v < with.size(); ++v) {
    if (with[v] >= 0) {
      number[v] = number[at(with[v])];
      load_[at(number[v])] = load_[at(number[v])] + load_[v];
      continue;
    }
    number[v] = count++;
    load_[at(number[v])] = load_[v];
    devices_[at(number[v])] = devices_[v];
    class_[at(number[v])] = class_of(static_cast<int>(v));
    placed_[at(number[v])] = placed_[v];
  }
  for (auto* of_vertex : {&devices_, &class_, &placed_}) of_vertex->resize(static_cast<size_t>(count));
  load_.resize(static_cast<size_t>(count));
  for (int& v : vertex_) v = number[at(v)];
  renumber_values(number);
}

// The limit starts at twice as parallel as the devices are, which costs nothing. It ends at all one after another.
void Coarsener::set_slack(const MergeGraph& g) {
  slack_.reset();
  if (!options_.keep_parallel || limit_ns_ > 2 * all_ns_) return;
  ns_.clear();
  for (const Load& load : load_) ns_.push_back(load.ns);
  const int64_t enough = all_ns_ / (2 * static_cast<int64_t>(fine_.devices.size()));
  if (limit_ns_ == 0) limit_ns_ = std::max(longest_path(g, ns_), enough);
  slack_.emplace(g, ns_, limit_ns_);
}

void Coarsener::down_to(int target) {
  // A batch below this share counts as few. A batch takes one of a vertex's thousands of neighbours, which would make
  // thousands of batches.
  constexpr size_t kFew = 20;
  constexpr double kGrow = 1.1;
  Batch kind = Batch::kEdges;
  size_t in_round = 0;  // merges since the last batch of edges, with it
  while (vertices() > target) {
    const size_t before = load_.size(), most = before - static_cast<size_t>(std::max(0, target));
    const MergeGraph g = graph();
    set_slack(g);
    const Pairs pairs = kind == Batch::kEdges ? of_edges(g, most) : of_neighbours(g, kind, most);
    apply(pairs);
    if (options_.edges_alone) {
      if (pairs.empty()) return;
      continue;
    }
    in_round += pairs.size();
    const bool few = pairs.size() * kFew < before;
    if (few && kind != Batch::kHeight) {
      kind = kind == Batch::kEdges && slack_ ? Batch::kRoom : Batch::kHeight;
      continue;
    }
    if (few && slack_) limit_ns_ = static_cast<int64_t>(kGrow * static_cast<double>(limit_ns_)) + 1;
    else if (in_round == 0) return;
    kind = Batch::kEdges;
    in_round = 0;
  }
}

// The place of each vertex in a topological order; among ready ones that with the first operation goes first.
std::vector<int> Coarsener::topological_numbers() const {
  const MergeGraph g = graph();
  std::vector<int> missing(load_.size(), 0), number(load_.size(), -1);
  for (int v : g.to) ++missing[at(v)];
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int v = 0; v < vertices(); ++v)
    if (missing[at(v)] == 0) ready.push(v);
  int count = 0;
  while (!ready.empty()) {
    const int u = ready.top();
    ready.pop();
    number[at(u)] = count++;
    for (int e = g.first[at(u)]; e < g.first[at(u) + 1]; ++e)
      if (--missing[at(g.to[at(e)])] == 0) ready.push(g.to[at(e)]);
  }
  ensure(count == vertices(), "of {} merged vertices {} are in or behind a cycle", vertices(), vertices() - count);
  return number;
}

// The group of each vertex, -1 for none.
std::vector<int> Coarsener::groups() const {
  std::vector<int> members(classes_.size(), 0), group(load_.size(), -1), number(classes_.size(), -1);
  for (int v = 0; v < vertices(); ++v) ++members[at(class_of(v))];
  int count = 0;
  for (int v = 0; v < vertices(); ++v) {
    const auto c = at(class_of(v));
    if (members[c] < 2) continue;
    if (number[c] < 0) number[c] = count++;
    group[at(v)] = number[c];
  }
  return group;
}

// The operations as vertices, without their inputs.
std::vector<PlacedOp> merged_ops(const PlacementProblem& fine, const std::vector<int>& vertex, int vertices) {
  std::vector<PlacedOp> ops(at(vertices));
  std::vector<int> members(at(vertices), 0);
  for (size_t o = 0; o < fine.ops.size(); ++o) {
    const PlacedOp& from = fine.ops[o];
    PlacedOp& to = ops[at(vertex[o])];
    to.bytes += from.bytes;
    if (members[at(vertex[o])]++ == 0) {
      to.name = from.name;
      to.ns = from.ns;
      continue;
    }
    for (size_t d = 0; d < to.ns.size(); ++d)
      if (to.ns[d] > 0) to.ns[d] += from.ns[d];
  }
  for (size_t v = 0; v < ops.size(); ++v)
    if (members[v] > 1) ops[v].name += "+" + std::to_string(members[v] - 1);
  return ops;
}

// Adds the results that leave their vertex, and a vertex's peak of other results while its operations run in the
// framework's order.
class MemoryOfVertices {
 public:
  MemoryOfVertices(const PlacementProblem& fine, const std::vector<int>& vertex)
      : fine_(fine), vertex_(vertex), leaves_(fine.results.size(), false), last_(fine.results.size()) {
    for (size_t i = 0; i < last_.size(); ++i) last_[i] = fine.results[i].producer;
    for (const PlacedValue& value : fine.values) {
      if (value.result < 0) continue;
      for (int r : value.readers) {
        last_[at(value.result)] = std::max(last_[at(value.result)], r);
        if (vertex[at(r)] != vertex[at(value.producer)]) leaves_[at(value.result)] = true;
      }
    }
  }
  void add_results(Coarse& c, std::vector<int>& coarse) const {
    coarse.assign(fine_.results.size(), -1);
    for (size_t i = 0; i < coarse.size(); ++i) {
      if (!leaves_[i]) continue;
      coarse[i] = static_cast<int>(c.problem.results.size());
      c.problem.results.push_back({fine_.results[i].bytes, vertex_[at(fine_.results[i].producer)]});
    }
  }
  void add_scratch(std::vector<PlacedOp>& vertices) const {
    std::vector<std::vector<int>> makes(fine_.ops.size()), ends(fine_.ops.size());
    std::vector<int64_t> live(vertices.size(), 0);  // results that leave count all the while
    for (size_t i = 0; i < last_.size(); ++i) {
      const int producer = fine_.results[i].producer;
      makes[at(producer)].push_back(static_cast<int>(i));
      if (!leaves_[i]) ends[at(last_[i])].push_back(static_cast<int>(i));
      else live[at(vertex_[at(producer)])] -= fine_.results[i].bytes;
    }
    for (size_t o = 0; o < fine_.ops.size(); ++o) {
      int64_t& now = live[at(vertex_[o])];
      int64_t& most = vertices[at(vertex_[o])].scratch;
      for (int i : makes[o]) now += fine_.results[at(i)].bytes;
      most = std::max(most, now + fine_.ops[o].scratch);
      for (int i : ends[o]) now -= fine_.results[at(i)].bytes;
    }
  }

 private:
  const PlacementProblem& fine_;
  const std::vector<int>& vertex_;
  std::vector<char> leaves_;
  std::vector<int> last_;  // the operation that reads it last, or makes it
};

// Adds the values that leave their vertex; `join` makes one of those with the same producer and readers. Values of
// order alone need one only. `result`: the coarse number of each fine result.
void add_values(Coarse& c, const PlacementProblem& fine, bool join, const std::vector<int>& result) {
  std::map<std::pair<int, std::vector<int>>, int> known;
  std::vector<size_t> last_value(c.problem.ops.size(), SIZE_MAX);
  std::vector<int> readers;
  for (size_t i = 0; i < fine.values.size(); ++i) {
    const PlacedValue& value = fine.values[i];
    const int producer = c.vertex[at(value.producer)];
    readers.clear();
    for (int r : value.readers) {
      const int reader = c.vertex[at(r)];
      if (reader == producer || last_value[at(reader)] == i) continue;
      last_value[at(reader)] = i;
      readers.push_back(reader);
    }
    if (readers.empty()) continue;
    std::sort(readers.begin(), readers.end());
    c.value[i] = static_cast<int>(c.problem.values.size());
    if (join || !value.moves()) c.value[i] = known.try_emplace({producer, readers}, c.value[i]).first->second;
    if (c.value[i] < static_cast<int>(c.problem.values.size())) {
      int64_t& bytes = c.problem.values[at(c.value[i])].bytes;
      if (value.moves()) bytes = std::max<int64_t>(bytes, 0) + value.bytes;
      continue;
    }
    for (int r : readers) c.problem.ops[at(r)].reads.push_back(c.value[i]);
    c.problem.values.push_back({value.bytes, producer, readers, value.result < 0 ? -1 : result[at(value.result)]});
  }
}

Coarse Coarsener::result() const {
  const std::vector<int> number = topological_numbers(), group = groups();
  Coarse c;
  for (int v : vertex_) c.vertex.push_back(number[at(v)]);
  c.inside = c.vertex;
  c.value.assign(fine_.values.size(), -1);
  c.problem.devices = fine_.devices;
  c.problem.routes = fine_.routes;
  c.problem.queues = fine_.queues;
  c.problem.ops = merged_ops(fine_, c.vertex, vertices());
  for (size_t v = 0; v < group.size(); ++v) c.problem.ops[at(number[v])].group = group[v];
  std::vector<int> results(fine_.results.size(), -1);
  if (!options_.join_values) {
    const MemoryOfVertices memory(fine_, c.vertex);
    memory.add_results(c, results);
    memory.add_scratch(c.problem.ops);
  }
  add_values(c, fine_, options_.join_values, results);
  return c;
}

}  // namespace

Coarse coarsen(const PlacementProblem& fine, int target, const CoarsenOptions& options) {
  Coarsener coarsener(fine, options);
  coarsener.down_to(target);
  return coarsener.result();
}

std::vector<Coarse> coarsen_levels(const PlacementProblem& fine, const std::vector<int>& targets,
                                   const CoarsenOptions& options) {
  Coarsener coarsener(fine, options);
  std::vector<Coarse> levels;
  for (int target : targets) {
    const int before = coarsener.vertices();
    coarsener.down_to(target);
    if (coarsener.vertices() == before) continue;
    Coarse level = coarsener.result();
    if (!levels.empty()) {
      level.inside.assign(levels.back().problem.ops.size(), -1);
      for (size_t o = 0; o < fine.ops.size(); ++o) level.inside[at(levels.back().vertex[o])] = level.vertex[o];
    }
    levels.push_back(std::move(level));
  }
  return levels;
}

std::vector<int> expanded_placement(const Coarse& coarse, const std::vector<int>& device) {
  std::vector<int> fine;
  fine.reserve(coarse.vertex.size());
  for (int v : coarse.vertex) fine.push_back(device[at(v)]);
  return fine;
}

std::vector<int> expanded_order(const Coarse& coarse, const std::vector<int>& order) {
  std::vector<int> place(order.size() + 1, 0), next(order.size() + 1, 0), fine(coarse.vertex.size());
  for (size_t i = 0; i < order.size(); ++i) place[at(order[i])] = static_cast<int>(i);
  for (int v : coarse.vertex) ++next[at(place[at(v)]) + 1];
  for (size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
  for (size_t o = 0; o < fine.size(); ++o) fine[at(next[at(place[at(coarse.vertex[o])])]++)] = static_cast<int>(o);
  return fine;
}

std::vector<int> order_of(const PlacedSchedule& schedule) {
  std::vector<int> order(schedule.start.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return schedule.start[at(a)] < schedule.start[at(b)]; });
  return order;
}

}  // namespace partita
