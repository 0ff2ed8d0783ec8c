// Reads zip archives of stored or deflated members, and writes stored ones. Format: PKWARE's APPNOTE.TXT.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace partita {

struct ZipMember {
  std::string name;
  uint64_t flags = 0, method = 0, crc = 0, compressed = 0, size = 0, offset = 0;
};
// Bad input names `path`, or `where`.
std::vector<ZipMember> zip_directory(std::string_view bytes, const std::string& path);
// The first bytes of a member's content, at most so many; the checksum is not looked at.
std::string_view beginning_of_member(std::string_view bytes, const ZipMember& m, std::size_t most,
                                     const std::string& where, std::string& inflated);
// A member's content: part of `bytes`, or of `inflated`, which it may fill.
std::string_view read_member(std::string_view bytes, const ZipMember& m, const std::string& where,
                             std::string& inflated);

// An archive while it is written.
struct ZipWriter {
  std::string path;  // for messages
  std::string out, directory;
  uint64_t count = 0;
};
// The member NAME.npy. Equal members make equal archives: they have one fixed time.
void add_array(ZipWriter& writer, const std::string& name, std::string_view npy);
// The archive's bytes.
std::string zip_bytes(ZipWriter writer);

}  // namespace partita
