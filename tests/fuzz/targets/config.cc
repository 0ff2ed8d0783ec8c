// Fuzz target of Hugging Face's config.json: reads the configuration, and builds and verifies the model's graph.
// Seeds: tests/data/huggingface/tiny-*/config.json
#include "partita/models/huggingface.h"
#include "partita/ops/ops.h"
#include "tests/fuzz/targets/reading.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace partita;
  return read_or_refuse([&] {
    const std::string_view text = text_of(data, size);
    (void)is_huggingface_config(text);
    verify(build_huggingface("config.json", text, {}, standard_ops()).graph);
  });
}
