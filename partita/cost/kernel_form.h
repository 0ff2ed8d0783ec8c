// Recognises the matrix products of a kernel, and whether they are attention, from the formula whose stages it runs;
// never from an op's name.
//
// Example: the gradients of attention, one kernel, have five products. The first one's values go through an exponential
// into the others and are no result. So the kernel is fused attention of its first product's size.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "partita/cost/kernel.h"
#include "partita/cost/second_pass.h"
#include "partita/tdl/products.h"

namespace partita {

// The form of stages [first, last), for any ranges.
struct KernelForm {
  std::vector<tdl::MatrixProduct> products;
  std::vector<tdl::StagePoints> stages;
  bool fused_attention = false;
  SecondPasses second_passes;  // of kernels without products
};
KernelForm kernel_form_of(const tdl::Bound& bound, int first, int last);

// Makes the kernel over these ranges, in which `flops` were counted; without rates and bytes.
KernelSize kernel_size_over(const KernelForm& form, const std::vector<Interval>& ranges, double flops);

// Forms of formulas, each looked at once. Safe from several threads.
class KernelFormCache {
 public:
  const KernelForm& of(const std::shared_ptr<const tdl::Bound>& bound, int first, int last);

 private:
  std::mutex mutex_;
  std::map<std::tuple<std::shared_ptr<const tdl::Bound>, int, int>, std::unique_ptr<const KernelForm>> known_;
};

}  // namespace partita
