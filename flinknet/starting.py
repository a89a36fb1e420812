"""The start of the command line, when there is nothing to clean up yet: a Ctrl-C just ends the
process, without the traceback of an import.
"""

import os
import signal
import sys
from types import FrameType

EXIT_INTERRUPTED = 130


def end_at_interrupt() -> None:
    """Let Ctrl-C end this process at once, if it is the command line: a program that uses flinknet
    decides for itself. A signal that is ignored or has a handler keeps that.
    """
    if _is_command_line() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_at_interrupt() -> None:
    """Let a Ctrl-C raise KeyboardInterrupt again, as there is code to handle it."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_command_line() -> bool:
    program = sys.argv[0] if sys.argv else ""
    if program == "-m":  # the module is still being located
        return "flinknet" in sys.orig_argv
    folder, name = os.path.split(program)
    return name == "flinknet" or (name == "__main__.py" and folder == os.path.dirname(__file__))


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(EXIT_INTERRUPTED)
