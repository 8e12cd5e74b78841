"""Where a schedule comes from: the mode, the table and the command that fills it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from fused_lmhead import tuning
from fused_lmhead.schedules import HOPPER, Schedule, plan, tile_schedule
from fused_lmhead.tuning import plans
from fused_lmhead.tuning.__main__ import (
    confirmed,
    main,
    merged,
    parser,
    report,
    requested,
    rows_of,
    write_table,
)
from fused_lmhead.tuning.cases import Case, look_up, mode, read_table, shipped_table

CPU = torch.device("cpu")
H, V = 4096, 131_072
SLIM, WIDE = Schedule(256, 128, 64, 8, 8, 3), Schedule(128, 256, 64, 8, 8, 4)
RULE = tile_schedule(H, 2)


@pytest.fixture(autouse=True)
def fresh():
    tuning.forget()
    yield
    tuning.forget()


def case(kernel="forward", m=8192, entropy=True, gpu=HOPPER, h=H, dtype=torch.bfloat16) -> Case:
    return Case.of(kernel, gpu, m, h, V, dtype, entropy)


def row(schedule: Schedule, tokens: int, kernel="forward", entropy=True, gpu=HOPPER.name):
    return {
        "kernel": kernel,
        "gpu": gpu,
        "h": H,
        "v": V,
        "element_size": 2,
        "entropy": entropy,
        "tokens": tokens,
        "schedule": asdict(schedule),
    }


def test_every_flag_makes_a_case_of_its_own():
    base = case()
    others = [
        case("backward"),
        case(m=8193),
        case(entropy=False),
        case(gpu=replace(HOPPER, name="NVIDIA H100 80GB HBM3")),
        case(gpu=replace(HOPPER, tma=False)),
        case(h=H + 8),
        case(dtype=torch.float16),
    ]
    assert len({base, *others}) == 8
    assert base == case(m=4097)
    assert not case(h=333).tma, "rows of 666 bytes are not aligned"


@pytest.mark.parametrize("value", ["off", "table", "search"])
def test_the_variable_names_the_mode(value: str, monkeypatch):
    monkeypatch.setenv("FUSED_LMHEAD_TUNING", value)
    assert mode() == value


def test_the_table_is_the_default_and_nonsense_is_told(monkeypatch):
    monkeypatch.delenv("FUSED_LMHEAD_TUNING", raising=False)
    assert mode() == "table"
    monkeypatch.setenv("FUSED_LMHEAD_TUNING", "fast")
    with pytest.raises(ValueError, match="must be off, table or search, got 'fast'"):
        tuning.plan_for(100, 64, 128, torch.float32, CPU, True)


def test_the_nearest_measured_row_serves():
    table = read_table(
        [
            row(SLIM, 2048),
            row(WIDE, 16_384),
            row(RULE, 2048, entropy=False),
            row(WIDE, 4096, kernel="backward", entropy=False),
        ]
    )
    assert look_up(case(m=1500), table) == SLIM
    assert look_up(case(m=1), table) == SLIM
    assert look_up(case(m=200_000), table) == WIDE
    assert look_up(case(m=200_000, entropy=False), table) == RULE
    assert look_up(case("backward", entropy=True), table) == WIDE
    assert look_up(case(gpu=replace(HOPPER, name="NVIDIA H100 80GB HBM3")), table) is None
    assert look_up(case(h=2048), table) is None
    assert look_up(case(dtype=torch.float32), table) is None
    assert look_up(case(gpu=replace(HOPPER, tma=False)), table) is None


def test_the_shipped_table_reads_and_its_schedules_fit():
    for (_, gpu, h, v, element_size), entries in shipped_table().items():
        assert gpu
        for _, tokens, schedule in entries:
            assert plan(tokens, h, v, element_size, 132, schedule).tokens_per_chunk > 0


def measured_table(monkeypatch, schedule: Schedule) -> None:
    rows = [
        row(schedule, 16_384, kernel, gpu="cpu") | {"h": 64, "v": 128, "element_size": 4}
        for kernel in ("forward", "backward")
    ]
    monkeypatch.setattr(plans, "shipped_table", lambda: read_table(rows))


@pytest.mark.parametrize("value", ["table", "search"])
def test_a_known_head_is_looked_up_and_searched_by_nobody(value: str, monkeypatch):
    tile = Schedule(32, 32, 32, 8, 4, 2)
    measured_table(monkeypatch, tile)
    monkeypatch.setenv("FUSED_LMHEAD_TUNING", value)
    for m in (100, 20_000, 40_000):
        found = tuning.plan_for(m, 64, 128, torch.float32, CPU, True, launching="backward")
        assert (found.forward, found.backward) == (tile, tile)
        assert found == plan(m, 64, 128, 4, 1, tile)
    assert tuning.searches() == ()


def test_off_means_the_rule_and_a_forced_schedule_wins(monkeypatch):
    measured_table(monkeypatch, Schedule(32, 32, 32, 8, 4, 2))
    monkeypatch.setenv("FUSED_LMHEAD_TUNING", "off")
    rule = tile_schedule(64, 4)
    assert tuning.plan_for(100, 64, 128, torch.float32, CPU, True).forward == rule
    forced = Schedule(16, 16, 16, 2, 4, 2)
    found = tuning.plan_for(100, 64, 128, torch.float32, CPU, True, forced)
    assert (found.forward, found.backward) == (forced, forced)


def test_an_unknown_head_gets_the_rule():
    found = tuning.plan_for(100, 80, 128, torch.float32, CPU, True)
    assert found == plan(100, 80, 128, 4, 1)


def test_nothing_is_searched_or_compiled_in_a_graphs_capture(monkeypatch):
    monkeypatch.setenv("FUSED_LMHEAD_TUNING", "search")
    monkeypatch.setattr(plans, "gpu_of", lambda device: HOPPER)
    monkeypatch.setattr(
        plans, "search", lambda case, *_: tuning.Search(case, SLIM, ((SLIM, 1.0),), 0.1, False)
    )
    ahead: list[object] = []
    monkeypatch.setattr(plans, "compile_ahead", lambda jobs, device: ahead.extend(jobs))
    arguments = (8192, H, V + 8, torch.bfloat16, torch.device("cuda", 0), True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    captured = tuning.plan_for(*arguments, launching="forward")
    assert (captured.forward, ahead, tuning.searches()) == (RULE, [], ())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    assert tuning.plan_for(*arguments, launching="forward").forward == SLIM
    assert len(ahead) == 2


def test_what_ranks_agree_on_meanwhile_is_not_overwritten(monkeypatch):
    shape = (1000, 64, 1000, torch.float32, CPU, True)
    agreed = Schedule(16, 32, 16, 2, 4, 2)
    case = Case.of("forward", plans.gpu_of(CPU), *shape[:4], True)
    tuning.forget()
    # Another thread agrees while this one compiles what it chose.
    monkeypatch.setattr(plans, "compile_ahead", lambda jobs, device: plans.keep(case, agreed))
    plans.plan_for(*shape, launching="forward")
    monkeypatch.setattr(plans, "compile_ahead", lambda jobs, device: None)
    assert plans.plan_for(*shape, launching="forward").forward == agreed
    assert plans.plan_for(999, *shape[1:], launching="forward").forward == agreed
    tuning.forget()


def test_plans_are_kept_within_bounds(monkeypatch):
    monkeypatch.setattr(plans, "_MOST_PLANS", 10)
    for m in range(1, 40):
        tuning.plan_for(m, 64, 128, torch.float32, CPU, True)
        assert len(plans._plans) <= 10


def test_the_command_asks_for_each_shard_once():
    options = parser().parse_args(
        ["--heads", "4096x1024,64x1000", "--tp", "1,2", "--tokens", "2048,16384"]
    )
    cases = requested(options, CPU)
    assert len(cases) == len(set(cases)) == 2 * 2 * 2 * 2
    assert {(c.h, c.v) for c in cases} == {(4096, 1024), (4096, 512), (64, 1000), (64, 500)}
    assert {(c.kernel, c.entropy) for c in cases} == {("forward", True), ("backward", False)}


@pytest.mark.parametrize(
    "arguments", [["--tokens", "32768"], ["--heads", "4096"], ["--kernels", "sideways"]]
)
def test_a_mistake_in_the_command_is_told_in_a_line(arguments, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr("fused_lmhead.tuning.__main__.gpu_of", lambda device: HOPPER)
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_without_a_gpu_the_command_says_so(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([]) == 2
    assert capsys.readouterr().err == "error: tuning needs a GPU\n"


@pytest.fixture
def a_gpu(monkeypatch):
    """A Hopper on which every search finds the same; a list of the cases searched."""
    cases: list[Case] = []

    def searched(case: Case, *_) -> tuning.Search:
        cases.append(case)
        return tuning.Search(case, WIDE, ((RULE, 2.0), (WIDE, 1.8)), 0.1, False)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr("fused_lmhead.tuning.__main__.gpu_of", lambda device: HOPPER)
    monkeypatch.setattr("fused_lmhead.tuning.__main__.search", searched)
    monkeypatch.setattr(
        "fused_lmhead.tuning.__main__.time_in_turn",
        lambda case, tiles, *_: {tile: 2.0 if tile == RULE else 1.8 for tile in tiles},
    )
    return cases


def test_the_command_fills_a_table(a_gpu, tmp_path: Path, capsys):
    path = tmp_path / "table.json"
    arguments = ["--heads", f"{H}x{V}", "--tp", "1,8", "--tokens", "2048,16384"]
    assert main([*arguments, "--output", str(path)]) == 0
    assert len(a_gpu) == 8
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1 + 4
    assert "8/8 backward" in printed.err
    assert look_up(case(m=5000), read_table(json.loads(path.read_text())["rows"])) == WIDE
    # Another head is added; out of time, what there was stays.
    assert main(["--heads", "64x128", "--output", str(path)]) == 0
    assert main(["--heads", "64x256", "--seconds", "-1", "--output", str(path)]) == 0
    assert "out of time after 0 of" in capsys.readouterr().err
    rows = json.loads(path.read_text())["rows"]
    assert {(row["h"], row["v"]) for row in rows} == {
        (H, V),
        (H, V // 8),
        *((64, 128 // tp) for tp in (1, 2, 4, 8)),
    }
    path.write_text("{")
    assert main([*arguments, "--output", str(path)]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def found(tokens: int, *times: tuple[Schedule, float]) -> tuning.Search:
    return tuning.Search(case(m=tokens), min(times, key=lambda t: t[1])[0], times, 1.0, False)


def test_one_schedule_serves_all_counts_if_it_is_nearly_the_best_of_each():
    searches = [
        found(2048, (RULE, 1.10), (SLIM, 1.000), (WIDE, 1.009)),
        found(16_384, (RULE, 8.5), (SLIM, 9.0), (WIDE, 8.0)),
    ]
    rows = rows_of(searches, RULE)
    assert [Schedule(**r["schedule"]) for r in rows] == [WIDE, WIDE]
    assert rows[0]["ratio_to_rule"] == round(1.009 / 1.10, 4)
    _, line = report(rows).splitlines()
    assert line.split() == [
        *("forward", "4096", "131072", "128x256x64", "g8", "w8", "s4", "tile"),
        *("0.917-0.941", "2048", "16384"),
    ]
    searches[0] = found(2048, (RULE, 1.10), (SLIM, 1.000), (WIDE, 1.05))
    assert [Schedule(**r["schedule"]) for r in rows_of(searches, RULE)] == [SLIM, WIDE]


def test_the_rule_stays_where_nothing_is_clearly_faster():
    searches = [found(2048, (RULE, 1.009), (SLIM, 1.0)), found(4096, (RULE, 1.0), (SLIM, 0.9))]
    assert [Schedule(**r["schedule"]) for r in rows_of(searches, RULE)] == [RULE, SLIM]


@pytest.mark.parametrize(("again", "chosen"), [(0.9, SLIM), (1.1, RULE)])
def test_a_winner_is_timed_again_beside_the_rule(again: float, chosen: Schedule, monkeypatch):
    monkeypatch.setattr("fused_lmhead.tuning.__main__.gpu_of", lambda device: HOPPER)
    timed = []

    def in_turn(case: Case, tiles: list[Schedule], *_) -> dict[Schedule, float]:
        timed.append(list(tiles))
        return {RULE: 2.0, SLIM: 2.0 * again, WIDE: 2.5}

    monkeypatch.setattr("fused_lmhead.tuning.__main__.time_in_turn", in_turn)
    same = found(2048, (RULE, 1.0), (SLIM, 0.995))
    assert confirmed(same, RULE, 5, torch.device("cpu")) is same
    for dropped in (RULE, SLIM):  # what did not run or was wrong
        times = tuple((tile, math.inf if tile == dropped else 1.0) for tile in (RULE, SLIM))
        without = replace(same, candidates=times)
        assert confirmed(without, RULE, 5, torch.device("cpu")) is without
    assert timed == []
    apart = found(2048, (RULE, 1.0), (SLIM, 0.8), (WIDE, 0.95))
    assert confirmed(apart, RULE, 5, torch.device("cpu")).chosen == chosen
    assert timed == [[RULE, SLIM, WIDE]]


def test_one_percent_is_not_taken_twice():
    searches = [
        found(2048, (RULE, 1.0199), (SLIM, 1.0), (WIDE, 1.0099)),
        found(4096, (RULE, 1.1), (SLIM, 1.1), (WIDE, 1.0)),
    ]
    assert [Schedule(**r["schedule"]) for r in rows_of(searches, RULE)] == [WIDE, WIDE]


def test_a_dropped_candidate_is_never_written():
    infinite = float("inf")
    searches = [found(2048, (RULE, 1.0), (SLIM, infinite)), found(4096, (RULE, 1.0), (SLIM, 0.5))]
    assert [Schedule(**r["schedule"]) for r in rows_of(searches, RULE)] == [RULE, SLIM]


def test_a_written_table_reads_back_and_new_rows_replace_old_ones(tmp_path: Path):
    path = tmp_path / "table.json"
    write_table(path, [])
    assert json.loads(path.read_text())["rows"] == []
    old = rows_of([found(2048, (RULE, 1.0), (SLIM, 0.9)), found(4096, (RULE, 1.0))], RULE)
    new = rows_of([found(2048, (RULE, 1.0), (WIDE, 0.8))], RULE)
    write_table(path, merged(old, new))
    table = read_table(json.loads(path.read_text())["rows"])
    assert look_up(case(m=2048), table) == WIDE
    assert look_up(case(m=4096), table) == RULE
    assert list(tmp_path.iterdir()) == [path]
