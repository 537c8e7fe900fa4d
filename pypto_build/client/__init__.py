"""How a command finds the resident process and asks it; few modules are loaded for that, since every command pays."""
