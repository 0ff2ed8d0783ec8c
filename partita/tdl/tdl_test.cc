#include "partita/tdl/tdl.h"

#include <gtest/gtest.h>

#include "partita/base/error.h"

namespace partita::tdl {
namespace {

TEST(Bind, ToTextParsesBack) {
  const Bound b = bind("linear(x, w, b)[..n, o] = sum(k) (x[..n, k] * w[k, o]) + b[o]", {{4, 5, 6}, {6, 7}, {7}});
  const std::string text = to_text(b);
  EXPECT_EQ(text, to_text(bind(text, {{4, 5, 6}, {6, 7}, {7}})));
  EXPECT_EQ(text,
            "linear(x, w, b) -> out where n.0 < 4, n.1 < 5, k < 6, o < 7 =\n"
            "    out_0[n.0, n.1, o] = sum(k) (x[n.0, n.1, k] * w[k, o])\n"
            "    out[n.0, n.1, o] = (out_0[n.0, n.1, o] + b[o])");
}

}  // namespace
}  // namespace partita::tdl
