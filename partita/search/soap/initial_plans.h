// Makes initial plans of the SOAP space (FlexFlow, section 6.2), one configuration for each unit: data parallelism,
// expert designs and drawn ones. Degrees divide both their index's extent and the number of devices: an index of 6 on 4
// devices has 2 shards. So each is in its unit's set (soap_set()).
//
// Worked example: two layers of cells between an embedding and a classifier, on 2 nodes of 4 devices. The expert's
// layers are 0 to 3, and the first cells, of layer 1, are on [1, 5]. Device 1 has half of the samples, device 5 the
// other half.
#pragma once
#include <vector>

#include "partita/search/soap/soap_plan.h"

namespace partita {

// Splits every unit along samples over all devices: in equal shards, the rule data-parallel.
std::vector<SoapConfiguration> data_parallel_configurations(const Graph& graph, const Cluster& cluster,
                                                            const std::vector<SoapUnit>& units);

// FlexFlow, section 8.2.1. Without unrolled cells, fully connected layers (products of a weight without windows) are
// split along their longest output index. All others are split along samples, over all devices (Krizhevsky 2014). With
// cells, each node (node_size(), plan/rules.h) has a share of the samples. Inside a node each layer is on one device,
// layer l on device l modulo the devices of a node (Wu et al. 2016).
std::vector<SoapConfiguration> expert_configurations(const Graph& graph, const Cluster& cluster,
                                                     const std::vector<SoapUnit>& units);

bool is_recurrent(const Graph& graph);  // whether it has unrolled cells

// Returns by unit its depth in layers. All time steps of a cell are one layer, and another op that reads a weight is
// one. A layer is behind its inputs, but for values that cells pass on to other time steps. So cells of an encoder and
// of a decoder are equally deep. An op without a weight (the products of attention) belongs to the layer that reads it,
// the loss to the layer before it.
std::vector<int> depths_of(const Graph& graph, const std::vector<SoapUnit>& units);

}  // namespace partita
