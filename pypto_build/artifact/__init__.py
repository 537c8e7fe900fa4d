"""What an artifact is: layout, manifest, signatures, vintages, snapshot."""
