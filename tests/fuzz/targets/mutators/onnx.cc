// Changes inputs of the fuzz target of ONNX files, field by field of protobuf's wire format. So lengths stay right and
// most inputs are still ONNX files. Format: protobuf.dev/programming-guides/encoding.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

// libFuzzer's own changes of bytes; the new size.
extern "C" std::size_t LLVMFuzzerMutate(uint8_t* data, std::size_t size, std::size_t most);

namespace {

using Random = std::minstd_rand;
enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// A field with its content. The wire format does not distinguish messages from texts: content that can be read as a
// message is one.
struct Field {
  uint64_t tag = 0;  // its number, and the wire type in the last three bits
  uint64_t varint = 0;
  std::string bytes;
  std::vector<Field> message;  // empty: the content is `bytes`

  uint64_t type() const { return tag & 7; }
};

std::optional<uint64_t> take_varint(std::string_view& in) {
  uint64_t number = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in.front());
    in.remove_prefix(1);
    number |= uint64_t{byte & 127U} << shift;
    if (byte < 128) return number;
  }
  return std::nullopt;
}

std::optional<std::vector<Field>> parsed(std::string_view in, int depth);

std::optional<Field> take_field(std::string_view& in, int depth) {
  Field field;
  const std::optional<uint64_t> tag = take_varint(in);
  if (!tag || *tag < 8) return std::nullopt;
  field.tag = *tag;
  std::optional<uint64_t> size;
  if (field.type() == kVarint || field.type() == kBytes) size = take_varint(in);
  if (field.type() == kFixed64) size = 8;
  if (field.type() == kFixed32) size = 4;
  if (!size) return std::nullopt;
  if (field.type() == kVarint) {
    field.varint = *size;
    return field;
  }
  if (*size > in.size()) return std::nullopt;
  field.bytes = in.substr(0, *size);
  in.remove_prefix(*size);
  if (field.type() == kBytes)
    if (auto message = parsed(field.bytes, depth + 1)) field.message = std::move(*message);
  return field;
}

std::optional<std::vector<Field>> parsed(std::string_view in, int depth) {
  std::vector<Field> fields;
  while (!in.empty()) {
    std::optional<Field> field = depth < 8 ? take_field(in, depth) : std::nullopt;
    if (!field) return std::nullopt;
    fields.push_back(std::move(*field));
  }
  return fields;
}

void put_varint(std::string& out, uint64_t number) {
  for (; number > 127; number >>= 7) out.push_back(static_cast<char>(number | 128));
  out.push_back(static_cast<char>(number));
}

std::string serialized(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& field : fields) {
    put_varint(out, field.tag);
    if (field.type() == kVarint) {
      put_varint(out, field.varint);
      continue;
    }
    const std::string bytes = field.message.empty() ? field.bytes : serialized(field.message);
    if (field.type() == kBytes) put_varint(out, bytes.size());
    out += bytes;
  }
  return out;
}

// Every field, with the message that it stands in.
struct Place {
  std::vector<Field>* in = nullptr;
  std::size_t index = 0;
  Field& field() const { return (*in)[index]; }
};
void list_places(std::vector<Field>& fields, std::vector<Place>& places) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    places.push_back({&fields, i});
    list_places(fields[i].message, places);
  }
}

void change_value(Field& field, Random& random) {
  if (field.type() == kVarint) {
    const uint64_t numbers[] = {
        0, 1, ~uint64_t{0}, field.varint + 1, field.varint - 1, random() % 32, INT32_MAX, uint64_t{1} << 63};
    field.varint = numbers[random() % std::size(numbers)];
    return;
  }
  const std::size_t size = field.bytes.size(), most = field.type() == kBytes ? size + 8 : size;
  field.bytes.resize(most);
  const std::size_t now = LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(field.bytes.data()), size, most);
  field.bytes.resize(field.type() == kBytes ? now : size);
  field.message.clear();
}

// Leaves a field out, doubles it, changes its value, or gives it that of another field of its kind.
void change(std::vector<Field>& model, Random& random) {
  std::vector<Place> places;
  list_places(model, places);
  if (places.empty()) return;
  const Place at = places[random() % places.size()];
  const auto here = at.in->begin() + static_cast<std::ptrdiff_t>(at.index);
  switch (random() % 8) {
    case 0:
      at.in->erase(here);
      return;
    case 1: {
      const Field twice = at.field();
      at.in->insert(here, twice);
      return;
    }
    case 2:
      std::swap(at.field(), (*at.in)[random() % at.in->size()]);
      return;
    case 3:
    case 4: {
      std::vector<Field> same;
      for (const Place& other : places)
        if (other.field().type() == at.field().type() && other.field().message.empty() == at.field().message.empty())
          same.push_back(other.field());
      const uint64_t tag = at.field().tag;
      at.field() = same[random() % same.size()];
      at.field().tag = tag;
      return;
    }
    default:
      if (at.field().message.empty() || random() % 8 == 0) change_value(at.field(), random);
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(uint8_t* data, std::size_t size, std::size_t most, unsigned int seed) {
  Random random(seed);
  std::optional<std::vector<Field>> model = parsed({reinterpret_cast<const char*>(data), size}, 0);
  if (!model || random() % 8 == 0) return LLVMFuzzerMutate(data, size, most);
  for (auto changes = 1 + random() % 3; changes > 0; --changes) change(*model, random);
  const std::string bytes = serialized(*model);
  if (bytes.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
