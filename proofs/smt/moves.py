"""What can happen: the core's moves, built from the table, and the world's, with the design's assumptions as guards."""

from z3 import And, Bool, BoolVal, Consts, Const, ForAll, If, Implies, Not, Or

import table as tables
from state import CAUSE, PHASE, VERDICT, Att, Data, Enum, Op, Proc, final, le, nothing, single

o0, p0, n0, n1, d0 = Const("o0", Op), Const("p0", Proc), Const("n0", Att), Const("n1", Att), Const("d0", Data)
o, p, n, d = Const("o", Op), Const("p", Proc), Const("n", Att), Const("d", Data)

# Circumstances with more than two values, by name: a solver's context knows a name once.
ENUMS = {}

MEMORY = ("sealable", "deduplicates", "deduplicates-rejections")


def having(relation, *key):
    """The relation with one more member."""
    return lambda *args: Or(relation(*args), And([a == k for a, k in zip(args, key)]))


def without(relation, *key):
    return lambda *args: And(relation(*args), Not(And([a == k for a, k in zip(args, key)])))


def setting(function, value):
    """The function with another value for the operation that moves."""
    return lambda arg: If(arg == o0, value, function(arg))


class Moves:
    """All moves of one tool kind. `drop` names assumptions that a mutant does without."""

    def __init__(self, table, kind, drop=()):
        self.table, self.kind, self.drop = table, kind, set(drop)

    def all(self, s):
        """name → (guard, next state)."""
        core = {
            name: self.core(s, rows) for name, rows in tables.moves(self.table.of_kind(self.kind)).items()
        }
        return core | self.world(s)

    # The core.

    def core(self, s, rows):
        then, [what] = rows[0]["then"], rows[0]["event"]["what"]
        guard = And(s.alive(p0), self.assumptions(s, what), Or([self.matches(s, row) for row in rows]))
        stored, att = then.get("store", {}), s.att(o0)
        new = self.store(s, stored) if stored else {}
        if stored.get("attempt") == "next":
            guard, att = And(guard, le(att, n1), att != n1), n1
        elif stored.get("attempt") == "first":
            att = n1
        if stored and what == "committed":
            # The effect is part of the same transaction as this store.
            guard = And(guard, s.transit(o0, n0))
            return guard, s.changed(**new, **self.effect(s, n0)).synced(o0)
        for action in then.get("actions", []):
            if action["do"] == "dispatch":
                new["queued"] = having(s.queued, o0, att, p0)
            elif action["do"] == "observe" and action["conclusive"] == "yes":
                new["asked"] = having(s.asked, o0, att)
            elif action["do"] == "seal":
                asked = "sealasked" if action["scope"] == "attempts" else "sealallasked"
                new[asked] = having(getattr(s, asked), o0, att)
            elif action.get("tell") in ("done", "failed"):
                # Telling is taken to succeed: who isn't told can only be told less.
                new[action["tell"]] = having(getattr(s, action["tell"]), o0, self.source(s, action["data"]))
        return guard, s.changed(**new)

    def store(self, s, stored):
        """The next record. A field that the new phase doesn't have is cleared."""
        def kept_or(field, function, values):
            value = stored.get(field)
            return function(o0) if value == "same" else values.get(value)

        no = BoolVal(False)
        flags = {"no": no, "yes": BoolVal(True), "now": BoolVal(True), "event": BoolVal(True), None: no}
        att = stored.get("attempt")
        new = {
            "phase": PHASE.of[stored["phase"]],
            "sent": BoolVal(att is not None),
            "att": s.att(o0) if att in (None, "same") else n1,
            "owner": kept_or("owner", s.owner, {"event": p0, None: s.owner(o0)}),
            "doubt": kept_or("doubt", s.doubt, flags),
            "cause": kept_or("cause", s.cause, CAUSE.of | {None: s.cause(o0)}),
            "quiet": kept_or("quiet", s.quiet, flags),
            "verdict": kept_or("verdict", s.verdict, VERDICT.of | {None: s.verdict(o0)}),
            "delivered": kept_or("delivered", s.delivered, flags),
            "data": self.source(s, stored["data"]),
        }
        new = {field: setting(getattr(s, field), value) for field, value in new.items()}
        if stored["phase"] == "dispatched":
            new["recorded"] = having(s.recorded, o0, s.att(o0) if att == "same" else n1)
        return new

    def source(self, s, name):
        return {"event": d0, "record": s.data(o0), "nothing": nothing}[name]

    def matches(self, s, row):
        """The record, the policy and the event are those of the row."""
        state, all_of = row["state"], [s.at(o0, row["state"].get("phase", list(PHASE.of)))]
        for field, function in (("sent", s.sent), ("doubt", s.doubt), ("quiet", s.quiet), ("delivered", s.delivered)):
            if field in state:
                all_of.append(Or([function(o0) == (value == "yes") for value in state[field]]))
        for field, function, enum in (("cause", s.cause, CAUSE), ("verdict", s.verdict, VERDICT)):
            if field in state:
                all_of.append(Or([function(o0) == enum.of[value] for value in state[field]]))
        for group in ("policy", "event"):
            all_of += [self.among(group, field, values) for field, values in row[group].items()
                       if field not in ("tool", "what")]
        return And(all_of)

    def among(self, group, field, values):
        return Or([self.given(group, field, value) for value in values])

    def given(self, group, field, value):
        """A declaration or a circumstance: free, unless an assumption binds it."""
        domain = self.table.domain(group, field)
        if len(domain) == 2:
            flag = Bool(f"{group}.{field}")
            return flag if value == domain[1] else Not(flag)
        key = f"{group}.{field}"
        if key not in ENUMS:
            enum = Enum(key, domain)
            ENUMS[key] = (Const(f"the-{key}", enum.sort), enum)
        constant, enum = ENUMS[key]
        return constant == enum.of[value]

    def assumptions(self, s, what):
        """What ties this kind of event to the world: each may be dropped by a mutant, to show that it is needed."""
        event = lambda field, value: self.given("event", field, value)
        att, links = s.att(o0), {}
        if what in ("reply", "observed", "committed", "lost"):
            links["news names its attempt"] = And(
                Implies(event("of", "latest"), n0 == att),
                Implies(event("of", "earlier"), And(le(n0, att), n0 != att)),
                Implies(event("of", "later"), And(le(att, n0), n0 != att)))
        if what == "reply":
            links["replies come from the tool"] = And(
                Implies(event("reply", "result"), s.result(o0, n0)),
                Implies(Or(event("reply", "not-run"), event("reply", "busy")), s.notrun(o0, n0)),
                Implies(event("reply", "unproven"), s.error(o0, n0)))
        if what == "resume":
            links["sender done is true"] = Implies(
                event("sender-done", "yes"), ForAll([p], Not(s.queued(o0, att, p))))
            links["the settling time is enough"] = Implies(
                And(event("settling-over", "yes"), s.quiet(o0)), Not(s.transit(o0, att)))
            links["within the limit it is remembered"] = Implies(event("within-limit", "yes"), Not(s.forgotten(o0)))
        if what == "decide":
            links["a person's success is true"] = Implies(event("decision", "succeeded"), s.effected(o0))
            links["a person's failure is true and all is quiet"] = Implies(
                And(event("decision", "failed"), event("all-quiet", "yes")),
                And(Not(s.effected(o0)), ForAll([n, p], Not(s.queued(o0, n, p))), ForAll([n], Not(s.transit(o0, n)))))
        if what == "observed":
            links["an applied answer is true"] = Implies(event("seen", "applied"), s.applied(o0, n0))
        # Of a tool that can't tell, such an answer is not bound to anything: it may be a lie.
        if what == "observed" and self.kind == "observable":
            links["a not-applied answer was true when given"] = Implies(
                And(event("seen", "not-applied"), event("conclusive", "yes")), s.notapplied(o0, n0))
        if what == "observed" and self.kind == "sealable":
            links["a seal's answer is true"] = And(
                Implies(event("seen", "sealed-attempts"), s.sealedto(o0, n0)),
                Implies(event("seen", "sealed-operation"), s.sealedop(o0, n0)))
        return And(BoolVal(True), *[link for name, link in links.items() if name not in self.drop])

    # The world.

    def effect(self, s, att):
        return {
            "effect": having(s.effect, o0, att),
            "twice": setting(s.twice, Or(s.twice(o0), s.effected(o0))),
            "effected": setting(s.effected, BoolVal(True)),
        }

    def remembered(self, s):
        """A tool with a memory refuses to apply."""
        if self.kind == "sealable":
            return Or(s.effected(o0), s.sealed(o0, n0), s.sealedall(o0))
        return And(Or(s.effected(o0), s.rejected(o0)), Not(s.forgotten(o0)))

    def world(self, s):
        kind = self.kind
        consumed = {"transit": lambda a, b: And(s.transit(a, b), Not(And(single, a == o0, b == n0)))}
        if "one dispatch is one delivery" in self.drop:
            consumed = {}
        arrives = s.transit(o0, n0)
        kept = s.durable()
        # A send waits until the record that it rests on is durable.
        may_send = And(s.alive(p0), s.queued(o0, n0, p0), kept.recorded(o0, n0))
        if "a send waits for its record" in self.drop:
            may_send = And(s.alive(p0), s.queued(o0, n0, p0))
        all_moves = {
            "ledger: writes become durable": (BoolVal(True), s.synced(o0)),
            "ledger: crash": (BoolVal(True), kept),
            "send": (may_send, s.changed(queued=without(s.queued, o0, n0, p0), transit=having(s.transit, o0, n0))),
            "crash of a process": (s.alive(p0), s.changed(
                alive=lambda a: And(s.alive(a), a != p0), queued=lambda a, b, c: And(s.queued(a, b, c), c != p0))),
            "request lost": (arrives, s.changed(transit=without(s.transit, o0, n0))),
            "observation: applied": (s.effected(o0), s.changed(applied=having(s.applied, o0, n0))),
        }
        if kind == "transactional":
            all_moves["reply: result"] = (s.effect(o0, n0), s.changed(result=having(s.result, o0, n0)))
        elif kind in MEMORY:
            all_moves["tool applies"] = (
                And(arrives, Not(self.remembered(s))), s.changed(**self.effect(s, n0), **consumed))
            known = And(s.effected(o0), Not(s.forgotten(o0)))
            all_moves["reply: result"] = (
                Or(s.effect(o0, n0), And(arrives, known)), s.changed(result=having(s.result, o0, n0), **consumed))
        else:
            all_moves["tool applies"] = (arrives, s.changed(**self.effect(s, n0), **consumed))
            all_moves["reply: result"] = (s.effect(o0, n0), s.changed(result=having(s.result, o0, n0)))

        told_notrun, told_error = having(s.notrun, o0, n0), having(s.error, o0, n0)
        if kind in ("sealable", "transactional"):
            # Nothing rests on their errors: any may come at any time.
            all_moves["reply: not run"] = (BoolVal(True), s.changed(notrun=told_notrun))
            all_moves["reply: error"] = (BoolVal(True), s.changed(error=told_error))
        else:
            all_moves["never sent"] = (may_send, s.changed(
                queued=without(s.queued, o0, n0, p0), notrun=told_notrun))
            all_moves["reply: not run"] = (arrives, s.changed(notrun=told_notrun, **consumed))
            # An error that isn't declared final proves nothing: it may follow an effect, or nothing at all.
            all_moves["reply: error in doubt"] = (Not(final), s.changed(error=told_error))
            rejects, memory = And(final, arrives), {}
            if kind == "deduplicates-rejections":
                rejects = And(rejects, Or(Not(self.remembered(s)), s.rejected(o0)), Not(s.effected(o0)))
                memory = {"rejected": setting(s.rejected, BoolVal(True))}
            all_moves["reply: final error"] = (rejects, s.changed(error=told_error, **consumed, **memory))
        if kind.startswith("deduplicates"):
            no_copy = And(kept.sent(o0), ForAll([n], Not(s.transit(o0, n))), ForAll([n, p], Not(s.queued(o0, n, p))))
            if "no copy arrives after the limit" in self.drop:
                no_copy = kept.sent(o0)
            all_moves["tool forgets the key"] = (no_copy, s.changed(forgotten=setting(s.forgotten, BoolVal(True))))
        if kind == "observable":
            all_moves["observation: not applied"] = (And(kept.asked(o0, n0), Not(s.effect(o0, n0))), s.changed(
                notapplied=having(s.notapplied, o0, n0)))
        if kind == "sealable":
            all_moves["tool seals attempts"] = (And(kept.sealasked(o0, n0), Not(s.effected(o0))), s.changed(
                sealedto=having(s.sealedto, o0, n0),
                sealed=lambda a, b: Or(s.sealed(a, b), And(a == o0, le(b, n0)))))
            all_moves["tool seals the operation"] = (And(kept.sealallasked(o0, n0), Not(s.effected(o0))), s.changed(
                sealedop=having(s.sealedop, o0, n0), sealedall=setting(s.sealedall, BoolVal(True))))
        return all_moves

