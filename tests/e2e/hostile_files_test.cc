// Tests files that are no files, have no end, are larger than they say, or lead to work without bounds.
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>

#include "partita/runtime/npz.h"
#include "tests/e2e/shell.h"

namespace partita {
namespace {

std::string case_file(const std::string& name) { return data("cases/" + name); }
std::string fresh(const std::string& name) {
  std::filesystem::remove(scratch(name));
  return scratch(name);
}

// Expects an error at once, and with little memory.
void expect_cheap_error(const Words& words, const Words& parts) {
  const auto begin = std::chrono::steady_clock::now();
  expect_error(words, 3, parts);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10))
      << fmt::format("{}", fmt::join(words, " "));
}

void put_sparse(const std::string& name, const std::string& beginning, int64_t bytes) {
  put(name, beginning);
  std::filesystem::resize_file(scratch(name), static_cast<uintmax_t>(bytes));
}

TEST(HostileClusters, OfAliases) {
  const auto plan = [](const std::string& cluster) {
    return Words{"plan", "zoo:mlp", "--cluster", cluster, "--search", "single", "--time-limit", "5"};
  };
  expect_cheap_error(plan(case_file("yaml_cycle/cluster.yaml")), {"cluster.yaml:6", "stands inside what it names"});
  expect_cheap_error(plan(case_file("yaml_bomb/cluster.yaml")),
                     {"cluster.yaml:", "more than 1000000 entries", "32768 devices"});
  // Aliases in a row: deep without a deep text.
  std::string chain = "name: c\na0: &a0 [x]\n";
  for (int i = 1; i < 3000; ++i) chain += fmt::format("a{}: &a{} [*a{}]\n", i, i, i - 1);
  expect_cheap_error(plan(put("chain.yaml", chain)), {"chain.yaml:", "nested deeper than 100"});
  expect_cheap_error(plan(put("deep.yaml", std::string(200'000, '['))), {"deep.yaml:"});
  expect_cheap_error(plan(put("deep_maps.yaml", "topology: " + std::string(300, '{') + "a: " + std::string(300, '}'))),
                     {"deep_maps.yaml:"});
  // A device has one alias of its type's figures, as a person may write it.
  const std::string text =
      "name: mine\ndevice_types:\n  core: {kind: cpu, peak_tflop_per_s: {float32: 1, float64: 1},"
      " memory_gibytes: 1, memory_bandwidth_gbytes_per_s: 1, efficiency: 1, launch_overhead_us: 1}\n"
      "topology:\n  link: &link {bandwidth_gbytes_per_s: 2, latency_us: 5}\n  children:\n"
      "    - {name: board, count: 2, link: *link, children: [{name: cpu, count: 2, type: core}]}\n";
  EXPECT_EQ(json_of({"plan", "zoo:mlp", "--cluster", put("mine.yaml", text), "--search", "single"})["devices"], 4);
}

TEST(HostileClusters, OfManyPlaces) {
  const std::string types =
      "name: c\ndevice_types:\n  core: {kind: cpu, peak_tflop_per_s: {float32: 1, float64: 1},"
      " memory_gibytes: 1, memory_bandwidth_gbytes_per_s: 1, efficiency: 1, launch_overhead_us: 1}\n";
  const std::string link = "link: {bandwidth_gbytes_per_s: 2, latency_us: 5}";
  const auto chain = [&](int levels, int count, const std::string& name) {
    std::string text = types + "topology: {" + link + ", children: [";
    for (int i = 0; i < levels; ++i)
      text += fmt::format("{{name: {}{}, {}{}, children: [", name, i, i == 0 ? fmt::format("count: {}, ", count) : "",
                          link);
    text += "{name: c, type: core}";
    for (int i = 0; i <= levels; ++i) text += "]}";
    return text;
  };
  const auto plan = [](const std::string& cluster) {
    return Words{"plan", "zoo:mlp", "--cluster", cluster, "--search", "single"};
  };
  expect_cheap_error(plan(put("many.yaml", chain(40, 32768, "l"))),
                     {"many.yaml:", "more than 262144 levels and devices"});
  expect_cheap_error(plan(put("long.yaml", chain(40, 2, std::string(100, 'x')))),
                     {"long.yaml:", "more than 1000 characters"});
}

TEST(HostileFiles, ThatHaveNoEnd) {
  const Words parts = {"/dev/zero", "does not end"};
  expect_cheap_error({"plan", "zoo:mlp", "--cluster", "/dev/zero"}, parts);
  expect_cheap_error({"plan", "zoo:mlp", "--pin", "/dev/zero"}, parts);
  expect_cheap_error({"plan", "zoo:mlp", "--tdl", "/dev/zero"}, parts);
  expect_cheap_error({"plan", "zoo:mlp", "--from", "/dev/zero", "--search", "exact"}, parts);
  expect_cheap_error({"plan", "zoo:mlp", "--profile", "/dev/zero", "--devices", "2"}, parts);
  expect_cheap_error({"simulate", "/dev/zero"}, parts);
  expect_cheap_error({"predict", "/dev/zero", "--cluster", "dgx-h100"}, parts);
  expect_cheap_error({"train", "zoo:mlp", "--data", "/dev/zero"}, parts);
  expect_cheap_error({"train", "zoo:mlp", "--search", "single", "--weights", "/dev/zero"},
                     {"/dev/zero", "a pipe, a device or a socket"});
  std::filesystem::create_symlink("/dev/zero", fresh("zero.onnx"));
  expect_cheap_error({"show", scratch("zero.onnx")}, {"zero.onnx", "does not end"});
  std::filesystem::create_symlink("/dev/zero", fresh("zero.json"));
  expect_cheap_error({"show", scratch("zero.json")}, {"zero.json", "does not end"});
  expect_cheap_error({"train", "zoo:mlp", "--search", "single", "--weights", scratch("zero.json")},
                     {"zero.json", "does not end"});
  expect_cheap_error({"solve", "/dev/null"}, {"/dev/null"});
}

TEST(HostileFiles, ThatAreTooLarge) {
  const int64_t tera = int64_t{1} << 40;
  for (const char* name : {"huge.yaml", "huge.json", "huge.onnx", "huge.csv"}) put_sparse(name, "{", tera);
  expect_cheap_error({"plan", "zoo:mlp", "--cluster", scratch("huge.yaml")},
                     {"huge.yaml: has 1099511627776 bytes", "at most 16777216 are read"});
  expect_cheap_error({"show", scratch("huge.json")},
                     {"huge.json: has 1099511627776 bytes", "at most 16777216 are read"});
  expect_cheap_error({"simulate", scratch("huge.json")}, {"huge.json: has 1099511627776 bytes"});
  expect_cheap_error({"show", scratch("huge.onnx")}, {"huge.onnx: larger than 2 GiB"});
  expect_cheap_error({"predict", scratch("huge.csv"), "--cluster", "dgx-h100"}, {"huge.csv: has 1099511627776 bytes"});
  // A header of a tebibyte.
  put_sparse("huge.safetensors", std::string("\0\0\0\0\0\1\0\0", 8), 2 * tera);
  expect_cheap_error({"train", "zoo:mlp", "--search", "single", "--weights", scratch("huge.safetensors")},
                     {"huge.safetensors: a header of 1099511627776 bytes; safetensors has at most"});
  // More than the machine has: the error is that of any lack of memory.
  put_sparse("huge.npz", "PK\3\4", int64_t{1} << 43);
  expect_error({"train", "zoo:mlp", "--search", "single", "--data", scratch("huge.npz")}, 4,
               {"huge.npz: takes", "this machine has"});
  for (const char* name : {"huge.yaml", "huge.json", "huge.onnx", "huge.csv", "huge.safetensors", "huge.npz"})
    std::filesystem::remove(scratch(name));
}

TEST(HostileFiles, ThatAreNoFiles) {
  const std::string loop = fresh("loop.onnx"), far(5000, 'x');
  std::filesystem::create_symlink("loop.onnx", loop);
  expect_cheap_error({"show", loop}, {"loop.onnx: cannot be read: Too many levels of symbolic links"});
  std::filesystem::create_symlink("loop.json", fresh("loop.json"));
  for (const char* command : {"show", "simulate", "train", "explain"})
    expect_cheap_error({command, scratch("loop.json")}, {"loop.json: cannot be read"});
  expect_cheap_error({"show", far + ".onnx"}, {"cannot be read: File name too long"});
  expect_cheap_error({"show", far + ".json"}, {"cannot be read: File name too long"});
  expect_cheap_error({"show", far}, {"no such file or folder"});
  expect_cheap_error({"train", "zoo:mlp", "--search", "single", "--weights", far},
                     {"cannot be read: File name too long"});
  expect_cheap_error({"plan", "zoo:mlp", "--cluster", far}, {"neither a file that can be read nor a preset"});
  const std::string folder = std::filesystem::path(scratch("x")).parent_path();
  expect_cheap_error({"plan", "zoo:mlp", "--cluster", folder}, {"is a folder, not a cluster's YAML file"});
  expect_cheap_error({"plan", "zoo:mlp", "--tdl", folder}, {"is a folder"});
  expect_cheap_error({"solve", folder}, {"is a folder"});
}

TEST(HostileModels, WithExtentsBeyondCounting) {
  for (const char* file : {"a", "b", "c", "m"})
    expect_cheap_error({"show", case_file(fmt::format("zero_extent/{}.onnx", file))}, {file});
}

// The directory says 64 numbers, and the member inflates to 256 MiB.
TEST(HostileArrays, HaveTheBytesOfTheirHeaders) {
  const std::string script = put("make.py", R"(
import io, sys, zipfile, zlib, struct
header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (8, 8), }"
header += b" " * (118 - len(header) - 1) + b"\n"
npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(1 << 28)
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as file:
    file.writestr("x.npy", npy)
)");
  ASSERT_EQ(shell(fmt::format("python3 {} {}", script, scratch("bomb.npz"))).code, 0);
  const Outcome o = shell(
      fmt::format("(ulimit -v 1500000; PARTITA train 'zoo:mlp?width=8,batch=8' --search single --steps 1 --data {})",
                  scratch("bomb.npz")));
  EXPECT_EQ(o.code, 3) << o.err;
  EXPECT_NE(o.err.find("array 'x': an array [8x8] of '<f4' needs 256 bytes, the file has 268435"), std::string::npos)
      << o.err;
}

// Time grows as the file does.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
std::string number(int field, uint64_t value) { return varint(static_cast<uint64_t>(field) << 3) + varint(value); }
std::string block(int field, const std::string& bytes) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string onnx_value(int field, const std::string& name, size_t rank) {
  std::string shape;
  for (size_t d = 0; d < rank; ++d) shape += block(1, number(1, d < 2 ? 2 + d : 1));
  return block(field, block(1, name) + block(2, block(1, number(1, 1) + block(2, shape))));
}
std::string onnx_node(const std::string& operation, const std::string& input, const std::string& output) {
  return block(1, block(1, input) + block(2, output) + block(3, "node_" + output) + block(4, operation));
}
std::string onnx_file(const std::string& name, const std::string& nodes, const std::vector<std::string>& outputs,
                      size_t rank = 2) {
  std::string graph = nodes + block(2, "g") + onnx_value(11, "x", rank);
  for (const std::string& output : outputs) graph += onnx_value(12, output, rank);
  return put(name, number(1, 10) + block(8, number(2, 20)) + block(7, graph));
}

std::string chain(int nodes) {
  std::string text;
  for (int i = 0; i < nodes; ++i)
    text += onnx_node(i % 2 ? "Relu" : "Tanh", i ? fmt::format("v{}", i) : "x",
                      i + 1 < nodes ? fmt::format("v{}", i + 1) : "y");
  return onnx_file(fmt::format("chain{}.onnx", nodes), text, {"y"});
}

TEST(HostileModels, OfManyNodes) {
  const auto seconds = [](const Words& words, int code) {
    const auto begin = std::chrono::steady_clock::now();
    const Outcome o = partita(words);
    EXPECT_EQ(o.code, code) << o.err.substr(0, 300);
    EXPECT_LT(o.err.size(), 9000u);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double few = seconds({"show", chain(4000)}, 0), many = seconds({"show", chain(32000)}, 0);
  EXPECT_LT(many, 8 * few + 5) << few;  // 64 times as long if it were quadratic
  std::string wide, bad;
  std::vector<std::string> outputs;
  for (int i = 0; i < 20000; ++i) {
    outputs.push_back(fmt::format("y{}", i));
    wide += onnx_node("Relu", "x", outputs.back());
    bad += onnx_node("NoSuchOperator", "x", outputs.back());
  }
  EXPECT_LT(seconds({"show", onnx_file("wide.onnx", wide, outputs), "--json"}, 0), 20);
  EXPECT_LT(seconds({"show", onnx_file("bad.onnx", bad, outputs)}, 3), 10);
}

TEST(HostileModels, OfManyAxes) {
  expect_cheap_error({"show", onnx_file("rank.onnx", onnx_node("Relu", "x", "y"), {"y"}, 30000)},
                     {"has 30000 axes; a tensor has at most 64"});
  EXPECT_EQ(partita({"show", onnx_file("rank64.onnx", onnx_node("Relu", "x", "y"), {"y"}, 64)}).code, 0);
}

TEST(HostileTables, OfManyColumns) {
  std::string columns, cells;
  for (int i = 0; i < 100'000; ++i) columns += fmt::format("c{},", i), cells += "1,";
  const std::string table = put("wide.csv", columns + "last\n" + cells + "1\n");
  const auto begin = std::chrono::steady_clock::now();
  const Outcome o = partita({"predict", table, "--cluster", "dgx-h100"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(o.code, 3);
  EXPECT_LT(o.err.size(), 9000u);
  EXPECT_NE(o.err.find("characters"), std::string::npos) << o.err.substr(0, 300);
}

TEST(HostileNames, DoNotActOnATerminal) {
  const Outcome o =
      partita({"show", put("evil.onnx", number(1, 10) + block(8, number(2, 20)) +
                                            block(7, onnx_node("Relu\x1b[2J", "x", "y") + block(2, "g") +
                                                         onnx_value(11, "x", 2) + onnx_value(12, "y", 2)))});
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("Relu\\x1b[2J"), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace partita
