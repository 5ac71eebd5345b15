"""Generates the Python code of `src/holdfast/proto/`.

    python scripts/make_proto.py            # writes the files beside each .proto

`tests/unit/test_proto.py` fails while they differ from what this would write. The generator is pinned
(grpcio-tools 1.76): generated code demands at least the runtime of its generator.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src"
PROTOS: Final = ("holdfast/proto/sync/v1/sync.proto",)
ENDINGS: Final = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")


def generate(target: Path) -> list[Path]:
    """Writes the code of all protos below `target` and returns the paths, relative to it."""
    from grpc_tools import protoc

    arguments = [
        "protoc",
        f"-I{SOURCE}",
        f"-I{files('grpc_tools').joinpath('_proto')}",
        f"--python_out={target}",
        f"--pyi_out={target}",
        f"--grpc_python_out={target}",
        *PROTOS,
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc refused the files: see its message above")
    return [Path(proto.removesuffix(".proto") + ending) for proto in PROTOS for ending in ENDINGS]


if __name__ == "__main__":
    for path in generate(SOURCE):
        sys.stdout.write(f"{path}\n")
