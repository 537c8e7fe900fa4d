"""Control flow: loops, conditions, calls, returns, and regions for one core."""

from __future__ import annotations

from .spec import define

# scf.for, scf.if and scf.while have readers of their own (parser_control); roles and effects are defined here all the
# same
define(
    "scf.for", "lower:index upper:index step:index init*:any", formats="scf.for", results=-1, family="control", fn="for"
)
define("scf.if", "cond:bool", formats="scf.if", results=-1, family="control", fn="if")
define("scf.while", "init*:any", formats="scf.while", results=-1, family="control", fn="while")
define("scf.yield", "args*:any", formats="V:args", family="control", fn="yield")
define("scf.condition", "cond:bool args*:any", formats="~( $cond ) V:args", family="control", fn="condition")
for _name in ("func.call", "call"):
    define(
        _name, "args*:any", formats="A:callee ~( $args ) [? : F ?]", attrs="callee!=symbol", results=-1,
        family="control", fn="call",
    )  # fmt: skip
for _name in ("return", "func.return"):
    define(_name, "args*:any", formats="V:args", family="control", fn="return")
for _core in ("cube", "vector"):
    define(f"pto.section.{_core}", formats="R", family="control", fn="section", core=_core)
