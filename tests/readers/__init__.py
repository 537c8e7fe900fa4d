"""Readers of damaged files: a table of readers, mutations of their files, and a fuzzer."""
