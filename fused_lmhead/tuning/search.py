"""Search for the fastest schedule of a case: ``triton.autotune`` over checked candidates.

Triton's tuner orders the trials, picks the fastest and remembers timings on disk, each file
replaced as a whole. What it runs is not a kernel but a stand-in of one that only names the
schedule: candidates differ in the boxes of their TMA descriptors, which a ``Config.pre_hook``
would have to rebuild, and with one Triton remembers nothing. The launching function of the
kernel, the same as everywhere, builds them from the schedule.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache, partial
from hashlib import sha256
from importlib import resources
from typing import Any

import torch
import triton
from triton.runtime.jit import KernelInterface

from fused_lmhead.calls import on
from fused_lmhead.kernels.backward import logit_gradient_kernel
from fused_lmhead.kernels.forward import partials_kernel
from fused_lmhead.schedules import Gpu, Schedule
from fused_lmhead.tuning.candidates import backward_candidates, forward_candidates, pruned
from fused_lmhead.tuning.cases import Case
from fused_lmhead.tuning.compiling import FAILURES, compile_together
from fused_lmhead.tuning.contest import Contest, contest_of, search_tokens

_CLOSE = 1.05
"""Candidates further than this behind the best on one sample are not measured again."""

_NOT_READABLE = (ValueError, KeyError, TypeError, OSError)
"""What Triton raises on a file of timings that is torn, foreign or locked."""

_ATTEMPTS = 3
"""Files that may be torn before a search goes without."""

Timer = Callable[[Callable[[], None], int], float]
"""Least milliseconds of so many runs of a function."""


@dataclass(frozen=True, slots=True)
class Search:
    """One search of this process."""

    case: Case
    chosen: Schedule
    candidates: tuple[tuple[Schedule, float], ...]
    """With milliseconds (for the backward kernel of 16,384 columns); inf where dropped."""
    seconds: float
    """All of it: inputs, compiling, checks, timing."""
    remembered: bool
    """The timings were on disk; nothing was compiled or run."""


def gpu_milliseconds(run: Callable[[], None], samples: int) -> float:
    """Least time of a run on the GPU, after idle gaps that keep it off its power cap."""
    begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]

    def sample(repeats: int) -> float:
        torch.cuda.synchronize()
        time.sleep(0.01)
        begin.record()
        for _ in range(repeats):
            run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / repeats

    first = sample(1)
    if first < 1.0:
        # Launching takes a tenth of a millisecond: hide it behind a queue of runs.
        repeats = min(20, math.ceil(1.0 / max(first, 0.05)))
        return min(sample(repeats) for _ in range(samples))
    return min(first, *(sample(1) for _ in range(samples - 1)), math.inf)


def host_milliseconds(run: Callable[[], None], samples: int) -> float:
    """Least time of a run under Triton's interpreter."""
    best = math.inf
    for _ in range(samples):
        start = time.perf_counter()
        run()
        best = min(best, 1e3 * (time.perf_counter() - start))
    return best


def _raise_clocks(run: Callable[[], None], device: torch.device) -> None:
    """They sink while candidates compile, and whoever is timed first would pay for it."""
    ends = time.perf_counter() + 0.1
    while device.type == "cuda" and time.perf_counter() < ends:
        run()
        torch.cuda.synchronize(device)


def measure(contest: Contest, timer: Timer, samples: int) -> Callable[[Schedule], float]:
    """A function that compiles all candidates at its first use, then checks and times one.

    It gives inf, with a warning, for a candidate that fails or errs.
    """
    failures: dict[Schedule, Exception | None] = {}
    best = math.inf

    def prepare() -> None:
        own = {tile: contest.jobs(tile) for tile in contest.candidates}
        jobs = {key: job for its in own.values() for key, job in its.items()}
        outcomes = dict(
            zip(jobs, compile_together(list(jobs.values()), contest.device), strict=True)
        )
        for tile, its in own.items():
            failures[tile] = next(filter(None, map(outcomes.get, its)), None)
        # The rule's results are taken as right; the next one's only where it cannot run at all.
        for tile in contest.candidates:
            if failures[tile] is None:
                try:
                    contest.poison()
                    contest.launch(tile)
                    contest.keep_expected(tile)
                except FAILURES as error:
                    failures[tile] = error
                else:
                    break

    def attempt(tile: Schedule) -> float:
        nonlocal best
        if failure := failures[tile]:
            raise failure
        contest.poison()
        contest.launch(tile)
        error = contest.error(tile)
        if not error <= 1:  # NaN neither
            raise ValueError(f"its results are off by {error:.3g} times what is tolerated")
        run = partial(contest.launch, tile)
        if best == math.inf:
            _raise_clocks(run, contest.device)
        milliseconds = timer(run, 1 + (best == math.inf)) / contest.work(tile)
        if milliseconds < _CLOSE * best:
            milliseconds = min(milliseconds, timer(run, samples) / contest.work(tile))
        best = min(best, milliseconds)
        return milliseconds

    def milliseconds(tile: Schedule) -> float:
        if not failures:
            prepare()
        try:
            return attempt(tile)
        except FAILURES as error:
            first_line = (str(error).strip() or repr(error)).splitlines()[0]
            warnings.warn(f"{tile} is dropped: {first_line:.300}", RuntimeWarning, stacklevel=2)
            return math.inf

    return milliseconds


class _StandIn(KernelInterface):  # type: ignore[misc]
    """What Triton's tuner takes for the kernel: running it only notes the schedule."""

    def __init__(self, kernel: Any, arg_names: Sequence[str]) -> None:
        self.fn = kernel
        self.arg_names = list(arg_names)
        self.schedule: Schedule | None = None

    def run(self, *args: Any, **options: Any) -> None:
        del args
        self.schedule = Schedule(**{field.name: options[field.name] for field in fields(Schedule)})


def _config(tile: Schedule) -> triton.Config:
    meta = asdict(tile)
    warps, stages = meta.pop("num_warps"), meta.pop("num_stages")
    return triton.Config(meta, num_warps=warps, num_stages=stages)


def _schedule(config: triton.Config) -> Schedule:
    return Schedule(**config.kwargs, num_warps=config.num_warps, num_stages=config.num_stages)


@cache
def kernel_sources() -> str:
    """Digest of all device code: Triton's own key has only one kernel's."""
    files = sorted(
        (file.name, file.read_bytes())
        for file in resources.files("fused_lmhead.kernels").iterdir()
        if file.name.endswith(".py")
    )
    return sha256(repr(files).encode()).hexdigest()


def tune(case: Case, candidates: Sequence[Schedule], trial: Callable[[Schedule], float]) -> Search:
    """The search of ``case``, or what an earlier one of the same key left on disk.

    ``trial`` gives a candidate's milliseconds, inf where it must not be chosen; it is not
    called if the timings are known. Searches of buckets that run on as many tokens share.
    """
    start = time.perf_counter()
    key = {
        "kernel": case.kernel,
        # Triton keys on the architecture, which different chips share.
        "gpu": case.gpu,
        "tokens": search_tokens(case.bucket, case.h, case.v),
        "h": case.h,
        "v": case.v,
        "element": str(case.dtype),
        "entropy": case.entropy,
        "tma": case.tma,
        "sources": kernel_sources(),
    }
    attempt = 0  # part of the key: the next one has another file
    kernel = partials_kernel if case.kernel == "forward" else logit_gradient_kernel
    stand_in = _StandIn(kernel, [*key, "attempt"])
    ran = False

    def benchmark(kernel_call: Callable[[], None], quantiles: Sequence[float]) -> list[float]:
        nonlocal ran
        ran = True
        kernel_call()
        assert stand_in.schedule is not None
        return [trial(stand_in.schedule)] * len(quantiles)

    tuner = triton.autotune(
        [_config(tile) for tile in candidates],
        key=stand_in.arg_names,
        do_bench=benchmark,
        cache_results=True,
    )(stand_in)
    while True:
        try:
            tuner.run(*key.values(), attempt)
        except _NOT_READABLE as error:
            if ran and not tuner.cache:
                raise  # no fault of the disk's
            warnings.warn(
                f"{case.kernel} timings could not be read or kept on disk: {error!r:.200}",
                RuntimeWarning,
                stacklevel=2,
            )
            if tuner.cache:  # searched, but not written
                break
            attempt += 1
            tuner.cache_results = attempt < _ATTEMPTS and not isinstance(error, OSError)
        else:
            break
    timings = getattr(tuner, "configs_timings", {_config(candidates[0]): [math.nan]})
    times = {_schedule(config): float(timing[0]) for config, timing in timings.items()}
    chosen = min(times, key=lambda tile: times[tile])
    if times[chosen] == math.inf:
        chosen = candidates[0]
    return Search(case, chosen, tuple(times.items()), time.perf_counter() - start, not ran)


def search(case: Case, gpu: Gpu, device: torch.device, samples: int = 3) -> Search:
    """Search on made-up inputs on ``device``, unless the timings are on disk.

    Raises:
        torch.OutOfMemoryError: there is no room for the inputs.
    """
    size = case.dtype.itemsize
    every = forward_candidates if case.kernel == "forward" else backward_candidates
    candidates = pruned(every(size), case.bucket, case.h, case.v, size, gpu)
    timer = gpu_milliseconds if device.type == "cuda" else host_milliseconds
    trial: Callable[[Schedule], float] | None = None

    def lazily(tile: Schedule) -> float:
        nonlocal trial
        if trial is None:
            trial = measure(contest_of(case, candidates, gpu, device), timer, samples)
        return trial(tile)

    with on(device), torch.no_grad():
        return tune(case, candidates, lazily)


def time_in_turn(
    case: Case, tiles: Sequence[Schedule], gpu: Gpu, device: torch.device, samples: int
) -> dict[Schedule, float]:
    """Least milliseconds of each of ``tiles``, which a search found to run and to be right.

    Two runs of each in turn: what a search times one after the other differs by 1 % anyway.

    Raises:
        torch.OutOfMemoryError: there is no room for the inputs.
    """
    timer = gpu_milliseconds if device.type == "cuda" else host_milliseconds
    times = dict.fromkeys(tiles, math.inf)
    with on(device), torch.no_grad():
        contest = contest_of(case, tiles, gpu, device)
        _raise_clocks(partial(contest.launch, tiles[0]), device)
        for _ in range(samples):
            for tile in tiles:
                taken = timer(partial(contest.launch, tile), 2) / contest.work(tile)
                times[tile] = min(times[tile], taken)
    return times
