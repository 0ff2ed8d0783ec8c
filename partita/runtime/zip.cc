// Reads and writes zip archives.
#include "partita/runtime/zip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/machine_memory.h"

namespace partita {
namespace {

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

}  // namespace

// ---------------------------------------------------------------- reading

std::vector<ZipMember> zip_directory(std::string_view bytes, const std::string& path) {
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
  std::vector<ZipMember> members;
  Reader entry(bytes, offset, path);
  for (uint64_t i = 0; i < count; ++i) {
    if (entry.number(4) != kCentral) fail("{}: the archive's directory is damaged (entry {})", path, i);
    ZipMember m;
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

namespace {

// The first `size` bytes of the inflated data; `whole`: there are no more.
std::string inflate(std::string_view from, uint64_t size, bool whole, const std::string& where) {
  // Deflate shrinks at most 1032:1, so that a damaged size asks for no more memory than that.
  if (size / 1032 > from.size() + 64)
    fail("{}: {} bytes cannot hold the {} that its directory promises: the archive is damaged", where, from.size(),
         size);
  require_memory(static_cast<int64_t>(size), where);
  std::string to(size, '\0');
  z_stream z{};
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK) fail("{}: zlib could not be started", where);
  std::size_t in = 0, out = 0;
  int code = Z_OK;
  while (code == Z_OK && (whole || out < to.size())) {
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
  if ((whole && code != Z_STREAM_END) || out != to.size()) fail("{}: its compressed data is damaged", where);
  return to;
}

uint64_t crc_of(std::string_view bytes) {
  return crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

// A member's bytes as they are stored.
std::string_view data_of(std::string_view bytes, const ZipMember& m, const std::string& where) {
  if (m.flags & 1) fail("{}: is encrypted", where);
  Reader local(bytes, m.offset, where);
  if (local.number(4) != kLocal)
    fail("{}: the archive is damaged: its directory points to byte {}, where no member begins", where, m.offset);
  local.take(22);
  const uint64_t name = local.number(2), extra = local.number(2);
  local.take(name + extra);
  const std::string_view data = local.take(m.compressed);
  if (m.method != 0 && m.method != 8)
    fail("{}: compressed by method {}; numpy.savez and numpy.savez_compressed write 0 and 8", where, m.method);
  if (m.method == 0 && m.size != m.compressed)
    fail("{}: the archive is damaged: stored in {} bytes, but {} long", where, m.compressed, m.size);
  return data;
}

}  // namespace

std::string_view beginning_of_member(std::string_view bytes, const ZipMember& m, std::size_t most,
                                     const std::string& where, std::string& inflated) {
  const std::string_view data = data_of(bytes, m, where);
  if (m.method == 0) return data.substr(0, most);
  inflated = inflate(data, std::min<uint64_t>(m.size, most), false, where);
  return inflated;
}

std::string_view read_member(std::string_view bytes, const ZipMember& m, const std::string& where,
                             std::string& inflated) {
  const std::string_view data = data_of(bytes, m, where);
  if (m.method == 8) inflated = inflate(data, m.size, true, where);
  const std::string_view content = m.method == 0 ? data : std::string_view(inflated);
  if (crc_of(content) != m.crc) fail("{}: its checksum is wrong: the file is damaged", where);
  return content;
}

// ---------------------------------------------------------------- writing

namespace {

void put(std::string& out, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i));
}

}  // namespace

void add_array(ZipWriter& writer, const std::string& name, std::string_view npy) {
  std::string &out = writer.out, &directory = writer.directory;
  const std::string member = name + ".npy";
  const uint64_t crc = crc_of(npy), offset = out.size();
  if (npy.size() >= kIn64 || offset + npy.size() >= kIn64)
    fail("{}: array '{}' makes the file larger than 4 GiB, which is not supported", writer.path, name);
  if (member.size() > 0xffff || ++writer.count >= 0xffff) fail("{}: too many arrays, or a name too long", writer.path);
  // version needed 2.0, flags: names are UTF-8, method: stored, time: 1980-01-01
  auto common = [&](std::string& to) {
    put(to, 20, 2), put(to, 0x800, 2), put(to, 0, 2), put(to, 0, 2), put(to, 0x21, 2);
    put(to, crc, 4), put(to, npy.size(), 4), put(to, npy.size(), 4), put(to, member.size(), 2), put(to, 0, 2);
  };
  put(out, kLocal, 4), common(out);
  out.append(member).append(npy);
  put(directory, kCentral, 4), put(directory, 20, 2), common(directory);
  put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 4), put(directory, offset, 4);
  directory += member;
}

std::string zip_bytes(ZipWriter writer) {
  std::string& out = writer.out;
  const uint64_t offset = out.size(), size = writer.directory.size();
  if (offset + size >= kIn64) fail("{}: the file would be larger than 4 GiB, which is not supported", writer.path);
  out += writer.directory;
  put(out, kEnd, 4), put(out, 0, 4), put(out, writer.count, 2), put(out, writer.count, 2);
  put(out, size, 4), put(out, offset, 4), put(out, 0, 2);
  return std::move(out);
}

}  // namespace partita
