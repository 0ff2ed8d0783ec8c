// Makes the id under which a profile knows a kernel (profile/profile.h), from a task or an op of a plan.
//
// Example: stages [0, 1) of linear over n = [0, 16), k = [0, 64), o = [32, 64) are "linear n.0=16 k=64 o=32".
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "partita/physical/physical.h"
#include "partita/profile/profile.h"

namespace partita {

// The elements that a kernel reads or writes of a tensor of its formula.
struct TensorAccess {
  int tensor = -1;
  DType dtype = DType::kFloat32;
  int64_t elements = 0;
  bool written = false;
};

// Returns a hash of a formula's text without numbers, as 16 hexadecimal digits. It is equal for the same formula over
// other extents.
std::string formula_hash(const tdl::Bound& bound);

KernelId kernel_id(const std::string& definition, const tdl::Attributes& attributes, const tdl::Bound& bound,
                   std::string form, int first_stage, int last_stage, const std::vector<Interval>& ranges,
                   const std::vector<TensorAccess>& tensors);
// Returns the id of a task's kernel in one firing; the first firing if all are alike.
KernelId kernel_id(const PhysicalGraph& graph, const Task& task, const KernelWork& work, std::string form,
                   int firing = 0);

// Hashes of formulas, each made once. Safe from several threads.
class FormulaHashCache {
 public:
  const std::string& of(const std::shared_ptr<const tdl::Bound>& bound);

 private:
  std::mutex mutex_;
  std::map<std::shared_ptr<const tdl::Bound>, std::string> known_;
};

}  // namespace partita
