"""The README's tables, on synthetic rounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asv_benchmarks.figures import Key, differences, load, main, ratios


def write_rounds(folder: Path, run: str, values: dict[str, list[float]], **changes: object) -> None:
    """Synthetic rounds of one commit; families of one shape. ``changes`` to each record."""
    (folder / "rounds").mkdir(parents=True, exist_ok=True)
    with (folder / "rounds" / "abcd1234-env-gpu-machine.jsonl").open("a") as file:
        for family, rounds in values.items():
            for value in rounds:
                record = {
                    "run": run,
                    "commit": "abcd1234" + "0" * 32,
                    "family": family,
                    "benchmark": f"{family}.time",
                    "params": {"model": "toy", "tokens": 2048, "tp": 1},
                    "status": "ok",
                    "unit": "ms",
                    "protocol": "graph-paced",
                    "value": value,
                    **changes,
                }
                file.write(json.dumps(record) + "\n")


def test_a_series_is_the_median_of_its_newest_runs_rounds(tmp_path: Path):
    write_rounds(tmp_path, "20260101T000000Z-a", {"control": [9.0, 9.0, 9.0]})
    write_rounds(tmp_path, "20260102T000000Z-a", {"control": [2.0, 8.0, 2.2]})
    assert load(tmp_path, "abcd") == {Key("control", "toy", 2048, 1): 2.2}


def test_only_times_of_a_shape_count(tmp_path: Path):
    write_rounds(tmp_path, "r", {"control": [2.0], "forward": [2.1]})
    write_rounds(tmp_path, "s", {"forward": [7e9]}, unit="bytes")
    write_rounds(tmp_path, "s", {"forward": [9000.0]}, protocol="fresh-process")
    write_rounds(tmp_path, "s", {"control": [4000.0]}, unit="GB/s", params={"gib": 4})
    write_rounds(tmp_path, "s", {"forward": [1.0]}, params={"model": "toy", "active": 23})
    write_rounds(tmp_path, "s", {"forward": [None]}, status="failed", protocol=None)
    assert sorted(load(tmp_path, "abcd").values()) == [2.0, 2.1]


def test_ratios_are_to_the_control_of_the_same_shape(tmp_path: Path):
    write_rounds(tmp_path, "r", {"control": [2.0], "forward": [2.1], "two_pass": [6.0]})
    values = load(tmp_path, "abcd1234")
    values[Key("forward", "toy", 4096, 1)] = 5.0  # no control of this shape
    assert {key.family: ratio for key, ratio in ratios(values).items()} == {
        "forward": 1.05,
        "two_pass": 3.0,
    }


def test_two_runs_are_compared_series_by_series(tmp_path: Path, capsys):
    write_rounds(tmp_path / "one", "r", {"control": [2.0], "forward": [4.0]})
    write_rounds(tmp_path / "two", "s", {"control": [2.02], "forward": [3.9]})
    found = differences(load(tmp_path / "one", "ab"), load(tmp_path / "two", "ab"))
    assert found[Key("control", "toy", 2048, 1)] == pytest.approx(0.01)
    main(["agreement", str(tmp_path / "one"), str(tmp_path / "two"), "--commit", "ab"])
    assert "| forward.time('toy', 2048, 1) | 4 | 3.9 | ms | -2.50% |" in capsys.readouterr().out


def test_two_runs_are_compared_in_series_of_every_kind(tmp_path: Path, capsys):
    for run, host, spills in (("20260101-a", 150.0, 0), ("20260102-a", 120.0, 2)):
        write_rounds(tmp_path, run, {"host": [host]}, unit="us", protocol="host-clock")
        write_rounds(tmp_path, run, {"compile": [spills]}, unit="registers", params={})
        write_rounds(tmp_path, run, {"chunked": [None]}, status="failed")
        write_rounds(tmp_path, run, {"memory": [host]}, unit="bytes", version=run)
    main(["agreement", str(tmp_path), "--commit", "ab", "--runs"])
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| compile.time() | 0 | 2 | registers | +inf% |",
        "| host.time('toy', 2048, 1) | 150 | 120 | us | -20.00% |",
    ]


def test_a_single_run_is_held_against_itself_first_round_to_last(tmp_path: Path, capsys):
    write_rounds(tmp_path, "r", {"control": [2.0, 7.0, 2.02], "forward": [4.0]})
    main(["agreement", str(tmp_path), "--commit", "ab"])
    out = capsys.readouterr().out
    assert "| control.time('toy', 2048, 1) | 2 | 2.02 | ms | +1.00% |" in out
    assert "forward" not in out  # one round cannot disagree
    write_rounds(tmp_path / "single", "r", {"control": [2.0]})
    with pytest.raises(SystemExit, match="no series has two rounds"):
        main(["agreement", str(tmp_path / "single"), "--commit", "ab"])


def test_the_newest_two_runs_are_held_against_each_other(tmp_path: Path, capsys):
    write_rounds(tmp_path, "20260101-a", {"control": [9.0]})
    with pytest.raises(SystemExit, match="one run of commit ab only"):
        main(["agreement", str(tmp_path), "--commit", "ab", "--runs"])
    write_rounds(tmp_path, "20260103-a", {"control": [2.0, 7.0, 2.02], "forward": [4.0]})
    write_rounds(tmp_path, "20260102-a", {"control": [2.0]})
    main(["agreement", str(tmp_path), "--commit", "ab", "--runs"])
    *_, row = capsys.readouterr().out.splitlines()
    assert row == "| control.time('toy', 2048, 1) | 2 | 2.02 | ms | +1.00% |"


def test_runs_that_share_nothing_and_options_without_meaning_are_refused(tmp_path: Path, capsys):
    write_rounds(tmp_path, "20260101-a", {"control": [9.0]})
    write_rounds(tmp_path, "20260102-a", {"forward": [9.0]})
    with pytest.raises(SystemExit, match="share no series"):
        main(["agreement", str(tmp_path), "--commit", "ab", "--runs"])
    for words in (["ratios", str(tmp_path)], ["agreement", str(tmp_path), str(tmp_path)]):
        with pytest.raises(SystemExit):
            main([*words, "--commit", "ab", "--runs"])
        assert "--runs is for agreement, within one folder" in capsys.readouterr().err


def test_a_folder_without_the_commit_is_named(tmp_path: Path):
    with pytest.raises(SystemExit, match="no good round of commit beef"):
        load(tmp_path, "beef")


def test_a_run_lasts_from_its_first_process_to_the_end_of_its_last(tmp_path: Path, capsys):
    def process(at: str, whole: float, family: str, run: str) -> None:
        taken = {"started_at": f"2026-01-01T00:{at}.000+00:00", "seconds": {"whole": whole}}
        named = {"machine": "toy", "benchmark": family}
        write_rounds(tmp_path, run, {family: [1.0]}, **taken, **named)

    first, second = "20260101T000003Z-a", "20260101T005859Z-a"
    process("00:30", 4.0, "forward", first)  # written before the first one
    process("00:10", 2.0, "control", first)
    process("01:00", 5.0, "control", first)
    process("59:00", 1.0, "control", second)
    main(["duration", str(tmp_path), "--commit", "ab"])
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| 2026-01-01 00:00:10 | toy | 1 | 2 | 3 | 7 | 11 | 55 |",
        "| 2026-01-01 00:59:00 | toy | 1 | 1 | 1 | 1 | 1 | 1 |",
    ]
    with pytest.raises(SystemExit, match="no round of commit fff"):
        main(["duration", str(tmp_path), "--commit", "fff"])


def test_asv_has_started_when_the_first_commit_of_an_interleaved_run_is_measured(
    tmp_path: Path, capsys
):
    run = "20260101T000000Z-a"
    taken = {"seconds": {"whole": 1.0}, "machine": "toy", "benchmark": "control"}
    for at, commit in (("08", "cd" * 20), ("50", "ab" * 20)):
        began = f"2026-01-01T00:00:{at}.000+00:00"
        write_rounds(tmp_path, run, {"control": [1.0]}, started_at=began, commit=commit, **taken)
    main(["duration", str(tmp_path), "--commit", "ab"])
    (row,) = capsys.readouterr().out.splitlines()[2:]
    assert row == "| 2026-01-01 00:00:50 | toy | 2 | 1 | 1 | 8 | 1 | 1 |"


def test_runs_of_one_card_make_one_row(tmp_path: Path, capsys):
    write_rounds(tmp_path, "20260101-a", {"control": [2.0], "forward": [2.2]}, gpu_uuid="one")
    write_rounds(tmp_path, "20260102-a", {"two_pass": [6.0], "forward": [2.4]}, gpu_uuid="one")
    write_rounds(tmp_path, "20260103-a", {"control": [1.0], "two_pass": [9.0]}, gpu_uuid="two")
    main(["ratios", str(tmp_path), "--commit", "ab"])
    told = capsys.readouterr()
    assert "| toy | 2048 | 1 | 2.00 | 1.200 | 3.000 |" in told.out
    assert "left out" not in told.err, "both cards have it"
    write_rounds(tmp_path, "20260103-a", {"fixed": [1.1]}, gpu_uuid="two")
    main(["ratios", str(tmp_path), "--commit", "ab"])
    assert "1 series of other cards are left out" in capsys.readouterr().err


def test_of_cards_that_measured_as_much_the_last_one_counts(tmp_path: Path, capsys):
    write_rounds(tmp_path, "20260101-a", {"control": [2.0]}, gpu_uuid="one")
    write_rounds(tmp_path, "20260102-a", {"control": [1.0], "forward": [1.3]}, gpu_uuid="two")
    write_rounds(tmp_path, "20260103-a", {"forward": [2.2]}, gpu_uuid="one")
    main(["ratios", str(tmp_path), "--commit", "ab"])
    assert "| toy | 2048 | 1 | 2.00 | 1.100 |" in capsys.readouterr().out


def test_the_mean_over_shapes_is_geometric_beside_least_and_most(tmp_path: Path, capsys):
    write_rounds(tmp_path, "r", {"control": [1.0], "forward": [2.0], "two_pass": [3.0]})
    other = {"model": "toy", "tokens": 4096, "tp": 1}
    write_rounds(tmp_path, "r", {"control": [1.0], "forward": [8.0]}, params=other)
    main(["ratios", str(tmp_path), "--commit", "ab"])
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "| geometric mean | | | | 4.000 | 3.000 |",
        "| least | | | | 2.000 | 3.000 |",
        "| most | | | | 8.000 | 3.000 |",
    ]


def test_a_shape_is_divided_by_the_control_of_its_own_run(tmp_path: Path, capsys):
    write_rounds(tmp_path, "20260101-a", {"control": [2.0], "forward": [2.2], "two_pass": [6.0]})
    write_rounds(tmp_path, "20260102-a", {"control": [1.0], "forward": [1.3]})  # a faster card
    main(["ratios", str(tmp_path), "--commit", "ab"])
    assert "| toy | 2048 | 1 | 2.00 | 1.100 | 3.000 |" in capsys.readouterr().out
    write_rounds(tmp_path, "20260103-a", {"control": [1.0], "forward": [1.3], "two_pass": [2.0]})
    main(["ratios", str(tmp_path), "--commit", "ab"])
    assert "| toy | 2048 | 1 | 1.00 | 1.300 | 2.000 |" in capsys.readouterr().out
    many = {f"family{number}": [1.0] for number in range(9)}
    write_rounds(tmp_path, "20260104-a", many)  # without a control there is no ratio
    main(["ratios", str(tmp_path), "--commit", "ab"])
    assert "| toy | 2048 | 1 | 1.00 | 1.300 | 2.000 |" in capsys.readouterr().out
