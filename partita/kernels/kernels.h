// Kernels that run on ATen, behind runtime/kernel.h. No ATen header is needed to use them.
#pragma once
#include <cstdint>
#include <memory>

#include "partita/kernel_plan/kernel_plan.h"
#include "partita/runtime/kernel.h"

namespace partita {

// ATen's own threads are set to 1: the queues are what runs in parallel. Its allocator is replaced, once a process:
// while a kernel runs, its temporaries lie in the call's scratch; what does not fit is allocated elsewhere and counted
// as live_bytes.
std::unique_ptr<Kernels> make_aten_kernels(const KernelOptions& options = {});

// What the calls since the last reset used of their scratch, at most.
int64_t scratch_peak_bytes(const Kernels& kernels);

}  // namespace partita

// For a program that loads the engine's library at run time. The caller owns the result.
extern "C" partita::Kernels* partita_make_aten_kernels();
