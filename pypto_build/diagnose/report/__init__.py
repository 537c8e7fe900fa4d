"""The report: one HTML file about one run, readable without network."""
