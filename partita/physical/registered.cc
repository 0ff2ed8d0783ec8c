// Which calls the registered kernels take, and what scratch they need: the counterpart of kernels/registered.cc.
#include "partita/physical/workspace.h"

namespace partita {

bool is_registered(const std::string&) { return false; }

std::optional<int64_t> registered_workspace_bytes(const KernelWork&, const std::vector<Interval>&, const KernelParts&) { return std::nullopt; }

}  // namespace partita
