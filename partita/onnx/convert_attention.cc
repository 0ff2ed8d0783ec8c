// Converts attention and rotary embeddings, ONNX's and those of ONNX Runtime's optimizer.
#include <algorithm>
#include <cmath>
#include <limits>

#include "partita/base/error.h"
#include "partita/onnx/converter.h"

namespace partita::onnx_model {
namespace {

double d(int64_t v) { return static_cast<double>(v); }

// [b, s, h d] -> [b, h, s, d]; a tensor of four axes has heads already.
TensorId with_heads(NodeContext& n, TensorId x, int64_t heads, const char* attribute) {
  const Shape s = n.build.shape(x);
  if (s.size() == 4) return x;
  if (s.size() != 3 || heads < 1 || s[2] % heads != 0)
    fail("an operand is {}, with {}={}", shape_text(s), attribute, heads);
  return n.before("transpose", {n.reshaped_before(x, {s[0], s[1], heads, s[2] / heads})},
                  list_attributes("perm", {0, 2, 1, 3}));
}

// [b, h, s, d] -> [b, s, h d].
TensorId without_heads(NodeContext& n, TensorId x) {
  const Shape s = n.build.shape(x);
  return n.reshaped_before(n.before("transpose", {x}, list_attributes("perm", {0, 2, 1, 3})),
                           {s[0], s[2], s[1] * s[3]});
}
Value last_without_heads(NodeContext& n, TensorId x) {
  const Shape s = n.build.shape(x);
  return n.reshaped(n.before("transpose", {x}, list_attributes("perm", {0, 2, 1, 3})), {s[0], s[2], s[1] * s[3]});
}

// Every key and value head serves several query heads: [b, h, s, d] -> [b, h r, s, d].
TensorId repeated_heads(NodeContext& n, TensorId x, int64_t heads) {
  const Shape s = n.build.shape(x);
  if (s[1] == heads) return x;
  if (s[1] < 1 || heads % s[1] != 0) fail("{} heads of queries for {} of keys", heads, s[1]);
  const TensorId wide = n.before("expand", {n.reshaped_before(x, {s[0], s[1], 1, s[2], s[3]})},
                                 list_attributes("shape", {s[0], s[1], heads / s[1], s[2], s[3]}));
  return n.reshaped_before(wide, {s[0], heads, s[2], s[3]});
}

// A part of an axis.
TensorId part_of(NodeContext& n, TensorId from, std::size_t axis, int64_t start, int64_t size) {
  Shape sizes = n.build.shape(from);
  if (start == 0 && size == sizes[axis]) return from;
  std::vector<int64_t> starts(sizes.size());
  starts[axis] = start, sizes[axis] = size;
  tdl::Attributes attributes = list_attributes("starts", starts);
  attributes.merge(list_attributes("sizes", sizes));
  return n.before("slice", {from}, std::move(attributes));
}

// The settings of attention besides q, k and v, which are [b, h, s, d].
struct Scores {
  TensorId mask;     // boolean: the keys that count; real: added to the scores; none
  double scale = 0;  // 0: 1/sqrt(d)
  double cap = 0;    // scores become cap tanh(score / cap)
  bool causal = false;
  int64_t window = 0;  // causal: a query sees that many keys, the last of them; 0: all
};

// Capped scores, by ONNX's function body: one op after the other.
TensorId attend_capped(NodeContext& n, TensorId q, TensorId k, TensorId v, const Scores& s) {
  const Shape qs = n.build.shape(q);
  k = repeated_heads(n, k, qs[1]), v = repeated_heads(n, v, qs[1]);
  const int64_t keys = n.build.shape(k)[2];
  const DType dtype = n.dtype_of(q);
  const double scale = s.scale != 0 ? s.scale : 1 / std::sqrt(d(qs[3])),
               never = -std::numeric_limits<double>::infinity();
  TensorId scores = n.before("matmul", {n.before("mul", {q, n.scalar(scale, dtype)}),
                                        n.before("transpose", {k}, list_attributes("perm", {0, 1, 3, 2}))});
  scores =
      n.before("mul", {n.before("tanh", {n.before("div", {scores, n.scalar(s.cap, dtype)})}), n.scalar(s.cap, dtype)});
  if (s.mask.valid())
    scores = n.dtype_of(s.mask) == DType::kBool ? n.before("where", {s.mask, scores, n.scalar(never, dtype)})
                                                : n.before("add", {scores, s.mask});
  if (s.causal) {
    check_room({qs[2], keys});
    Values mask{.dtype = DType::kBool, .shape = {qs[2], keys}};
    for (int64_t i = 0; i < qs[2]; ++i)
      for (int64_t j = 0; j < keys; ++j) mask.integer.push_back(j <= i && (s.window == 0 || j > i - s.window));
    scores = n.before("where", {n.constant_tensor(std::move(mask), "causal"), scores, n.scalar(never, dtype)});
  }
  return n.before("matmul", {n.before("softmax", {scores}, {{"masked", s.mask.valid() || s.causal ? 1.0 : 0.0}}), v});
}

// softmax(scale q k' + mask) v, [b, h, s, d]; rows that are masked as a whole are 0.
TensorId attend(NodeContext& n, TensorId q, TensorId k, TensorId v, const Scores& s) {
  if (s.cap > 0) return attend_capped(n, q, k, v, s);
  std::vector<TensorId> operands{q, k, v};
  if (s.mask.valid()) operands.push_back(s.mask);
  return n.before("attention", std::move(operands),
                  {{"scale", s.scale}, {"causal", s.causal ? 1.0 : 0.0}, {"window", d(s.window)}});
}

Results attention(NodeContext& n) {
  for (std::size_t i : {4, 5, 6})
    if (n.present(i))
      fail("past keys and values are not supported; export the model without a cache (use_cache=False)");
  for (std::size_t r : {1, 2, 3})
    if (is_read(n, r)) fail("its result {} is read; only the first is supported", r);
  const int64_t heads = n.integer("q_num_heads", 0), kv_heads = n.integer("kv_num_heads", 0);
  const TensorId q = with_heads(n, n.tensor(0), heads, "q_num_heads"),
                 k = with_heads(n, n.tensor(1), kv_heads, "kv_num_heads");
  const TensorId v = with_heads(n, n.tensor(2), kv_heads, "kv_num_heads");
  const Scores scores{n.present(3) ? n.tensor(3) : TensorId(), n.real("scale", 0), n.real("softcap", 0),
                      n.integer("is_causal", 0) != 0};
  const TensorId y = attend(n, q, k, v, scores);
  return {n.rank(0) == 3 ? last_without_heads(n, y) : n.made(y)};
}

// ---------------------------------------------------------------- rotary embeddings

// x cos + rotated(x) sin on the first 2 `half` values of each head, which go in pairs: of the two halves, or,
// interleaved, side by side. x is [b, h, s, d], the tables [b or 1, 1, s, half].
TensorId turned(NodeContext& n, TensorId x, TensorId cos, TensorId sin, bool interleaved) {
  const Shape s = n.build.shape(x);
  const int64_t half = n.build.shape(cos).back(), width = 2 * half;
  if (half < 1 || width > s[3]) fail("tables of {} angles for heads of {}", half, s[3]);
  const TensorId both = part_of(n, x, 3, 0, width);
  const Shape half_shape{s[0], s[1], s[2], half}, one{s[0], s[1], s[2], half, 1};
  TensorId a, b;
  if (interleaved) {
    const TensorId pairs = n.reshaped_before(both, {s[0], s[1], s[2], half, 2});
    a = n.reshaped_before(part_of(n, pairs, 4, 0, 1), half_shape),
    b = n.reshaped_before(part_of(n, pairs, 4, 1, 1), half_shape);
  } else {
    a = part_of(n, both, 3, 0, half), b = part_of(n, both, 3, half, half);
  }
  const TensorId real = n.before("sub", {n.before("mul", {a, cos}), n.before("mul", {b, sin})});
  const TensorId imaginary = n.before("add", {n.before("mul", {a, sin}), n.before("mul", {b, cos})});
  TensorId y;
  if (interleaved) {
    const TensorId pairs =
        n.before("concat", {n.reshaped_before(real, one), n.reshaped_before(imaginary, one)}, {{"axis", 4}});
    y = n.reshaped_before(pairs, {s[0], s[1], s[2], width});
  } else {
    y = n.before("concat", {real, imaginary}, {{"axis", 3}});
  }
  if (width < s[3]) y = n.before("concat", {y, part_of(n, x, 3, width, s[3] - width)}, {{"axis", 3}});
  return y;
}

// A table [b or 1, s, half] of angles by place, broadcast over heads; the operand is that, or [places, half] read at
// `ids`.
TensorId table_at(NodeContext& n, std::size_t operand, TensorId ids, int64_t half) {
  TensorId t = n.tensor(operand);
  if (ids.valid()) t = n.before("gather", {t, ids}, {{"axis", 0}});
  const Shape s = n.build.shape(t);
  if (s.size() != 3 || (half > 0 && s[2] != half))
    fail("operand {} gives {}; [batch, sequence, {}] is needed", operand, shape_text(s), half);
  return n.reshaped_before(t, {s[0], 1, s[1], s[2]});
}

Results rotary_embedding(NodeContext& n) {
  const TensorId x = with_heads(n, n.tensor(0), n.integer("num_heads", 0), "num_heads");
  const int64_t size = n.build.shape(x)[3],
                width = n.integer("rotary_embedding_dim", 0) ? n.integer("rotary_embedding_dim", 0) : size;
  if (width < 2 || width % 2 || width > size) fail("rotary_embedding_dim={} of {}", width, size);
  TensorId ids;
  if (n.present(3)) ids = places_in(n, 3, n.shape(1).at(0));
  const TensorId y =
      turned(n, x, table_at(n, 1, ids, width / 2), table_at(n, 2, ids, width / 2), n.integer("interleaved", 0) != 0);
  return {n.rank(0) == 3 ? last_without_heads(n, y) : n.made(y)};
}

// Places 0 to count - 1, [1, count], from the first on that an operand of one number has.
TensorId places_from(NodeContext& n, std::size_t operand, int64_t count, int64_t extent) {
  Values counted{.dtype = DType::kInt64, .shape = {1, count}};
  for (int64_t i = 0; i < count; ++i) counted.integer.push_back(i);
  if (!n.present(operand)) return n.constant_tensor(std::move(counted), "places");
  if (const auto first = n.value(operand).constant) {
    if (first->integer[0] < 0 || first->integer[0] + count > extent)
      fail("places {} to {} of {}", first->integer[0], first->integer[0] + count - 1, extent);
    for (int64_t& place : counted.integer) place += first->integer[0];
    return n.constant_tensor(std::move(counted), "places");
  }
  const TensorId sum =
      n.before("add", {n.constant_tensor(std::move(counted), "places"), n.reshaped_before(n.tensor(operand), {1, 1})});
  return n.before("places", {sum}, list_attributes("extents", {extent}));
}

// ONNX Runtime's: x, the places [1] or [b, s], and tables by place.
Results runtime_rotary_embedding(NodeContext& n) {
  if (n.integer("is_packed_batching", 0)) fail("is_packed_batching=1");
  if (n.real("scale", 1) != 1) fail("scale={}", n.real("scale", 1));
  const int64_t half = n.shape(2).back();
  int64_t heads = n.integer("num_heads", 0);
  if (heads == 0 && n.rank(0) == 3) {
    if (n.integer("rotary_embedding_dim", 0))
      fail("rotary_embedding_dim={} without num_heads", n.integer("rotary_embedding_dim", 0));
    heads = n.shape(0)[2] / std::max<int64_t>(1, 2 * half);
  }
  const TensorId x = with_heads(n, n.tensor(0), heads, "num_heads");
  const int64_t length = n.build.shape(x)[2], extent = n.shape(2).at(0);
  if (n.integer("rotary_embedding_dim", 0) && n.integer("rotary_embedding_dim", 0) != 2 * half)
    fail("rotary_embedding_dim={} with tables of {} angles", n.integer("rotary_embedding_dim", 0), half);
  const TensorId ids =
      volume(n.shape(1)) == 1 && n.rank(1) < 2 ? places_from(n, 1, length, extent) : places_in(n, 1, extent);
  const TensorId y =
      turned(n, x, table_at(n, 2, ids, half), table_at(n, 3, ids, half), n.integer("interleaved", 0) != 0);
  return {n.rank(0) == 3 ? last_without_heads(n, y) : n.made(y)};
}

// ---------------------------------------------------------------- ONNX Runtime's attention

void refuse_present(NodeContext& n, std::initializer_list<std::pair<std::size_t, const char*>> operands) {
  for (const auto& [operand, what] : operands)
    if (n.present(operand) && volume(n.shape(operand)) != 0)
      fail("its operand {} ({}) is not supported", operand, what);
}

// [keys] or [b, keys]: 1 if a key counts, as the term that ONNX Runtime adds to the scores: 0, or mask_filter_value.
TensorId added_for(NodeContext& n, TensorId counts, double filter, DType dtype) {
  const TensorId zero = n.scalar(0, n.dtype_of(counts));
  const TensorId is_there = n.dtype_of(counts) == DType::kBool ? counts : n.before("greater", {counts, zero});
  return n.before("where", {is_there, n.scalar(0, dtype), n.scalar(filter, dtype)});
}

// key_padding_mask: [b] lengths, [b, keys], or [b, queries, keys]; none of the others has these shapes.
TensorId padding_mask(NodeContext& n, std::size_t operand, int64_t batch, int64_t queries, int64_t keys, DType dtype) {
  const Shape s = n.shape(operand);
  TensorId mask = n.tensor(operand);
  if (s == Shape{batch}) {
    Values counted{.dtype = DType::kInt64, .shape = {1, keys}};
    for (int64_t j = 0; j < keys; ++j) counted.integer.push_back(j);
    mask = n.before("less", {n.constant_tensor(std::move(counted), "keys"), n.reshaped_before(mask, {batch, 1})});
  } else if (s != Shape{batch, keys} && s != Shape{batch, queries, keys}) {
    fail("its key_padding_mask is {}; [{}], [{}x{}] or [{}x{}x{}] are supported", shape_text(s), batch, batch, keys,
         batch, queries, keys);
  }
  mask = n.reshaped_before(mask, s.size() == 3 ? Shape{batch, 1, queries, keys} : Shape{batch, 1, 1, keys});
  return added_for(n, mask, n.real("mask_filter_value", -10000), dtype);
}

// q, k and v of MultiHeadAttention, [b, h, s, d]: three operands, or packed with an axis of 3 or 2 before the last.
std::vector<TensorId> unpacked(NodeContext& n, int64_t heads) {
  const auto apart = [&](std::size_t operand, int64_t parts) {  // [b, s, h, parts, d]
    const Shape s = n.shape(operand);
    if (s.size() != 5 || s[2] != heads || s[3] != parts)
      fail("operand {} is {}; [batch, length, {}, {}, size] is needed", operand, shape_text(s), heads, parts);
    std::vector<TensorId> result;
    for (int64_t p = 0; p < parts; ++p)
      result.push_back(n.before("transpose",
                                {n.reshaped_before(part_of(n, n.tensor(operand), 3, p, 1), {s[0], s[1], s[2], s[4]})},
                                list_attributes("perm", {0, 2, 1, 3})));
    return result;
  };
  if (!n.present(1) && !n.present(2)) return apart(0, 3);
  std::vector<TensorId> result{n.tensor(0)};
  if (!n.present(2)) {
    for (TensorId id : apart(1, 2)) result.push_back(id);
  } else {
    result.push_back(n.tensor(1)), result.push_back(n.tensor(2));
  }
  return result;
}

Results multi_head_attention(NodeContext& n) {
  refuse_present(n, {{6, "past_key"}, {7, "past_value"}, {8, "past_sequence_length"}, {9, "cache_indirection"}});
  if (is_read(n, 3)) fail("its result 3 (the scores) is read");
  const int64_t heads = n.integer("num_heads", 0);
  std::vector<TensorId> x = unpacked(n, heads);
  if (n.present(3)) {  // one bias for q, k and v, which lie as [b, s, h d]
    int64_t at = 0;
    for (TensorId& id : x) {
      if (n.build.shape(id).size() == 4) id = without_heads(n, id);
      const int64_t size = n.build.shape(id)[2];
      if (at + size > volume(n.shape(3))) fail("a bias {} for q, k and v", shape_text(n.shape(3)));
      id = n.before("add", {id, part_of(n, n.tensor(3), 0, at, size)});
      at += size;
    }
    if (at != volume(n.shape(3))) fail("a bias {} for q, k and v of {} together", shape_text(n.shape(3)), at);
  }
  for (TensorId& id : x) id = with_heads(n, id, heads, "num_heads");
  const Shape q = n.build.shape(x[0]), k = n.build.shape(x[1]);
  const DType dtype = n.dtype_of(x[0]);
  Scores scores{.scale = n.real("scale", 0), .causal = n.integer("unidirectional", 0) != 0};
  if (n.present(4)) scores.mask = padding_mask(n, 4, q[0], q[2], k[2], dtype);
  if (n.present(5)) scores.mask = scores.mask.valid() ? n.before("add", {scores.mask, n.tensor(5)}) : n.tensor(5);
  if (scores.causal && q[2] != k[2]) fail("unidirectional=1 with {} queries and {} keys", q[2], k[2]);
  Results results{last_without_heads(n, attend(n, x[0], x[1], x[2], scores))};
  for (std::size_t r : {1, 2}) results.push_back(n.made(x[r]));
  return results;
}

// Causal attention in which several heads of queries share one of keys; without a cache, so that all keys are of this
// call.
Results group_query_attention(NodeContext& n) {
  refuse_present(n, {{3, "past_key"}, {4, "past_value"}, {11, "head_sink"}, {12, "k_scale"}, {13, "v_scale"}});
  for (const char* attribute : {"smooth_softmax", "qk_output", "kv_cache_bit_width"})
    if (n.integer(attribute, 0) > 0) fail("{}={}", attribute, n.integer(attribute, 0));
  const int64_t heads = n.integer("num_heads", 0), kv_heads = n.integer("kv_num_heads", 0);
  if (heads < 1 || kv_heads < 1 || heads % kv_heads) fail("num_heads={} and kv_num_heads={}", heads, kv_heads);
  std::vector<TensorId> x{n.tensor(0)};
  if (n.present(1) != n.present(2)) fail("keys without values, or values without keys");
  if (n.present(1)) {
    x.push_back(n.tensor(1)), x.push_back(n.tensor(2));
  } else {  // q, k and v side by side
    const int64_t size = n.shape(0).back() / (heads + 2 * kv_heads);
    if (n.rank(0) != 3 || size * (heads + 2 * kv_heads) != n.shape(0)[2])
      fail("packed queries, keys and values {}", shape_text(n.shape(0)));
    const TensorId packed = x[0];
    x = {part_of(n, packed, 2, 0, heads * size), part_of(n, packed, 2, heads * size, kv_heads * size),
         part_of(n, packed, 2, (heads + kv_heads) * size, kv_heads * size)};
  }
  x[0] = with_heads(n, x[0], heads, "num_heads");
  for (std::size_t i : {1, 2}) x[i] = with_heads(n, x[i], kv_heads, "kv_num_heads");
  const int64_t batch = n.build.shape(x[0])[0], length = n.build.shape(x[0])[2];
  if (n.build.shape(x[1])[2] != length)
    fail("{} queries for {} keys: a cache is not supported", length, n.build.shape(x[1])[2]);
  const int64_t window = n.integer("local_window_size", -1);
  if (window == 0) fail("local_window_size=0");
  if (const Values* total = n.present(6) ? n.value(6).constant.get() : nullptr; total && total->integer.at(0) != length)
    fail("total_sequence_length={} with {} keys: a cache is not supported", total->integer[0], length);
  if (n.integer("do_rotary", 0)) {
    const int64_t extent = n.shape(7).at(0);
    const TensorId ids = n.present(9) ? places_in(n, 9, extent) : places_from(n, 100, length, extent);
    const TensorId cos = table_at(n, 7, ids, 0), sin = table_at(n, 8, ids, 0);
    for (std::size_t i : {0, 1}) x[i] = turned(n, x[i], cos, sin, n.integer("rotary_interleaved", 0) != 0);
  }
  Scores scores{.scale = n.real("scale", 0),
                .cap = n.real("softcap", 0),
                .causal = true,
                .window = window < length ? std::max<int64_t>(window, 0) : 0};
  const Values* last = n.present(5) ? n.value(5).constant.get() : nullptr;
  if (n.present(5) && !(last && n.is_filled_with(5, d(length - 1)))) {  // the last key of each sample
    if (volume(n.shape(5)) != batch) fail("seqlens_k {} for a batch of {}", shape_text(n.shape(5)), batch);
    Values counted{.dtype = DType::kInt64, .shape = {1, 1, 1, length}};
    for (int64_t j = 0; j < length; ++j) counted.integer.push_back(j);
    scores.mask = n.before("less_equal", {n.constant_tensor(std::move(counted), "keys"),
                                          n.reshaped_before(n.tensor(5), {batch, 1, 1, 1})});
  }
  if (n.present(10)) {
    const double never = -std::numeric_limits<double>::infinity();
    scores.mask = scores.mask.valid() ? n.before("where", {scores.mask, n.tensor(10), n.scalar(never, n.dtype(10))})
                                      : n.tensor(10);
  }
  Results results{last_without_heads(n, attend(n, x[0], x[1], x[2], scores))};
  for (std::size_t r : {1, 2}) results.push_back(n.made(x[r]));
  return results;
}

}  // namespace

void add_attention_converters(Converters& table) {
  table["Attention"] = attention;
  table["RotaryEmbedding"] = rotary_embedding;
}

void add_runtime_attention_converters(Converters& table) {
  table["RotaryEmbedding"] = runtime_rotary_embedding;
  table["MultiHeadAttention"] = multi_head_attention;
  table["GroupQueryAttention"] = group_query_attention;
}

}  // namespace partita::onnx_model
