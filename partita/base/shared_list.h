// Holds a list whose copies share their contents until one of them changes.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace partita {

template <typename T>
class SharedList {
 public:
  SharedList() = default;
  SharedList(std::vector<T> list) : list_(std::make_shared<std::vector<T>>(std::move(list))) {}
  SharedList(std::initializer_list<T> list) : SharedList(std::vector<T>(list)) {}
  template <typename It>
  SharedList(It begin, It end) : SharedList(std::vector<T>(begin, end)) {}

  operator const std::vector<T>&() const { return list(); }
  const std::vector<T>& list() const {
    static const std::vector<T> kNone;
    return list_ ? *list_ : kNone;
  }
  std::size_t size() const { return list().size(); }
  bool empty() const { return list().empty(); }
  const T& operator[](std::size_t i) const { return list()[i]; }
  const T& back() const { return list().back(); }
  auto begin() const { return list().begin(); }
  auto end() const { return list().end(); }

  void push_back(T value) {
    if (!list_ || list_.use_count() > 1) list_ = std::make_shared<std::vector<T>>(list());
    list_->push_back(std::move(value));
  }

  friend bool operator==(const SharedList& a, const SharedList& b) {
    return a.list_ == b.list_ || a.list() == b.list();
  }

 private:
  std::shared_ptr<std::vector<T>> list_;
};

}  // namespace partita
