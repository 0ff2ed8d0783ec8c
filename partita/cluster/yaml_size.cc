// Counts the nodes of a YAML text from the parser's events, without building them.
#include "partita/cluster/yaml_size.h"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>
#include <vector>

#include "partita/cluster/cluster.h"

namespace partita::cluster_file {
namespace {

using YAML::anchor_t;
using YAML::Mark;

class Counter : public YAML::EventHandler {
 public:
  explicit Counter(const Reader& r) : r_(r) {}

  void OnDocumentStart(const Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const Mark& at, anchor_t anchor) override { leaf(at, anchor); }
  void OnScalar(const Mark& at, const std::string&, anchor_t anchor, const std::string&) override { leaf(at, anchor); }
  void OnAlias(const Mark& at, anchor_t anchor) override {
    const auto named = named_.find(anchor);
    if (named == named_.end()) fail_at(at, "an alias stands inside what it names, which would have no end");
    add(at, named->second);
  }
  void OnSequenceStart(const Mark& at, const std::string&, anchor_t anchor, YAML::EmitterStyle::value) override {
    open(at, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const Mark& at, const std::string&, anchor_t anchor, YAML::EmitterStyle::value) override {
    open(at, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Size {
    int64_t nodes = 1;
    int height = 1;  // 1: no list or map
  };
  struct Open {
    Mark at;
    anchor_t anchor = 0;
    Size size;
  };

  [[noreturn]] void fail_at(const Mark& at, const std::string& what) const {
    fail("{}:{}: {}", r_.origin, at.line + 1, what);
  }
  void leaf(const Mark& at, anchor_t anchor) {
    if (anchor) named_[anchor] = Size();
    add(at, Size());
  }
  void open(const Mark& at, anchor_t anchor) { open_.push_back({at, anchor, Size()}); }
  void close() {
    const Open closed = open_.back();
    open_.pop_back();
    if (closed.anchor) named_[closed.anchor] = closed.size;
    add(closed.at, closed.size);
  }
  void add(const Mark& at, const Size& size) {
    if (size.height + static_cast<int>(open_.size()) > kDeepestNode)
      fail_at(at, fmt::format("lists and maps are nested deeper than {}, which no cluster needs", kDeepestNode));
    if (open_.empty()) return;
    Size& around = open_.back().size;
    around.nodes += size.nodes;
    around.height = std::max(around.height, size.height + 1);
    if (around.nodes > kMostNodes)
      fail_at(at, fmt::format("with its aliases written out the file has more than {} entries; a cluster has at most "
                              "{} devices",
                              kMostNodes, kMostDevices));
  }

  const Reader& r_;
  std::vector<Open> open_;
  std::unordered_map<anchor_t, Size> named_;  // closed nodes
};

}  // namespace

void validate_yaml_size(const Reader& r, const std::string& yaml) {
  std::istringstream in(yaml);
  try {
    YAML::Parser parser(in);
    Counter counter(r);
    parser.HandleNextDocument(counter);
  } catch (const YAML::Exception&) {
  }
}

}  // namespace partita::cluster_file
