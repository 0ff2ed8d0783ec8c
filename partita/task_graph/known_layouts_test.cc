// Tests that alike layouts share numbers and conversions.
#include "partita/task_graph/known_layouts.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

TEST(KnownLayouts, SayOfNumbersWhatIsTrueOfLayouts) {
  const Cluster cluster = load_cluster("local:4");
  KnownLayouts known(cluster);
  const Mesh pair{{2}, {DeviceId(0), DeviceId(1)}}, other{{2}, {DeviceId(1), DeviceId(0)}};
  std::vector<Layout> layouts;
  for (const Mesh& mesh : {pair, other})
    for (const Sbp& sbp : {Sbp::split(0), Sbp::split(1), Sbp::broadcast(), Sbp::partial()}) {
      layouts.push_back(make_layout(mesh, {sbp}, Shape{8, 6}));
      layouts.push_back(make_layout(mesh, {sbp}, std::vector<Shape>{{4, 2}, {6}}));
    }
  std::vector<int> numbers;
  for (const Layout& layout : layouts) numbers.push_back(known.number(layout));
  for (size_t i = 0; i < layouts.size(); ++i) {
    EXPECT_EQ(known.number(layouts[i]), numbers[i]);
    EXPECT_EQ(known.layout(numbers[i]), layouts[i]);
    for (size_t j = 0; j < layouts.size(); ++j) {
      EXPECT_EQ(numbers[i] == numbers[j], layouts[i] == layouts[j]);
      EXPECT_EQ(known.same_placement(numbers[i], numbers[j]), same_placement(layouts[i], layouts[j]));
      EXPECT_EQ(known.same_radices(numbers[i], numbers[j]), layouts[i].radices == layouts[j].radices);
      const Conversion& conversion = known.conversion(numbers[i], numbers[j], 4);
      EXPECT_EQ(conversion.bytes, convert(layouts[i], layouts[j], 4, cluster).bytes);
      EXPECT_EQ(&known.conversion(numbers[i], numbers[j], 4), &conversion);
      EXPECT_EQ(known.conversion(numbers[i], numbers[j], 8).bytes, 2 * conversion.bytes);
    }
  }
  known.forget();
  EXPECT_EQ(known.number(layouts[3]), 0);
}

}  // namespace
}  // namespace partita
