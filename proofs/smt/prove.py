"""Proves the protocol's safety for any number of operations, processes, attempts, messages and crashes, with two solvers,
and shows that the proof would notice errors. Run by ../check; ../README.md says what it means.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

import rank
from invariant import KINDS, safety
from mutants import EXPECTED, all_mutants
from obligations import can_not_happen
from solvers import versions
from state import PRE
from table import FILE, Table
from work import Workers

ALL_KINDS = KINDS + ("read-only",)


class Report:
    """Counts, and what went wrong."""

    def __init__(self, failures):
        self.failures, self.wrong, self.folder = 0, [], Path(failures)

    def answer(self, question):
        """Whether a solver's answer is the expected one; if not, the question is kept as a file."""
        if question.answer == question.expected:
            return True
        self.folder.mkdir(parents=True, exist_ok=True)
        name = "".join(c if c.isalnum() else "-" for c in f"{question.about} {question.name}")[:150]
        (self.folder / f"{name}.smt2").write_text(question.text)
        self.fail(f"{question.about}: {question.name}: {question.solver} says {question.answer}, not {question.expected} "
                  f"({self.folder / name}.smt2)")
        return False

    def fail(self, message):
        self.failures += 1
        self.wrong.append(message)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", default=FILE, help="the relation to prove (default: the published one)")
    parser.add_argument("--failures", default="failures", help="a folder for the questions that fail")
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS, help="only these tool kinds")
    parser.add_argument("--name-breaks", action="store_true", help="write anew what each mutant breaks (then review it)")
    options = parser.parse_args()
    begun, table, report = time.monotonic(), Table(options.table), Report(options.failures)
    with Workers(options.table) as workers:
        if options.name_breaks:
            EXPECTED.write_text(json.dumps(workers.name_breaks(all_mutants()), indent=1, ensure_ascii=False) + "\n")
            return 0
        print(f"{table.pairs:,} typed pairs of state and event, as {len(table.rows)} rows; "
              + ", ".join(f"{name} {version}" for name, version in versions().items()) + "\n")
        facts(table, report)
        broken = prove(workers, options.kinds, report)
        for kind, moves in broken.items():
            for move, names in workers.broken(kind, moves).items():
                report.fail(f"{kind}: {move} does not keep: {'; '.join(names)}")
        mutants(workers, options.kinds, report)
    print(f"\nThe whole run took {time.monotonic() - begun:.0f} s.")
    for message in report.wrong:
        print(f"FAILED {message}", file=sys.stderr)
    return 1 if report.failures else 0


def facts(table, report):
    """What needs no solver."""
    checks = [(name, holds, "") for name, holds in table.structure()] + list(rank.check(table, ALL_KINDS))
    for name, holds, why in checks:
        if not holds:
            report.fail(f"table: {name} {why}")
    noticed = [name for name, edit in rank.MUTANTS.items()
               if any(not holds for _, holds, _ in rank.check(table.edited(edit), ALL_KINDS))]
    if len(noticed) != len(rank.MUTANTS):
        report.fail(f"table: no check notices {sorted(set(rank.MUTANTS) - set(noticed))}")
    print(f"table: {sum(holds for _, holds, _ in checks)} of {len(checks)} facts hold (structure, convergence); "
          f"{len(noticed)} of {len(rank.MUTANTS)} errors in it are noticed")


def prove(workers, kinds, report):
    """Every obligation of every kind, by both solvers. Returns the moves that break something."""
    print(f"\n{'tool kind':<26}{'moves':>6}{'obligations':>13}{'z3':>6}{'cvc5':>6}{'can happen':>12}"
          f"{'seconds z3':>12}{'cvc5':>7}")
    broken = {}
    for kind, questions in workers.prove(kinds).items():
        proved, live, seconds, count = Counter(), 0, Counter(), 0
        for question in questions:
            right = report.answer(question)
            seconds[question.solver] += question.seconds
            if question.group == "obligation":
                count += question.solver == "z3"
                proved[question.solver] += right
                is_move = question.name != "start" and not question.name.startswith("property: ")
                if not right and is_move and question.name not in broken.get(kind, []):
                    broken.setdefault(kind, []).append(question.name)
            else:
                live += right and question.expected == "sat"
        moves = sum(question.group == "can happen" for question in questions)
        print(f"{kind:<26}{moves:>6}{count:>13}{proved['z3']:>6}{proved['cvc5']:>6}{live:>12}"
              f"{seconds['z3']:>12.1f}{seconds['cvc5']:>7.1f}")
        if moves - live != len(can_not_happen(kind)):
            report.fail(f"{kind}: {moves - live} moves can't happen, not {len(can_not_happen(kind))}")
    return broken


def mutants(workers, kinds, report):
    chosen = [mutant for mutant in all_mutants() if mutant.kind in kinds]
    caught = 0
    for mutant, questions in workers.mutants(chosen):
        exact = [report.answer(question) for question in questions]
        named = sum(map(len, mutant.breaks.values()))
        if not named or sum(question.expected == "sat" for question in questions) != named:
            report.fail(f"mutant {mutant.name}: it is not named what it breaks, or that does not change")
        elif all(exact):
            caught += 1
    broken = {name for mutant in chosen for names in mutant.breaks.values() for name in names}
    missed = {f"property: {name}" for kind in kinds for name in safety(PRE, kind)} - broken
    if missed and set(kinds) == set(KINDS):
        report.fail(f"no mutant breaks {sorted(missed)}")
    print(f"\nmutants: {caught} of {len(chosen)} break exactly what is named for them")


if __name__ == "__main__":
    sys.exit(main())
