// Fuzz target of ONNX files: a file is imported to a graph, which is verified, and its nodes are described.
// Seeds: tests/data/cases/*/*.onnx tests/data/folded/*.onnx examples/*.onnx
#include "partita/onnx/onnx.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "partita/ops/ops.h"
#include "tests/fuzz/targets/reading.h"

namespace partita {
namespace {

// A folder of this process, so that nothing else lies next to the file; removed at the end.
struct Scratch {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("partita-fuzz-{}", getpid());
  Scratch() { std::filesystem::create_directories(folder); }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
};

}  // namespace
}  // namespace partita

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace partita;
  static const Scratch scratch;
  const std::string path = scratch.folder / "model.onnx";
  std::ofstream(path) << text_of(data, size);
  read_or_refuse([&] { (void)describe_onnx(path, {}, standard_ops()); });
  return read_or_refuse([&] { verify(import_onnx(path, {}, standard_ops())); });
}
