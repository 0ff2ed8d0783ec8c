// What was measured of kernels, collectives and copies on one type of device: a file that `partita profile` or
// tools/profile_torch.py writes, and from which plans and simulations take times (docs/reference/profile.md). A value.
//
// Example: a product of 32 x 64 x 64 took 21 us. A plan that asks for it is told 21 us, measured; one that asks for
// 64 x 64 x 64 is told about 40 us, estimated from it.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/base/dtype.h"

namespace partita {

// Which kernel: stages [first_stage, last_stage) of a definition, over so many values of each index of its formula, on
// so many elements of each tensor that it reads or writes. Kernels with equal ids take equally long.
struct KernelId {
  struct Operand {
    std::string tensor;  // as the formula calls it
    DType dtype = DType::kFloat32;
    int64_t elements = 0;
    bool written = false;
    bool operator==(const Operand&) const = default;
  };
  std::string definition;  // "matmul"
  std::string form;        // of its formula, without extents: two of one name may differ
  std::string attributes;  // "p=1, stride=2"
  int first_stage = 0, last_stage = 1;
  std::vector<std::pair<std::string, int64_t>> indices;  // names and extents, in the formula's order
  std::vector<Operand> operands;                         // what is read, then what is written
  bool operator==(const KernelId&) const = default;

  std::string key() const;     // equal for equal ids alone
  std::string family() const;  // the same without sizes
  std::string text() const;    // for people: "matmul i=32 j=64 k=64 float32"
};

// One thing that was timed.
struct Measured {
  double us = 0;         // the median; of kernels with their operands in the core's cache
  double spread_us = 0;  // between the quartiles
  int runs = 0;
  // With one on each core at once, the median; 0: not measured. At least `us`.
  double together_us = 0;
  double cold_us = 0;  // of kernels, after other memory filled the core's cache; 0: not measured. At least `us`
  double mean_us = 0;  // of kernels; 0: not kept. What is now and then interrupted takes more than its median
  double far_us = 0;   // of kernels, with their operands in no cache; 0: not measured. At least `cold_us`
  bool operator==(const Measured&) const = default;
};

struct MeasuredKernel {
  KernelId id;
  double flops = 0, bytes = 0;
  Measured time;
  std::string how;  // it was run, where the file says so: "einsum". For people
  bool operator==(const MeasuredKernel&) const = default;
};

// What depends on bytes alone: points, and latency + bytes / bandwidth through them (Pesto section 3.1), fitted by
// least squares of the relative errors.
struct Curve {
  struct Point {
    double bytes = 0;
    Measured time;
    double smooth_us = 0;  // what us() goes through: the times, made not to fall with bytes
    bool operator==(const Point&) const = default;
  };
  std::vector<Point> points;  // by bytes
  double latency_us = 0, us_per_byte = 0;
  double r2 = 0;  // of the fit: 1 where it explains all of the points' variance
  // Interpolated between the points; beyond them, in proportion to the line.
  double us(double bytes) const;
  bool operator==(const Curve&) const = default;
};
Curve fitted(std::vector<Curve::Point> points);  // at least one
bool has_point(const Curve& curve, double bytes);

// Of what kind a line is: `of` is "all-reduce" and so on, for so many devices; "transfer", "copy", "load", "output"
// with devices 0.
struct CurveId {
  std::string of;
  int devices = 0;
  auto operator<=>(const CurveId&) const = default;
};

// The machine that was measured; its figures are none where the profile is of a single device (GPUs).
struct Machine {
  std::string name;               // "Intel(R) Xeon(R) Processor"
  std::string engine;             // what ran the kernels
  int cores = 0;                  // that all devices share; 0: each device has its own processor
  double cache_bytes = 0;         // that a core has for itself; 0: kernels take what they take with operands in it
  double shared_cache_bytes = 0;  // of the cache that the cores share, as far as it serves them; 0: not known
  double task_us = 0;             // what the runtime adds to each task
  double message_us = 0;          // from the end of a task to the start of one on another queue that waits for it
  bool operator==(const Machine&) const = default;
};

// An answer of a profile.
struct ProfiledTime {
  double us = 0;
  double cold_us = 0;      // at least `us`
  double far_us = 0;       // at least `cold_us`
  double together = 1;     // times as long with all cores busy
  bool estimated = false;  // from others of its definition
};

class Profile {
 public:
  std::string device;  // the type of the cluster's devices that this is of: "core", "H100"
  Machine machine;
  std::map<CurveId, Curve> curves;

  void add(MeasuredKernel kernel);  // in place of an earlier one with the same id
  const MeasuredKernel* find(const KernelId& id) const;
  const std::map<std::string, MeasuredKernel>& kernels() const { return kernels_; }
  const Curve* curve(std::string_view of, int devices = 0) const;
  // "Intel(R) Xeon(R) Processor (torch 2.13.0+cpu, cpu)": devices of a type may be other machines than its name says.
  std::string measured_on() const;
  // What runs of kernels took in all over what they would have with each at its kernel's median: a step adds up means.
  // 1 without means; of all kernels together, since one has few runs.
  double mean_over_median() const { return median_us_ > 0 ? mean_us_ / median_us_ : 1; }

  // What a kernel takes: what was measured; else an estimate from kernels of the same definition, stages and dtypes
  // (of others that do products or do not, where there is none). Their times over nominal ones, weighted by nearness in
  // log FLOPs and log bytes; nominal is the roofline that all kernels of the profile come to. Empty without kernels.
  std::optional<ProfiledTime> kernel(const KernelId& id, double flops, double bytes) const;
  // The same as if `id` had not been measured: to test estimates.
  std::optional<ProfiledTime> estimate(const KernelId& id, double flops, double bytes) const;

 private:
  double nominal_us(double flops, double bytes) const;
  void count(const Measured& time, int times);
  std::map<std::string, MeasuredKernel> kernels_;             // by key
  std::map<std::string, std::vector<std::string>> families_;  // keys by family
  // The roofline: the least time of a kernel, the most FLOPs and the most bytes a microsecond of any.
  double least_us_ = 0, flops_per_us_ = 0, bytes_per_us_ = 0;
  double mean_us_ = 0, median_us_ = 0;  // of all runs of kernels
};

// Adds what the other has and `profile` lacks: kernels, points of curves, overheads.
void merge(Profile& profile, const Profile& other);

// How far estimates are from what was measured: of each kernel that has another of its family, from all others.
struct HeldOut {
  int kernels = 0;
  double median_error = 0, ninth_decile_error = 0;  // |estimated / measured - 1|
};
HeldOut held_out(const Profile& profile);

// An entry of the file; without its time where it was not timed (no runs).
nlohmann::ordered_json kernel_json(const MeasuredKernel& kernel);
// JSON with `schema_version` 1. Bad input names file, entry and key.
std::string print(const Profile& profile);
Profile parse_profile(std::string_view json, std::string_view origin);

}  // namespace partita
