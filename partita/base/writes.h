// Writes several files of one command: none is left out because another cannot be written.
#pragma once
#include <optional>

#include "partita/base/error.h"

namespace partita {

class Writes {
 public:
  template <typename Write>
  void add(Write write) {
    try {
      write();
    } catch (const Error& error) {
      if (!first_) first_ = error;
    }
  }
  // Throws the first of their errors.
  void end() const {
    if (first_) throw *first_;
  }

 private:
  std::optional<Error> first_;
};

}  // namespace partita
