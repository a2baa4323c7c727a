"""Prints the events of an election, again from the current state after each disconnection.

    python3 events.py [http://127.0.0.1:7480]
"""

import json
import sys
import time
import urllib.request

base = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7480"
while True:
    try:
        # A heartbeat comes every quarter of the lease, at most every 10 s: 25 s
        # without a line mean that the connection is dead.
        with urllib.request.urlopen(base + "/events", timeout=25) as stream:
            for line in stream:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "data":
                    event = json.loads(value)
                    print(event["kind"], event.get("candidate", ""), event.get("token", ""), event.get("reason", ""), flush=True)
    except OSError as error:
        print("disconnected:", error, file=sys.stderr, flush=True)
    time.sleep(1)
