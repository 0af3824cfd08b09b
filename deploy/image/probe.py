#!/opt/gateway/bin/python
"""Ask the server in this container: ``probe PATH [PORT]``; exit 0 where it answers 200 within three seconds, else 1.

The port is the gateway's own where none is given. Proxies of the environment are not asked.
"""

import http.client
import os
import sys


def main() -> int:
    """What the container's health is."""
    path, port = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else os.environ.get("GATEWAY_PORT", "8080")
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=3)
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        print(f"probe: port {port} does not answer: {error}", file=sys.stderr)
        return 1
    finally:
        connection.close()
    print(f"probe: {path} is {status}", file=sys.stderr)
    return 0 if status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
