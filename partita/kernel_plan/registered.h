// Lists the kernels of single definitions, which run in place of the generic stage kernel. Planning reads the list
// without ATen, and kernels/ implements each `run`.
//
// To add a kernel, add an entry here (its name, its plan's fields, and a place in RegisteredKernel), its `plan` in a
// .cc of this folder, its `run` in a .cc of kernels/. A missing piece does not compile or link.
#pragma once
#include <optional>
#include <string>
#include <variant>

#include "partita/kernel_plan/request.h"

namespace partita {

struct KernelMemory;  // the arguments of a running kernel (kernels/tensors.h)

// Every entry has
//   kDefinition      the definition whose calls it runs
//   plan(request)    its plan of a call; empty if it declines, and the generic stage kernel runs
//   workspace_bytes  the most scratch that it then uses
//   run(memory)      the kernel itself, in kernels/

// ---------------------------------------------------------------- convolutions and pooling (windows.cc)

// One spatial axis of a convolution or pooling. Element `at` of the input lies under element k of the window of result
// element `out` if at = out * stride + k * dilation - before.
struct WindowAxis {
  int64_t stride = 1, dilation = 1, before = 0;
  Interval out, at, window;  // global; `at`: the held shard, or the wanted one

  // The elements of `out` whose element k of the window is in `at`, and the first of those there.
  Interval outs(int64_t k) const;
  int64_t input(int64_t o, int64_t k) const { return o * stride + k * dilation - before; }
};

// A tensor of the formula, and its held shard over the kernels' axes: those as stored, with channels split into groups
// if there are groups. Formulas factor them in other ways (TDL.md rule 4).
struct WindowTensor {
  int tensor = -1;
  TensorShard shard;
};

struct WindowPlan {
  WindowTensor x, w, g, b;     // operands, as the kernel names them
  WindowTensor result, index;  // written; max_pool_grad reads the index
  WindowAxis rows, columns;
  Interval n, q, c, o;  // q: groups, [0, 1) if there are none
  bool grouped = false;
  bool depthwise = false;        // groups of one input channel and few outputs: no products of matrices
  int64_t block = 1;             // rows of the result, channels, or groups (depthwise) that run at once
  int64_t window_columns = 0;    // of a whole pooling window
  DType real = DType::kFloat32;  // computation dtype: operands of another dtype are copied, so is the result
  int64_t workspace_bytes = 0;
};

struct Conv2d : WindowPlan {
  static constexpr const char* kDefinition = "conv2d";
  static std::optional<Conv2d> plan(const KernelRequest& request);
  void run(const KernelMemory& memory) const;
};
struct Conv2dDataGrad : WindowPlan {
  static constexpr const char* kDefinition = "conv2d_data_grad";
  static std::optional<Conv2dDataGrad> plan(const KernelRequest& request);
  void run(const KernelMemory& memory) const;
};
struct Conv2dWeightGrad : WindowPlan {
  static constexpr const char* kDefinition = "conv2d_weight_grad";
  static std::optional<Conv2dWeightGrad> plan(const KernelRequest& request);
  void run(const KernelMemory& memory) const;
};
struct MaxPool : WindowPlan {
  static constexpr const char* kDefinition = "max_pool";
  static std::optional<MaxPool> plan(const KernelRequest& request);
  void run(const KernelMemory& memory) const;
};
struct MaxPoolGrad : WindowPlan {
  static constexpr const char* kDefinition = "max_pool_grad";
  static std::optional<MaxPoolGrad> plan(const KernelRequest& request);
  void run(const KernelMemory& memory) const;
};

// ---------------------------------------------------------------- places (places.cc)

// The place of each choice [g, t, k] at its expert: how many choices of that expert among [g, u, l] come before it.
struct ExpertPlace {
  static constexpr const char* kDefinition = "expert_place";
  static std::optional<ExpertPlace> plan(const KernelRequest& request);
  void run(const KernelMemory& memory) const;

  int ix = -1, result = -1;  // tensors of the formula
  Interval g, t, k, u, l;
  int64_t workspace_bytes = 0;
};

// Numbers of places, counted from the front, in `box`: among extents[0] places, or among extents[k] at k along the last
// axis. A number outside its extent is reported to the call, and place 0 replaces it.
struct Places {
  static constexpr const char* kDefinition = "places";
  static std::optional<Places> plan(const KernelRequest& request);
  void run(const KernelMemory& memory) const;

  int ids = 0, result = -1;  // tensors of the formula
  Box box;
  Shape shape;  // of all ids, over their factored axes
  std::vector<int64_t> extents;
  int64_t workspace_bytes = 0;
};

// ---------------------------------------------------------------- all of them

using RegisteredKernel =
    std::variant<Conv2d, Conv2dDataGrad, Conv2dWeightGrad, MaxPool, MaxPoolGrad, ExpertPlace, Places>;

bool is_registered(const std::string& definition);
// Plans the kernel of a call; empty means the generic stage kernel.
std::optional<RegisteredKernel> plan_registered(const KernelRequest& request);

}  // namespace partita
