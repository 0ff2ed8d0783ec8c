// Chooses the cores of the devices' compute threads. The program's cores are dealt out to the devices, if there are
// enough. Otherwise the system may put two devices on one core, and leave another idle. Threads of collectives and
// transfers run anywhere.
//
// Example: 8 cores and 2 devices: cores 0 to 3 and 4 to 7.
#pragma once
#include <vector>

namespace partita {

std::vector<int> usable_cores();  // in ascending order; empty if the system does not tell
// Returns the cores of device `device` of `devices`; empty if there are fewer cores than devices, and for others
// (hosts).
std::vector<int> cores_of(const std::vector<int>& usable, int device, int devices);
// Keeps the calling thread on these cores, as far as the system lets it; on any, if there are none.
void set_affinity(const std::vector<int>& cores);

}  // namespace partita
