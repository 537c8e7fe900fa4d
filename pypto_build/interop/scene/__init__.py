"""Scene tests without simpler: their files are executed in processes of their own, with stand-ins for its packages."""
