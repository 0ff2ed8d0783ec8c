// Reads files, whole or in part, into memory, up to a bound.
#include "partita/base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/machine_memory.h"

namespace partita {
namespace {

std::optional<struct stat> found_at(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) == 0) return found;
  return {};
}

// A descriptor and its path.
class Opened {
 public:
  // `flags`: in addition to those for reading.
  Opened(const std::string& path, std::string_view expected, int flags)
      : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | flags)) {
    if (descriptor_ < 0 || fstat(descriptor_, &found_) != 0) refuse(expected);
    if (S_ISDIR(found_.st_mode)) {
      close(descriptor_);
      fail("{}: is a folder, not {}", path, expected);
    }
  }
  ~Opened() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  bool is_regular() const { return S_ISREG(found_.st_mode); }
  bool is_device() const { return S_ISCHR(found_.st_mode); }
  int64_t size() const { return found_.st_size; }
  int release() { return std::exchange(descriptor_, -1); }

  // Bytes that were read, 0 at the end.
  size_t read(char* to, size_t bytes, int64_t at) {
    ssize_t got = 0;
    do got = is_regular() ? pread(descriptor_, to, bytes, at) : ::read(descriptor_, to, bytes);
    while (got < 0 && errno == EINTR);
    if (got < 0) fail("{}: reading it failed after {} bytes: {}", path_, at, std::strerror(errno));
    return static_cast<size_t>(got);
  }

 private:
  [[noreturn]] void refuse(std::string_view expected) {
    const int error = errno;
    if (descriptor_ >= 0) close(descriptor_);
    if (is_folder(path_)) fail("{}: is a folder, not {}", path_, expected);
    fail("{}: cannot be read: {}", path_, std::strerror(error));
  }

  const std::string& path_;
  int descriptor_ = -1;
  struct stat found_ {};
};

// Opens a regular file. Others are not opened, so that nothing waits: a pipe has no ranges.
Opened opened_regular(const std::string& path, std::string_view expected) {
  if (const auto found = found_at(path); found && !S_ISREG(found->st_mode) && !S_ISDIR(found->st_mode))
    fail("{}: is a pipe, a device or a socket; a regular file is needed", path);
  return {path, expected, O_NONBLOCK};
}

[[noreturn]] void refuse_size(const std::string& path, std::string_view expected, int64_t most, bool known,
                              int64_t bytes) {
  if (known) fail("{}: has {} bytes; of {} at most {} are read", path, bytes, expected, most);
  fail("{}: does not end after {} bytes; of {} no more are read", path, most, expected);
}

}  // namespace

std::string read_file(const std::string& path, std::string_view expected, int64_t most) {
  Opened file(path, expected, 0);
  if (file.is_device()) most = std::min(most, kMostOfDevice);
  if (!file.is_regular()) most = std::min(most, kMostOfPipe);
  if (file.is_regular() && file.size() > most) refuse_size(path, expected, most, true, file.size());
  std::string bytes;
  const auto size = static_cast<size_t>(file.is_regular() ? file.size() : 0);
  require_memory(static_cast<int64_t>(size), path);
  bytes.resize(size);
  size_t end = 0;
  while (end < size) {
    const size_t got = file.read(bytes.data() + end, size - end, static_cast<int64_t>(end));
    if (got == 0) break;
    end += got;
  }
  bytes.resize(end);
  std::vector<char> piece(1 << 16);  // for pipes, and files of unknown size, as in /proc
  while (const size_t got = file.read(piece.data(), piece.size(), static_cast<int64_t>(bytes.size()))) {
    bytes.append(piece.data(), got);
    if (static_cast<int64_t>(bytes.size()) > most) refuse_size(path, expected, most, false, 0);
  }
  return bytes;
}

std::string read_range(const std::string& path, int64_t offset, int64_t bytes, std::string_view expected) {
  Opened file = opened_regular(path, expected);
  if (offset < 0 || bytes < 0 || offset > file.size() || bytes > file.size() - offset)
    fail("{}: has {} bytes; bytes {} to {} are wanted", path, file.size(), offset,
         static_cast<uint64_t>(offset) + static_cast<uint64_t>(bytes));
  require_memory(bytes, path);
  std::string data(static_cast<std::size_t>(bytes), '\0');
  for (size_t end = 0; end < data.size();) {
    const size_t got = file.read(data.data() + end, data.size() - end, offset + static_cast<int64_t>(end));
    if (got == 0) fail("{}: ended while it was read", path);
    end += got;
  }
  return data;
}

int64_t size_of_file(const std::string& path, std::string_view expected) {
  return opened_regular(path, expected).size();
}

std::string beginning_of(const std::string& path, int64_t most) {
  if (!is_regular_file(path)) return "";
  try {
    return read_range(path, 0, std::min(most, size_of_file(path)));
  } catch (const Error&) {
    return "";
  }
}

bool leads_somewhere(const std::string& path) { return found_at(path).has_value(); }

bool is_folder(const std::string& path) {
  const auto found = found_at(path);
  return found && S_ISDIR(found->st_mode);
}

bool is_regular_file(const std::string& path) {
  const auto found = found_at(path);
  return found && S_ISREG(found->st_mode);
}

int open_file(const std::string& path, std::string_view expected) { return Opened(path, expected, 0).release(); }

}  // namespace partita
