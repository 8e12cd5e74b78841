"""The DuckDB store: connect and migrate, ingest, queries."""

from dashboard.store.connect import Store, open_store, stamp

__all__ = ["Store", "open_store", "stamp"]
