// Makes random local task graphs.
#include "partita/task_graph/testing/random_task_graph.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

namespace partita::testing {

namespace {

// A number below `n` that follows from `of` alone.
int64_t pick(int64_t n, std::initializer_list<uint64_t> of) {
  uint64_t h = 0x9e3779b97f4a7c15u;
  for (const uint64_t v : of) h = (h ^ v) * 0xbf58476d1ce4e5b9u, h ^= h >> 29;
  return static_cast<int64_t>(h % static_cast<uint64_t>(n));
}

void sum_loads(Fragment& fragment) {
  std::map<int, int64_t> loads;
  for (size_t t = 0, at = 0; t < fragment.duration_ns.size(); ++t)
    for (; at < static_cast<size_t>(fragment.queue_ends[t]); ++at)
      loads[fragment.queues[at]] += fragment.duration_ns[t];
  fragment.load_ns.assign(loads.begin(), loads.end());
}

}  // namespace

TaskGraphRecipe small_recipe(uint64_t seed) {
  Rng rng(seed * 2 + 1);
  TaskGraphRecipe recipe;
  recipe.shape = static_cast<TaskGraphRecipe::Shape>(rng.below(4));
  recipe.ops = static_cast<int>(rng.between(2, 12));
  recipe.devices = static_cast<int>(rng.between(1, 5));
  recipe.configurations = static_cast<int>(rng.between(2, 6));
  recipe.ties = rng.below(3) == 0;
  recipe.permuted = rng.below(2) == 0;
  recipe.collectives = rng.below(4) > 0;
  return recipe;
}

// Edges of one fragment; each once.
struct RandomTaskGraph::Edges {
  std::set<std::pair<TaskOf, TaskOf>> edges;

  void put_into(Fragment& fragment, const std::vector<int>& sizes) const {
    fragment.after = lists(sizes, false);
    fragment.before = lists(sizes, true);
  }

 private:
  std::vector<TaskLists> lists(const std::vector<int>& sizes, bool before) const {
    std::map<TaskOf, std::vector<TaskOf>> of;
    for (const auto& [from, to] : edges) before ? of[to].push_back(from) : of[from].push_back(to);
    std::vector<TaskLists> all(sizes.size());
    for (size_t party = 0; party < sizes.size(); ++party) {
      TaskLists mine;
      for (int task = 0; task < sizes[party]; ++task) {
        const auto found = of.find({static_cast<int>(party), task});
        if (found != of.end()) mine.tasks.insert(mine.tasks.end(), found->second.begin(), found->second.end());
        mine.ends.push_back(static_cast<int>(mine.tasks.size()));
      }
      if (!mine.tasks.empty()) all[party] = std::move(mine);
    }
    return all;
  }
};

RandomTaskGraph::RandomTaskGraph(const TaskGraphRecipe& recipe, uint64_t seed) : recipe_(recipe), seed_(seed) {
  Rng rng(seed);
  wire(rng);
  // By device its kernels and its collectives; and links, few enough to be shared by pairs of many devices.
  const int links = std::min(recipe.devices * recipe.devices, 6 * recipe.devices);
  queues_.resize(2 * static_cast<size_t>(recipe.devices) + static_cast<size_t>(links));
  std::iota(queues_.begin(), queues_.end(), 0);
  if (recipe.permuted) rng.shuffle(queues_);
  add_configurations(rng);
}

int RandomTaskGraph::add_tensor(int writer) {
  writer_.push_back(writer);
  readers_.emplace_back();
  const int tensor = static_cast<int>(writer_.size()) - 1;
  if (writer >= 0) results_[static_cast<size_t>(writer)].push_back(tensor);
  return tensor;
}

// The tensor that the op makes.
int RandomTaskGraph::add_op(const std::vector<int>& tensors) {
  const int op = static_cast<int>(operands_.size());
  operands_.emplace_back();
  results_.emplace_back();
  for (const int tensor : tensors) {
    std::vector<int>& readers = readers_[static_cast<size_t>(tensor)];
    if (!readers.empty() && readers.back() == op) continue;
    readers.push_back(op);
    operands_.back().push_back(tensor);
  }
  return add_tensor(op);
}

void RandomTaskGraph::wire(Rng& rng) {
  using Shape = TaskGraphRecipe::Shape;
  std::vector<int> made = {add_tensor(-1)};
  switch (recipe_.shape) {
    case Shape::kChain:
      for (int i = 0; i < recipe_.ops; ++i) made.push_back(add_op({made.back(), add_tensor(-1)}));
      break;
    case Shape::kBranches:
      for (int i = 0; i < recipe_.ops; ++i) {
        std::vector<int> tensors;
        for (uint64_t n = 1 + rng.below(3); n > 0; --n)
          tensors.push_back(made[made.size() - 1 - rng.below(std::min<size_t>(made.size(), 6))]);
        made.push_back(add_op(tensors));
        if (rng.below(5) == 0) made.push_back(add_tensor(i));
      }
      break;
    case Shape::kGrid: {
      const int layers = std::max(1, std::min(4, recipe_.ops / 3)), steps = std::max(1, recipe_.ops / layers);
      std::vector<int> parameters, states;
      for (int l = 0; l < layers; ++l) parameters.push_back(add_tensor(-1)), states.push_back(add_tensor(-1));
      for (int s = 0; s < steps; ++s) {
        int below = add_tensor(-1);
        for (size_t l = 0; l < parameters.size(); ++l) below = states[l] = add_op({below, states[l], parameters[l]});
      }
      break;
    }
    case Shape::kTraining: {
      for (int i = 0; i < recipe_.ops / 2; ++i) made.push_back(add_op({made.back()}));
      int back = made.back();
      for (int i = recipe_.ops / 2; i > 0; --i) back = add_op({back, made[static_cast<size_t>(i) - 1]});
      break;
    }
  }
}

void RandomTaskGraph::add_configurations(Rng& rng) {
  for (int op = 0; op < static_cast<int>(operands_.size()); ++op) {
    std::vector<Configuration> options;
    for (int c = 0; c < recipe_.configurations; ++c) {
      Configuration option;
      if (c > 0 && rng.below(3) == 0) {  // most tasks are those of the one before
        option = options.back();
        option.devices[rng.below(option.devices.size())] =
            static_cast<int>(rng.below(static_cast<uint64_t>(recipe_.devices)));
      } else {
        option.devices.resize(static_cast<size_t>(recipe_.devices));
        std::iota(option.devices.begin(), option.devices.end(), 0);
        if (rng.below(2) == 0) rng.shuffle(option.devices);
        option.devices.resize(static_cast<size_t>(rng.between(recipe_.least_parts, recipe_.devices)));
        option.reduces = recipe_.collectives && rng.below(4) == 0;
      }
      options.push_back(option);
    }
    options_.push_back(options);
    op_fragments_.emplace_back();
    for (const Configuration& option : options) op_fragments_.back().push_back(op_fragment(op, option));
    chosen_.push_back(static_cast<int>(rng.below(static_cast<uint64_t>(recipe_.configurations))));
  }
}

int RandomTaskGraph::link(int from, int to) const {
  const int links = static_cast<int>(queues_.size()) - 2 * recipe_.devices;
  return queue(2 * recipe_.devices + (from * recipe_.devices + to) % links);
}

void RandomTaskGraph::add_task(Fragment& fragment, int64_t duration_ns, uint64_t key, int key_party,
                               std::vector<int> queues) const {
  std::sort(queues.begin(), queues.end());
  queues.erase(std::unique(queues.begin(), queues.end()), queues.end());
  fragment.duration_ns.push_back(time(duration_ns));
  fragment.key.push_back(key);
  fragment.key_party.push_back(key_party);
  fragment.queues.insert(fragment.queues.end(), queues.begin(), queues.end());
  fragment.queue_ends.push_back(static_cast<int>(fragment.queues.size()));
}

FragmentPtr RandomTaskGraph::op_fragment(int op, const Configuration& configuration) const {
  auto fragment = std::make_shared<Fragment>();
  Edges edges;
  const int parts = static_cast<int>(configuration.devices.size());
  const uint64_t of = static_cast<uint64_t>(op);
  const int64_t work_ns = 20 + pick(200, {seed_, of});
  std::vector<int> together;
  for (int i = 0; i < parts; ++i) {
    const int device = configuration.devices[static_cast<size_t>(i)];
    add_task(*fragment, work_ns / parts + pick(3, {seed_, of, static_cast<uint64_t>(i)}) + 1, static_cast<uint64_t>(i),
             0, {queue(device)});
    together.push_back(queue(recipe_.devices + device));
    if (configuration.reduces) edges.edges.insert({TaskOf{0, i}, TaskOf{0, parts}});
  }
  if (configuration.reduces) add_task(*fragment, 5 + pick(20, {seed_, of}), uint64_t{1} << 20, 0, together);
  sum_loads(*fragment);
  edges.put_into(*fragment, {fragment->size()});
  return fragment;
}

// A tensor as its writer leaves it, by shard.
struct RandomTaskGraph::Written {
  std::vector<int> devices;
  std::vector<TaskOf> sources;  // by shard: the task that it comes from; party -1: it is there at once
  int writer_tasks = 0;
  bool gathers = false;  // a collective of the tensor has it on all these devices
};

RandomTaskGraph::Written RandomTaskGraph::written(int slot, const std::vector<int>& chosen, Fragment& fragment,
                                                  Edges& edges) const {
  const size_t tensor = static_cast<size_t>(slot - ops());
  const int writer = writer_[tensor];
  if (writer < 0) return {{static_cast<int>(pick(recipe_.devices, {seed_, tensor}))}, {{-1, 0}}};
  const Configuration& made = configuration(writer, chosen);
  const int parts = static_cast<int>(made.devices.size());
  Written written{made.devices, {}, parts + (made.reduces ? 1 : 0)};
  for (int i = 0; i < parts; ++i) written.sources.push_back({1, made.reduces ? parts : i});
  written.gathers = recipe_.collectives && parts > 1 && pick(4, {seed_, tensor, static_cast<uint64_t>(parts)}) == 0;
  if (!written.gathers) return written;
  std::vector<int> together;
  for (const int device : made.devices) together.push_back(queue(recipe_.devices + device));
  const std::vector<int>& results = results_[static_cast<size_t>(writer)];
  const uint64_t result =
      static_cast<uint64_t>(std::find(results.begin(), results.end(), static_cast<int>(tensor)) - results.begin());
  for (TaskOf& source : written.sources) edges.edges.insert({source, {0, 0}}), source = {0, 0};
  add_task(fragment, 3 + pick(30, {seed_, tensor, 7}), (uint64_t{1} << 43) + result, 1, together);
  return written;
}

FragmentPtr RandomTaskGraph::make_tensor_fragment(int slot, const std::vector<int>& chosen) const {
  auto fragment = std::make_shared<Fragment>();
  Edges edges;
  const size_t tensor = static_cast<size_t>(slot - ops());
  const uint64_t of = tensor;
  const auto [devices, sources, writer_tasks, gathers] = written(slot, chosen, *fragment, edges);
  std::vector<int> sizes = {0, writer_tasks};
  const int parts = static_cast<int>(devices.size());
  std::map<std::pair<int, int>, int> sent;  // (part, device): the transfer
  for (size_t r = 0; r < readers_[tensor].size(); ++r) {
    const int reader = readers_[tensor][r], party = static_cast<int>(r) + 2;
    const Configuration& read = configuration(reader, chosen);
    const std::vector<int>& operands = operands_[static_cast<size_t>(reader)];
    const uint64_t operand =
        1 +
        static_cast<uint64_t>(std::find(operands.begin(), operands.end(), static_cast<int>(tensor)) - operands.begin());
    const int to_parts = static_cast<int>(read.devices.size());
    sizes.push_back(to_parts + (read.reduces ? 1 : 0));
    for (int j = 0; j < to_parts; ++j)
      for (int i = j * parts / to_parts; i * to_parts < (j + 1) * parts; ++i) {
        const int from = devices[static_cast<size_t>(i)], to = read.devices[static_cast<size_t>(j)];
        const TaskOf source = sources[static_cast<size_t>(i)];
        if (from == to || (gathers && std::find(devices.begin(), devices.end(), to) != devices.end())) {
          if (source.party >= 0) edges.edges.insert({source, {party, j}});
          continue;
        }
        const auto [transfer, is_new] = sent.try_emplace({i, to}, fragment->size());
        if (is_new) {
          add_task(*fragment, 2 + pick(40, {seed_, of, 1}) / parts,
                   operand << 36 | static_cast<uint64_t>(j) << 18 | static_cast<uint64_t>(i), party, {link(from, to)});
          if (source.party >= 0) edges.edges.insert({source, {0, transfer->second}});
        }
        edges.edges.insert({TaskOf{0, transfer->second}, TaskOf{party, j}});
      }
  }
  sizes[0] = fragment->size();
  sum_loads(*fragment);
  edges.put_into(*fragment, sizes);
  return fragment;
}

FragmentPtr RandomTaskGraph::tensor_fragment(int slot, const std::vector<int>& chosen) {
  const size_t tensor = static_cast<size_t>(slot - ops());
  std::vector<int> of = {slot};
  if (writer_[tensor] >= 0) of.push_back(chosen[static_cast<size_t>(writer_[tensor])]);
  for (const int reader : readers_[tensor]) of.push_back(chosen[static_cast<size_t>(reader)]);
  if (tensor_fragments_.size() > 20'000) tensor_fragments_.clear();  // fragments in use stay with their users
  FragmentPtr& fragment = tensor_fragments_[of];
  if (!fragment) fragment = make_tensor_fragment(slot, chosen);
  return fragment;
}

TaskGraph RandomTaskGraph::graph() {
  TaskGraph graph;
  graph.queue_count = static_cast<int>(queues_.size());
  graph.op_count = ops();
  graph.wires.resize(operands_.size() + writer_.size());
  for (int op = 0; op < ops(); ++op) {
    const size_t o = static_cast<size_t>(op);
    for (const int tensor : results_[o]) graph.wires[o].results.push_back(ops() + tensor);
    for (const int tensor : operands_[o]) {
      const std::vector<int>& readers = readers_[static_cast<size_t>(tensor)];
      const auto at = std::find(readers.begin(), readers.end(), op) - readers.begin();
      graph.wires[o].operands.push_back({ops() + tensor, static_cast<int>(at) + 2});
    }
    graph.fragments.push_back(op_fragments_[o][static_cast<size_t>(chosen_[o])]);
  }
  for (size_t tensor = 0; tensor < writer_.size(); ++tensor) {
    const int slot = ops() + static_cast<int>(tensor);
    std::vector<int>& parties = graph.wires[static_cast<size_t>(slot)].parties;
    parties = {slot, writer_[tensor]};
    parties.insert(parties.end(), readers_[tensor].begin(), readers_[tensor].end());
    graph.fragments.push_back(tensor_fragment(slot, chosen_));
  }
  return graph;
}

Exchanges RandomTaskGraph::exchanges(const std::vector<std::pair<int, int>>& configurations) {
  std::vector<int> chosen = chosen_;
  std::set<int> tensors;
  Exchanges exchanges;
  for (const auto& [op, configuration] : configurations) {
    const size_t o = static_cast<size_t>(op);
    chosen[o] = configuration;
    exchanges.push_back({op, op_fragments_[o][static_cast<size_t>(configuration)]});
    tensors.insert(results_[o].begin(), results_[o].end());
    tensors.insert(operands_[o].begin(), operands_[o].end());
  }
  for (const int tensor : tensors) exchanges.push_back({ops() + tensor, tensor_fragment(ops() + tensor, chosen)});
  return exchanges;
}

std::vector<std::pair<int, int>> RandomTaskGraph::draw(Rng& rng, int count) const {
  std::vector<std::pair<int, int>> drawn;
  std::set<int> seen;
  while (static_cast<int>(drawn.size()) < std::min(count, ops())) {
    const int op = static_cast<int>(rng.below(static_cast<uint64_t>(ops())));
    if (!seen.insert(op).second) continue;
    int configuration = static_cast<int>(rng.below(static_cast<uint64_t>(recipe_.configurations - 1)));
    if (configuration >= chosen_[static_cast<size_t>(op)]) ++configuration;
    drawn.push_back({op, configuration});
  }
  return drawn;
}

}  // namespace partita::testing
