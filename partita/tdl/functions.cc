// Lists the functions of formulas.
#include "partita/tdl/functions.h"

#include <cmath>
#include <cstdint>

namespace partita::tdl {
namespace {

double of_asin(double x) { return 1 / std::sqrt(1 - x * x); }
double of_atan(double x) { return 1 / (1 + x * x); }
double of_asinh(double x) { return 1 / std::sqrt(x * x + 1); }
double of_acosh(double x) { return 1 / std::sqrt(x * x - 1); }
double of_atanh(double x) { return 1 / std::abs(1 - x * x); }

constexpr RealFunction kReal[] = {
    {"asin", std::asin, of_asin, "1 / sqrt(1 - x[] * x[])"},
    {"acos", std::acos, of_asin, "-1 / sqrt(1 - x[] * x[])"},
    {"atan", std::atan, of_atan, "1 / (1 + x[] * x[])", true},
    {"sinh", std::sinh, [](double x) { return std::cosh(x); }, "cosh(x[])", true},
    {"cosh", std::cosh, [](double x) { return std::abs(std::sinh(x)); }, "sinh(x[])"},
    {"asinh", std::asinh, of_asinh, "1 / sqrt(x[] * x[] + 1)", true},
    {"acosh", std::acosh, of_acosh, "1 / sqrt(x[] * x[] - 1)"},
    {"atanh", std::atanh, of_atanh, "1 / (1 - x[] * x[])"},
};

// Shifts: bits that leave are lost; bits that enter are 0 on the right and the sign on the left.
int64_t shifted_left(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
}
int64_t shifted_right(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }

constexpr IntegerFunction kInteger[] = {
    {"bit_and", [](int64_t a, int64_t b) { return a & b; }},
    {"bit_or", [](int64_t a, int64_t b) { return a | b; }},
    {"bit_xor", [](int64_t a, int64_t b) { return a ^ b; }},
    {"shift_left", shifted_left},
    {"shift_right", shifted_right},
};

template <typename Row>
const Row* find_row(std::span<const Row> rows, std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace

std::span<const RealFunction> real_functions() { return kReal; }
const RealFunction* find_real_function(std::string_view name) { return find_row(real_functions(), name); }
bool is_monotone(std::string_view f) {
  if (f == "exp" || f == "tanh" || f == "sigmoid" || f == "erf") return true;
  const RealFunction* real = find_real_function(f);
  return real && real->monotone;
}

std::span<const IntegerFunction> integer_functions() { return kInteger; }
const IntegerFunction* find_integer_function(std::string_view name) { return find_row(integer_functions(), name); }

bool is_call_of_two(std::string_view f) { return f == "max" || f == "min" || find_integer_function(f); }

}  // namespace partita::tdl
