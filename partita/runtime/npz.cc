// Reads and writes .npy and .npz files.
#include "partita/runtime/npz.h"

#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/base/output_file.h"
#include "partita/runtime/zip.h"

namespace partita {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

const std::map<std::string, StoredType, std::less<>> kTypes{
    {"f4", StoredType::kFloat32}, {"f8", StoredType::kFloat64}, {"i1", StoredType::kInt8},
    {"u1", StoredType::kUint8},   {"i2", StoredType::kInt16},   {"u2", StoredType::kUint16},
    {"i4", StoredType::kInt32},   {"u4", StoredType::kUint32},  {"i8", StoredType::kInt64},
    {"b1", StoredType::kBool},    {"f2", StoredType::kFloat16}};

// The header: a Python dictionary such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class NpyHeader {
 public:
  NpyHeader(std::string_view text, std::string where) : rest_(text), where_(std::move(where)) {
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") descr = string();
      else if (key == "fortran_order") fortran_order = boolean();
      else if (key == "shape") shape = tuple();
      else bad(fmt::format("has an unknown key '{}'", key));
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!descr || !fortran_order || !shape) bad("lacks descr, fortran_order or shape");
  }

  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;

 private:
  [[noreturn]] void bad(const std::string& what) { fail("{}: the .npy header {}; is the file damaged?", where_, what); }
  char next() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
    return rest_.empty() ? '\0' : rest_[0];
  }
  bool accept(char c) {
    if (next() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(fmt::format("lacks a '{}'", c));
  }
  std::string string() {
    if (next() == '[') bad("describes a structured array, which has no place here");
    const char quote = next();
    if (quote != '\'' && quote != '"') bad("lacks a quoted word");
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) bad("has an open quote");
    std::string word(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return word;
  }
  bool boolean() {
    next();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {std::string_view("False"), false}})
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return value;
      }
    bad("lacks True or False");
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      int64_t extent = 0;
      if (next() < '0' || next() > '9') bad("has a shape that is no list of numbers");
      for (; !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; rest_.remove_prefix(1))
        if (__builtin_mul_overflow(extent, 10, &extent) || __builtin_add_overflow(extent, rest_[0] - '0', &extent))
          bad("has a shape with too large a number");
      shape.push_back(extent);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::string_view rest_;
  std::string where_;
};

// The header of an array, and the begin of its numbers.
struct NpyHead {
  Shape shape;
  StoredType type = StoredType::kFloat32;
  std::size_t begin = 0;  // of the numbers
};

// The longest header of version 1, and the bytes before it.
constexpr std::size_t kMostOfHead = 0xffff + 12;

StoredType type_of(std::string_view descr, const std::string& where) {
  const auto type = descr.empty() ? kTypes.end() : kTypes.find(descr.substr(1));
  if (type == kTypes.end())
    fail(
        "{}: element type '{}' is not supported: convert it with numpy.astype to float16, float32, float64, an integer "
        "or bool",
        where, descr);
  if (descr[0] == '>' && bytes_of(type->second) > 1)
    fail("{}: '{}' is big-endian: convert it with numpy.astype('<{}')", where, descr, type->first);
  if (descr[0] != '<' && descr[0] != '|' && descr[0] != '=' && descr[0] != '>')
    fail("{}: element type '{}' is not supported", where, descr);
  return type->second;
}

// Reads the head of a file of `size` bytes. Bad input if the file has more or fewer bytes than its header says: no more
// of it needs to be read.
NpyHead head_of(std::string_view beginning, uint64_t size, const std::string& where) {
  if (!beginning.starts_with(kNpyMagic)) fail("{}: not an array in NumPy's format", where);
  if (beginning.size() < 10) fail("{}: cut short inside its header", where);
  const int version = static_cast<unsigned char>(beginning[6]);
  if (version < 1 || version > 3) fail("{}: version {} of the .npy format is not known", where, version);
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::size_t length = 0;
  if (beginning.size() < 8 + length_bytes) fail("{}: cut short inside its header", where);
  for (std::size_t i = 0; i < length_bytes; ++i)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(beginning[8 + i])) << (8 * i);
  NpyHead head;
  head.begin = 8 + length_bytes + length;
  if (head.begin > size) fail("{}: cut short inside its header", where);
  if (head.begin > beginning.size()) fail("{}: the .npy header has {} bytes, too many for an array", where, length);
  const NpyHeader header(beginning.substr(8 + length_bytes, length), where);
  head.shape = *header.shape;
  head.type = type_of(*header.descr, where);
  if (*header.fortran_order && head.shape.size() > 1)
    fail("{}: the array is in column-major order: convert it with numpy.ascontiguousarray", where);
  const auto needed = stored_bytes(head.shape, head.type);
  if (!needed) fail("{}: an array [{}] has more bytes than can be counted", where, fmt::join(head.shape, "x"));
  if (static_cast<uint64_t>(*needed) != size - head.begin)
    fail("{}: an array [{}] of '{}' needs {} bytes, the file has {}", where, fmt::join(head.shape, "x"), *header.descr,
         *needed, size - head.begin);
  return head;
}

Values parse_npy(std::string_view bytes, const std::string& where) {
  const NpyHead head = head_of(bytes.substr(0, kMostOfHead), bytes.size(), where);
  return from_bytes(head.shape, head.type, bytes.substr(head.begin));
}

// NumPy has no bfloat16: it is written as float32, which holds each of its numbers.
std::string npy_of(const Values& values) {
  if (values.dtype == DType::kBFloat16) {
    Values wider = values;
    wider.dtype = DType::kFloat32;
    return npy_of(wider);
  }
  const char* descr = values.dtype == DType::kFloat16   ? "<f2"
                      : values.dtype == DType::kFloat32 ? "<f4"
                      : values.dtype == DType::kFloat64 ? "<f8"
                      : values.dtype == DType::kInt64   ? "<i8"
                                                        : "|b1";
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                                   fmt::join(values.shape, ", "), values.shape.size() == 1 ? "," : "");
  while ((kNpyMagic.size() + 4 + header.size() + 1) % 64) header += ' ';  // the data begins at a multiple of 64
  header += '\n';
  ensure(header.size() <= 0xffff, "an .npy header of {} bytes", header.size());
  std::string bytes(kNpyMagic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return bytes + header + to_bytes(values);
}

}  // namespace

Arrays parse_arrays(const std::string& path, std::string_view bytes) {
  if (bytes.starts_with(kNpyMagic)) {
    Arrays arrays;
    arrays[std::filesystem::path(path).stem().string()] = parse_npy(bytes, path);
    return arrays;
  }
  if (!bytes.starts_with("PK\x03\x04") && !bytes.starts_with("PK\x05\x06"))
    fail("{}: neither a .npz nor a .npy file", path);
  Arrays arrays;
  for (const ZipMember& m : zip_directory(bytes, path)) {
    std::string name = m.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    if (arrays.contains(name)) fail("{}: two arrays are named '{}'", path, name);
    const std::string where = fmt::format("{}, array '{}'", path, name);
    std::string inflated;
    head_of(beginning_of_member(bytes, m, kMostOfHead, where, inflated), m.size, where);
    arrays[name] = parse_npy(read_member(bytes, m, where, inflated), where);
  }
  return arrays;
}

Arrays read_arrays(const std::string& path) {
  return parse_arrays(path, read_file(path, "a file of arrays", kMostOfArrays));
}

void write_npz(const std::string& path, const Arrays& arrays) {
  ZipWriter writer{path, {}, {}, 0};
  for (const auto& [name, values] : arrays) add_array(writer, name, npy_of(values));
  write_file(path, zip_bytes(std::move(writer)));
}

}  // namespace partita
