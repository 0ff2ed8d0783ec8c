#!/usr/bin/env python3
"""Times the kernels of a work list with PyTorch, on a GPU or on the CPU; needs nothing of Partita but the list.

    partita profile MODEL --cluster C --worklist work.json         # anywhere
    python3 profile_torch.py work.json -o profile.json             # on the machine to measure: this file and PyTorch
    partita plan MODEL --cluster C --profile profile.json          # anywhere

A kernel is stages of a formula over ranges of its indices (docs/reference/profile.md). Products, convolutions, attention, norms
and so on run as the function of PyTorch that a model would call. All others are evaluated stage by stage, an operation
of PyTorch for each operation of the formula. What profile.json has already is not timed again; Ctrl-C keeps what there
is. --check times nothing: it compares what would be timed with the formula in float64.
"""
import argparse
import copy
import datetime
import json
import math
import os
import re
import statistics
import sys
import time

try:
    import fcntl
except ImportError:  # not on Windows
    pass
try:
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(f"profile_torch.py: {missing}; install PyTorch 2.5 or newer for this Python", file=sys.stderr)
    sys.exit(77)

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "int64": torch.int64,
    "bool": torch.bool,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
HALVES = (torch.float16, torch.bfloat16)
OF_IMAGES = ("conv2d", "conv2d_data_grad", "conv2d_weight_grad", "batch_norm", "batch_norm_grad", "max_pool", "max_pool_grad")
EXACT_INTEGER = 2**53
MOST_BYTES = 0.4  # of the memory that is free, for one intermediate result: beyond it a kernel is left out


class CannotRun(Exception):
    """Why a kernel is left out."""


def number(value):
    """A number of the list; whole ones are integers, as in the formula."""
    value = float(value)
    return int(value) if math.isfinite(value) and value == int(value) and abs(value) <= EXACT_INTEGER else value


# ---------------------------------------------------------------- index forms: [constant, [coefficient, atom]..]


def plain(form):
    """The index that a form is, or None."""
    return form[1][1] if len(form) == 2 and form[0] == 0 and form[1][0] == 1 and isinstance(form[1][1], int) else None


def linear(form):
    """{index: coefficient} of a form without // and %, or None."""
    if any(not isinstance(atom, int) for _, atom in form[1:]):
        return None
    return {atom: coefficient for coefficient, atom in form[1:]}


def indices_of(form):
    found = []
    for _, atom in form[1:]:
        found += [atom] if isinstance(atom, int) else indices_of(atom[1])
    return list(dict.fromkeys(found))


def interval(form, ranges):
    """The least and largest value of a linear form."""
    low = high = form[0]
    for coefficient, index in form[1:]:
        ends = [coefficient * ranges[index][0], coefficient * (ranges[index][1] - 1)]
        low, high = low + min(ends), high + max(ends)
    return low, high


# ---------------------------------------------------------------- expressions


def args_of(e):
    for key in ("of", "if", "rng"):
        if key in e:
            return e[key]
    return []


def each(e):
    yield e
    for arg in args_of(e):
        yield from each(arg)


def reads_of(e):
    return [x for x in each(e) if "read" in x]


def uses(e):
    """Indices that an expression depends on."""
    found = set()
    for x in each(e):
        if "index" in x:
            found.add(x["index"])
        for form in x.get("at", []):
            found.update(indices_of(form))
    return found


def conjuncts(condition):
    if condition.get("binary") == "and":
        return [c for arg in condition["of"] for c in conjuncts(arg)]
    return [condition]


def is_zero(e):
    return "number" in e and number(e["number"]) == 0


def factors(e):
    """(number, [factors], [conditions]) of a product; where a condition is false it is 0."""
    if "number" in e and math.isfinite(float(e["number"])):
        return float(e["number"]), [], []
    if e.get("unary") == "neg":
        scale, terms, masks = factors(e["of"][0])
        return -scale, terms, masks
    if e.get("binary") == "*":
        (s, t, m), (s2, t2, m2) = factors(e["of"][0]), factors(e["of"][1])
        return s * s2, t + t2, m + m2
    if "if" in e and is_zero(e["if"][2]):
        scale, terms, masks = factors(e["if"][1])
        return scale, terms, conjuncts(e["if"][0]) + masks
    return 1.0, [e], []


# ---------------------------------------------------------------- kernels


def slim(formula):
    """Takes axes of extent 1 that are read at 0 alone out of tensors of more than four axes, so that an image is one of
    [n, c, rows, columns]; remembers which are left."""
    accesses = [e for stage in formula["stages"] for e in [{**stage, "read": stage["tensor"]}, *reads_of(stage["is"])]]
    formula["axes"] = []
    for tensor, (_, shape) in enumerate(formula["tensors"]):
        own = [e for e in accesses if e["read"] == tensor and "whole" not in e]
        spare = [a for a, extent in enumerate(shape) if extent == 1 and all(e["at"][a] == [0] for e in own)]
        spare = spare[min(len(spare), max(0, len(spare) + 4 - len(shape))) :]
        kept = [a for a in range(len(shape)) if a not in spare]
        formula["axes"].append(kept)
        shape[:] = [shape[a] for a in kept]
        for e in own:
            e["at"][:] = [e["at"][a] for a in kept]
    return formula


class Kernel:
    """An entry of the work list with its formula."""

    def __init__(self, entry, formula):
        self.entry, self.formula = entry, formula if "axes" in formula else slim(formula)
        self.definition, self.ranges = entry["definition"], entry["ranges"]
        self.first, self.last = entry["stages"]
        self.stages = formula["stages"][self.first : self.last]
        self.shapes = [shape for _, shape in formula["tensors"]]
        self.whole = self.first == 0 and self.last == len(formula["stages"])
        self.attributes = {}
        for part in filter(None, entry.get("attributes", "").split(", ")):
            name, value = part.split("=")
            self.attributes[name] = float(value)
        axes = self.formula["axes"]
        self.reads = {t: (DTYPES[dtype], [box[a] for a in axes[t]]) for t, dtype, box in entry["reads"]}
        self.writes = {t: (DTYPES[dtype], [box[a] for a in axes[t]]) for t, dtype, box in entry["writes"]}
        self.how = []
        self.timed = False  # a run may then overwrite what it updates, and keep a library's own way to say places

    def key(self):
        names = ("definition", "form", "attributes", "stages", "indices", "operands")
        return json.dumps([self.entry.get(name, "") for name in names])

    def text(self):
        sizes = " ".join(f"{name}={extent}" for name, extent in self.entry["indices"])
        return f"{self.definition} {sizes} {' '.join(dict.fromkeys(o[1] for o in self.entry['operands']))}"

    def size(self, index):
        return max(0, self.ranges[index][1] - self.ranges[index][0])

    def is_image(self, device):
        """Whether its tensors of four axes lie with channels last, as tensor cores want images."""
        dtypes = [dtype for dtype, _ in self.reads.values()]
        return device.type == "cuda" and self.definition in OF_IMAGES and any(d in HALVES for d in dtypes)

    def ran(self, how):
        if how not in self.how:
            self.how.append(how)

    def tensor(self, name):
        return next(t for t, (known, _) in enumerate(self.formula["tensors"]) if known == name)

    def stage_of(self, tensor):
        return next((stage for stage in self.stages if stage["tensor"] == tensor), None)


def numbers_of(kernel, tensor, comparisons=None):
    """Which numbers an operand may have: those of the index that it is compared with, by `comparisons` or by any."""
    for stage in kernel.stages:
        for e in each(stage["is"]):
            if "binary" in e and len(e["of"]) == 2 and (not comparisons or e["binary"] in comparisons):
                for read, index in (e["of"], e["of"][::-1]):
                    if read.get("read") == tensor and "index" in index:
                        return kernel.ranges[index["index"]]
    return None


def draw(kernel, device, seed):
    """Operands: {tensor: (values, lower corner)}."""
    generator = torch.Generator(device=device).manual_seed(seed)
    held, image = {}, kernel.is_image(device)
    for tensor, (dtype, box) in kernel.reads.items():
        shape = [max(0, high - low) for low, high in box]
        equals = numbers_of(kernel, tensor, ("==",))  # a number of a row, from an earlier stage
        if dtype.is_floating_point and equals:
            values = torch.randint(equals[0], max(equals[1], equals[0] + 1), shape, generator=generator, device=device)
        elif dtype.is_floating_point:
            values = torch.rand(shape, generator=generator, device=device, dtype=dtype) * 0.95 + 0.05
        elif dtype == torch.bool:
            values = torch.randint(0, 2, shape, generator=generator, device=device)
        else:
            low, high = numbers_of(kernel, tensor) or (1, 2)
            values = torch.randint(low, max(high, low + 1), shape, generator=generator, device=device)
        layout = torch.channels_last if image and values.dim() == 4 else torch.contiguous_format
        held[tensor] = (values.to(dtype).contiguous(memory_format=layout), [low for low, _ in box])
    if image:
        kernel.ran("channels last")
    return held


# ---------------------------------------------------------------- generic evaluation


def real(x):
    """A value on which functions of real numbers are defined."""
    if not torch.is_tensor(x):
        return torch.tensor(float(x), dtype=torch.float64)
    return x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())


def whole(x):
    """A value on which arithmetic is defined: of truth values as integers."""
    if torch.is_tensor(x):
        return x.long() if x.dtype == torch.bool else x
    return int(x) if isinstance(x, bool) else x


def truth(x):
    return (x if x.dtype == torch.bool else x != 0) if torch.is_tensor(x) else bool(x)


def row_number(value):
    """An index that data say; stages make them in floating numbers."""
    return value.long() if value.dtype.is_floating_point else value


def alike(values):
    """Operands of one product, which a library takes in one type: the shortest, as scores are for their values."""
    dtype = min((v.dtype for v in values), key=lambda d: d.itemsize)
    return [v.to(dtype) for v in values]


def extremum(x, y, largest):
    if torch.is_tensor(y) and not torch.is_tensor(x):
        x, y = y, x
    if torch.is_tensor(x) and torch.is_tensor(y):
        return (torch.maximum if largest else torch.minimum)(x, y)
    if torch.is_tensor(x):
        if not x.dtype.is_floating_point and isinstance(y, float):
            x = x.double()
        return torch.clamp(x, min=y) if largest else torch.clamp(x, max=y)
    return max(x, y) if largest else min(x, y)


UNARY = {
    "neg": lambda x: -whole(x),
    "abs": lambda x: abs(whole(x)),
    "sign": lambda x: torch.sign(torch.as_tensor(whole(x))),
    "floor": lambda x: torch.floor(x) if torch.is_tensor(x) and x.dtype.is_floating_point else x,
    "stop": lambda x: x,
    "not": lambda x: ~truth(x) if torch.is_tensor(x) else not x,
}
REAL = ("exp log sqrt tanh sigmoid erf sin cos asin acos atan sinh cosh asinh acosh atanh").split()
BINARY = {
    "+": lambda x, y: whole(x) + whole(y),
    "-": lambda x, y: whole(x) - whole(y),
    "*": lambda x, y: whole(x) * whole(y),
    "/": lambda x, y: whole(x) / whole(y),
    "//": lambda x, y: whole(x) // whole(y),
    "%": lambda x, y: whole(x) % whole(y),
    "^": lambda x, y: whole(x) ** y if isinstance(y, int) and y >= 0 else real(x) ** y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    ">=": lambda x, y: x >= y,
    ">": lambda x, y: x > y,
    "and": lambda x, y: truth(x) & truth(y),
    "or": lambda x, y: truth(x) | truth(y),
    "max": lambda x, y: extremum(whole(x), whole(y), True),
    "min": lambda x, y: extremum(whole(x), whole(y), False),
    "bit_and": lambda x, y: whole(x) & whole(y),
    "bit_or": lambda x, y: whole(x) | whole(y),
    "bit_xor": lambda x, y: whole(x) ^ whole(y),
    "shift_left": lambda x, y: whole(x) << whole(y),
    "shift_right": lambda x, y: whole(x) >> whole(y),
}


class Evaluator:
    """Evaluates stages. Inside a stage a value has an axis for each of `dims`, of extent 1 where it does not depend on
    the index; an index that is determined by data has a value in `values` and no axis."""

    def __init__(self, kernel, device, naive=False):
        self.kernel, self.device, self.naive = kernel, device, naive
        self.constants = {}  # of expressions that read nothing, by stage and place in the tree: made once
        self.most_bytes = MOST_BYTES * free_memory(device)

    def run(self, operands):
        self.held = dict(operands)
        stages, skip = self.kernel.stages, False
        for at, stage in enumerate(stages):
            if skip:
                skip = False
                continue
            fused = None if self.naive else self.with_bias(stage, stages[at + 1] if at + 1 < len(stages) else None)
            if fused:
                skip = True
            else:
                self.stage(stage)
        return {t: self.own(self.held[t][0].to(dtype), operands) for t, (dtype, _) in self.kernel.writes.items()}

    def own(self, value, operands):
        """A result that is part of an operand is copied, as a kernel that moves data does."""
        storage = value.untyped_storage().data_ptr()
        if all(storage != operand.untyped_storage().data_ptr() for operand, _ in operands.values()):
            return value
        self.kernel.ran("copy")
        return value.clone(memory_format=torch.contiguous_format)

    # ---- stages

    def begin(self, stage, dims):
        self.at, self.dims, self.values = stage["tensor"], dims, {}

    def stage(self, stage):
        lhs = list(dict.fromkeys(i for form in stage["at"] for i in indices_of(form)))
        body = stage["is"]
        reducer, over = (body["reduce"], body["over"]) if "reduce" in body else (None, [])
        inner = body["of"][0] if reducer else body
        self.begin(stage, lhs + over)
        if reducer == "sum" and not self.naive and self.scatter(stage, inner, lhs, over):
            return
        if reducer == "sum":
            over = self.determine(inner, over)
            self.dims = lhs + over
            value = None if self.naive else self.product(inner, lhs, over)
            if value is not None:
                self.store(stage, value, lhs)
                return
        self.limit(self.dims)
        value = None if self.naive or reducer else self.stack(inner)
        value = self.value(inner) if value is None else value
        if reducer and over:
            value = self.reduce(reducer, value, lhs, over)
            self.kernel.ran("reduction")
        self.store(stage, value, lhs)

    def stack(self, body):
        """A sum of if(x == k, t_k, 0) over the numbers k of the index x is a stack of the t_k along x; None: it is
        no such sum."""
        parts, found, index = [body], {}, None
        while parts:
            e = parts.pop()
            if e.get("binary") == "+":
                parts += e["of"]
                continue
            condition = e["if"][0] if "if" in e and is_zero(e["if"][2]) else {}
            at, k = condition["of"] if condition.get("binary") == "==" else ({}, {})
            if "index" not in at or "number" not in k or index not in (None, at["index"]) or "read" not in e["if"][1]:
                return None
            index = at["index"]
            if number(k["number"]) in found or index in uses(e["if"][1]):
                return None
            found[number(k["number"])] = e["if"][1]
        low, high = self.kernel.ranges[index]
        if len(found) < 2 or any(k not in found for k in range(low, high)) or index not in self.dims:
            return None
        whole, axis = self.dims, self.dims.index(index)
        self.dims = [i for i in whole if i != index]
        values = [self.value(found[k]).expand([self.kernel.size(i) for i in self.dims]) for k in range(low, high)]
        self.dims = whole
        self.kernel.ran("stack")
        return torch.stack(values, axis)

    def limit(self, dims):
        points = math.prod(self.kernel.size(i) for i in dims)
        if points * 4 > self.most_bytes:
            raise CannotRun(f"an intermediate result of {points:.3g} numbers")

    def reduce(self, reducer, value, lhs, over):
        if not torch.is_tensor(value):
            value = torch.tensor(value, device=self.device).reshape([1] * len(self.dims))
        value = whole(value)
        axes = list(range(len(lhs), len(lhs) + len(over)))
        sizes = [value.shape[a] for a in range(len(lhs))] + [self.kernel.size(i) for i in over]
        if reducer == "sum":
            repeated = math.prod(n for a, n in zip(axes, sizes[len(lhs) :]) if value.shape[a] != n)
            value = value.sum(axes)
            return value if repeated == 1 else value * repeated
        value = value.expand(sizes)
        if min(sizes[len(lhs) :]) == 0:
            nothing = {"max": -math.inf, "min": math.inf, "prod": 1}[reducer]
            return torch.full(sizes[: len(lhs)], nothing, device=self.device)
        if reducer == "prod":
            for axis in reversed(axes):
                value = value.prod(axis)
            return value
        return value.amax(axes) if reducer == "max" else value.amin(axes)

    def determine(self, body, over):
        """Summed indices that data gives: sum(v) if(ids == v, t[v], 0) is t[ids]. Returns those that are left."""
        left, given = list(over), {}
        for condition in [] if self.naive else factors(body)[2]:
            if condition.get("binary") != "==":
                continue
            for data, index in (condition["of"], condition["of"][::-1]):
                v = index.get("index")
                if v in left and reads_of(data) and not uses(data) & set(over):
                    left.remove(v)
                    given[v] = data
                    self.constants[("determines", id(condition))] = v
        self.dims = [i for i in self.dims if i not in given]
        for v, data in given.items():
            self.values[v] = row_number(self.value(data))
            self.kernel.ran("gather")
        return left

    def scatter(self, stage, body, lhs, over):
        """sum(b) if(ids[b] == v, g[b, h], 0) with v on the left adds g's rows to those that ids name."""
        for condition in factors(body)[2]:
            if condition.get("binary") != "==":
                continue
            for data, index in (condition["of"], condition["of"][::-1]):
                v = index.get("index")
                others = [i for i in lhs if i != v]
                if v not in lhs or not reads_of(data) or not uses(data) or uses(data) - set(over):
                    continue
                if any(plain(form) is None for form in stage["at"]):
                    continue
                named = [i for i in over if i in uses(data)]
                self.dims = others + over
                self.values[v] = rows = row_number(self.value(data))
                self.constants[("determines", id(condition))] = v
                self.limit(self.dims)
                value = self.value(body).expand([self.kernel.size(i) for i in self.dims])
                summed = [len(others) + k for k, i in enumerate(over) if i not in named]
                value = value.sum(summed) if summed else value
                value = value.movedim(list(range(len(others), value.dim())), list(range(len(named))))
                rows = rows.expand([1] * len(others) + [self.kernel.size(i) if i in named else 1 for i in over])
                low, high = self.kernel.ranges[v]
                sizes = [self.kernel.size(i) for i in others]
                out = torch.zeros([high - low] + sizes, dtype=value.dtype, device=self.device)
                rows = (rows.reshape(-1) - low).clamp(0, max(0, high - low - 1))
                out.index_add_(0, rows, value.reshape([-1] + sizes))
                self.kernel.ran("index_add")
                self.store(stage, out, [v] + others)
                return True
        return False

    def store(self, stage, value, lhs):
        """Keeps what a stage made: `value` has the axes `lhs` in this order."""
        sizes = [self.kernel.size(i) for i in lhs]
        if not torch.is_tensor(value):
            value = torch.tensor(value, device=self.device)
        value = value.expand(sizes) if value.dim() == len(sizes) else value.reshape([1] * len(sizes)).expand(sizes)
        order, shape, lows = [], [], []
        for form in stage["at"]:
            terms = linear(form)
            if terms is None or any(i in order for i in terms):
                return self.place(stage, value, lhs)
            step = 1
            for i in sorted(terms, key=lambda i: (terms[i], self.kernel.size(i))):
                if terms[i] != step and self.kernel.size(i) > 1:
                    return self.place(stage, value, lhs)
                step *= self.kernel.size(i)
            order += sorted(terms, key=lambda i: (-terms[i], -self.kernel.size(i)))
            shape.append(step)
            lows.append(form[0] + sum(c * self.kernel.ranges[i][0] for i, c in terms.items()))
        value = value.permute([lhs.index(i) for i in order]) if order else value
        self.held[stage["tensor"]] = (value.reshape(shape), lows)

    def place(self, stage, value, lhs):
        """The same where the left side is more than digits of its axes: numbers of places are made once."""
        self.dims = lhs
        places = [torch.as_tensor(self.form(form), device=self.device) for form in stage["at"]]
        lows = [int(p.min()) for p in places]
        out = value.new_empty([int(p.max()) - low + 1 for p, low in zip(places, lows)])
        out[tuple((p - low).expand(value.shape) for p, low in zip(places, lows))] = value
        self.held[stage["tensor"]] = (out, lows)

    # ---- products

    def split(self, body, lhs, over):
        """A sum of a product as two groups of factors that a matrix product multiplies: (number, groups, masks)."""
        scale, terms, masks = factors(body)
        masks = [c for c in masks if ("determines", id(c)) not in self.constants]
        if len(terms) < 2 or self.values or not all(reads_of(t) for t in terms):
            return None
        groups = []
        for term in sorted(terms, key=lambda t: -len(uses(t))):
            group = next((g for g in groups if uses(term) <= g[0]), None)
            if group:
                group[1].append(term)
            else:
                groups.append((uses(term), [term]))
        if len(groups) != 2:
            return None
        (a, _), (b, _) = groups
        if not a & b & set(over) or not ((a - b) | (b - a)) & set(lhs):
            return None
        at = []
        for mask in masks:
            home = next((k for k, side in enumerate((a, b, set(lhs))) if uses(mask) <= side), None)
            if home is None:
                return None
            at.append((home, mask))
        return scale, groups, at

    def product(self, body, lhs, over):
        found = self.split(body, lhs, over)
        if not found:
            return None
        scale, groups, masks = found
        letters = {i: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[k] for k, i in enumerate(self.dims)}
        sides, names = [], []
        for number_of, (indices, terms) in enumerate(groups):
            own = [i for i in self.dims if i in indices]
            self.dims, dims = own, self.dims
            self.limit(own)
            value = self.value(terms[0])
            for term in terms[1:]:
                value = value * self.value(term)
            for home, mask in masks:
                if home == number_of:
                    value = torch.where(truth(self.value(mask)), value, 0)
            self.dims = dims
            if not value.dtype.is_floating_point:
                return None
            sides.append(value.expand([self.kernel.size(i) for i in own]))
            names.append("".join(letters[i] for i in own))
        left = [i for i in lhs if any(i in g[0] for g in groups)]
        value = torch.einsum(f"{names[0]},{names[1]}->{''.join(letters[i] for i in left)}", alike(sides))
        self.kernel.ran("einsum")
        free = math.prod(self.kernel.size(i) for i in over if not any(i in g[0] for g in groups))
        value = value if scale * free == 1 else value * (scale * free)
        value = self.spread(value, left, lhs)
        self.dims = lhs
        for home, mask in masks:
            if home == 2:
                value = torch.where(truth(self.value(mask)), value, 0)
        return value

    def with_bias(self, stage, following):
        """A plain matrix product and the bias that the next stage adds, as one call."""
        if not following or stage["tensor"] in self.kernel.writes or following["at"] != stage["at"]:
            return False
        body, total = stage["is"], following["is"]
        if body.get("reduce") != "sum" or total.get("binary") != "+" or not all("read" in e for e in total["of"]):
            return False
        product, bias = total["of"]
        lhs = [plain(form) for form in stage["at"]]
        if product["read"] != stage["tensor"] or product["at"] != stage["at"] or None in lhs or not lhs:
            return False
        self.begin(stage, lhs + body["over"])
        found = self.split(body["of"][0], lhs, body["over"])
        if not found or found[0] != 1 or found[2] or [plain(f) for f in bias["at"]] != lhs[-1:]:
            return False
        (a, x), (b, w) = sorted(found[1], key=lambda g: lhs[-1] in g[0])
        if len(x) != 1 or len(w) != 1 or b != {lhs[-1], *body["over"]} or a != {*lhs[:-1], *body["over"]}:
            return False
        values = []
        for own, e in ((lhs[:-1] + body["over"], x[0]), ([lhs[-1]] + body["over"], w[0]), (lhs[-1:], bias)):
            self.dims = own
            values.append(self.value(e).expand([self.kernel.size(i) for i in own]))
        k = math.prod(self.kernel.size(i) for i in body["over"])
        x, w, b = alike(values)
        value = F.linear(x.reshape(-1, k), w.reshape(-1, k), b)
        self.kernel.ran("linear")
        self.store(following, value.reshape([self.kernel.size(i) for i in lhs]), lhs)
        return True

    def spread(self, value, axes, dims):
        """A tensor with the axes `axes` as one over `dims`."""
        value = value.permute([axes.index(i) for i in dims if i in axes])
        at = iter(value.shape)
        return value.reshape([next(at) if i in axes else 1 for i in dims])

    # ---- values

    def value(self, e):
        if "number" in e:
            return number(e["number"])
        if "read" in e:
            return self.read(e)
        constant = not self.values and not any("read" in x or "rng" in x for x in each(e))
        key = (self.at, id(e), tuple(self.dims))
        if constant and key in self.constants:
            return self.constants[key]
        value = self.computed(e)
        if constant:
            self.constants[key] = value
        return value

    def computed(self, e):
        if "index" in e:
            return self.form([0, [1, e["index"]]])
        if ("determines", id(e)) in self.constants:
            return self.among(self.constants[("determines", id(e))])
        if "opaque" in e or "reduce" in e:
            raise CannotRun(f"the function {e.get('opaque', 'reduce')} is not known here")
        args = args_of(e)
        if "rng" in e:
            self.kernel.ran("rand")
            used = sorted({i for arg in args for i in uses(arg)}, key=self.dims.index)
            drawn = torch.rand([self.kernel.size(i) for i in used], device=self.device)
            return self.spread(drawn, used, self.dims)
        values = [self.value(arg) for arg in args]
        if "if" in e:
            condition = truth(values[0])
            if not torch.is_tensor(condition):
                return values[1] if condition else values[2]
            return torch.where(condition, values[1], values[2])
        if "unary" in e:
            f = e["unary"]
            return getattr(torch, f)(real(values[0])) if f in REAL else UNARY[f](values[0])
        return BINARY[e["binary"]](*values)

    def among(self, v):
        """Whether the data that determines index v is in its range here."""
        low, high = self.kernel.ranges[v]
        extent = self.kernel.formula["indices"][v][1]
        return True if (low, high) == (0, extent) else (self.values[v] >= low) & (self.values[v] < high)

    def form(self, form):
        """An index form's value at each point."""
        value = form[0]
        for coefficient, atom in form[1:]:
            if isinstance(atom, int):
                if atom in self.values:
                    part = self.values[atom]
                else:
                    part = torch.arange(*self.kernel.ranges[atom], device=self.device)
                    part = self.spread(part, [atom], self.dims)
            else:
                inner = self.form(atom[1])
                part = inner // atom[2] if atom[0] == "//" else inner % atom[2]
            value = value + coefficient * part
        return value

    def read(self, e):
        tensor, lows = self.held[e["read"]]
        fill = number(e.get("else", 0))
        forms = e["at"]
        shape = self.kernel.shapes[e["read"]]
        if tensor.numel() == 0:  # all that is read lies outside
            return torch.full([1] * len(self.dims), fill, dtype=tensor.dtype, device=self.device)
        ordered = [linear(form) for form in forms]
        determined = any(i in self.values for form in forms for i in indices_of(form))
        if not determined and all(terms is not None for terms in ordered):
            signs = [{c > 0 for c in terms.values()} for terms in ordered]
            if all(len(s) < 2 for s in signs):
                return self.window(tensor, lows, forms, ordered, fill)
        return self.gather(tensor, lows, forms, shape, fill)

    def window(self, tensor, lows, forms, ordered, fill):
        """A read at sums of indices: a strided view, of the tensor with a margin where it reads beyond it."""
        pads, starts = [], []
        for axis, form in enumerate(forms):
            low, high = interval(form, self.kernel.ranges)
            begin, end = low - lows[axis], high + 1 - lows[axis]
            pads.append((max(0, -begin), max(0, end - tensor.shape[axis])))
            starts.append(max(0, begin))
        if any(p != (0, 0) for p in pads):
            tensor = F.pad(tensor, [n for pair in reversed(pads) for n in pair], value=fill)
            self.kernel.ran("pad")
        ordered = [dict(terms) for terms in ordered]
        for axis, terms in enumerate(ordered):
            if any(c < 0 for c in terms.values()):
                high = interval(forms[axis], self.kernel.ranges)[1]
                starts[axis] = tensor.shape[axis] - 1 - (high - lows[axis] + pads[axis][0])
                tensor = tensor.flip(axis)
                ordered[axis] = {i: -c for i, c in terms.items()}
        used = [i for i in self.dims if any(i in terms for terms in ordered)]
        strides = [sum(terms.get(i, 0) * tensor.stride(a) for a, terms in enumerate(ordered)) for i in used]
        offset = sum(start * tensor.stride(a) for a, start in enumerate(starts))
        view = tensor.as_strided([self.kernel.size(i) for i in used], strides, tensor.storage_offset() + offset)
        return self.spread(view, used, self.dims)

    def gather(self, tensor, lows, forms, shape, fill):
        self.kernel.ran("gather")
        of_data = lambda form: any(i in self.values for i in indices_of(form))
        slices = [a for a, form in enumerate(forms) if plain(form) is not None and not of_data(form)]
        others = [i for a, form in enumerate(forms) if a not in slices for i in indices_of(form)]
        beside = [i for i in self.dims if any(self.depends(i, form) for a, form in enumerate(forms) if a not in slices)]
        plains = [plain(forms[a]) for a in slices]
        if len(set(plains)) < len(plains) or set(plains) & set(others + beside):
            slices, plains, beside = [], [], list(self.dims)
        rows, outside = [], None
        for axis in (a for a in range(len(forms)) if a not in slices):
            place, beyond = self.places(forms[axis], lows[axis], shape[axis], tensor.shape[axis], of_data(forms[axis]))
            keep = [self.dims.index(i) for i in beside]
            if place.dim():
                place = place.permute(keep + [d for d in range(place.dim()) if d not in keep])
                place = place.reshape([place.shape[k] for k in range(len(keep))])
            rows.append(place)
            if beyond is not None:
                outside = beyond if outside is None else outside | beyond
        for a, i in zip(slices, plains):
            tensor = tensor.narrow(a, self.kernel.ranges[i][0] - lows[a], self.kernel.size(i))
        tensor = tensor.permute([a for a in range(len(forms)) if a not in slices] + slices)
        value = tensor[tuple(rows)]
        value = self.spread_wide(value, beside, plains)
        return value if outside is None else torch.where(outside, fill, value)

    def depends(self, index, form):
        """Whether a form changes along an index, or the data that it is read from does."""
        for i in indices_of(form):
            if i == index:
                return True
            if i in self.values and torch.is_tensor(self.values[i]) and self.values[i].dim():
                if self.values[i].shape[self.dims.index(index)] != 1:
                    return True
        return False

    def places(self, form, low, extent, held, of_data):
        """Where an axis is read, in what is held of it, and where that is outside of the tensor (None: nowhere)."""
        key = (self.at, id(form), tuple(self.dims), "places")
        if key in self.constants:
            return self.constants[key]
        at = torch.as_tensor(self.form(form), device=self.device)
        whole_axis = of_data and plain(form) is not None and low == 0 and held == extent
        if whole_axis:
            return at, None
        beyond = (at < 0) | (at >= extent)
        beyond = beyond if of_data or bool(beyond.any()) else None
        at = (at - low).clamp(0, max(0, held - 1))
        if not of_data:
            self.constants[key] = (at, beyond)
        return at, beyond

    def spread_wide(self, value, beside, plains):
        """A gathered tensor, with extents 1 among its first axes, over `dims`."""
        if value.dim() != len(beside) + len(plains):  # places were single numbers
            value = value.reshape([1] * len(beside) + list(value.shape))
        return self.spread(value, beside + plains, self.dims)


# ---------------------------------------------------------------- what a model would call
# Each takes a kernel and an evaluator that holds its operands, and returns a function that runs it and gives
# {tensor: result}, or None where the kernel is not what the function computes. What a gradient's function remembers
# from the forward pass is made before, and written into the operands that stand for it.


def over_axes(run, e, dims):
    """An operand as it is read, with the axes `dims`."""
    run.begin({"tensor": -1}, dims)
    return run.value(e).expand([run.kernel.size(i) for i in dims])


def read_of(kernel, tensor):
    """The one way in which a kernel reads an operand, which is given by name or position; None: there is none, or
    several. (Gradients that are derived have their own names.)"""
    names = [name for name, _ in kernel.formula["tensors"]]
    if isinstance(tensor, str) and tensor not in names:
        return None
    number_of = tensor if isinstance(tensor, int) else names.index(tensor)
    found = [e for stage in kernel.stages for e in reads_of(stage["is"]) if e["read"] == number_of]
    return found[0] if found and all(e["at"] == found[0]["at"] for e in found) else None


def is_full(kernel, indices):
    return all(kernel.size(i) == kernel.formula["indices"][i][1] for i in indices)


def results(run, values):
    """{name: (value, axes)} as the kernel writes them; "last": what the last stage makes."""
    out = {}
    for name, (value, axes) in values.items():
        tensor = run.kernel.stages[-1]["tensor"] if name == "last" else run.kernel.tensor(name)
        if value is not None and tensor in run.kernel.writes:
            run.store(run.kernel.stage_of(tensor), value.reshape([run.kernel.size(i) for i in axes]), axes)
            out[tensor] = run.held[tensor][0]
    return out


def digits_of(names, name):
    """Numbers of an index that may have been split into digits: e, or e.0 and e.1."""
    return [k for k, known in enumerate(names) if re.fullmatch(name + r"([._]\d+)*", known)]


def attention_parts(kernel, run):
    """Indices of batch and heads, of repeated heads, i, j, those of e and of d; the mask; the scale. None: not plain
    attention."""
    names = [name for name, _ in kernel.formula["indices"]]
    if not kernel.whole or kernel.attributes.get("softcap") or not {"i", "j"} <= set(names):
        return None
    scores, reads = kernel.stages[0], [read_of(kernel, name) for name in ("q", "k", "v")]
    i, j = names.index("i"), names.index("j")
    e, d = (digits_of(names, name) for name in "ed")
    if read_of(kernel, "mask") or None in reads or not e or not d or not is_full(kernel, e + d):
        return None
    lhs = [x for form in scores["at"] for x in indices_of(form)]
    if scores["is"].get("over") != e or lhs[-2:] != [i, j]:
        return None
    batch = [x for x in lhs[:-2] if x in uses(reads[1])]
    repeated = [x for x in lhs[:-2] if x not in batch]
    run.begin(scores, [i, j])
    mask = True
    for condition in factors(scores["is"]["of"][0])[2]:
        if "read" in str(condition):
            return None
        mask = mask & truth(run.value(condition))
    if torch.is_tensor(mask):
        mask = mask.expand(kernel.size(i), kernel.size(j))
    extent = math.prod(kernel.size(x) for x in e)
    return reads, (batch, repeated, i, j, e, d), mask, kernel.attributes.get("scale") or extent**-0.5


def scaled_dot_product(q, k, v, mask, scale, repeats):
    """Attention as a model calls it: causal where the mask is, with a mask otherwise."""
    options = {"scale": scale}
    if repeats:
        options["enable_gqa"] = True
    if torch.is_tensor(mask) and not bool(mask.all()):
        rows, columns = mask.shape
        ones = torch.ones(rows, columns, dtype=torch.bool, device=mask.device)
        if torch.equal(mask, ones.tril()):
            options["is_causal"] = True
        elif torch.equal(mask, ones.tril(columns - rows)) and not repeats:
            from torch.nn.attention.bias import causal_lower_right

            options["attn_mask"] = causal_lower_right(rows, columns)
        else:
            options["attn_mask"] = mask
    return lambda: F.scaled_dot_product_attention(q, k, v, **options)


def four_axes(run, reads, indices):
    """q, k and v as [batch, heads, length, size]."""
    batch, repeated, i, j, e, d = indices
    size = run.kernel.size
    outer, heads = math.prod(size(x) for x in batch[:-1]), size(batch[-1]) if batch else 1
    group, wide, deep = (math.prod(size(x) for x in indices) for indices in (repeated, e, d))
    q = over_axes(run, reads[0], batch + repeated + [i, *e]).reshape(outer, heads * group, size(i), wide)
    k = over_axes(run, reads[1], batch + [j, *e]).reshape(outer, heads, size(j), wide)
    v = over_axes(run, reads[2], batch + [j, *d]).reshape(outer, heads, size(j), deep)
    return q, k, v


def narrowed(kernel):
    """The kernel over those queries and keys that it reads: some see no other where the mask is causal. None: it does
    not read them plainly."""
    ranges = list(kernel.ranges)
    for name, tensor in (("i", "q"), ("j", "k")):
        read = read_of(kernel, tensor)
        index = next((n for n, (known, _) in enumerate(kernel.formula["indices"]) if known == name), None)
        axes = [indices_of(form) for form in read["at"]] if read else []
        if [index] not in axes:
            return None
        ranges[index] = kernel.reads[read["read"]][1][axes.index([index])]
    narrow = copy.copy(kernel)
    narrow.ranges = ranges
    return narrow


def evaluator(kernel, held, device):
    run = Evaluator(kernel, device)
    run.held = dict(held)
    return run


def attention(kernel, run):
    narrow = narrowed(kernel)
    inner = evaluator(narrow, run.held, run.device) if narrow else None
    parts = attention_parts(narrow, inner) if narrow else None
    if not parts:
        return None
    reads, indices, mask, scale = parts
    batch, repeated, i, j, e, d = indices
    if narrow.size(i) != kernel.size(i) or narrow.size(j) == 0:  # queries that see no key
        return None
    q, k, v = four_axes(inner, reads, indices)
    if kernel.tensor("lse") in kernel.writes:  # for the gradient
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    call = scaled_dot_product(q, k, v, mask, scale, bool(repeated))
    kernel.ran("scaled_dot_product_attention")
    return lambda: results(run, {"o": (call(), batch + repeated + [i, *d])})


def attention_grad(kernel, run):
    narrow = narrowed(kernel)
    inner = evaluator(narrow, run.held, run.device) if narrow else None
    parts = attention_parts(narrow, inner) if narrow else None
    reads = [read_of(kernel, name) for name in ("lse", "o", "g")]
    if not parts or None in reads:
        return None
    operands, indices, mask, scale = parts
    batch, repeated, i, j, e, d = indices
    rows = batch + repeated + [i]
    if narrow.size(i) == 0 or narrow.size(j) == 0:
        return None
    q, k, v = (x.detach().contiguous().requires_grad_() for x in four_axes(inner, operands, indices))
    out = scaled_dot_product(q, k, v, mask, scale, bool(repeated))()
    shape = [narrow.size(x) for x in rows]
    deep = [narrow.size(x) for x in d]
    over_axes(inner, reads[1], rows + d).copy_(out.detach().reshape(shape + deep))
    if q.shape[-2] * k.shape[-2] <= 2**16:  # for --check alone: the function keeps its own
        many = k.detach().repeat_interleave(q.shape[1] // k.shape[1], 1)
        scores = (q.detach() @ many.transpose(-1, -2)).double() * scale
        scores = torch.where(mask, scores, -math.inf) if torch.is_tensor(mask) else scores
        over_axes(inner, reads[0], rows).copy_(scores.logsumexp(-1).reshape(shape))
    g = over_axes(inner, reads[2], rows + d).reshape(out.shape).contiguous()
    kernel.ran("scaled_dot_product_attention backward")

    def whole(gradient, index):
        """With zeros for the queries or keys that were left out."""
        (low, high), (begin, end) = kernel.ranges[index], narrow.ranges[index]
        return gradient if (low, high) == (begin, end) else F.pad(gradient, (0, 0, begin - low, high - end))

    def backward():
        dq, dk, dv = torch.autograd.grad(out, (q, k, v), g, retain_graph=True)
        dq, dk, dv = whole(dq, i), whole(dk, j), whole(dv, j)
        return results(run, {"dq": (dq, rows + e), "dk": (dk, batch + [j, *e]), "dv": (dv, batch + [j, *d])})

    return backward


def plain_indices(e):
    found = [plain(form) for form in e["at"]] if e else [None]
    return None if None in found else found


def layer_norm(kernel, run):
    x, mean = (plain_indices(read_of(kernel, "x")), kernel.stages[0])
    rows = [plain(form) for form in kernel.stages[0]["at"]]
    if not kernel.whole or not x or None in rows or x[: len(rows)] != rows:
        return None
    over = x[len(rows) :]
    if mean["is"].get("over") != over or not is_full(kernel, over):
        return None
    eps = kernel.attributes.get("eps", 1e-5)
    sizes = [kernel.size(i) for i in over]
    value = over_axes(run, read_of(kernel, "x"), x)
    w, b = (over_axes(run, e, over) if (e := read_of(kernel, name)) else None for name in ("w", "b"))
    w, b = (p if p is None else p.to(value.dtype) for p in (w, b))
    kernel.ran("layer_norm")

    def call():
        y, mu, rd = torch.native_layer_norm(value, sizes, w, b, eps)
        return results(run, {"y": (y, x), "mu": (mu, rows), "rd": (rd, rows)})

    return call


def layer_norm_grad(kernel, run):
    names = ("x", "w", "mu", "rd", "g")
    reads = {name: read_of(kernel, name) for name in names}
    x, rows = plain_indices(reads["x"]), plain_indices(reads["mu"])
    if not kernel.whole or not x or not rows or not reads["g"] or not reads["rd"] or x[: len(rows)] != rows:
        return None
    over = x[len(rows) :]
    if not is_full(kernel, over):
        return None
    value, g = (over_axes(run, reads[name], x) for name in ("x", "g"))
    w = over_axes(run, reads["w"], over).to(value.dtype) if reads["w"] else None
    ones = [1] * len(over)
    mu, rd = (over_axes(run, reads[n], rows).reshape([kernel.size(i) for i in rows] + ones) for n in ("mu", "rd"))
    has_bias = any(name == "db" for name, _ in kernel.formula["tensors"])
    sizes = [kernel.size(i) for i in over]
    kernel.ran("layer_norm backward")

    def call():
        dx, dw, db = torch.ops.aten.native_layer_norm_backward(
            g, value, sizes, mu, rd, w, w if has_bias else None, [True, w is not None, has_bias]
        )
        found = {"dx": (dx, x)}
        if w is not None:
            found["dw"] = (dw, over)
        if has_bias:
            found["db"] = (db, over)
        return results(run, found)

    return call


def along_axis(function, names, how):
    """Softmax and its like: whole rows along one axis, from operands of the result's shape."""

    def native(kernel, run):
        reads = [read_of(kernel, name) for name in names]
        x = plain_indices(reads[0])
        reduced = [stage["is"]["over"] for stage in kernel.stages if "reduce" in stage["is"]]
        if not kernel.whole or not x or not reduced or any(r != reduced[0] for r in reduced) or len(reduced[0]) != 1:
            return None
        if any(plain_indices(e) != x for e in reads) or not is_full(kernel, reduced[0]):
            return None
        if kernel.attributes.get("masked"):
            return None
        values, axis = [over_axes(run, e, x) for e in reads], x.index(reduced[0][0])
        kernel.ran(how)
        return lambda: results(run, {"last": (function(axis, *values), x)})

    return native


def elementwise(function, how):
    """Of one stage, from operands of the result's shape."""

    def native(kernel, run):
        reads = [read_of(kernel, n) for n in range(len(kernel.reads))]
        x = plain_indices(reads[0]) if reads else None
        if not kernel.whole or len(kernel.stages) != 1 or not x or any(plain_indices(e) != x for e in reads):
            return None
        values = [over_axes(run, e, x) for e in reads]
        kernel.ran(how)
        return lambda: results(run, {"last": (function(*values), x)})

    return native


def cross_entropy(kernel, run):
    x, t = (plain_indices(read_of(kernel, name)) for name in ("x", "t"))
    last = kernel.stages[-1]["is"]
    if not kernel.whole or not x or x[:-1] != t or not is_full(kernel, x[-1:]) or last.get("binary") != "/":
        return None
    if "number" not in last["of"][1]:
        return None
    logits = over_axes(run, read_of(kernel, "x"), x).reshape(-1, kernel.size(x[-1]))
    labels = over_axes(run, read_of(kernel, "t"), t).reshape(-1)
    count = number(last["of"][1]["number"])
    kernel.ran("cross_entropy")
    return lambda: results(run, {"loss": (F.cross_entropy(logits, labels, reduction="sum") / count, [])})


def cross_entropy_grad(kernel, run):
    reads = {name: read_of(kernel, name) for name in ("x", "t", "lse", "g")}
    x, t = plain_indices(reads["x"]), plain_indices(reads["t"])
    last = kernel.stages[-1]["is"]
    if not kernel.whole or not x or x[:-1] != t or not is_full(kernel, x[-1:]) or len(kernel.stages) != 1:
        return None
    if last.get("binary") != "/" or "number" not in last["of"][1] or not reads["lse"] or not reads["g"]:
        return None
    logits = over_axes(run, reads["x"], x).reshape(-1, kernel.size(x[-1])).detach().requires_grad_()
    labels = over_axes(run, reads["t"], t).reshape(-1)
    loss = F.cross_entropy(logits, labels, reduction="sum") / number(last["of"][1]["number"])
    lse = over_axes(run, reads["lse"], t)
    lse.copy_(logits.detach().double().logsumexp(-1).reshape(lse.shape))
    g = over_axes(run, reads["g"], []).to(loss.dtype)
    kernel.ran("cross_entropy backward")
    return lambda: results(run, {"out": (torch.autograd.grad(loss, logits, g, retain_graph=True)[0], x)})


def image_axes(forms, outer, taps):
    """[(stride, dilation)] of reads at sums y*stride + r*dilation - padding, or None."""
    found = []
    for form, y, r in zip(forms, outer, taps):
        terms = linear(form)
        if terms is None or not set(terms) <= {y, r} or min(terms.values(), default=1) < 1:
            return None
        found.append((terms.get(y, 1), terms.get(r, 1)))
    return found


def margins(kernel, read):
    """How far beyond what is held of an operand its image axes are read, before and after it."""
    box = kernel.reads[read["read"]][1]
    ends = [interval(read["at"][axis], kernel.ranges) for axis in (2, 3)]
    before = [box[axis][0] - low for axis, (low, _) in zip((2, 3), ends)]
    return before, [high + 1 - box[axis][1] for axis, (_, high) in zip((2, 3), ends)]


def padded(x, before, after, axes):
    """x with margins, and the part of them that a function of windows with [(stride, dilation)] adds by itself: the same
    on both sides, of which the last stride may leave some over."""
    if all(0 <= b and 0 <= b - a < stride for b, a, (stride, _) in zip(before, after, axes)):
        return x, before
    return F.pad(x, (before[1], after[1], before[0], after[0])), [0, 0]


def cut(run, read, plains):
    """An operand, of whose first axes only what the ranges say is taken."""
    value, lows = run.held[read["read"]]
    for axis, i in enumerate(plains):
        value = value.narrow(axis, run.kernel.ranges[i][0] - lows[axis], run.kernel.size(i))
    return value


def four(e):
    """The four plain indices that a tensor is accessed at, or None; an index is None for an image axis of extent 1."""
    if not e or len(e["at"]) != 4:
        return None
    found = [plain(form) for form in e["at"]]
    known = [i for i in found if i is not None]
    fits = None not in found[:2] and all(i is not None or form == [0] for i, form in zip(found, e["at"]))
    return found if fits and len(set(known)) == len(known) else None


def named(indices):
    return [i for i in indices if i is not None]


def sizes_of(kernel, indices):
    return [1 if i is None else kernel.size(i) for i in indices]


def over_four(run, e, indices):
    return over_axes(run, e, named(indices)).reshape(sizes_of(run.kernel, indices))


def conv2d(kernel, run):
    x, w, out = read_of(kernel, 0), four(read_of(kernel, 1)), four(kernel.stages[0])
    if kernel.first != 0 or not x or not w or not out or len(x["at"]) != 4:
        return None
    (o, c, r, t), (n, _, y, z) = w, out
    axes = image_axes(x["at"][2:], (y, z), (r, t))
    if not axes or out[1] != o or [plain(form) for form in x["at"][:2]] != [n, c]:
        return None
    value, margin = padded(cut(run, x, [n, c]), *margins(kernel, x), axes)
    weight = over_four(run, read_of(kernel, 1), w)
    bias = over_axes(run, read_of(kernel, 2), [o]) if len(kernel.stages) == 2 else None
    options = {"stride": [a for a, _ in axes], "dilation": [a for _, a in axes], "padding": margin}
    kernel.ran("conv2d")
    rows, columns = sizes_of(kernel, (y, z))
    return lambda: results(run, {"last": (F.conv2d(value, weight, bias, **options)[..., :rows, :columns], named(out))})


def conv2d_weight_grad(kernel, run):
    g, x, out = four(read_of(kernel, 0)), read_of(kernel, 1), four(kernel.stages[0])
    if not kernel.whole or not g or not x or not out or len(x["at"]) != 4:
        return None
    (n, o, y, z), (_, c, r, t) = g, out
    axes = image_axes(x["at"][2:], (y, z), (r, t))
    if not axes or out[0] != o or [plain(form) for form in x["at"][:2]] != [n, c]:
        return None
    value, margin = padded(cut(run, x, [n, c]), *margins(kernel, x), axes)
    gradient = over_four(run, read_of(kernel, 0), g)
    like = torch.empty(sizes_of(kernel, out), dtype=value.dtype, device=value.device)
    rest = [[a for a, _ in axes], margin, [a for _, a in axes], False, [0, 0], 1, [False, True, False]]
    kernel.ran("conv2d weight gradient")
    backward = torch.ops.aten.convolution_backward
    return lambda: results(run, {"last": (backward(gradient, value, like, None, *rest)[1], named(out))})


def conv2d_data_grad(kernel, run):
    g, w, out = read_of(kernel, 0), four(read_of(kernel, 1)), four(kernel.stages[0])
    if not kernel.whole or not g or not w or not out or len(g["at"]) != 4 or kernel.attributes.get("groups", 1) != 1:
        return None
    (o, c, *taps), (n, _, *image), a = w, out, kernel.attributes
    if out[1] != c or [plain(form) for form in g["at"][:2]] != [n, o]:
        return None
    box, ranges = kernel.reads[g["read"]][1], {None: (0, 1), **dict(enumerate(kernel.ranges))}
    stride, dilation = ([int(a.get(name, 1)) for name in names] for names in (("sh", "sw"), ("dh", "dw")))
    pads, margin = [int(a.get(name, 0)) for name in ("pt", "pl")], []
    for k, (r, u) in enumerate(zip(taps, image)):  # where what the whole box gives begins and ends
        (low, high), (first, last), (begin, end) = box[2 + k], ranges[r], ranges[u]
        start = stride[k] * low + dilation[k] * first - pads[k] - begin
        covered = stride[k] * (high - 1 - low) + dilation[k] * (last - 1 - first) + 1
        margin.append((start, end - begin - start - covered))
    gradient, weight = cut(run, g, [n, o]), over_four(run, read_of(kernel, 1), w)
    kernel.ran("conv2d data gradient")
    if all(start <= 0 and start <= end < start + stride[k] for k, (start, end) in enumerate(margin)):
        like = torch.empty(sizes_of(kernel, out), dtype=gradient.dtype, device=gradient.device)
        rest = [stride, [-start for start, _ in margin], dilation, False, [0, 0], 1, [True, False, False]]
        backward = torch.ops.aten.convolution_backward
        return lambda: results(run, {"last": (backward(gradient, like, weight, None, *rest)[0], named(out))})
    around = [*margin[1], *margin[0]]
    call = lambda: F.conv_transpose2d(gradient, weight, None, stride, dilation=dilation)
    return lambda: results(run, {"last": (F.pad(call(), around), named(out))})


def batch_norm(kernel, run):
    x, rows = plain_indices(read_of(kernel, "x")), [plain(form) for form in kernel.stages[0]["at"]]
    if not kernel.whole or not x or len(rows) != 1 or x[1:2] != rows or not is_full(kernel, x[:1] + x[2:]):
        return None
    value, w, b = over_axes(run, read_of(kernel, "x"), x), *(over_axes(run, read_of(kernel, n), rows) for n in "wb")
    eps = kernel.attributes.get("eps", 1e-5)
    kernel.ran("batch_norm")

    def call():
        y, mu, *_ = torch._batch_norm_impl_index(value, w, b, None, None, True, 0.0, eps, True)
        return results(run, {"y": (y, x), "mu": (mu, rows)})

    return call


def batch_norm_grad(kernel, run):
    reads = [read_of(kernel, name) for name in ("x", "w", "mu", "va", "g")]
    x, rows = plain_indices(reads[0]), plain_indices(reads[2])
    if not kernel.whole or None in reads or not x or x[1:2] != rows or not is_full(kernel, x[:1] + x[2:]):
        return None
    value, g = over_axes(run, reads[0], x), over_axes(run, reads[4], x)
    w, mu, va = (over_axes(run, e, rows) for e in reads[1:4])
    eps = kernel.attributes.get("eps", 1e-5)
    forward = torch._batch_norm_impl_index(value, w, torch.zeros_like(w), None, None, True, 0.0, eps, True)
    _, mean, deviation, rest, way = forward
    mu.copy_(mean)
    va.copy_(deviation.double() ** -2 - eps)
    kernel.ran("batch_norm backward")

    def call():
        backward = torch.ops.aten._batch_norm_impl_index_backward
        dx, dw, db = backward(way, value, g, w, None, None, mean, deviation, True, eps, [True, True, True], rest)
        return results(run, {"dx": (dx, x), "dw": (dw, rows), "db": (db, rows)})

    return call


def windows_of(kernel):
    """Size, stride, padding, dilation of a pooling kernel, for rows and columns; None: its margins are not the same on
    both sides."""
    if any(kernel.attributes.get(a, 0) != kernel.attributes.get(b, 0) for a, b in (("pt", "pb"), ("pl", "pr"))):
        return None
    known = lambda names, other: [int(kernel.attributes.get(name, other)) for name in names]
    return known(("kh", "kw"), 1), known(("sh", "sw"), 1), known(("pt", "pl"), 0), known(("dh", "dw"), 1)


def taps_of(places, columns, windows):
    """Which tap of its window each place in an image is."""
    (_, wide), stride, padding, dilation = windows
    rows, across = (torch.arange(n, device=places.device) for n in places.shape[2:])
    row = (places // columns - rows[:, None] * stride[0] + padding[0]) // dilation[0]
    column = (places % columns - across * stride[1] + padding[1]) // dilation[1]
    return row * wide + column


def max_pool(kernel, run):
    x, out = read_of(kernel, "x"), four(kernel.stages[0])
    over = kernel.stages[0]["is"].get("over", [])
    if kernel.first != 0 or not x or not out or None in out or len(over) != 2 or not is_full(kernel, over):
        return None
    if plain(x["at"][0]) != out[0] or plain(x["at"][1]) != out[1] or not is_full(kernel, out[2:]):
        return None
    box, n, c = kernel.reads[x["read"]][1], *out[:2]
    if any(high - low != extent for (low, high), extent in zip(box[2:], kernel.shapes[x["read"]][2:])):
        return None
    value, windows = cut(run, x, [n, c]), windows_of(kernel)
    if not windows:
        return None
    if len(x["at"]) == 6:  # rows and columns in windows beside each other
        value = value.reshape(value.shape[0], value.shape[1], math.prod(value.shape[2:4]), math.prod(value.shape[4:]))
    elif len(x["at"]) != 4:
        return None
    ceil = bool(kernel.attributes.get("ceil"))
    call = lambda: F.max_pool2d(value, *windows, ceil_mode=ceil, return_indices=True)
    if list(call()[0].shape[2:]) != sizes_of(kernel, out[2:]):
        return None
    kernel.ran("max_pool2d")

    def run_it():
        largest, places = call()
        places = places if kernel.timed else taps_of(places, value.shape[3], windows)
        return results(run, {"m": (largest, out), "ix": (places, out)})

    return run_it


def max_pool_grad(kernel, run):
    ix, g, out = read_of(kernel, "ix"), read_of(kernel, "g"), four(kernel.stages[0])
    if not kernel.whole or not ix or not g or not out or None in out or len(g["at"]) != 4 or g["at"] != ix["at"]:
        return None
    windows, images = windows_of(kernel), [kernel.reads[e["read"]][1] for e in (ix, g)]
    over = kernel.stages[0]["is"].get("over", [])
    if not is_full(kernel, out[2:] + over) or [plain(form) for form in g["at"][:2]] != out[:2]:
        return None
    if not windows:
        return None
    taps, gradient = cut(run, ix, out[:2]), cut(run, g, out[:2])
    like = torch.rand(sizes_of(kernel, out), dtype=gradient.dtype, device=gradient.device)
    like = like.contiguous(memory_format=torch.channels_last) if kernel.is_image(run.device) else like
    ceil = bool(kernel.attributes.get("ceil"))
    largest, places = F.max_pool2d(like, *windows, ceil_mode=ceil, return_indices=True)
    if largest.shape != gradient.shape or any(low for box in images for low, _ in box[2:]):
        return None
    taps.copy_(taps_of(places, like.shape[3], windows))
    kernel.ran("max_pool2d backward")
    backward = torch.ops.aten.max_pool2d_with_indices_backward
    return lambda: results(run, {"last": (backward(gradient, like, *windows, ceil, places), out)})


def rms_norm_parts(kernel, run):
    """x, w, the numbers of the indices of x and of its rows, for the functions that PyTorch has on GPUs."""
    x, w = read_of(kernel, "x"), read_of(kernel, "w")
    indices, over = plain_indices(x), plain_indices(w)
    if run.device.type != "cuda" or not hasattr(torch.ops.aten, "_fused_rms_norm_backward"):
        return None
    if not kernel.whole or not indices or not over or indices[-len(over) :] != over or not is_full(kernel, over):
        return None
    value = over_axes(run, x, indices)
    return value, over_axes(run, w, over).to(value.dtype), indices, indices[: -len(over)], over


def rms_norm(kernel, run):
    parts = rms_norm_parts(kernel, run)
    if not parts:
        return None
    value, w, x, rows, over = parts
    sizes, eps = [kernel.size(i) for i in over], kernel.attributes.get("eps", 1e-5)
    kernel.ran("rms_norm")

    def call():
        y, rd = torch.ops.aten._fused_rms_norm(value, sizes, w, eps)
        return results(run, {"y": (y, x), "rd": (rd, rows)})

    return call


def rms_norm_grad(kernel, run):
    parts, reads = rms_norm_parts(kernel, run), [read_of(kernel, name) for name in ("rd", "g")]
    if not parts or None in reads:
        return None
    value, w, x, rows, over = parts
    sizes = [kernel.size(i) for i in over]
    rd = over_axes(run, reads[0], rows).reshape([kernel.size(i) for i in rows] + [1] * len(over)).contiguous()
    g = over_axes(run, reads[1], x).to(value.dtype)
    kernel.ran("rms_norm backward")

    def call():
        dx, dw = torch.ops.aten._fused_rms_norm_backward(g, value, sizes, rd, w, [True, True])
        return results(run, {"dx": (dx, x), "dw": (dw, over)})

    return call


def optimizer(update, kept, written):
    """A fused optimizer's step, in place: of one parameter, as the plan has it."""

    def native(kernel, run):
        names = ["w", "g", *kept]
        x = plain_indices(read_of(kernel, "w"))
        if not kernel.whole or not x or any(plain_indices(read_of(kernel, name)) != x for name in names):
            return None
        values = [over_axes(run, read_of(kernel, name), x) for name in names]
        if any(v.dtype != values[0].dtype for v in values):
            return None
        lr = float(over_axes(run, read_of(kernel, "lr"), []))
        step = read_of(kernel, "t")
        step = torch.tensor(float(over_axes(run, step, [])) + 1 if step else 1.0, dtype=torch.float32, device=run.device)
        own = [v.clone() for v in values]
        kernel.ran("fused optimizer")

        def call():
            if not kernel.timed:
                for mine, value in zip(own, values):
                    mine.copy_(value)
            update(own, lr, step, kernel.attributes)
            results_of = {name: (own[at], x) for at, name in written.items()}
            return {t: v.clone() for t, v in results(run, results_of).items()} if not kernel.timed else {}

        return call

    return native


def fused_adam(function):
    def update(own, lr, step, a):
        w, g, m, v = ([t] for t in own)
        rest = {"beta1": a["beta1"], "beta2": a["beta2"], "weight_decay": a["weight_decay"], "eps": a["eps"]}
        function(w, g, m, v, [], [step], lr=lr, amsgrad=False, maximize=False, **rest)

    return optimizer(update, ["m", "v"], {0: "wn", 2: "mn", 3: "vn"})


def fused_sgd(momentum):
    def update(own, lr, _, a):
        rest = {"weight_decay": a.get("weight_decay", 0.0), "momentum": a.get("momentum", 0.0), "dampening": 0.0}
        rest.update(nesterov=bool(a.get("nesterov", 0)), maximize=False, is_first_step=False)
        torch._fused_sgd_(own[:1], own[1:2], own[2:], lr=lr, **rest)

    return optimizer(update, ["m"] if momentum else [], {0: "wn" if momentum else "out", **({2: "mn"} if momentum else {})})


NATIVES = {
    "attention": attention,
    "attention_grad": attention_grad,
    "layer_norm": layer_norm,
    "layer_norm_grad": layer_norm_grad,
    "softmax": along_axis(lambda axis, x: torch.softmax(x, axis), ["x"], "softmax"),
    "log_softmax": along_axis(lambda axis, x: torch.log_softmax(x, axis), ["x"], "log_softmax"),
    "softmax_grad": along_axis(
        lambda axis, y, g: torch._softmax_backward_data(g, y, axis, y.dtype), ["y", "g"], "softmax backward"
    ),
    "log_softmax_grad": along_axis(
        lambda axis, y, g: torch._log_softmax_backward_data(g, y, axis, y.dtype), ["y", "g"], "log_softmax backward"
    ),
    "cross_entropy": cross_entropy,
    "cross_entropy_grad": cross_entropy_grad,
    "conv2d": conv2d,
    "conv2d_data_grad": conv2d_data_grad,
    "conv2d_weight_grad": conv2d_weight_grad,
    "relu": elementwise(F.relu, "relu"),
    "gelu": elementwise(F.gelu, "gelu"),
    "gelu_tanh": elementwise(lambda x: F.gelu(x, approximate="tanh"), "gelu"),
    "silu": elementwise(F.silu, "silu"),
    "relu_grad": elementwise(lambda x, g: torch.ops.aten.threshold_backward(g, x, 0), "relu backward"),
    "gelu.grad.x": elementwise(lambda x, g: torch.ops.aten.gelu_backward(g, x), "gelu backward"),
    "gelu_tanh.grad.x": elementwise(
        lambda x, g: torch.ops.aten.gelu_backward(g, x, approximate="tanh"), "gelu backward"
    ),
    "silu.grad.x": elementwise(lambda x, g: torch.ops.aten.silu_backward(g, x), "silu backward"),
    "rms_norm": rms_norm,
    "rms_norm_grad": rms_norm_grad,
    "max_pool": max_pool,
    "max_pool_grad": max_pool_grad,
    "adam": fused_adam(torch._fused_adam_),
    "adamw": fused_adam(torch._fused_adamw_),
    "sgd": fused_sgd(momentum=False),
    "sgd_momentum": fused_sgd(momentum=True),
    "batch_norm": batch_norm,
    "batch_norm_grad": batch_norm_grad,
}


def prepared(kernel, operands, device):
    """A function that runs the kernel; what does not change from run to run is made before."""
    native = NATIVES.get(kernel.definition)
    if native and all(value.numel() for value, _ in operands.values()):
        try:
            call = native(kernel, evaluator(kernel, operands, device))
            if call:
                call()
                return call
        except Exception as error:  # another version of PyTorch, or types that its function does not take
            print(f"{kernel.text()}: {reason(error)}; it is evaluated stage by stage", file=sys.stderr)
        kernel.how = []
    run = Evaluator(kernel, device)
    run.run(operands)  # makes the constants
    if not kernel.how:
        kernel.ran("elementwise")
    return lambda: run.run(operands)


# ---------------------------------------------------------------- devices


def free_memory(device):
    if device.type == "cuda":
        return torch.cuda.mem_get_info()[0]
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 4 << 30


def machine_of(device, tf32):
    """The profile's `machine`: of a GPU the bytes of its second-level cache."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        machine = {"name": properties.name, "engine": f"torch {torch.__version__}, cuda{', tf32' * tf32}", "cores": 0}
        cache = getattr(properties, "L2_cache_size", 0)
        return {**machine, "cache_bytes": cache} if cache else machine
    name = "cpu"
    try:
        with open("/proc/cpuinfo") as file:
            name = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {"name": name, "engine": f"torch {torch.__version__}, cpu", "cores": 0}


class Timer:
    """Medians of single runs. On a GPU each run follows other work, which hides what launching it takes, and is timed
    with the cache full of other memory (cold) and once more right after (warm)."""

    def __init__(self, device, seconds):
        self.device, self.seconds = device, seconds
        if device.type == "cuda":
            self.other = torch.empty(256 << 20, dtype=torch.int8, device=device)

    def time(self, call):
        for _ in range(3):
            call()
        return self.on_gpu(call) if self.device.type == "cuda" else self.on_cpu(call)

    def goes_on(self, times, elapsed):
        """At least seven runs; four times as long where they differ, for want of which some were launched late."""
        if len(times) < 7:
            return True
        if len(times) >= 1000 or elapsed > 4 * self.seconds:
            return False
        return elapsed < self.seconds or summary(times)["spread_us"] > 0.2 * summary(times)["us"]

    def on_cpu(self, call):
        times, begin = [], time.perf_counter()
        while len(times) < 5 or (time.perf_counter() - begin < self.seconds and len(times) < 1000):
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e6)
        return summary(times)

    def on_gpu(self, call):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        launching = time.perf_counter() - start  # at most: it may wait for the GPU
        torch.cuda.synchronize()
        fills = max(6, min(64, math.ceil(4 * launching / 80e-6)))
        cold, warm, begin = [], [], time.perf_counter()
        while self.goes_on(warm, time.perf_counter() - begin):
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
            for _ in range(fills):
                self.other.zero_()
            marks[0].record()
            call()
            marks[1].record()
            call()
            marks[2].record()
            torch.cuda.synchronize()
            cold.append(marks[0].elapsed_time(marks[1]) * 1e3)
            warm.append(marks[1].elapsed_time(marks[2]) * 1e3)
        time_of = summary(warm)
        time_of["cold_us"] = max(time_of["us"], summary(cold)["us"])
        return time_of


def summary(times):
    low, middle, high = statistics.quantiles(times, n=4)
    return {"us": max(1e-3, round(middle, 4)), "spread_us": round(high - low, 4), "runs": len(times)}


# ---------------------------------------------------------------- files


def fail(message):
    print(f"profile_torch.py: {message}", file=sys.stderr)
    sys.exit(3)


def read_json(path):
    def no_number(text):
        raise ValueError(f"{text} is no number")

    try:
        with open(path) as file:
            return json.load(file, parse_constant=no_number)
    except (OSError, ValueError) as error:
        fail(f"{path}: {error}")


def read_worklist(path):
    work = read_json(path)
    if not isinstance(work, dict) or work.get("kind") != "worklist" or work.get("schema_version") != 1:
        fail(f"{path}: no work list of schema_version 1; `partita profile MODEL --cluster C --worklist FILE` writes one")
    if not isinstance(work.get("device"), str) or not isinstance(work.get("kernels"), list) or not work["kernels"]:
        fail(f"{path}: it names no device, or has no kernels; `partita profile` writes another one")
    return work


def kernels_of(path, work):
    """The kernels of a work list. Bad input names the first that partita did not write so."""
    kernels = []
    for number_of, entry in enumerate(work["kernels"], 1):
        try:
            for name in ("flops", "bytes"):
                if not isinstance(entry[name], (int, float)) or entry[name] < 0:
                    raise ValueError(f"{name} is {entry[name]!r}")
            if any(not low <= high for low, high in entry["ranges"]):
                raise ValueError("a range ends before it begins")
            kernel = Kernel(entry, work["formulas"][entry["formula"]])
            if not all(math.isfinite(value) for value in kernel.attributes.values()):
                raise ValueError("an attribute is no finite number")
            kernel.key(), kernel.text()
            kernels.append(kernel)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            said = f"kernel {number_of}: {type(error).__name__}: {error}"
            fail(f"{path}: {said}; this is no work list that partita wrote")
    return kernels


LEAST_US, MOST_US = 1e-3, 1e9  # that partita reads


def is_entry(entry):
    """A kernel of a profile as far as this program goes by it."""
    return (
        isinstance(entry, dict)
        and all(name in entry for name in ("definition", "form", "stages", "indices", "operands"))
        and isinstance(entry.get("us"), (int, float))
        and LEAST_US <= entry["us"] <= MOST_US
    )


class WriteLock:
    """While one is held, no other program holds one for a file in the same folder, partita neither. Without locks (on
    Windows, on some file systems) it does nothing."""

    def __init__(self, path):
        self.folder = os.path.dirname(os.path.realpath(path))

    def __enter__(self):
        self.descriptor = None
        try:
            self.descriptor = os.open(self.folder, os.O_RDONLY)
            fcntl.flock(self.descriptor, fcntl.LOCK_EX)
        except (OSError, NameError):
            pass

    def __exit__(self, *error):
        if self.descriptor is not None:
            os.close(self.descriptor)


class ProfileFile:
    """profile.json: an entry a line, replaced as a whole. What others write to it meanwhile is kept."""

    def __init__(self, path, device, machine):
        self.path, self.device, self.machine, self.entries = os.path.realpath(path), device, machine, {}
        self.rest, self.written = {}, None
        if os.path.exists(path) and not os.path.isfile(path):
            fail(f"{path}: is no regular file; a profile that goes on needs one")
        self.write()  # where it cannot be written, it is known before anything is timed

    def read(self):
        """Adds what the file has and this lacks."""
        if not os.path.exists(self.path) or os.path.getsize(self.path) == 0:
            return
        known = read_json(self.path)
        if not isinstance(known, dict) or known.get("schema_version") != 1:
            fail(f"{self.path}: no profile of schema_version 1; write to another file")
        there, device, machine = known.get("machine"), self.device, self.machine
        there = there if isinstance(there, dict) else {}
        if known.get("device") != device or any(there.get(k) != machine[k] for k in ("name", "engine")):
            was = f"{known.get('device')} on {there.get('name')} ({there.get('engine')})"
            now = f"{device} on {machine['name']} ({machine['engine']})"
            fail(f"{self.path}: this is a profile of {was}; now it is {now}; write to another file")
        kernels = known.get("kernels")
        if not isinstance(kernels, list):
            fail(f"{self.path}: it has no list of kernels")
        for number, entry in enumerate(kernels, 1):
            if not is_entry(entry):
                fail(f"{self.path}: kernel {number}: partita refuses it; correct it, or remove its line")
            self.entries.setdefault(self.key(entry), entry)
        self.rest = {"curves": known["curves"]} if known.get("curves") else {}

    @staticmethod
    def key(entry):
        names = ("definition", "form", "attributes", "stages", "indices", "operands")
        return json.dumps([entry.get(name, "") for name in names])

    def add(self, kernel, measured):
        names = ("definition", "form", "attributes", "stages", "indices", "operands", "flops", "bytes")
        entry = {name: kernel.entry[name] for name in names if name in kernel.entry}
        self.entries[kernel.key()] = {**entry, **measured, "how": " + ".join(kernel.how)}

    def write_now_and_then(self):
        if time.time() - self.written > 5:
            self.write()

    def write(self):
        partial = f"{self.path}.{os.getpid()}.new"
        try:
            with WriteLock(self.path):
                self.read()
                self.replace(partial)
        except OSError as error:
            if os.path.exists(partial):
                os.remove(partial)
            lost = "; what was timed since it was last written is lost" if self.written else ""
            fail(f"{self.path}: cannot be written: {error.strerror}{lost}")
        self.written = time.time()

    def replace(self, partial):
        head = {"schema_version": 1, "device": self.device, "machine": self.machine, **self.rest}
        lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
        kernels = ",\n    ".join(json.dumps(entry) for entry in self.entries.values())
        with open(partial, "w") as file:
            file.write("{\n" + ",\n".join(lines) + f',\n  "kernels": [\n    {kernels}\n  ]\n}}\n')
        os.replace(partial, self.path)


# ---------------------------------------------------------------- the program


def progress(done, total, text):
    now = time.time()
    terminal = sys.stderr.isatty()
    if done < total and now - progress.last < (0.2 if terminal else 2):
        return
    progress.last = now
    text = text[:76]
    print(f"\r\x1b[K{done}/{total}  {text}" if terminal else f"{done}/{total}  {text}",
          end="" if terminal and done < total else "\n", file=sys.stderr, flush=True)


progress.last = 0.0


def reason(error):
    return str(error).strip().split("\n")[0][:120] or type(error).__name__


def time_left(done, total, seconds):
    """"0:12:30 left  " at the mean rate so far; nothing while there is none to speak of."""
    if done == 0 or seconds < 2:
        return ""
    return f"{datetime.timedelta(seconds=round(seconds / done * (total - done)))} left  "


def measure(kernels, device, seconds, file):
    """Times what the file lacks; (measured, left out, interrupted)."""
    timer, measured, left_out = Timer(device, seconds), 0, []
    if device.type == "cpu" and hasattr(os, "getloadavg") and os.getloadavg()[0] > 0.5 * (os.cpu_count() or 1):
        print("other programs keep the processor busy: what is timed beside them takes longer", file=sys.stderr)
    todo = [kernel for kernel in kernels if kernel.key() not in file.entries]
    if not todo:
        return measured, left_out, False
    begin = time.time()
    try:
        for done, kernel in enumerate(todo):
            progress(done, len(todo), f"{time_left(done, len(todo), time.time() - begin)}{kernel.text()}")
            kernel.timed = True
            try:
                took = timer.time(prepared(kernel, draw(kernel, device, done + 1), device))
            except Exception as error:  # no memory, or a function that PyTorch lacks
                if "CUDA error" in str(error):  # the program can use the GPU no more
                    file.write()
                    fail(f"{kernel.text()}: {reason(error)}; {file.path} has what was timed before it")
                left_out.append((kernel.text(), reason(error)))
            else:
                file.add(kernel, took)
                measured += 1
            file.write_now_and_then()
            if device.type == "cuda":
                torch.cuda.empty_cache()
        progress(len(todo), len(todo), "")
    except KeyboardInterrupt:
        file.write()
        return measured, left_out, True
    file.write()
    return measured, left_out, False


TOLERANCES = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


def difference(kernel, device):
    """How far what would be timed is from the formula in float64, over the largest value of each result."""
    operands = draw(kernel, device, 1)
    torch.manual_seed(1)
    call = prepared(kernel, operands, device)
    torch.manual_seed(1)
    found = {t: value.detach() for t, value in call().items()}
    exact = {t: (v.double() if v.dtype.is_floating_point else v, low) for t, (v, low) in operands.items()}
    torch.set_default_dtype(torch.float64)
    try:
        wanted = Evaluator(Kernel(kernel.entry, kernel.formula), device, naive=True).run(exact)
    finally:
        torch.set_default_dtype(torch.float32)
    worst = 0.0
    for t, value in found.items():
        if list(value.shape) != list(wanted[t].shape) or wanted[t].numel() == 0:
            return math.inf
        a, b = value.double(), wanted[t].double()
        same = (a == b) | (a.isnan() & b.isnan())
        finite = b[b.isfinite()].abs()
        off = torch.where(same, 0.0, (a - b).abs() / (max(float(finite.max()), 1e-30) if finite.numel() else 1))
        worst = max(worst, float(off.nan_to_num(nan=math.inf).max()))
    return worst


def check(kernels, device, most_points):
    """Compares the small kernels with their formulas; returns the exit code."""
    wrong, checked, skipped, left_out = [], 0, 0, []
    for done, kernel in enumerate(kernels):
        progress(done, len(kernels), kernel.text())
        if kernel.entry["flops"] + kernel.entry["bytes"] > most_points or "rng" in json.dumps(kernel.stages):
            skipped += 1
            continue
        try:
            off = difference(kernel, device)
        except Exception as error:
            left_out.append((kernel.text(), reason(error)))
            continue
        checked += 1
        allowed = max(TOLERANCES.get(dtype, 1e-9) for dtype, _ in [*kernel.reads.values(), *kernel.writes.values()])
        if not off <= allowed:
            wrong.append(f"{kernel.text()} [{' + '.join(kernel.how)}]: {off:.3g}, {allowed:g} is allowed")
    progress(len(kernels), len(kernels), "")
    print(f"checked        {checked} kernels, {skipped} that are large or draw numbers were not")
    report_left_out(left_out)
    for line in wrong:
        print(f"wrong          {line}")
    return 1 if wrong else 0


def report_left_out(left_out):
    for text, why in left_out[:20]:
        print(f"left out       {text}: {why}")
    if len(left_out) > 20:
        print(f"left out       and {len(left_out) - 20} more")


def device_of(asked, work):
    """The device that was asked for; without --device the GPU, and the CPU only for a list of its own kind."""
    if not asked and not torch.cuda.is_available() and work.get("device_kind") != "cpu":
        fail(
            f"the list is for '{work.get('device')}', and PyTorch finds no GPU here; --device cpu times it on the CPU all"
            " the same, to try it out"
        )
    try:
        device = torch.device(asked or ("cuda" if torch.cuda.is_available() else "cpu"))
        if device.type not in ("cpu", "cuda"):
            fail(f"--device {asked}: cpu, cuda, or cuda:1")
        device = torch.empty(1, device=device).device  # with its number, which set_device wants
    except (RuntimeError, AssertionError) as error:
        fail(f"--device {asked or 'cuda'}: {reason(error)}")
    if device.type == "cpu" and work.get("device_kind") != "cpu":
        print(f"the times will be of this CPU, and not of '{work.get('device')}'", file=sys.stderr)
    return device


def amount(text):
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError
    return value


def main():
    parser = argparse.ArgumentParser(description="Times the kernels of a work list of `partita profile` with PyTorch.")
    parser.add_argument("worklist")
    parser.add_argument("-o", dest="output", help="write the profile here; what it has already is not timed again")
    parser.add_argument("--device", help="cuda, cuda:1 or cpu; default: cuda")
    parser.add_argument("--seconds", type=amount, default=0.05, help="for each kernel (default 0.05)")
    parser.add_argument("--tf32", action="store_true", help="products and convolutions of float32 may use TF32")
    parser.add_argument("--only", default="", help="kernels whose name has this in it")
    parser.add_argument("--check", action="store_true", help="time nothing; compare with the formulas in float64")
    parser.add_argument("--most", type=amount, default=1e7, help="with --check: a kernel's FLOPs and bytes (default 1e7)")
    a = parser.parse_args()
    if not a.check and not a.output:
        parser.error("-o FILE is where the profile goes")
    work = read_worklist(a.worklist)
    device = device_of(a.device, work)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = a.tf32
        torch.backends.cudnn.benchmark = True  # the fastest of a library's convolutions, as training is set up
    kernels = [kernel for kernel in kernels_of(a.worklist, work) if a.only in kernel.text()]
    if not kernels:
        fail(f"--only {a.only}: no kernel of {a.worklist} has this in its name, extents or dtypes")
    if a.check:
        return check(kernels, device, a.most)
    machine = machine_of(device, a.tf32)
    file = ProfileFile(a.output, work["device"], machine)
    known = sum(kernel.key() in file.entries for kernel in kernels)
    measured, left_out, interrupted = measure(kernels, device, a.seconds, file)
    print(f"machine        {machine['name']}, {machine['engine']}")
    print(f"measured       {measured} of {len(kernels)} kernels now, {known} before; {len(left_out)} could not be run")
    report_left_out(left_out)
    print(f"profile        {a.output}")
    if interrupted:
        print(f"interrupted: {a.output} has what was timed; the same command goes on from there", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
