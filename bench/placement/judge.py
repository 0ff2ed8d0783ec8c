#!/usr/bin/env python3
"""What CP-SAT makes of coarse placement problems, beside our schedule and bound of each.

    python3 -m venv /tmp/judge && /tmp/judge/bin/pip install ortools
    build/release/partita_certify_bench --write FOLDER
    /tmp/judge/bin/python bench/placement/judge.py --seconds 60 FOLDER/*.json

Models the problem (bench/placement/instance.h, partita/device_placement/problem.h) as intervals in integer nanoseconds, and
knows nothing of our search. First all choices are set to ours: CP-SAT has to accept the schedule with its end. Then it
solves without a hint, by the strategies of eight workers (--workers), and its schedule is checked by plain rules.
Exits with 1 where the two contradict each other: one's bound above the other's schedule, or a schedule that is none.
"""
import argparse
import collections
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import words  # noqa: E402

try:
    from ortools.sat.python import cp_model
except ImportError:
    cp_model = None

MISSING = "the ortools package is missing, so that CP-SAT judges nothing: pip install ortools, in a virtual environment"


class Contradiction(Exception):
    pass


def transfer_ns(way, size):
    """The fastest of the way's protocols, rounded to whole ns, at least 1."""
    return max(1, int(min(latency + per_byte * size for latency, per_byte in way["protocols"]) + 0.5))


def readers_by_device(p, value):
    """(device, readers that can run there) of each device with any."""
    can = collections.defaultdict(list)
    for r in value["readers"]:
        for d, ns in enumerate(p["ops"][r]["ns"]):
            if ns > 0:
                can[d].append(r)
    return can.items()


class Model:
    """The variables of a problem, and all that it demands."""

    def __init__(self, p):
        self.p, self.m = p, cp_model.CpModel()
        self.horizon = self.longest()
        self.on_device = [[] for _ in p["devices"]]
        self.on_queue = [[] for _ in range(p["queues"])]
        self.on = self.devices()  # by operation: {device: literal}
        self.start = [self.m.new_int_var(0, self.horizon, f"start {o}") for o in range(len(p["ops"]))]
        self.end = [self.operation(o) for o in range(len(p["ops"]))]
        self.sent, self.leaves = {}, {}  # by (value, to): {from: literal}, start
        for v, value in enumerate(p["values"]):
            self.value(v, value)
        self.memory()
        for intervals in self.on_device + self.on_queue:
            self.m.add_no_overlap(intervals)
        self.step = self.m.new_int_var(0, self.horizon, "end")
        self.m.add_max_equality(self.step, self.end)  # every transfer has a reader that ends after it

    def longest(self):
        """All one after another, everything crossing to each device on its slowest way."""
        p = self.p
        ways = [way for row in p["ways"] for way in row if way["queue"] >= 0]
        slowest = [max((transfer_ns(way, v["bytes"]) for way in ways), default=0) if v["bytes"] >= 0 else 0
                   for v in p["values"]]
        return sum(max(op["ns"]) for op in p["ops"]) + sum(slowest) * len(p["devices"])

    def devices(self):
        """The same literals for all of a group."""
        p, of_group = self.p, {}
        for op in p["ops"]:
            can = {d for d, ns in enumerate(op["ns"]) if ns > 0}
            if op["group"] >= 0:
                of_group[op["group"]] = of_group.get(op["group"], can) & can
        literals = {g: self.one_of(can, f"group {g}") for g, can in of_group.items()}
        return [literals[op["group"]] if op["group"] >= 0 else
                self.one_of({d for d, ns in enumerate(op["ns"]) if ns > 0}, op["name"]) for op in p["ops"]]

    def one_of(self, devices, what):
        literals = {d: self.m.new_bool_var(f"{what} on {d}") for d in sorted(devices)}
        self.m.add_exactly_one(literals.values())
        return literals

    def operation(self, o):
        """An interval a device that it can run on; returns its end."""
        ns = self.p["ops"][o]["ns"]
        for d, on in self.on[o].items():
            interval = self.m.new_optional_fixed_size_interval_var(self.start[o], ns[d], on, f"op {o} on {d}")
            self.on_device[d].append(interval)
        end = self.m.new_int_var(0, self.horizon, f"end {o}")
        self.m.add(end == self.start[o] + sum(ns[d] * on for d, on in self.on[o].items()))
        return end

    def value(self, v, value):
        """Readers after the producer, and where they are elsewhere after a transfer."""
        producer = value["producer"]
        for r in value["readers"]:
            self.m.add(self.start[r] >= self.end[producer])
        if value["bytes"] < 0:
            return
        for to, readers in readers_by_device(self.p, value):
            for origin in self.on[producer]:
                if origin != to:
                    self.transfer(v, value, origin, to, [r for r in readers if to in self.on[r]])

    def transfer(self, v, value, origin, to, readers):
        """Present if and only if the producer is at `origin` and a reader at `to`."""
        m, at, way = self.m, self.on[value["producer"]][origin], self.p["ways"][origin][to]
        if way["queue"] < 0:
            for r in readers:
                m.add_bool_or(~at, ~self.on[r][to])
            return
        if not readers:
            return
        if (v, to) not in self.leaves:
            self.leaves[v, to] = m.new_int_var(0, self.horizon, f"value {v} to {to}")
            self.sent[v, to] = {}
        start, ns = self.leaves[v, to], transfer_ns(way, value["bytes"])
        sent = self.sent[v, to][origin] = m.new_bool_var(f"value {v} from {origin} to {to}")
        there = {self.on[r][to].index: self.on[r][to] for r in readers}.values()  # a group's once
        m.add_implication(sent, at)
        m.add_bool_or(~sent, *there)
        for reader in there:
            m.add_bool_or(~at, ~reader, sent)
        m.add(start >= self.end[value["producer"]]).only_enforce_if(sent)
        for r in readers:
            m.add(self.start[r] >= start + ns).only_enforce_if(sent, self.on[r][to])
        self.on_queue[way["queue"]].append(
            m.new_optional_fixed_size_interval_var(start, ns, sent, f"value {v} from {origin} to {to}"))

    def memory(self):
        for d, device in enumerate(self.p["devices"]):
            self.m.add(sum(op["bytes"] * self.on[o][d] for o, op in enumerate(self.p["ops"]) if d in self.on[o])
                       <= device["memory_bytes"])

    def fix(self, schedule):
        """Demands this schedule and no other."""
        for o, (d, start) in enumerate(zip(schedule["device"], schedule["start"])):
            if d not in self.on[o]:
                raise Contradiction(f"op {o} cannot be on device {d}")
            self.m.add(self.on[o][d] == 1)
            self.m.add(self.start[o] == start)
        for v, to, start in schedule["transfers"]:
            if (v, to) not in self.leaves:
                raise Contradiction(f"value {v} cannot be sent to device {to}")
            self.m.add_bool_or(self.sent[v, to].values())
            self.m.add(self.leaves[v, to] == start)
        self.m.add(self.step == schedule["end_ns"])

    def schedule(self, solver):
        return {"device": [next(d for d, on in of.items() if solver.boolean_value(on)) for of in self.on],
                "start": [solver.value(s) for s in self.start],
                "transfers": [[v, to, solver.value(self.leaves[v, to])] for (v, to), of in self.sent.items()
                              if any(solver.boolean_value(sent) for sent in of.values())],
                "end_ns": solver.value(self.step)}


def overlap(busy):
    busy.sort()
    return any(after[0] < before[1] for before, after in zip(busy, busy[1:]))


def why_not(p, s):
    """Why a schedule is none, by the rules of partita/device_placement/problem.h; empty: it is one."""
    device, ends, arrival = s["device"], [], {}
    busy = collections.defaultdict(list)
    for o, op in enumerate(p["ops"]):
        if op["ns"][device[o]] < 1 or s["start"][o] < 0:
            return f"op {o} cannot run on device {device[o]} at {s['start'][o]}"
        ends.append(s["start"][o] + op["ns"][device[o]])
        busy["device", device[o]].append((s["start"][o], ends[o]))
        if op["group"] >= 0 and any(device[x] != device[o] for x, y in enumerate(p["ops"])
                                    if y["group"] == op["group"]):
            return f"group {op['group']} is apart"
    for d, of in enumerate(p["devices"]):
        if sum(op["bytes"] for o, op in enumerate(p["ops"]) if device[o] == d) > of["memory_bytes"]:
            return f"device {d} has too little memory"
    for v, to, start in s["transfers"]:
        value = p["values"][v]
        way = p["ways"][device[value["producer"]]][to]
        if value["bytes"] < 0 or device[value["producer"]] == to or way["queue"] < 0 or (v, to) in arrival:
            return f"value {v} is not to be sent to {to}"
        if start < ends[value["producer"]] or all(device[r] != to for r in value["readers"]):
            return f"value {v} is sent to {to} too soon or for nobody"
        arrival[v, to] = start + transfer_ns(way, value["bytes"])
        busy["queue", way["queue"]].append((start, arrival[v, to]))
    for v, value in enumerate(p["values"]):
        for r in value["readers"]:
            crosses = value["bytes"] >= 0 and device[r] != device[value["producer"]]
            if s["start"][r] < (arrival.get((v, device[r]), float("inf")) if crosses else ends[value["producer"]]):
                return f"op {r} starts before value {v} is there"
    at_once = [f"{kind} {number}" for (kind, number), of in busy.items() if overlap(of)]
    if at_once:
        return f"two at once on {at_once[0]}"
    end = max([*ends, *arrival.values()])
    return "" if end == s["end_ns"] else f"the end is {end}, not {s['end_ns']}"


def solved(model, seconds, workers):
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    return solver, solver.solve(model.m)


def check_ours(p):
    """Both the rules and the model have to accept our schedule."""
    wrong = why_not(p, p["ours"]) or ("it ends before our bound" if p["ours"]["end_ns"] < p["ours"]["bound_ns"] else "")
    if wrong:
        raise Contradiction(f"{p['name']}: our schedule is none: {wrong}")
    model = Model(p)
    model.fix(p["ours"])
    solver, status = solved(model, 60, 1)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise Contradiction(f"{p['name']}: CP-SAT says of our schedule {solver.status_name(status)}")


def judge(p, seconds, workers=8):
    """CP-SAT's schedule and bound in so many seconds: {"end_ns" (None: it found none), "bound_ns", "proved",
    "seconds"}. Throws a Contradiction."""
    check_ours(p)
    begun = time.monotonic()
    model = Model(p)
    model.m.minimize(model.step)
    solver, status = solved(model, max(0.1, seconds - (time.monotonic() - begun)), workers)
    found = {"end_ns": None, "bound_ns": int(solver.best_objective_bound + 1e-6),
             "proved": status == cp_model.OPTIMAL, "seconds": time.monotonic() - begun}
    if status in (cp_model.INFEASIBLE, cp_model.MODEL_INVALID):
        raise Contradiction(f"{p['name']}: CP-SAT says {solver.status_name(status)}")
    ours = p["ours"]
    if found["bound_ns"] > ours["end_ns"]:
        raise Contradiction(f"{p['name']}: CP-SAT's bound {found['bound_ns']} is above our schedule's {ours['end_ns']}")
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        schedule = model.schedule(solver)
        wrong = why_not(p, schedule)
        if wrong:
            raise Contradiction(f"{p['name']}: CP-SAT's schedule is none: {wrong}")
        found["end_ns"] = schedule["end_ns"]
        if ours["bound_ns"] > schedule["end_ns"]:
            raise Contradiction(f"{p['name']}: our bound {ours['bound_ns']} is above CP-SAT's schedule's "
                                f"{schedule['end_ns']}")
    return found


def text_of(found):
    """`end  bound  gap  seconds` of ours or CP-SAT's, in ms."""
    if found["end_ns"] is None:
        return f"{'-':>9} {found['bound_ns'] / 1e6:>9.3f} {'-':>7} {found['seconds']:>6.1f}"
    gap = 100 * (1 - found["bound_ns"] / found["end_ns"])
    return f"{found['end_ns'] / 1e6:>9.3f} {found['bound_ns'] / 1e6:>9.3f} {gap:>6.2f}% {found['seconds']:>6.1f}"


HEAD = (f"{'instance':<22} {'vertices':>8} {'ours':>9} {'bound':>9} {'gap':>7} {'s':>6} "
        f"{'CP-SAT':>9} {'bound':>9} {'gap':>7} {'s':>6}")


def problem(text):
    """Of a file that partita_certify_bench --write wrote."""
    try:
        p = json.loads(Path(text).read_text())
        if not p.keys() >= {"name", "devices", "queues", "ways", "ops", "values", "ours"}:
            raise ValueError("it has not all of a problem's keys")
        return p
    except (OSError, ValueError, AttributeError) as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no problem of partita_certify_bench --write: {error}") from error


def main():
    parser = words.Parser(__doc__)
    parser.add_argument("--seconds", type=words.positive, default=60)
    parser.add_argument("--workers", type=words.count, default=8)
    parser.add_argument("problems", metavar="files", nargs="+", type=problem)
    args = parser.parse_args()
    if cp_model is None:
        sys.exit(MISSING)
    print(HEAD)
    contradictions = 0
    for p in args.problems:
        try:
            found = judge(p, args.seconds, args.workers)
        except Contradiction as error:
            contradictions += 1
            print(f"contradiction: {error}", flush=True)
            continue
        print(f"{p['name']:<22} {len(p['ops']):>8} {text_of(p['ours'])} {text_of(found)}", flush=True)
    sys.exit(1 if contradictions else 0)


if __name__ == "__main__":
    main()
