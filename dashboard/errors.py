"""The one exception a user's mistake raises; the command line prints it as one line."""

from __future__ import annotations


class InputError(Exception):
    """Input that cannot be worked with: the message names it and says what to do."""
