"""Which schedules a shape gets on a device, measured where they can be.

FUSED_LMHEAD_TUNING says how: ``off`` takes the rule of :mod:`fused_lmhead.schedules`; ``table``
(the default) the table that comes with the package, and the rule for a GPU or head that it does
not know; ``search`` the table, else the fastest of all candidates, found at a case's first call
and remembered in Triton's cache folder. ``python -m fused_lmhead.tuning`` fills the table.
"""

from fused_lmhead.tuning.agreement import agree, settle
from fused_lmhead.tuning.plans import forget, plan_for, searches
from fused_lmhead.tuning.search import Search
from fused_lmhead.tuning.warming import warm

__all__ = ["Search", "agree", "forget", "plan_for", "searches", "settle", "warm"]
