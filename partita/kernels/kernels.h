// Makes kernels that run on ATen, behind runtime/kernel.h. No ATen header is needed to use them.
#pragma once
#include <cstdint>
#include <memory>

#include "partita/kernel_plan/kernel_plan.h"
#include "partita/runtime/kernel.h"

namespace partita {

// ATen's own threads are set to 1: queues run in parallel instead. Its allocator is replaced, once a process. While a
// kernel runs, its temporaries lie in the call's scratch; any that do not fit are allocated elsewhere and counted as
// live_bytes.
std::unique_ptr<Kernels> make_aten_kernels(const KernelOptions& options = {});

// The most scratch that a call has used since the last reset.
int64_t scratch_peak_bytes(const Kernels& kernels);

}  // namespace partita

// For a program that loads the engine's library at run time. The caller owns the result.
extern "C" partita::Kernels* partita_make_aten_kernels();
