// What the machine may refuse to a command: memory, threads, a place for its output.
#pragma once
#include <exception>

namespace partita {

// Ends the program: one line on standard error, and the exit code of too little memory. It allocates nothing, so that
// it can be called from any thread, also where no exception could pass.
[[noreturn]] void end_without_memory();

// The exit code and the message of what a command threw.
int report_error(const std::exception& error);

// Writes out what standard output still holds. Where that or an earlier write failed, says so; `code` stands unless it
// is 0.
int finish_output(int code);

}  // namespace partita
