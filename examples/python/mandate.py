"""Lead an election from Python, beside `mandate serve`. Standard library only: copy this file.

    with leader("orders") as term:           # blocks until this replica leads
        while term.allows(0.2):              # a step of at most 0.2 s may begin
            step(term.token)                 # send the token along with every write

    signal.signal(signal.SIGTERM, lambda *_: stop.set())  # stop = threading.Event(): a deploy
    while not stop.is_set():
        with leader("orders", stop=stop.is_set) as term:  # allows nothing once stop() is true
            ...                              # as above
    resign("/run/mandate/token")             # the next replica leads within --grace, not after three failed health checks

    term = Term("orders")                    # a script of cron: it does not wait
    while rows and term.allows(0.2):
        step(rows.pop(), term.token)

    for event in events():                   # information only: none permits to work
        print(event["kind"], event.get("candidate"))

A promise is to the machine, not to the process: all forked workers of one program would lead. Let each of them,
after the fork, lead under a lock (or let `mandate run` start the one that works):

    with open("/run/lock/orders", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)     # until the file is closed
        with leader("orders") as term:

As a program: python3 mandate.py ELECTION [URL [PORT [TOKENFILE]]], whose health is served on PORT, and which resigns at
SIGTERM; or python3 mandate.py --events [URL].
"""

import contextlib
import http.client
import http.server
import json
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

URL = "http://127.0.0.1:7480"


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect)  # another server's answer is no promise


def whole(number, least):
    """Whether a value is a number that mandate sends: an integer that is exact in every language."""
    return type(number) in (int, float) and least <= number < 2**53 and number == int(number)


def now():
    """Seconds, on a clock that cannot be set and that runs while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


unusable = set()  # the URLs that gave no usable answer, each of which was reported


def report(url, error):
    """Prints once for each outage why nobody can lead by this URL."""
    if url not in unusable:
        unusable.add(url)
        print(f"{url}: no usable answer: {error!r}", file=sys.stderr, flush=True)


class Term:
    """The leadership of this replica, under one token. It permits nothing once stop() is true."""

    def __init__(self, election, url=URL, stop=lambda: False):
        self.election, self.url, self.stop, self.token, self.until, self.length = election, url, stop, None, 0, 0

    def ask(self):
        """Requests a promise. Without an answer the last one still holds; a refusal ends it."""
        sent = now()  # before the request: the promise counts from here
        try:
            with direct.open(self.url + "/leader", timeout=1) as answer:
                status, text = answer.status, answer.read(1 << 16)
            if status != 200:
                self.until = 0
                return
            body = json.loads(text.decode(), parse_constant=int)  # which refuses NaN and Infinity
            election, token, length = body["election"], body["token"], body["valid_for_ms"]
            if type(election) is not str or not whole(token, 1) or not whole(length, 0):
                raise ValueError("it is not mandate's")
        except urllib.error.HTTPError as refusal:
            refusal.close()
            self.until = 0
            return
        except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError, RecursionError) as error:
            return report(self.url, error)  # no answer, a part of one, or not mandate's
        unusable.discard(self.url)
        if election != self.election:
            raise ValueError(f"{self.url} campaigns in {election}, not in {self.election}")
        if self.token not in (None, token):
            self.until = 0  # another term: whoever worked under this one must begin anew
            return
        self.token, self.length = token, length / 1000
        self.until = max(self.until, sent + self.length)

    def allows(self, seconds):
        """Whether a step that takes at most so long may begin now. Once False, this term is over."""
        if not self.stop() and now() + max(seconds, self.length / 2) > self.until:
            self.ask()
        if not self.stop() and now() + seconds <= self.until:
            return True
        self.until = 0
        return False


@contextlib.contextmanager
def leader(election, url=URL, pause=0.2, waiting=lambda: None, stop=lambda: False):
    """Blocks until this replica leads or stop() is true, and calls waiting meanwhile. The work must end when allows is False."""
    term = Term(election, url, stop)
    while not term.allows(0) and not stop():
        waiting()
        time.sleep(pause)
        term = Term(election, url, stop)
    yield term


def resign(token_file, url=URL):
    """Ends this replica's leadership, once its work has ended. False: it did not lead, no other could, it was
    refused, or it takes longer than 10 s (with a lease of 50 s and more): then the leadership ends later."""
    with open(token_file) as file:
        allowed = {"Authorization": "Bearer " + file.read().strip()}  # of mandate serve --http-token-file
    try:
        with direct.open(urllib.request.Request(url + "/resign", method="POST", headers=allowed), timeout=10):
            return True
    except (OSError, http.client.HTTPException) as error:
        if getattr(error, "code", 0) != 409:
            report(url + "/resign", error)
        return False


def events(url=URL):
    """The events of the election; after each disconnection from the current state on."""
    while True:
        try:
            # A comment comes every quarter of the lease, at most every 10 s: 25 s of silence are a dead connection.
            with direct.open(url + "/events", timeout=25) as stream:
                unusable.discard(url + "/events")
                for line in stream:
                    name, _, value = line.decode().rstrip("\n").partition(": ")
                    if name == "data":
                        yield json.loads(value)
        except (OSError, http.client.HTTPException, ValueError) as error:
            report(url + "/events", error)  # and connect again
        time.sleep(1)


def serve_health(port, healthy):
    """Answers 200 while healthy() does; otherwise mandate resigns."""

    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if healthy() else 503)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Health)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main(election, url=URL, port="0", token_file=None):
    """An example of a worker: its progress is its health."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    progress = [time.monotonic()]

    def beat():
        progress[0] = time.monotonic()

    serve_health(int(port), lambda: time.monotonic() - progress[0] < 3)
    print("waits to lead", flush=True)
    while not stop.is_set():
        with leader(election, url, waiting=beat, stop=stop.is_set) as term:
            if stop.is_set():
                break
            print("leads with token", term.token, flush=True)
            while term.allows(0.1):
                time.sleep(0.05)  # a step of the work
                beat()
            print("lost token", term.token, flush=True)
    if token_file:
        print("resigned:", resign(token_file, url), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--events":
        for e in events(*sys.argv[2:]):
            print(e["kind"], e.get("candidate", ""), e.get("token", ""), e.get("reason", ""), flush=True)
    else:
        main(*sys.argv[1:])
