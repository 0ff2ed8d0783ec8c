"""The versions that the reference files here are of."""
import importlib.metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent


def check_versions():
    for package, version in (line.strip().split("==") for line in open(HERE / "requirements.txt") if "==" in line):
        try:
            found = importlib.metadata.version(package).split("+")[0]
        except importlib.metadata.PackageNotFoundError:
            found = "not installed"
        if found != version:
            print(f"{package} is {found}; the files here are of {version}")
            raise SystemExit(77)
