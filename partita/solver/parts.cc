// Solves a network's parts, equal ones once, and makes a bound and a solution of the whole from them.
#include "partita/solver/parts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/threads.h"
#include "partita/solver/budget.h"
#include "partita/solver/cut.h"
#include "partita/solver/fusion.h"
#include "partita/solver/narrow.h"
#include "partita/solver/rounds.h"
#include "partita/solver/steps.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

constexpr const Tuning::Parts& kParts = kTuning.parts;

// ------------------------------------------------------------------ one part

// A few passes over a network, and their proof.
class Passes {
 public:
  explicit Passes(const Network& network) : network_(network), model_(compile(network)), dual_(model_) {
    for (int pass = 0; pass < kParts.passes; ++pass) bound_ = std::max(bound_, dual_.pass());
  }
  std::optional<Wide> bound() const {
    const double bound = bound_ - Rounding(model_).at(0);
    if (!std::isfinite(bound)) return std::nullopt;
    return static_cast<Wide>(std::ceil(bound));
  }
  Certificate certificate() const {
    Certificate c;
    c.leaves = {dual_.leaf(dual_.state(), Alive(model_.unary.size(), 1))};
    c.bound = LeafChecker(network_).bound(c.leaves[0]);
    return c;
  }

 private:
  const Network& network_;
  const Model model_;
  Dual dual_;
  double bound_ = -kInfinity;
};

// Keeps the certificate with the larger bound.
void take_certificate(Certificate certificate, Result& r) {
  if (certificate.bound && (!r.certificate.bound || *certificate.bound > *r.certificate.bound))
    r.certificate = std::move(certificate);
}

// Solves a part in steps, or else by rounds. Certified, it keeps the best proof: of the steps, of a second try with a
// wider gap, or else of a few passes.
Result solve_in_one(const Network& part, const Assignment& start, const Certificate::Leaf& messages,
                    const Options& options, const PairTables& made) {
  Options inside = options;
  inside.deadline = share_of_time(options, kParts.share_of_time_of_steps);
  Result proved = solve_in_steps(part, start, messages, inside, &made);
  if (is_closed(proved, options.gap)) return proved;
  inside = options;
  inside.certify = false;
  inside.start = proved.solution;
  Result r = solve_reduced(part, inside);
  if (!options.certify) {
    if (!r.bound) r.bound = Passes(part).bound();
    return r;
  }
  inside.gap = std::max(options.gap, kParts.second_gap);
  if (r.solution && (!proved.solution || r.cost < proved.cost)) {
    proved.solution = r.solution;
    proved.cost = r.cost;
  }
  if (!is_closed(proved, inside.gap))
    take_certificate(solve_in_steps(part, *proved.solution, messages, inside, &made).certificate, proved);
  if (!is_closed(proved, inside.gap)) take_certificate(Passes(part).certificate(), proved);
  proved.bound = proved.certificate.bound;
  return proved;
}

// ------------------------------------------------------------------ all parts

// The arguments of solving parts at every depth.
struct Context {
  const LiftedDual& dual;
  const PairTables& made;
  const double most_across, largest;
};

struct Solved {
  Result result;
  bool apart = false;  // in parts again
};

SolvedParts solve_piece(const Context& context, const Piece& piece, const std::vector<int>& part_of,
                        const Assignment& solution, const Options& options, double enough, int depth);

// Solves a part in parts again; `apart` is false if that brings nothing.
Solved solve_again_apart(const Context& context, const Part& part, const Piece& of, const Assignment& start,
                         const Options& options, int depth) {
  Piece piece{part.network, {}, part.edges};
  for (int v : part.variables[0]) piece.alike.push_back(of.alike[v]);
  const std::vector<int> part_of = parts_of(piece.network, piece.alike, context.most_across, context.largest);
  if (part_of.empty()) return {};
  SolvedParts apart =
      solve_piece(context, piece, part_of, start, options, std::numeric_limits<double>::infinity(), depth);
  if (!apart.bound) return {};
  Solved out;
  out.apart = true;
  out.result.solution = apart.together ? apart.together : start;
  out.result.cost = evaluate(part.network, *out.result.solution).cost;
  out.result.bound = apart.bound;
  out.result.certificate = std::move(apart.certificate);
  return out;
}

double weight_of(const Part& part) { return static_cast<double>(part.variables.size() * part.network.costs.size()); }

// The size of the part of the median copy.
size_t usual_size(const std::vector<Part>& parts) {
  std::vector<size_t> sizes;
  for (const Part& part : parts) sizes.insert(sizes.end(), part.variables.size(), part.network.costs.size());
  std::nth_element(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2), sizes.end());
  return sizes[sizes.size() / 2];
}

// Solves each part within its share of the time that is left at its start; one that is much larger than most is cut
// apart again.
std::vector<Solved> solve_each(const Context& context, const std::vector<Part>& parts, const Piece& piece,
                               const Assignment& solution, const Options& options, int depth) {
  double left = 0;  // weight of the parts still to solve
  for (const Part& part : parts) left += weight_of(part);
  const size_t usual = usual_size(parts);
  std::vector<Solved> solved(parts.size());
  std::mutex lock;
  parallel_for(options.threads, parts.size(), [&](size_t i, int) {
    const Part& part = parts[i];
    Options inside = options;
    {
      const std::lock_guard guard(lock);
      const double weight = weight_of(part), share = std::max(kParts.least_share_of_time, weight / left);
      left -= weight;
      inside.deadline = share_of_time(options, share);
    }
    Assignment start;
    for (int v : part.variables[0]) start.push_back(solution[v]);
    if (part.network.costs.size() > kParts.much_larger * usual && depth < Certificate::kDeepest)
      solved[i] = solve_again_apart(context, part, piece, start, inside, depth + 1);
    if (!solved[i].apart)
      solved[i].result =
          solve_in_one(part.network, start, context.dual.of_part(part.network, part.edges), inside, context.made);
  });
  return solved;
}

// The best mixture of the parts' solutions and one of all; empty if that is no better.
std::optional<Assignment> put_together(const std::vector<Part>& parts, const std::vector<Solved>& solved,
                                       const Network& network, const Assignment& solution) {
  Assignment together = solution;
  for (size_t i = 0; i < parts.size(); ++i)
    if (solved[i].result.solution)
      for (const std::vector<int>& copy : parts[i].variables)
        for (size_t k = 0; k < copy.size(); ++k) together[copy[k]] = (*solved[i].result.solution)[k];
  std::optional<Assignment> best = fuse_assignments(network, {solution, together});
  if (!best) best = std::move(together);
  const Evaluation now = evaluate(network, solution), then = evaluate(network, *best);
  if (!then.feasible || (now.feasible && then.cost >= now.cost)) return std::nullopt;
  return best;
}

// The bound that the parts prove for all; empty if one of them has no bound.
std::optional<Wide> bound_of_all(const Cut& cut, const std::vector<Solved>& solved) {
  Wide bound = rounded_down(cut.besides, cut.messages.scale);
  for (size_t i = 0; i < solved.size(); ++i) {
    if (!solved[i].result.bound) return std::nullopt;
    bound += static_cast<Wide>(cut.parts[i].variables.size()) * *solved[i].result.bound;
  }
  return bound;
}

// The share of the gap of a part that was cut apart again; 0 for others.
double share_of_gap(const Part& part, const Solved& solved) {
  if (!solved.apart) return 0;
  return static_cast<double>(part.variables.size()) * static_cast<double>(solved.result.cost - *solved.result.bound);
}

// The first of the parts with the largest share of the gap.
size_t index_of_worst(const std::vector<Part>& parts, const std::vector<Solved>& solved) {
  size_t worst = 0;
  for (size_t i = 1; i < parts.size(); ++i)
    if (share_of_gap(parts[i], solved[i]) > share_of_gap(parts[worst], solved[worst])) worst = i;
  return worst;
}

void certify(const Cut& cut, std::vector<Solved> solved, SolvedParts& out) {
  for (size_t i = 0; i < solved.size(); ++i)
    out.certificate.parts.push_back({cut.parts[i].variables, std::move(solved[i].result.certificate)});
  out.certificate.bound = out.bound;
  out.certificate.cut = cut.messages;
}

// Solves in one a part that was cut apart again, on two conditions. The bound is not near `enough` (of the cost), and
// the part has much of the gap.
SolvedParts solve_piece(const Context& context, const Piece& piece, const std::vector<int>& part_of,
                        const Assignment& solution, const Options& options, double enough, int depth) {
  const Cut cut = cut_into_parts(piece, part_of, context.dual);
  if (!cut.fits) return {};
  const std::vector<Part>& parts = cut.parts;
  std::vector<Solved> solved = solve_each(context, parts, piece, solution, options, depth);
  SolvedParts out;
  out.different = parts.size();
  out.words = fmt::format("{} different parts, the first of {} variables and {} times there", parts.size(),
                          parts[0].network.variables(), parts[0].variables.size());
  for (;;) {
    out.bound = bound_of_all(cut, solved);
    if (!out.bound) return {};
    out.together = put_together(parts, solved, piece.network, solution);
    const auto cost = static_cast<double>(evaluate(piece.network, out.together ? *out.together : solution).cost),
               gap = cost - static_cast<double>(*out.bound);
    const size_t worst = index_of_worst(parts, solved);
    Solved& again = solved[worst];
    if (gap <= enough * std::abs(cost) || !again.apart ||
        share_of_gap(parts[worst], again) < kParts.little_lacks * gap || is_out_of_time(options))
      break;
    again.result = solve_in_one(parts[worst].network, *again.result.solution,
                                context.dual.of_part(parts[worst].network, parts[worst].edges), options, context.made);
    again.apart = false;
  }
  if (options.certify) certify(cut, std::move(solved), out);
  return out;
}

}  // namespace

SolvedParts solve_parts_separately(const Network& network, const std::vector<int>& alike,
                                   const std::vector<int>& part_of, const LiftedDual& dual, const Assignment& solution,
                                   const Options& options, const PairTables& made, double most_across, double largest) {
  Options inside = options;
  inside.gap = kParts.gap;
  inside.start.reset();
  inside.messages = nullptr;
  inside.tell = nullptr;
  inside.progress = nullptr;
  Piece all{network, alike, std::vector<size_t>(network.edges.size())};
  std::iota(all.edges.begin(), all.edges.end(), 0);
  SolvedParts out = solve_piece({dual, made, most_across, largest}, all, part_of, solution, inside,
                                std::max(options.gap, kParts.gap_of_all), 0);
  if (options.tell && out.bound)
    options.tell(fmt::format("cut apart: {}; no solution costs less than {}", out.words, to_string(*out.bound)));
  return out;
}

}  // namespace partita::solver
