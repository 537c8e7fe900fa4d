"""`pypto-build conformance`: tests which known answer a device gives where devices and simulators may differ."""
