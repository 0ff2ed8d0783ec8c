// Reads and writes safetensors files.
#include "partita/runtime/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/base/json_nesting.h"
#include "partita/base/output_file.h"

namespace partita {
namespace {

using nlohmann::json;

const std::map<std::string, StoredType, std::less<>> kTypes{
    {"F32", StoredType::kFloat32}, {"F64", StoredType::kFloat64}, {"I8", StoredType::kInt8},
    {"U8", StoredType::kUint8},    {"I16", StoredType::kInt16},   {"U16", StoredType::kUint16},
    {"I32", StoredType::kInt32},   {"U32", StoredType::kUint32},  {"I64", StoredType::kInt64},
    {"BOOL", StoredType::kBool},   {"F16", StoredType::kFloat16}, {"BF16", StoredType::kBFloat16}};

constexpr uint64_t kMostOfHeader = 100'000'000;  // as the format's own library has it

// A list of numbers, none of them negative; empty if the entry is something else.
std::optional<std::vector<int64_t>> numbers(const json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) return {};
  std::vector<int64_t> list;
  for (const json& item : *found) {
    if (!item.is_number_integer() || item < 0 || item > INT64_MAX) return {};
    list.push_back(item.get<int64_t>());
  }
  return list;
}

// The arrays of a header; the data begins at `data_at` and the file ends at `size`.
StoredArrays parse_header(const std::string& path, std::string_view text, int64_t data_at, int64_t size) {
  validate_json_depth(text, path);
  const json header = json::parse(text, nullptr, false);
  if (!header.is_object()) fail("{}: not a safetensors file: its header is not a JSON object", path);
  const int64_t data = size - data_at;
  StoredArrays arrays;
  std::vector<std::pair<int64_t, int64_t>> used;  // [begin, end) of each array
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string where = fmt::format("{}, array '{}'", path, name);
    const auto shape = entry.is_object() ? numbers(entry, "shape") : std::nullopt;
    const auto offsets = entry.is_object() ? numbers(entry, "data_offsets") : std::nullopt;
    if (!shape || !offsets || offsets->size() != 2 || !entry.contains("dtype") || !entry["dtype"].is_string())
      fail("{}: the header's entry needs dtype, shape and data_offsets", where);
    const auto type = kTypes.find(entry["dtype"].get<std::string>());
    if (type == kTypes.end())
      fail("{}: element type {} is not supported; use F32, F64, F16, BF16, an integer type or BOOL", where,
           entry["dtype"].get<std::string>());
    const int64_t begin = (*offsets)[0], end = (*offsets)[1];
    if (begin > end || end > data)
      fail("{}: its bytes [{}, {}) are not in the file, which has {} after the header", where, begin, end, data);
    const auto needed = stored_bytes(*shape, type->second);
    if (!needed || *needed != end - begin)
      fail("{}: [{}] of {} is not {} bytes", where, fmt::join(*shape, "x"), type->first, end - begin);
    used.emplace_back(begin, end);
    arrays[name] = {path, type->second, *shape, data_at + begin, end - begin};
  }
  std::sort(used.begin(), used.end());
  int64_t at = 0;
  for (const auto& [begin, end] : used) {
    if (begin != at) fail("{}: its arrays overlap or leave a gap at byte {} of the data", path, std::min(at, begin));
    at = end;
  }
  if (at != data) fail("{}: {} bytes after the last array", path, data - at);
  return arrays;
}

// The header's length, from the first 8 bytes of a file of `size` bytes.
int64_t header_length(const std::string& path, std::string_view bytes, int64_t size) {
  if (bytes.size() < 8) fail("{}: not a safetensors file: {} bytes have no room for a header", path, bytes.size());
  uint64_t length = 0;
  for (int i = 0; i < 8; ++i) length |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  if (length > kMostOfHeader && length <= static_cast<uint64_t>(size - 8))
    fail("{}: a header of {} bytes; safetensors has at most {}", path, length, kMostOfHeader);
  if (length > static_cast<uint64_t>(size - 8))
    fail("{}: not a safetensors file, or cut short: a header of {} bytes in a file of {}", path, length, size);
  return static_cast<int64_t>(length);
}

}  // namespace

StoredArrays list_safetensors(const std::string& path) {
  const int64_t size = size_of_file(path);
  const int64_t length = header_length(path, read_range(path, 0, std::min<int64_t>(8, size)), size);
  return parse_header(path, read_range(path, 8, length), 8 + length, size);
}

Values read_array(const StoredArray& array) {
  return from_bytes(array.shape, array.type, read_range(array.file, array.offset, array.bytes));
}

Arrays parse_safetensors(const std::string& path, std::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  const int64_t length = header_length(path, bytes.substr(0, 8), size);
  Arrays arrays;
  for (const auto& [name, array] :
       parse_header(path, bytes.substr(8, static_cast<std::size_t>(length)), 8 + length, size))
    arrays[name] =
        from_bytes(array.shape, array.type,
                   bytes.substr(static_cast<std::size_t>(array.offset), static_cast<std::size_t>(array.bytes)));
  return arrays;
}

Arrays read_safetensors(const std::string& path) {
  Arrays arrays;
  for (const auto& [name, array] : list_safetensors(path)) arrays[name] = read_array(array);
  return arrays;
}

void write_safetensors(const std::string& path, const Arrays& arrays) {
  std::vector<const Arrays::value_type*> order;  // wide elements first, so that all are aligned
  for (const auto& item : arrays) order.push_back(&item);
  std::stable_sort(order.begin(), order.end(),
                   [](auto* a, auto* b) { return bytes_of(a->second.dtype) > bytes_of(b->second.dtype); });
  json header = json::object();
  std::string data;
  for (const auto* item : order) {
    const Values& values = item->second;
    if (item->first == "__metadata__") fail("{}: no array can be named __metadata__", path);
    const std::size_t begin = data.size();
    data += to_bytes(values);
    const StoredType type = stored_type(values.dtype);
    const auto name =
        std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& entry) { return entry.second == type; });
    header[item->first] = {{"dtype", name->first}, {"shape", values.shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  while (text.size() % 8) text += ' ';
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(text.size() >> (8 * i));
  write_file(path, out + text + data);
}

}  // namespace partita
