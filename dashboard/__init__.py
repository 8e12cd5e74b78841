"""Performance history of the fused LM head: ingest, verdicts and the app.

Runs without torch, triton or the benchmark suite.
"""
