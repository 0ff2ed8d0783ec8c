// Reads and writes amounts in people's units.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace partita {

std::string megabytes(double bytes);         // "12.30 MB", "1.23 GB", from 10,000 GB on "12.30 TB"
std::string enough_megabytes(double bytes);  // the same, rounded up, so that it is enough
std::string time_text(double ns);            // "1.33 s", "87.7 ms", "4.00 us", "12 ns": three digits

// A number of bytes with an optional unit: "80GB", "80 GiB", "1.5t", "740000". Letters of either case; KB, MB, GB, TB,
// and K, M, G, T, are powers of 1000, KiB, MiB, GiB, TiB and Ki, Mi, Gi, Ti of 1024.
struct Bytes {
  int64_t bytes = 0;
  bool bare = false;  // without a unit
};
// Empty if the text is no such number, or is negative, less than a byte, or more than 2^63 bytes.
std::optional<Bytes> parse_bytes(std::string_view text);

}  // namespace partita
