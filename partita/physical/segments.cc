// Cuts an op's stages into kernels at its inner steps.
#include "partita/physical/segments.h"

#include <iterator>
#include <set>

namespace partita {

std::vector<int> tensors_read(const tdl::Expr& e) {
  std::set<int> tensors;
  tdl::for_each_read(e, [&](const tdl::Expr& read) { tensors.insert(read.tensor); });
  return {tensors.begin(), tensors.end()};
}

Box box_read(const tdl::Derived& derived, const Segment& segment, int tensor, int p) {
  for (const tdl::InnerStep& step : derived.inner)
    if (step.tensor == tensor && step.before_stage == segment.first && !step.needed.empty()) return step.needed[p];
  return derived.boxes[tensor][p];
}

std::vector<Segment> segments_of(const tdl::Bound& bound, const tdl::Derived& derived) {
  const int stages = static_cast<int>(bound.stages.size());
  std::set<int> starts = {0};
  for (const tdl::InnerStep& step : derived.inner) {
    if (step.before_stage < stages) starts.insert(step.before_stage);
    // A halo is fetched for this one stage. Later stages read the stage tensor itself again.
    if (!step.needed.empty() && step.before_stage + 1 < stages) starts.insert(step.before_stage + 1);
  }
  std::vector<Segment> segments;
  std::vector<bool> leaves(bound.tensors.size());
  for (int r : bound.results) leaves[r] = true;
  for (const tdl::InnerStep& step : derived.inner) leaves[step.tensor] = true;
  for (auto it = starts.begin(); it != starts.end(); ++it) {
    Segment segment{*it, std::next(it) == starts.end() ? stages : *std::next(it), {}, {}};
    std::set<int> reads;
    for (int s = segment.first; s < segment.last; ++s)
      for (int t : tensors_read(bound.stages[s].body))
        if (const int made = bound.stage_of(t); made < segment.first) {
          reads.insert(t);
          if (made >= 0) leaves[t] = true;
        }
    segment.reads.assign(reads.begin(), reads.end());
    segments.push_back(std::move(segment));
  }
  for (Segment& segment : segments)
    for (int s = segment.first; s < segment.last; ++s)
      if (leaves[bound.stages[s].tensor]) segment.writes.push_back(bound.stages[s].tensor);
  return segments;
}

std::vector<double> segment_flops(const OpDefinition* definition, const tdl::Bound& bound,
                                  const std::vector<Segment>& segments, const std::vector<Interval>& ranges) {
  if (definition && definition->flops && segments.size() == 1) return {definition->flops(bound, ranges)};
  const std::vector<double> stages = tdl::stage_flops(bound, ranges);
  std::vector<double> flops;
  for (const Segment& segment : segments) {
    flops.push_back(0);
    for (int s = segment.first; s < segment.last; ++s) flops.back() += stages[s];
  }
  return flops;
}

}  // namespace partita
