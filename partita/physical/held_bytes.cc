// Finds how long a node's bytes are held on one device.
#include "partita/physical/held_bytes.h"

namespace partita {

HeldBytes held_at(const Held& held, int place, DeviceId device) {
  if (!held.empty())
    for (const HeldBytes& bytes : held[static_cast<size_t>(place)])
      if (bytes.device == device) return bytes;
  return {device, place, place};
}

}  // namespace partita
