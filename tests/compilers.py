"""The compilers of the supported matrix, by the names that distributions give them."""

COMPILERS = [
    *(f"g++-{version}" for version in range(10, 15)),
    *(f"clang++-{version}" for version in range(15, 20)),
]
