"""What readers make of files that somebody damaged: a table of readers, mutations of their files, and a fuzzer."""
