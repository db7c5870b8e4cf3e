"""Decisions from the structure of a graph: which latents can be summed out, and which blocks are updated in turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ..models._model import Each, Group
from .elimination import LARGEST
from .errors import NotConjugate
from .spec import RESPONSES, Quantity, Spec


def choose_elimination(spec: Spec, factorised: Iterable[str]) -> tuple[Spec, list[str]]:
    """The spec with an order in which to sum out discrete latents, and a sentence about each that cannot be summed
    out."""
    notes: list[str] = []
    asked = set(factorised)
    chain = _gaussian_chain(spec)
    apart = {name for name in asked if spec[name].discrete}
    for q in spec:
        if not (q.latent and q.discrete) or q.name in apart:
            continue
        reason = _obstacle(spec, q)
        if chain and not reason:
            reason = f"the Gaussian chain {chain!r} is integrated out, which is exact for given values only"
        if reason:
            apart.add(q.name)
            notes.append(f"{q.name!r} is not summed out but has a distribution of its own: {reason}")
    while True:
        order, widest = _order(spec, apart)
        if widest is None:
            break
        apart.add(widest)
        notes.append(
            f"{widest!r} is not summed out but has a distribution of its own: with the other discrete latents it "
            f"meets there are more than {LARGEST} joint values"
        )
    names = tuple(q.name for q in spec if q.name in apart)
    spec = dataclasses.replace(spec, factorised=names, elimination=order, integrated=chain)
    if chain:
        return spec, notes
    local = [q for q in spec if q.latent and spec.local(q) and q.name not in spec.summed_out]
    if len(local) == 1 and not order and local[0].name not in asked:
        (q,) = local
        seen = any(q.name in spec.factor_blocks(other.name) for other in spec if other.kind in RESPONSES)
        if q.kind == "normal" and q.plates == (spec.data_plate,) and not seen:
            spec = dataclasses.replace(spec, integrated=q.name)
    return spec, notes


def _gaussian_chain(spec: Spec) -> str:
    """The name of the Gaussian chain that is integrated out, or an empty string."""
    chains = [q for q in spec if q.kind == "gaussian_chain"]
    if not chains:
        return ""
    (q, *others) = chains
    if others:
        raise NotConjugate(
            f"a graph can have one Gaussian chain, found {q.name!r} and {others[0].name!r}; one chain of vectors can "
            "hold both"
        )
    for other in spec:
        if other.kind == "markov_chain":
            raise NotConjugate(
                f"{q.name!r} is a Gaussian chain and {other.name!r} a Markov chain: both are summed out along time, "
                "which is exact for one of them only; leave one out"
            )
        if other.kind in RESPONSES and q.name in spec.factor_blocks(other.name):
            raise NotConjugate(
                f"{other.name!r} (at {other.line}) depends on the Gaussian chain {q.name!r} and is not Normal: the "
                "chain is integrated out, which is exact for Normal children only"
            )
        if other.latent and other.name != q.name and q.name in spec.factor_blocks(other.name):
            raise NotConjugate(
                f"{other.name!r} (at {other.line}) is a latent child of the Gaussian chain {q.name!r}: only observed "
                "variables can be its children"
            )
    return q.name


def _obstacle(spec: Spec, q: Quantity) -> str:
    if not spec.local(q):
        return "it is shared by all data"
    for other in spec:
        if other.kind == "switches" and q.name in spec.ancestors(other.name):
            return "it is a row of switches, turned one after the other"
        if other.latent and not other.discrete and q.name in spec.factor_gates(other.name):
            return f"it chooses a parent of {other.name!r}, which is continuous and has one too"
    return ""


def _order(spec: Spec, apart: set[str]) -> tuple[tuple[tuple[str, ...], ...], str | None]:
    """The order of summation (inner plates first, chains last on their plate), and a latent that makes a table too
    large, or None."""
    latents = [q for q in spec if q.latent and q.discrete and q.name not in apart]
    names = {q.name for q in latents}
    cliques = [
        frozenset((spec.factor_gates(q.name) | ({q.name} if q.latent and q.discrete else set())) & names)
        for q in spec
        if q.random
    ]
    waiting = sorted(latents, key=lambda q: (-len(q.plates), q.kind == "markov_chain"))
    order: list[tuple[str, ...]] = []
    while waiting:
        q = waiting.pop(0)
        group = {q.name}
        if q.kind == "markov_chain":
            group = _chains_that_meet(spec, q, waiting, cliques)
            waiting = [other for other in waiting if other.name not in group]
        touched = [c for c in cliques if c & group]
        clique = frozenset(group).union(*touched)
        states = 1
        for name in clique:
            states *= spec[name].size ** (2 if spec[name].kind == "markov_chain" else 1)
        crossed = [n for n in clique - group if not set(spec[n].plates) <= set(q.plates)]
        if crossed or states > LARGEST:
            return (), crossed[0] if crossed else max(clique, key=lambda name: spec[name].size)
        cliques = [c for c in cliques if not c & group] + [clique - group]
        order.append(tuple(n for n in (q2.name for q2 in spec) if n in group))
    return tuple(order), None


def _chains_that_meet(spec: Spec, q: Quantity, waiting: list[Quantity], cliques: list[frozenset[str]]) -> set[str]:
    chains = {other.name for other in waiting if other.kind == "markov_chain" and other.plates == q.plates}
    group = {q.name}
    while True:
        found = {name for c in cliques if c & group for name in c & chains} - group
        if not found:
            return group
        group |= found


def coupling(spec: Spec, names: tuple[str, ...]) -> dict[str, set[str]]:
    """Which of these blocks meet in a factor, given the latents that are summed out."""
    meets: dict[str, set[str]] = {name: set() for name in names}
    for q in spec:
        if not q.random:
            continue
        sets = [spec.factor_blocks(q.name) | (spec.factor_gates(q.name) & set(spec.factorised))]
        if q.kind == "markov_chain":
            # Given the path, its first state and its transitions are two factors.
            sets = [spec.ancestors(parent) for _, parent in q.parents]
        if q.kind == "gaussian_chain":
            first = ("initial", "initial_precision")
            sets = [
                frozenset().union(*(spec.ancestors(p) for argument, p in q.parents if (argument in first) == initial))
                for initial in (True, False)
            ]
        for found in sets:
            here = found & set(names)
            for name in here:
                meets[name] |= here - {name}
    return meets


def grouped(spec: Spec, names: tuple[str, ...], alone: Iterable[str] = ()) -> tuple[Group, ...]:
    """The order of updates: groups of blocks that meet in no factor, and switches one after the other. Each block in
    `alone` forms a group by itself."""
    meets = coupling(spec, names)
    turns: list[Group] = []
    for q in spec:
        if q.kind == "switches" and (z := q.parents[0][1]) in meets:
            axes = sorted(spec.axis(p) for p in spec[z].plates)
            turns.append(Each(z, axes.index(spec.axis(spec.plate_beyond(q, "of")))))
            meets = {name: others - {z} for name, others in meets.items() if name != z}
    single = set(alone)
    for group in colour(meets):
        turns += [(name,) for name in group if name in single]
        turns += [rest] if (rest := tuple(name for name in group if name not in single)) else []
    return tuple(turns)


def colour(meets: dict[str, set[str]]) -> tuple[tuple[str, ...], ...]:
    """Groups of blocks that meet in no factor, formed greedily from the block that meets the most others."""
    groups: list[list[str]] = []
    for name in sorted(meets, key=lambda name: -len(meets[name])):
        for group in groups:
            if not meets[name] & set(group):
                group.append(name)
                break
        else:
            groups.append([name])
    return tuple(tuple(name for name in meets if name in group) for group in groups)
