// Computes the shares (share_weights.h) of a kernel's results from those of its operands.
//
// Example: s = sum(k) x[k] over k in [0, 4) of 8, x whole: s weighs the measure of [0, 4), and is partial. Then
// y = exp(s) in the same kernel: exp needs s whole, and `refuse` is called with the tensor s.
#pragma once
#include <functional>
#include <vector>

#include "partita/physical/physical.h"
#include "partita/physical/share_weights.h"

namespace partita::shares {

// Called if a tensor of the formula must be whole and is not.
using Refuse = std::function<void(int tensor)>;

// `held`: by tensor of the formula, the shares that the kernel reads. They are returned with those that its stages
// make.
std::vector<Patches> made_by_kernel(const Task& task, const KernelWork& work, int firing, std::vector<Patches> held,
                                    const Refuse& refuse);

}  // namespace partita::shares
