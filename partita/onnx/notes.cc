// Writes the notes for a person on an imported file.
#include <algorithm>

#include "partita/base/enum_words.h"
#include "partita/base/error.h"
#include "partita/onnx/onnx.h"

namespace partita {
namespace {

constexpr EnumWords<OnnxNode::Fate::kUnsupported> kFates({"imported", "folded", "unused", "behind an unsupported node",
                                                          "unsupported"});

// "3 values that .. are not trained: a, b, c and 2 more".
std::string listed_note(const std::vector<std::string>& all, std::string_view one, std::string_view many) {
  constexpr std::size_t kNamed = 3;
  const std::string more = all.size() > kNamed ? fmt::format(" and {} more", all.size() - kNamed) : "";
  return fmt::format(
      "{} {}: {}{}", all.size(), all.size() == 1 ? one : many,
      fmt::join(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kNamed)), ", "), more);
}

}  // namespace

std::string_view name_of(OnnxNode::Fate fate) { return kFates.of(fate); }

std::vector<std::string> shape_notes(const OnnxFindings& findings) {
  std::vector<std::string> notes;
  if (!findings.other_shapes.empty())
    notes.push_back(listed_note(findings.other_shapes, "value has another shape than the file declares",
                                "values have other shapes than the file declares") +
                    "; what it declares may be left from an example of other extents");
  if (!findings.rounded.empty())
    notes.push_back(listed_note(findings.rounded, "extent depends on how a product is rounded",
                                "extents depend on how a product is rounded") +
                    "; export the model with sizes instead of scales, or with the shapes of its values");
  return notes;
}

std::vector<std::string> training_notes(const OnnxFindings& findings) {
  std::vector<std::string> notes = findings.notes;
  for (const std::vector<std::string>& more : {shape_notes(findings), findings.batch})
    notes.insert(notes.end(), more.begin(), more.end());
  if (!findings.untrained.empty())
    notes.push_back(listed_note(findings.untrained, "value that the exporter computed from parameters is not trained",
                                "values that the exporter computed from parameters are not trained") +
                    ", export with optimize=False");
  if (!findings.with_normalization.empty())
    notes.push_back(listed_note(findings.with_normalization,
                                "convolution has a batch normalization in its weight, and is trained without",
                                "convolutions have a batch normalization in their weights, and are trained without") +
                    ", export with optimize=False, or with dynamo=False and training=TrainingMode.PRESERVE");
  if (!findings.perhaps_buffers.empty())
    notes.push_back(listed_note(findings.perhaps_buffers,
                                "array is trained that may be a buffer: the file does not say",
                                "arrays are trained that may be buffers: the file does not say") +
                    ", export with dynamo=True");
  if (!findings.assumed_loss.empty()) notes.push_back(findings.assumed_loss);
  return notes;
}

}  // namespace partita
