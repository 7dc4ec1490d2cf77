"""One covariate: kernels with a finite state, and everything about their fits in O(n)."""
