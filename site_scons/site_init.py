"""SCons says nothing of reading SConscripts here: what is shown is the tool's."""

from SCons.Script.Main import progress_display

progress_display.set_mode(0)
