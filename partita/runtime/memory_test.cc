// Tests views over other axes against brute force, live bytes, and weights in and out.
#include "partita/runtime/memory.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/kept_gradients.h"
#include "partita/physical/testing/builder.h"
#include "partita/runtime/liveness.h"
#include "partita/runtime/testing/mix_kernels.h"
#include "partita/runtime/weights.h"

namespace partita {
namespace {

using testing::PhysicalBuilder;

// Element of the flat (row-major) tensor -> offset in memory, for all elements of the view.
std::map<int64_t, int64_t> offsets(const View& view) {
  std::map<int64_t, int64_t> result;
  testing::for_each(view, [&](const std::vector<int64_t>& at, std::byte* element) {
    int64_t flat = 0;
    for (size_t a = 0; a < at.size(); ++a) flat = flat * view.axes[a] + at[a];
    result[flat] = element - view.data + reinterpret_cast<intptr_t>(view.data);
  });
  return result;
}

// Tells whether these elements are a box over `axes` whose places are affine in its coordinates.
bool expressible(const std::map<int64_t, int64_t>& elements, const Shape& axes) {
  const auto point = [&](int64_t flat) {
    Shape at(axes.size());
    for (size_t a = axes.size(); a-- > 0;) at[a] = flat % axes[a], flat /= axes[a];
    return at;
  };
  Box hull;
  for (int64_t i : point(elements.begin()->first)) hull.push_back({i, i + 1});
  for (const auto& [flat, place] : elements) {
    const Shape at = point(flat);
    for (size_t a = 0; a < at.size(); ++a) hull[a] = {std::min(hull[a].lo, at[a]), std::max(hull[a].hi, at[a] + 1)};
  }
  if (volume(hull) != static_cast<int64_t>(elements.size())) return false;
  const auto flat_of = [&](const Shape& at) {
    int64_t flat = 0;
    for (size_t a = 0; a < at.size(); ++a) flat = flat * axes[a] + at[a];
    return flat;
  };
  Shape low;
  for (const Interval& i : hull) low.push_back(i.lo);
  const int64_t base = elements.at(flat_of(low));
  Shape steps(axes.size(), 0);
  for (size_t a = 0; a < axes.size(); ++a)
    if (hull[a].size() > 1) {
      Shape next = low;
      ++next[a];
      steps[a] = elements.at(flat_of(next)) - base;
    }
  for (const auto& [flat, place] : elements) {
    const Shape at = point(flat);
    int64_t affine = base;
    for (size_t a = 0; a < at.size(); ++a) affine += (at[a] - low[a]) * steps[a];
    if (affine != place) return false;
  }
  return true;
}

// A random list of factors of the same product, ones among them.
Shape factoring(Rng& rng, std::vector<int64_t> primes) {
  rng.shuffle(primes);
  Shape axes;
  for (int64_t p : primes) {
    if (!axes.empty() && rng.below(2)) {
      axes.back() *= p;
    } else {
      axes.push_back(p);
    }
  }
  while (rng.below(4) == 0) axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(rng.below(axes.size() + 1)), 1);
  return axes;
}

// A view over other axes has the same elements at the same places; there is one exactly if brute force finds one.
TEST(Regroup, RandomBoxesOverRandomFactorings) {
  int found = 0, refused = 0, whole = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    Rng rng(seed);
    std::vector<int64_t> primes;
    for (size_t i = 0, n = rng.below(5); i < n; ++i) primes.push_back(rng.below(3) ? 2 : 3);
    View view;
    view.axes = factoring(rng, primes);
    const Shape to = factoring(rng, primes);
    const bool full = rng.below(4) == 0, gaps = rng.below(3) == 0;
    for (int64_t extent : view.axes) {
      int64_t lo = rng.between(0, extent - 1), hi = rng.between(lo + 1, extent);
      if (full || rng.below(2)) lo = 0, hi = extent;
      view.box.push_back({lo, hi});
    }
    view.strides.resize(view.axes.size());
    int64_t stride = 1;
    for (size_t a = view.axes.size(); a-- > 0;) {
      if (gaps && rng.below(2)) stride += rng.between(1, 5);
      view.strides[a] = stride;
      stride *= view.box[a].size();
    }
    std::vector<float> bytes(static_cast<size_t>(stride) + 1);
    view.data = reinterpret_cast<std::byte*>(bytes.data());
    const auto wanted = offsets(view);
    const auto got = regroup(view, to);
    ASSERT_EQ(got.has_value(), expressible(wanted, to))
        << "seed " << seed << ": ["
        << fmt::format("{}] {} -> [{}], strides [{}]", fmt::join(view.axes, ","), to_string(view.box),
                       fmt::join(to, ","), fmt::join(view.strides, ","));
    whole += full && !gaps;
    ASSERT_TRUE(got.has_value() || gaps || !full) << "seed " << seed;
    ++(got ? found : refused);
    if (!got) continue;
    ASSERT_EQ(got->axes, to);
    ASSERT_EQ(offsets(*got), wanted) << "seed " << seed;
  }
  EXPECT_GT(found, 5000);
  EXPECT_GT(refused, 1000);
  EXPECT_GT(whole, 1000);
}

TEST(Regroup, NothingIsNothingOverAnyAxes) {
  View view;
  view.axes = {4, 6};
  view.box = {{2, 2}, {0, 6}};
  view.strides = {6, 1};
  const auto got = regroup(view, {2, 2, 2, 3});
  ASSERT_TRUE(got.has_value());
  EXPECT_TRUE(is_empty(got->box));
  EXPECT_EQ(got->box.size(), 4u);
}

// ---------------------------------------------------------------- live bytes

TEST(Liveness, FromFirstWriteToLastRelease) {
  PhysicalBuilder b(1);
  const RegisterId w = b.carried("w", 0, 25), x = b.reg("x", 0, 10), y = b.reg("y", 0, 20), z = b.reg("z", 0, 5),
                   s = b.reg("s", 0, 3);
  const TaskId make = b.add("make", 0, {w}, {x}), use = b.add("use", 0, {x}, {y}), both = b.add("both", 0, {x, y}, {z}),
               last = b.add("last", 0, {z}, {});
  b.graph.task(both).scratch = {s};
  b.graph.peak_bytes = {1000};
  for (Register& reg : b.graph.registers) reg.offset = 64 * (&reg - b.graph.registers.data());
  Liveness live(b.graph);
  const DeviceId device(0);
  EXPECT_EQ(live.live_bytes(device), 100);  // w
  for (int step = 0; step < 3; ++step) {
    live.began(make, 0);
    EXPECT_EQ(live.live_bytes(device), 140);
    live.finished(make, 0);
    live.began(use, 0);
    EXPECT_EQ(live.live_bytes(device), 220);
    live.finished(use, 0);
    EXPECT_EQ(live.live_bytes(device), 220);  // x has a reader yet
    live.began(both, 0);
    EXPECT_EQ(live.live_bytes(device), 252);  // z and the scratch
    live.finished(both, 0);
    EXPECT_EQ(live.live_bytes(device), 120);
    live.began(last, 0);
    live.finished(last, 0);
    EXPECT_EQ(live.live_bytes(device), 100);
  }
  EXPECT_EQ(live.peak_bytes(device), 252);
  live.note(device, 500);
  EXPECT_EQ(live.live_bytes(device), 100);
  EXPECT_EQ(live.peak_bytes(device), 600);
}

TEST(Liveness, AResultOverItsOperandCountsOnce) {
  PhysicalBuilder b(1);
  const RegisterId x = b.reg("x", 0, 16), y = b.reg("y", 0, 16);
  const TaskId make = b.add("make", 0, {}, {x}), relu = b.add("relu", 0, {x}, {y}), last = b.add("last", 0, {y}, {});
  b.graph.task(relu).elementwise = true;
  testing::run_passes(b.graph);
  ASSERT_EQ(b.graph.reg(x).offset, b.graph.reg(y).offset);
  Liveness live(b.graph);
  for (TaskId t : {make, relu, last}) {
    live.began(t, 0);
    live.finished(t, 0);
  }
  EXPECT_EQ(live.peak_bytes(DeviceId(0)), 64);
  EXPECT_EQ(live.live_bytes(DeviceId(0)), 0);
}

// The gradients of v and w, 40 and 60 bytes: u is the update of w, which comes first, and both stay until v's.
TEST(Liveness, KeptGradientsStayUntilTheLastUpdate) {
  PhysicalBuilder b(1);
  const RegisterId v = b.carried("v", 0, 10), w = b.carried("w", 0, 15), gv = b.reg("gv", 0, 10),
                   gw = b.reg("gw", 0, 15);
  const TaskId make_gw = b.add("make gw", 0, {w}, {gw}), update_w = b.add("update w", 0, {w, gw}, {w}),
               make_gv = b.add("make gv", 0, {v}, {gv}), update_v = b.add("update v", 0, {v, gv}, {v});
  b.graph.peak_bytes = {1000};
  for (Register& reg : b.graph.registers) reg.offset = 64 * (&reg - b.graph.registers.data());
  const auto bytes_after = [&](bool kept) {
    for (const TaskId update : {update_w, update_v}) {
      b.graph.task(update).work =
          KernelWork{.attributes = kept ? tdl::Attributes{{kKeptGradient, 1}} : tdl::Attributes()};
      b.graph.task(update).reads[1].tensor = 1;
    }
    Liveness live(b.graph);
    std::vector<int64_t> bytes;
    for (int step = 0; step < 2; ++step)
      for (const TaskId task : {make_gw, update_w, make_gv, update_v}) {
        live.began(task, 0);
        live.finished(task, 0);
        bytes.push_back(live.live_bytes(DeviceId(0)));
      }
    return bytes;
  };
  EXPECT_EQ(bytes_after(false), (std::vector<int64_t>{160, 100, 140, 100, 160, 100, 140, 100}));
  EXPECT_EQ(bytes_after(true), (std::vector<int64_t>{160, 160, 200, 100, 160, 160, 200, 100}));
}

// ---------------------------------------------------------------- weights

// A parameter of shape [4, 6] over three devices in rows, whole on a fourth, and over factored axes [4, 2, 3] on a
// fifth.
struct Kept {
  Graph graph;
  PhysicalGraph physical;
  TensorId id;
  Kept() : id(0) {
    Tensor w;
    w.name = "w";
    w.shape = {4, 6};
    w.role = Role::kParameter;
    w.initial_bound = 0.5;
    graph.tensors = {w};
    physical.device_count = physical.compute_count = 5;
    physical.peak_bytes.assign(5, 0);
    for (int d = 0; d < 3; ++d) add(d, {4, 6}, {cut(4, 3, d), {0, 6}});
    add(3, {4, 6}, {{0, 4}, {0, 6}});
    add(4, {4, 2, 3}, {{0, 4}, {1, 2}, {0, 3}});
  }
  void add(int device, Shape axes, Box box) {
    Register reg;
    reg.name = fmt::format("w@{}", device);
    reg.device = DeviceId(device);
    reg.tensor = id;
    reg.axes = std::move(axes);
    reg.bytes = volume(box) * 4;
    reg.boxes = {std::move(box)};
    reg.offset = 0;
    reg.carried = true;
    physical.peak_bytes[device] = reg.stride_bytes();
    physical.registers.push_back(reg);
  }
};

TEST(Weights, InAndOutWhateverTheBoxes) {
  Kept kept;
  Values values{DType::kFloat32, {4, 6}, {}, {}};
  for (int i = 0; i < 24; ++i) values.real.push_back(i);
  const Memory memory(kept.physical);
  write_initial(memory, kept.graph, 1, {{"w", values}});
  EXPECT_EQ(read_weights(memory, kept.graph).at("w").real, values.real);
  const View factored = memory.view({RegisterId(4)}, 0, 1);
  std::vector<double> seen;
  testing::for_each(factored,
                    [&](const auto&, std::byte* element) { seen.push_back(testing::number_at(factored, element)); });
  EXPECT_EQ(seen, (std::vector<double>{3, 4, 5, 9, 10, 11, 15, 16, 17, 21, 22, 23}));
}

// Any plan starts from the same numbers.
TEST(Weights, InitialValuesDependOnNameAndSeedAlone) {
  Kept kept;
  const Memory memory(kept.physical);
  write_initial(memory, kept.graph, 1);
  const Values first = read_weights(memory, kept.graph).at("w");
  EXPECT_EQ(first.real.size(), 24u);
  const Values wanted = initial_values(kept.graph.tensors[0], 1);
  for (int i = 0; i < 24; ++i) {
    EXPECT_EQ(first.real[i], static_cast<float>(wanted.real[i]));
    EXPECT_LE(std::abs(first.real[i]), 0.5);
  }
  EXPECT_NE(initial_values(kept.graph.tensors[0], 2).real, wanted.real);
}

TEST(Weights, WrongShapesAndTypesAreBadInput) {
  Kept kept;
  const Memory memory(kept.physical);
  const auto expect_bad = [&](const Values& values, const char* part) {
    try {
      write_tensor(memory, kept.id, values, kept.graph.tensors[0]);
      FAIL() << "accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kBadInput);
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  expect_bad({DType::kFloat32, {6, 4}, std::vector<double>(24), {}},
             "'w': the values have shape [6, 4], the model's tensor has [4, 6]");
  expect_bad({DType::kInt64, {4, 6}, {}, std::vector<int64_t>(24)},
             "'w': the values are int64, the model's tensor is float32");
}

TEST(Weights, WhatIsNotWholeIsOurBug) {
  Kept kept;
  for (int d : {4, 3, 1}) kept.physical.registers.erase(kept.physical.registers.begin() + d);
  const Memory memory(kept.physical);
  EXPECT_THROW(read_tensor(memory, kept.id, kept.graph.tensors[0]), Error);
}

}  // namespace
}  // namespace partita
