// Tests array files: round trips, files as NumPy writes them, and damaged ones, which must give an error and nothing
// worse.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <limits>

#include "partita/base/input_file.h"
#include "partita/base/rng.h"
#include "partita/base/testing/error_of.h"
#include "partita/runtime/npz.h"
#include "partita/runtime/safetensors.h"

namespace partita {
namespace {

std::string scratch(const std::string& name) { return fmt::format("{}/formats_test_{}", PARTITA_BINARY_DIR, name); }

Arrays some_arrays() {
  Arrays arrays;
  arrays["w"] = {.dtype = DType::kFloat32,
                 .shape = {2, 3},
                 .real = {1, -2.5, 0.125, 3e38f, -0.0, std::numeric_limits<double>::infinity()}};
  arrays["layer.1/bias"] = {.dtype = DType::kFloat64, .shape = {2}, .real = {1.0 / 3, 1e-300}};
  arrays["ids"] = {.dtype = DType::kInt64, .shape = {1, 3}, .integer = {INT64_MIN, 0, INT64_MAX}};
  arrays["mask"] = {.dtype = DType::kBool, .shape = {3}, .integer = {1, 0, 1}};
  arrays["scalar"] = {.dtype = DType::kFloat64, .shape = {}, .real = {0.1}};
  arrays["halves"] = {.dtype = DType::kFloat16, .shape = {4}, .real = {1, -0.099975586, 65504, 0x1p-24}};
  arrays["halves"].real[1] = rounded_to(DType::kFloat16, -0.1);
  arrays["empty"] = {.dtype = DType::kFloat32, .shape = {0, 4}};
  return arrays;
}

std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string text = "\x93NUMPY";
  text += {version, '\0', static_cast<char>(header.size()), '\0'};
  if (version > 1) text += {'\0', '\0'};
  return text + header + data;
}

TEST(Npz, RoundTrip) {
  write_npz(scratch("a.npz"), some_arrays());
  EXPECT_EQ(read_arrays(scratch("a.npz")), some_arrays());
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(scratch("a.npz")).parent_path()))
    EXPECT_FALSE(entry.path().string().ends_with(".partial")) << entry.path();
  write_npz(scratch("none.npz"), {});
  EXPECT_TRUE(read_arrays(scratch("none.npz")).empty());
}

TEST(Npz, ReadsWhatNumPyWrites) {  // tests/data/make_arrays.py
  for (const char* name : {"arrays-stored.npz", "arrays-deflated.npz"}) {
    const Arrays arrays = read_arrays(fmt::format("{}/tests/data/{}", PARTITA_SOURCE_DIR, name));
    ASSERT_EQ(arrays.size(), 8u) << name;
    EXPECT_EQ(arrays.at("f4"), (Values{.dtype = DType::kFloat32, .shape = {2, 3}, .real = {0, 0.5, 1, 1.5, 2, 2.5}}));
    EXPECT_EQ(arrays.at("f8"), (Values{.dtype = DType::kFloat64, .shape = {}, .real = {0.1}}));
    EXPECT_EQ(arrays.at("i8"), (Values{.dtype = DType::kInt64, .shape = {3}, .integer = {-1, 0, 1LL << 40}}));
    EXPECT_EQ(arrays.at("i4"), (Values{.dtype = DType::kInt64, .shape = {2}, .integer = {-7, 7}}));
    EXPECT_EQ(arrays.at("u1"), (Values{.dtype = DType::kInt64, .shape = {2}, .integer = {0, 255}}));
    EXPECT_EQ(arrays.at("b1"), (Values{.dtype = DType::kBool, .shape = {2, 1}, .integer = {1, 0}}));
    EXPECT_EQ(arrays.at("none"), (Values{.dtype = DType::kFloat32, .shape = {0, 3}}));
    EXPECT_EQ(arrays.at("long").integer, std::vector<int64_t>(5000, 3));
  }
}

TEST(Npz, ReadsTheDigits) {
  const Arrays train = read_arrays(std::string(PARTITA_SOURCE_DIR) + "/examples/digits-train.npz");
  const Arrays test = read_arrays(std::string(PARTITA_SOURCE_DIR) + "/examples/digits-test.npz");
  EXPECT_EQ(train.at("x").shape, (Shape{1437, 1, 8, 8}));
  EXPECT_EQ(train.at("labels").shape, (Shape{1437}));
  EXPECT_EQ(test.at("x").shape, (Shape{360, 1, 8, 8}));
  EXPECT_EQ((std::vector<int64_t>(train.at("labels").integer.begin(), train.at("labels").integer.begin() + 5)),
            (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(train.at("x").real[2], 5.0 / 16);  // the third pixel of the first image is 5
}

TEST(Npz, NpyHeaders) {
  const std::string four("\x01\0\0\0", 4);
  const Values one{.dtype = DType::kInt64, .shape = {1}, .integer = {1}};
  EXPECT_EQ(
      parse_arrays("some/x.npy", npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }  \n", four)).at("x"),
      one);
  EXPECT_EQ(parse_arrays("x.npy", npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }", four, 2)).at("x"),
            one);
  EXPECT_EQ(parse_arrays("x.npy", npy("{\"shape\":(1,),\"fortran_order\":True,\"descr\":\"<i4\"}", four, 3)).at("x"),
            one);

  auto error = [&](const std::string& header) { return error_of([&] { parse_arrays("d/x.npy", npy(header, four)); }); };
  EXPECT_EQ(error("{'descr': '>i4', 'fortran_order': False, 'shape': (1,)}"),
            "d/x.npy: '>i4' is big-endian: convert it with numpy.astype('<i4')");
  EXPECT_NE(
      error("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}").find("element type '<c8' is not supported"),
      std::string::npos);
  EXPECT_NE(error("{'descr': '<i4', 'fortran_order': True, 'shape': (1,1)}").find("column-major"), std::string::npos);
  EXPECT_EQ(error("{'descr': '<i4', 'fortran_order': False, 'shape': (2,)}"),
            "d/x.npy: an array [2] of '<i4' needs 8 bytes, the file has 4");
  EXPECT_NE(error("{'descr': '<i4', 'fortran_order': False, 'shape': (3037000500, 3037000500, 4)}")
                .find("more bytes than can be counted"),
            std::string::npos);
  EXPECT_NE(
      error("{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}").find("too large a number"),
      std::string::npos);
  EXPECT_NE(error("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}").find("structured"),
            std::string::npos);
  EXPECT_NE(error("{'descr': '<i4', 'shape': (1,)}").find("lacks descr, fortran_order or shape"), std::string::npos);
}

TEST(Npz, Errors) {
  EXPECT_EQ(error_of([] { read_arrays("no/such.npz"); }), "no/such.npz: cannot be read: No such file or directory");
  EXPECT_NE(error_of([] { read_arrays(PARTITA_SOURCE_DIR); }).find("is a folder"), std::string::npos);
  EXPECT_EQ(error_of([] { parse_arrays("t.npz", "hello, world"); }), "t.npz: neither a .npz nor a .npy file");
  EXPECT_EQ(error_of([] { write_npz("no/such/folder/x.npz", {}); }),
            "no/such/folder/x.npz: cannot be written: No such file or directory");
  write_npz(scratch("b.npz"), some_arrays());
  std::string bytes = read_file(scratch("b.npz"));
  const std::size_t at = bytes.find("layer.1/bias.npy");
  bytes[at + 16 + 128] ^= 1;  // its first value's lowest byte
  EXPECT_EQ(error_of([&] { parse_arrays("b.npz", bytes); }),
            "b.npz, array 'layer.1/bias': its checksum is wrong: the file is damaged");
}

TEST(Safetensors, RoundTrip) {
  write_safetensors(scratch("a.safetensors"), some_arrays());
  EXPECT_EQ(read_safetensors(scratch("a.safetensors")), some_arrays());
  const Arrays brain{{"w", {.dtype = DType::kBFloat16, .shape = {3}, .real = {1, -0x1.8p-100, 0x1.02p120}}}};
  write_safetensors(scratch("b.safetensors"), brain);
  EXPECT_EQ(read_safetensors(scratch("b.safetensors")), brain);
  write_npz(scratch("brain.npz"), brain);  // as float32: NumPy has no such type
  const Values back = read_arrays(scratch("brain.npz")).at("w");
  EXPECT_EQ(back.dtype, DType::kFloat32);
  EXPECT_EQ(back.real, brain.at("w").real);
}

std::string safetensors(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  return bytes + header + data;
}

TEST(Safetensors, ReadsTheFormat) {
  const std::string data("\0\0\x80\x3f\0\0\0\xc0\x01", 9);
  const Arrays arrays = parse_safetensors(
      "w",
      safetensors(
          R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BOOL","shape":[],"data_offsets":[8,9]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} )",
          data));
  EXPECT_EQ(arrays.at("a"), (Values{.dtype = DType::kFloat32, .shape = {2}, .real = {1, -2}}));
  EXPECT_EQ(arrays.at("b"), (Values{.dtype = DType::kBool, .shape = {}, .integer = {1}}));
  EXPECT_EQ(arrays.size(), 2u);
}

TEST(Safetensors, Errors) {
  auto error = [](const std::string& header, std::size_t bytes = 8) {
    return error_of([&] { parse_safetensors("w.safetensors", safetensors(header, std::string(bytes, '\0'))); });
  };
  EXPECT_EQ(error_of([] { parse_safetensors("w", "PK"); }),
            "w: not a safetensors file: 2 bytes have no room for a header");
  EXPECT_EQ(error_of([] { parse_safetensors("w", std::string(100, 'x')); }),
            "w: not a safetensors file, or cut short: a header of 8680820740569200760 bytes in a file of 100");
  EXPECT_EQ(error("[1]"), "w.safetensors: not a safetensors file: its header is not a JSON object");
  EXPECT_EQ(
      error(R"({"a":{"dtype":"F8","shape":[8],"data_offsets":[0,8]}})"),
      "w.safetensors, array 'a': element type F8 is not supported; use F32, F64, F16, BF16, an integer type or BOOL");
  EXPECT_EQ(error(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})"),
            "w.safetensors, array 'a': [3] of F32 is not 8 bytes");
  EXPECT_EQ(error(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})"),
            "w.safetensors, array 'a': its bytes [0, 12) are not in the file, which has 8 after the header");
  EXPECT_EQ(error(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})"),
            "w.safetensors, array 'a': the header's entry needs dtype, shape and data_offsets");
  EXPECT_EQ(error(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
            "w.safetensors: its arrays overlap or leave a gap at byte 0 of the data");
  EXPECT_EQ(error(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),
            "w.safetensors: 4 bytes after the last array");
}

// Every prefix, and bytes changed at random: the same arrays, other arrays, or one error of bad input.
void damage(const std::string& path, const std::function<void(const std::string&, std::string_view)>& parse) {
  const std::string whole = read_file(path);
  constexpr uint64_t kSeed = 20240501;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Rng rng(kSeed);
  int refused = 0;
  auto attempt = [&](std::string_view bytes) {
    try {
      parse("damaged", bytes);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kBadInput) << e.what();
      EXPECT_EQ(std::string_view(e.what()).substr(0, 7), "damaged");
      ++refused;
    }
  };
  const std::size_t step = std::max<std::size_t>(1, whole.size() / 700);
  int prefixes = 0;
  for (std::size_t n = 0; n < whole.size(); n += step, ++prefixes) attempt(std::string_view(whole).substr(0, n));
  EXPECT_EQ(refused, prefixes) << path << ": a prefix was taken for the whole";
  for (int round = 0; round < 1500; ++round) {
    std::string bytes = whole;
    for (uint64_t flips = 1 + rng.below(3); flips > 0; --flips) {
      // headers and directories are the interesting part: half of the changes go to the first or last 300 bytes
      const uint64_t edge = std::min<uint64_t>(300, bytes.size());
      const uint64_t where = rng.below(4);
      const uint64_t at = where == 0   ? rng.below(edge)
                          : where == 1 ? bytes.size() - 1 - rng.below(edge)
                                       : rng.below(bytes.size());
      bytes[at] = static_cast<char>(rng.below(3) == 0 ? bytes[at] ^ (1 << rng.below(8))
                                    : rng.below(2)    ? rng.below(256)
                                                      : 0xff);
    }
    attempt(bytes);
  }
  EXPECT_GT(refused, prefixes + 300);
}

TEST(Damaged, Npz) {
  write_npz(scratch("c.npz"), some_arrays());
  damage(scratch("c.npz"), parse_arrays);
}
TEST(Damaged, DeflatedNpz) {
  damage(std::string(PARTITA_SOURCE_DIR) + "/tests/data/arrays-deflated.npz", parse_arrays);
}
TEST(Damaged, Safetensors) {
  write_safetensors(scratch("c.safetensors"), some_arrays());
  damage(scratch("c.safetensors"), parse_safetensors);
}

}  // namespace
}  // namespace partita
