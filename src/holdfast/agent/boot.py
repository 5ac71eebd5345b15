"""Starts `keeper.py` in a bare interpreter, here or over SSH.

The interpreter gets the sources of the modules that run on the host through its stdin, so the host needs
Python 3.9 and nothing of Holdfast.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Final

MODULES: Final = ("files", "processes", "supervisor", "host", "session", "keeper")
PACKAGE: Final = "holdfast.agent"
PYTHON_FLAGS: Final = ("-I", "-S")
LOADER: Final = (
    "import os,sys,json,types\n"
    "def read(n):\n"
    " b=b''\n"
    " while len(b)<n:\n"
    "  p=os.read(0,n-len(b))\n"
    "  if not p: sys.exit(1)\n"
    "  b+=p\n"
    " return b\n"
    "def load(name,text=''):\n"
    " m=types.ModuleType(name); sys.modules[name]=m\n"
    " exec(compile(text,name,'exec'),m.__dict__)\n"
    " return m\n"
    "load('holdfast'); load('holdfast.agent')\n"
    "for name,text in json.loads(read(int(read(10)))): last=load(name,text)\n"
    "last.main()\n"
)
"""The program that the interpreter gets as an argument: it reads the modules and runs the last one."""


def sources() -> bytes:
    """The modules as the loader reads them: ten digits of length, then JSON."""
    folder = resources.files(PACKAGE)
    modules = [
        (f"{PACKAGE}.{name}", folder.joinpath(f"{name}.py").read_text("utf-8")) for name in MODULES
    ]
    data = json.dumps(modules).encode()
    return b"%010d" % len(data) + data
