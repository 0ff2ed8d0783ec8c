// Collects the declarations of all families.
#include "partita/ops/ops.h"

#include "partita/ops/declare.h"

namespace partita {

std::shared_ptr<const OpRegistry> standard_ops() {
  auto registry = std::make_shared<OpRegistry>();
  declare_elementwise(*registry);
  declare_matmul(*registry);
  declare_conv(*registry);
  declare_pooling(*registry);
  declare_normalization(*registry);
  declare_softmax(*registry);
  declare_loss(*registry);
  declare_reshape(*registry);
  declare_shape(*registry);
  declare_attention(*registry);
  declare_indexing(*registry);
  declare_experts(*registry);
  declare_reduce(*registry);
  declare_recurrent(*registry);
  declare_optimizer(*registry);
  return registry;
}

}  // namespace partita
