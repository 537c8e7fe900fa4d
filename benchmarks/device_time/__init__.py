"""Predictions of `scons speed` beside times that were measured on devices."""
