// Writes the folder of --dump: one file a step, numbered in the order of the steps.
#include "partita/pipeline/runner.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "partita/base/error.h"
#include "partita/base/output_file.h"

namespace partita {

Runner::Runner(bool verify, std::string dump_folder) : verify_(verify), dump_folder_(std::move(dump_folder)) {
  if (dump_folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(dump_folder_, error);
  if (error) fail("{}: the folder cannot be made: {}", dump_folder_, error.message());
  if (access(dump_folder_.c_str(), W_OK | X_OK) != 0)
    fail("{}: the folder cannot be written: {}", dump_folder_, std::strerror(errno));
}

void Runner::dump(const std::string& name, const Printed& printed) const {
  std::string file = fmt::format("{:02}-{}.{}", timings_.size(), name, printed.ending);
  for (char& c : file)
    if (c == ' ') c = '-';
  write_file((std::filesystem::path(dump_folder_) / file).string(), printed.text);
}

}  // namespace partita
