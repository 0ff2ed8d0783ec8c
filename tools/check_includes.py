#!/usr/bin/env python3
"""Includes run downwards: a file of partita/ROOM includes only from ROOM and from the rooms that its USES names.

The rooms and their USES are read from CMakeLists.txt, which alone states them. Besides: a room uses only rooms listed before it and has files,
and only kernels/ includes ATen's headers, only onnx/ protobuf's. Exits 1 if anything is wrong, naming file and line.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OWNERS = {"ATen": "kernels", "c10": "kernels", "torch": "kernels", "google": "onnx", "onnx": "onnx", "CLI": "cli"}


def read_rooms(text):
    """{room: rooms it may include from}, in the order of CMakeLists.txt; the program's room is `cli`."""
    rooms, errors = {}, []
    for kind, arguments in re.findall(r"^partita_(room|program)\(([^)]*)\)", text, re.M):
        words = arguments.split()
        name = words.pop(0) if kind == "room" else "cli"
        used = words[words.index("USES") + 1:] if "USES" in words else []
        if "LINKS" in used:
            used = used[:used.index("LINKS")]
        errors += [f"CMakeLists.txt: {name} uses {room}, which is not listed before it" for room in used if room not in rooms]
        rooms[name] = set(used)
    return rooms, errors


def room_of(folders, rooms):
    """The room of a file in these folders below partita/: the innermost folder that is one. A room may lie in another (search/cuts)."""
    for count in range(len(folders), 0, -1):
        if "/".join(folders[:count]) in rooms:
            return "/".join(folders[:count])
    return "/".join(folders)


def check_file(path, room, rooms):
    errors = []
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            include = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not include:
                continue
            parts = include.group(2).split("/")
            place = f"{path}:{number}"
            if parts[0] == "partita":
                target = room_of(parts[1:-1], rooms)
                if target != room and target not in rooms[room]:
                    errors.append(f"{place}: {room}/ includes {include.group(2)}, but its USES names {', '.join(sorted(rooms[room])) or 'no room'}")
                elif not os.path.exists(os.path.join(ROOT, include.group(2))):
                    errors.append(f"{place}: {include.group(2)} does not exist")
            elif include.group(1) == '"':
                errors.append(f'{place}: "{include.group(2)}" is not a path from the repository\'s root')
            elif len(parts) > 1 and OWNERS.get(parts[0], room) != room:
                errors.append(f"{place}: only {OWNERS[parts[0]]}/ includes <{parts[0]}/..>")
    return errors


def main():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        rooms, errors = read_rooms(file.read())
    files = dict.fromkeys(rooms, 0)
    for folder, _, names in sorted(os.walk(os.path.join(ROOT, "partita"))):
        below = os.path.relpath(folder, os.path.join(ROOT, "partita"))
        room = room_of([] if below == "." else below.split(os.sep), rooms)
        for name in sorted(names):
            if not name.endswith((".h", ".cc")):
                continue
            path = os.path.relpath(os.path.join(folder, name), ROOT)
            if room not in rooms:
                errors.append(f"{path}: CMakeLists.txt lists no room {room}")
                continue
            files[room] += 1
            errors += check_file(path, room, rooms)
    errors += [f"CMakeLists.txt lists the room {room}, which has no files" for room, count in files.items() if count == 0]
    if not rooms:
        errors.append("no rooms were found: this check reads the lines partita_room(..) of CMakeLists.txt")
    print("\n".join(errors) or f"{sum(files.values())} files in {len(rooms)} rooms: every include runs downwards")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
