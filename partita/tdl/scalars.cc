// Computes functions of single values, int64 and float64, for the reference evaluator.
#include "partita/tdl/scalars.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "partita/base/error.h"

namespace partita::tdl::scalars {
namespace {

const std::map<std::string, char> kBinaryOps = {{"+", '+'},   {"-", '-'},  {"*", '*'}, {"/", '/'},   {"//", 'd'},
                                                {"%", '%'},   {"^", '^'},  {"<", '<'}, {"<=", 'l'},  {"==", '='},
                                                {"!=", '!'},  {">=", 'g'}, {">", '>'}, {"and", '&'}, {"or", '|'},
                                                {"max", 'M'}, {"min", 'm'}};
const std::map<std::string, char> kUnaryOps = {
    {"neg", '-'}, {"not", '!'}, {"exp", 'e'}, {"log", 'l'}, {"sqrt", 'q'}, {"tanh", 't'}, {"sigmoid", 'g'},
    {"erf", 'f'}, {"sin", 's'}, {"cos", 'c'}, {"abs", 'a'}, {"sign", 'n'}, {"stop", '='}, {"floor", '_'}};

char lookup(const std::map<std::string, char>& table, const std::string& name) {
  auto it = table.find(name);
  ensure(it != table.end(), "the evaluator has no function '{}'", name);
  return it->second;
}

int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) fail("integer division by zero in a formula");
  if (b == -1) return static_cast<int64_t>(-static_cast<uint64_t>(a));  // the least has no negative
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}
// Saturates, so that the largest and least int64, the identities of min and max, stay beyond all values.
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
int64_t add(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_add_overflow(a, b, &r) ? (a < 0 ? kLeast : kMost) : r;
}
int64_t subtract(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_sub_overflow(a, b, &r) ? (a < 0 ? kLeast : kMost) : r;
}
int64_t multiply(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? ((a < 0) != (b < 0) ? kLeast : kMost) : r;
}
int64_t floor_mod(int64_t a, int64_t b) { return b == -1 ? 0 : a - b * floor_div(a, b); }

double largest(double a, double b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b); }
double least_or_nan(double a, double b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b); }

template <typename T>
bool compared(char letter, T x, T y) {
  switch (letter) {
    case '<':
      return x < y;
    case 'l':
      return x <= y;
    case '=':
      return x == y;
    case '!':
      return x != y;
    case 'g':
      return x >= y;
    default:
      return x > y;
  }
}

}  // namespace

char letter_of_unary(const std::string& function) { return lookup(kUnaryOps, function); }
char letter_of_binary(const std::string& function) { return lookup(kBinaryOps, function); }

char letter_of(Reducer reducer) {
  switch (reducer) {
    case Reducer::kSum:
      return '+';
    case Reducer::kProd:
      return '*';
    case Reducer::kMax:
      return 'M';
    case Reducer::kMin:
      return 'm';
  }
  return '+';
}

int64_t integer_identity_of(Reducer reducer) {
  switch (reducer) {
    case Reducer::kSum:
      return 0;
    case Reducer::kProd:
      return 1;
    case Reducer::kMax:
      return kLeast;
    case Reducer::kMin:
      return kMost;
  }
  return 0;
}

int64_t unary(char letter, int64_t x) {
  switch (letter) {
    case '-':
      return subtract(0, x);
    case 'a':
      return x < 0 ? subtract(0, x) : x;
    case 'n':
      return (x > 0) - (x < 0);
    default:
      return x;  // stop, floor
  }
}

double unary(char letter, double x) {
  switch (letter) {
    case '-':
      return -x;
    case 'e':
      return std::exp(x);
    case 'l':
      return std::log(x);
    case 'q':
      return std::sqrt(x);
    case 't':
      return std::tanh(x);
    case 'g':
      return 1 / (1 + std::exp(-x));
    case 'f':
      return std::erf(x);
    case 's':
      return std::sin(x);
    case 'c':
      return std::cos(x);
    case 'a':
      return std::abs(x);
    case 'n':
      return std::isnan(x) ? x : (x > 0) - (x < 0);
    case '_':
      return std::floor(x);
    default:
      return x;
  }
}

double slope(char letter, double x, double f) {
  switch (letter) {
    case 'e':
      return std::abs(f);
    case 'l':
      return 1 / std::abs(x);
    case 'q':
      return f == 0 ? 0 : 0.5 / std::abs(f);
    case 't':
      return 1 - f * f;
    case 'g':
      return f * (1 - f);
    case 'f':
      return 1.1283791670955126 * std::exp(-x * x);  // 2 / sqrt(pi)
    case 's':
      return std::abs(std::cos(x));
    case 'c':
      return std::abs(std::sin(x));
    case 'n':
    case '_':
      return 0;
    default:
      return 1;
  }
}

int64_t binary(char letter, int64_t x, int64_t y) {
  switch (letter) {
    case '+':
      return add(x, y);
    case '-':
      return subtract(x, y);
    case '*':
      return multiply(x, y);
    case 'd':
      return floor_div(x, y);
    case '%':
      return floor_mod(x, y);
    case 'M':
      return std::max(x, y);
    case 'm':
      return std::min(x, y);
    default: {  // ^, of a literal that is not negative
      int64_t power = 1;
      for (int64_t i = 0; i < y; ++i) power = multiply(power, x);
      return power;
    }
  }
}

double binary(char letter, double x, double y) {
  switch (letter) {
    case '+':
      return x + y;
    case '-':
      return x - y;
    case '*':
      return x * y;
    case '/':
      return x / y;
    case 'd':
      return std::floor(x / y);
    case '%': {  // the exact quotient rounded down
      const double rest = std::fmod(x, y);
      return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    }
    case '^':
      return std::pow(x, y);
    case 'M':
      return largest(x, y);
    default:
      return least_or_nan(x, y);
  }
}

bool compare(char letter, int64_t x, int64_t y) { return compared(letter, x, y); }
bool compare(char letter, double x, double y) { return compared(letter, x, y); }

}  // namespace partita::tdl::scalars
