"""The transition relation as the core generated it: loading, grouping into moves, and the edits that mutants make."""

import copy
import json
from pathlib import Path

FILE = Path(__file__).with_name("relation.json")
# What the proofs read of a row. A row that says more must not be passed over.
STORED = {
    "operation", "fingerprint", "created", "phase", "attempt", "owner", "at", "first", "doubt", "data", "cause",
    "checks", "quiet", "verdict", "settled-at", "delivered",
}
DONE = {"dispatch", "observe", "seal", "answer", "wait", "escalate", "refuse"}


class TableError(Exception):
    """The table says something that the proofs have no meaning for."""


class Table:
    def __init__(self, path=FILE):
        whole = json.loads(Path(path).read_text())
        self.pairs, self.values, self.rows = whole["pairs"], whole["values"], whole["rows"]
        for row in self.rows:
            for group in ("policy", "state", "event"):
                row.setdefault(group, {})
            unknown = set(row["then"]) - {"store", "forget", "actions"}
            unknown |= set(row["then"].get("store", {})) - STORED
            unknown |= {action["do"] for action in row["then"].get("actions", [])} - DONE
            if unknown:
                raise TableError(f"the proofs give no meaning to {sorted(unknown)} in {row}")

    def domain(self, group, name):
        return self.values[group][name]

    def of_kind(self, kind):
        """The rows of a tool kind."""
        return [row for row in self.rows if kind in row["policy"].get("tool", self.domain("policy", "tool"))]

    def edited(self, edit):
        """A copy after `edit(rows)`, a function that changes the list of rows in place."""
        table = copy.copy(self)
        table.rows = copy.deepcopy(self.rows)
        edit(table.rows)
        return table

    def structure(self):
        """Facts about the table itself, which the formulas rest on: (name, whether it holds)."""
        fresh = {
            json.dumps(row["then"], sort_keys=True)
            for row in self.rows if row["state"].get("phase") == ["absent"] and "store" in row["then"]
        }
        begins = [row for row in self.rows if row["then"].get("store", {}).get("operation") == "new"]
        has_of = ("reply", "lost", "observed", "committed", "delivered")
        named = [row for row in self.rows if set(row["event"]["what"]) & set(has_of)]
        return [
            ("news of another operation changes nothing",
             all("another-operation" not in row["event"].get("of", ["another-operation"]) for row in named)),
            ("a new operation begins as the first one does, whatever was before",
             all(json.dumps(row["then"], sort_keys=True) in fresh for row in begins)),
            ("only a settled operation is forgotten",
             all(row["state"].get("phase") == ["settled"] for row in self.rows if "forget" in row["then"])),
        ]


def moves(rows):
    """Rows that do the same on the same kind of event make one move: name → rows."""
    grouped = {}
    for row in rows:
        if changes_nothing(row["then"]) or row["then"].get("store", {}).get("operation") == "new" and (
            row["state"].get("phase") != ["absent"]
        ):
            # A new operation under a used key is a move of that new operation: the row of `absent`.
            continue
        variants = grouped.setdefault(name(row), {})
        variants.setdefault(json.dumps(consequence(row), sort_keys=True), []).append(row)
    named = {}
    for move, variants in grouped.items():
        shared = set.intersection(*(set(flat(rows[0])) for rows in variants.values()))
        for rows in variants.values():
            differs = sorted(set(flat(rows[0])) - shared)
            named[move + (f" ({', '.join(differs)})" if differs else "")] = rows
    return named


def consequence(row):
    """The part of a row's consequence that formulas are built from."""
    stored = {k: v for k, v in row["then"].get("store", {}).items()
              if k not in ("fingerprint", "created", "at", "first", "checks", "settled-at")}
    actions = [a for a in row["then"].get("actions", [])
               if a["do"] in ("dispatch", "observe", "seal") or a.get("tell") in ("done", "failed")]
    return stored, [{k: v for k, v in a.items() if k != "replayed"} for a in actions]


def flat(row):
    """The same as short words, to tell moves apart."""
    stored, actions = consequence(row)
    return [f"{k}: {v}" for k, v in stored.items()] + [
        f"{a['do']} {a.get('tell', '')} {k}: {v}" for a in actions for k, v in a.items() if k not in ("do", "tell")]


def changes_nothing(then):
    """Whether it neither stores, sends, asks the tool nor gives a definite answer."""
    return "store" not in then and not any(
        action["do"] in ("dispatch", "observe", "seal") or action.get("tell") in ("done", "failed")
        for action in then.get("actions", [])
    )


def name(row):
    """For example: `unknown + observed sealed-attempts → dispatched next, dispatch`."""
    event, then = row["event"], row["then"]
    what = " ".join(event["what"])
    for detail in ("reply", "seen", "decision"):
        if detail in event:
            what += " " + "/".join(event[detail])
    parts = []
    if "store" in then:
        stored = then["store"]
        parts.append(stored["phase"] + "".join(
            f" {stored[field]}" for field in ("verdict", "cause", "attempt") if stored.get(field, "same") != "same"
        ))
        if stored.get("quiet") == "now":
            parts[-1] += " quiet"
    for action in then.get("actions", []):
        if action["do"] in ("dispatch", "observe", "seal"):
            detail = action.get("scope") or {"yes": "conclusive", "no": "early"}.get(action.get("conclusive"), "")
            parts.append(f"{action['do']} {detail}".strip())
        elif action.get("tell") in ("done", "failed"):
            parts.append(f"told {action['tell']}")
    phase = "/".join(row["state"].get("phase", ["any"])) + (" unsent" if row["state"].get("sent") == ["no"] else "")
    return f"{phase} + {what} → {', '.join(parts)}"
