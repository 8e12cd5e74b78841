"""How `lmhead-perf` ends: an exit code that says no more than is known.

Only a verdict may end in 1. A mistake of the user's is one line on stderr and 2; so is an output
that cannot be written; what nobody foresaw keeps its traceback and is 2 as well. An ingest that
rejected a file ends in 2 too, after what it could read went in.
"""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from typer.core import TyperGroup

from dashboard.errors import InputError
from dashboard.narration import discard, say

CANNOT_TELL = 2
_INTERRUPTED = 130


class Commands(TyperGroup):
    """The commands; a pipe that closes under one is an error like others, not exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. InputError where a pipe was closed."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise InputError(f"an output was closed: {error.strerror}") from error


def run(command: Callable[[], object]) -> None:
    """Run the command line, which raises SystemExit; end with 2 where that is not what it does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # a report with a character that the terminal lacks is still a report
        sys.stdout.reconfigure(errors="replace")
    try:
        command()
        _flush()
    except SystemExit:
        _flush_or_leave()
        raise
    except InputError as error:
        _leave(str(error))
    except KeyboardInterrupt:
        say("stopped")
        sys.exit(_INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no verdict
        missing = _missing_package(error)
        if missing is not None:
            _leave(f"{missing} is not installed: pip install 'fused-lmhead[dashboard]'")
        say(traceback.format_exc().rstrip())
        _leave(f"unexpected {type(error).__name__}, no verdict: {error}")


def _missing_package(error: Exception) -> str | None:
    """The module that is not there, if it is another project's."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    return None if name is None or name.partition(".")[0] == "dashboard" else name


def _flush_or_leave() -> None:
    """See to it that what was written is out: the interpreter would only fail on its way out."""
    try:
        _flush()
    except InputError as error:
        _leave(str(error))


def _flush() -> None:
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        discard(sys.stdout)
        raise InputError(f"cannot write to stdout: {error.strerror or error}") from error


def _leave(message: str) -> NoReturn:
    say(f"lmhead-perf: {' '.join(message.split())}")
    sys.exit(CANNOT_TELL)
