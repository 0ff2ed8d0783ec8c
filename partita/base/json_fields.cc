// Parses JSON of our own files.
#include "partita/base/json_fields.h"

#include <unordered_set>

#include "partita/base/json_append.h"
#include "partita/base/json_nesting.h"

namespace partita {
namespace {

using Json = nlohmann::ordered_json;

// Builds the tree, and refuses a repeated name in one object.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(std::string_view what) : what_(what) {}
  Json take() { return std::move(root_); }

  bool null() override { return place(nullptr); }
  bool boolean(bool value) override { return place(value); }
  bool number_integer(number_integer_t value) override { return place(value); }
  bool number_unsigned(number_unsigned_t value) override { return place(value); }
  bool number_float(number_float_t value, const string_t&) override { return place(value); }
  bool string(string_t& value) override { return place(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    names_.emplace_back();
    return open(Json::object());
  }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override {
    names_.pop_back();
    open_.pop_back();
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    if (!names_.back().insert(name).second) fail("{}: '{}' stands twice in one object", what_, name);
    name_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) override {
    fail("{}: not JSON: {}", what_, e.what());
  }

 private:
  bool place(Json value) {
    if (open_.empty()) root_ = std::move(value);
    else if (open_.back()->is_array()) open_.back()->push_back(std::move(value));
    else append(*open_.back(), std::move(name_), std::move(value));
    return true;
  }
  bool open(Json empty) {
    place(std::move(empty));
    open_.push_back(open_.empty()              ? &root_
                    : open_.back()->is_array() ? &open_.back()->back()
                                               : &open_.back()->get_ref<Json::object_t&>().back().second);
    return true;
  }

  std::string_view what_;
  Json root_;
  std::vector<Json*> open_;                             // lists and objects that enclose the place
  std::vector<std::unordered_set<std::string>> names_;  // of the objects among them
  std::string name_;
};

}  // namespace

nlohmann::ordered_json parse_json_object(std::string_view text, std::string_view what) {
  validate_json_depth(text, what);
  Builder builder(what);
  Json::sax_parse(text, &builder);
  Json json = builder.take();
  if (!json.is_object()) fail("{}: not a JSON object", what);
  return json;
}

}  // namespace partita
