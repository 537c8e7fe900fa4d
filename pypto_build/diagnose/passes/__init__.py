"""`scons passes`: what each pass of a compilation changed, and the first one after which the program is wrong."""
