// Reads and writes NumPy's array files: .npy (one array) and .npz (a zip archive of them, stored or deflated). Formats:
// numpy.org/doc/stable/reference/generated/numpy.lib.format.html, and PKWARE's APPNOTE.TXT.
#pragma once
#include <string>
#include <string_view>

#include "partita/runtime/array_file.h"

namespace partita {

// Returns the arrays of a .npz file; for a .npy file the one array, under the file's name without its ending. The
// content decides, not the file's name. Bad input names the file and the array.
Arrays read_arrays(const std::string& path);
// The same for the bytes of a file; `path` is for messages and the name of a .npy file's array.
Arrays parse_arrays(const std::string& path, std::string_view bytes);

// Writes a .npz file with its arrays stored, not deflated; NumPy reads it.
void write_npz(const std::string& path, const Arrays& arrays);

}  // namespace partita
