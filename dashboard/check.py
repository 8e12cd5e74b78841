"""Two commits compared: which ones are meant, and the report on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dashboard.commits import Repository
from dashboard.errors import InputError
from dashboard.lineage import Lineage
from dashboard.models import CheckReport, Commit, Pair
from dashboard.noise import past_noise
from dashboard.rejected import rejections, unread
from dashboard.revisions import Choice, naming_machines, require_measured, short
from dashboard.store import queries
from dashboard.store.connect import Store
from dashboard.verdicts import Policy, compare


def check(
    store: Store,
    policy: Policy,
    *,
    base: str | None = None,
    head: str | None = None,
    machine: str | None = None,
    repository: Repository | None = None,
) -> CheckReport:
    """Compare two measured commits.

    ``base`` and ``head`` are hashes, unique prefixes of four or more characters, tags or, with
    a ``repository``, anything git resolves. Without ``head`` the newest measured commit is
    taken that has something to be compared with; without ``base`` the merge base of head with
    the main branch, else head's nearest measured ancestor, rather one that a run measured in
    turn with head or that has nearly all of its series, else a measured commit before it. What
    is chosen has a machine and environment in common with the other. Series of base that
    head's runs were not to measure, as earlier commits show, are left out. The notes say what
    was chosen, left out and, of these commits or newer ones, rejected.

    Raises InputError: nothing measured, unknown or ambiguous commits, one commit twice, nothing
    in common.
    """
    places = queries.measured_places(store, machine)
    known = {commit.hash: commit for commit in queries.known_commits(store)}
    measured = [commit for commit in known.values() if commit.hash in places]
    require_measured(measured, store, machine)
    notes: list[str] = []
    choice = choices(store, measured, known, machine, repository, notes)
    with naming_machines(store, machine):
        base_commit, head_commit = choice.of(base, head)
    line = list(known.values())
    notes += rejections(store, base_commit, head_commit, line, machine, newer=head is None)
    told, unsure = unread(store, base_commit, head_commit, machine)
    notes += told
    found = queries.pairs(store, base_commit.hash, head_commit.hash, machine)
    comparable = _comparable(found, base_commit, head_commit, notes)
    left_out = 0
    if any(pair.head is None for pair in comparable):
        upto = [commit.hash for commit in measured[: measured.index(base_commit) + 1]]
        wanted = queries.selection(store, head_commit.hash, upto, machine)
        chosen = [pair for pair in comparable if pair.head is not None or wanted.has(pair)]
        left_out = len(comparable) - len(chosen)
        comparable = chosen
    if left_out:
        notes.append(
            f"{left_out} series of base {short(base_commit)} were not measured at head and are "
            "left out: head's runs selected others, as those of earlier commits did"
        )
    before = Lineage(line).line(base_commit, measured)
    earlier = [c for c in before if c.hash not in (base_commit.hash, head_commit.hash)]
    verdicts = compare(comparable, policy, past_noise(store, earlier, machine))
    return CheckReport(base_commit, head_commit, verdicts, tuple(notes), left_out, unsure)


def choices(
    store: Store,
    measured: Sequence[Commit],
    known: Mapping[str, Commit],
    machine: str | None,
    repository: Repository | None,
    notes: list[str],
) -> Choice:
    """What chooses two of the ``measured`` commits, by what the store has of a machine or all."""
    return Choice(
        measured,
        known,
        queries.measured_places(store, machine),
        lambda commit: queries.measured_in_turn(store, commit, machine),
        lambda commit: queries.covering(store, commit, machine),
        repository,
        notes,
    )


def newest(measured: Sequence[Commit]) -> Commit:
    """The last of measured commits in the store's order. IndexError if there are none."""
    return measured[-1]


def _comparable(found: Sequence[Pair], base: Commit, head: Commit, notes: list[str]) -> list[Pair]:
    """The pairs of machines and environments that measured both commits."""
    places: dict[tuple[str, str], list[Pair]] = {}
    for pair in found:
        places.setdefault((pair.series.machine, pair.series.environment), []).append(pair)
    chosen: list[Pair] = []
    for (machine, environment), members in places.items():
        if all(pair.head is None for pair in members):
            lacking = f"head {short(head)}"
        elif all(pair.base is None for pair in members):
            lacking = f"base {short(base)}"
        else:
            chosen += members
            continue
        notes.append(
            f"{machine} ({environment}) has no run of {lacking}: {len(members)} series left out"
        )
    if not chosen:
        raise InputError(
            f"{short(base)} and {short(head)} were never measured on the same machine "
            "and environment"
        )
    return chosen
