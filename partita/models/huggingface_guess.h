// Recognizes a configuration without model_type, for its error.
#pragma once
#include <string>
#include <vector>

namespace partita {

// Returns one clause for an error: "it looks like one of BERT as Google published it (type_vocab_size, pooler_type);
// pass --bind architecture=BertForMaskedLM". `keys`: the configuration's fields. Empty: like none that we know.
std::string looks_like(const std::vector<std::string>& keys);

}  // namespace partita
