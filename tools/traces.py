"""Traces that partita writes (--trace)."""
import json
from pathlib import Path


def computing(file):
    """The events of a trace that are on a device's compute queue: name, dur (us), args."""
    events = json.loads(Path(file).read_text())["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return [e for e in events if e["ph"] == "X" and names[e["pid"], e["tid"]].endswith(".compute")]
