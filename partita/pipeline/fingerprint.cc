// Computes the SHA-256 of a graph's text, by which a plan recognises the graph that it was made for.
#include "partita/pipeline/fingerprint.h"

#include <fmt/format.h>
#include <nettle/sha2.h>

namespace partita {

Graph without_weights(Graph graph) {
  for (Tensor& t : graph.tensors)
    if (t.role == Role::kParameter || t.role == Role::kState) t.values = nullptr;
  return graph;
}

std::string fingerprint(const Graph& graph) {
  const std::string text = print(without_weights(graph));
  sha256_ctx context;
  sha256_init(&context);
  sha256_update(&context, text.size(), reinterpret_cast<const uint8_t*>(text.data()));
  uint8_t digest[SHA256_DIGEST_SIZE];
  sha256_digest(&context, sizeof digest, digest);
  std::string hex;
  for (uint8_t byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace partita
