"""What a reader is likely to ask for next, computed while the page before is looked at."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import streamlit as st

from dashboard.app import data, judged
from dashboard.app.data import Source


@st.cache_resource(max_entries=4, show_spinner=False)
def comparison(at: Source) -> Future[None]:
    """Start the comparison that Compare shows at first, once for each state of the store.

    The page itself finds it made, waits for the rest of it, or makes it again where this failed.
    """
    return _worker().submit(_compare, at)


@st.cache_resource(show_spinner=False)
def _worker() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="ahead")


def _compare(at: Source) -> None:
    machines = data.runs(at)["machine"]
    if machines.empty:
        return
    machine = str(machines.iloc[0])
    pair = judged.default_pair(at, machine)
    if pair is not None:
        judged.compared(at, machine, *pair)
