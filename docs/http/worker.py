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

progress = time.monotonic()  # of the work, or of waiting for it


class Health(http.server.BaseHTTPRequestHandler):
    """200 while there is progress: mandate gives the leadership up otherwise."""

    def do_GET(self):
        self.send_response(200 if time.monotonic() - progress < 3 else 503)
        self.end_headers()

    def log_message(self, *_):
        pass


def leadership():
    """The token, and until when it may be used; (None, 0) when we don't lead."""
    asked = time.monotonic()  # before the question: the answer may take its time
    try:
        with urllib.request.urlopen(args.mandate + "/leader", timeout=1) as answer:
            told = json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):  # 503, or no answer: we don't lead
        return None, 0
    return told["token"], asked + told["valid_for_ms"] / 1000


def work(token):
    """One small step. Send the token along with every write."""
    print(f"working with token {token}", flush=True)
    time.sleep(0.2)


server = http.server.ThreadingHTTPServer(("127.0.0.1", args.port), Health)
threading.Thread(target=server.serve_forever, daemon=True).start()
while True:
    token, until = leadership()
    progress = time.monotonic()
    if token and time.monotonic() < until:
        work(token)
    else:
        time.sleep(0.2)
