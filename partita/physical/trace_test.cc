#include "partita/physical/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/physical/testing/builder.h"

namespace partita {
namespace {

struct Example {
  testing::PhysicalBuilder b{2};
  Trace trace;
  Cluster cluster;
  Example() {
    const RegisterId x = b.reg("x", 0, 8), y = b.reg("y", 1, 8), z = b.reg("z", 1, 8);
    const TaskId make = b.add("make", 0, {}, {x}), send = b.copy("send \"it\"", x, y), use = b.add("use", 1, {y}, {z});
    for (int step = 0; step < 2; ++step) {
      const int64_t at = step * 10'000;
      trace.events.push_back({make, step, 0, at, at + 1'500});
      trace.events.push_back({send, step, 0, at + 1'500, at + 2'001});
      trace.events.push_back({use, step, 0, at + 2'001, at + 9'000});
    }
    trace.memory = {{DeviceId(0), 0, 32}, {DeviceId(1), 1'500, 64}};
    trace.link_bytes = {0, 32, 0, 0};
    trace.steps = 2;
    trace.step_time_ns = 10'000;
    cluster.devices.resize(2);
    cluster.devices[0].name = "gpu0";
    cluster.devices[1].name = "gpu1";
  }
};

TEST(Trace, PrintsAndParsesTheSame) {
  const Example e;
  const std::string text = print(e.trace, e.b.graph);
  EXPECT_EQ(parse_trace(text, e.b.graph), e.trace);
  EXPECT_EQ(print(parse_trace(text, e.b.graph), e.b.graph), text);
}

TEST(Trace, BadInputIsNamed) {
  const Example e;
  std::string text = print(e.trace, e.b.graph);
  text.replace(text.find("\"use\""), 5, "\"usx\"");
  try {
    parse_trace(text, e.b.graph);
    FAIL() << "read a task that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "trace: physical graph 'by hand' has no task 'usx'");
  }
  EXPECT_THROW(parse_trace("{", e.b.graph), Error);
  EXPECT_THROW(parse_trace("{}", e.b.graph), Error);
}

// Checks complete events, counters and metadata against the format's description.
TEST(Trace, IsAChromeTrace) {
  const Example e;
  const auto json = nlohmann::json::parse(chrome_trace(e.trace, e.b.graph, e.cluster));
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> queues;
  std::map<std::string, int> kinds;
  std::map<int, std::string> processes;
  for (const auto& event : json.at("traceEvents")) {
    ASSERT_TRUE(event.at("name").is_string());
    const std::string ph = event.at("ph");
    ++kinds[ph];
    ASSERT_TRUE(event.at("pid").is_number_integer() && event.at("tid").is_number_integer());
    if (ph == "X") {
      ASSERT_GE(event.at("dur").get<double>(), 0);
      queues[{event.at("pid"), event.at("tid")}].push_back(
          {event.at("ts"), event.at("ts").get<double>() + event.at("dur").get<double>()});
    } else if (ph == "C") {
      ASSERT_TRUE(event.at("ts").is_number() && event.at("args").at("bytes").is_number_integer());
    } else {
      ASSERT_EQ(ph, "M");
      if (event.at("name") == "process_name") processes[event.at("pid")] = event.at("args").at("name");
    }
  }
  EXPECT_EQ(kinds["X"], 6);
  EXPECT_EQ(kinds["C"], 2);
  EXPECT_EQ(processes, (std::map<int, std::string>{{0, "gpu0"}, {1, "gpu1"}, {2, "links"}}));
  ASSERT_EQ(queues.size(), 3u);
  for (auto& [queue, spans] : queues) {
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].second, spans[i].first);
  }
  EXPECT_EQ(queues.begin()->second[0], (std::pair<double, double>(0, 1.5)));
}

}  // namespace
}  // namespace partita
