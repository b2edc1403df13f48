"""The vocabulary: sorts, what is stored of an operation, and the world around it.

All formulas stay within effectively propositional logic with stratified functions (operation → attempt, process, data,
never back), so that a "satisfiable" has a finite model and both solvers decide quickly.
"""

from z3 import And, BoolSort, Bool, Const, Consts, DeclareSort, EnumSort, ForAll, Function, If, Implies, Or

Op, Proc, Att, Data = (DeclareSort(name) for name in ("Operation", "Process", "Attempt", "Data"))


class Enum:
    """A finite set of names."""

    def __init__(self, name, values):
        self.sort, constants = EnumSort(name, [f"{name}.{value}" for value in values])
        self.of = dict(zip(values, constants))


PHASE = Enum("phase", ["absent", "created", "dispatched", "unknown", "escalated", "confirmed", "settled"])
VERDICT = Enum("verdict", ["succeeded", "failed", "abandoned"])
CAUSE = Enum("cause", ["open", "error", "refused"])
B = BoolSort()

# Name → sorts. What the ledger makes durable. First the record, as far as the core's steps depend on it:
LEDGER = {
    "phase": (Op, PHASE.sort), "sent": (Op, B), "att": (Op, Att), "owner": (Op, Proc), "doubt": (Op, B),
    "cause": (Op, CAUSE.sort), "quiet": (Op, B), "verdict": (Op, VERDICT.sort), "delivered": (Op, B), "data": (Op, Data),
    # … then what rests on it: done only once the record is durable, and not at all if it is lost before.
    "recorded": (Op, Att, B),            # the record has once been: dispatched, with this attempt
    "done": (Op, Data, B), "failed": (Op, Data, B),                                             # what callers are told
    "asked": (Op, Att, B), "sealasked": (Op, Att, B), "sealallasked": (Op, Att, B),             # what the tool is asked
}
# The world. Messages are sets that are never emptied by reading: doubling, delay, reordering and loss for free.
WORLD = {
    "alive": (Proc, B),
    "queued": (Op, Att, Proc, B),        # a process has still to put this attempt on the wire
    "transit": (Op, Att, B),             # a copy of this attempt may still reach the tool
    "effect": (Op, Att, B), "effected": (Op, B), "twice": (Op, B),
    "result": (Op, Att, B), "notrun": (Op, Att, B), "error": (Op, Att, B),                      # replies
    "applied": (Op, Att, B), "notapplied": (Op, Att, B), "sealedto": (Op, Att, B), "sealedop": (Op, Att, B),  # … to questions
    "sealed": (Op, Att, B), "sealedall": (Op, B), "rejected": (Op, B), "forgotten": (Op, B),    # the tool's memory
}
# The ledger twice: as the next reader sees it, and as a crash would leave it.
ALL = LEDGER | {f"durable.{name}": sorts for name, sorts in LEDGER.items()} | WORLD


class State:
    """One state: a function for every name. `changed` gives the next state in terms of this one, with all else kept."""

    def __init__(self, functions):
        self.functions = functions

    def __getattr__(self, name):
        return self.functions[name]

    def changed(self, **new):
        return State(self.functions | new)

    def durable(self):
        """The same world as a crash of the ledger would leave it: only durable writes, and only sends that rest on them."""
        durable = {name: self.functions[f"durable.{name}"] for name in LEDGER}
        queued = lambda o, n, p: And(self.queued(o, n, p), durable["recorded"](o, n))
        return State(self.functions | durable | {"queued": queued})

    def synced(self, o):
        """This operation's writes become durable, and what rests on them happens."""
        def of(name):
            return lambda *args: If(args[0] == o, self.functions[name](*args), self.functions[f"durable.{name}"](*args))
        return self.changed(**{f"durable.{name}": of(name) for name in LEDGER})

    def at(self, o, phases):
        return Or([self.phase(o) == PHASE.of[phase] for phase in phases])

    def ended(self, o, verdict):
        """The record holds this verdict."""
        return And(self.at(o, ["confirmed", "settled"]), self.verdict(o) == VERDICT.of[verdict])


PRE = State({name: Function(name, *sorts) for name, sorts in ALL.items()})

le = Function("le", Att, Att, B)
nothing = Const("nothing", Data)
x, y, z = Consts("x y z", Att)
ORDER = [
    ForAll([x], le(x, x)),
    ForAll([x, y], Or(le(x, y), le(y, x))),
    ForAll([x, y], Implies(And(le(x, y), le(y, x)), x == y)),
    ForAll([x, y, z], Implies(And(le(x, y), le(y, z)), le(x, z))),
]

# The policy's declarations: proved for both values of each at once.
single, final = Bool("policy.delivery"), Bool("policy.errors")
