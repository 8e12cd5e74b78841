"""How much of the machine one reader may take."""

from __future__ import annotations

from dashboard.store.connect import Store


def limit(store: Store, memory_mib: int, threads: int) -> None:
    """Bound the memory and the threads of an open store's queries."""
    store.connection.execute("SET memory_limit = $memory", {"memory": f"{memory_mib}MiB"})
    store.connection.execute("SET threads = $threads", {"threads": threads})
