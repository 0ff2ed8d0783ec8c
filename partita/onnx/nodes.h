// Reads the nodes of an ONNX file: local functions inlined, subgraphs read, and in an order that can be run.
#pragma once
#include <onnx/onnx.pb.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "partita/onnx/model.h"

namespace partita::onnx_model {

// Versions by domain, "" for ONNX's own.
using Opsets = std::map<std::string, int64_t>;
Opsets opsets_of(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports);

// The nodes of a model's graph, calls of local functions replaced by their bodies, in the file's order.
std::vector<Node> read_nodes(const onnx::ModelProto& model, const std::string& path, const Opsets& opsets);

// Returns nodes in an order in which each follows those that it reads; the file's own order if that is one already.
// `known`: values that are there before them. A subgraph may also read names that nothing makes, from outside.
std::vector<Node> sorted(std::vector<Node> nodes, const std::string& path, const std::set<std::string>& known,
                         bool is_subgraph);

}  // namespace partita::onnx_model
