"""Files to cells: opened, sniffed, and read row by row."""
