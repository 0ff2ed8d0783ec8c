// Tests first calls of kernels by several threads. partita_first_calls N [bare]: N processes, in each of which three
// threads call their first functions at once. All must get the same bits, and none may make MKL find out which
// processor it runs on. `bare` leaves out the kernels' setup before threads run, to show its purpose: all then find
// out, and some in a thousand differ.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "partita/base/rng.h"
#include "partita/kernels/kernels.h"
#include "partita/kernels/tensors.h"

// MKL asks its own function whether the processor is its maker's. This one stands in its place, so that the same tables
// are chosen from everywhere; on others the number that is written first happens to be the right one.
extern "C" int mkl_serv_intel_cpu_true() { return 1; }

static std::atomic<int> found_out = 0;

// MKL's answer, in the first of its two numberings (kernels/tensors.h, set_up_functions).
extern "C" int mkl_serv_vml_cpu_detect() {
  ++found_out;
  static const auto kOwn = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "mkl_serv_vml_cpu_detect"));
  return kOwn();
}

namespace partita {
namespace {

constexpr int kThreads = 3, kElements = 65;
constexpr const char* kFunctions[] = {"sqrt", "log", "exp", "tanh", "sin", "erf"};

template <typename T>
bool all_equal(const std::string& function, uint64_t seed) {
  std::vector<T> in(kElements);
  for (int i = 0; i < kElements; ++i) in[static_cast<size_t>(i)] = static_cast<T>(0.3 + 0.37 * i);
  std::vector<std::vector<T>> out(kThreads, std::vector<T>(kElements));
  std::vector<std::thread> threads;
  std::atomic<int> come = 0;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const DType dtype = sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64;
      at::Tensor a = tensor_over(reinterpret_cast<std::byte*>(in.data()), dtype, {kElements}, {1});
      at::Tensor b =
          tensor_over(reinterpret_cast<std::byte*>(out[static_cast<size_t>(t)].data()), dtype, {kElements}, {1});
      ++come;
      while (come < kThreads) std::this_thread::yield();
      Rng rng(seed * kThreads + static_cast<uint64_t>(t));
      std::atomic<uint64_t> turns = rng.below(300);  // a microsecond or two, so that the calls meet in all ways
      while (turns > 0) --turns;
      unary_function(function)(b, a);
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& other : out)
    if (std::memcmp(other.data(), out[0].data(), kElements * sizeof(T)) != 0) return false;
  return true;
}

int run(int processes, bool bare) {
  int different = 0, late = 0;
  for (int i = 0; i < processes; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      if (!bare) make_aten_kernels();
      found_out = 0;
      const std::string function = kFunctions[i % std::size(kFunctions)];
      const bool equal = i / std::size(kFunctions) % 2 ? all_equal<float>(function, static_cast<uint64_t>(i))
                                                       : all_equal<double>(function, static_cast<uint64_t>(i));
      _exit((equal ? 0 : 1) + (found_out > 0 ? 2 : 0));
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) > 3) {
      std::fprintf(stderr, "process %d ended with status %d\n", i, status);
      return 2;
    }
    different += WEXITSTATUS(status) & 1;
    late += WEXITSTATUS(status) / 2;
  }
  std::printf("of %d processes %d differ between threads, in %d threads find out about the processor\n", processes,
              different, late);
  return different + late > 0 ? 1 : 0;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return partita::run(std::atoi(argv[1]), argc > 2 && std::string(argv[2]) == "bare");
}
