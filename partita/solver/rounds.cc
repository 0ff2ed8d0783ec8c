#include "partita/solver/rounds.h"

#include <algorithm>
#include <cmath>
#include <future>

#include "partita/base/begun.h"
#include "partita/base/error.h"
#include "partita/solver/branch.h"
#include "partita/solver/eliminate.h"
#include "partita/solver/primal.h"
#include "partita/solver/reduce.h"
#include "partita/solver/steps.h"

namespace partita::solver {

namespace {

using Clock = std::chrono::steady_clock;

// Of an assignment of all the model's variables; infinite where it takes what is forbidden or breaks the limit.
double model_cost(const Model& m, const Assignment& x) {
  double cost = 0;
  for (int v = 0; v < m.variables(); ++v) cost += m.unary[m.offset[v] + x[v]];
  if (cost == kInfinity) return cost;
  for (const Model::Pair& p : m.pairs) cost += m.tables[p.table]->at(x[p.a], x[p.b]);
  if (cost == kInfinity || !m.limited) return cost;
  std::vector<Wide> load(m.times.size() + 1, 0);
  for (int v = 0; v < m.variables(); ++v)
    for (const Model::Use& u : m.uses[v]) load[u.lower] += u.amounts[x[v]], load[u.upper] -= u.amounts[x[v]];
  Wide now = 0;
  for (Wide change : load)
    if ((now += change) > m.limit) return kInfinity;
  return cost;
}

// What the two sides of a round share when it ends.
struct Best {
  std::optional<Assignment> solution;  // of the model's variables
  Wide cost = 0;
  std::optional<Wide> known() const { return solution ? std::optional<Wide>(cost) : std::nullopt; }
};

// What can be proved of the network that was reduced.
struct OfOriginal {
  std::function<std::optional<EliminationPlan>()> plan_to_prove;
  std::function<bool(const Assignment& solution, const Certificate::Leaf& messages)>
      in_steps;  // both of the reduced one
};

// Solves a reduced network. Its solutions, bounds and leaves are those of the reduced network too; `most`, of the
// original.
class Solver {
 public:
  Solver(const Network& network, const Options& options, For what, double headroom, Wide most, OfOriginal original)
      : n_(network),
        o_(options),
        what_(what),
        original_(std::move(original)),
        model_(compile(network)),
        judge_(network, most),
        rounding_(model_),
        alive_(model_.unary.size(), 1),
        rng_(options.seed) {
    model_.headroom = headroom;
    constexpr double kJudging = 1e-8;  // seconds an entry, about
    if (what == For::kItself && !computes()) reserve_ = kJudging * static_cast<double>(model_.entries);
  }

  Result run() {
    if (!propagate(model_, alive_)) {
      result_.certificate.leaves.emplace_back();
      return finish();
    }
    const auto plan = plan_elimination(n_, o_.elimination_bytes);
    bool planned = plan.has_value();
    if (planned) result_.counters["width"] = plan->width;
    Branch branch(model_, judge_, alive_, o_.messages.get());
    Primal primal(model_, alive_, rng_.next());
    if (o_.start) consider(best_, completed(*o_.start));
    int64_t round = 0, without = 0;  // rounds; since the last better solution
    double gap = kInfinity;
    bool closing = false;             // the dual alone
    constexpr int64_t kGivingUp = 8;  // rounds without a better solution
    for (; !branch.done() && !stop() && !close_enough(branch); ++round) {
      if (o_.max_steps && round >= *o_.max_steps) break;
      Best below = best_, above = best_;
      constexpr int kPasses = 4;  // about so many a round
      const int64_t work = std::clamp<int64_t>(2 * kPasses * model_.entries, 1 << 18, 1 << 26);
      // Once the rest has worked as much as elimination would, whose entries take longer.
      constexpr int64_t kSlower = 3;
      if (planned && branch.work() + work >= kSlower * plan->work) {
        planned = false;
        eliminated(*plan);
        if (settled() && o_.certify && what_ == For::kItself) proof_ = original_.plan_to_prove();
        if (settled() && (!o_.certify || proof_)) break;
        below = above = best_;
      }
      auto dual = [&] {
        branch.advance(
            work, below.known(),
            [&](const Assignment& x) {
              consider(below, x);
              return below.known();
            },
            [&] { return stop(); });
      };
      auto improve = [&] {
        primal.advance(
            work, [&](const Assignment& x) { consider(above, x); }, [&] { return stop(); });
      };
      // A second side has nothing to begin with yet, or nothing to find any more; or it has found nothing for long,
      // while the first gets on, and would get on faster alone: they share what memory brings.
      constexpr int kNowAndThen = 8;
      if (round == 0 || settled() || (closing && without > o_.patience && round % kNowAndThen != 0)) {
        dual();
      } else if (o_.threads < 2) {
        dual();
        improve();
      } else {
        auto other = begun(improve);
        dual();
        other.get();
      }
      ++without;
      for (const Best& b : {below, above})
        if (b.solution && (!best_.solution || b.cost < best_.cost)) best_ = b, without = 0;
      constexpr double kGettingOn = 0.97;
      const double now = best_.solution ? static_cast<double>(best_.cost) - branch.bound() : kInfinity;
      closing = now < kGettingOn * gap;
      gap = now;
      primal.guide(branch.rounded(), branch.believed(), branch.prices());
      if (best_.solution) primal.best(*best_.solution);
      if (what_ == For::kItself && (o_.progress || o_.deadline)) prove(branch);
      report();
      if (is_near(branch)) {
        if (!o_.certify) {
          if (const auto within = narrower(branch)) {
            narrowed(*within, branch, round + 1);
            break;
          }
        } else if (what_ == For::kItself &&
                   original_.in_steps(Assignment(best_.solution->begin(), best_.solution->begin() + n_.variables()),
                                      branch.root())) {
          break;
        }
      }
      if (what_ != For::kCore) search_core(branch, without);
      if (what_ != For::kItself && without >= kGivingUp) break;
    }
    result_.counters["rounds"] = static_cast<double>(round);
    result_.counters["parts"] = static_cast<double>(branch.parts());
    result_.counters["passes"] = static_cast<double>(branch.passes());
    result_.counters["work"] = static_cast<double>(branch.work());
    result_.counters["restarts"] = static_cast<double>(primal.restarts());
    for (const auto& [count, number] : inside_) result_.counters[count] += number;
    if (proof_) {
      Certificate::Leaf leaf;
      leaf.order = proof_->order;
      result_.certificate.bound = computed_;
      result_.certificate.leaves = {std::move(leaf)};
    } else if (what_ == For::kItself && !computes()) {
      if (o_.certify || !settled()) result_.certificate = branch.certificate();
    } else if (branch.done()) {
      if (best_.solution) computed_ = best_.cost;
      else nothing_ = true;
    } else if (what_ == For::kItself) {
      note(branch.bound(), branch.most_prices(), computed_);
    }
    return finish();
  }

 private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  bool stop() const {
    if (o_.stop && *o_.stop) return true;
    return o_.deadline &&
           Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(reserve_)) >=
               *o_.deadline;
  }

  // Whether the gap is small enough for most values to cost more than the best solution, and smaller than when they
  // were last looked at.
  bool is_near(const Branch& branch) {
    constexpr double kNear = 0.03, kNearer = 0.75;
    if (!best_.solution || branch.done() || settled()) return false;
    const double cost = static_cast<double>(best_.cost), gap = cost - branch.root_bound();
    if (gap > std::min(kNear * std::abs(cost), kNearer * looked_at_)) return false;
    looked_at_ = gap;
    return true;
  }

  // The network with those values only that a better solution than the best may take, once that leaves little of it.
  // Not where a certificate is asked for: messages to what is left prove nothing of the rest.
  std::optional<Subset> narrower(Branch& branch) {
    return little_of(
        n_, model_,
        at_most(static_cast<double>(best_.cost) + 1 + rounding_.at(branch.most_prices()), branch.least_costs()),
        *best_.solution, o_);
  }

  // What is left of the network begins with what is known of all of it, and leaves time for the certificate, which
  // comes after it.
  void begin_with(const Branch& branch, const Subset& rest, Options& inside) {
    if (o_.deadline)
      *inside.deadline -= std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(reserve_));
    inside.seed = rng_.next();
    inside.start = rest.lowered(*best_.solution);
    inside.messages = std::make_shared<Certificate::Leaf>(rest.lowered(branch.root()));
    inside.tell = nullptr;
  }

  // Where the bound is near, the best solution is as a rule among the values that cost next to nothing more with the
  // dual's messages: those are solved as a network of their own, for a solution alone.
  void search_core(Branch& branch, int64_t without) {
    constexpr double kNear = 0.03, kNearer = 0.75, kOfAll = 0.25;
    constexpr int64_t kSteps = 25,
                      kAgain = 50;  // rounds in it; after so many without a better solution it is tried anyway
    constexpr double kShareOfWork = 2,
                     kSetUp = 32;  // of the dual's so far; looks at each table entry before the first pass
    if (!best_.solution || branch.done() || settled() || without == 0 ||
        core_work_ > kShareOfWork * static_cast<double>(branch.work()))
      return;
    const double cost = static_cast<double>(best_.cost), bound = branch.root_bound(), gap = cost - bound;
    if (gap > kNear * std::abs(cost) || (gap > kNearer * core_at_ && without % kAgain != 0)) return;
    core_at_ = gap;
    const Wide before = best_.cost;
    const std::vector<double> least = branch.least_costs();
    for (double room = gap / 4; room > gap / 300 && best_.cost == before && !stop();
         room /= 4) {  // ever fewer, where more bring nothing
      const Alive alive = at_most(bound + room + rounding_.at(branch.most_prices()), least);
      const auto entries = static_cast<double>(sweep_of(model_, alive));
      if (entries > kOfAll * static_cast<double>(model_.sweep) ||
          core_work_ + kSetUp * entries > kShareOfWork * static_cast<double>(branch.work()))
        continue;
      ++result_.counters["cores"];
      Options inside = o_;
      inside.max_steps = kSteps;
      inside.certify = false;
      inside.progress = nullptr;
      const Subset rest = left_of(n_, model_, alive, *best_.solution);
      begin_with(branch, rest, inside);
      const Result r = solve_reduced(rest.network(), inside, For::kCore);
      if (r.solution) consider(best_, completed(rest.whole(*r.solution)));
      core_work_ += r.counters.at("work") + kSetUp * entries;
      if (r.status == Status::kOptimal) return;
    }
  }

  // Solves what is left, with the steps that are: what is better is there.
  void narrowed(const Subset& rest, const Branch& branch, int64_t steps) {
    ++result_.counters["narrowed"];
    Options inside = o_;
    if (o_.max_steps) inside.max_steps = *o_.max_steps - steps;
    begin_with(branch, rest, inside);
    if (o_.progress)
      inside.progress = [&](const Progress& p) {
        o_.progress({p.cost, proved_ && (!p.bound || *p.bound < *proved_) ? proved_ : p.bound, seconds()});
      };
    const Result r = solve_rest(rest, inside, what_, best_.cost);
    if (r.solution) consider(best_, completed(*r.solution));
    if (r.bound && (!computed_ || *r.bound > *computed_)) computed_ = r.bound;
    for (const char* count : {"work", "narrowed", "cores", "eliminated", "passes", "rounds", "parts", "restarts"})
      if (r.counters.contains(count)) inside_[count] += r.counters.at(count);
  }

  // The optimum without the limit: a bound, and the solution if it keeps the limit.
  void eliminated(const EliminationPlan& plan) {
    const double before = seconds();
    const auto found = eliminate(n_, plan, [&] { return stop(); });
    if (!found) return;
    ++result_.counters["eliminated"];
    if (found->solution) consider(best_, completed(*found->solution));
    if (found->solution) computed_ = found->cost;
    else nothing_ = true;
    if (o_.tell)
      o_.tell(fmt::format("eliminated: width {}, largest table {} entries, {:.2f} s{}", plan.width, plan.largest_table,
                          seconds() - before,
                          settled() ? "" : fmt::format("; the least without the limit is {}", to_string(found->cost))));
  }

  // Nothing better can be found any more.
  bool settled() const { return nothing_ || (computed_ && best_.solution && best_.cost == *computed_); }

  // A solution of the network, with the tuple that each joint factor then takes.
  std::optional<Assignment> completed(Assignment x) const {
    evaluate(n_, x);
    for (const Model::Joint& j : model_.joints) {
      Assignment tuple;
      for (int v : j.variables) tuple.push_back(x[v]);
      const auto at = std::lower_bound(j.tuples.begin(), j.tuples.end(), tuple);
      if (at == j.tuples.end() || *at != tuple) return std::nullopt;
      x.push_back(static_cast<int>(at - j.tuples.begin()));
    }
    return x;
  }

  void consider(Best& best, const std::optional<Assignment>& x) const {
    if (!x) return;
    const double cost = model_cost(model_, *x);
    if (cost == kInfinity || (best.solution && cost > static_cast<double>(best.cost) + rounding_.at(0) + 1)) return;
    const Evaluation e = evaluate(n_, Assignment(x->begin(), x->begin() + n_.variables()));
    if (e.feasible && (!best.solution || e.cost < best.cost)) best = {x, e.cost};
  }

  bool close_enough(const Branch& branch) const {
    return o_.gap > 0 && best_.solution &&
           static_cast<double>(best_.cost) - branch.bound() <= o_.gap * std::abs(static_cast<double>(best_.cost));
  }

  // Of large networks no certificate is made that nobody asks for: what the dual says, less what rounding can come to,
  // is the bound.
  bool computes() const { return !o_.certify && model_.entries > kLong; }
  static constexpr int64_t kLong = 1'000'000;  // table entries
  void note(double bound, double prices, std::optional<Wide>& best) const {
    if (!std::isfinite(bound)) return;
    Wide least = static_cast<Wide>(std::ceil(bound - rounding_.at(prices)));
    if (best_.solution) least = std::min(least, best_.cost);
    if (!best || least > *best) best = least;
  }

  // Proves what there is so far, now and then, and keeps so much time for doing so in the end.
  void prove(const Branch& branch) {
    if (computes()) return note(branch.bound(), branch.most_prices(), proved_);
    if (stop()) return;                           // the last one comes now
    constexpr double kShare = 0.05, kMargin = 4;  // of the time; of the time that the last one took
    constexpr double kFirst = 0.5;                // seconds before the first one, where it takes long
    if (proved_at_ < 0) {
      const double whole = o_.deadline ? std::chrono::duration<double>(*o_.deadline - began_).count() : kInfinity;
      if (model_.entries > kLong && seconds() < std::min(kFirst, kShare * whole)) return;
    } else if (proving_seconds_ > kShare * (seconds() - proved_at_)) {
      return;
    }
    const double before = seconds();
    if (const auto bound = branch.certificate().bound; bound && (!proved_ || *bound > *proved_)) proved_ = bound;
    proved_at_ = seconds();
    proving_seconds_ = proved_at_ - before;
    reserve_ = kMargin * proving_seconds_;
  }

  void report() {
    if (!o_.progress || seconds() - reported_ < 1) return;
    reported_ = seconds();
    o_.progress({best_.known(), proved_, seconds()});
  }

  Result finish() {
    result_.bound = result_.certificate.bound;
    const bool empty = !result_.bound && !result_.certificate.leaves.empty();  // proved to be
    if (computed_ && !empty && (!result_.bound || *computed_ > *result_.bound)) result_.bound = computed_;
    if (!best_.solution) {
      if (nothing_) result_.bound.reset();
      result_.status = nothing_ || empty ? Status::kInfeasible : Status::kUnknown;
      return std::move(result_);
    }
    ensure(result_.bound ? *result_.bound <= best_.cost : what_ != For::kItself || computes(),
           "a bound of {} above a solution of {}", to_string(result_.bound.value_or(0)), to_string(best_.cost));
    result_.solution = Assignment(best_.solution->begin(), best_.solution->begin() + n_.variables());
    result_.cost = best_.cost;
    result_.status = result_.bound == best_.cost ? Status::kOptimal : Status::kFeasible;
    return std::move(result_);
  }

  const Network& n_;
  const Options& o_;
  const For what_;
  const OfOriginal original_;
  std::optional<EliminationPlan> proof_;  // of what elimination computed
  const Clock::time_point began_ = Clock::now();
  Model model_;
  LeafJudge judge_;
  const Rounding rounding_;
  Alive alive_;
  Rng rng_;
  Best best_;
  std::optional<Wide> proved_, computed_;  // bounds: so far, by a certificate unless computes(); by elimination,
                                           // narrowing, or the dual in the end
  bool nothing_ = false;                   // it has been found that there is no solution
  double looked_at_ = kInfinity,
         core_at_ = kInfinity;            // the gap when values were last looked at; when the core was last solved
  double core_work_ = 0;                  // table entries
  std::map<std::string, double> inside_;  // counters of what was solved within
  double reported_ = -1, proved_at_ = -1, proving_seconds_ = 0;
  std::atomic<double> reserve_ = 0;  // seconds before the deadline
  Result result_;
};

}  // namespace

Result solve_reduced(const Network& network, const Options& options, For what) {
  const Reduction reduction(network);
  Options inside = options;
  if (options.start) inside.start = reduction.lowered(*options.start);
  if (options.messages) inside.messages = std::make_shared<Certificate::Leaf>(reduction.lowered(*options.messages));
  const auto& counts = reduction.counts();
  auto count = [&](const char* rule) { return counts.contains(rule) ? counts.at(rule) : 0; };
  const Network& reduced = reduction.reduced();
  if (options.tell && !counts.empty())
    options.tell(fmt::format(
        "reduced: {} variables to {} ({} of degree one, {} of degree two), {} edges to {}, {} values dominated",
        network.variables(), reduced.variables(), count("degree_one"), count("degree_two"), network.edges.size(),
        reduced.edges.size(), count("dominated")));
  OfOriginal original;
  original.plan_to_prove = [&] { return plan_to_prove(network, options.elimination_bytes); };
  Result in_steps;
  original.in_steps = [&](const Assignment& solution, const Certificate::Leaf& messages) {
    constexpr double kShareOfTime = 0.3;
    Options of_steps = options;
    of_steps.deadline = share_of_time(options, kShareOfTime);
    in_steps = solve_in_steps(network, reduction.lifted(solution), reduction.lifted(messages), of_steps);
    return is_closed(in_steps, options.gap);
  };
  Result r = Solver(reduced, inside, what, reduction.headroom(), most_of(network), std::move(original)).run();
  for (const auto& [rule, times] : counts) r.counters[rule] = times;
  r.counters["reduced_variables"] = reduced.variables();
  if (is_closed(in_steps, options.gap)) {
    in_steps.counters = std::move(r.counters);
    return in_steps;
  }
  if (r.solution) {
    r.solution = reduction.lifted(*r.solution);
    const Evaluation e = evaluate(network, *r.solution);
    ensure(e.feasible && e.cost == r.cost, "a solution of {} becomes one of {} in the network that was reduced",
           to_string(r.cost), to_string(e.cost));
  }
  for (Certificate::Leaf& leaf : r.certificate.leaves)
    if (leaf.order.empty()) leaf = reduction.lifted(leaf);
  return r;
}

std::optional<Clock::time_point> share_of_time(const Options& options, double share) {
  if (!options.deadline) return std::nullopt;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>((*options.deadline - Clock::now()) * share);
}

double bound_of(const Model& model, const std::vector<double>& least_costs) {
  return *std::min_element(least_costs.begin(), least_costs.begin() + model.domain(0));
}

Alive at_most(double cost, const std::vector<double>& least_costs) {
  Alive alive;
  for (double least : least_costs) alive.push_back(least <= cost);
  return alive;
}

Subset left_of(const Network& network, const Model& m, const Alive& alive, const std::optional<Assignment>& solution) {
  std::vector<std::vector<int>> values(network.variables());
  for (int v = 0; v < network.variables(); ++v)
    for (int x = 0; x < network.domain(v); ++x)
      if (alive[m.offset[v] + x] || (solution && x == (*solution)[v])) values[v].push_back(x);
  return {network, std::move(values)};
}

std::optional<Subset> little_of(const Network& network, const Model& m, const Alive& alive, const Assignment& solution,
                                const Options& options) {
  const int64_t entries = sweep_of(m, alive);
  if (static_cast<double>(entries) > kLittle * static_cast<double>(m.sweep)) return std::nullopt;
  if (options.tell)
    options.tell(fmt::format("narrowed: {} of {} table entries may be in a better solution", entries, m.sweep));
  return left_of(network, m, alive, solution);
}

Result solve_rest(const Subset& rest, const Options& options, For what, Wide cost) {
  Options inside = options;
  if (options.progress)
    inside.progress = [&](Progress p) {
      if (!p.cost || *p.cost > cost) p.cost = cost;
      if (p.bound) p.bound = std::min(*p.bound, *p.cost);
      options.progress(p);
    };
  Result r = solve_reduced(rest.network(), inside, what);
  if (r.solution) r.solution = rest.whole(*r.solution);
  if (r.status == Status::kInfeasible || (r.bound && *r.bound > cost)) r.bound = cost;
  r.certificate = {};
  return r;
}

Rounding::Rounding(const Model& m) {
  for (int v = 0; v < m.variables(); ++v) {
    double largest = 0;
    for (int i = m.offset[v]; i < m.offset[v + 1]; ++i)
      if (m.unary[i] < kInfinity) largest = std::max(largest, std::abs(m.unary[i]));
    costs_ += largest;
  }
  for (const Model::Pair& p : m.pairs) costs_ += p.times * m.tables[p.table]->largest;
  for (double now : load_of(m, [](int, const Model::Use& u) {
         return static_cast<double>(*std::max_element(u.amounts.begin(), u.amounts.end()));
       }))
    use_ = std::max(use_, now);
  use_ += static_cast<double>(m.limit);
  factor_ =
      2 * std::numeric_limits<double>::epsilon() * static_cast<double>(m.variables() + m.pairs.size() + m.times.size());
}

}  // namespace partita::solver
