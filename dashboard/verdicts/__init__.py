"""The verdict of two commits: did it become slower, by how much, and can one believe it?"""

from dashboard.verdicts.comparison import compare
from dashboard.verdicts.past import Past
from dashboard.verdicts.policy import Policy, load_policy

__all__ = ["Past", "Policy", "compare", "load_policy"]
