"""The console script `tvmr`."""

from __future__ import annotations

import signal
import sys

from tvmr._tvmr import command


def main() -> int:
    """Runs the command line in this process, and returns the exit code."""
    # The command handles signals itself; Python's handler would add a KeyboardInterrupt when it is over.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command(["tvmr", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
