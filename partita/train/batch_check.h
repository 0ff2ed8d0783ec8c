// Compares a model that was made for another batch than its file's with the file's own, by running both.
#pragma once
#include "partita/pipeline/pipeline.h"
#include "partita/runtime/run.h"

namespace partita {

// Draws inputs for the new batch. Runs the new graph on all of them, and the file's own on as many samples at a time as
// it takes. Compares sample by sample, in the form for evaluation. The import has proved that these are equal
// (partita/graph/rebatch.h). This is another way to the same, which costs two forward passes. Bad input, with the
// output and the sample, if they differ.
void check_other_batch(const OtherBatch& batch, Kernels& kernels);

}  // namespace partita
