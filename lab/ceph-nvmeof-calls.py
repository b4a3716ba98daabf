"""Makes calls with ceph-nvmeof's own command, and says which did not end as expected.

    ceph-nvmeof-calls.py FILE

Each line of FILE is a status and the command's words; `0-5` is any status from 0 to 5. Lines that begin with # say what comes.
A word with spaces is quoted as in a shell.
"""

import contextlib
import io
import shlex
import sys
import time

from control.cli import main


def call(words):
    """The status of a call, what it printed, and how long it took."""
    printed = io.StringIO()
    started = time.monotonic()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            status = main(words) or 0
        except SystemExit as ended:
            status = ended.code
        except Exception as error:
            status = f"{type(error).__name__}: {error}"
    return status, printed.getvalue().strip(), time.monotonic() - started


def run(path):
    calls, wrong, longest = 0, 0, 0.0
    for line in open(path, encoding="utf-8"):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        expected, *words = shlex.split(line)
        status, printed, seconds = call(words)
        calls, longest = calls + 1, max(longest, seconds)
        if str(status) != expected:
            wrong += 1
            print(f"{' '.join(words)}\n  ended with {status}, not with {expected}\n  {printed}")
    print(f"{calls} calls, {wrong} of them not as expected, the longest {longest * 1000:.0f} ms")
    return 1 if wrong or not calls else 0


sys.exit(run(sys.argv[1]))
