// Finds repeated layers in a forward graph.
#include "partita/graph/repeats.h"

#include <algorithm>
#include <cctype>
#include <climits>
#include <map>
#include <queue>
#include <tuple>

#include "partita/base/error.h"

namespace partita {
namespace {

std::vector<std::string> words_of(const std::string& dotted) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = dotted.find('.', begin);
    words.push_back(dotted.substr(begin, end - begin));
    if (end == std::string::npos) return words;
    begin = end + 1;
  }
}

bool is_number(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// The number; the largest int64 for more than 18 digits.
int64_t number_of(const std::string& digits) { return digits.size() > 18 ? INT64_MAX - 1 : std::stoll(digits); }

const std::string& place_of(const Op& op) { return op.source.module.empty() ? op.name : op.source.module; }

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph) {
    while (count_ < static_cast<int>(graph.ops.size()) && graph.ops[count_].phase != Phase::kBackward) ++count_;
    std::map<std::tuple<std::string, std::string, tdl::Attributes, std::vector<Shape>, std::vector<DType>>, int> kinds;
    for (int i = 0; i < count_; ++i) {
      const Op& op = graph.ops[i];
      std::vector<Shape> shapes;
      std::vector<DType> dtypes;
      for (TensorId id : op.operands)
        shapes.push_back(graph.tensor(id).shape), dtypes.push_back(graph.tensor(id).dtype);
      kind_.push_back(kinds
                          .emplace(std::tuple(op.definition, op.formula, op.attributes, shapes, dtypes),
                                   static_cast<int>(kinds.size()))
                          .first->second);
      parameters_before_.push_back(parameters_before_.back() +
                                   std::any_of(op.operands.begin(), op.operands.end(),
                                               [&](TensorId id) { return graph.tensor(id).role == Role::kParameter; }));
    }
    taken_.assign(count_, false);
  }

  std::vector<Repeat> run() {
    find_runs();
    for (const Run& run : runs_) offer(run, run.begin, run.end + run.period);
    std::vector<Repeat> found;
    while (!offers_.empty()) {
      const Offer best = offers_.top();
      offers_.pop();
      const int from = best.repeat.first.value, to = from + best.repeat.ops * best.repeat.copies;
      if (std::none_of(taken_.begin() + from, taken_.begin() + to, [](bool taken) { return taken; })) {
        std::fill(taken_.begin() + from, taken_.begin() + to, true);
        found.push_back(best.repeat);
        found.back().name = name_of(from, best.repeat.ops);
      }
      offer_what_is_free(best);
    }
    std::sort(found.begin(), found.end(), [](const Repeat& a, const Repeat& b) { return a.first < b.first; });
    return found;
  }

 private:
  // The range where a first copy may begin so that op i of it is like op i + period of the second.
  struct Begins {
    int lowest = INT_MIN, highest = INT_MAX;
    bool anywhere() const { return lowest == INT_MIN && highest == INT_MAX; }
    bool nowhere() const { return lowest > highest; }
  };

  // Op i reads, operand by operand, what op i + period reads, `period` further on. Only in the first copy it may read
  // something from before all copies if the second reads the first.
  Begins alike(int i, int period) const {
    Begins begins;
    const auto nowhere = [] { return Begins{0, -1}; };
    if (kind_[i] != kind_[i + period]) return nowhere();
    const Op &a = graph_.ops[i], &b = graph_.ops[i + period];
    for (std::size_t k = 0; k < a.operands.size(); ++k) {
      if (a.operands[k] == b.operands[k]) continue;  // from outside
      const Tensor &x = graph_.tensor(a.operands[k]), &y = graph_.tensor(b.operands[k]);
      const bool same_kind = x.producer.valid() == y.producer.valid() && x.role == y.role;
      if (same_kind && !x.producer.valid()) continue;  // each its own
      if (same_kind && y.producer.value - x.producer.value == period &&
          result_of(x.producer, a.operands[k]) == result_of(y.producer, b.operands[k]))
        continue;
      if (!y.producer.valid()) return nowhere();
      begins.lowest =
          std::max({begins.lowest, y.producer.value - period + 1, x.producer.valid() ? x.producer.value + 1 : 0});
      begins.highest = std::min({begins.highest, y.producer.value, i});
    }
    return begins;
  }

  std::ptrdiff_t result_of(OpId op, TensorId tensor) const {
    const std::vector<TensorId>& results = graph_.op(op).results;
    return std::find(results.begin(), results.end(), tensor) - results.begin();
  }

  // ---------------------------------------------------------------- runs

  // Each of ops begin to end - 1 is like the op one period further on, perhaps only in a first copy.
  struct Run {
    int begin = 0, end = 0, period = 0;
  };
  // Ops begin to end - 1 repeat with the period, wherever a copy begins.
  struct Stretch {
    int begin = 0, end = 0, period = 0;
  };

  // A first copy and its repetition are a run of at least a period, which holds a multiple of the period. So only these
  // are examined, n/1 + n/2 + .. = n log n. Inside a stretch of a shorter period a longer one is passed over. It is
  // either its multiple, which saves less, or, by Fine and Wilf's theorem, no longer than the two together.
  void find_runs() {
    stretch_of_.assign(static_cast<std::size_t>(count_), -1);
    for (int period = 1; 2 * period <= count_; ++period)
      for (int i = 0; i + period < count_; i += period) {
        if (stretch_of_[i] >= 0 && is_passed_over(stretches_[stretch_of_[i]], i, period)) continue;
        if (kind_[i] != kind_[i + period] || alike(i, period).nowhere()) continue;
        const Run run = run_around(i, period);
        i = (run.end - 1) / period * period;
        if (run.end - run.begin < period || is_of_shorter(run)) continue;
        runs_.push_back(run);
        mark_stretches(run);
      }
  }

  // Extends a run both ways from op i. In a stretch of a period that divides this one, all ops are alike as far as it
  // goes.
  Run run_around(int i, int period) const {
    Run run{i, i + 1, period};
    while (run.begin > 0 && !alike(run.begin - 1, period).nowhere()) {
      const Stretch* s = stretch_with(run.begin - 1, period);
      run.begin = s && run.begin - 1 + period < s->end ? s->begin : run.begin - 1;
    }
    while (run.end + period < count_ && !alike(run.end, period).nowhere()) {
      const Stretch* s = stretch_with(run.end, period);
      run.end = s && run.end + period < s->end ? s->end - period : run.end + 1;
    }
    return run;
  }

  // The stretch that an op is in, if its period divides this one.
  const Stretch* stretch_with(int op, int period) const {
    const int s = stretch_of_[op];
    return s >= 0 && period % stretches_[s].period == 0 ? &stretches_[s] : nullptr;
  }

  // Tells whether all of a run is in a stretch of a shorter period that divides its own. The first ops of a copy may be
  // outside: they let a copy begin wherever the longer period does.
  bool is_of_shorter(const Run& run) const {
    const Stretch* s = stretch_with(run.end, run.period);
    if (!s || s->period == run.period || run.end + run.period > s->end || s->begin - run.begin > s->period)
      return false;
    for (int i = run.begin; i < s->begin; ++i) {
      const Begins mine = alike(i, run.period), shorter = alike(i, s->period);
      if (shorter.lowest > mine.lowest || shorter.highest < mine.highest) return false;
    }
    return true;
  }

  static bool is_passed_over(const Stretch& s, int i, int period) {
    if (period % s.period == 0) return i + period < s.end;
    return i >= s.begin + s.period && i + period + s.period <= s.end;
  }

  void mark_stretches(const Run& run) {
    for (int begin = run.begin; begin < run.end;) {
      int end = begin;
      while (end < run.end && alike(end, run.period).anywhere()) ++end;
      if (end - begin >= run.period) {
        for (int i = begin; i < end + run.period; ++i)
          if (stretch_of_[i] < 0) stretch_of_[i] = static_cast<int>(stretches_.size());
        stretches_.push_back({begin, end + run.period, run.period});
      }
      begin = end + 1;
    }
  }

  // ---------------------------------------------------------------- the best of a run

  struct Offer {
    std::tuple<int, int, bool, int> rank;
    Repeat repeat;
    Run run;
    int from = 0, to = 0;  // the run's ops that were free
    bool operator<(const Offer& other) const { return rank < other.rank; }
  };

  // Offers the repeat that saves most among the ops from .. to - 1 of a run.
  void offer(const Run& run, int from, int to) {
    const int period = run.period, last = to - 2 * period;  // a first copy begins there at the latest
    if (last < from) return;
    std::vector<int> refused(
        static_cast<std::size_t>(last - from + 2));  // differences of: ops that let no copy begin here
    const auto refuse = [&](int low, int high) {
      low = std::max(low, from), high = std::min(high, last);
      if (low <= high) ++refused[low - from], --refused[high + 1 - from];
    };
    std::vector<int> length(
        static_cast<std::size_t>(to - period - from + 1));  // how many ops from here on are alike anywhere
    for (int i = to - period - 1; i >= from; --i) {
      const Begins begins = alike(i, period);
      length[i - from] = begins.anywhere() ? length[i - from + 1] + 1 : 0;
      if (begins.anywhere()) continue;
      if (begins.nowhere()) refuse(i - period + 1, i);
      else
        refuse(i - period + 1, std::min(i, begins.lowest - 1)), refuse(std::max(i - period + 1, begins.highest + 1), i);
    }
    int most = 0, first = -1, refusals = 0;
    bool numbered = false;
    for (int i = from; i <= last; ++i) {
      refusals += refused[i - from];
      if (refusals > 0 || parameters_before_[i + period] == parameters_before_[i]) continue;
      const int copies = 2 + length[i + period - from] / period;
      if (copies < most || (copies == most && numbered)) continue;
      const bool begins = begins_a_number(i, period);
      if (copies == most && !begins) continue;
      most = copies, first = i, numbered = begins;
    }
    if (first < 0) return;
    // Ops saved; the shorter copy; beginning where the modules' number changes; the earlier.
    offers_.push({{(most - 1) * period, -period, numbered, -first},
                  {OpId(static_cast<std::size_t>(first)), period, most, {}},
                  run,
                  from,
                  to});
  }

  void offer_what_is_free(const Offer& old) {
    for (int from = old.from; from < old.to;) {
      int to = from;
      while (to < old.to && !taken_[to]) ++to;
      if (to > from) offer(old.run, from, to);
      from = to + 1;
    }
  }

  // The word that numbers the copies in the dotted name of op i: there op i + period has the next number. -1 if none.
  int numbered_word(int i, int period) const {
    const auto mine = words_of(place_of(graph_.ops[i])), next = words_of(place_of(graph_.ops[i + period]));
    if (mine.size() != next.size()) return -1;
    int word = -1;
    for (std::size_t w = 0; w < mine.size(); ++w) {
      if (mine[w] == next[w]) continue;
      if (word >= 0 || !is_number(mine[w]) || !is_number(next[w]) || number_of(next[w]) != number_of(mine[w]) + 1)
        return -1;
      word = static_cast<int>(w);
    }
    return word;
  }

  bool begins_a_number(int first, int period) const {
    const int word = numbered_word(first, period);
    if (word < 0) return false;
    if (first == 0) return true;
    const auto mine = words_of(place_of(graph_.ops[first])), before = words_of(place_of(graph_.ops[first - 1]));
    return before.size() <= static_cast<std::size_t>(word) ||
           !std::equal(mine.begin(), mine.begin() + word + 1, before.begin());
  }

  std::string name_of(int first, int period) const {
    for (int i = first; i < first + period; ++i) {
      const int word = numbered_word(i, period);
      if (word <= 0) continue;
      const auto words = words_of(place_of(graph_.ops[i]));
      return fmt::format("{}.*", fmt::join(words.begin(), words.begin() + word, "."));
    }
    return fmt::format("{} .. {}", graph_.ops[first].name, graph_.ops[first + period - 1].name);
  }

  const Graph& graph_;
  int count_ = 0;          // ops before the first backward op: forward ops, and updates of running statistics
  std::vector<int> kind_;  // equal formulas on equal shapes and dtypes
  std::vector<int> parameters_before_{0};  // [i]: ops before op i that read one
  std::vector<bool> taken_;
  std::vector<Run> runs_;
  std::vector<Stretch> stretches_;
  std::vector<int> stretch_of_;        // by op: its first stretch, or -1
  std::priority_queue<Offer> offers_;  // the best of each run, some of which are taken by now
};

// Tells whether each copy reads results of the copy before.
bool is_chain(const Graph& graph, const Repeat& repeat) {
  for (int copy = 1; copy < repeat.copies; ++copy) {
    const int begin = repeat.first.value + copy * repeat.ops;
    const auto reads = [&](TensorId t) {
      const int producer = graph.tensor(t).producer.value;
      return producer >= begin - repeat.ops && producer < begin;
    };
    if (std::none_of(graph.ops.begin() + begin, graph.ops.begin() + begin + repeat.ops,
                     [&](const Op& op) { return std::any_of(op.operands.begin(), op.operands.end(), reads); }))
      return false;
  }
  return true;
}

}  // namespace

std::vector<Repeat> repeated_layers(const Graph& graph) { return Finder(graph).run(); }

std::vector<Repeat> chained_layers(const Graph& graph) {
  std::vector<Repeat> layers;
  int ops = 0;
  for (const Repeat& repeat : repeated_layers(graph)) {
    if (!is_chain(graph, repeat)) continue;
    ops += repeat.ops * repeat.copies;
    layers.push_back(repeat);
  }
  return 2 * ops < forward_end(graph) ? std::vector<Repeat>() : layers;
}

int forward_end(const Graph& graph) {
  return static_cast<int>(
      std::find_if(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.phase == Phase::kBackward; }) -
      graph.ops.begin());
}

}  // namespace partita
