// Tests work lists: the printed text of one kernel.
#include "partita/measure/worklist.h"

#include <gtest/gtest.h>

#include <memory>

#include "partita/cost/kernel_id.h"

namespace partita {
namespace {

// The second half of i, of two stages: infinities, numbers beyond a tensor, and // and % in subscripts are written out.
TEST(Worklist, HasRangesBoxesAndStagesOfAKernel) {
  const auto bound = std::make_shared<const tdl::Bound>(
      tdl::bind("f(x, q)[i] where i < 4, r < 2 =\n  s[i] = sum(r) if(r < i, x[2*i + r - 1] "
                "else 0.5, 0)\n  if(q[i % 2] > 3, -inf, -s[i])",
                {{7}, {2}}));
  KernelToTime kernel;
  kernel.work = {"f", {{"p", 1}}, bound, 0, 2, {{{2, 4}, {0, 2}}}, 0};
  const auto shard = [](int tensor, DType dtype, const Box& box) {
    return PlacedShard{tensor, {dtype, box, {1}}, {box[0].hi}};
  };
  kernel.reads = {shard(0, DType::kFloat16, {{3, 7}}), shard(1, DType::kInt64, {{0, 2}})};
  kernel.writes = {shard(3, DType::kFloat32, {{2, 4}})};
  kernel.kernel.id =
      kernel_id("f", kernel.work.attributes, *bound, "0123456789abcdef", 0, 2, kernel.work.ranges[0],
                {{0, DType::kFloat16, 4, false}, {1, DType::kInt64, 2, false}, {3, DType::kFloat32, 2, true}});
  kernel.kernel.flops = 6, kernel.kernel.bytes = 32;
  EXPECT_EQ(print_worklist({{kernel.kernel.id.key(), kernel}}, "H100", DeviceKind::kGpu),
            R"({
  "schema_version": 1,
  "kind": "worklist",
  "device": "H100",
  "device_kind": "gpu",
  "formulas": [
    {"name":"f","indices":[["i",4],["r",2]],"tensors":[["x",[7]],["q",[2]],["s",[4]],["out",[4]]],"stages":[)"
            R"({"tensor":2,"at":[[0,[1,0]]],"is":{"reduce":"sum","over":[1],"of":[{"if":[)"
            R"({"binary":"<","of":[{"index":1},{"index":0}]},)"
            R"({"read":0,"at":[[-1,[2,0],[1,1]]],"else":0.5},{"number":0.0}]}]}},)"
            R"({"tensor":3,"at":[[0,[1,0]]],"is":{"if":[{"binary":">","of":[)"
            R"({"read":1,"at":[[0,[1,["%",[0,[1,0]],2]]]]},{"number":3.0}]},)"
            R"({"number":"-inf"},{"unary":"neg","of":[{"read":2,"at":[[0,[1,0]]]}]}]}}]}
  ],
  "kernels": [
    {"definition":"f","form":"0123456789abcdef","attributes":"p=1","stages":[0,2],"indices":[["i",2],["r",2]],)"
            R"("operands":[["x","float16",4,"read"],["q","int64",2,"read"],["out","float32",2,"written"]],)"
            R"("flops":6.0,"bytes":32.0,"formula":0,"ranges":[[2,4],[0,2]],)"
            R"("reads":[[0,"float16",[[3,7]]],[1,"int64",[[0,2]]]],"writes":[[3,"float32",[[2,4]]]]}
  ]
}
)");
}

}  // namespace
}  // namespace partita
