// Words shared by the printer and the parser of PhysicalGraphs.
#pragma once
#include <array>
#include <string_view>
#include <utility>

#include "partita/physical/physical.h"

namespace partita::text {

template <typename E, std::size_t N>
using Words = std::array<std::pair<E, std::string_view>, N>;

constexpr Words<QueueKind, 4> kQueueKinds{{{QueueKind::kCompute, "compute"},
                                           {QueueKind::kHost, "host"},
                                           {QueueKind::kLink, "link"},
                                           {QueueKind::kCollective, "collective"}}};
constexpr Words<EdgeKind, 5> kEdgeKinds{{{EdgeKind::kData, "data"},
                                         {EdgeKind::kAct, "act"},
                                         {EdgeKind::kQueue, "queue"},
                                         {EdgeKind::kReuse, "reuse"},
                                         {EdgeKind::kPlan, "plan"}}};
constexpr Words<Task::Turn, 3> kTurns{
    {{Task::Turn::kInPlace, "in-place"}, {Task::Turn::kEager, "eager"}, {Task::Turn::kLazy, "lazy"}}};
constexpr Words<Phase, 3> kPhases{
    {{Phase::kForward, "forward"}, {Phase::kBackward, "backward"}, {Phase::kUpdate, "update"}}};
constexpr Words<tdl::Reducer, 4> kReducers{{{tdl::Reducer::kSum, "sum"},
                                            {tdl::Reducer::kMax, "max"},
                                            {tdl::Reducer::kMin, "min"},
                                            {tdl::Reducer::kProd, "prod"}}};
constexpr Words<StepKind, 6> kSteps{{{StepKind::kLocal, "local"},
                                     {StepKind::kAllReduce, "all-reduce"},
                                     {StepKind::kReduceScatter, "reduce-scatter"},
                                     {StepKind::kAllGather, "all-gather"},
                                     {StepKind::kAllToAll, "all-to-all"},
                                     {StepKind::kFetch, "fetch"}}};
constexpr Words<DType, 6> kDTypes{{{DType::kFloat32, "float32"},
                                   {DType::kFloat64, "float64"},
                                   {DType::kInt64, "int64"},
                                   {DType::kBool, "bool"},
                                   {DType::kFloat16, "float16"},
                                   {DType::kBFloat16, "bfloat16"}}};

template <typename E, std::size_t N>
std::string_view word(const Words<E, N>& words, E value) {
  for (const auto& [known, word] : words)
    if (known == value) return word;
  return "?";
}

}  // namespace partita::text
