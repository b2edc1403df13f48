"""The work, spread over all processors: each worker builds formulas and asks both solvers on the same text."""

import multiprocessing
import os
import time
from dataclasses import dataclass

from solvers import SOLVERS, text

# Into how many parts a kind is split: every so-maniest obligation makes one, so that the parts are alike.
PORTIONS = 8


@dataclass
class Question:
    about: str
    group: str
    name: str
    text: str
    expected: str
    solver: str = ""
    answer: str = ""
    seconds: float = 0.0


def asked(about, group, name, smt, expected, solvers=tuple(SOLVERS)):
    for solver in solvers:
        begun = time.monotonic()
        answer = SOLVERS[solver](smt)
        yield Question(about, group, name, smt, expected, solver, answer, time.monotonic() - begun)


class Worker:
    """What a worker process keeps between its portions."""

    proofs: dict = {}
    table = None

    @classmethod
    def start(cls, path):
        from table import Table
        cls.table = Table(path)

    @classmethod
    def proof(cls, kind):
        from obligations import Proof
        if kind not in cls.proofs:
            cls.proofs[kind] = Proof(cls.table, kind)
        return cls.proofs[kind]


def prove_portion(job):
    from obligations import can_not_happen
    kind, group, portion = job
    proof = Worker.proof(kind)
    formulas = proof.obligations() if group == "obligation" else proof.can_happen()
    found = []
    for name in sorted(formulas)[portion::PORTIONS]:
        if group == "obligation":
            found += asked(kind, group, name, text(formulas[name]()), "unsat")
        else:
            expected = "unsat" if name in can_not_happen(kind) else "sat"
            found += asked(kind, group, name, text(formulas[name]()), expected, ["z3"])
    return kind, found




def changed_proof(mutant):
    from obligations import Proof
    table = Worker.table.edited(mutant.edit) if mutant.edit else Worker.table
    return Proof(table, mutant.kind, mutant.drop)


def mutant_at(name):
    # Edits are functions, which don't travel between processes: the name does.
    from mutants import all_mutants
    return next(mutant for mutant in all_mutants() if mutant.name == name)


def mutate(name):
    mutant = mutant_at(name)
    changed = changed_proof(mutant)
    found = []
    for about, smt, expected in changed.questions_of_mutant(Worker.proof(mutant.kind), mutant.breaks):
        found += asked(f"mutant {name}", "mutant", about, smt, expected, ["z3"])
    return name, found


def name_breaks_of(name):
    mutant = mutant_at(name)
    changed = changed_proof(mutant)
    return name, changed.broken(changed.changed_from(Worker.proof(mutant.kind)))


def broken_by(job):
    kind, move = job
    return Worker.proof(kind).broken([move])


class Workers:
    def __init__(self, table):
        # Spawned, not forked: a solver's threads don't survive a fork.
        self.pool = multiprocessing.get_context("spawn").Pool(os.cpu_count() or 1, Worker.start, (table,))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.terminate()
        self.pool.join()

    def prove(self, kinds):
        """kind → answered questions."""
        groups = ("obligation", "can happen")
        jobs = [(kind, group, portion) for kind in kinds for group in groups for portion in range(PORTIONS)]
        found = {kind: [] for kind in kinds}
        for kind, questions in self.pool.imap_unordered(prove_portion, jobs):
            found[kind] += questions
        return found

    def mutants(self, mutants):
        """(mutant, answered questions), for each."""
        found = dict(self.pool.imap_unordered(mutate, [mutant.name for mutant in mutants]))
        return [(mutant, found[mutant.name]) for mutant in mutants]

    def name_breaks(self, mutants):
        found = dict(self.pool.imap_unordered(name_breaks_of, [mutant.name for mutant in mutants]))
        return {mutant.name: found[mutant.name] for mutant in mutants}

    def broken(self, kind, moves):
        """move → the properties and clauses that it does not keep."""
        found = {}
        for broken in self.pool.imap_unordered(broken_by, [(kind, move) for move in moves]):
            found |= broken
        return found
