"""The search itself, under Triton's interpreter: checked candidates, wrong ones never chosen."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch
from problems import make_problem

from fused_lmhead import describe_schedule, tuning
from fused_lmhead.launch import TritonBackend
from fused_lmhead.schedules import Schedule, tile_schedule
from fused_lmhead.tuning import contest as contests
from fused_lmhead.tuning import plans
from fused_lmhead.tuning import search as searching
from fused_lmhead.tuning.cases import Case
from fused_lmhead.tuning.contest import contest_of, search_tokens
from fused_lmhead.tuning.gpus import gpu_of

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="runs under Triton's interpreter"
)

CPU = torch.device("cpu")
H, V = 16, 70
RULE = tile_schedule(H, 4)
LOW, WIDE = Schedule(32, 64, 16, 8, 4, 2), Schedule(64, 128, 16, 8, 8, 2)
KERNELS = ["forward", "backward"]


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three candidates, and a search for every case that is asked for."""
    monkeypatch.setenv("FUSED_LMHEAD_TUNING", "search")
    for name in ("forward_candidates", "backward_candidates"):
        monkeypatch.setattr(searching, name, lambda element_size: (LOW, RULE, WIDE))
    tuning.forget()
    yield
    tuning.forget()


def case_of(kernel, entropy: bool = True) -> Case:
    return Case.of(kernel, gpu_of(CPU), 100, H, V, torch.float32, entropy)


def search(kernel, entropy: bool = True) -> tuning.Search:
    return searching.search(case_of(kernel, entropy), gpu_of(CPU), CPU)


def interfere(monkeypatch, kernel, during) -> None:
    """Call ``during(tile, arguments)`` after each launch of the kernel in a search."""
    name = "tile_partials" if kernel == "forward" else "logit_gradient"
    real = getattr(contests, name)

    def interfering(*args):
        real(*args)
        during(next(arg for arg in args if isinstance(arg, Schedule)), args)

    monkeypatch.setattr(contests, name, interfering)


def prefer(monkeypatch, *order: Schedule) -> None:
    """Times as if the first of ``order`` were the fastest."""
    times = {tile: float(place) for place, tile in enumerate(order, 1)}
    monkeypatch.setattr(
        searching, "host_milliseconds", lambda run, samples: times.get(run.args[0], 9.0)
    )
    monkeypatch.setattr(contests.BackwardContest, "work", lambda self, tile: float(V))


@pytest.mark.parametrize("entropy", [True, False])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_search_times_every_candidate_and_takes_the_fastest(kernel, entropy, recwarn):
    found = search(kernel, entropy)
    times = dict(found.candidates)
    assert list(times) == [RULE, LOW, WIDE]
    assert all(0 < milliseconds < float("inf") for milliseconds in times.values())
    assert times[found.chosen] == min(times.values())
    assert found.seconds > 0
    assert not found.remembered
    assert not recwarn.list


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("fault", ["wrong", "unwritten", "raises", "not a number"])
def test_a_faulty_candidate_is_dropped_however_fast(kernel, fault, monkeypatch):
    prefer(monkeypatch, LOW, WIDE, RULE)

    def during(tile: Schedule, args) -> None:
        if tile != LOW:
            return
        written = args[4] if kernel == "forward" else args[6]
        if fault == "raises":
            raise RuntimeError("PassManager::run failed\nwith a long dump")
        if fault == "wrong" and kernel == "forward":
            written += 0.01
        elif fault == "wrong":
            written[-1, -1] += 0.01
        else:
            written.view(-1)[-1] = float("nan")

    interfere(monkeypatch, kernel, during)
    with pytest.warns(RuntimeWarning, match=r"block_m=32.* is dropped") as warned:
        found = search(kernel)
    assert len(warned) == 1
    assert "long dump" not in str(warned[0].message)
    assert dict(found.candidates)[LOW] == float("inf")
    assert found.chosen == WIDE


@pytest.mark.parametrize("kernel", KERNELS)
def test_results_are_poisoned_so_that_stale_ones_do_not_pass(kernel, monkeypatch):
    """A candidate that writes nothing would show the results of the one before it."""
    prefer(monkeypatch, LOW, WIDE, RULE)
    name = "tile_partials" if kernel == "forward" else "logit_gradient"
    real = getattr(contests, name)

    def idle(*args):
        if LOW not in args:
            real(*args)

    monkeypatch.setattr(contests, name, idle)
    with pytest.warns(RuntimeWarning, match="is dropped"):
        assert search(kernel).chosen == WIDE


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_candidates_read_nobody_writes(kernel):
    case = case_of(kernel)
    contest = contest_of(case, (RULE, LOW, WIDE), gpu_of(CPU), CPU)
    read = (contest.hidden_mH, contest.weight_VH, contest.target_m)
    before = [value.clone() for value in read]
    for tile in contest.candidates:
        contest.poison()
        contest.launch(tile)
    assert all(torch.equal(value, kept) for value, kept in zip(read, before, strict=True))
    written = {value.data_ptr() for value in vars(contest).values() if torch.is_tensor(value)}
    assert len(written) == sum(torch.is_tensor(value) for value in vars(contest).values())


def test_if_the_rule_cannot_run_the_others_are_compared_with_each_other(monkeypatch):
    prefer(monkeypatch, RULE, WIDE, LOW)

    def during(tile: Schedule, args) -> None:
        if tile == RULE:
            raise ValueError("out of something")

    interfere(monkeypatch, "forward", during)
    with pytest.warns(RuntimeWarning, match="dropped: out of something"):
        assert search("forward").chosen == WIDE


def test_if_no_candidate_can_run_the_rule_stays(monkeypatch):
    def during(tile: Schedule, args) -> None:
        raise RuntimeError("no such luck")

    interfere(monkeypatch, "forward", during)
    with pytest.warns(RuntimeWarning, match="no such luck") as warned:
        assert search("forward").chosen == RULE
    assert len(warned) == 3


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_duel_times_each_in_turn_and_keeps_the_least(kernel, monkeypatch):
    turns = []

    def timer(run, samples: int) -> float:
        run()
        turns.append(run.args[0])
        return float(10 - len(turns))

    monkeypatch.setattr(searching, "host_milliseconds", timer)
    monkeypatch.setattr(contests.BackwardContest, "work", lambda self, tile: float(V))
    found = searching.time_in_turn(case_of(kernel), [RULE, LOW], gpu_of(CPU), CPU, 2)
    assert turns == [RULE, LOW, RULE, LOW]
    divisor = V if kernel == "backward" else 1
    assert found == {RULE: 7 / divisor, LOW: 6 / divisor}


def test_no_room_for_the_inputs_means_the_rule(monkeypatch):
    def full(*args) -> None:
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(searching, "contest_of", full)
    with pytest.warns(RuntimeWarning, match="no memory left"):
        plan = tuning.plan_for(100, H, V, torch.float32, CPU, True)
    assert plan.forward == RULE
    assert tuning.searches() == ()
    tuning.plan_for(101, H, V, torch.float32, CPU, True)  # and it is not tried again


@pytest.fixture
def instant(monkeypatch) -> None:
    """Searches that find the wide tile at once."""
    monkeypatch.setattr(
        plans, "search", lambda case, *_: tuning.Search(case, WIDE, ((WIDE, 1.0),), 0.1, False)
    )


def test_lengths_of_a_bucket_share_a_search_and_flags_do_not(instant):
    for m in (65, 100, 128):
        assert tuning.plan_for(m, H, V, torch.float32, CPU, True).forward == WIDE
    assert len(tuning.searches()) == 1
    tuning.plan_for(100, H, V, torch.float32, CPU, False)
    tuning.plan_for(200, H, V, torch.float32, CPU, True)
    tuning.plan_for(100, H, V + 1, torch.float32, CPU, True)
    tuning.plan_for(100, H, V, torch.float16, CPU, True)
    assert len(tuning.searches()) == 5
    before = tuning.plan_for(100, H, V, torch.float32, CPU, True)
    assert before.backward == RULE, "a forward call searches nothing for the backward pass"
    plan = tuning.plan_for(100, H, V, torch.float32, CPU, True, launching="backward")
    assert (plan.forward, plan.backward) == (WIDE, WIDE)
    # One choice, whoever asks.
    assert tuning.plan_for(100, H, V, torch.float32, CPU, True) == plan
    assert [found.case.kernel for found in tuning.searches()] == ["forward"] * 5 + ["backward"]


def test_a_backend_launches_the_exact_count_with_the_buckets_choice(monkeypatch):
    prefer(monkeypatch, WIDE, LOW, RULE)
    problem = make_problem(77, H, V, torch.float32)
    arguments = (problem.hidden, problem.weight, problem.target, 1.0, True)
    found = TritonBackend().forward(*arguments)
    assert found.logprob_M.shape == (77,)
    forced = TritonBackend(WIDE).forward(*arguments)
    assert torch.equal(found.logprob_M, forced.logprob_M)
    assert tuning.searches()[0].case.bucket == 128
    assert describe_schedule(77, H, V, torch.float32, "cpu")["block_n"] == WIDE.block_n


def test_warming_chooses_for_every_count(instant):
    warmed = tuning.warm([100, 200], H, V, torch.float32, "cpu", with_entropy=False)
    assert {m: (plan.forward, plan.backward) for m, plan in warmed.items()} == {
        100: (WIDE, WIDE),
        200: (WIDE, WIDE),
    }
    kernels = [found.case.kernel for found in tuning.searches()]
    assert (kernels.count("forward"), kernels.count("backward")) == (2, 2)
    with pytest.raises(ValueError, match="at least 1"):
        tuning.warm([4, 0], H, V, torch.float32, "cpu")


@pytest.mark.parametrize(
    ("bucket", "h", "v", "tokens"),
    [
        (262_144, 2048, 62_080, 16_384),
        (32_768, 8192, 131_072, 4096),
        (4096, 8192, 131_072, 4096),
        (128, 8192, 131_072, 128),
        (262_144, 65_536, 262_144, 2048),
    ],
)
def test_a_search_runs_on_few_tokens(bucket, h, v, tokens):
    assert search_tokens(bucket, h, v) == tokens


@pytest.mark.parametrize(
    ("milliseconds", "samples", "calls"), [(30.0, 1, 1), (30.0, 3, 3), (0.2, 1, 6), (0.2, 3, 16)]
)
def test_short_runs_are_timed_in_queues_and_long_ones_no_more_often_than_asked(
    milliseconds: float, samples: int, calls: int, monkeypatch
):
    now, made = [0.0], []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at = now[0]

        def synchronize(self) -> None:
            pass

        def elapsed_time(self, end) -> float:
            return end.at - self.at

    def run() -> None:
        made.append(now[0])
        now[0] += milliseconds

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    assert searching.gpu_milliseconds(run, samples) == pytest.approx(milliseconds)
    assert len(made) == calls
