// Fuzz target of safetensors files: the header, and the arrays that it describes.
// Seeds: tests/data/huggingface/tiny-*/*.safetensors
#include "partita/runtime/safetensors.h"

#include "tests/fuzz/targets/reading.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace partita;
  return read_or_refuse([&] { (void)parse_safetensors("model.safetensors", text_of(data, size)); });
}
