"""Translation of .pto functions to the C++ that the tile instruction headers compile."""
