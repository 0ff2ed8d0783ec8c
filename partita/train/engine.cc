// Finds and loads the shared library that has the kernels.
#include "partita/train/engine.h"

#include <dlfcn.h>

#include <filesystem>
#include <memory>

#include "partita/base/error.h"

namespace partita {
namespace {

constexpr const char* kEngine = "libpartita_engine.so";

std::string engine_file() {
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const auto& candidate : {folder / kEngine, folder.parent_path() / "lib" / kEngine})
    if (std::filesystem::exists(candidate)) return candidate;
  return kEngine;
}

[[noreturn]] void refuse(const std::string& error) {
  for (const char* no_memory : {"failed to map segment", "cannot map", "annot allocate memory"})
    if (error.find(no_memory) != std::string::npos)
      throw Error(ExitCode::kInfeasible,
                  fmt::format("this machine has too little memory to load the kernels: {}", error));
  fail("can't load the kernels: {}; build all targets, or plan without running", error);
}

}  // namespace

Kernels& load_kernels() {
  static const std::unique_ptr<Kernels> kKernels = [] {
    const std::string file = engine_file();
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) refuse(dlerror());
    auto make = reinterpret_cast<Kernels* (*)()>(dlsym(library, "partita_make_aten_kernels"));
    if (!make) fail("{} is of another version: {}", file, dlerror());
    return std::unique_ptr<Kernels>(make());
  }();
  return *kKernels;
}

}  // namespace partita
