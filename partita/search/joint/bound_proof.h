// Carries a proved lower bound of a plan search. A checker can build its cost network again from it, beside any plan of
// the same model.
//
// Worked example: `partita plan zoo:mlp --devices 4 --search exact -o p.json --write-bound b.json` writes the proof.
// `partita check p.json --bound b.json` calls check_proof(). It builds the network of p.json's model on mesh [2, 2]
// again, checks the certificate on it, and returns the bound in bytes. p.json may be any plan of the space.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/network/certificate.h"
#include "partita/search/search.h"

namespace partita {

struct BoundProof {
  // The space: every plan of the model within the limit whose ops and tensors are as the search has them on this mesh.
  std::string search, objective;  // objective: as text_of() has it; check_proof() refuses another
  Mesh mesh;
  int64_t memory_limit_bytes = 0;                       // of the network, on the device with the highest use
  std::vector<std::string> pinned_ops, pinned_tensors;  // pinned to the values of the plan that is checked
  std::string model_sha256;                             // set by the caller that has the model's file
  int variables = 0;                                    // of the network
  int64_t tensor_entries = 0;                           // JointLimits::tensor_entries, which decides what has variables
  solver::Certificate certificate;
};

// Prints JSON: a certificate of the schema docs/reference/certificate.schema.json, with the space beside it. Reading
// throws (bad input), naming the place.
std::string print_proof(const BoundProof& proof);
BoundProof parse_proof(const std::string& text, const std::string& file);

// Builds the network of the plan's own graph and cluster and checks the certificate on it, in partita/network, which
// shares nothing with the solver. Returns the bound. Throws (bad input) if the proof is of another model, cluster or
// space, or does not hold.
int64_t check_proof(const BoundProof& proof, const Graph& graph, const Cluster& cluster, const Plan& plan);

}  // namespace partita
