// Writes files for commands: whole by a rename, or through if the path is no regular file.
#include "partita/base/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/interrupt.h"

namespace partita {
namespace {

namespace fs = std::filesystem;

constexpr int kLinksAtMost = 40;  // as in Linux's own path resolution
constexpr mode_t kModeBeforeUmask = 0666;
constexpr std::chrono::milliseconds kBetweenTries(20);

[[noreturn]] void refuse(const std::string& path, int error) {
  fail("{}: cannot be written: {}", path, std::strerror(error));
}

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

// The end of a path's links.
struct Target {
  fs::path file;  // no link; need not exist
  std::optional<struct stat> exists;
  int descriptor = -1;   // our descriptor that already writes to it
  bool through = false;  // written in place, not renamed onto
};

Target target_of(const std::string& path) {
  Target target{path, std::nullopt, -1, false};
  struct stat found;
  if (stat(path.c_str(), &found) == 0) target.exists = found;
  else if (errno != ENOENT) refuse(path, errno);
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target.file, error)); ++links) {
    if (links == kLinksAtMost) refuse(path, ELOOP);
    const fs::path to = fs::read_symlink(target.file, error);
    if (error) refuse(path, error.value());
    target.file = to.is_absolute() ? to : target.file.parent_path() / to;
  }
  if (!target.exists) return target;
  if (S_ISDIR(found.st_mode)) fail("{}: cannot be written: it is a folder", path);
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat open;
    if (fstat(descriptor, &open) == 0 && same_file(open, found) && target.descriptor < 0)
      target.descriptor = descriptor;
  }
  // The links in /proc/self/fd need not lead to their files.
  struct stat reached;
  const bool led = lstat(target.file.c_str(), &reached) == 0 && same_file(reached, found);
  target.through = target.descriptor >= 0 || !S_ISREG(found.st_mode) || !led;
  return target;
}

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

struct Descriptor {
  int number = -1;
  explicit Descriptor(int opened) : number(opened) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  // 0, or the error.
  int close() {
    const int open = std::exchange(number, -1);
    return open >= 0 && ::close(open) != 0 ? errno : 0;
  }
};

// Opens a file that is not regular. A FIFO is opened once it has a reader.
int open_through(const std::string& path, const Target& target) {
  const int flags = O_WRONLY | O_CLOEXEC | (S_ISREG(target.exists->st_mode) ? O_TRUNC : 0);
  if (!S_ISFIFO(target.exists->st_mode)) return open(path.c_str(), flags);
  const bool before = interrupted;
  while (true) {
    const int descriptor = open(path.c_str(), flags | O_NONBLOCK);
    if (descriptor >= 0 || errno != ENXIO) return descriptor;
    if (interrupted && !before)
      throw Error(ExitCode::kInterrupted, fmt::format("{}: interrupted while it waited for a reader", path));
    std::this_thread::sleep_for(kBetweenTries);
  }
}

// Writes like write_all to a non-blocking descriptor: a signal ends the wait for a slow reader.
int write_waiting(const std::string& path, int descriptor, std::span<const std::string_view> pieces) {
  const bool before = interrupted;
  for (std::string_view piece : pieces)
    while (!piece.empty()) {
      const std::string_view now = piece.substr(0, PIPE_BUF);
      const int error = write_all(descriptor, std::span(&now, 1));
      if (error == 0) piece.remove_prefix(now.size());
      else if (error != EAGAIN) return error;
      else if (interrupted && !before)
        throw Error(ExitCode::kInterrupted, fmt::format("{}: interrupted while it waited for its reader", path));
      else {
        pollfd ready{descriptor, POLLOUT, 0};
        poll(&ready, 1, static_cast<int>(kBetweenTries.count()));
      }
    }
  return 0;
}

void write_through(const std::string& path, const Target& target, std::span<const std::string_view> pieces) {
  if (target.descriptor >= 0) {
    std::fflush(target.descriptor == STDOUT_FILENO ? stdout : stderr);
    if (const int error = write_all(target.descriptor, pieces)) refuse(path, error);
    return;
  }
  Descriptor to(open_through(path, target));
  if (to.number < 0) refuse(path, errno);
  const bool fifo = S_ISFIFO(target.exists->st_mode);
  const int error = fifo ? write_waiting(path, to.number, pieces) : write_all(to.number, pieces);
  if (const int at_end = to.close(); error || at_end) refuse(path, error ? error : at_end);
}

}  // namespace

int write_all(int descriptor, std::span<const std::string_view> pieces) {
  sigset_t pipe, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  int error = 0;
  for (std::string_view piece : pieces)
    while (!piece.empty() && error == 0) {
      const ssize_t written = write(descriptor, piece.data(), piece.size());
      if (written >= 0) piece.remove_prefix(static_cast<size_t>(written));
      else if (errno != EINTR) error = errno;
    }
  const timespec now{};
  if (error == EPIPE && !sigismember(&before, SIGPIPE)) sigtimedwait(&pipe, nullptr, &now);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

void write_file(const std::string& path, std::span<const std::string_view> pieces) {
  const Target target = target_of(path);
  if (target.through) return write_through(path, target, pieces);
  // The name is unique: another writer of the same file at the same time has another number.
  const std::string partial = fmt::format("{}.{}.partial", target.file.string(), getpid());
  const DelayInterrupt whole;
  const RemovedAtEnd partly(partial);
  std::remove(partial.c_str());
  const int descriptor = open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kModeBeforeUmask);
  if (descriptor < 0) refuse(path, errno);
  int error = write_all(descriptor, pieces);
  if (target.exists && fchmod(descriptor, target.exists->st_mode & 07777) != 0 && error == 0) error = errno;
  if (close(descriptor) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(partial.c_str(), target.file.c_str()) != 0) error = errno;
  if (error == 0) return;
  std::remove(partial.c_str());
  refuse(path, error);
}

void write_file(const std::string& path, std::string_view bytes) { write_file(path, std::span(&bytes, 1)); }

bool is_replaced(const std::string& path) { return !target_of(path).through; }

WriteLock::WriteLock(const std::string& path)
    : folder_(open(folder_of(target_of(path).file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (folder_ < 0) return;
  while (flock(folder_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

WriteLock::~WriteLock() {
  if (folder_ >= 0) close(folder_);
}

void validate_writable(const std::string& path) {
  if (path.empty()) return;
  const Target target = target_of(path);
  if (target.descriptor >= 0) return;
  const fs::path what = target.through ? target.file : folder_of(target.file);
  if (access(what.c_str(), W_OK) != 0 && !(target.through && access(path.c_str(), W_OK) == 0)) refuse(path, errno);
}

}  // namespace partita
