// Derives gradients (25). Each access x[f(I)] of a stage gives a term of dx[u], with u = f(I) solved for one index an
// axis: the sum over the unsolved indices of G[lhs(I)] * d body / d access. The gradient is built as a bound formula
// and written as text. So it goes through parser and binder like a formula that a person wrote.
#include <algorithm>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/tdl/affine.h"
#include "partita/tdl/backward.h"
#include "partita/tdl/derivative.h"
#include "partita/tdl/make_expr.h"
#include "partita/tdl/substitute.h"

namespace partita::tdl {

namespace {

// The cotangent of one tensor: parts, and for a result the tensor g_RESULT itself.
struct Cotangent {
  int given = -1;
  std::vector<CotangentPart> parts;
};

class Transposer {
 public:
  Transposer(const Bound& forward, int operand) : f_(forward), b_(forward, operand), operand_(operand) {}

  std::optional<Gradient> run() {
    find_dependents();
    if (!depends_[operand_]) return std::nullopt;
    cotangents_.resize(f_.tensors.size());
    for (int r : f_.results) {
      if (!depends_[r]) continue;
      BoundTensor given = f_.tensors[r];
      given.name = b_.fresh_name("g_" + f_.tensors[r].name);
      given.is_operand = true;
      cotangents_[r].given = b_.add_tensor(given);
    }
    for (int s = static_cast<int>(f_.stages.size()) - 1; s >= 0; --s)
      if (depends_[f_.stages[s].tensor]) transpose(f_.stages[s]);
    if (cotangents_[operand_].parts.empty()) return std::nullopt;
    const int result = total(operand_, true);
    return assemble_gradient(b_, std::move(back_), result);
  }

 private:
  // Finds tensors that the operand's value flows into.
  void find_dependents() {
    depends_.assign(f_.tensors.size(), false);
    depends_[operand_] = true;
    bool any = false;
    for (const Stage& stage : f_.stages) {
      std::vector<const Expr*> accesses;
      collect_accesses(stage.body, accesses);
      for (const Expr* a : accesses)
        if (depends_[a->tensor]) depends_[stage.tensor] = any = true;
    }
    if (!any) depends_[operand_] = false;
    // A tensor that reaches no result has no gradient.
    std::vector<bool> reaches(f_.tensors.size(), false);
    for (int r : f_.results) reaches[r] = true;
    for (int s = static_cast<int>(f_.stages.size()) - 1; s >= 0; --s) {
      if (!reaches[f_.stages[s].tensor]) continue;
      std::vector<const Expr*> accesses;
      collect_accesses(f_.stages[s].body, accesses);
      for (const Expr* a : accesses) reaches[a->tensor] = true;
    }
    for (size_t t = 0; t < depends_.size(); ++t) depends_[t] = depends_[t] && reaches[t];
  }

  void transpose(const Stage& stage) {
    const BoundTensor& tensor = f_.tensors[stage.tensor];
    int cotangent = total(stage.tensor, false);
    if (cotangent < 0) return;
    const Expr* reduce = stage.body.kind == ExprKind::kReduce ? &stage.body : nullptr;
    const Expr& body = reduce ? reduce->args[0] : stage.body;
    if (reduce && reduce->reducer == Reducer::kProd)
      fail("{}: the gradient of {} goes through prod(..) in stage {}, which has no derived gradient: declare one",
           f_.name, f_.tensors[operand_].name, tensor.name);
    if (body.kind == ExprKind::kOpaque)
      fail("{}: the gradient of {} goes through opaque {}: declare a gradient", f_.name, f_.tensors[operand_].name,
           body.function);

    std::vector<int> own;  // the stage's indices, those of the left side first
    for (const Affine& form : stage.lhs) collect_indices(form, own);
    size_t lhs_indices = own.size();
    if (reduce) own.insert(own.end(), reduce->reduced.begin(), reduce->reduced.end());
    std::set<int> reduced(own.begin() + static_cast<std::ptrdiff_t>(lhs_indices), own.end());

    const bool extremum = reduce && reduce->reducer != Reducer::kSum;
    if (extremum) cotangent = share_of_winners(stage, cotangent);
    std::vector<const Expr*> accesses;
    collect_accesses(body, accesses);
    for (const Expr* access : accesses) {
      if (!depends_[access->tensor]) continue;
      reject_opaque(body, access);
      std::optional<Expr> d = derivative(body, access);
      if (!d) continue;
      bool polynomial = is_polynomial(*d);
      Expr flow = times(make_read(cotangent, stage.lhs), std::move(*d));
      if (extremum) flow = make_if(wins(stage), std::move(flow), make_number(0));
      CotangentPart part = cotangent_part(b_, {stage, *access, body, own, reduced, polynomial, std::move(flow)});
      std::vector<CotangentPart>& parts = cotangents_[access->tensor].parts;
      std::vector<int> wanted = parts.empty() ? names_of_stage(access->tensor) : parts.front().lhs;
      if (!wanted.empty()) rename_like(wanted, part);
      part.body = normalize_index_arithmetic(std::move(part.body), full_ranges(b_.formula));
      parts.push_back(std::move(part));
    }
  }

  // Whether a term of a stage is the largest or smallest that the stage takes.
  static Expr wins(const Stage& stage) {
    return make_binary("==", stage.body.args[0], make_read(stage.tensor, stage.lhs));
  }

  // Divides the cotangent of such a stage by the number of terms that tie: all of them share it, as in PyTorch's amax.
  int share_of_winners(const Stage& stage, int cotangent) {
    const std::string& name = f_.tensors[stage.tensor].name;
    BoundTensor tensor = b_.formula.tensors[stage.tensor];
    tensor.is_operand = false;
    tensor.name = b_.fresh_name("n_" + name);
    const int count = b_.add_tensor(tensor);
    back_.push_back(
        {count, stage.lhs, make_sum(stage.body.reduced, make_if(wins(stage), make_number(1), make_number(0))), false});
    tensor.name = b_.fresh_name("share_" + name);
    const int share = b_.add_tensor(tensor);
    back_.push_back(
        {share, stage.lhs, make_binary("/", make_read(cotangent, stage.lhs), make_read(count, stage.lhs)), false});
    return share;
  }

  void reject_opaque(const Expr& e, const Expr* access) const {
    if (e.kind == ExprKind::kOpaque &&
        std::any_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return &a == access; }))
      fail("{}: the gradient of {} goes through opaque {}: declare a gradient", f_.name, f_.tensors[operand_].name,
           e.function);
    for (const Expr& a : e.args) reject_opaque(a, access);
  }

  // The indices that the stage of a tensor writes it at if they are plain ones; else, and for an operand, none.
  std::vector<int> names_of_stage(int tensor) const {
    std::vector<int> names;
    if (int s = f_.stage_of(tensor); s >= 0)
      for (const Affine& form : f_.stages[s].lhs) names.push_back(form.plain_index());
    return std::find(names.begin(), names.end(), -1) == names.end() ? names : std::vector<int>();
  }

  // Gives `part` the left side `wanted`, by renaming, if extents allow it.
  void rename_like(const std::vector<int>& wanted, CotangentPart& part) {
    if (part.lhs == wanted) return;
    Substitution by;
    std::map<int, int> names;
    std::set<int> targets;
    for (size_t a = 0; a < part.lhs.size(); ++a) {
      int from = part.lhs[a], to = wanted[a];
      if (from == to) continue;
      if (from == kZero || to == kZero) {  // extent 1 either way
        if (from != kZero) by[from] = affine_constant(0);
        else std::erase(part.summed, to);
        continue;
      }
      if (b_.formula.indices[from].extent != b_.formula.indices[to].extent || names.contains(from) ||
          targets.contains(to))
        return;
      names[from] = to;
      targets.insert(to);
    }
    for (int to : targets) {
      if (names.contains(to)) continue;
      bool used = mentions_index(part.body, to) ||
                  std::find(part.summed.begin(), part.summed.end(), to) != part.summed.end() ||
                  std::find(part.lhs.begin(), part.lhs.end(), to) != part.lhs.end();
      if (!used) continue;
      // The name that has become free, if it is of the same extent, else a new one.
      int other = -1;
      for (const auto& renamed : names) {
        const int from = renamed.first;
        bool taken = targets.contains(from) ||
                     std::any_of(names.begin(), names.end(), [&](auto& n) { return n.second == from; });
        if (!taken && b_.formula.indices[from].extent == b_.formula.indices[to].extent) other = from;
      }
      names[to] = other >= 0 ? other : b_.add_index(b_.formula.indices[to].name, b_.formula.indices[to].extent);
    }
    for (const auto& [from, to] : names) by[from] = affine_index(to);
    part.body = substituted(std::move(part.body), by);
    for (int& i : part.summed)
      if (names.contains(i)) i = names.at(i);
    part.lhs = wanted;
  }

  int add_stage(const std::string& name, int like, const std::vector<int>& lhs, const std::vector<int>& summed,
                Expr body) {
    BoundTensor tensor = f_.tensors[like];
    tensor.name = b_.fresh_name(name);
    tensor.is_operand = false;
    int t = b_.add_tensor(tensor);
    if (!summed.empty()) body = make_sum(summed, std::move(body));
    back_.push_back({t, index_forms(lhs), std::move(body), false});
    return t;
  }

  // The tensor that holds the sum of all contributions to `tensor`; -1 if there are none. `stage`: it must be a stage.
  int total(int tensor, bool stage) {
    Cotangent& c = cotangents_[tensor];
    if (c.parts.empty() && c.given < 0) return -1;
    if (c.parts.empty() && !stage) return c.given;
    std::string name = "d_" + f_.tensors[tensor].name;
    if (c.given < 0 && c.parts.size() == 1) {
      CotangentPart& only = c.parts[0];
      if (!stage && only.summed.empty() && is_whole_read(only)) return only.body.tensor;
      return add_stage(name, tensor, only.lhs, only.summed, std::move(only.body));
    }
    const std::vector<int> lhs = c.parts.front().lhs;
    std::optional<Expr> sum;
    if (c.given >= 0) sum = make_read(c.given, index_forms(lhs));
    for (CotangentPart& part : c.parts) {
      bool inlined = part.lhs == lhs && part.summed.empty();
      Expr term =
          inlined ? std::move(part.body)
                  : make_read(add_stage(name, tensor, part.lhs, part.summed, std::move(part.body)), index_forms(lhs));
      sum = sum ? plus(std::move(*sum), std::move(term)) : std::move(term);
    }
    return add_stage(name, tensor, lhs, {}, std::move(*sum));
  }

  // Tells whether body is another tensor of the same shape, read at the part's own left side.
  bool is_whole_read(const CotangentPart& part) const {
    const Expr& e = part.body;
    if (e.kind != ExprKind::kRead) return false;
    const Shape& shape = b_.formula.tensors[e.tensor].factored;
    if (e.subscripts.size() != part.lhs.size()) return false;
    std::vector<Affine> lhs = index_forms(part.lhs);
    for (size_t a = 0; a < lhs.size(); ++a)
      if (!(e.subscripts[a] == lhs[a]) ||
          shape[a] != (part.lhs[a] == kZero ? 1 : b_.formula.indices[part.lhs[a]].extent))
        return false;
    return true;
  }

  const Bound& f_;
  Backward b_;
  int operand_;
  std::vector<bool> depends_;
  std::vector<Cotangent> cotangents_;
  std::vector<Stage> back_;
};

}  // namespace

std::optional<Gradient> gradient(const Bound& bound, int operand) {
  ensure(operand >= 0 && operand < bound.operand_count, "gradient of operand {} of {}", operand, bound.name);
  return Transposer(bound, operand).run();
}

}  // namespace partita::tdl
