"""The inductive invariant of each tool kind, and the safety properties that follow from it."""

from z3 import And, Const, ForAll, Implies, Not, Or

from state import LEDGER, ORDER, PHASE, VERDICT, Att, Data, Op, Proc, final, le, nothing, single

KINDS = ("opaque", "sealable", "transactional", "deduplicates", "deduplicates-rejections", "observable", "idempotent")
DEDUPLICATES = ("deduplicates", "deduplicates-rejections")
# Without a memory of its own, a tool applies every copy that reaches it.
NO_MEMORY = ("opaque", "observable", "idempotent")

o, n, m, p, q = Const("o", Op), Const("n", Att), Const("m", Att), Const("p", Proc), Const("q", Proc)
d, e = Const("d", Data), Const("e", Data)


def copy(s, n, p=p):
    """A copy of the attempt may be somewhere: with the process p, or on its way."""
    return Or(s.queued(o, n, p), s.transit(o, n))


def possible(s, kind, n, p=p):
    """The attempt can still take effect."""
    copy_is = copy(s, n, p)
    if kind == "sealable":
        return And(copy_is, Not(s.sealed(o, n)), Not(s.sealedall(o)), Not(s.effected(o)))
    if kind == "transactional":
        return And(copy_is, s.phase(o) == PHASE.of["dispatched"], n == s.att(o))
    if kind in DEDUPLICATES:
        return And(copy_is, Or(s.forgotten(o), And(Not(s.effected(o)), Not(s.rejected(o)))))
    return copy_is


def safety(s, kind):
    """name → property. Each holds in every state of the invariant."""
    once = Implies(single, Not(s.twice(o))) if kind in NO_MEMORY else Not(s.twice(o))
    properties = {
        "at most once": ForAll([o], once),
        "no phantom success": ForAll([o, d], Implies(s.done(o, d), s.effected(o))),
        "no false failure": ForAll([o, n, p, d], Implies(
            s.failed(o, d), And(Not(s.effected(o)), Not(possible(s, kind, n))))),
        "one answer": And(
            ForAll([o, d, e], Implies(And(s.done(o, d), s.done(o, e)), d == e)),
            ForAll([o, d, e], Implies(And(s.failed(o, d), s.failed(o, e)), d == e)),
            ForAll([o, d, e], Not(And(s.done(o, d), s.failed(o, e))))),
        "intent first": ForAll([o, n, p], And(
            Implies(s.queued(o, n, p), s.recorded(o, n)),
            Implies(Or(s.transit(o, n), s.effect(o, n)), s.durable().recorded(o, n)))),
        "unknown blocks": ForAll([o, n, m, p, q], Implies(
            And(Or(possible(s, kind, n), s.effect(o, n)), Or(possible(s, kind, m, q), s.effect(o, m))), n == m)),
    }
    if kind in DEDUPLICATES + ("idempotent",):
        # They are sent again on purpose.
        del properties["unknown blocks"]
    if kind == "idempotent":
        # A second application changes nothing: it is not counted.
        del properties["at most once"]
    return properties


# Of the world alone: the same in both views of the ledger, or less in that of a crash.
WORLD_ONLY = {
    "queues: only of the living", "effects: counted", "good news: only of effects", "once: no second effect",
    "copies: one place at a time", "copies: one sender", "sealable: sealed attempts have no effect",
}


def invariant(s, kind):
    """name → clause. All holds of the ledger as it is read and, again, as a crash would leave it."""
    durable = {f"{name} (durable)": clause for name, clause in view(s.durable(), kind).items() if name not in WORLD_ONLY}
    kept = s.durable()
    return view(s, kind) | durable | {"durable: no more than was written": And(
        ForAll([o, n], Implies(kept.recorded(o, n), s.recorded(o, n))),
        ForAll([o, d], And(Implies(kept.done(o, d), s.done(o, d)), Implies(kept.failed(o, d), s.failed(o, d)))))}


def view(s, kind):
    """The clauses about one view of the ledger."""
    never_sent = Implies(Not(s.sent(o)), And(Not(s.recorded(o, n)), Not(s.effected(o))))
    clauses = {
        "sent: an attempt in the record": ForAll([o], And(
            Implies(s.at(o, ["absent", "created"]), Not(s.sent(o))),
            Implies(s.at(o, ["dispatched", "unknown", "escalated", "confirmed"]), s.sent(o)),
            Implies(And(s.at(o, ["settled"]), Not(s.sent(o))), s.verdict(o) == VERDICT.of["abandoned"]))),
        "attempts: recorded up to the latest": ForAll([o, n], And(
            Implies(s.recorded(o, n), And(s.sent(o), le(n, s.att(o)))),
            Implies(s.sent(o), s.recorded(o, s.att(o))), never_sent)),
        "intent: no copy or effect without a record": ForAll([o, n, p], Implies(
            Or(copy(s, n), s.effect(o, n)), s.recorded(o, n))),
        "queues: only of the living": ForAll([o, n, p], Implies(s.queued(o, n, p), s.alive(p))),
        "effects: counted": ForAll([o, n], Implies(s.effect(o, n), s.effected(o))),
        "good news: only of effects": ForAll([o, n], Implies(Or(s.result(o, n), s.applied(o, n)), s.effected(o))),
        "told done: from the record": ForAll([o, d], Implies(
            s.done(o, d), And(s.ended(o, "succeeded"), s.data(o) == d))),
        "told failed: from the record": ForAll([o, d], Implies(s.failed(o, d), And(s.at(o, ["confirmed", "settled"]), Or(
            And(s.verdict(o) == VERDICT.of["failed"], s.data(o) == d),
            And(s.verdict(o) == VERDICT.of["abandoned"], Not(s.sent(o)), d == nothing))))),
        "succeeded: it happened": ForAll([o], Implies(s.ended(o, "succeeded"), s.effected(o))),
        "failed: it did not happen and can't": ForAll([o, n, p], Implies(
            s.ended(o, "failed"), And(Not(s.effected(o)), Not(possible(s, kind, n))))),
    }
    confirmed = s.phase(o) == PHASE.of["confirmed"]
    clauses["confirmed: by its own transaction only"] = ForAll([o], Implies(
        confirmed, s.verdict(o) == VERDICT.of["succeeded"] if kind == "transactional" else False))
    if kind != "idempotent":
        clauses["once: no second effect"] = safety(s, kind)["at most once"]
    return clauses | OF_KIND[kind](s)


def copies(s):
    """Rule 1: while one dispatch is one delivery, an attempt is in one place only."""
    gone = Or(s.effect(o, n), s.notrun(o, n), And(final, s.error(o, n)))
    return {
        "copies: one place at a time": ForAll([o, n, p], Implies(single, And(
            Implies(s.queued(o, n, p), And(Not(s.transit(o, n)), Not(gone))),
            Implies(s.transit(o, n), Not(gone)),
            Implies(Or(s.notrun(o, n), And(final, s.error(o, n))), Not(s.effect(o, n)))))),
        "copies: one sender": ForAll([o, n, p, q], Implies(And(s.queued(o, n, p), s.queued(o, n, q)), p == q)),
        "copies: news of recorded attempts": ForAll([o, n], Implies(
            Or(s.notrun(o, n), And(final, s.error(o, n))), s.recorded(o, n))),
    }


def over(s):
    """No earlier attempt has happened, nor can."""
    return Implies(n != s.att(o), And(Not(copy(s, n)), Not(s.effect(o, n))))


def doubt(s):
    """Rule 2: while no earlier attempt may apply, the latest is the only one that can."""
    return {"doubt: without it, earlier attempts are over": ForAll([o, n, p], Implies(Not(s.doubt(o)), And(
        over(s), Implies(s.effected(o), s.effect(o, s.att(o))))))}


def latest(s):
    """What happened happened by the latest attempt."""
    return {"effect: by the latest attempt": ForAll([o, n], And(
        Implies(s.effect(o, n), n == s.att(o)), Implies(s.effected(o), s.effect(o, s.att(o)))))}


def opaque(s):
    return copies(s) | latest(s) | {
        "opaque: earlier attempts are over": ForAll([o, n, p], over(s))}


def observable(s):
    return copies(s) | latest(s) | {
        "observable: earlier attempts are over": ForAll([o, n, p], over(s)),
        "observable: quiet means no sender": ForAll([o, p], Implies(
            And(s.phase(o) == PHASE.of["unknown"], s.quiet(o)), Not(s.queued(o, s.att(o), p)))),
        "observable: asked when nothing was on its way": ForAll([o, n, p], Implies(
            s.asked(o, n), And(s.recorded(o, n), Not(copy(s, n))))),
        "observable: not applied is for good": ForAll([o, n, p], Implies(
            s.notapplied(o, n), And(s.recorded(o, n), Not(copy(s, n)), Not(s.effect(o, n))))),
    }


def sealable(s):
    return latest(s) | {
        "sealable: sealed attempts have no effect": ForAll([o, n], And(
            Implies(s.sealed(o, n), Not(s.effect(o, n))), Implies(s.sealedall(o), Not(s.effected(o))))),
        "sealable: earlier attempts are sealed": ForAll([o, n], Implies(
            And(s.recorded(o, n), n != s.att(o)), s.sealed(o, n))),
        "sealable: answers tell of seals": ForAll([o, n, m], And(
            Implies(And(s.sealedto(o, n), le(m, n)), s.sealed(o, m)), Implies(s.sealedop(o, n), s.sealedall(o)))),
    }


def transactional(s):
    return latest(s) | {"transactional: effect and record are one": ForAll([o], Implies(
        s.effected(o), s.ended(o, "succeeded")))}


def deduplicates(s):
    # What was sent after that is an attempt after one that did not run: the only one that can happen.
    return copies(s) | doubt(s) | {"deduplicates: forgotten when no copy could come": ForAll([o, n, p], Implies(
        s.forgotten(o), And(s.sent(o), Implies(copy(s, n), And(single, Not(s.doubt(o)))))))}


def rejections(s):
    return deduplicates(s) | {"deduplicates: rejections are remembered": ForAll([o, n], And(
        Implies(s.rejected(o), And(final, s.sent(o), Not(s.effected(o)))), Implies(And(final, s.error(o, n)), s.rejected(o)),
        Implies(And(single, s.rejected(o), Not(s.doubt(o))), s.error(o, s.att(o))),
        Implies(And(single, final, s.error(o, n)), Not(s.notrun(o, n)))))}


OF_KIND = {
    "opaque": opaque, "observable": observable, "idempotent": lambda s: copies(s) | doubt(s), "sealable": sealable,
    "transactional": transactional, "deduplicates": deduplicates, "deduplicates-rejections": rejections,
}


def initial(s):
    """Nothing has happened; any processes live."""
    none = [s.recorded(o, n), s.queued(o, n, p), s.transit(o, n), s.effect(o, n), s.effected(o), s.twice(o)]
    none += [getattr(s, name)(o, n) for name in (
        "result", "notrun", "error", "asked", "sealasked", "sealallasked", "applied", "notapplied", "sealedto", "sealedop",
        "sealed")]
    none += [s.sealedall(o), s.rejected(o), s.forgotten(o), s.done(o, d), s.failed(o, d), s.sent(o), s.doubt(o)]
    same = [s.functions[f"durable.{name}"](*arguments) == s.functions[name](*arguments)
            for name, sorts in LEDGER.items()
            for arguments in [[{Op: o, Att: n, Data: d}[sort] for sort in sorts[:-1]]]]
    return ForAll([o, n, p, d], And(s.phase(o) == PHASE.of["absent"], *[Not(fact) for fact in none], *same))


BACKGROUND = ORDER
