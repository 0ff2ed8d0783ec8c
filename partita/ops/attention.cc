// Declares attention as one operation, and rotary embeddings.
//
// Split on batch, heads or queries it is local. Split on keys, m is P(max), l and a are P(sum), and the rest is derived
// (docs/inside/TDL.md). Each reducer has the guard, so that keys masked by position cost nothing and are not read.
#include <cmath>

#include "partita/base/error.h"
#include "partita/graph/builder.h"
#include "partita/graph/infer.h"
#include "partita/ops/declare.h"
#include "partita/ops/text.h"

namespace partita {
namespace {

// The texts that make the formulas of attention and its gradient. With fewer heads in k and v, head hk*R + hr of q goes
// with head hk.
struct Parts {
  std::string q, k, v, o, rows;  // subscripts; rows: one number a query
  std::string scores;            // one number a query and key
  std::string mask;              // subscripts of the mask
  std::string mask_result;       // the same as a left side, and the indices that are summed for it
  std::vector<std::string> mask_summed;
  std::vector<std::string> where;
  std::vector<std::string> guards;  // conditions on a pair of query and key, besides a boolean mask
  std::string scale;
  std::string softcap;  // c if the scores are c tanh(s / c), or nothing
  bool has_mask = false, boolean = false;
  bool empty_rows = false;  // a query may have no key: its result is 0
  std::string sink;         // one for each head: sinks[h], a score beside those of its keys, or nothing

  // if(guards, BODY, OTHERWISE), or BODY if there are no guards.
  std::string guarded(const std::string& body, const char* otherwise) const {
    std::vector<std::string> all = guards;
    if (boolean) all.push_back(fmt::format("mask[{}] != 0", mask));
    return all.empty() ? body : fmt::format("if({}, {}, {})", join_texts(all, " and "), body, otherwise);
  }
  // The stage of capped scores.
  std::string cap() const {
    if (softcap.empty()) return "";
    const std::string inside = fmt::format("tanh({} * s[{}] / {})", scale, scores, softcap);
    return fmt::format("capped[{}] = {}\n", scores, guarded(fmt::format("{} * {}", softcap, inside), "0"));
  }
  // The score in the exponential: s, or the capped s.
  std::string score() const {
    const std::string scaled = fmt::format("{}[{}]", softcap.empty() ? scale + " * s" : "capped", scores);
    return has_mask && !boolean ? fmt::format("({} + mask[{}])", scaled, mask) : scaled;
  }
  // e^(score - lse), 0 if the mask is -inf.
  std::string weight(const std::string& subtracted) const {
    const std::string e = fmt::format("exp({} - {}[{}])", score(), subtracted, rows);
    return guarded(has_mask && !boolean ? fmt::format("if(mask[{}] == -inf, 0, {})", mask, e) : e, "0");
  }
};

// The subscripts at which the mask, operand 3, is read. `q_head`: names of the axes of q before the last two.
void add_mask(Parts& p, const OpInstance& op, const std::vector<std::string>& q_head, bool grouped) {
  const Shape &q = op.shapes[0], &k = op.shapes[1];
  const std::size_t rank = q.size();
  const Shape& mask = op.shapes[3];
  p.boolean = op.dtypes[3] == DType::kBool;
  std::vector<std::string> full = q_head, read;
  full.push_back("i"), full.push_back("j");
  Shape extents(q.begin(), q.end() - 1);
  extents.push_back(k[rank - 2]);
  if (mask.size() > rank) fail("attention: the mask [{}] has more axes than the scores", fmt::join(mask, "x"));
  std::vector<std::string> result;
  for (std::size_t at = 0; at < rank; ++at) {
    std::vector<std::string> names{full[at]};
    if (at == rank - 3 && grouped) names = {"hk", "hr"};
    if (at + mask.size() < rank || mask[at + mask.size() - rank] != extents[at])
      p.mask_summed.insert(p.mask_summed.end(), names.begin(), names.end());
    if (at + mask.size() < rank) continue;
    const std::size_t a = at + mask.size() - rank;
    if (mask[a] != extents[at] && mask[a] != 1)
      fail("attention: the mask [{}] does not broadcast to the scores [{}]", fmt::join(mask, "x"),
           fmt::join(extents, "x"));
    read.push_back(mask[a] == extents[at] ? full[at] : "0");
    result.push_back(mask[a] == extents[at] ? full[at] : fmt::format("u{}", a));
    if (mask[a] != extents[at] && op.attributes.contains("mask_grad") && op.integer("mask_grad"))
      p.where.push_back(fmt::format("u{} < 1", a));
  }
  p.mask = join_texts(read), p.mask_result = join_texts(result);
}

// Sinks are the last operand.
Parts parts(const OpInstance& op, std::size_t operands, bool has_sinks = false) {
  operands += has_sinks;
  if (op.shapes.size() != operands && op.shapes.size() != operands + 1)
    fail("{} operands, not {} or, with a mask, {}", op.shapes.size(), operands, operands + 1);
  const Shape &q = op.shapes[0], &k = op.shapes[1], &v = op.shapes[2];
  const std::size_t rank = q.size();
  auto all = [&] {
    return fmt::format("q [{}], k [{}], v [{}]", fmt::join(q, "x"), fmt::join(k, "x"), fmt::join(v, "x"));
  };
  if (rank < 3 || k.size() != rank || v.size() != rank)
    fail("attention takes q, k and v [.., heads, length, size]: {}", all());
  for (std::size_t a = 0; a < rank; ++a) {
    const bool head = a == rank - 3, length = a == rank - 2, size = a == rank - 1;
    const bool fits =
        size || (length ? k[a] == v[a] : k[a] == v[a] && (head ? k[a] > 0 && q[a] % k[a] == 0 : q[a] == k[a]));
    if (!fits || (size && q[a] != k[a])) fail("attention: axis {} does not fit: {}", a, all());
  }
  Parts p;
  std::vector<std::string> batch;
  for (std::size_t a = 0; a + 3 < rank; ++a) batch.push_back(rank == 4 ? "n" : fmt::format("n{}", a));
  std::vector<std::string> q_head = batch, k_head = batch;
  const int64_t repeated = q[rank - 3] / k[rank - 3];
  if (repeated == 1) {
    q_head.push_back("h"), k_head.push_back("h");
  } else {
    q_head.push_back(fmt::format("hk*{} + hr", repeated)), k_head.push_back("hk");
    p.where = {fmt::format("hk < {}", k[rank - 3]), fmt::format("hr < {}", repeated)};
  }
  p.rows = join_texts(q_head) + ", i";
  p.scores = join_texts(q_head) + ", i, j";
  p.q = p.rows + ", e", p.o = p.rows + ", d";
  p.k = join_texts(k_head) + ", j, e", p.v = join_texts(k_head) + ", j, d";
  const double scale = op.attributes.at("scale");
  p.scale = fmt::format("{}", scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(q[rank - 1])));
  const double softcap = op.attributes.at("softcap");
  if (softcap < 0) fail("softcap={}", softcap);
  if (softcap > 0) p.softcap = fmt::format("{}", softcap);
  const int64_t offset = op.integer("offset"), window = op.integer("window");
  if (window < 0) fail("window={} keys", window);
  if (op.integer("causal")) p.guards.push_back(fmt::format("j <= i + {}", offset));
  if (window > 0) p.guards.push_back(fmt::format("i + {} < j + {}", offset, window));
  p.has_mask = op.shapes.size() == operands + 1;
  if (has_sinks) {
    if (op.shapes.back() != Shape{q[rank - 3]})
      fail("attention: sinks [{}] are not one number for each of {} heads", fmt::join(op.shapes.back(), "x"),
           q[rank - 3]);
    p.sink = fmt::format("sinks[{}]", q_head.back());
  }
  p.empty_rows = !has_sinks && (p.has_mask || (!p.guards.empty() && (offset < 0 || window > 0)));
  if (p.has_mask) add_mask(p, op, q_head, repeated != 1);
  return p;
}

// o and, for the gradient, the logarithm of the sum of e^score for each query.
std::string attention(const OpInstance& op, bool has_sinks) {
  const Parts p = parts(op, 3, has_sinks);
  std::string text = fmt::format("attention{}(q, k, v{}{}) -> o, lse{} =\n", has_sinks ? "_sinks" : "",
                                 p.has_mask ? ", mask" : "", has_sinks ? ", sinks" : "", where_clause(p.where));
  text += fmt::format("s[{}] = sum(e) {}\n", p.scores, p.guarded(fmt::format("q[{}] * k[{}]", p.q, p.k), "0"));
  text += p.cap();
  const std::string largest = fmt::format("max(j) {}", p.guarded(p.score(), "-inf"));
  text += fmt::format("m[{}] = {}\n", p.rows, p.sink.empty() ? largest : fmt::format("max(({}), {})", largest, p.sink));
  text += fmt::format("p[{}] = {}\n", p.scores, p.weight("m"));
  const std::string sum = fmt::format("sum(j) {}", p.guarded(fmt::format("p[{}]", p.scores), "0"));
  text += fmt::format("l[{}] = {}\n", p.rows,
                      p.sink.empty() ? sum : fmt::format("({}) + exp({} - m[{}])", sum, p.sink, p.rows));
  text += fmt::format("a[{}] = sum(j) {}\n", p.o, p.guarded(fmt::format("p[{}] * v[{}]", p.scores, p.v), "0"));
  text += fmt::format("lse[{0}] = {1}\n", p.rows,
                      p.empty_rows ? fmt::format("if(l[{0}] == 0, -inf, m[{0}] + log(l[{0}]))", p.rows)
                                   : fmt::format("m[{0}] + log(l[{0}])", p.rows));
  const std::string o = fmt::format("a[{}] / l[{}]", p.o, p.rows);
  return text + fmt::format("o[{}] = {}", p.o, p.empty_rows ? fmt::format("if(l[{}] == 0, 0, {})", p.rows, o) : o);
}

// Operands q, k, v, the mask if there is one, o, lse, g. `mask_grad`: the mask's gradient too.
std::string attention_grad(const OpInstance& op) {
  const Parts p = parts(op, 6);
  const bool mask_grad = op.integer("mask_grad") != 0;
  if (mask_grad && (!p.has_mask || p.boolean)) fail("attention_grad: mask_grad without a real mask");
  std::string text = fmt::format("attention_grad(q, k, v{}, o, lse, g) -> dq, dk, dv{}{} =\n",
                                 p.has_mask ? ", mask" : "", mask_grad ? ", dm" : "", where_clause(p.where));
  const bool shared =
      op.shapes[0][op.shapes[0].size() - 3] != op.shapes[1][op.shapes[0].size() - 3];  // several heads share k and v
  text += fmt::format("s[{}] = sum(e) {}\n", p.scores, p.guarded(fmt::format("q[{}] * k[{}]", p.q, p.k), "0"));
  text += p.cap();
  text += fmt::format("p[{}] = {}\n", p.scores, p.weight("lse"));
  text += fmt::format("t[{}] = sum(d) o[{}] * g[{}]\n", p.rows, p.o, p.o);
  text += fmt::format("dp[{}] = sum(d) {}\n", p.scores, p.guarded(fmt::format("g[{}] * v[{}]", p.o, p.v), "0"));
  // dx is the gradient of the score in the exponential; ds that of s.
  const std::string masked = p.softcap.empty() ? "ds" : "dx",
                    ds = fmt::format("p[{0}] * (dp[{0}] - t[{1}])", p.scores, p.rows);
  text += fmt::format("{}[{}] = {}\n", masked, p.scores, p.guarded(ds, "0"));
  if (!p.softcap.empty())
    text += fmt::format(
        "ds[{0}] = {1}\n", p.scores,
        p.guarded(fmt::format("{}[{}] * (1 - (capped[{}] / {})^2)", masked, p.scores, p.scores, p.softcap), "0"));
  auto scaled = [&](const char* name, const std::string& at, const std::string& names, const std::string& body) {
    return fmt::format("{}[{}] = {} * (sum({}) {})\n", name, at, p.scale, names, p.guarded(body, "0"));
  };
  text += scaled("dq", p.q, "j", fmt::format("ds[{}] * k[{}]", p.scores, p.k));
  text += scaled("dk", p.k, shared ? "hr, i" : "i", fmt::format("ds[{}] * q[{}]", p.scores, p.q));
  text += fmt::format("dv[{}] = sum({}) {}\n", p.v, shared ? "hr, i" : "i",
                      p.guarded(fmt::format("p[{}] * g[{}]", p.scores, p.o), "0"));
  if (mask_grad)
    text +=
        fmt::format("\ndm[{}] = {}{}[{}]", p.mask_result,
                    p.mask_summed.empty() ? "" : fmt::format("sum({}) ", join_texts(p.mask_summed)), masked, p.scores);
  return text;
}

std::vector<DType> result_and_rows(const OpInstance& op) {
  const DType o = promoted_dtype({op.dtypes.begin(), op.dtypes.begin() + 3});
  return {o, compute_dtype(o)};
}

// Tells whether the tensor depends on a parameter.
bool depends_on_parameter(const Graph& graph, TensorId id, std::map<TensorId, bool>& known) {
  if (auto found = known.find(id); found != known.end()) return found->second;
  const Tensor& t = graph.tensor(id);
  bool depends = t.role == Role::kParameter;
  if (t.producer.valid())
    for (TensorId operand : graph.op(t.producer).operands)
      depends = depends || depends_on_parameter(graph, operand, known);
  return known[id] = depends;
}

// The gradient of sinks [heads], which have the weight e^(sink - lse) and the value 0.
TensorId sinks_gradient(GraphBuilder& build, const Op& forward, TensorId g) {
  const std::string name = forward.name + ".sinks.grad";
  const TensorId sinks = forward.operands.back(), lse = forward.results[1];
  const DType dtype = build.graph().tensor(lse).dtype;
  const auto wide = [&](TensorId t, const char* part) {
    return build.graph().tensor(t).dtype == dtype
               ? t
               : build.op("cast", {t}, {{"to", static_cast<double>(dtype)}}, name + part);
  };
  const TensorId product = build.op("mul", {wide(forward.results[0], ".o"), wide(g, ".g")}, {}, name + ".product");
  const TensorId rows = build.op("reduce_sum", {product}, {{"axes.0", -1}, {"keepdims", 0}}, name + ".rows");
  const TensorId column = build.op("unsqueeze", {wide(sinks, ".sinks")}, {{"axes.0", 1}}, name + ".column");
  const TensorId weight = build.op("exp", {build.op("sub", {column, lse}, {}, name + ".score")}, {}, name + ".weight");
  const TensorId each = build.op("mul", {weight, rows}, {}, name + ".each");
  tdl::Attributes axes{{"keepdims", 0}};
  const auto rank = build.shape(each).size();
  for (std::size_t a = 0, n = 0; a < rank; ++a)
    if (a != rank - 2) axes[fmt::format("axes.{}", n++)] = static_cast<double>(a);
  const TensorId sum = build.op("neg", {build.op("reduce_sum", {each}, axes, name + ".sum")}, {}, name);
  const DType own = build.graph().tensor(sinks).dtype;
  return own == dtype ? sum : build.op("cast", {sum}, {{"to", static_cast<double>(own)}}, name + ".cast");
}

std::vector<TensorId> attention_gradient(GraphBuilder& build, const Op& forward, const std::vector<TensorId>& g) {
  if (g[1].valid())
    fail("attention '{}': no gradient flows through lse, which is kept for the backward pass", forward.name);
  std::vector<TensorId> operands = forward.operands;
  tdl::Attributes attributes = forward.attributes;
  const bool has_sinks = forward.definition == "attention_sinks";
  if (has_sinks) operands.pop_back();
  const bool has_mask = operands.size() == 4;
  operands.insert(operands.end(), {forward.results[0], forward.results[1], g[0]});
  if (has_mask) {
    std::map<TensorId, bool> known;
    const Tensor& mask = build.graph().tensor(forward.operands[3]);
    if (is_float(mask.dtype) && depends_on_parameter(build.graph(), forward.operands[3], known))
      attributes["mask_grad"] = 1;
  }
  std::vector<TensorId> gradients = build.ops("attention_grad", operands, attributes, forward.name + ".grad");
  gradients.resize(forward.operands.size());
  if (has_sinks) gradients.back() = sinks_gradient(build, forward, g[0]);
  return gradients;
}

// Turns pairs of values (a, b) by angles with given cosines and sines: (a c - b s, b c + a s). The two values of a pair
// lie half the last axis apart, or beside each other.
std::string rotary(const OpInstance& op) {
  const Shape& x = op.shapes.at(0);
  if (op.shapes.size() != 3 || x.size() < 2 || x.back() % 2 || op.shapes[1] != Shape{x[x.size() - 2], x.back() / 2} ||
      op.shapes[2] != op.shapes[1])
    fail("rotary takes x [.., length, 2 d] and cosines and sines [length, d]");
  std::vector<std::string> batch;
  for (std::size_t a = 0; a + 2 < x.size(); ++a) batch.push_back(fmt::format("n{}, ", a));
  const std::string n = join_texts(batch, ""), half = op.integer("interleaved") ? "" : fmt::format("*{}", x.back() / 2);
  const std::string d = op.integer("interleaved") ? "d*2" : "d";
  return fmt::format(
      "rotary(x, c, s)[{0}t, u{1} + {2}] where u < 2, d < {3} = "
      "x[{0}t, u{1} + {2}] * c[t, d] + (2*u - 1) * x[{0}t, (1 - u){1} + {2}] * s[t, d]",
      n, half, d, x.back() / 2);
}

}  // namespace

void declare_attention(OpRegistry& registry) {
  auto with_attributes = [](Declaration&& declaration) -> Declaration& {
    return declaration.attribute("scale", 0)
        .attribute("causal", 0)
        .attribute("offset", 0)
        .attribute("window", 0)
        .attribute("softcap", 0);
  };
  const DType real = DType::kFloat32, boolean = DType::kBool;
  const Shape q{2, 3, 5, 3}, k{2, 3, 7, 3}, v{2, 3, 7, 4}, o{2, 3, 5, 4}, lse{2, 3, 5};
  const Shape gq{2, 6, 4, 3}, gk{2, 3, 4, 3}, go{2, 6, 4, 3}, glse{2, 6, 4};
  with_attributes(declare(registry, "attention",
                          "softmax of q k^T scale + mask, times v, [.., heads, length, size]; scale 0: 1/sqrt(size); "
                          "causal: keys up to i + offset; window: the last of them; "
                          "softcap c: scores become c tanh(score / c) before the mask; k and v may have fewer heads; "
                          "a boolean mask says which count"))
      .low_precision(3)
      .formula([](const OpInstance& op) { return attention(op, false); })
      .dtypes(result_and_rows)
      .gradient(attention_gradient)
      .example({q, k, v})
      .example({q, k, v}, {{"causal", 1}, {"offset", 2}, {"scale", 0.5}})
      .example({{3, 6, 4}, {3, 6, 4}, {3, 6, 4}}, {{"causal", 1}, {"window", 3}})
      .example({q, k, v}, {{"causal", 1}, {"offset", 2}, {"softcap", 0.7}})
      .example({q, k, v, {5, 7}}, {{"softcap", 1.5}}, {real, real, real, real})
      .example({q, k, v, {5, 7}}, {}, {real, real, real, real})
      .example({q, k, v, {2, 1, 1, 7}}, {}, {real, real, real, boolean})
      .example({gq, gk, gk}, {{"causal", 1}});
  with_attributes(declare(registry, "attention_sinks",
                          "attention with one score more for each head beside those of the keys, the last operand, "
                          "whose value is 0"))
      .low_precision(3)
      .formula([](const OpInstance& op) { return attention(op, true); })
      .dtypes(result_and_rows)
      .gradient(attention_gradient)
      .example({q, k, v, {3}})
      .example({gq, gk, gk, {6}}, {{"causal", 1}, {"window", 3}});
  with_attributes(declare(registry, "attention_grad", "gradients of attention from its result and log-sum-exp"))
      .formula(attention_grad)
      .dtypes([](const OpInstance& op) {
        std::vector<DType> dtypes(3, promoted_dtype({op.dtypes.begin(), op.dtypes.begin() + 3}));
        if (op.integer("mask_grad")) dtypes.push_back(op.dtypes.at(3));
        return dtypes;
      })
      .attribute("mask_grad", 0)
      .not_differentiable()
      .example({q, k, v, o, lse, o})
      .example({q, k, v, o, lse, o}, {{"causal", 1}, {"offset", 2}, {"scale", 0.5}})
      .example({{3, 6, 4}, {3, 6, 4}, {3, 6, 4}, {3, 6, 4}, {3, 6}, {3, 6, 4}}, {{"causal", 1}, {"window", 3}})
      .example({q, k, v, o, lse, o}, {{"causal", 1}, {"offset", 2}, {"softcap", 0.7}})
      .example({q, k, v, {2, 3, 5, 7}, o, lse, o}, {{"mask_grad", 1}}, std::vector<DType>(7, real))
      .example({q, k, v, {1, 5, 7}, o, lse, o}, {{"mask_grad", 1}}, std::vector<DType>(7, real))
      .example({q, k, v, {2, 1, 1, 7}, o, lse, o}, {}, {real, real, real, boolean, real, real, real})
      .example({gq, gk, gk, go, glse, go}, {{"causal", 1}});
  declare(registry, "rotary",
          "pairs of values half the last axis apart, turned by angles with cosines c and sines s; "
          "`interleaved`: pairs beside each other")
      .formula(rotary)
      .attribute("interleaved", 0)
      .example({{3, 5, 6}, {5, 3}, {5, 3}})
      .example({{2, 3, 5, 4}, {5, 2}, {5, 2}}, {{"interleaved", 1}});
}

}  // namespace partita
