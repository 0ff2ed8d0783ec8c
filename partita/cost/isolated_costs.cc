// Computes isolated costs of conversions, with a cache.
#include "partita/cost/isolated_costs.h"

#include <algorithm>
#include <cmath>

#include "partita/cost/whole_ns.h"
#include "partita/physical/lower_local.h"

namespace partita {

Layout coarse(const Layout& layout) {
  Layout out = layout;
  const Shape shape = layout.shape();
  for (size_t a = 0; a < shape.size(); ++a) {
    if (out.radices[a].size() == 1) continue;
    std::vector<Shape> radices = out.radices;
    radices[a] = {shape[a]};
    if (auto fewer = over_radices(out, radices)) out = std::move(*fewer);
  }
  return out;
}

namespace {

uint64_t both(int a, int b) { return static_cast<uint64_t>(a) << 32 | static_cast<uint32_t>(b); }

int64_t whole(double ns) { return whole_ns(ns, 0); }

}  // namespace

ConversionTimes::ConversionTimes(const Cluster& cluster) : cost_(cluster), converter_(cluster) {}

int64_t ConversionTimes::Time::ns(double scale) const {
  double sum = line.fixed_ns + scale * line.moving_ns;
  for (const auto& step : steps) sum += step->ns(scale);
  return whole(sum);
}

std::shared_ptr<const StepTime> ConversionTimes::step(int from, int to) {
  std::shared_ptr<const StepTime>& known = steps_[both(from, to)];
  if (!known) known = std::make_shared<const StepTime>(converter_.step(from, to, 1), cost_);
  return known;
}

const ConversionTimes::Time& ConversionTimes::time(int from, int to) {
  const auto [found, fresh] = times_.try_emplace(both(from, to));
  Time& time = found->second;
  if (!fresh) return time;
  const std::vector<int> through = converter_.through(from, to);
  for (size_t i = 1; i < through.size(); ++i) {
    std::shared_ptr<const StepTime> one = step(through[i - 1], through[i]);
    if (const Duration* line = one->straight()) {
      time.line.fixed_ns += line->fixed_ns;
      time.line.moving_ns += line->moving_ns;
    } else {
      time.steps.push_back(std::move(one));
    }
  }
  return time;
}

int64_t ConversionTimes::ns(const Layout& from, const Layout& to, int64_t element_bytes) {
  std::vector<Layout> ends = {coarse(from), coarse(to)};
  const int64_t scale = ends[0].mesh == ends[1].mesh && ends[0].radices == ends[1].radices ? shorten(ends) : 1;
  const int f = converter_.number(ends[0]), t = converter_.number(ends[1]);
  return time(f, t).ns(static_cast<double>(scale * element_bytes));
}

std::vector<int64_t> ConversionTimes::table(const std::vector<Layout>& layouts, const std::vector<int>& from,
                                            const std::vector<int>& to, int64_t element_bytes) {
  std::vector<int64_t> out;
  if (from.empty() || to.empty()) return out;
  out.reserve(from.size() * to.size());
  std::vector<Layout> all;
  for (const Layout& l : layouts) all.push_back(coarse(l));
  const bool alike = std::all_of(all.begin(), all.end(),
                                 [&](const Layout& l) { return l.radices == all[0].radices && l.mesh == all[0].mesh; });
  if (!alike) {
    std::vector<int> numbers(all.size(), -1);
    auto number = [&](int l) {
      if (numbers[l] < 0) numbers[l] = converter_.number(all[l]);
      return numbers[l];
    };
    for (int f : from)
      for (int t : to)
        out.push_back(all[f].mesh == all[t].mesh && all[f].radices == all[t].radices
                          ? ns(all[f], all[t], element_bytes)
                          : time(number(f), number(t)).ns(static_cast<double>(element_bytes)));
    return out;
  }
  const auto scale = static_cast<double>(shorten(all) * element_bytes);
  std::vector<int> numbers;
  for (const Layout& l : all) numbers.push_back(converter_.number(l));
  for (int f : from)
    for (int t : to) out.push_back(time(numbers[f], numbers[t]).ns(scale));
  return out;
}

int64_t ConversionTimes::inner_ns(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                                  int64_t element_bytes) {
  int64_t sum = 0;
  for_each_inner_conversion(bound, derived, mesh,
                            [&](size_t, const Layout& from, const Layout& to) { sum += ns(from, to, element_bytes); });
  return sum;
}

int64_t ConversionTimes::load_ns(const Layout& kept_layout, int64_t element_bytes) const {
  return with_hosts_ns(layout_on_hosts(kept_layout, cost_.cluster()), kept_layout, element_bytes);
}
int64_t ConversionTimes::give_ns(const Layout& kept_layout, int64_t element_bytes) const {
  return with_hosts_ns(kept_layout, layout_on_first_host(kept_layout, cost_.cluster()), element_bytes);
}

int64_t ConversionTimes::with_hosts_ns(const Layout& from, const Layout& to, int64_t element_bytes) const {
  double on_host = 0;
  for (const Layout* layout : {&from, &to})
    for (int p = 0; p < layout->mesh.positions(); ++p)
      if (const DeviceId device = layout->mesh.devices[p]; device.value >= cost_.cluster().compute_count) {
        const Duration copy = cost_.copy(device, static_cast<double>(layout->elements(p) * element_bytes));
        on_host = std::max(on_host, copy.fixed_ns + copy.moving_ns);
      }
  return whole(on_host + StepTime(fetch(from, to, 1, cost_.cluster()), cost_).ns(static_cast<double>(element_bytes)));
}

}  // namespace partita
