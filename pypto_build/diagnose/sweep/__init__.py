"""Many inputs against the reference: which fail, the smallest of them, and how large errors get."""
