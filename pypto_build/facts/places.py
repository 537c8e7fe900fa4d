"""What the debug information of a binary calls directories of a machine, so that it is the same wherever these lie."""

HEADERS = "/pypto-build/include"
ARTIFACT = "/pypto-build/artifact"
OUTPUT = "/pypto-build/output"
WORKSPACE = "/pypto-build/workspace"
SIMPLER = "/pypto-build/simpler"
PTO_ISA = "/pypto-build/pto-isa"
INSTRUCTIONS = "/pypto-build/instructions"

#: Begins the flag by which a compiler calls a directory so. The other one is for debug information alone, and known to
#: every compiler.
FLAG, OLD_FLAG = "-ffile-prefix-map=", "-fdebug-prefix-map="
