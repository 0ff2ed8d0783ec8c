#include <dlfcn.h>

#include <filesystem>

#include "partita/base/error.h"
#include "partita/cli/commands.h"

namespace partita {

Kernels& load_kernels() {
  static const std::unique_ptr<Kernels> kKernels = [] {
    auto path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libpartita_engine.so";
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail("can't load the kernels: {}; build all targets, or plan without running", dlerror());
    auto make = reinterpret_cast<Kernels* (*)()>(dlsym(library, "partita_make_aten_kernels"));
    if (!make) fail("{} is of another version: {}", path.string(), dlerror());
    return std::unique_ptr<Kernels>(make());
  }();
  return *kKernels;
}

}  // namespace partita
