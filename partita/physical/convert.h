// Lowers conversions of a tensor to tasks: each step becomes collectives, copies, or assembled targets.
//
// Example: P(sum) -> B on 2 devices is one all-reduce step. It has two participants of one CollectiveId,
// "h>f.0.all-reduce@gpu0" and "@gpu1". Each reads its partial register and writes its new one. A conversion of two
// steps names them .0 and .1.
#pragma once
#include "partita/physical/draft.h"

namespace partita {

// Where a conversion's steps stand and end.
struct ConversionAt {
  Context at;
  bool mixed = false;            // each layout's registers have their own axes (register_axes.h)
  const Placed* into = nullptr;  // registers for the last step's result; null: new ones
};
Placed convert_placed(Draft& draft, const Placed& from, const Conversion& conversion, const ConversionAt& where);

// Lowers one fetch, whatever the layouts: inputs from hosts, outputs to one.
Placed fetch_placed(Draft& draft, const Placed& from, const Layout& to, const Context& at);

// Copies position by position into other registers on the same devices.
Placed copy_into(Draft& draft, const Placed& from, Context at, const Placed& into);

}  // namespace partita
