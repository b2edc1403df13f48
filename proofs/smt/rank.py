"""Convergence, read off the table: a rank that no step raises, that each step of the shell lowers, and nothing gets stuck.

The rank of an operation is (attempts that its budget still allows, place in its life, questions that its budget still
allows), compared in this order. All three are finite, so an operation takes only finitely many steps that lower it.
"""

import itertools

# A place in life is left only for one with a lower number, unless another attempt begins.
PLACE = {"absent": 7, "created": 6, "dispatched": 5, "unknown": 4, "unknown quiet": 3, "escalated": 2, "confirmed": 1,
         "settled": 0}


def rises(row):
    """Why this row may raise the rank, or leave it as it is without a reason; nothing if all is well."""
    stored = row["then"].get("store")
    if not stored or stored["operation"] == "new":
        return None
    if stored.get("attempt") == "next":
        # The first component: one attempt less is left.
        return None if row["event"].get("retry-left") == ["yes"] else "an attempt beyond the budget"
    to = PLACE[stored["phase"]]
    for phase in row["state"]["phase"]:
        for quiet in row["state"].get("quiet", ["no", "yes"]) if phase == "unknown" else ["no"]:
            was = PLACE["unknown quiet" if quiet == "yes" else phase]
            now = PLACE["unknown quiet"] if stored.get("quiet") == "now" or (
                stored.get("quiet") == "same" and quiet == "yes") else to
            if now > was:
                return f"{phase} goes back to {stored['phase']}"
            if now == was and not (is_question(row, stored) or is_delivery(row, stored)):
                return f"{phase} is stored again for no reason"
    return None


def is_question(row, stored):
    """One question less is left; or none was, and a person is told."""
    return stored.get("checks") == "more" and (
        row["event"].get("checks-left") == ["yes"] or any(a["do"] == "escalate" for a in row["then"]["actions"]))


def is_delivery(row, stored):
    """Of an ended operation only the mark of delivery changes, at a caller's doing."""
    by_caller = row["event"]["what"][0] in ("call", "delivered")
    return stored["phase"] == "settled" and stored["verdict"] == "same" and by_caller


def stuck(table, kind):
    """Valuations of open states in which taking an operation further does nothing at all."""
    rows = [row for row in table.of_kind(kind) if "resume" in row["event"]["what"]]
    dims = [("policy", name) for name in ("errors", "delivery", "ends")]
    dims += [("event", name) for name in ("undisturbed", "retry-left", "within-limit", "settling-over")]
    states = {"created": [], "dispatched": ["doubt"], "unknown": ["doubt", "cause", "quiet"], "confirmed": ["doubt", "verdict"]}
    for phase, fields in states.items():
        all_dims = dims + [("state", name) for name in fields]
        for values in itertools.product(*(table.domain(group, name) for group, name in all_dims)):
            at = dict(zip(all_dims, values)) | {
                ("state", "phase"): phase, ("event", "take-over"): "yes", ("event", "sender-done"): "yes"}
            if at.get(("state", "verdict")) == "abandoned":
                continue
            if not any(moves_on(row) and matches(row, at) for row in rows):
                # An error that was delivered may be all that is said of a key that frees itself with it.
                on_delivery = at["policy", "ends"] == "on-delivery" and at.get(("state", "cause")) == "error"
                if not (kind == "opaque" and on_delivery):
                    yield at


def moves_on(row):
    return "store" in row["then"] or any(a["do"] in ("observe", "seal", "escalate") for a in row["then"].get("actions", []))


def matches(row, at):
    return all(at[group, name] in values for group in ("policy", "state", "event")
               for name, values in row[group].items() if name not in ("tool", "what"))


def check(table, kinds):
    """(name, whether it holds, why not)."""
    bad = sorted({f"{why}: {row}" for row in table.rows if (why := rises(row))})
    yield "no step raises the rank; each write lowers it", not bad, bad[:3]
    for kind in kinds:
        at = list(itertools.islice(stuck(table, kind), 3))
        yield f"{kind}: an open operation can always be taken further", not at, at


def reopened(rows):
    for row in rows:
        if row["state"].get("phase") == ["settled"] and "store" in row["then"] and row["then"]["store"]["operation"] == "same":
            row["then"]["store"]["phase"] = "unknown"


def beyond_budget(rows):
    for row in rows:
        row["event"].pop("retry-left", None)


def busy_for_ever(rows):
    for row in rows:
        if "reply" in row["event"]["what"]:
            row["event"].pop("retry-left", None)


def never_resumed(rows):
    rows[:] = [row for row in rows if not (row["state"].get("phase") == ["unknown"] and "resume" in row["event"]["what"])]


def asked_for_ever(rows):
    for row in rows:
        row["then"]["actions"] = [a for a in row["then"].get("actions", []) if a["do"] != "escalate"]


# Errors that the checks above must notice.
MUTANTS = {edit.__name__: edit for edit in (reopened, beyond_budget, busy_for_ever, never_resumed, asked_for_ever)}
