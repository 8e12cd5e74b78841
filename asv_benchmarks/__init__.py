"""The airspeed-velocity suite that times every commit of ``fused_lmhead``."""
