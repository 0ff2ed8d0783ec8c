// Computes functions of single values for the reference evaluator: int64 exactly, but saturating at its ends, and
// float64. One letter stands for a function's name in a formula.
#pragma once
#include <cstdint>
#include <string>

#include "partita/tdl/tdl.h"

namespace partita::tdl::scalars {

// The letter of Expr::function, and of the function that a reducer combines two values with.
char letter_of_unary(const std::string& function);   // "sqrt": 'q'
char letter_of_binary(const std::string& function);  // "<=": 'l'
char letter_of(Reducer reducer);
// kSum: 0; kMax: the least int64, and so on. For float64 it is tdl::identity_of().
int64_t integer_identity_of(Reducer reducer);

int64_t unary(char letter, int64_t x);
double unary(char letter, double x);
// |derivative| of a unary function at x, whose value is f; 0 for the stepwise ones.
double slope(char letter, double x, double f);
int64_t binary(char letter, int64_t x, int64_t y);
double binary(char letter, double x, double y);
bool compare(char letter, int64_t x, int64_t y);
bool compare(char letter, double x, double y);

}  // namespace partita::tdl::scalars
