"""Parts of generated PyTorch.

These modules are read as text: a generated file starts with the parts it uses, so it runs without this package. They
import nothing but torch and the standard library.
"""
