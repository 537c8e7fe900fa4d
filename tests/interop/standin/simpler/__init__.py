"""A stand-in with the interface of simpler's package, one generation of it at a time (PYPTO_STANDIN_VINTAGE).

It checks the adapters where simpler is not installed. A name, an argument or an option that this generation does not
have is an error.
"""

import os

VINTAGE = os.environ.get("PYPTO_STANDIN_VINTAGE", "2026-08")
