// Holds measurements of kernels, collectives and copies on one type of device, for plans and simulations
// (docs/reference/profile.md). `partita profile` or tools/profile_torch.py writes its file. A Profile is a value.
//
// Example: a product of 32 x 64 x 64 took 21 us. A plan that asks for it gets 21 us, measured. A plan that asks for 64
// x 64 x 64 gets about 40 us, estimated from it.
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

// Identifies a kernel. It runs stages [first_stage, last_stage) of a definition, over so many values of each index of
// its formula. It reads or writes so many elements of each tensor. Kernels with equal ids take equally long.
struct KernelId {
  struct Operand {
    std::string tensor;  // its name in the formula
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
  std::vector<Operand> operands;                         // tensors read, then tensors written
  bool operator==(const KernelId&) const = default;

  std::string key() const;     // equal for equal ids alone
  std::string family() const;  // the same without sizes
  std::string text() const;    // for people: "matmul i=32 j=64 k=64 float32"
};

// One timed kernel, collective or copy.
struct Measured {
  double us = 0;         // the median; for kernels with operands in the core's cache
  double spread_us = 0;  // between the quartiles
  int runs = 0;
  // The median with one run on each core at once; 0: not measured. At least `us`.
  double together_us = 0;
  double cold_us = 0;  // for kernels, after other memory filled the core's cache; 0: not measured. At least `us`
  double mean_us = 0;  // for kernels; 0: not kept. Occasional interruptions raise it above the median
  double far_us = 0;   // for kernels with their operands in no cache; 0: not measured. At least `cold_us`
  bool operator==(const Measured&) const = default;
};

struct MeasuredKernel {
  KernelId id;
  double flops = 0, bytes = 0;
  Measured time;
  std::string how;  // the way it was run, if the file says so: "einsum". For people
  bool operator==(const MeasuredKernel&) const = default;
};

// Times that depend on bytes alone. There are points, and latency + bytes / bandwidth through them (Pesto section 3.1),
// fitted by least squares of the relative errors.
struct Curve {
  struct Point {
    double bytes = 0;
    Measured time;
    double smooth_us = 0;  // us() goes through these: the times, made not to fall with bytes
    bool operator==(const Point&) const = default;
  };
  std::vector<Point> points;  // by bytes
  double latency_us = 0, us_per_byte = 0;
  double r2 = 0;  // of the fit: 1 if it explains all of the points' variance
  // Interpolated between the points; beyond them, in proportion to the line.
  double us(double bytes) const;
  bool operator==(const Curve&) const = default;
};
Curve fit_curve(std::vector<Curve::Point> points);  // at least one
bool has_point(const Curve& curve, double bytes);

// The kind of a line: `of` is "all-reduce" and so on, for so many devices; "transfer", "copy", "load", "output" with
// devices 0.
struct CurveId {
  std::string of;
  int devices = 0;
  auto operator<=>(const CurveId&) const = default;
};

// The measured machine; it has no figures if the profile is of a single device (GPUs).
struct Machine {
  std::string name;               // "Intel(R) Xeon(R) Processor"
  std::string engine;             // the library that ran the kernels
  int cores = 0;                  // shared by all devices; 0: each device has its own processor
  double cache_bytes = 0;         // a core's own; 0: kernels are timed with operands in it
  double shared_cache_bytes = 0;  // of the cache that the cores share, as far as it serves them; 0: not known
  double task_us = 0;             // the runtime's overhead for each task
  double message_us = 0;          // from the end of a task to the start of one on another queue that waits for it
  bool operator==(const Machine&) const = default;
};

// A profile's answer for a kernel.
struct ProfiledTime {
  double us = 0;
  double cold_us = 0;      // at least `us`
  double far_us = 0;       // at least `cold_us`
  double together = 1;     // times as long with all cores busy
  bool estimated = false;  // from other kernels of its definition
};

class Profile {
 public:
  std::string device;  // the type of the cluster's devices that were measured: "core", "H100"
  Machine machine;
  std::map<CurveId, Curve> curves;

  void add(MeasuredKernel kernel);  // replaces an earlier one with the same id
  const MeasuredKernel* find(const KernelId& id) const;
  const std::map<std::string, MeasuredKernel>& kernels() const { return kernels_; }
  const Curve* curve(std::string_view of, int devices = 0) const;
  // "Intel(R) Xeon(R) Processor (torch 2.13.0+cpu, cpu)": devices of a type may be other machines than its name says.
  std::string measured_on() const;
  // The total time of kernels' runs over the total at each kernel's median: a step adds up means. 1 without means. It
  // covers all kernels together, since one has few runs.
  double mean_over_median() const { return median_us_ > 0 ? mean_us_ / median_us_ : 1; }

  // The time of a kernel: measured, or else estimated from kernels of the same definition, stages and dtypes. If there
  // are none, kernels of other definitions serve, those with products for one with products. The estimate weights their
  // times over nominal ones by nearness in log FLOPs and log bytes. Nominal is the roofline that all kernels of the
  // profile reach. Empty without kernels.
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
  double mean_us_ = 0, median_us_ = 0;  // over all runs of kernels
};

// Adds entries of `other` that `profile` lacks: kernels, points of curves, overheads.
void merge(Profile& profile, const Profile& other);

// The errors of estimates against measurements: each kernel that has another of its family is estimated from all
// others.
struct HeldOut {
  int kernels = 0;
  double median_error = 0, ninth_decile_error = 0;  // |estimated / measured - 1|
};
HeldOut held_out(const Profile& profile);

// An entry of the file; without its time if it was not timed (no runs).
nlohmann::ordered_json kernel_json(const MeasuredKernel& kernel);
// Prints JSON with `schema_version` 1; parsing is strict. Bad input names file, entry and key.
std::string print(const Profile& profile);
Profile parse_profile(std::string_view json, std::string_view origin);

}  // namespace partita
