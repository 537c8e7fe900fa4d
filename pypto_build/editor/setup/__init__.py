"""What editors, shells and CI need to know of a workspace, merged into what the user has."""
