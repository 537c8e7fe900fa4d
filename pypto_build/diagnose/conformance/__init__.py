"""`pypto-build conformance`: which of the known answers a device gives where it and simulators may differ."""
