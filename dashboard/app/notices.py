"""What a page shows instead of its charts when there is nothing to show them from."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import streamlit as st

from dashboard.app import data, wording
from dashboard.errors import InputError
from dashboard.store.connect import is_lake
from dashboard.store.schema import OutdatedStoreError


def _stop(heading: str, body: str, command: str | None) -> NoReturn:
    st.subheader(heading)
    st.markdown(body)
    if command is not None:
        st.code(command, language="bash")
    st.stop()


def command_button(label: str, commands: str) -> None:
    """A button that shows commands to copy.

    A box of code makes the browser load its highlighter before the page is done; here that
    waits for the click.
    """
    with st.popover(label, icon=":material/terminal:"):
        st.code(commands, language="bash", wrap_lines=True)


def lacking(body: str, command: str) -> None:
    """What this page has no data for, and the command that would measure it."""
    st.info(body, icon=":material/info:")
    command_button("The command", f"{command}\nlmhead-perf ingest")


def remarks(sentences: Sequence[str]) -> None:
    """What the address asks for and the page cannot show, and so shows something else."""
    if sentences:
        lines = [*sentences, "What is shown instead is the page's own choice."]
        st.warning("  \n".join(map(wording.escape, lines)), icon=":material/warning:")


def note(sentence: str) -> None:
    """What the page has chosen by itself; nothing where there is nothing to say."""
    if sentence:
        st.info(wording.escape(sentence), icon=":material/info:")


@contextmanager
def readable(address: str) -> Iterator[None]:
    """Within the block, a store that cannot be read ends the page with what to do about it."""
    ingest = _ingest(address)
    try:
        yield
    except FileNotFoundError:
        _stop(
            "There is no store yet",
            f"Nothing lies at {_shown(address)}. Load the results of a benchmark run into it; "
            "this page then shows them when it is reloaded.",
            ingest,
        )
    except OutdatedStoreError as error:
        _stop(
            "The store is older than this version",
            f"{wording.escape(str(error))}\n\nLoading results into it brings it up to date.",
            ingest,
        )
    except (OSError, InputError) as error:
        # InputError names the file itself.
        detail = str(error) if isinstance(error, InputError) else f"{address}: {error.strerror}"
        _stop(
            "The store cannot be read",
            f"{wording.escape(detail)}\n\nA store holds nothing that the results folder lacks: "
            "move the file away and build it again.",
            ingest,
        )


def _shown(address: str) -> str:
    return wording.escape(address if is_lake(address) else str(Path(address).absolute()))


def _ingest(address: str) -> str:
    return f"lmhead-perf ingest --store {shlex.quote(address)}"


def require_store() -> data.Source:
    """The store to show; otherwise says what is wrong, what to do, and ends the page."""
    address = data.store_address()
    with readable(address):
        at = data.source(address)
        empty = data.series(at).empty
    if empty:
        _stop(
            "The store is empty",
            f"{_shown(address)} holds no measurement. Run the benchmarks, or load results that "
            "exist.",
            _ingest(address),
        )
    return at
