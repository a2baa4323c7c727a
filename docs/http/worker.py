"""A worker beside `mandate serve`: works only while it leads. Standard library only.

    python3 worker.py [--mandate http://127.0.0.1:7480] [--port 8000]
"""

import argparse
import http.server
import json
import threading
import time
import urllib.error
import urllib.request

args = argparse.ArgumentParser()
args.add_argument("--mandate", default="http://127.0.0.1:7480")
args.add_argument("--port", type=int, default=8000)
args = args.parse_args()

STEP = 0.2  # seconds that a step of the work takes at most
progress = time.monotonic()  # of the work, or of waiting for it


def now():
    """Seconds, on a clock that cannot be set and that runs while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Health(http.server.BaseHTTPRequestHandler):
    """200 while there is progress; otherwise mandate resigns."""

    def do_GET(self):
        self.send_response(200 if time.monotonic() - progress < 3 else 503)
        self.end_headers()

    def log_message(self, *_):
        pass


def request(path):
    """The answer to a request; None if it is not 200 or does not arrive."""
    try:
        with urllib.request.urlopen(args.mandate + path, timeout=1) as answer:
            return json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):
        return None


def leadership():
    """The token, and until when this worker may work; (None, 0) if this replica does not lead."""
    sent = now()  # before the request: the promise counts from here
    answer = request("/leader")
    if answer is None:
        return None, 0
    return answer["token"], sent + answer["valid_for_ms"] / 1000


def work(token):
    """One small step. Send the token along with every write."""
    print(f"working with token {token}", flush=True)
    time.sleep(STEP * 0.9)


server = http.server.ThreadingHTTPServer(("127.0.0.1", args.port), Health)
threading.Thread(target=server.serve_forever, daemon=True).start()
while True:
    token, until = leadership()
    progress = time.monotonic()
    if token and now() + STEP <= until:
        work(token)
    else:
        time.sleep(0.2)
