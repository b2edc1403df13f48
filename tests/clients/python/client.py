"""A scripted MCP client on the Python SDK 1.x: `python client.py SCENARIO -- COMMAND [ARG…] | URL`."""

import scenarios
from connection import Connection

if __name__ == "__main__":
    scenarios.main("python", Connection)
