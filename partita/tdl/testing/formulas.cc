// Draws random formulas for fuzz tests.
#include "partita/tdl/testing/formulas.h"

#include <algorithm>
#include <map>

#include "partita/base/error.h"

namespace partita::tdl::testing {

namespace {

using Names = std::vector<std::string>;

class Generator {
 public:
  explicit Generator(Rng& rng) : rng_(rng) {}

  Formula run() {
    extents_ = {{"i", rng_.between(2, 6)}, {"j", rng_.between(2, 6)}, {"k", rng_.between(1, 5)}};
    Formula f;
    Names operands;
    int64_t count = rng_.between(1, 3);
    for (int64_t n = 0; n < count; ++n) {
      std::string name(1, static_cast<char>('a' + n));
      Names indices = sample({"i", "j", "k"}, rng_.between(1, 3));
      Shape shape;
      for (const std::string& i : indices) shape.push_back(extents_[i]);
      operands.push_back(name);
      readable_.emplace_back(name, indices);
      f.shapes.push_back(shape);
    }
    Names lines, results;
    int64_t stages = rng_.between(1, 3);
    for (int64_t s = 0; s < stages; ++s) {
      in_first_stage_ = s == 0;
      Names lhs = sample({"i", "j", "k"}, rng_.between(s > 0 ? 0 : 1, 2));
      std::string name = fmt::format("s{}", s), body = expression(lhs, 3);
      Names left = others(lhs);
      if (!left.empty() && chance(0.6)) {
        Names over = sample(left, rng_.between(1, static_cast<int64_t>(left.size())));
        body = fmt::format("{}({}) ({})", reducer(), fmt::join(over, ","), expression(joined(lhs, over), 2));
      }
      lines.push_back(fmt::format("    {}[{}] = {}", name, fmt::join(lhs, ","), body));
      readable_.emplace_back(name, lhs);
      if (s == stages - 1 || chance(0.2)) results.push_back(name);
    }
    Names where;
    for (const auto& [index, extent] : extents_) where.push_back(fmt::format("{} < {}", index, extent));
    f.text = fmt::format("f({}) -> {} where {} =\n{}", fmt::join(operands, ", "), fmt::join(results, ", "),
                         fmt::join(where, ", "), fmt::join(lines, "\n"));
    return f;
  }

 private:
  bool chance(double p) { return rng_.uniform() < p; }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[rng_.below(from.size())];
  }
  Names sample(Names from, int64_t n) {
    rng_.shuffle(from);
    from.resize(static_cast<size_t>(n));
    return from;
  }
  static bool has(const Names& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  static Names others(const Names& names) {
    Names left;
    for (const char* i : {"i", "j", "k"})
      if (!has(names, i)) left.push_back(i);
    return left;
  }
  static Names joined(Names a, const Names& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  std::string reducer() { return pick(Names{"sum", "sum", "max", "min"}); }

  // A read of an operand or an earlier stage at the indices `free`.
  std::string access(const Names& free) {
    auto [name, own] = pick(readable_);
    Names subscripts;
    for (const std::string& x : own) {
      double z = rng_.uniform();
      if (free.empty()) {
        subscripts.push_back("0");
        continue;
      }
      std::string y = pick(free);
      if (has(free, x) && z < 0.7) subscripts.push_back(x);
      else if (z < 0.8 && chance(0.6)) subscripts.push_back(fmt::format("{} + {}", y, rng_.between(-2, 2)));
      else if (z < 0.8) subscripts.push_back(fmt::format("{} - {}", rng_.between(1, 4), y));
      else if (z < 0.87) subscripts.push_back(fmt::format("{}*2 - 1", y));
      else if (z < 0.93) subscripts.push_back(fmt::format("({} + {})//2", y, rng_.between(-2, 2)));
      else if (z < 0.97) subscripts.push_back(fmt::format("({} + 1) % {}", y, rng_.between(2, 3)));
      else subscripts.push_back(y);
    }
    std::string fill =
        pick(in_first_stage_ ? Names{"", "", "", " else 0.5", " else -inf"} : Names{"", "", " else 0.5"});
    std::string text = fmt::format("{}[{}]{}", name, fmt::join(subscripts, ", "), fill);
    return fill == " else -inf" ? fmt::format("max({}, -3)", text) : text;
  }

  std::string condition(const Names& free) {
    if (free.empty() || chance(0.3)) return access(free) + " > 0";
    std::string x = pick(free), y = pick(joined(free, {"2"}));
    std::string c =
        fmt::format("{} {} {} + {}", x, pick(Names{"<", "<=", "==", ">", ">=", "!="}), y, rng_.between(-1, 2));
    return chance(0.7) ? c : fmt::format("{} {} {}*2 <= {} + 3", c, pick(Names{"and", "or"}), x, y);
  }

  std::string expression(const Names& free, int depth) {
    double z = rng_.uniform();
    auto sub = [&] { return expression(free, depth - 1); };
    if (depth == 0 || z < 0.15) {
      if (chance(0.85)) return access(free);
      return chance(0.5) ? fmt::format("{:.2f}", 0.5 + 1.5 * rng_.uniform()) : free.empty() ? "2" : pick(free);
    }
    std::string a, b;
    if (z < 0.70) {
      a = sub();
      b = sub();
    }
    if (z < 0.33) return fmt::format("({} + {})", a, b);
    if (z < 0.43) return fmt::format("({} - {})", a, b);
    if (z < 0.58) return fmt::format("({} * {})", a, b);
    if (z < 0.63) return fmt::format("({} / (1 + abs({})))", a, b);
    if (z < 0.70) return fmt::format("{}({}, {})", pick(Names{"max", "min"}), a, chance(0.5) ? b : "0");
    if (z < 0.78) return fmt::format("{}(tanh({}))", pick(Names{"tanh", "exp", "abs", "sigmoid"}), sub());
    if (z < 0.88) {
      std::string c = condition(free);
      a = sub();
      return fmt::format("if({}, {}, {})", c, a, chance(0.5) ? "0" : sub());
    }
    Names left = others(free);
    if (left.empty()) return access(free);
    Names over = sample(left, rng_.between(1, static_cast<int64_t>(left.size())));
    return fmt::format("({}({}) ({}))", reducer(), fmt::join(over, ","), expression(joined(free, over), depth - 1));
  }

  Rng& rng_;
  std::map<std::string, int64_t> extents_;
  std::vector<std::pair<std::string, Names>> readable_;
  bool in_first_stage_ = true;
};

}  // namespace

Formula random_formula(Rng& rng) { return Generator(rng).run(); }

}  // namespace partita::tdl::testing
