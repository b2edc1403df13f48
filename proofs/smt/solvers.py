"""Both solvers on the same SMT-LIB text."""

import importlib.metadata

import cvc5
import z3

LIMIT_S = 40
# Its answers come in seconds on a quiet machine; on a busy one the wait is longer.
Z3_LIMIT_S = 180


def text(formulas):
    """The formulas as SMT-LIB 2, with everything that they use declared."""
    solver = z3.Solver()
    solver.add(*formulas)
    return solver.to_smt2()


def by_z3(smt):
    solver = z3.Solver()
    solver.set("timeout", Z3_LIMIT_S * 1000)
    solver.from_string(smt)
    return str(solver.check())


def by_cvc5(smt):
    # The first is quick at "unsat"; only the second finds a model where there is one.
    for option in ("full-saturate-quant", "finite-model-find"):
        answer = cvc5_with(option, smt)
        if answer in ("sat", "unsat"):
            break
    return answer


def cvc5_with(option, smt):
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("tlimit-per", str(LIMIT_S * 500))
    solver.setOption(option, "true")
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, "(set-logic ALL)\n" + smt, "obligation")
    answer = ""
    while True:
        command = parser.nextCommand()
        if command.isNull():
            return answer
        answer = command.invoke(solver, parser.getSymbolManager()).strip() or answer


SOLVERS = {"z3": by_z3, "cvc5": by_cvc5}


def versions():
    """name → version."""
    return {"z3": z3.get_version_string(), "cvc5": importlib.metadata.version("cvc5")}
