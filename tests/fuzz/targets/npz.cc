// Fuzz target of NumPy's files, .npy and .npz: zip archives, deflated members and array headers.
// Seeds: tests/data/*.npz tests/data/cases/*/*.npz examples/*.npz
#include "partita/runtime/npz.h"

#include "tests/fuzz/targets/reading.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace partita;
  return read_or_refuse([&] { (void)parse_arrays("arrays.npz", text_of(data, size)); });
}
