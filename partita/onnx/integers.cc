// Finds the integer type of a result in the file, and whether its arithmetic can leave it.
#include "partita/onnx/integers.h"

#include <set>

namespace partita::onnx_model {
namespace {

// Results are operands, or parts of them, or lie between them: no value is new.
bool keeps_values(const Node& node) {
  static const std::set<std::string> operations{"ArgMax",
                                                "ArgMin",
                                                "BitwiseAnd",
                                                "BitwiseOr",
                                                "BitwiseXor",
                                                "CenterCropPad",
                                                "Clip",
                                                "Compress",
                                                "Concat",
                                                "ConcatFromSequence",
                                                "Constant",
                                                "ConstantOfShape",
                                                "DepthToSpace",
                                                "Dropout",
                                                "Expand",
                                                "EyeLike",
                                                "Flatten",
                                                "Gather",
                                                "GatherElements",
                                                "GatherND",
                                                "Identity",
                                                "If",
                                                "Max",
                                                "MaxPool",
                                                "Min",
                                                "Mod",
                                                "NonZero",
                                                "OneHot",
                                                "Pad",
                                                "Range",
                                                "ReduceMax",
                                                "ReduceMin",
                                                "Relu",
                                                "Reshape",
                                                "Resize",
                                                "ReverseSequence",
                                                "ScatterElements",
                                                "ScatterND",
                                                "SequenceAt",
                                                "SequenceConstruct",
                                                "SequenceLength",
                                                "Shape",
                                                "Sign",
                                                "Size",
                                                "Slice",
                                                "SpaceToDepth",
                                                "Split",
                                                "SplitToSequence",
                                                "Squeeze",
                                                "Tile",
                                                "TopK",
                                                "Transpose",
                                                "Trilu",
                                                "Unique",
                                                "Unsqueeze",
                                                "Upsample",
                                                "Where"};
  return operations.contains(node.operation) && text(node, "reduction", "none") == "none";
}

// Tells whether an operation gives numbers of places or counts, whatever it reads.
bool gives_int64(const std::string& operation, std::size_t result) {
  static const std::set<std::string> all{"ArgMax", "ArgMin", "NonZero", "SequenceLength", "Shape", "Size"};
  return all.contains(operation) ||
         (result > 0 && (operation == "TopK" || operation == "Unique" || operation == "MaxPool"));
}

// Tells whether all values of `from` are values of `to`.
bool holds(IntegerType to, IntegerType from) {
  if (to.is_signed) return from.is_signed ? from.bits <= to.bits : from.bits < to.bits;
  return !from.is_signed && from.bits <= to.bits;
}

}  // namespace

int64_t result_integer_type(const Node& node, std::size_t result, const std::vector<const Value*>& operands) {
  const std::string& o = node.operation;
  const auto of_operand = [&](std::size_t i) {
    return i < operands.size() && operands[i] ? operands[i]->type : kOnnxInt64;
  };
  if (!node.domain.empty() || gives_int64(o, result)) return kOnnxInt64;
  if (o == "Cast") return integer(node, "to", kOnnxInt64);
  if (o == "CastLike" || o == "Where") return of_operand(1);
  if (o == "OneHot") return of_operand(2);
  if (o == "MatMulInteger" || o == "ConvInteger") return kOnnxInt32;
  if (o == "EyeLike") return integer(node, "dtype", of_operand(0));
  if (o == "Constant" || o == "ConstantOfShape") {
    const auto value = node.attributes.find("value");
    const auto* typed = value == node.attributes.end() ? nullptr : std::get_if<TypedValues>(&value->second);
    return typed ? typed->type : kOnnxInt64;
  }
  return of_operand(0);
}

std::optional<IntegerType> wrapping_type(const Node& node, int64_t type, const std::vector<const Value*>& operands) {
  const auto to = integer_type_of(type);
  if (!to || keeps_values(node) || *to == IntegerType{64, true}) return {};
  if ((node.operation == "Cast" || node.operation == "CastLike") && !operands.empty() && operands[0]) {
    if (operands[0]->dtype == DType::kBool) return {};
    const auto from = is_float(operands[0]->dtype) ? std::nullopt : integer_type_of(operands[0]->type);
    if (from && holds(*to, *from)) return {};
  }
  if (!to->is_signed && node.operation == "Div") return {};
  return to;
}

int64_t wrapped(int64_t value, IntegerType type) {
  if (type.bits == 64) return value;
  const uint64_t mask = (uint64_t{1} << type.bits) - 1, low = static_cast<uint64_t>(value) & mask;
  const bool negative = type.is_signed && (low >> (type.bits - 1)) != 0;
  return static_cast<int64_t>(negative ? low | ~mask : low);
}

Values wrapped(Values values, IntegerType type) {
  for (int64_t& v : values.integer) v = wrapped(v, type);
  return values;
}

void give_type(GraphBuilder& build, const Node& node, std::size_t r, Value& result,
               const std::vector<const Value*>& operands, const std::string& name) {
  if (!result.sequence && result.dtype != DType::kInt64) return;
  result.type = result_integer_type(node, r, operands);
  const auto into = result.sequence ? std::nullopt : wrapping_type(node, result.type, operands);
  const auto is_operand = [&](const Value* v) { return v && v->tensor == result.tensor && v->type == result.type; };
  if (!into || (!result.constant && std::any_of(operands.begin(), operands.end(), is_operand))) return;
  if (into->bits == 64 &&
      (!result.constant ||
       std::any_of(result.constant->integer.begin(), result.constant->integer.end(), [](int64_t v) { return v < 0; })))
    fail(
        "arithmetic of {} is not supported: int64, in which it would be computed, does not hold it; "
        "cast to INT64 before it",
        type_name(result.type));
  if (result.constant) {
    result.constant = std::make_shared<const Values>(wrapped(*result.constant, *into));
    result.tensor = {};
  } else {
    const tdl::Attributes attributes{{"bits", static_cast<double>(into->bits)},
                                     {"signed", into->is_signed ? 1.0 : 0.0}};
    result.tensor = build.op("wrap", {result.tensor}, attributes, name);
  }
}

}  // namespace partita::onnx_model
