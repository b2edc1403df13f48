"""What has to be shown for one tool kind, and what a change of table or world breaks of it."""

from z3 import And, BoolVal, Const, Exists, Not

import invariant
from moves import Moves
from solvers import by_z3, text
from state import ORDER, PHASE, PRE, Att, Op


class Proof:
    def __init__(self, table, kind, drop=()):
        self.kind = kind
        self.invariant = invariant.invariant(PRE, kind)
        self.assumed = ORDER + list(self.invariant.values())
        self.moves = Moves(table, kind, drop).all(PRE)
        self.kept = {}

    def obligations(self):
        """name → a function that builds the formulas; they must have no model."""
        def keeps(move):
            return lambda: self.assumed + [self.moves[move][0], Not(all_of(self.touched_by(move)))]

        start = lambda: ORDER + [invariant.initial(PRE), Not(And(list(self.invariant.values())))]
        implied = lambda formula: lambda: self.assumed + [Not(formula)]
        return {"start": start} | {move: keeps(move) for move in self.moves} | {
            f"property: {name}": implied(formula) for name, formula in invariant.safety(PRE, self.kind).items()}

    def can_happen(self):
        """name → a function that builds the formulas; with a model, the move can happen while the world is not empty."""
        one, other, att = Const("one", Op), Const("other", Op), Const("att", Att)
        busy = Exists([one, other, att], And(PRE.effect(one, att), PRE.phase(other) == PHASE.of["unknown"]))
        return {move: (lambda guard=guard: self.assumed + [guard, busy]) for move, (guard, _) in self.moves.items()}

    def kept_by(self, move):
        """name → the property or clause, after this move."""
        if move not in self.kept:
            after = self.moves[move][1]
            parts = {f"property: {name}": formula for name, formula in invariant.safety(after, self.kind).items()}
            self.kept[move] = parts | invariant.invariant(after, self.kind)
        return self.kept[move]

    def touched_by(self, move):
        """The clauses after this move, without those that are literally the ones before it."""
        after = invariant.invariant(self.moves[move][1], self.kind)
        return [formula for name, formula in after.items() if not formula.eq(self.invariant[name])]

    def violated(self, move, formulas):
        """The question whether after this move one of the formulas may not hold."""
        return text(self.assumed + [self.moves[move][0], Not(all_of(formulas))])

    def changed_from(self, other):
        """The moves that are not literally those of the other proof."""
        def same(move):
            if move not in other.moves or not self.moves[move][0].eq(other.moves[move][0]):
                return False
            mine, its = self.kept_by(move), other.kept_by(move)
            return all(formula.eq(its[name]) for name, formula in mine.items())
        return [move for move in self.moves if not same(move)]

    def questions_of_mutant(self, sound, breaks):
        """(name, text, expected answer): everything named breaks, and nothing else does."""
        for move in self.changed_from(sound):
            parts, named = dict(self.kept_by(move)), breaks.get(move, [])
            for name in named:
                yield f"{move}: {name}", self.violated(move, [parts.pop(name)]), "sat"
            touched = [formula for name, formula in parts.items()
                       if name not in self.invariant or not formula.eq(self.invariant[name])]
            yield f"{move}: all else is kept", self.violated(move, touched), "unsat"

    def broken(self, moves):
        """move → the properties and clauses that it does not keep."""
        found = {}
        for move in moves:
            for name, formula in self.kept_by(move).items():
                if not formula.eq(self.invariant.get(name, all_of([]))) and by_z3(self.violated(move, [formula])) != "unsat":
                    found.setdefault(move, []).append(name)
        return found


def all_of(formulas):
    return And(BoolVal(True), *formulas)


def can_not_happen(kind):
    """Moves of typed pairs that no state of the invariant has: the core answers them all the same."""
    never = {"settled unsent + call → settled, told done", "settled unsent + call → told done",
             "settled unsent + call → told failed (answer failed data: record)", "confirmed + call → told failed",
             "confirmed + resume → settled, told failed", "confirmed + reply → settled, told failed"}
    if kind != "transactional":
        return never | {"confirmed + call → told done", "confirmed + resume → settled, told done",
                        "confirmed + reply → settled, told done"}
    # With the effect the record is confirmed, so an open record's success can't be learnt elsewhere.
    news = ("reply result", "observed applied", "decide succeeded")
    return never | {
        f"{phase} + {what} → settled succeeded, told done"
        for phase in ("dispatched", "unknown", "escalated") for what in news
        if phase != "dispatched" or what == "reply result"}
