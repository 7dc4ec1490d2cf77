"""What "auto" chooses: kernel, length scales, and the table of what was tried."""
