"""Names of directories in the debug information of a binary: the same names on every machine."""

HEADERS = "/pypto-build/include"
ARTIFACT = "/pypto-build/artifact"
OUTPUT = "/pypto-build/output"
WORKSPACE = "/pypto-build/workspace"
SIMPLER = "/pypto-build/simpler"
PTO_ISA = "/pypto-build/pto-isa"
INSTRUCTIONS = "/pypto-build/instructions"

#: Beginning of the flag that renames a directory for a compiler. The old flag renames it in debug information alone;
#: every compiler knows it.
FLAG, OLD_FLAG = "-ffile-prefix-map=", "-fdebug-prefix-map="
