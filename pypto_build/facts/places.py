"""What the debug information of a binary calls directories of a machine, so that it is the same wherever these lie."""

HEADERS = "/pypto-build/include"
ARTIFACT = "/pypto-build/artifact"
OUTPUT = "/pypto-build/output"
WORKSPACE = "/pypto-build/workspace"
SIMPLER = "/pypto-build/simpler"
PTO_ISA = "/pypto-build/pto-isa"
INSTRUCTIONS = "/pypto-build/instructions"

#: Begins the flag by which a compiler calls a directory so; of several that fit, the last counts.
FLAG = "-ffile-prefix-map="
