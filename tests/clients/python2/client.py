"""A scripted MCP client on the Python SDK 2.x: `python client.py SCENARIO -- COMMAND [ARG…] | URL`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "python"))

import scenarios
from connection import Connection

if __name__ == "__main__":
    scenarios.main("python2", Connection)
