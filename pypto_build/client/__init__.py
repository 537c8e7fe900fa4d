"""The client of the resident process: finds its socket and sends commands. Every command pays for these few imports."""
