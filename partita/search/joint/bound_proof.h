// A proved lower bound of a plan search, with what it takes to build its cost network again beside any plan of the same
// model.
//
// Worked example: `partita plan zoo:mlp --devices 4 --search exact -o p.json --write-bound b.json` writes the proof,
// and `partita check p.json --bound b.json` calls check_proof(): the network of p.json's model on mesh [2, 2] is built
// again, the certificate is judged on it, and the bound in bytes is returned, whatever plan of the space p.json is.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/network/certificate.h"
#include "partita/search/search.h"

namespace partita {

struct BoundProof {
  // The space: every plan of the model whose ops and tensors are as the search has them on this mesh, within the limit.
  std::string search, objective;  // objective: as text_of() has it; check_proof() refuses another
  Mesh mesh;
  int64_t memory_limit_bytes = 0;                       // of the network, on the device that holds most
  std::vector<std::string> pinned_ops, pinned_tensors;  // are as in the plan that it is judged with
  std::string model_sha256;                             // filled in by who knows the model
  int variables = 0;                                    // of the network
  int64_t tensor_entries = 0;                           // JointLimits::tensor_entries, which says what has variables
  solver::Certificate certificate;
};

// JSON: a certificate of the schema docs/reference/certificate.schema.json, with the space beside it. Reading throws
// (bad input), naming the place.
std::string print_proof(const BoundProof& proof);
BoundProof parse_proof(const std::string& text, const std::string& file);

// Builds the network of the plan's own graph and cluster and judges the certificate on it, in partita/network, which
// shares nothing with the solver. The bound; throws (bad input) where the proof is of another model, cluster or space,
// or does not hold.
int64_t check_proof(const BoundProof& proof, const Graph& graph, const Cluster& cluster, const Plan& plan);

}  // namespace partita
