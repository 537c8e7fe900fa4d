"""Files that tell editors, shells and CI about a workspace, merged into the user's own."""
