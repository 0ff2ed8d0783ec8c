"""Prints, one a line, the requirements of the wheel in a folder that carry NVIDIA's libraries (none for a CPU build)."""
import glob
import re
import sys

for path in glob.glob(sys.argv[1] + "/*.dist-info/METADATA"):
    with open(path, encoding="utf-8") as metadata:
        for line in metadata.read().split("\n\n", 1)[0].splitlines():
            requirement = re.match(r"Requires-Dist: ((nvidia|cuda)[^;]*(;.*)?)$", line)
            if requirement and "extra ==" not in line:
                print(requirement.group(1))
