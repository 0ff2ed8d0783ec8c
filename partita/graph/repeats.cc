#include "partita/graph/repeats.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
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
      for (TensorId id : op.operands) shapes.push_back(graph.tensor(id).shape), dtypes.push_back(graph.tensor(id).dtype);
      kind_.push_back(kinds.emplace(std::tuple(op.definition, op.formula, op.attributes, shapes, dtypes), static_cast<int>(kinds.size())).first->second);
      has_parameter_.push_back(std::any_of(op.operands.begin(), op.operands.end(), [&](TensorId id) { return graph.tensor(id).role == Role::kParameter; }));
    }
    taken_.assign(count_, false);
  }

  std::vector<Repeat> run() {
    std::vector<Repeat> found;
    while (const auto best = largest()) {
      for (int i = best->first.value; i < best->first.value + best->ops * best->copies; ++i) taken_[i] = true;
      found.push_back(*best);
      found.back().name = name_of(best->first.value, best->ops);
    }
    std::sort(found.begin(), found.end(), [](const Repeat& a, const Repeat& b) { return a.first < b.first; });
    return found;
  }

 private:
  // Operand by operand, op i reads what op i + period reads, `period` further on. `first`: op i is in the first copy, which may read
  // something from before all copies where the second reads the first.
  bool alike(int i, int period, std::optional<int> first = std::nullopt) const {
    if (kind_[i] != kind_[i + period]) return false;
    const Op &a = graph_.ops[i], &b = graph_.ops[i + period];
    for (std::size_t k = 0; k < a.operands.size(); ++k) {
      if (a.operands[k] == b.operands[k]) continue;  // from outside
      const Tensor &x = graph_.tensor(a.operands[k]), &y = graph_.tensor(b.operands[k]);
      if (y.producer.valid() && first && *first <= y.producer.value && y.producer.value < *first + period &&
          (!x.producer.valid() || x.producer.value < *first))
        continue;
      if (x.producer.valid() != y.producer.valid() || x.role != y.role) return false;
      if (!x.producer.valid()) continue;  // each its own
      if (y.producer.value - x.producer.value != period || result_of(x.producer, a.operands[k]) != result_of(y.producer, b.operands[k])) return false;
    }
    return true;
  }

  std::ptrdiff_t result_of(OpId op, TensorId tensor) const {
    const std::vector<TensorId>& results = graph_.op(op).results;
    return std::find(results.begin(), results.end(), tensor) - results.begin();
  }

  bool is_free(int i) const { return i >= 0 && i < count_ && !taken_[i]; }

  std::optional<Repeat> largest() const {
    std::optional<Repeat> best;
    for (int period = 1; 2 * period <= count_; ++period)
      for (int i = 0; i + period < count_;) {
        int end = i;  // of a run of ops that are alike a period further on
        while (is_free(end) && is_free(end + period) && alike(end, period)) ++end;
        if (end > i) consider(i, end + period, period, best);
        i = end + 1;
      }
    return best;
  }

  // A stretch [begin, end) that repeats itself with this period, which may begin with the second copy.
  void consider(int begin, int end, int period, std::optional<Repeat>& best) const {
    for (int from = begin; from < begin + period && from + period <= end; ++from) {
      int first = from, copies = (end - from) / period;
      if (precedes(first, period)) first -= period, ++copies;
      if (copies < 2 || std::none_of(has_parameter_.begin() + first, has_parameter_.begin() + first + period, [](bool has) { return has; })) continue;
      const Repeat found{OpId(static_cast<std::size_t>(first)), period, copies, {}};
      if (!best || rank(found) > rank(*best)) best = found;
    }
  }

  // A first copy lies before `from`.
  bool precedes(int from, int period) const {
    for (int i = from - period; i < from; ++i)
      if (!is_free(i) || !alike(i, period, from - period)) return false;
    return true;
  }

  // Ops saved; the shorter copy; beginning where the modules' number changes; the earlier.
  std::tuple<int, int, bool, int> rank(const Repeat& r) const {
    return {(r.copies - 1) * r.ops, -r.ops, begins_a_number(r.first.value, r.ops), -r.first.value};
  }

  // The word that numbers the copies in the dotted place of op i: where op i + period has the next number. -1: none.
  int numbered_word(int i, int period) const {
    const auto mine = words_of(place_of(graph_.ops[i])), next = words_of(place_of(graph_.ops[i + period]));
    if (mine.size() != next.size()) return -1;
    int word = -1;
    for (std::size_t w = 0; w < mine.size(); ++w) {
      if (mine[w] == next[w]) continue;
      if (word >= 0 || !is_number(mine[w]) || !is_number(next[w]) || std::stoll(next[w]) != std::stoll(mine[w]) + 1) return -1;
      word = static_cast<int>(w);
    }
    return word;
  }

  bool begins_a_number(int first, int period) const {
    const int word = numbered_word(first, period);
    if (word < 0) return false;
    if (first == 0) return true;
    const auto mine = words_of(place_of(graph_.ops[first])), before = words_of(place_of(graph_.ops[first - 1]));
    return before.size() <= static_cast<std::size_t>(word) || !std::equal(mine.begin(), mine.begin() + word + 1, before.begin());
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
  int count_ = 0;                    // ops before the first backward op: forward ops, and updates of running statistics
  std::vector<int> kind_;            // equal formulas on equal shapes and dtypes
  std::vector<bool> has_parameter_;
  std::vector<bool> taken_;
};

}  // namespace

std::vector<Repeat> repeated_layers(const Graph& graph) { return Finder(graph).run(); }

}  // namespace partita
