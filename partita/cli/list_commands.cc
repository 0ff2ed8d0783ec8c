// models, clusters, searches: list the available ones.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/cli/commands.h"
#include "partita/models/models.h"

namespace partita {

using Json = nlohmann::ordered_json;

int models_command(const Arguments& a) {
  Json list = Json::array();
  for (const ModelInfo& m : list_models()) {
    Json options = Json::object();
    if (!a.json) fmt::print("zoo:{:<14} {}\n", m.name, m.summary);
    for (const ModelOption& o : m.options) {
      options[o.name] = o.value;
      if (!a.json) fmt::print("    {:<12} {} (default {})\n", o.name, o.meaning, o.value);
    }
    list.push_back({{"name", "zoo:" + m.name}, {"summary", m.summary}, {"options", options}});
  }
  if (a.json) print_json({{"models", list}});
  return 0;
}

int clusters_command(const Arguments& a) {
  if (!a.target.empty()) {
    const Cluster cluster = load_cluster(a.target);
    if (a.json) print_json({{"name", cluster.name}, {"file", cluster.text}});
    else fmt::print("{}", cluster.text);
    return 0;
  }
  Json list = Json::array();
  for (const ClusterPreset& c : cluster_presets()) {
    if (!a.json) fmt::print("{:<14} {}\n", c.name, c.summary);
    list.push_back({{"name", c.name}, {"summary", c.summary}});
  }
  if (a.json) print_json({{"clusters", list}});
  return 0;
}

int searches_command(const Arguments& a) {
  Json list = Json::array();
  for (const SearchEntry& s : searches()) {
    if (!a.json)
      fmt::print("{:<16} {:<22} {}{}{}\n", s.name, s.source, s.summary,
                 s.warm ? "; can begin with a plan (--from)" : "",
                 s.estimates ? "; evaluated by the simulator, cannot be run" : "");
    for (const auto& [name, values] : s.options)
      if (!a.json) fmt::print("    ?{}={}\n", name, fmt::join(values, "|"));
    list.push_back({{"name", s.name},
                    {"source", s.source},
                    {"summary", s.summary},
                    {"options", s.options},
                    {"warm", s.warm},
                    {"estimates", s.estimates}});
  }
  for (const auto& [alias, whole] : search_aliases())
    if (!a.json) fmt::print("{:<16} is {}\n", alias, whole);
  if (a.json) print_json({{"searches", list}, {"aliases", search_aliases()}});
  return 0;
}

}  // namespace partita
