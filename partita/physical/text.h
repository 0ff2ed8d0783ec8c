// Lists the words that the printer and the parser of PhysicalGraphs share.
#pragma once
#include "partita/base/enum_words.h"
#include "partita/physical/physical.h"

namespace partita::text {

constexpr EnumWords<QueueKind::kParameterCollective> kQueueKinds({"compute", "host", "link", "collective",
                                                                  "parameter-collective"});
constexpr EnumWords<EdgeKind::kPlan> kEdgeKinds({"data", "act", "queue", "reuse", "plan"});
constexpr EnumWords<Task::Turn::kLazy> kTurns({"in-place", "eager", "lazy"});
constexpr EnumWords<Phase::kUpdate> kPhases({"forward", "backward", "update"});
constexpr EnumWords<tdl::Reducer::kProd> kReducers({"sum", "max", "min", "prod"});
constexpr EnumWords<StepKind::kFetch> kSteps({"local", "all-reduce", "reduce-scatter", "all-gather", "all-to-all",
                                              "fetch"});
constexpr EnumWords<DType::kBFloat16> kDTypes({"float32", "float64", "int64", "bool", "float16", "bfloat16"});

}  // namespace partita::text
