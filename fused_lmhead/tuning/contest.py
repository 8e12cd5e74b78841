"""What a search runs: one kernel on made-up inputs, every result buffer poisoned and compared.

No candidate writes what another reads: inputs are only read, and each candidate's results are
compared before the next one poisons them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from fused_lmhead.calls import logit_gradient, merge_partials, tile_partials
from fused_lmhead.problem import Normaliser, Statistics
from fused_lmhead.schedules import Gpu, Schedule, ceil_div, columns_per_split
from fused_lmhead.tuning.ahead import Jobs, backward_jobs, forward_jobs
from fused_lmhead.tuning.cases import MOST_TOKENS, Case

_LARGEST_PRODUCT = 2**43
"""Operations, about 12 ms on an H200: longer kernels run into the power cap and say no more."""


def search_tokens(bucket: int, h: int, v: int) -> int:
    """Tokens that a search of this bucket runs on: at most 16K, and enough to fill a GPU."""
    tokens = min(bucket, MOST_TOKENS)
    while tokens > 2048 and 2 * tokens * h * v > _LARGEST_PRODUCT:
        tokens //= 2
    return tokens


class Contest(ABC):
    """One kernel on one problem, for several candidates."""

    def __init__(self, case: Case, candidates: Sequence[Schedule], device: torch.device) -> None:
        """Allocate and fill the inputs.

        Raises:
            torch.OutOfMemoryError: they do not fit beside what is there.
        """
        self.case, self.candidates, self.device = case, candidates, device
        self.m = search_tokens(case.bucket, case.h, case.v)
        generator = torch.Generator(device).manual_seed(0)

        def normal(*shape: int) -> torch.Tensor:
            room = torch.empty(shape, dtype=case.dtype, device=device)
            return room.normal_(generator=generator)

        self.hidden_mH = normal(self.m, case.h)
        self.weight_VH = normal(case.v, case.h).mul_(case.h**-0.5)
        self.target_m = torch.randint(0, case.v, (self.m,), generator=generator, device=device)

    @abstractmethod
    def jobs(self, tile: Schedule) -> Jobs:
        """What has to be compiled for ``launch``; candidates may have some of it in common."""

    @abstractmethod
    def launch(self, tile: Schedule) -> None:
        """What is timed."""

    @abstractmethod
    def poison(self) -> None:
        """Fill with NaN whatever ``launch`` writes."""

    @abstractmethod
    def keep_expected(self, tile: Schedule) -> None:
        """Take what ``launch`` wrote as right."""

    @abstractmethod
    def error(self, tile: Schedule) -> float:
        """Largest difference of what ``launch`` wrote from what is right, in its tolerance's
        units: wrong unless at most 1. May spoil the results."""

    def work(self, tile: Schedule) -> float:
        """What times are divided by before they are compared."""
        del tile
        return 1.0


class ForwardContest(Contest):
    """Statistics of each tile and their merge: narrow tiles have more to merge."""

    def __init__(self, case: Case, candidates: Sequence[Schedule], device: torch.device) -> None:
        super().__init__(case, candidates, device)
        tiles_n = ceil_div(case.v, min(tile.block_n for tile in candidates))
        planes = 3 if case.entropy else 2
        self._partials = torch.empty(planes * tiles_n * self.m, device=device)
        self._statistics = Statistics.empty(self.hidden_mH, case.entropy)
        self._expected: list[torch.Tensor] = []

    def jobs(self, tile: Schedule) -> Jobs:
        case = self.case
        return forward_jobs(case.h, case.v, case.dtype, case.entropy, tile)

    def launch(self, tile: Schedule) -> None:
        found = self._statistics
        tile_partials(
            self.hidden_mH,
            self.weight_VH,
            self.target_m,
            self._partials,
            found.target_logit_M,
            1.0,
            self.case.entropy,
            tile,
        )
        merge_partials(self._partials, self.target_m, found, self.case.v, 1.0, tile)

    def _results(self) -> list[torch.Tensor]:
        return [value for value in self._statistics if isinstance(value, torch.Tensor)]

    def poison(self) -> None:
        for value in (self._partials, *self._results()):
            value.fill_(math.nan)

    def keep_expected(self, tile: Schedule) -> None:
        del tile
        self._expected = [value.clone() for value in self._results()]

    def error(self, tile: Schedule) -> float:
        del tile
        # Sums of another order: a few fp32 steps of values near 20, tensor cores' more.
        pairs = zip(self._results(), self._expected, strict=True)
        worst = torch.stack([(value - expected).abs().max() for value, expected in pairs]).max()
        return float(worst) / (2e-5 if self.case.dtype is torch.float32 else 1e-3)


class BackwardContest(Contest):
    """Gradient of the logits of the first split, as wide as the schedule makes it.

    Searched apart from the forward pass: another epilogue, a tile that is stored, and a split
    whose width follows from the tiles; and who only infers never waits for it.
    """

    def __init__(self, case: Case, candidates: Sequence[Schedule], gpu: Gpu, device: torch.device):
        super().__init__(case, candidates, device)
        self._multiprocessors = gpu.multiprocessors
        widest = max(self.work(tile) for tile in candidates)
        rows = torch.zeros(self.m, device=device)
        # p = e^logit: as large as fp16 can tell apart.
        self._normaliser = Normaliser(rows, rows, rows + 1 if case.entropy else None)
        self._gradient_m = rows + 0.5
        self._room = torch.empty(self.m * int(widest), dtype=case.dtype, device=device)
        self._expected_mn = self._room.new_empty(0)

    def work(self, tile: Schedule) -> float:
        size = self.case.dtype.itemsize
        return columns_per_split(self.m, self.case.v, size, tile, self._multiprocessors)

    def _dz(self, tile: Schedule) -> torch.Tensor:
        n = int(self.work(tile))
        return self._room[: self.m * n].view(self.m, n)

    def jobs(self, tile: Schedule) -> Jobs:
        case = self.case
        return backward_jobs(case.h, case.v, case.dtype, case.entropy, tile)

    def launch(self, tile: Schedule) -> None:
        logit_gradient(
            self.hidden_mH,
            self.weight_VH,
            self.target_m,
            self._normaliser,
            self._gradient_m,
            self._gradient_m if self.case.entropy else None,
            self._dz(tile),
            0,
            1.0,
            tile,
        )

    def poison(self) -> None:
        self._room.fill_(math.nan)

    def keep_expected(self, tile: Schedule) -> None:
        self._expected_mn = self._dz(tile).clone()

    def error(self, tile: Schedule) -> float:
        dz_mn = self._dz(tile)
        n = min(dz_mn.shape[1], self._expected_mn.shape[1])
        if not bool(dz_mn[:, n:].isfinite().all()):
            return math.nan
        # In place: at 16K tokens each copy is half a gigabyte.
        difference = dz_mn[:, :n].sub_(self._expected_mn[:, :n])
        largest = float(torch.linalg.vector_norm(self._expected_mn, math.inf))
        worst = float(torch.linalg.vector_norm(difference, math.inf))
        return worst / (largest * max(2 * torch.finfo(self.case.dtype).eps, 1e-5))


def contest_of(
    case: Case, candidates: Sequence[Schedule], gpu: Gpu, device: torch.device
) -> Contest:
    """The contest of the case's kernel."""
    if case.kernel == "forward":
        return ForwardContest(case, candidates, device)
    return BackwardContest(case, candidates, gpu, device)
