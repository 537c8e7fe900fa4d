"""`scons pack`: a run in one file, with all that it takes to repeat it elsewhere."""
