// Sets up the program's environment: descriptors, signals, memory, threads, a place for its output.
#pragma once
#include <exception>

namespace partita {

// First of all: standard descriptors that are closed are taken up, so that no file lands on them; signals end the
// program (base/interrupt.h).
void begin_program();

// Ends the program: one line on standard error, and the exit code of too little memory. It allocates nothing, so it can
// be called from any thread, also if no exception could pass.
[[noreturn]] void end_without_memory();

// Prints the message of a command's exception, and returns its exit code.
int report_error(const std::exception& error);

// Writes out the rest of standard output. If that or an earlier write failed, says so; `code` stands unless it is 0.
int finish_output(int code);

}  // namespace partita
