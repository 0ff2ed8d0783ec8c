// Looks up kernels by id, and estimates kernels that were not measured.
#include "partita/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace partita {

namespace {

// An estimate uses this many kernels, the nearest.
constexpr size_t kNeighbours = 4;
// Added to distances (in e-folds), so that no single kernel decides if several are near.
constexpr double kNear = 0.1;
// Errors of times below this (in us) are not taken relative to them.
constexpr double kLeastUs = 1;

double distance(const MeasuredKernel& a, double flops, double bytes) {
  return std::abs(std::log((a.flops + 1) / (flops + 1))) + std::abs(std::log((a.bytes + 1) / (bytes + 1)));
}

struct Neighbour {
  double distance = 0;
  const MeasuredKernel* kernel = nullptr;
};

double together_of(const Measured& time) {
  return time.together_us > 0 ? std::max(1.0, time.together_us / time.us) : 1;
}

double cold_of(const Measured& time) { return std::max(time.us, time.cold_us); }
double far_of(const Measured& time) { return std::max(cold_of(time), time.far_us); }

}  // namespace

std::string KernelId::key() const {
  std::string key = family() + "\n";
  for (const auto& [name, extent] : indices) key += fmt::format("{}={} ", name, extent);
  for (const Operand& o : operands) key += fmt::format("{} ", o.elements);
  return key;
}

std::string KernelId::family() const {
  std::string family = fmt::format("{}\n{}\n{}\n{}:{}", definition, form, attributes, first_stage, last_stage);
  for (const Operand& o : operands)
    family += fmt::format(" {}{} {}", o.written ? "> " : "", o.tensor, name_of(o.dtype));
  return family;
}

std::string KernelId::text() const {
  std::string text = definition;
  for (const auto& [name, extent] : indices) text += fmt::format(" {}={}", name, extent);
  std::set<std::string_view> dtypes;
  for (const Operand& o : operands) dtypes.insert(name_of(o.dtype));
  return text + fmt::format(" {}", fmt::join(dtypes, " "));
}

void Profile::add(MeasuredKernel kernel) {
  const double us = std::max(kernel.time.us, 1e-3);
  least_us_ = least_us_ > 0 ? std::min(least_us_, us) : us;
  flops_per_us_ = std::max(flops_per_us_, kernel.flops / us);
  bytes_per_us_ = std::max(bytes_per_us_, kernel.bytes / us);
  std::string key = kernel.id.key();
  if (const MeasuredKernel* before = find(kernel.id)) count(before->time, -1);
  count(kernel.time, 1);
  std::vector<std::string>& family = families_[kernel.id.family()];
  if (std::find(family.begin(), family.end(), key) == family.end()) family.push_back(key);
  kernels_.insert_or_assign(std::move(key), std::move(kernel));
}

void Profile::count(const Measured& time, int times) {
  if (!(time.mean_us > 0)) return;
  mean_us_ += times * time.runs * time.mean_us;
  median_us_ += times * time.runs * time.us;
}

const MeasuredKernel* Profile::find(const KernelId& id) const {
  const auto found = kernels_.find(id.key());
  return found == kernels_.end() ? nullptr : &found->second;
}

const Curve* Profile::curve(std::string_view of, int devices) const {
  const auto found = curves.find(CurveId{std::string(of), devices});
  return found == curves.end() ? nullptr : &found->second;
}

std::string Profile::measured_on() const { return fmt::format("{} ({})", machine.name, machine.engine); }

double Profile::nominal_us(double flops, double bytes) const {
  return least_us_ + (flops_per_us_ > 0 ? flops / flops_per_us_ : 0) + (bytes_per_us_ > 0 ? bytes / bytes_per_us_ : 0);
}

std::optional<ProfiledTime> Profile::kernel(const KernelId& id, double flops, double bytes) const {
  if (const MeasuredKernel* known = find(id))
    return ProfiledTime{known->time.us, cold_of(known->time), far_of(known->time), together_of(known->time), false};
  return estimate(id, flops, bytes);
}

std::optional<ProfiledTime> Profile::estimate(const KernelId& id, double flops, double bytes) const {
  const std::string key = id.key();
  std::vector<Neighbour> near;
  const auto consider = [&](const MeasuredKernel& kernel) {
    near.push_back({distance(kernel, flops, bytes), &kernel});
  };
  if (const auto family = families_.find(id.family()); family != families_.end())
    for (const std::string& other : family->second)
      if (other != key) consider(kernels_.at(other));
  if (near.empty())
    for (const auto& [other, kernel] : kernels_)
      if (other != key) consider(kernel);
  if (near.empty()) return std::nullopt;
  const size_t count = std::min(kNeighbours, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end(),
                    [](const Neighbour& a, const Neighbour& b) { return a.distance < b.distance; });
  double weights = 0, ratio = 0, cold = 0, far = 0, together = 0;
  for (size_t i = 0; i < count; ++i) {
    const MeasuredKernel& k = *near[i].kernel;
    const double weight = 1 / std::pow(near[i].distance + kNear, 2);
    weights += weight;
    ratio += weight * std::log(std::max(k.time.us, 1e-3) / nominal_us(k.flops, k.bytes));
    cold += weight * cold_of(k.time) / k.time.us;
    far += weight * far_of(k.time) / k.time.us;
    together += weight * together_of(k.time);
  }
  const double us = nominal_us(flops, bytes) * std::exp(ratio / weights);
  return ProfiledTime{us, us * cold / weights, us * far / weights, together / weights, true};
}

double Curve::us(double bytes) const {
  const double line = latency_us + us_per_byte * bytes;
  if (points.empty()) return line;
  const auto at = [&](const Point& p) { return p.smooth_us / (latency_us + us_per_byte * p.bytes); };  // of the line
  if (bytes <= points.front().bytes) return line * at(points.front());
  if (bytes >= points.back().bytes) return line * at(points.back());
  const auto above =
      std::upper_bound(points.begin(), points.end(), bytes, [](double b, const Point& p) { return b < p.bytes; });
  const Point& a = *(above - 1);
  const double part = std::log(bytes / a.bytes) / std::log(above->bytes / a.bytes);
  return line * (at(a) * (1 - part) + at(*above) * part);
}

namespace {

// The least-squares fit that does not fall (pool adjacent violators, Ayer et al. 1955).
void smooth(std::vector<Curve::Point>& points) {
  struct Pool {
    double us = 0;
    size_t count = 1;
  };
  std::vector<Pool> pools;
  for (const Curve::Point& p : points) {
    pools.push_back({p.time.us, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].us > pools.back().us) {
      const Pool last = pools.back();
      pools.pop_back();
      Pool& before = pools.back();
      const auto n = static_cast<double>(before.count), m = static_cast<double>(last.count);
      before = {(before.us * n + last.us * m) / (n + m), before.count + last.count};
    }
  }
  size_t at = 0;
  for (const Pool& pool : pools)
    for (size_t i = 0; i < pool.count; ++i) points[at++].smooth_us = pool.us;
}

}  // namespace

Curve fit_curve(std::vector<Curve::Point> points) {
  std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  smooth(points);
  // Minimises the squares of (latency + slope b - t) / max(t, kLeastUs).
  double s11 = 0, s12 = 0, s22 = 0, s1 = 0, s2 = 0;
  for (const Curve::Point& p : points) {
    const double w = 1 / std::max(p.smooth_us, kLeastUs), x = p.bytes * w, t = p.smooth_us * w;
    s11 += w * w, s12 += w * x, s22 += x * x, s1 += w * t, s2 += x * t;
  }
  Curve line;
  const double determinant = s11 * s22 - s12 * s12;
  if (points.size() > 1 && determinant > 1e-12 * s11 * s22) {
    line.latency_us = (s1 * s22 - s2 * s12) / determinant;
    line.us_per_byte = (s11 * s2 - s12 * s1) / determinant;
  }
  if (line.latency_us <= 0) line.latency_us = 0, line.us_per_byte = s22 > 0 ? s2 / s22 : 0;
  if (line.us_per_byte <= 0) line.us_per_byte = 0, line.latency_us = s11 > 0 ? s1 / s11 : 0;
  double mean = 0, residual = 0, variance = 0;
  for (const Curve::Point& p : points) mean += p.time.us / static_cast<double>(points.size());
  for (const Curve::Point& p : points) {
    residual += std::pow(line.latency_us + line.us_per_byte * p.bytes - p.time.us, 2);
    variance += std::pow(p.time.us - mean, 2);
  }
  line.r2 = variance > 0 ? 1 - residual / variance : 1;
  line.points = std::move(points);
  return line;
}

bool has_point(const Curve& curve, double bytes) {
  return std::any_of(curve.points.begin(), curve.points.end(), [&](const Curve::Point& p) { return p.bytes == bytes; });
}

void merge(Profile& profile, const Profile& other) {
  for (const auto& [key, kernel] : other.kernels())
    if (!profile.find(kernel.id)) profile.add(kernel);
  for (const auto& [id, theirs] : other.curves) {
    Curve& mine = profile.curves[id];
    std::vector<Curve::Point> points = mine.points;
    for (const Curve::Point& point : theirs.points)
      if (!has_point(mine, point.bytes)) points.push_back(point);
    if (points.size() > mine.points.size()) mine = fit_curve(std::move(points));
  }
  if (profile.machine.shared_cache_bytes == 0) profile.machine.shared_cache_bytes = other.machine.shared_cache_bytes;
  if (profile.machine.task_us > 0) return;
  profile.machine.task_us = other.machine.task_us, profile.machine.message_us = other.machine.message_us;
}

HeldOut held_out(const Profile& profile) {
  std::map<std::string, int> members;
  for (const auto& [key, kernel] : profile.kernels()) ++members[kernel.id.family()];
  std::vector<double> errors;
  for (const auto& [key, kernel] : profile.kernels()) {
    if (members[kernel.id.family()] < 2) continue;
    const auto estimate = profile.estimate(kernel.id, kernel.flops, kernel.bytes);
    errors.push_back(std::abs(estimate->us / kernel.time.us - 1));
  }
  HeldOut result{static_cast<int>(errors.size()), 0, 0};
  if (errors.empty()) return result;
  std::sort(errors.begin(), errors.end());
  result.median_error = errors[errors.size() / 2];
  result.ninth_decile_error = errors[errors.size() * 9 / 10];
  return result;
}

}  // namespace partita
