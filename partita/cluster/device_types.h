// Reads the device types of a cluster file. Internal to cluster/.
//
// Example: K80: {kind: gpu, peak_tflop_per_s: {float32: 4.37, float64: 1.46}, memory_gibytes: 12, ..} is a Device of
// model K80. It has 4.37e12 float32 FLOP/s and 12 x 2^30 bytes, and no name and host yet.
#pragma once
#include <map>
#include <string>

#include "partita/cluster/cluster.h"
#include "partita/cluster/validation.h"
#include "partita/cluster/yaml.h"

namespace partita::cluster_file {

std::map<std::string, Device> read_types(const Reader& r, const YAML::Node& types);  // by model

// Reads the rows of a type's collective library (library.h); `what` names the type in messages.
Library read_library(const Reader& r, const YAML::Node& rows, const std::string& what);

// Reads a type's `validation`, a map of three figures.
Validation read_validation(const Reader& r, const YAML::Node& node, const std::string& device);

}  // namespace partita::cluster_file
