#include "partita/runtime/npz.h"

#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/base/output_file.h"

namespace partita {
namespace {

// ---------------------------------------------------------------- .npy

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
    const std::string word(rest_.substr(1, end - 1));
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

Values parse_npy(std::string_view bytes, const std::string& where) {
  if (!bytes.starts_with(kNpyMagic)) fail("{}: not an array in NumPy's format", where);
  if (bytes.size() < 10) fail("{}: cut short inside its header", where);
  const int version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3) fail("{}: version {} of the .npy format is not known", where, version);
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::size_t length = 0;
  if (bytes.size() < 8 + length_bytes) fail("{}: cut short inside its header", where);
  for (std::size_t i = 0; i < length_bytes; ++i)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[8 + i])) << (8 * i);
  bytes.remove_prefix(8 + length_bytes);
  if (bytes.size() < length) fail("{}: cut short inside its header", where);
  const NpyHeader header(bytes.substr(0, length), where);
  bytes.remove_prefix(length);

  const std::string_view descr = *header.descr;
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
  if (*header.fortran_order && header.shape->size() > 1)
    fail("{}: the array is in column-major order: convert it with numpy.ascontiguousarray", where);
  const auto size = stored_bytes(*header.shape, type->second);
  if (!size || static_cast<std::size_t>(*size) != bytes.size())
    fail("{}: an array [{}] of '{}' needs {} bytes, the file has {}", where, fmt::join(*header.shape, "x"), descr,
         size ? *size : -1, bytes.size());
  return from_bytes(*header.shape, type->second, bytes);
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

// ---------------------------------------------------------------- zip

// Little-endian numbers; reading past the end is bad input.
class Reader {
 public:
  Reader(std::string_view bytes, std::size_t at, const std::string& where) : bytes_(bytes), at_(at), where_(where) {}
  uint64_t number(std::size_t width) {
    const std::string_view text = take(width);
    uint64_t value = 0;
    for (std::size_t i = 0; i < width; ++i)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
    return value;
  }
  std::string_view take(uint64_t size) {
    if (at_ > bytes_.size() || size > bytes_.size() - at_)
      fail("{}: the archive is cut short or damaged (byte {})", where_, at_);
    const std::string_view text = bytes_.substr(at_, size);
    at_ += size;
    return text;
  }
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  std::string_view bytes_;
  std::size_t at_;
  const std::string& where_;
};

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kEnd64Locator = 0x07064b50;
constexpr uint64_t kIn64 = 0xffffffff;  // the true number is in the 64-bit record
constexpr std::size_t kEndSize = 22;

struct Member {
  std::string name;
  uint64_t flags = 0, method = 0, crc = 0, compressed = 0, size = 0, offset = 0;
};

std::vector<Member> zip_directory(std::string_view bytes, const std::string& path) {
  // The end record is the last thing in the file, but for a comment of up to 64 KiB.
  std::size_t end = std::string_view::npos;
  for (std::size_t back = kEndSize; back <= bytes.size() && back <= kEndSize + 0xffff; ++back)
    if (Reader(bytes, bytes.size() - back, path).number(4) == kEnd) {
      end = bytes.size() - back;
      break;
    }
  if (end == std::string_view::npos) fail("{}: the archive has no directory: it is cut short or damaged", path);
  Reader in(bytes, end + 10, path);
  uint64_t count = in.number(2);
  in.number(4);
  uint64_t offset = in.number(4);
  if ((count == 0xffff || offset == kIn64) && end >= 20 && Reader(bytes, end - 20, path).number(4) == kEnd64Locator) {
    const uint64_t at = Reader(bytes, end - 12, path).number(8);
    Reader wide(bytes, at, path);
    if (wide.number(4) != kEnd64) fail("{}: the archive's directory is damaged", path);
    wide.take(28);
    count = wide.number(8);
    wide.number(8);
    offset = wide.number(8);
  }
  std::vector<Member> members;
  Reader entry(bytes, offset, path);
  for (uint64_t i = 0; i < count; ++i) {
    if (entry.number(4) != kCentral) fail("{}: the archive's directory is damaged (entry {})", path, i);
    Member m;
    entry.take(4);
    m.flags = entry.number(2);
    m.method = entry.number(2);
    entry.take(4);
    m.crc = entry.number(4);
    m.compressed = entry.number(4);
    m.size = entry.number(4);
    const uint64_t name = entry.number(2), extra = entry.number(2), comment = entry.number(2);
    entry.take(8);
    m.offset = entry.number(4);
    m.name = entry.take(name);
    Reader fields(entry.take(extra), 0, path);
    entry.take(comment);
    while (fields.left() >= 4) {
      const uint64_t id = fields.number(2), size = fields.number(2);
      Reader field(fields.take(size), 0, path);
      if (id != 1) continue;
      if (m.size == kIn64) m.size = field.number(8);
      if (m.compressed == kIn64) m.compressed = field.number(8);
      if (m.offset == kIn64) m.offset = field.number(8);
    }
    members.push_back(std::move(m));
  }
  return members;
}

std::string inflate(std::string_view from, uint64_t size, const std::string& where) {
  // Deflate shrinks at most 1032:1, so that a damaged size asks for no more memory than that.
  if (size / 1032 > from.size() + 64)
    fail("{}: {} bytes cannot hold the {} that its directory promises: the archive is damaged", where, from.size(),
         size);
  std::string to(size, '\0');
  z_stream z{};
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK) fail("{}: zlib could not be started", where);
  std::size_t in = 0, out = 0;
  int code = Z_OK;
  while (code == Z_OK) {
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    const uInt give = static_cast<uInt>(std::min(from.size() - in, kMost)),
               room = static_cast<uInt>(std::min(to.size() - out, kMost));
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data() + in));
    z.avail_in = give;
    z.next_out = reinterpret_cast<Bytef*>(to.data() + out);
    z.avail_out = room;
    code = ::inflate(&z, Z_NO_FLUSH);
    in += give - z.avail_in;
    out += room - z.avail_out;
    if (give == z.avail_in && room == z.avail_out && code == Z_OK) code = Z_BUF_ERROR;
  }
  inflateEnd(&z);
  if (code != Z_STREAM_END || out != to.size()) fail("{}: its compressed data is damaged", where);
  return to;
}

uint64_t crc_of(std::string_view bytes) {
  return crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

Values read_member(std::string_view bytes, const Member& m, const std::string& where) {
  if (m.flags & 1) fail("{}: is encrypted", where);
  Reader local(bytes, m.offset, where);
  if (local.number(4) != kLocal)
    fail("{}: the archive is damaged: its directory points to byte {}, where no member begins", where, m.offset);
  local.take(22);
  const uint64_t name = local.number(2), extra = local.number(2);
  local.take(name + extra);
  const std::string_view data = local.take(m.compressed);
  std::string inflated;
  if (m.method == 8) inflated = inflate(data, m.size, where);
  else if (m.method != 0)
    fail("{}: compressed by method {}; numpy.savez and numpy.savez_compressed write 0 and 8", where, m.method);
  else if (m.size != m.compressed)
    fail("{}: the archive is damaged: stored in {} bytes, but {} long", where, m.compressed, m.size);
  const std::string_view content = m.method == 0 ? data : std::string_view(inflated);
  if (crc_of(content) != m.crc) fail("{}: its checksum is wrong: the file is damaged", where);
  return parse_npy(content, where);
}

void put(std::string& out, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i));
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
  for (const Member& m : zip_directory(bytes, path)) {
    std::string name = m.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    if (arrays.contains(name)) fail("{}: two arrays are named '{}'", path, name);
    arrays[name] = read_member(bytes, m, fmt::format("{}, array '{}'", path, name));
  }
  return arrays;
}

Arrays read_arrays(const std::string& path) { return parse_arrays(path, read_file(path)); }

void write_npz(const std::string& path, const Arrays& arrays) {
  std::string out, directory;
  for (const auto& [name, values] : arrays) {
    const std::string npy = npy_of(values), member = name + ".npy";
    const uint64_t crc = crc_of(npy), offset = out.size();
    if (npy.size() >= kIn64 || offset + npy.size() >= kIn64)
      fail("{}: array '{}' makes the file larger than 4 GiB, which is not supported", path, name);
    if (member.size() > 0xffff || arrays.size() >= 0xffff) fail("{}: too many arrays, or a name too long", path);
    // version needed 2.0, flags: names are UTF-8, method: stored, a fixed time (1980-01-01), so that equal arrays make
    // equal files
    auto common = [&](std::string& to) {
      put(to, 20, 2), put(to, 0x800, 2), put(to, 0, 2), put(to, 0, 2), put(to, 0x21, 2);
      put(to, crc, 4), put(to, npy.size(), 4), put(to, npy.size(), 4), put(to, member.size(), 2), put(to, 0, 2);
    };
    put(out, kLocal, 4), common(out);
    out += member + npy;
    put(directory, kCentral, 4), put(directory, 20, 2), common(directory);
    put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 4), put(directory, offset, 4);
    directory += member;
  }
  const uint64_t offset = out.size();
  if (offset + directory.size() >= kIn64) fail("{}: the file would be larger than 4 GiB, which is not supported", path);
  out += directory;
  put(out, kEnd, 4), put(out, 0, 4), put(out, arrays.size(), 2), put(out, arrays.size(), 2);
  put(out, directory.size(), 4), put(out, offset, 4), put(out, 0, 2);
  write_file(path, out);
}

}  // namespace partita
