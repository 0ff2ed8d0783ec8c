// Reduces over dimensions, and gives the identities of reducers.
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/sum.h>

#include <limits>

#include "partita/base/error.h"
#include "partita/kernels/tensors.h"

namespace partita {

void reduce_into(at::Tensor& out, tdl::Reducer reducer, const at::Tensor& a, const std::vector<int64_t>& dims) {
  switch (reducer) {
    case tdl::Reducer::kSum:
      at::sum_out(out, a, dims, /*keepdim=*/true, a.scalar_type());
      break;
    case tdl::Reducer::kMax:
      at::amax_out(out, a, dims, /*keepdim=*/true);
      break;
    case tdl::Reducer::kMin:
      at::amin_out(out, a, dims, /*keepdim=*/true);
      break;
    case tdl::Reducer::kProd:
      ensure(dims.size() == 1, "a product is taken over one dimension at a time");
      at::prod_out(out, a, dims[0], /*keepdim=*/true, a.scalar_type());
      break;
  }
}

void fill_identity(at::Tensor& out, tdl::Reducer reducer) {
  const double identity = tdl::identity_of(reducer);
  if (out.is_floating_point()) out.fill_(identity);
  else if (reducer == tdl::Reducer::kSum || reducer == tdl::Reducer::kProd) out.fill_(static_cast<int64_t>(identity));
  else if (out.scalar_type() == at::kBool) out.fill_(reducer == tdl::Reducer::kMin);
  else
    out.fill_(reducer == tdl::Reducer::kMax ? std::numeric_limits<int64_t>::min()
                                            : std::numeric_limits<int64_t>::max());
}

}  // namespace partita
