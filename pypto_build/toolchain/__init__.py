"""Platform to compiler command lines."""
