// Converts operators that move values: their shapes and places are constants, or the operator cannot be imported.
#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/onnx/converter.h"

namespace partita::onnx_model {
namespace {

std::vector<int64_t> from_to(std::size_t from, std::size_t to) {
  std::vector<int64_t> numbers(to - from);
  std::iota(numbers.begin(), numbers.end(), static_cast<int64_t>(from));
  return numbers;
}

bool all_are(const std::vector<int64_t>& values, int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
}

tdl::Attributes slice_attributes(const std::vector<int64_t>& starts, const std::vector<int64_t>& sizes,
                                 const std::vector<int64_t>& steps) {
  tdl::Attributes attributes = list_attributes("starts", starts);
  attributes.merge(list_attributes("sizes", sizes));
  if (!all_are(steps, 1)) attributes.merge(list_attributes("steps", steps));
  return attributes;
}

Results reshape(NodeContext& n) {
  return {n.reshaped(n.tensor(0), reshaped(n.shape(0), n.list("shape", 1), n.integer("allowzero", 0) != 0))};
}

Results flatten(NodeContext& n) {
  const Shape& x = n.shape(0);
  const int64_t axis = n.integer("axis", 1);
  const int64_t front = axis == static_cast<int64_t>(x.size()) ? axis : axis_of(axis, x.size());
  return {n.reshaped(n.tensor(0),
                     {volume(Shape(x.begin(), x.begin() + front)), volume(Shape(x.begin() + front, x.end()))})};
}

Results expand(NodeContext& n) {
  const Values* shape = n.constant(1, "shape");
  if (!shape) fail("its shape is missing");
  const Shape to = broadcast(n.shape(0), shape->integer);
  return {to == n.shape(0) ? n.same(0) : n.op("expand", {n.tensor(0)}, list_attributes("shape", to))};
}

Results transpose(NodeContext& n) {
  std::vector<int64_t> order = n.integers("perm");
  if (order.empty())
    for (std::size_t a = n.rank(0); a-- > 0;) order.push_back(static_cast<int64_t>(a));
  if (order == from_to(0, n.rank(0))) return {n.same(0)};
  return {n.op("transpose", {n.tensor(0)}, list_attributes("perm", order))};
}

Results concat(NodeContext& n) {
  if (n.count() == 0) fail("no operands");
  const std::size_t axis = n.axis("axis", 0, n.rank(0));
  std::vector<std::size_t> parts;  // without the empty ones
  for (std::size_t i = 0; i < n.count(); ++i)
    if (n.shape(i).size() != n.rank(0) || n.shape(i)[axis] != 0) parts.push_back(i);
  if (parts.size() <= 1) return {n.same(parts.empty() ? 0 : parts[0])};
  std::vector<TensorId> operands;
  for (std::size_t i : parts) operands.push_back(n.tensor(i));
  return {n.op("concat", std::move(operands), {{"axis", static_cast<double>(axis)}})};
}

Results slice(NodeContext& n) {
  const Shape& x = n.shape(0);
  const SliceRange range =
      slice_range(x, n.list("starts", 1), n.list("ends", 2), n.list("axes", 3), n.list("steps", 4));
  if (range.sizes == x && all_are(range.steps, 1)) return {n.same(0)};
  return {n.op("slice", {n.tensor(0)}, slice_attributes(range.starts, range.sizes, range.steps))};
}

// The sizes of the parts along `axis`: as given, or `parts` equal ones, the last perhaps smaller.
std::vector<int64_t> part_sizes(std::vector<int64_t> sizes, int64_t extent, int64_t parts) {
  if (sizes.empty()) {
    const int64_t each = (extent + parts - 1) / std::max<int64_t>(parts, 1);
    for (int64_t left = extent; static_cast<int64_t>(sizes.size()) < parts; left -= each)
      sizes.push_back(std::clamp<int64_t>(left, 0, each));
  }
  return sizes;
}

Results split_into(NodeContext& n, std::size_t axis, const std::vector<int64_t>& sizes) {
  if (sizes.size() == 1) return {n.same(0)};
  tdl::Attributes attributes = list_attributes("sizes", sizes);
  attributes["axis"] = static_cast<double>(axis);
  return n.ops("split", {n.tensor(0)}, std::move(attributes));
}

Results split(NodeContext& n) {
  const std::size_t axis = n.axis("axis", 0, n.rank(0));
  const int64_t parts = static_cast<int64_t>(n.node.outputs.size());
  const std::vector<int64_t> sizes = part_sizes(n.list("split", 1), n.shape(0)[axis], parts);
  if (static_cast<int64_t>(sizes.size()) != parts) fail("{} sizes for {} results", sizes.size(), parts);
  return split_into(n, axis, sizes);
}

// ---------------------------------------------------------------- sequences, whose places are all constant

constexpr int64_t kMostParts = 1 << 16;

Results split_to_sequence(NodeContext& n) {
  const std::size_t axis = n.axis("axis", 0, n.rank(0));
  const int64_t extent = n.shape(0)[axis];
  std::vector<int64_t> sizes;
  const Values* given = n.constant(1, "split");
  if (!given || given->shape.empty()) {  // parts of one size, the last one smaller
    const int64_t each = given ? *n.whole(1, "split") : 1;
    if (each < 1 || extent / each > kMostParts) fail("parts of {} of {}", each, extent);
    for (int64_t left = extent; left > 0; left -= each) sizes.push_back(std::min(left, each));
  } else {
    sizes = n.list("split", 1);
  }
  Results parts = split_into(n, axis, sizes);
  if (!n.present(1) && !n.integer("keepdims", 1))
    for (Value& part : parts)
      part = n.made(n.reshaped_before(part.tensor, squeezed(part.shape, {static_cast<int64_t>(axis)})));
  Value sequence;
  sequence.sequence = std::make_shared<const std::vector<Value>>(std::move(parts));
  return {sequence};
}

const std::vector<Value>& sequence_of(NodeContext& n, std::size_t operand) {
  if (!n.value(operand).sequence) fail("'{}' is not a sequence", n.name(operand));
  return *n.value(operand).sequence;
}

Results sequence_at(NodeContext& n) {
  const std::vector<Value>& parts = sequence_of(n, 0);
  const auto place = n.whole(1, "position");
  if (!place) fail("its position is missing");
  return {parts[static_cast<std::size_t>(axis_of(*place, parts.size()))]};
}

Results sequence_construct(NodeContext& n) {
  std::vector<Value> parts;
  for (std::size_t i = 0; i < n.count(); ++i) {
    n.value(i).constant ? void() : void(n.tensor(i));
    parts.push_back(n.value(i));
  }
  Value sequence;
  sequence.sequence = std::make_shared<const std::vector<Value>>(std::move(parts));
  return {sequence};
}

Results sequence_length(NodeContext& n) {
  return {constant_value(
      {.dtype = DType::kInt64, .shape = {}, .integer = {static_cast<int64_t>(sequence_of(n, 0).size())}})};
}

Results concat_from_sequence(NodeContext& n) {
  std::vector<TensorId> operands;
  for (const Value& part : sequence_of(n, 0))
    operands.push_back(part.tensor.valid() ? part.tensor : n.constant_tensor(*part.constant, "part"));
  if (operands.empty()) fail("an empty sequence");
  const bool fresh = n.integer("new_axis", 0) != 0;
  const std::size_t rank = n.build.shape(operands[0]).size() + fresh, axis = n.axis("axis", 0, rank);
  if (fresh)
    for (TensorId& id : operands)
      id = n.reshaped_before(id, unsqueezed(n.build.shape(id), {static_cast<int64_t>(axis)}));
  if (operands.size() == 1) return {n.made(operands[0])};
  return {n.op("concat", std::move(operands), {{"axis", static_cast<double>(axis)}})};
}

// ---------------------------------------------------------------- padding, repeating

// Numbers of places before or behind each place of a padded axis, for the modes that repeat values of x.
std::vector<int64_t> places(const std::string& mode, int64_t extent, int64_t before, int64_t after) {
  std::vector<int64_t> from;
  for (int64_t i = -before; i < extent + after; ++i) {
    if (mode == "edge") from.push_back(std::clamp<int64_t>(i, 0, extent - 1));
    else if (mode == "wrap") from.push_back(((i % extent) + extent) % extent);
    else {  // reflect: without the edge itself
      const int64_t period = std::max<int64_t>(1, 2 * (extent - 1)), at = ((i % period) + period) % period;
      from.push_back(at < extent ? at : period - at);
    }
  }
  return from;
}

Results pad(NodeContext& n) {
  const Shape& x = n.shape(0);
  const std::string mode = n.text("mode", "constant");
  const std::vector<int64_t> pads = n.list("pads", 1);
  std::vector<int64_t> axes = n.list("axes", 3), before(x.size()), after(x.size());
  if (axes.empty()) axes = from_to(0, x.size());
  if (pads.size() != 2 * axes.size()) fail("{} pads for {} axes", pads.size(), axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t a = static_cast<std::size_t>(axis_of(axes[i], x.size()));
    before[a] = pads[i];
    after[a] = pads[i + axes.size()];
  }
  if (all_are(before, 0) && all_are(after, 0)) return {n.same(0)};
  if (mode == "constant") {
    tdl::Attributes attributes = list_attributes("before", before);
    attributes.merge(list_attributes("after", after));
    attributes["value"] = n.number(2, "value").value_or(0);
    return {n.op("pad", {n.tensor(0)}, std::move(attributes))};
  }
  if (mode != "edge" && mode != "reflect" && mode != "wrap") fail("mode {}", mode);
  TensorId y = n.tensor(0);
  for (std::size_t a = 0; a < x.size(); ++a) {
    if (before[a] == 0 && after[a] == 0) continue;
    if (x[a] < 1 || before[a] < 0 || after[a] < 0 || before[a] > (1 << 20) || after[a] > (1 << 20))
      fail("pads {} and {} of an axis of {} in mode {}", before[a], after[a], x[a], mode);
    std::vector<int64_t> from = places(mode, x[a], before[a], after[a]);
    const Shape count{static_cast<int64_t>(from.size())};
    const TensorId ids = n.constant_tensor({.dtype = DType::kInt64, .shape = count, .integer = std::move(from)},
                                           fmt::format("places{}", a));
    y = n.before("gather", {y, ids}, {{"axis", static_cast<double>(a)}});
  }
  return {n.made(y)};
}

// Repeats of an axis: [r, x] of every axis side by side, expanded, and joined again.
Results tile(NodeContext& n) {
  const Values* repeats = n.constant(1, "repeats");
  const Shape& x = n.shape(0);
  if (!repeats || is_float(repeats->dtype) || repeats->integer.size() != x.size())
    fail("repeats for {} axes are needed", x.size());
  if (all_are(repeats->integer, 1)) return {n.same(0)};
  Shape apart, wide, result;
  for (std::size_t a = 0; a < x.size(); ++a) {
    const int64_t times = repeats->integer[a];
    int64_t extent = 0;
    if (times < 0 || __builtin_mul_overflow(times, x[a], &extent)) fail("{} repeats of {}", times, x[a]);
    if (times != 1) apart.push_back(1), wide.push_back(times);
    apart.push_back(x[a]), wide.push_back(x[a]);
    result.push_back(times * x[a]);
  }
  const TensorId y = n.before("expand", {n.reshaped_before(n.tensor(0), apart)}, list_attributes("shape", wide));
  return {n.reshaped(y, result)};
}

// ---------------------------------------------------------------- reading and writing at places

// A constant number of a place, as place_of; bad input names the operand and its position.
int64_t constant_place(NodeContext& n, std::size_t operand, const Values& ids, std::size_t at, int64_t extent) {
  const int64_t id = ids.integer[at];
  if (id >= -extent && id < extent) return place_of(id, extent);
  std::vector<int64_t> position(ids.shape.size());
  int64_t left = static_cast<int64_t>(at);
  for (std::size_t a = ids.shape.size(); a-- > 0; left /= ids.shape[a]) position[a] = left % ids.shape[a];
  fail("'{}' has {} at [{}]: places from {} to {} are there", n.name(operand), id, fmt::join(position, ", "), -extent,
       extent - 1);
}

// Tells whether computed numbers are places below `extent`: ops that choose among that many give no others.
bool are_places(NodeContext& n, TensorId ids, int64_t extent) {
  const OpId producer = n.build.graph().tensor(ids).producer;
  if (!producer.valid()) return false;
  const Op& op = n.build.graph().op(producer);
  return op.definition == "argmax" && n.build.shape(op.operands[0]).back() <= extent;
}

}  // namespace

TensorId places_in(NodeContext& n, std::size_t operand, int64_t extent) {
  const Value& ids = n.value(operand);
  if (is_float(ids.dtype)) fail("ids of {}", name_of(ids.dtype));
  if (!ids.constant && are_places(n, n.tensor(operand), extent)) return n.tensor(operand);
  if (!ids.constant) return n.before("places", {n.tensor(operand)}, list_attributes("extents", {extent}));
  Values counted = *ids.constant;
  for (std::size_t i = 0; i < counted.integer.size(); ++i)
    counted.integer[i] = constant_place(n, operand, *ids.constant, i, extent);
  return counted == *ids.constant ? n.tensor(operand) : n.constant_tensor(std::move(counted), "ids");
}

namespace {

// Notes a lookup that is PyTorch's embedding with padding_idx: nothing else in the file says so.
void note_padding_row(NodeContext& n) {
  const std::vector<std::string>& arguments = n.node.arguments;
  constexpr std::size_t kPaddingRow = 2;
  if (!n.node.target.starts_with("aten.embedding.") || arguments.size() <= kPaddingRow ||
      arguments[kPaddingRow].starts_with('-'))
    return;
  n.state.notes.push_back(
      fmt::format("node '{}' (Gather): row {} of '{}' is PyTorch's padding_idx, whose gradient is 0 there; here it is "
                  "trained like the others",
                  n.node.name, arguments[kPaddingRow], n.name(0)));
}

Results gather(NodeContext& n) {
  note_padding_row(n);
  const Shape& x = n.shape(0);
  const std::size_t axis = n.axis("axis", 0, x.size());
  const Value& ids = n.value(1);
  if (is_float(ids.dtype)) fail("ids of {}", name_of(ids.dtype));
  if (ids.constant && volume(ids.shape) == 1) {  // one place: a slice
    std::vector<int64_t> starts(x.size());
    starts[axis] = constant_place(n, 1, *ids.constant, 0, x[axis]);
    Shape sizes = x, shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis));
    sizes[axis] = 1;
    shape.insert(shape.end(), ids.shape.begin(), ids.shape.end());
    shape.insert(shape.end(), x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.end());
    if (sizes == x) return {n.reshaped(n.tensor(0), shape)};
    if (shape == sizes) return {n.op("slice", {n.tensor(0)}, slice_attributes(starts, sizes, {}))};
    return {n.reshaped(n.before("slice", {n.tensor(0)}, slice_attributes(starts, sizes, {})), shape)};
  }
  return {n.op("gather", {n.tensor(0), places_in(n, 1, x[axis])}, {{"axis", static_cast<double>(axis)}})};
}

// x and ids agree in all axes but `axis`: ids may be shorter in others; then only the front is read.
Results gather_elements(NodeContext& n) {
  const Shape &x = n.shape(0), &ids = n.shape(1);
  const std::size_t axis = n.axis("axis", 0, x.size());
  if (ids.size() != x.size()) fail("ids {} for {}", shape_text(ids), shape_text(x));
  Shape front = ids;
  front[axis] = x[axis];
  for (std::size_t a = 0; a < x.size(); ++a)
    if (front[a] > x[a]) fail("ids {} for {}", shape_text(ids), shape_text(x));
  const TensorId read =
      front == x ? n.tensor(0)
                 : n.before("slice", {n.tensor(0)}, slice_attributes(std::vector<int64_t>(x.size()), front, {}));
  return {n.op("gather_elements", {read, places_in(n, 1, x[axis])}, {{"axis", static_cast<double>(axis)}})};
}

// The row-major numbers of the index tuples along the last axis of an operand, among axes [first, first + depth) of x:
// shape
// [..] of ids [.., depth]. A batch axis of x before `first` is one more of those axes, whose number is the batch's own.
TensorId tuple_numbers(NodeContext& n, std::size_t operand, const Shape& x, std::size_t first) {
  const Shape& ids = n.shape(operand);
  const std::size_t depth = static_cast<std::size_t>(ids.back());
  const Shape tuples(ids.begin(), ids.end() - 1);
  if (const auto& constant = n.value(operand).constant) {
    Values numbers{.dtype = DType::kInt64, .shape = tuples};
    const int64_t count = volume(tuples),
                  batches = volume(Shape(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first)));
    const int64_t per_batch = count / std::max<int64_t>(1, batches);
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = first == 0 ? 0 : i / per_batch;
      for (std::size_t d = 0; d < depth; ++d)
        at = at * x[first + d] +
             constant_place(n, operand, *constant, static_cast<std::size_t>(i) * depth + d, x[first + d]);
      numbers.integer.push_back(at);
    }
    return n.constant_tensor(std::move(numbers), "numbers");
  }
  const std::vector<int64_t> extents(x.begin() + static_cast<std::ptrdiff_t>(first),
                                     x.begin() + static_cast<std::ptrdiff_t>(first + depth));
  const TensorId counted = n.before("places", {n.tensor(operand)}, list_attributes("extents", extents));
  TensorId number;
  int64_t place = 1;
  for (std::size_t d = depth; d-- > 0; place *= x[first + d]) {
    std::vector<int64_t> starts(ids.size());
    starts.back() = static_cast<int64_t>(d);
    Shape one = ids;
    one.back() = 1;
    TensorId part = depth == 1 ? counted : n.before("slice", {counted}, slice_attributes(starts, one, {}));
    part = n.reshaped_before(part, tuples);
    if (place != 1) part = n.before("mul", {part, n.scalar(static_cast<double>(place), DType::kInt64)});
    number = number.valid() ? n.before("add", {number, part}) : part;
  }
  if (first == 0) return number;
  Shape own(tuples.size(), 1);
  std::copy(tuples.begin(), tuples.begin() + static_cast<std::ptrdiff_t>(first), own.begin());
  Values offsets{.dtype = DType::kInt64, .shape = own};
  for (int64_t i = 0; i < volume(own); ++i) offsets.integer.push_back(i * place);
  return n.before("add", {number, n.constant_tensor(std::move(offsets), "offsets")});
}

// x at the index tuples along the last axis of ids: the indexed axes of x are joined into one.
Results gather_nd(NodeContext& n) {
  const Shape &x = n.shape(0), &ids = n.shape(1);
  const std::size_t batch = static_cast<std::size_t>(n.integer("batch_dims", 0));
  if (is_float(n.dtype(1)) || ids.empty() || n.integer("batch_dims", 0) < 0 || batch >= ids.size() || batch > x.size())
    fail("x {} at ids {} with batch_dims={}", shape_text(x), shape_text(ids), batch);
  const std::size_t indexed = batch + static_cast<std::size_t>(ids.back());
  if (ids.back() < 1 || indexed > x.size())
    fail("x {} at ids {} with batch_dims={}", shape_text(x), shape_text(ids), batch);
  const TensorId number = tuple_numbers(n, 1, x, batch);
  Shape joined{volume(Shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(indexed)))};
  joined.insert(joined.end(), x.begin() + static_cast<std::ptrdiff_t>(indexed), x.end());
  return {n.op("gather", {n.reshaped_before(n.tensor(0), joined), number}, {{"axis", 0}})};
}

Results scatter_elements(NodeContext& n) {
  const std::string reduction = n.text("reduction", "none");
  const std::size_t axis = n.axis("axis", 0, n.rank(0));
  if (reduction != "none" && reduction != "add") fail("reduction {}", reduction);
  return {n.op(reduction == "add" ? "scatter_add_elements" : "scatter_elements",
               {n.tensor(0), places_in(n, 1, n.shape(0)[axis]), n.tensor(2)}, {{"axis", static_cast<double>(axis)}})};
}

// x with u written at constant index tuples: every place reads x, or the number of the tuple that names it last.
Results scatter_constant_rows(NodeContext& n, int64_t rows, int64_t tuples) {
  const Shape &x = n.shape(0), &ids = n.shape(1);
  const Values& places = *n.value(1).constant;
  const std::size_t depth = static_cast<std::size_t>(ids.back());
  check_room({rows});
  Values from{.dtype = DType::kInt64, .shape = {rows}};  // x's own row, or `rows` + the tuple's number
  from.integer = from_to(0, static_cast<std::size_t>(rows));
  for (int64_t i = 0; i < tuples; ++i) {
    int64_t at = 0;
    for (std::size_t d = 0; d < depth; ++d)
      at = at * x[d] + constant_place(n, 1, places, static_cast<std::size_t>(i) * depth + d, x[d]);
    from.integer[static_cast<std::size_t>(at)] = rows + i;
  }
  Shape own{rows}, written{tuples};
  own.insert(own.end(), x.begin() + static_cast<std::ptrdiff_t>(depth), x.end());
  written.insert(written.end(), own.begin() + 1, own.end());
  const TensorId both =
      n.before("concat", {n.reshaped_before(n.tensor(0), own), n.reshaped_before(n.tensor(2), written)}, {{"axis", 0}});
  const TensorId y = n.before("gather", {both, n.constant_tensor(std::move(from), "rows")}, {{"axis", 0}});
  return {n.reshaped(y, x)};
}

// x with u written at index tuples: among equal ones the last counts, or all are added.
Results scatter_nd(NodeContext& n) {
  const Shape &x = n.shape(0), &ids = n.shape(1);
  const std::string reduction = n.text("reduction", "none");
  if (reduction != "none" && reduction != "add") fail("reduction {}", reduction);
  if (is_float(n.dtype(1)) || ids.empty() || ids.back() < 1 || ids.back() > static_cast<int64_t>(x.size()))
    fail("x {} at ids {}", shape_text(x), shape_text(ids));
  const auto depth = static_cast<std::ptrdiff_t>(ids.back());
  const int64_t rows = volume(Shape(x.begin(), x.begin() + depth)), tuples = volume(Shape(ids.begin(), ids.end() - 1));
  const int64_t width = volume(Shape(x.begin() + depth, x.end()));
  if (n.value(1).constant && reduction == "none") return scatter_constant_rows(n, rows, tuples);
  const TensorId numbers = n.reshaped_before(tuple_numbers(n, 1, x, 0), {tuples, 1});
  const TensorId at = width == 1 ? numbers : n.before("expand", {numbers}, list_attributes("shape", {tuples, width}));
  const char* definition = reduction == "add" ? "scatter_add_elements" : "scatter_elements";
  const TensorId y = n.before(
      definition, {n.reshaped_before(n.tensor(0), {rows, width}), at, n.reshaped_before(n.tensor(2), {tuples, width})},
      {{"axis", 0}});
  return {n.reshaped(y, x)};
}

Results one_hot(NodeContext& n) {
  const Shape& ids = n.shape(0);
  const auto depth = n.whole(1, "depth");
  const std::size_t axis = n.axis("axis", -1, ids.size() + 1);
  if (!depth || *depth < 1 || volume(n.shape(2)) != 2) fail("a depth of at least 1 and two values are needed");
  check_room({*depth});
  Values counted{.dtype = DType::kInt64, .shape = Shape(ids.size() + 1, 1)};
  counted.shape[axis] = *depth;
  counted.integer = from_to(0, static_cast<std::size_t>(*depth));
  TensorId places = n.tensor(0);
  if (is_float(n.dtype(0))) places = n.before("cast", {places}, {{"to", static_cast<double>(DType::kInt64)}});
  // Numbers below zero count from the end; those outside choose nothing.
  const TensorId depth_number = n.scalar(static_cast<double>(*depth), DType::kInt64), zero = n.scalar(0, DType::kInt64);
  places = n.before("where", {n.before("less", {places, zero}), n.before("add", {places, depth_number}), places});
  places = n.reshaped_before(places, unsqueezed(ids, {static_cast<int64_t>(axis)}));
  const TensorId hit = n.before("equal", {places, n.constant_tensor(std::move(counted), "classes")});
  const Values* values = n.constant(2, "values");
  auto value = [&](std::size_t i) {
    return n.scalar(is_float(values->dtype) ? values->real[i] : static_cast<double>(values->integer[i]), values->dtype);
  };
  return {n.op("where", {hit, value(1), value(0)})};
}

// The places at or below (above) the k-th diagonal of the last two axes, as a constant mask.
Results trilu(NodeContext& n) {
  const Shape& x = n.shape(0);
  if (x.size() < 2) fail("an operand {}", shape_text(x));
  const int64_t rows = x[x.size() - 2], columns = x.back(), k = n.whole(1, "k").value_or(0);
  const bool upper = n.integer("upper", 1) != 0;
  check_room({rows, columns});
  Values mask{.dtype = DType::kBool, .shape = {rows, columns}};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) mask.integer.push_back(upper ? j - i >= k : j - i <= k);
  return {n.op("where", {n.constant_tensor(std::move(mask), "mask"), n.tensor(0), n.scalar(0, n.dtype(0))})};
}

Results cumulative_sum(NodeContext& n) {
  const auto axis = n.whole(1, "axis");
  if (!axis) fail("its axis is missing");
  return {n.op("cumsum", {n.tensor(0)},
               {{"axis", static_cast<double>(axis_of(*axis, n.rank(0)))},
                {"exclusive", static_cast<double>(n.integer("exclusive", 0))},
                {"reverse", static_cast<double>(n.integer("reverse", 0))}})};
}

Results top_k(NodeContext& n) {
  const auto k = n.whole(1, "k");
  if (!k) fail("its k is missing");
  return n.ops("top_k", {n.tensor(0)},
               {{"axis", static_cast<double>(n.axis("axis", -1, n.rank(0)))},
                {"k", static_cast<double>(*k)},
                {"largest", static_cast<double>(n.integer("largest", 1))}});
}

// Blocks of channels side by side: [n, c b b, h, w] -> [n, c, h b, w b].
Results depth_to_space(NodeContext& n) {
  const Shape& x = n.shape(0);
  const int64_t b = n.integer("blocksize", 0);
  if (x.size() != 4 || b < 1 || b > (1 << 15) || x[1] % (b * b) != 0) fail("blocks of {} of {}", b, shape_text(x));
  const int64_t c = x[1] / (b * b);
  const bool columns_first = n.text("mode", "DCR") == "CRD";
  const TensorId apart = n.reshaped_before(
      n.tensor(0), columns_first ? Shape{x[0], c, b, b, x[2], x[3]} : Shape{x[0], b, b, c, x[2], x[3]});
  const TensorId turned = n.transposed_before(
      apart, columns_first ? std::vector<int64_t>{0, 1, 4, 2, 5, 3} : std::vector<int64_t>{0, 3, 4, 1, 5, 2});
  return {n.reshaped(turned, {x[0], c, x[2] * b, x[3] * b})};
}

Results space_to_depth(NodeContext& n) {
  const Shape& x = n.shape(0);
  const int64_t b = n.integer("blocksize", 0);
  if (x.size() != 4 || b < 1 || b > (1 << 15) || x[2] % b != 0 || x[3] % b != 0)
    fail("blocks of {} of {}", b, shape_text(x));
  const TensorId apart = n.reshaped_before(n.tensor(0), {x[0], x[1], x[2] / b, b, x[3] / b, b});
  return {n.reshaped(n.transposed_before(apart, {0, 3, 5, 1, 2, 4}), {x[0], x[1] * b * b, x[2] / b, x[3] / b})};
}

}  // namespace

void add_shape_converters(Converters& table) {
  table["Reshape"] = reshape;
  table["Flatten"] = flatten;
  table["Squeeze"] = [](NodeContext& n) -> Results {
    return {n.reshaped(n.tensor(0), squeezed(n.shape(0), n.list("axes", 1)))};
  };
  table["Unsqueeze"] = [](NodeContext& n) -> Results {
    return {n.reshaped(n.tensor(0), unsqueezed(n.shape(0), n.list("axes", 1)))};
  };
  table["Expand"] = expand;
  table["Transpose"] = transpose;
  table["Concat"] = concat;
  table["Slice"] = slice;
  table["Split"] = split;
  table["SplitToSequence"] = split_to_sequence;
  table["SequenceAt"] = sequence_at;
  table["SequenceConstruct"] = sequence_construct;
  table["SequenceLength"] = sequence_length;
  table["ConcatFromSequence"] = concat_from_sequence;
  table["Pad"] = pad;
  table["Tile"] = tile;
  table["Gather"] = gather;
  table["GatherElements"] = gather_elements;
  table["GatherND"] = gather_nd;
  table["ScatterElements"] = scatter_elements;
  table["Scatter"] = scatter_elements;
  table["ScatterND"] = scatter_nd;
  table["OneHot"] = one_hot;
  table["Trilu"] = trilu;
  table["CumSum"] = cumulative_sum;
  table["TopK"] = top_k;
  table["DepthToSpace"] = depth_to_space;
  table["SpaceToDepth"] = space_to_depth;
  table["Identity"] = [](NodeContext& n) -> Results { return {n.same(0)}; };
}

}  // namespace partita::onnx_model
