"""``python -m fused_lmhead.tuning``: measure this GPU's schedules into the shipped table."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import triton

from fused_lmhead.schedules import Schedule, tile_schedule
from fused_lmhead.tuning.cases import MOST_TOKENS, TABLE, Case, Kernel
from fused_lmhead.tuning.contest import search_tokens
from fused_lmhead.tuning.gpus import gpu_of
from fused_lmhead.tuning.search import Search, search, time_in_turn

_HEADS = "8192x131072,4096x131072,2048x248320,7168x163840"
_SAME = 1.01
"""Within this of the best a schedule serves: the rule's, or one for all token counts, which
compiles once."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m fused_lmhead.tuning", description=__doc__)
    made.add_argument("--heads", default=_HEADS, metavar="HxV,…", help="default: %(default)s")
    made.add_argument("--tp", default="1,2,4,8", help="vocabulary shards; default: %(default)s")
    made.add_argument(
        "--tokens",
        default="2048,4096,8192,16384",
        help=f"up to {MOST_TOKENS}, which stands for more; default: %(default)s",
    )
    made.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    made.add_argument("--kernels", default="forward,backward")
    made.add_argument(
        "--both-entropies",
        action="store_true",
        help="forward without entropy and backward with it too, else they share",
    )
    made.add_argument("--samples", type=int, default=5, help="of each close candidate")
    made.add_argument("--seconds", type=float, default=500, help="stop after; default: %(default)s")
    made.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).with_name(TABLE),
        help="the table to add to; default: the package's own",
    )
    return made


def requested(options: argparse.Namespace, device: torch.device) -> list[Case]:
    """The cases that the options name, heads first, so that a run cut short has whole heads.

    Raises:
        ValueError: an option does not parse, or tokens are out of range.
    """
    dtype, gpu = getattr(torch, options.dtype), gpu_of(device)
    heads = [tuple(map(int, head.split("x"))) for head in options.heads.split(",")]
    tokens = [int(count) for count in options.tokens.split(",")]
    if not all(1 <= count <= MOST_TOKENS for count in tokens):
        raise ValueError(f"--tokens must be from 1 to {MOST_TOKENS}, got {options.tokens}")
    kernels: list[tuple[Kernel, bool]] = [("forward", True), ("backward", False)]
    if options.both_entropies:
        kernels += [("forward", False), ("backward", True)]
    wanted = options.kernels.split(",")
    if not set(wanted) <= {"forward", "backward"}:
        raise ValueError(f"--kernels must name forward or backward, got {options.kernels}")
    cases = [
        Case.of(kernel, gpu, count, h, v // tp, dtype, entropy)
        for h, v in heads
        for tp in map(int, options.tp.split(","))
        for kernel, entropy in kernels
        if kernel in wanted
        for count in tokens
    ]
    return list(dict.fromkeys(cases))


def confirmed(found: Search, rule: Schedule, samples: int, device: torch.device) -> Search:
    """The search, whose winner and rule are timed in turn where they are apart."""
    times = dict(found.candidates)
    ran = {tile: milliseconds for tile, milliseconds in times.items() if milliseconds < math.inf}
    if rule not in ran or ran[rule] <= _SAME * min(ran.values()):
        return found
    gpu = gpu_of(device)
    best = sorted(ran, key=ran.__getitem__)[:3]
    again = time_in_turn(found.case, list(dict.fromkeys([rule, *best])), gpu, device, samples)
    # On the scale of the others, which are only timed once.
    scale = times[best[0]] / again[best[0]]
    times |= {tile: scale * milliseconds for tile, milliseconds in again.items()}
    chosen = min(times, key=times.__getitem__)
    return replace(found, chosen=chosen, candidates=tuple(times.items()))


def rows_of(searches: Iterable[Search], rule: Schedule) -> list[dict[str, Any]]:
    """Table rows of one kernel and head: the rule's schedule where it nearly serves, else one for
    all token counts if that does."""
    searches = list(searches)
    times = [dict(found.candidates) for found in searches]

    def worst(tile: Schedule) -> float:
        return max(own.get(tile, math.inf) / min(own.values()) for own in times)

    common = rule if worst(rule) <= _SAME else min(times[0], key=worst)
    rows = []
    for found, own in zip(searches, times, strict=True):
        tile = common if worst(common) <= _SAME else found.chosen
        if own.get(rule, math.inf) <= _SAME * min(own.values()):
            tile = rule
        case = found.case
        rows.append(
            {
                "kernel": case.kernel,
                "gpu": case.gpu,
                "h": case.h,
                "v": case.v,
                "element_size": case.dtype.itemsize,
                "entropy": case.entropy,
                "tokens": case.bucket,
                "schedule": asdict(tile),
                # Of search_tokens; the backward kernel's per column.
                "measured_tokens": search_tokens(case.bucket, case.h, case.v),
                "ratio_to_rule": round(own[tile] / own[rule], 4)
                if own.get(rule, math.inf) < math.inf
                else None,
                "triton": triton.__version__,
            }
        )
    return rows


def merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of both, sorted; a new one replaces the old one of its case."""
    names = ("gpu", "element_size", "h", "v", "kernel", "entropy", "tokens")
    found = {tuple(row[name] for name in names): row for row in (*old, *new)}
    return [found[key] for key in sorted(found)]


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Replace the file as a whole, one row a line."""
    lines = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    text = f'{{\n  "format": 1,\n  "rows": [{f"{chr(10)}{lines}{chr(10)}  " if rows else ""}]\n}}\n'
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def main(arguments: list[str] | None = None) -> int:
    """Search, write the table, print what was found; 2 on a mistake."""
    options = parser().parse_args(arguments)
    if not torch.cuda.is_available():
        print("error: tuning needs a GPU", file=sys.stderr)
        return 2
    device = torch.device("cuda", torch.cuda.current_device())
    try:
        cases = requested(options, device)
        rows = json.loads(options.output.read_text())["rows"] if options.output.exists() else []
    except (ValueError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    gpu, start = gpu_of(device), time.monotonic()
    by_head: dict[tuple[Any, ...], list[Search]] = defaultdict(list)
    for number, case in enumerate(cases, 1):
        if time.monotonic() - start > options.seconds:
            print(f"out of time after {number - 1} of {len(cases)} cases", file=sys.stderr)
            break
        rule = tile_schedule(case.h, case.dtype.itemsize, gpu)
        found = confirmed(search(case, gpu, device, options.samples), rule, options.samples, device)
        by_head[case.kernel, case.h, case.v, case.entropy].append(found)
        torch.cuda.empty_cache()
        best = min(milliseconds for _, milliseconds in found.candidates)
        print(
            f"{number}/{len(cases)} {case.kernel} {case.h}x{case.v} {case.bucket} tokens: "
            f"{best:.4g} in {found.seconds:.1f} s",
            file=sys.stderr,
        )
    measured: list[dict[str, Any]] = []
    for (_, h, _, _), found_searches in by_head.items():
        rule = tile_schedule(h, getattr(torch, options.dtype).itemsize, gpu)
        measured += rows_of(found_searches, rule)
    write_table(options.output, merged(rows, measured))
    print(report(measured))
    return 0


def report(rows: Iterable[dict[str, Any]]) -> str:
    """A line for each kernel, head and schedule: its token counts, its time by the rule's."""
    lines = [f"{'kernel':9}{'H':>6}{'V':>8}  {'schedule':29}{'time / rule':14}tokens"]
    grouped: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        tile = Schedule(**row["schedule"])
        text = f"{tile.block_m}x{tile.block_n}x{tile.block_k} g{tile.group_m} w{tile.num_warps}"
        text += f" s{tile.num_stages} {tile.kind}"
        grouped[row["kernel"], row["h"], row["v"], row["entropy"], text].append(row)
    for (kernel, h, v, _, text), same in grouped.items():
        ratios = [row["ratio_to_rule"] for row in same if row["ratio_to_rule"] is not None]
        span = f"{min(ratios):.3f}-{max(ratios):.3f}" if ratios else "rule failed"
        tokens = " ".join(str(row["tokens"]) for row in same)
        lines.append(f"{kernel:9}{h:6}{v:8}  {text:29}{span:14}{tokens}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
