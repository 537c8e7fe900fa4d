"""A stand-in with the interface of simpler's package, one generation of it at a time (PYPTO_STANDIN_VINTAGE).

It keeps the adapters honest where simpler is not there: a name, an argument or an option that this generation does not
have is an error, as it would be.
"""

import os

VINTAGE = os.environ.get("PYPTO_STANDIN_VINTAGE", "2026-08")
