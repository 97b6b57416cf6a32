"""What the checks of each Python SDK stand on: the gateway and the upstreams
that sdk_test.go started, requests counted where the SDK sends them, and the
answer of each check as a line of TAP."""

import importlib.metadata
import itertools
import json
import os
import ssl
import sys
import time
import traceback
import unittest
import urllib.request

GATEWAY = os.environ["GATEWAY"]
ADMIN = os.environ["ADMIN"]
UPSTREAM = os.environ["UPSTREAM"]
AIMOCK = os.environ["AIMOCK"]
UPSTREAM_KEY = os.environ["UPSTREAM_KEY"]
ALICE = os.environ["KEY_ALICE"]
BOB = os.environ["KEY_BOB"]
SUITE = os.environ["SUITE"]

# For every client: to load the certificates takes longer than most checks.
TLS = ssl.create_default_context()

_number, _ours = itertools.count(1), itertools.count(1)


def _http(method, url, body=None):
    request = urllib.request.Request(url, method=method, data=body, headers={"Authorization": f"Bearer {UPSTREAM_KEY}"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.read().decode()


def requests_booked():
    """The requests that the gateway has counted, whatever their operation and outcome."""
    metrics = _http("GET", ADMIN + "/metrics").splitlines()
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in metrics if line.startswith("oncegate_requests_total{"))


class Check(unittest.TestCase):
    """One check. After each, the gateway must have booked every request that the SDK sent it."""

    longMessage = True
    _booked = 0  # by earlier checks

    def setUp(self):
        self.upstreams = {}  # by model, where it isn't ours
        self.sent = []  # the requests of the gateway's clients, as the SDK put them on the wire

    def tearDown(self):
        want = Check._booked + len(self.sent)
        deadline = time.monotonic() + 5
        while (have := requests_booked()) < want and time.monotonic() < deadline:
            time.sleep(0.02)
        Check._booked = have
        self.assertEqual(have, want, f"{have} requests booked on /metrics so far, want {want}")

    def model(self, *steps):
        """A model of this check's own, whose calls aimock answers by these steps."""
        name = f"{SUITE}-{next(_number)}"
        self.upstreams[name] = AIMOCK
        self.script(name, *steps)
        return name

    def our_model(self, *steps):
        """The same at our own upstream, for what aimock can't play or doesn't keep."""
        name = f"{SUITE}-{self._testMethodName.removeprefix('test_')}-{next(_ours)}"
        self.script(name, *steps)
        return name

    def upstream(self, model):
        return self.upstreams.get(model, UPSTREAM)

    def script(self, model, *steps):
        _http("PUT", f"{self.upstream(model)}/script/{model}", json.dumps(steps).encode())

    def calls(self, model):
        """The calls that the upstream saw for model."""
        return json.loads(_http("GET", f"{self.upstream(model)}/script/{model}"))

    def assertCalls(self, model, count):
        have = len(self.calls(model))
        self.assertEqual(have, count, f"the upstream saw {have} calls, want {count}")

    def assertSent(self, count):
        self.assertEqual(len(self.sent), count, f"the SDK sent {len(self.sent)} requests, want {count}")

    def hook(self, request):
        self.sent.append(request)

    async def async_hook(self, request):
        self.sent.append(request)


class _Tap(unittest.TestResult):
    """A line for each check, with what went wrong in it and in its tearDown."""

    def startTest(self, test):
        super().startTest(test)
        self._errors = []
        self._began = time.monotonic()

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._errors.append("".join(traceback.format_exception(*error)))

    addError = addFailure

    def stopTest(self, test):
        verdict = "not ok" if self._errors else "ok"
        print(f"{verdict} {self.testsRun} - {type(test).__name__}: {test._testMethodName.removeprefix('test_')} # {time.monotonic() - self._began:.2f} s")
        for error in self._errors:
            print("# " + error.rstrip().replace("\n", "\n# "), flush=True)


def run(package, *classes):
    """Runs the checks of package, or those whose name holds one of the program's arguments."""
    print(f"# {package} {importlib.metadata.version(package)}")
    suite = unittest.TestSuite(
        check
        for cls in classes
        for check in unittest.defaultTestLoader.loadTestsFromTestCase(cls)
        if not sys.argv[1:] or any(part in check._testMethodName for part in sys.argv[1:])
    )
    result = _Tap()
    suite.run(result)
    print(f"1..{result.testsRun}")
    sys.exit(0 if result.wasSuccessful() else 1)
