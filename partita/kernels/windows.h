// The registered kernels of convolutions and pooling, on plans of physical/registered.h.
#pragma once
#include "partita/kernels/tensors.h"
#include "partita/physical/registered.h"

namespace partita {

void run_conv2d(const WindowPlan& plan, const std::vector<Held>& held);
void run_conv2d_data_grad(const WindowPlan& plan, const std::vector<Held>& held);
void run_conv2d_weight_grad(const WindowPlan& plan, const std::vector<Held>& held);
void run_max_pool(const WindowPlan& plan, const std::vector<Held>& held);
void run_max_pool_grad(const WindowPlan& plan, const std::vector<Held>& held, int64_t window_columns);

}  // namespace partita
