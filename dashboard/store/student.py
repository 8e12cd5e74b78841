"""Quantiles of Student's t for intervals of 95 %, by the number of values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# For 1 to 32 degrees of freedom: scipy, which knows the rest, takes long to load.
_FEW = (
    12.706204736174694, 4.302652729749462, 3.1824463052837078, 2.7764451051977934,
    2.5705818356363146, 2.4469118511449786, 2.364624251592784, 2.306004135204166,
    2.262157162798205, 2.228138851986274, 2.200985160091639, 2.1788128296672284,
    2.1603686564627913, 2.144786687917804, 2.131449545559776, 2.1199052992212546,
    2.1098155778333156, 2.1009220402410382, 2.0930240544083087, 2.085963447265864,
    2.0796138447276795, 2.0738730679040254, 2.0686576104190486, 2.0638985616280245,
    2.0595385527532972, 2.0555294386428735, 2.0518305164802846, 2.0484071417952454,
    2.045229642132703, 2.0422724563012378, 2.039513446396408, 2.0369333434601016,
)  # fmt: skip


def quantiles(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The 97.5 % quantile for so many values; that of two values for fewer."""
    most = int(counts.max(initial=0)) - 1
    table = np.array(_FEW)
    if most > len(_FEW):
        from scipy.special import stdtrit

        table = np.append(table, stdtrit(np.arange(len(_FEW) + 1, most + 1), 0.975))
    return np.asarray(table[np.maximum(counts - 2, 0)])
