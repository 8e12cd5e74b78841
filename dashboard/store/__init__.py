"""The DuckDB store: connect and migrate, ingest, queries."""

from dashboard.store.connect import Store, open_store

__all__ = ["Store", "open_store"]
