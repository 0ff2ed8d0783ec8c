// Prints and reads a profile's file.
#include <algorithm>
#include <array>
#include <cmath>

#include "partita/base/json_fields.h"
#include "partita/profile/profile.h"

namespace partita {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

double rounded(double x) { return std::round(x * 1e4) / 1e4; }

void put_times(Json& json, const Measured& time) {
  json["us"] = rounded(time.us);
  json["spread_us"] = rounded(time.spread_us);
  json["runs"] = time.runs;
  if (time.together_us > 0) json["together_us"] = rounded(time.together_us);
  if (time.cold_us > 0) json["cold_us"] = rounded(time.cold_us);
  if (time.far_us > 0) json["far_us"] = rounded(time.far_us);
  if (time.mean_us > 0) json["mean_us"] = rounded(time.mean_us);
}

Json curve_json(const CurveId& id, const Curve& line) {
  Json json = {{"of", id.of}};
  if (id.devices > 0) json["devices"] = id.devices;
  json["latency_us"] = rounded(line.latency_us);
  if (line.us_per_byte > 0) json["gbytes_per_s"] = rounded(1e-3 / line.us_per_byte);
  json["r2"] = rounded(line.r2);
  Json points = Json::array();
  for (const Curve::Point& point : line.points) {
    Json p = {{"bytes", point.bytes}};
    put_times(p, point.time);
    points.push_back(p);
  }
  json["points"] = points;
  return json;
}

// One entry a line, so that profiles can be compared line by line.
void add_list(std::string& text, const char* name, const std::vector<Json>& entries) {
  text += fmt::format(",\n  \"{}\": [", name);
  for (size_t i = 0; i < entries.size(); ++i) text += (i ? ",\n    " : "\n    ") + entries[i].dump();
  text += "\n  ]";
}

// Bounds of a file's values. Times are at least those that are written; sums over a step stay numbers of nanoseconds.
constexpr double kLeastUs = 1e-3, kMostUs = 1e9, kMostAmount = 1e24;
constexpr int kMostCores = 1 << 20;
constexpr int64_t kMostExtent = int64_t{1} << 53;

double bounded(Fields& in, const std::string& where, const char* key, double value, double least, double most) {
  if (!(value >= least && value <= most))
    fail("{}: {} is {}; it is from {:g} to {:g}", where, key, in.get(key).dump(), least, most);
  return value;
}
double required(Fields& in, const std::string& where, const char* key, double least, double most) {
  return bounded(in, where, key, in.value<double>(key), least, most);
}
double time_or_none(Fields& in, const std::string& where, const char* key) {
  return bounded(in, where, key, in.value_or<double>(key, 0), 0, kMostUs);
}

const Json& read_list(Fields& in, const std::string& where, const char* key) {
  const Json& list = in.get(key);
  if (!list.is_array()) fail("{}: {} is a list, not {}", where, key, list.type_name());
  return list;
}

Measured read_measured(Fields& in, const std::string& where) {
  Measured time;
  time.us = required(in, where, "us", kLeastUs, kMostUs);
  time.spread_us = time_or_none(in, where, "spread_us");
  time.runs = in.value_or<int>("runs", 1);
  time.together_us = time_or_none(in, where, "together_us");
  time.cold_us = time_or_none(in, where, "cold_us");
  time.far_us = time_or_none(in, where, "far_us");
  time.mean_us = time_or_none(in, where, "mean_us");
  // Half of the runs took the median or longer.
  if (constexpr double kHalf = 0.49; time.mean_us > 0 && time.mean_us < kHalf * time.us)
    fail("{}: mean_us is {}; the mean is no less than half of the median, us {}", where, time.mean_us, time.us);
  if (time.runs < 1) fail("{}: runs is {}; it is 1 or more", where, time.runs);
  return time;
}

KernelId::Operand read_operand(const Json& json, const std::string& where) {
  if (!json.is_array() || json.size() != 4 || !json[0].is_string() || !json[1].is_string() || !is_a<int64_t>(json[2]) ||
      (json[3] != "read" && json[3] != "written"))
    fail("{}: an operand is [tensor, dtype, elements, read or written], not {}", where, json.dump());
  const auto elements = json[2].get<int64_t>();
  if (elements < 0 || elements > kMostExtent) fail("{}: an operand has {} elements", where, elements);
  try {
    return {json[0], parse_dtype(json[1].get<std::string>()), elements, json[3] == "written"};
  } catch (const Error& error) {
    fail("{}: {}", where, error.what());
  }
}

MeasuredKernel read_kernel(const Json& json, const std::string& where) {
  Fields in(json, where);
  MeasuredKernel kernel;
  KernelId& id = kernel.id;
  id.definition = in.value<std::string>("definition");
  id.form = in.value<std::string>("form");
  id.attributes = in.value_or<std::string>("attributes", "");
  const auto stages = in.value<std::vector<int>>("stages");
  if (stages.size() != 2 || stages[0] < 0 || stages[1] <= stages[0])
    fail("{}: stages are [first, last + 1], not {}", where, in.get("stages").dump());
  id.first_stage = stages[0], id.last_stage = stages[1];
  for (const Json& index : read_list(in, where, "indices")) {
    if (!index.is_array() || index.size() != 2 || !index[0].is_string() || !is_a<int64_t>(index[1]) || index[1] < 0 ||
        index[1] > kMostExtent)
      fail("{}: an index is [name, extent], not {}", where, index.dump());
    id.indices.emplace_back(index[0], index[1]);
  }
  for (const Json& operand : read_list(in, where, "operands")) id.operands.push_back(read_operand(operand, where));
  kernel.flops = required(in, where, "flops", 0, kMostAmount);
  kernel.bytes = required(in, where, "bytes", 0, kMostAmount);
  kernel.time = read_measured(in, where);
  kernel.how = in.value_or<std::string>("how", "");
  in.done();
  return kernel;
}

constexpr std::array<std::string_view, 4> kCollectives = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all"};
constexpr std::array<std::string_view, 4> kOthers = {"transfer", "copy", "load", "output"};

void read_curve(const Json& json, const std::string& where, Profile& profile) {
  Fields in(json, where);
  const CurveId id{in.value<std::string>("of"), in.value_or<int>("devices", 0)};
  const auto is = [&](const auto& names) { return std::find(names.begin(), names.end(), id.of) != names.end(); };
  if (!is(kCollectives) && !is(kOthers))
    fail("{}: '{}' is no kind of curve; known are {}, {}", where, id.of, fmt::join(kCollectives, ", "),
         fmt::join(kOthers, ", "));
  if (is(kCollectives) ? id.devices < 2 : id.devices != 0)
    fail("{}: {} for {} devices; collectives are of 2 or more, others without 'devices'", where, id.of, id.devices);
  for (const char* derived : {"latency_us", "gbytes_per_s", "r2"}) in.optional(derived);  // follow from the points
  std::vector<Curve::Point> points;
  for (const Json& p : read_list(in, where, "points")) {
    const std::string at = fmt::format("{}: point {}", where, points.size() + 1);
    Fields point(p, at);
    const double bytes = required(point, at, "bytes", 1, static_cast<double>(kMostExtent));
    points.push_back({bytes, read_measured(point, at), 0});
    point.done();
  }
  in.done();
  if (points.empty()) fail("{}: a curve has at least one point", where);
  if (!profile.curves.emplace(id, fit_curve(std::move(points))).second)
    fail("{}: '{}' for {} devices stands twice", where, id.of, id.devices);
}

}  // namespace

nlohmann::ordered_json kernel_json(const MeasuredKernel& kernel) {
  const KernelId& id = kernel.id;
  Json json = {{"definition", id.definition}, {"form", id.form}};
  if (!id.attributes.empty()) json["attributes"] = id.attributes;
  json["stages"] = {id.first_stage, id.last_stage};
  Json indices = Json::array(), operands = Json::array();
  for (const auto& [name, extent] : id.indices) indices.push_back({name, extent});
  for (const KernelId::Operand& o : id.operands)
    operands.push_back({o.tensor, std::string(name_of(o.dtype)), o.elements, o.written ? "written" : "read"});
  json["indices"] = indices;
  json["operands"] = operands;
  json["flops"] = kernel.flops;
  json["bytes"] = kernel.bytes;
  if (kernel.time.runs > 0) put_times(json, kernel.time);
  if (!kernel.how.empty()) json["how"] = kernel.how;
  return json;
}

std::string print(const Profile& profile) {
  const Machine& m = profile.machine;
  const Json machine = {{"name", m.name},
                        {"engine", m.engine},
                        {"cores", m.cores},
                        {"cache_bytes", m.cache_bytes},
                        {"shared_cache_bytes", m.shared_cache_bytes},
                        {"task_us", rounded(m.task_us)},
                        {"message_us", rounded(m.message_us)}};
  std::string text = fmt::format("{{\n  \"schema_version\": {},\n  \"device\": {},\n  \"machine\": {}", kSchemaVersion,
                                 Json(profile.device).dump(), machine.dump());
  std::vector<Json> kernels, curves;
  for (const auto& [key, kernel] : profile.kernels()) kernels.push_back(kernel_json(kernel));
  for (const auto& [id, line] : profile.curves) curves.push_back(curve_json(id, line));
  add_list(text, "curves", curves);
  add_list(text, "kernels", kernels);
  return text + "\n}\n";
}

Profile parse_profile(std::string_view text, std::string_view origin) {
  const Json json = parse_json_object(text, origin);
  Fields in(json, std::string(origin));
  if (const int version = in.value<int>("schema_version"); version != kSchemaVersion)
    fail("{}: schema_version is {}; this program reads {}", origin, version, kSchemaVersion);
  Profile profile;
  profile.device = in.value<std::string>("device");
  const std::string where = fmt::format("{}: machine", origin);
  Fields machine(in.object("machine"), where);
  profile.machine.name = machine.value<std::string>("name");
  profile.machine.engine = machine.value<std::string>("engine");
  profile.machine.cores = machine.value_or<int>("cores", 0);
  bounded(machine, where, "cores", profile.machine.cores, 0, kMostCores);
  for (const auto& [key, bytes] : {std::pair{"cache_bytes", &profile.machine.cache_bytes},
                                   std::pair{"shared_cache_bytes", &profile.machine.shared_cache_bytes}})
    *bytes = bounded(machine, where, key, machine.value_or<double>(key, 0), 0, kMostAmount);
  profile.machine.task_us = time_or_none(machine, where, "task_us");
  profile.machine.message_us = time_or_none(machine, where, "message_us");
  machine.done();
  int number = 0;
  for (const Json& entry : read_list(in, std::string(origin), "kernels"))
    profile.add(read_kernel(entry, fmt::format("{}: kernel {}", origin, ++number)));
  number = 0;
  if (in.optional("curves"))
    for (const Json& entry : read_list(in, std::string(origin), "curves"))
      read_curve(entry, fmt::format("{}: curve {}", origin, ++number), profile);
  in.done();
  return profile;
}

}  // namespace partita
