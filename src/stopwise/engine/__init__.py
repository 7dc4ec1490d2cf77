"""How is all that had from n rows? Products, eigenvalues, solves, landmarks, devices; last, the solvers."""
